"""Conformance: what a newcomer may give by mistake is refused in a sentence that says what to do."""

# Wrong types are the matter of this file.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jaxtyping
import numpy as np
import pytest

from scalewise.limits import (
    SGD,
    Loss,
    Network,
    Task,
    deep_linear_limit,
    exact,
    finite,
    gram_net,
    infinite,
    lazy,
    linear_limit,
    reference,
    run,
    shallow,
    train,
)
from scalewise.limits.program import Training
from scalewise.scaling import mup

Refusals = list[tuple[Callable[[], Any], type[Exception], str]]

X, Y = np.array([[1.2, 0.3], [-0.4, 1.0]]), np.array([1.0, -1.0])
TASK, NET, SGD_ = Task(X, Y), Network(mup(depth=3), "tanh"), SGD(0.5)
ON: Any = {"on": finite(8)}


@pytest.fixture(autouse=True)
def as_users_have_it() -> Iterator[None]:
    """Annotations are checked in tests only; a user meets the messages."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def refused(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def program(f: Callable[..., Any], on: Any = None) -> Callable[[], Any]:
    return lambda: run(lambda space: {"m": f(space)}, on or lazy(16))


any_: Any = None  # what types would forbid
BACKENDS: Refusals = [
    (lambda: finite(2.5), ValueError, "`n` must be a whole number of at least 1; got 2.5"),
    (lambda: finite(math.inf), ValueError, "`n` must be a whole number of at least 1; got inf"),
    (lambda: finite("8"), ValueError, "`n` must be a whole number of at least 1; got '8'"),
    (lambda: finite(True), ValueError, "`n` must be a whole number"),
    (lambda: finite(-3), ValueError, "`n` must be at least 1; got -3"),
    (lambda: finite(8, seed=None), ValueError, "`seed` must be a whole number of at least 0"),
    (lambda: lazy(8, replicas=1.5), ValueError, "`replicas` must be a whole number"),
    (lambda: finite(8, dtype="foo"), ValueError, "`dtype` must be float64 or float32; got 'foo'"),
    (lambda: lazy(8, compression="a"), ValueError, "`compression` must lie between 0 and 1"),
    (lambda: infinite("0.1"), ValueError, "`tolerance` must be positive and finite; got '0.1'"),
    (lambda: infinite(0.1, start=100.0), ValueError, "`start` must be a whole number"),
    (lambda: reference("a"), ValueError, "`samples` must be a whole number of at least 2"),
]
NETWORKS: Refusals = [
    (lambda: Network("mup", "tanh"), TypeError, r"such as sw\.scaling\.mup\(\).*got str 'mup'"),
    (lambda: Network(mup, "tanh"), TypeError, "`strategy` must be a strategy.*got function"),
    (
        lambda: Network(mup(depth=3), "tanh", C_W="abc"),
        ValueError,
        "`C_W` must be an array of real",
    ),
    (lambda: Network(mup(depth=3), "tanh", C_W=np.ones((3, 2))), ValueError, "`C_W` needs one"),
    (lambda: Task([[1.0, 2.0], [1.0]], Y), ValueError, "rows of one length; got list"),
    (lambda: Task([["a", "b"]], [1.0]), ValueError, "`inputs` must be an array of real numbers"),
    (lambda: Task(X * 1j, Y), ValueError, "`inputs` must be an array of real numbers"),
    (lambda: Task(X, np.empty((2, 0))), ValueError, "`targets` must have one row for each of 2"),
    (lambda: Task(X, [0, 1], loss="logistic"), ValueError, "Take 2 y - 1 of targets 0 and 1"),
    (lambda: Task(X, [0, 1], loss="cross_entropy"), ValueError, "Take np.eye.classes..labels."),
    (lambda: Task(X, [[1, 1], [1, 0]], loss="cross_entropy"), ValueError, "rows that sum to 1"),
    (lambda: Task(X, Y, loss=lambda f, y: f), TypeError, r"or a Loss\(value, gradient\); got func"),
    (lambda: SGD("0.1"), ValueError, "`eta` must be positive and finite; got '0.1'"),
    (lambda: SGD(np.array([0.1, 0.2])), ValueError, "`eta` must be positive and finite"),
]
TRAINING: Refusals = [
    (lambda: train("net", TASK, SGD_, steps=1, **ON), TypeError, "`net` must be a Network"),
    (lambda: train(NET, X, SGD_, steps=1, **ON), TypeError, "`task` must be a Task of .*ndarray"),
    (lambda: train(NET, TASK, 0.5, steps=1, **ON), TypeError, r"must be SGD\(eta\); got float 0.5"),
    (lambda: train(NET, TASK, SGD_, steps=1, on=64), TypeError, r"finite\(n\), lazy.*got int 64"),
    (lambda: train(NET, TASK, SGD_, steps=1, on=exact()), TypeError, r"or infinite\(tolerance\)"),
    (lambda: train(NET, TASK, SGD_, steps=2.5, **ON), ValueError, "`steps` must be a whole number"),
    (lambda: train(NET, TASK, SGD_, steps="2", **ON), ValueError, "`steps` must be a whole number"),
]
PROGRAMS: Refusals = [
    (lambda: run(lambda s: {}, lazy(8)), TypeError, "at least one; got an empty one"),
    (lambda: run(lambda s: None, lazy(8)), TypeError, "dictionary of scalars by name.*NoneType"),
    (lambda: run(any_, lazy(8)), TypeError, "`program` must be a function of a space"),
    (lambda: run(lambda s: {"m": 1.0}, "lazy"), TypeError, r"`on` must be finite.*got str 'lazy'"),
    (program(lambda s: "abc"), TypeError, "returns scalars by name, or lists of them; got str"),
    (program(lambda s: math.nan), ValueError, "A program returned nan"),
    (program(lambda s: [[1.0], [1.0, 2.0]]), ValueError, "parts are of unequal length"),
    (program(lambda s: np.tanh(s.vector())), TypeError, r"Write apply\(np.tanh, x\)"),
    (program(lambda s: s.vector() + np.ones(16)), TypeError, "array and a vector of the program"),
    (program(lambda s: s.vector() / s.vector()), TypeError, r"write apply\(np.divide, x, y\)"),
    (program(lambda s: 1 / s.vector()), TypeError, r"write apply\(np.divide, x, y\)"),
    (program(lambda s: s.matrix("W") * s.vector()), TypeError, "only multiplies vectors, with @"),
    (program(lambda s: s.matrix("W") + s.matrix("V")), TypeError, "Scale or add the products"),
    (program(lambda s: s.scalar(1e200) ** 3), ValueError, "a power of 3 overflows"),
    (program(lambda s: s.scalar(-1.0) ** 0.5), ValueError, "is not finite"),
    (program(lambda s: s.mean(s.vector() ** 0.5)), ValueError, "is not finite: nan"),
    (
        program(lambda s: s.mean(s.apply(np.sum, s.vector()))),
        ValueError,
        "sum took arrays of shape",
    ),
    (
        program(lambda s: s.apply("tanh", s.vector(), s.vector())),
        ValueError,
        "take one vector; got 2",
    ),
    (program(lambda s: s.apply(np.add, s.vector(), "a")), TypeError, "got Vector, str"),
    (program(lambda s: s.vector(sigma="a")), ValueError, "`sigma` must be finite and at least 0"),
    (
        program(lambda s: s.vector(ratio=0)),
        ValueError,
        "`ratio` must be positive and finite; got 0",
    ),
    (program(lambda s: s.vector(ratio=-1), exact()), ValueError, "`ratio` must be positive"),
    (program(lambda s: s.matrix("W", ratios=2)), ValueError, "`ratios` must be two widths"),
    (program(lambda s: s.matrix("W", ratios=(1, 0)), exact()), ValueError, "`ratios` must be pos"),
    (program(lambda s: s.matrix("W", sigma=0), finite(8)), ValueError, "Leave the product out"),
    (
        program(lambda s: s.vectors([[1.0], [1.0, 2.0]])),
        ValueError,
        "`covariance` must be an array",
    ),
    (program(lambda s: s.vectors(np.empty((0, 0)))), ValueError, "must be a symmetric matrix"),
    (program(lambda s: s.scalar("a")), ValueError, "`value` of a scalar must be a number; got 'a'"),
    (program(lambda s: s.combine([1.0], [])), ValueError, "a coefficient for each vector; got 1"),
]


def deep(**change: Any) -> Callable[[], Any]:
    given = {"x": X, "y": Y[:, None], "depth": 2, "steps": 1, "learning_rate": 0.1}
    return lambda: deep_linear_limit(**{**given, **change})


LINEAR_AND_SHALLOW: Refusals = [
    (deep(y=Y), ValueError, r"`y` must be a matrix.*y\[:, None\]"),
    (deep(depth=1.5), ValueError, "`depth` must be a whole number of at least 1; got 1.5"),
    (deep(test=np.ones((1, 3))), ValueError, "`test` must be finite and have 2 features"),
    (deep(test=X * math.nan), ValueError, "`test` must be finite and have 2 features"),
    (deep(batches=[[0, 5]]), ValueError, r"rows from 0 to 1, at least one.*got \[0, 5\] at step 0"),
    (deep(batches=[[-1]]), ValueError, "`batches` must hold rows from 0 to 1"),
    (deep(batches=[[0.5]]), ValueError, "`batches` must hold rows from 0 to 1"),
    (deep(batches=[[]]), ValueError, "`batches` must hold rows from 0 to 1"),
    (lambda: gram_net(linear_limit(2, 1), dtype=int), ValueError, "`dtype` must be numpy.float64"),
    (
        lambda: shallow.limit_kernels(shallow.Reference(8), X * math.nan),
        ValueError,
        "must be finite",
    ),
    (lambda: shallow.limit_kernels(shallow.Reference(8), X * 0), ValueError, "none of its rows 0"),
    (
        lambda: shallow.limit_kernels(shallow.Reference(8), X, np.ones((1, 3))),
        ValueError,
        r"`others` has shape \(input, feature\), with as many features as `x`; got \(1, 3\)",
    ),
]
JOB: dict[str, Any] = {"net": NET, "samples": X, "targets": Y, "watched": X, "eta": 0.1}


ALL = BACKENDS + NETWORKS + TRAINING + PROGRAMS + LINEAR_AND_SHALLOW


@pytest.mark.parametrize(("call", "error", "match"), ALL)
def test_refused(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    refused(call, error, match)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"samples": X[0]}, r"`samples` must have shape \(steps, features\)"),
        ({"watched": np.ones((1, 3))}, r"as many features; got \(2, 2\) and \(1, 3\)"),
        ({"targets": Y[:1]}, r"one number for each of 2 samples; got shape \(1,\)"),
        ({"samples": X * math.nan}, "`samples` must hold finite numbers only"),
        ({"eta": "a"}, "`eta` must be a number and finite"),
        ({"loss": "foo"}, "`loss` must be mse or logistic"),
        ({"net": Network(mup(depth=3), "tanh", C_b=1.0)}, "of a network without biases"),
        ({"net": Network(mup(depth=3), "tanh", ratios=[1, 2])}, "of equal widths and rates"),
        ({"net": Network(mup(depth=3), "tanh", lambda_W=[1, 2, 1])}, "of equal widths and rates"),
    ],
)
def test_programs_of_training_refuse_what_they_would_ignore(
    change: dict[str, Any], match: str
) -> None:
    refused(lambda: Training(**{**JOB, **change}), ValueError, match)


def test_whole_numbers_and_lists_are_as_good_as_arrays() -> None:
    whole = Task([[1, 0], [0, 1]], [1, -1], batches=np.array([[0], [1]]))
    same = Task(np.eye(2), Y, batches=[[0], [1]])
    one = train(NET, whole, SGD(1), steps=np.int64(2), on=finite(np.int64(8)))
    other = train(NET, same, SGD(1.0), steps=2, on=finite(8))
    np.testing.assert_array_equal(one.logits, other.logits)
    assert train(NET, same, SGD_, steps=0, on=finite(8)).logits.shape == (1, 2, 1)


def test_numbers_of_numpy_are_numbers_of_programs() -> None:
    two = np.float64(2.0)

    def f(space: Any) -> Any:
        x = space.apply("tanh", space.vector())
        forms = [two * x, x * two, two + x, two - x, x - two]
        return [space.mean(form * form) for form in forms] + [two * space.mean(x * x), two / two]

    found = run(lambda space: {"m": f(space)}, lazy(64)).m.values
    assert found[0] == found[1]
    assert found[3] == found[4]
    assert found[0] == pytest.approx(2 * found[5])


def test_a_loss_that_is_not_finite_is_named() -> None:
    loss = Loss(lambda f, y: (f * math.nan).sum(-1), lambda f, y: f - y, "mine")
    refused(
        lambda: train(NET, Task(X, Y, loss=loss), SGD_, steps=1, **ON),
        ValueError,
        "The loss mine is not finite at step 0",
    )
