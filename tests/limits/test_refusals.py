"""Conformance: what a newcomer may give by mistake is refused in a sentence that says what to do."""

# Wrong types are the matter of this file.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refusals import Refusals, unlike
from scalewise.limits import (
    SGD,
    Architecture,
    Exact,
    Finite,
    Infinite,
    Kernel,
    Lazy,
    LazyMatrix,
    layer_kernels,
    learning,
    linear,
    run,
    shallow,
    train,
)
from scalewise.limits.learning import transfer_gap
from scalewise.limits.maml import gram_net
from scalewise.limits.program import incremental, trained
from scalewise.scaling import mup, ntk
from scalewise.tasks import Loss, Task

X, Y = np.array([[1.2, 0.3], [-0.4, 1.0]]), np.array([1.0, -1.0])
TASK, NET, SGD_ = Task(X, Y), Architecture(mup(depth=3), "tanh"), SGD(0.5)
ON: Any = {"on": Finite(8)}
PAIRED = Task(X, Y, batches=[[[0], [1]], [[1], [0]]])


def program(f: Callable[..., Any], on: Any = None) -> Callable[[], Any]:
    return lambda: run(lambda space: {"m": f(space)}, on or Lazy(16))


any_: Any = None  # what types would forbid
BACKENDS: Refusals = [
    (lambda: Finite(-3), r"`Finite\.width` must be a whole number of at least 1; got -3\."),
]
NETWORKS: Refusals = [
    (
        lambda: Task(X, np.empty((2, 0))),
        r"`Task\.targets` must have one row for each of 2 samples; got shape \(2, 0\)\.",
    ),
    (lambda: Task(X, [0, 1], loss="logistic"), "Take 2 y - 1 of targets 0 and 1"),
    (lambda: Task(X, [0, 1], loss="cross_entropy"), "Take np.eye.classes..labels."),
    (lambda: Task(X, [[1, 1], [1, 0]], loss="cross_entropy"), "rows that sum to 1"),
]
TRAINING: Refusals = [
    (lambda: train(NET, TASK, SGD_, steps=2, every=[3], **ON), r"0 to 2; got \[3\]"),
    (lambda: train(NET, PAIRED, SGD_, steps=2, **ON), "train one hidden layer with `sh"),
    (lambda: transfer_gap(NET, TASK, PAIRED, SGD_, steps=(1, 1), **ON), "take one batch"),
    (lambda: Task(X, Y, batches=[0, 1]), "one row per step, or a pair of such tables"),
    (lambda: Task(X, Y, batches=[[[0]]]), r"or a pair of such tables; .* \(1, 1, 1\)"),
]
PROGRAMS: Refusals = [
    (lambda: run(lambda s: {}, Lazy(8)), "at least one; got an empty one"),
    (lambda: run(lambda s: None, Lazy(8)), "dictionary of scalars by name.*NoneType"),
    (program(lambda s: "abc"), "must return scalars by name, or lists of them; got str"),
    (program(lambda s: math.nan), "A program returned nan"),
    (program(lambda s: [[1.0], [1.0, 2.0]]), "parts are of unequal length"),
    (program(lambda s: np.tanh(s.vector())), r"Write apply\(np.tanh, x\)"),
    (program(lambda s: s.vector() + np.ones(16)), "array and a vector of the program"),
    (program(lambda s: s.vector() / s.vector()), r"write apply\(np.divide, x, y\)"),
    (program(lambda s: 1 / s.vector()), r"write apply\(np.divide, x, y\)"),
    (program(lambda s: s.matrix("W") * s.vector()), "only multiplies vectors, with @"),
    (program(lambda s: s.matrix("W") + s.matrix("V")), "Scale or add the products"),
    (program(lambda s: s.scalar(1e200) ** 3), "a power of 3 overflows"),
    (program(lambda s: s.scalar(-1.0) ** 0.5), "is not finite"),
    (program(lambda s: s.mean(s.vector() ** 0.5)), "is not finite: nan"),
    (program(lambda s: s.mean(s.apply(np.sum, s.vector()))), "sum took arrays of shape"),
    (program(lambda s: s.apply("tanh", s.vector(), s.vector())), "take one vector; got 2"),
    (
        program(lambda s: s.apply(np.add, s.vector(), "a")),
        "`arguments` must be a Vector such as .*; got 'a'",
    ),
    (program(lambda s: s.vector(ratio=0)), r"`ratio` must be a positive finite number; got 0\."),
    (
        program(lambda s: s.vector(ratio=-1), Exact()),
        r"`ratio` must be a positive finite number; got -1\.",
    ),
    (
        program(lambda s: s.matrix("W", ratios=(1, 0)), Exact()),
        r"`ratios` must be 2 values, each a positive finite number; got \(1, 0\)\.",
    ),
    (program(lambda s: s.matrix("W", sigma=0), Finite(8)), "Leave the product out"),
    (program(lambda s: s.vectors(np.empty((0, 0)))), "must be a symmetric matrix"),
    (program(lambda s: s.combine([1.0], [])), "a coefficient for each vector; got 1"),
]


WIDE = 10**7
REAL: Refusals = [
    (
        program(lambda s: s.mean(s.matrix("W") @ s.vector()), Finite(WIDE)),
        r"Finite\(10000000\) with 1 replicas needs 8e\+14 bytes .* Take Lazy\(10000000\)",
    ),
    (
        lambda: train(NET, TASK, SGD_, steps=1, on=Finite(WIDE)),
        r"Finite\(10000000\) with 1 replicas needs 8e\+14 bytes .* Take Lazy\(10000000\)",
    ),
    (
        program(lambda s: s.mean(s.vector()), Infinite(1.0, memory=10)),
        "bytes for a thousand vectors: not even two particles fit. Raise `memory`",
    ),
]


def gap(**change: Any) -> Callable[[], Any]:
    given = {"net": NET, "pretraining": TASK, "task": TASK, "sgd": SGD_}
    given |= {"steps": (1, 1), "on": Finite(8)}
    return lambda: transfer_gap(**{**given, **change})


TRANSFER: Refusals = []


def matrix(**change: Any) -> Callable[[], Any]:
    return lambda: LazyMatrix(**{"n_out": 4, "n_in": 4, "seed": 0, **change})


def seen(**change: Any) -> Callable[[], Any]:
    W = LazyMatrix(4, 3, seed=0)
    x, y = W.forward(np.ones((1, 3)))[1], W.backward(np.ones((1, 4)))[1]
    return lambda: W.update(**{"y": y, "x": x, "weights": np.ones(1), **change})


LAZY: Refusals = [
    (
        matrix(seed=(1, -1)),
        r"`LazyMatrix\.seed` must be a whole number of at least 0, a Generator of `numpy\.random` or",
    ),
    (matrix(capacity=0), r"`LazyMatrix\.capacity` must be a whole number of at least 1; got 0\."),
    (lambda: matrix()().forward(np.full((1, 4), 1e200)), "`X` holds .* not finite"),
    (seen(x=np.ones((1, 2))), "`x` of an update .* the 1 directions .* `forward` ret"),
    (seen(y=np.ones((1, 99))), "`y` of an update .* the 1 directions .* `backward` r"),
    (seen(x=np.full((1, 1), math.nan)), "`x` must hold finite numbers only"),
    (seen(weights=np.ones(2)), r"as many rows .* \(1, 1\), \(1, 1\) and \(2,\)"),
]
NTK, CHANGE = Architecture(ntk(depth=2), "tanh"), {"square": 1.0, "eta": 0.1}


def kernel_run(**change: Any) -> Callable[[], Any]:
    own = {key: change.pop(key) for key in ("start", "replicas", "seed") if key in change}
    given = {"net": NTK, "task": TASK, "sgd": SGD_, "steps": 1}
    return lambda: train(**{**given, **change}, on=Kernel(**own))


def one_step(strategy: Any = None, **change: Any) -> Callable[[], Any]:
    return lambda: learning.one_step(strategy or mup(depth=2), "tanh", **{**CHANGE, **change})


KERNELS: Refusals = [
    (lambda: layer_kernels(NTK, [[1e200]]), "squares of `inputs` overflow. Scale"),
]


def deep(net: Any = None, sgd: Any = SGD_, **change: Any) -> Callable[[], Any]:
    linear = net or Architecture(mup(depth=3), "linear")
    return lambda: train(linear, TASK, sgd, steps=1, on=Exact(), **change)


LINEAR_AND_SHALLOW: Refusals = [
    (deep(NET), r"Exact\(\) trains linear networks, .* activation 'tanh'. Take Infinite"),
    (deep(Architecture(mup(depth=3), "linear", C_b=1.0)), "networks without biases"),
    (deep(Architecture(mup(depth=3), "linear", ratios=(1, 2))), "of equal widths"),
    (deep(decoupled=True), "with `decoupled=False`"),
    (deep(features=1), r"`features` are coordinates of particles.*got 1"),
    (deep(sgd=SGD(0.1, momentum=0.5)), "takes plain descent. Set `momentum`"),
    (deep(sgd=SGD(0.1, clip=1)), "and `clip` to None"),
    (deep(Architecture(ntk(depth=3), "linear")), "in the kernel regime"),
    (lambda: gram_net(linear.limit(2, 1), dtype=int), "`dtype` must be float64 or"),
    (
        lambda: shallow.limit_kernels(shallow.Reference(8), X * math.nan),
        r"`x` must hold finite numbers only; x\[0, 0\] is nan\. Clean the data first\.",
    ),
    (
        lambda: shallow.limit_kernels(shallow.Reference(8), X * 0),
        r"None of the rows of `x` may be 0\. Drop them\.",
    ),
    (
        lambda: shallow.limit_kernels(shallow.Reference(8), X, np.ones((1, 3))),
        r"`others` must have as many features as `x`, 2; got 3\.",
    ),
]
JOB: dict[str, Any] = {
    "net": NET,
    "task": Task(X, Y, batches=[[0], [1]]),
    "sgd": SGD(0.1),
    "steps": 2,
}


PROGRAMS_OF_TRAINING = [
    ({"task": Task(X, Y)}, "teaches one sample per step; give the task `batches`"),
    ({"task": Task(X, X, batches=[[0], [1]])}, "must have one output; `targets` have 2 columns"),
    ({"task": PAIRED}, "teaches one sample per step"),
    ({"sgd": SGD(0.1, momentum=0.5)}, "plain descent; set `momentum`"),
    ({"sgd": SGD(0.1, clip=1.0)}, "plain descent; set `momentum`"),
    ({"steps": -1}, "`steps` must be"),
    ({"net": Architecture(mup(depth=3), "tanh", C_b=1.0)}, "of a network without biases"),
    ({"net": Architecture(mup(depth=3), "tanh", ratios=[1, 2])}, "of equal widths and rates"),
    ({"net": Architecture(mup(depth=3), "tanh", lambda_W=[1, 2, 1])}, "of equal widths and rates"),
]


def test_what_has_no_answer_is_refused() -> None:
    assert unlike(BACKENDS + NETWORKS + TRAINING + PROGRAMS + LINEAR_AND_SHALLOW) == []
    assert unlike(REAL + TRANSFER + LAZY + KERNELS) == []


def test_programs_of_training_refuse_what_they_would_ignore() -> None:
    assert [] == unlike(
        (lambda program=program, change=change: program(**{**JOB, **change}), match)
        for program in (trained, incremental)
        for change, match in PROGRAMS_OF_TRAINING
    )


def test_whole_numbers_and_lists_are_as_good_as_arrays() -> None:
    whole = Task([[1, 0], [0, 1]], [1, -1], batches=np.array([[0], [1]]))
    same = Task(np.eye(2), Y, batches=[[0], [1]])
    one = train(NET, whole, SGD(1), steps=np.int64(2), on=Finite(np.int64(8)))
    other = train(NET, same, SGD(1.0), steps=2, on=Finite(8))
    np.testing.assert_array_equal(one.logits_mean, other.logits_mean)
    assert train(NET, same, SGD_, steps=0, on=Finite(8)).logits_mean.shape == (1, 2, 1)


def test_numbers_of_numpy_are_numbers_of_programs() -> None:
    two = np.float64(2.0)

    def f(space: Any) -> Any:
        x = space.apply("tanh", space.vector())
        forms = [two * x, x * two, two + x, two - x, x - two]
        return [space.mean(form * form) for form in forms] + [two * space.mean(x * x), two / two]

    found = run(lambda space: {"m": f(space)}, Lazy(64)).m.values
    assert found[0] == found[1]
    assert found[3] == found[4]
    assert found[0] == pytest.approx(2 * found[5])


def test_a_loss_that_is_not_finite_is_named() -> None:
    loss = Loss(lambda f, y: (f * math.nan).sum(-1), lambda f, y: f - y, "mine")
    with pytest.raises(ValueError, match="The loss mine is not finite at step 0"):
        train(NET, Task(X, Y, loss=loss), SGD_, steps=1, **ON)
