"""Conformance: wrong arguments of MAML, of linear networks and of kernels, are refused in sentences."""

# Wrong types are the matter of this file.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scalewise import limits as lim

pytestmark = pytest.mark.usefixtures("as_users_have_it")
Refusals = list[tuple[Callable[[], Any], type[Exception], str]]

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
    (tasks(support_class=[[0.0, 1.0]]), ValueError, "`Tasks.support_class` must be .* whole numb"),
    (tasks(query_class=[[0, -1]]), ValueError, "`Tasks.query_class` must hold classes from 0 on"),
    (
        tasks(support=X[None, :0], support_class=CLASSES[:, :0]),
        ValueError,
        r"`Tasks.support` needs at least one task, one sample .* got shape \(1, 0, 2\)",
    ),
    (tasks(query=NAN[None]), ValueError, "`Tasks.query` must hold finite numbers only"),
    (tasks(support=X), ValueError, r"`Tasks.support` must be .* \(task, support, input\); got sh"),
    (tasks(support=[[[1.0], []]]), ValueError, "`Tasks.support` must be an array of real numbers"),
    (
        lambda: lim.maml.Maml(rate="a"),
        ValueError,
        "`Maml.rate` must be finite and at least 0; got 'a'",
    ),
    (lambda: lim.maml.Maml(clip="a"), ValueError, "`Maml.clip` is the largest norm .* got 'a'"),
    (
        lambda: lim.maml.gram_net(GRAM),
        TypeError,
        "`net` must be a LinearNet, such as .* got GramNet",
    ),
    (lambda: lim.maml.gram_net(TWO, dtype="foo"), ValueError, "`dtype` must be float64 or float32"),
    (
        lambda: lim.maml.GramNet(X, X, np.eye(3), 1.0),
        ValueError,
        r"`GramNet.M` of shape \(2, 2\) needs `A` and `C` square, .* got \(2, 2\) and \(3, 3\)",
    ),
    (
        lambda: lim.maml.GramNet(NAN, X, X, 1.0),
        ValueError,
        "`GramNet.M` must hold finite numbers only",
    ),
    (
        lambda: lim.maml.adapted_outputs("net", FEW),
        TypeError,
        "`net` must be a GramNet or a LinearNet;",
    ),
    (lambda: lim.maml.adapted_outputs(GRAM, X), TypeError, "`tasks` must be Tasks; got ndarray"),
    (
        lambda: lim.maml.adapted_outputs(GRAM, FEW, steps=1.5),
        ValueError,
        "`steps` must be a whole num",
    ),
    (lambda: lim.maml.step(GRAM, FEW, 0.1), TypeError, "`settings` must be Maml settings; got flo"),
    (
        lambda: lim.maml.bias_response(X, FEW, 0.1),
        TypeError,
        "`net` must be a GramNet or a LinearNet",
    ),
    (
        lambda: lim.maml.accuracies(X[None], [[0]]),
        ValueError,
        r"one class for each query .* \(1, 1\) and",
    ),
    (lambda: lim.maml.accuracies(X, [[0, 1]]), ValueError, r"`outputs` .* \(task, query, output\)"),
    (
        lambda: lim.maml.accuracies(NAN[None], [[0, 1]]),
        ValueError,
        "`outputs` must hold finite numbers",
    ),
    (
        lambda: lim.maml.accuracies(X[None], [[0.0, 1.0]]),
        ValueError,
        "`classes` must be .* whole number",
    ),
]
GP = lim.maml.ReluGP()
KERNEL_MAML: Refusals = [
    (
        lambda: lim.maml.kernel_model("relu", 2, 2),
        TypeError,
        r"`kernel` must be .* ReluGP.*got 'relu'",
    ),
    (
        lambda: lim.maml.kernel_model(GP, 2.5, 2),
        ValueError,
        "`inputs` must be a whole number .* got 2.5",
    ),
    (
        lambda: lim.maml.kernel_model(GP, 2, 2, dtype=int),
        ValueError,
        "`dtype` must be float64 or float",
    ),
    (
        lambda: lim.maml.ReluGP("a"),
        ValueError,
        "`ReluGP.sigma_u` must be finite and at least 0; got 'a'",
    ),
    (lambda: GP(NAN, X), ValueError, "`x` must hold finite numbers only"),
    (lambda: GP(X, "x"), ValueError, "`y` must be an array of real numbers"),
    (lambda: GP(X, np.eye(3)), ValueError, r"equally many features, .* \(2, 2\) and \(3, 3\)"),
    (lambda: lim.maml.ReluNTK()(X, X[0]), ValueError, r"equally many axes .* \(2, 2\) and \(2,\)"),
    (lambda: GP(1e200 * X, X), ValueError, "kernel overflows at these inputs. Scale"),
    (lambda: MODEL.extended(NAN, X), ValueError, "`x` must hold finite numbers only"),
    (
        lambda: lim.maml.kernel_outputs("model", X),
        TypeError,
        "`model` must be a KernelModel, such as",
    ),
    (
        lambda: lim.maml.kernel_outputs(MODEL, X[0]),
        ValueError,
        r"`x` must be .* \(sample, feature\)",
    ),
    (other(lambda x, y: 1.0), ValueError, r"each pair of rows, shape \(2, 2\); got shape \(\)"),
    (other(lambda x, y: x @ y.T * math.nan), ValueError, "each pair of rows.* not finite: scale"),
    (lambda: lim.maml.kernel_adapted_outputs(MODEL, X), TypeError, "`tasks` must be Tasks"),
    (
        lambda: lim.maml.kernel_adapted_outputs(MODEL, FEW, steps=0.5),
        ValueError,
        "`steps` must be a whole number of at least 0; got 0.5",
    ),
    (
        lambda: lim.maml.kernel_adapted_outputs(MODEL, FEW, inner_rate=math.nan),
        ValueError,
        "`inner_rate` must be finite and at least 0; got nan",
    ),
    (lambda: lim.maml.kernel_step(MODEL, FEW, 0.1), TypeError, "`settings` must be Maml settings"),
    (lambda: lim.maml.kernel_step(MODEL, X, STEP), TypeError, "`tasks` must be Tasks"),
]


@pytest.mark.parametrize(("call", "error", "match"), MAML + KERNEL_MAML)
def test_refused(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_lists_are_as_good_as_arrays() -> None:
    same = lim.maml.Tasks([X.tolist()], [[0, 1]], [X.tolist()], [[0, 1]])
    np.testing.assert_array_equal(
        lim.maml.adapted_outputs(GRAM, same), lim.maml.adapted_outputs(GRAM, FEW)
    )
    assert lim.maml.accuracies([X.tolist()], [[0, 1]]).tolist() == [1.0]
