"""Conformance: wrong arguments of MAML, of linear networks and of kernels, are refused in sentences."""

# Wrong types are the matter of this file.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refusals import Refusals, unlike
from scalewise import limits as lim

X = np.array([[1.2, 0.3], [-0.4, 1.0]])
NAN = X * math.nan


CLASSES = np.array([[0, 1]])
FEW = lim.maml.Tasks(X[None], CLASSES, X[None], CLASSES)
TWO = lim.linear.limit(2, 2)
HUGE = 1e200 * X[None]
GRAM = lim.maml.gram_net(TWO)
MODEL = lim.maml.kernel_model(lim.maml.ReluGP(), 2, 2)
STEP = lim.maml.Maml()


def tasks(**change: Any) -> Callable[[], Any]:
    given = {"support": X[None], "support_class": CLASSES, "query": X[None], "query_class": CLASSES}
    return lambda: lim.maml.Tasks(**{**given, **change})


def other(kernel: Any) -> Callable[[], Any]:
    model = lim.maml.kernel_model(kernel, 2, 2).extended(X, X)
    return lambda: lim.maml.kernel_outputs(model, X)


MAML: Refusals = [
    (tasks(query_class=[[0, -1]]), "`Tasks.query_class` must hold classes from 0 on"),
    (
        tasks(support=X[None, :0], support_class=CLASSES[:, :0]),
        r"`Tasks.support` needs at least one task, one sample .* got shape \(1, 0, 2\)",
    ),
    (tasks(query=NAN[None]), "`Tasks.query` must hold finite numbers only"),
    (
        lambda: lim.maml.GramNet(X, X, np.eye(3), 1.0),
        r"`GramNet.M` of shape \(2, 2\) needs `A` and `C` square, .* got \(2, 2\) and \(3, 3\)",
    ),
    (lambda: lim.maml.GramNet(NAN, X, X, 1.0), "`GramNet.M` must hold finite numbers only"),
    (lambda: lim.maml.accuracies(X[None], [[0]]), r"one class for each query .* \(1, 1\) and"),
    (lambda: lim.maml.accuracies(NAN[None], [[0, 1]]), "`outputs` must hold finite numbers"),
]
GP = lim.maml.ReluGP()
KERNEL_MAML: Refusals = [
    (lambda: lim.maml.kernel_model(GP, 2, 2, dtype=int), "`dtype` must be float64 or float"),
    (lambda: GP(NAN, X), "`x` must hold finite numbers only"),
    (lambda: GP(X, np.eye(3)), r"equally many features, .* \(2, 2\) and \(3, 3\)"),
    (lambda: lim.maml.ReluNTK()(X, X[0]), r"equally many axes .* \(2, 2\) and \(2,\)"),
    (lambda: GP(1e200 * X, X), "kernel overflows at these inputs. Scale"),
    (lambda: MODEL.extended(NAN, X), "`x` must hold finite numbers only"),
    (other(lambda x, y: 1.0), r"each pair of rows, shape \(2, 2\); got shape \(\)"),
    (other(lambda x, y: x @ y.T * math.nan), "each pair of rows.* not finite: scale"),
    (
        lambda: lim.maml.kernel_adapted_outputs(MODEL, FEW, inner_rate=math.nan),
        r"`inner_rate` must be a number from 0 to 1e100; got nan\.",
    ),
]


def test_what_has_no_answer_is_refused() -> None:
    assert unlike(MAML + KERNEL_MAML) == []


def test_lists_are_as_good_as_arrays() -> None:
    same = lim.maml.Tasks([X.tolist()], [[0, 1]], [X.tolist()], [[0, 1]])
    np.testing.assert_array_equal(
        lim.maml.adapted_outputs(GRAM, same), lim.maml.adapted_outputs(GRAM, FEW)
    )
    assert lim.maml.accuracies([X.tolist()], [[0, 1]]).tolist() == [1.0]
