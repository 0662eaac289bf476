"""Conformance: what a newcomer may give by mistake is refused in a sentence that says what to do."""

# Wrong types are the matter of this file.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scalewise.limits import (
    SGD,
    Exact,
    Finite,
    Infinite,
    Kernel,
    LayerKernels,
    Lazy,
    LazyMatrix,
    Loss,
    Network,
    Printed,
    Task,
    layer_kernels,
    learning,
    limit_kernel,
    linear,
    motion_kernel,
    run,
    shallow,
    train,
)
from scalewise.limits.learning import conditioned_readout, sigma_gelu, transfer_gap
from scalewise.limits.maml import gram_net
from scalewise.limits.program import incremental, trained
from scalewise.scaling import mup, ntk

pytestmark = pytest.mark.usefixtures("as_users_have_it")
Refusals = list[tuple[Callable[[], Any], type[Exception], str]]

X, Y = np.array([[1.2, 0.3], [-0.4, 1.0]]), np.array([1.0, -1.0])
TASK, NET, SGD_ = Task(X, Y), Network(mup(depth=3), "tanh"), SGD(0.5)
ON: Any = {"on": Finite(8)}
PAIRED = Task(X, Y, batches=[[[0], [1]], [[1], [0]]])


def refused(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def program(f: Callable[..., Any], on: Any = None) -> Callable[[], Any]:
    return lambda: run(lambda space: {"m": f(space)}, on or Lazy(16))


any_: Any = None  # what types would forbid
BACKENDS: Refusals = [
    (lambda: Finite(2.5), ValueError, "`width` must be a whole number of at least 1; got 2.5"),
    (lambda: Finite(math.inf), ValueError, "`width` must be a whole number of at least 1; got inf"),
    (lambda: Finite("8"), ValueError, "`width` must be a whole number of at least 1; got '8'"),
    (lambda: Finite(True), ValueError, "`width` must be a whole number"),
    (lambda: Finite(-3), ValueError, "`width` must be at least 1; got -3"),
    (lambda: Finite(8, seed=None), ValueError, "`seed` must be a whole number of at least 0"),
    (lambda: Lazy(8, replicas=1.5), ValueError, "`replicas` must be a whole number"),
    (lambda: Finite(8, dtype="foo"), ValueError, "`dtype` must be float64 or float32; got 'foo'"),
    (lambda: Lazy(8, compression="a"), ValueError, "`compression` must lie between 0 and 1"),
    (lambda: Infinite("0.1"), ValueError, "`tolerance` must be positive and finite; got '0.1'"),
    (lambda: Infinite(0.1, start=100.0), ValueError, "`start` must be a whole number"),
    (lambda: Printed("a"), ValueError, "`samples` must be a whole number of at least 2"),
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
    (lambda: Task([[1.0, 2.0], [1.0]], Y), ValueError, "rows of one length; got rows of"),
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
    (lambda: train(NET, TASK, SGD_, steps=1, on=64), TypeError, r"Finite\(n\), Lazy.*got int 64"),
    (lambda: train(NET, TASK, SGD_, steps=1, on=Printed(8)), TypeError, r"Exact\(\) or Kernel\(\)"),
    (lambda: train(NET, TASK, SGD_, steps=2.5, **ON), ValueError, "`steps` must be a whole number"),
    (lambda: train(NET, TASK, SGD_, steps="2", **ON), ValueError, "`steps` must be a whole number"),
    (lambda: train(NET, TASK, SGD_, steps=2, every=[3], **ON), ValueError, r"0 to 2; got \[3\]"),
    (
        lambda: train(NET, PAIRED, SGD_, steps=2, **ON),
        ValueError,
        "train one hidden layer with `sh",
    ),
    (
        lambda: transfer_gap(NET, TASK, PAIRED, SGD_, steps=(1, 1), **ON),
        ValueError,
        "take one batch",
    ),
    (lambda: Task(X, Y, batches=[0, 1]), ValueError, "one row per step, or a pair of such tables"),
    (lambda: Task(X, Y, batches=[[[0]]]), ValueError, r"or a pair of such tables; .* \(1, 1, 1\)"),
]
PROGRAMS: Refusals = [
    (lambda: run(lambda s: {}, Lazy(8)), TypeError, "at least one; got an empty one"),
    (lambda: run(lambda s: None, Lazy(8)), TypeError, "dictionary of scalars by name.*NoneType"),
    (lambda: run(any_, Lazy(8)), TypeError, "`program` must be a function of a space"),
    (lambda: run(lambda s: {"m": 1.0}, "lazy"), TypeError, r"`on` must be Finite.*got str 'lazy'"),
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
    (program(lambda s: s.vector(ratio=-1), Exact()), ValueError, "`ratio` must be positive"),
    (program(lambda s: s.matrix("W", ratios=2)), ValueError, "`ratios` must be two widths"),
    (program(lambda s: s.matrix("W", ratios=(1, 0)), Exact()), ValueError, "`ratios` must be pos"),
    (program(lambda s: s.matrix("W", sigma=0), Finite(8)), ValueError, "Leave the product out"),
    (
        program(lambda s: s.vectors([[1.0], [1.0, 2.0]])),
        ValueError,
        "`covariance` must be an array",
    ),
    (program(lambda s: s.vectors(np.empty((0, 0)))), ValueError, "must be a symmetric matrix"),
    (program(lambda s: s.scalar("a")), ValueError, "`value` of a scalar must be a number; got 'a'"),
    (program(lambda s: s.combine([1.0], [])), ValueError, "a coefficient for each vector; got 1"),
]


WIDE = 10**7
REAL: Refusals = [
    (
        program(lambda s: s.mean(s.matrix("W") @ s.vector()), Finite(WIDE)),
        ValueError,
        r"Finite\(10000000\) with 1 replicas needs 8e\+14 bytes .* Take Lazy\(10000000\)",
    ),
    (
        lambda: train(NET, TASK, SGD_, steps=1, on=Finite(WIDE)),
        ValueError,
        r"Finite\(10000000\) with 1 replicas needs 8e\+14 bytes .* Take Lazy\(10000000\)",
    ),
    (
        program(lambda s: s.mean(s.vector()), Infinite(1.0, memory=10)),
        ValueError,
        "bytes for a thousand vectors: not even two particles fit. Raise `memory`",
    ),
]


def gap(**change: Any) -> Callable[[], Any]:
    given = {"net": NET, "pretraining": TASK, "task": TASK, "sgd": SGD_}
    given |= {"steps": (1, 1), "on": Finite(8)}
    return lambda: transfer_gap(**{**given, **change})


TRANSFER: Refusals = [
    (gap(on=Lazy(8)), TypeError, r"`on` must be Finite\(n\), for both .* real weights; got Lazy"),
    (gap(task=X), TypeError, "`task` must be a Task of `scalewise.limits`; got ndarray"),
    (gap(net="net"), TypeError, "`net` must be a Network"),
    (gap(sgd=0.5), TypeError, r"`sgd` must be SGD\(eta\); got float 0.5"),
    (gap(steps=(1, 0.5)), ValueError, r"`steps` must be two counts of at least 0; got \(1, 0.5\)"),
    (gap(steps=3), ValueError, "`steps` must be two counts of at least 0; got 3"),
]


def matrix(**change: Any) -> Callable[[], Any]:
    return lambda: LazyMatrix(**{"n_out": 4, "n_in": 4, "seed": 0, **change})


def seen(**change: Any) -> Callable[[], Any]:
    W = LazyMatrix(4, 3, seed=0)
    x, y = W.forward(np.ones((1, 3)))[1], W.backward(np.ones((1, 4)))[1]
    return lambda: W.update(**{"y": y, "x": x, "weights": np.ones(1), **change})


LAZY: Refusals = [
    (matrix(n_out=2.5), ValueError, "`n_out` is a width and must be a whole number .* got 2.5"),
    (matrix(seed=None), ValueError, "`seed` must be a whole number .* can be repeated; got None"),
    (matrix(seed=(1, -1)), ValueError, r"`seed` must be a whole number .* got \(1, -1\)"),
    (matrix(seed="a"), ValueError, "`seed` must be a whole number of at least 0.* got 'a'"),
    (matrix(dtype="foo"), ValueError, "`dtype` must be float64 or float32; got 'foo'"),
    (matrix(sigma="a"), ValueError, "`sigma` must be positive and finite; got 'a'"),
    (matrix(tolerance="a"), ValueError, "`tolerance` must lie from .* got 'a'"),
    (matrix(capacity=0), ValueError, "`capacity` must be at least 1; got 0"),
    (lambda: matrix()().forward(np.full((1, 4), 1e200)), ValueError, "`X` holds .* not finite"),
    (lambda: matrix()().forward(["abcd"]), ValueError, "`X` must be an array of real numbers"),
    (seen(x=np.ones((1, 2))), ValueError, "`x` of an update .* the 1 directions .* `forward` ret"),
    (seen(y=np.ones((1, 99))), ValueError, "`y` of an update .* the 1 directions .* `backward` r"),
    (seen(x=np.full((1, 1), math.nan)), ValueError, "`x` must hold finite numbers only"),
    (seen(weights=np.ones(2)), ValueError, r"as many rows .* \(1, 1\), \(1, 1\) and \(2,\)"),
]
NTK, CHANGE = Network(ntk(depth=2), "tanh"), {"square": 1.0, "eta": 0.1}


def kernel_run(**change: Any) -> Callable[[], Any]:
    own = {key: change.pop(key) for key in ("start", "replicas", "seed") if key in change}
    given = {"net": NTK, "task": TASK, "sgd": SGD_, "steps": 1}
    return lambda: train(**{**given, **change}, on=Kernel(**own))


def one_step(strategy: Any = None, **change: Any) -> Callable[[], Any]:
    return lambda: learning.one_step(strategy or mup(depth=2), "tanh", **{**CHANGE, **change})


KERNELS: Refusals = [
    (kernel_run(steps=1.5), ValueError, "`steps` must be a whole number of at least 0; got 1.5"),
    (kernel_run(every="a"), ValueError, "`every` must be a whole number .* 0 to 1; got 'a'"),
    (kernel_run(seed=None), ValueError, "`seed` must be a whole number of at least 0; got None"),
    (kernel_run(start="a"), ValueError, "`start` must be an array of real numbers"),
    (kernel_run(start=[[0.0], [0.0, 1.0]]), ValueError, "`start` must be an array of real num"),
    (kernel_run(net="x"), TypeError, "`net` must be a Network of `scalewise.limits`; got str 'x'"),
    (kernel_run(task=X), TypeError, "`task` must be a Task"),
    (kernel_run(sgd=0.1), TypeError, r"`sgd` must be SGD\(eta\)"),
    (lambda: layer_kernels("x", X), TypeError, "`net` must be a Network of `scalewise.limits`"),
    (lambda: layer_kernels(NTK, "x"), ValueError, "`inputs` must be an array of real numbers"),
    (lambda: layer_kernels(NTK, [[1.0], [1.0, 2.0]]), ValueError, "`inputs` .* rows of one length"),
    (lambda: layer_kernels(NTK, [[1e200]]), ValueError, "squares of `inputs` overflow. Scale"),
    (lambda: limit_kernel("x", X), TypeError, "`net` must be a Network of `scalewise.limits`"),
    (lambda: motion_kernel(NTK, X, 0.5), ValueError, "must be a hidden layer .* got 0.5"),
    (lambda: motion_kernel(NTK, X, "a"), ValueError, "must be a hidden layer .* got 'a'"),
    (
        lambda: LayerKernels(np.ones((2, 1, 1)), np.ones((1, 1, 1))).sigma(0.5),
        ValueError,
        "`m` and `l` must be layers .* got m = 0.5",
    ),
    (lambda: conditioned_readout([1.0], X, Y), ValueError, r"`readout` .* of shape \(output, wi"),
    (
        one_step("mup"),
        TypeError,
        r"`strategy` must be a strategy such as .* or an ABC; got str 'mu",
    ),
    (one_step(eta="a"), ValueError, "`eta` must be finite; got 'a'"),
    (one_step(nodes=8.5), ValueError, "`nodes` must be a whole number of at least 8; got 8.5"),
    (one_step(square="a"), ValueError, "`square` must be positive and finite; got 'a'"),
    (lambda: learning.derivatives("mup", "tanh", square=1), TypeError, "`strategy` must be a"),
    (lambda: sigma_gelu("a"), ValueError, "`sigma` must be positive and finite; got 'a'"),
]


def deep(net: Any = None, sgd: Any = SGD_, **change: Any) -> Callable[[], Any]:
    linear = net or Network(mup(depth=3), "linear")
    return lambda: train(linear, TASK, sgd, steps=1, on=Exact(), **change)


LINEAR_AND_SHALLOW: Refusals = [
    (
        deep(NET),
        ValueError,
        r"Exact\(\) trains linear networks, .* activation 'tanh'. Take Infinite",
    ),
    (deep(Network(mup(depth=3), "linear", C_b=1.0)), ValueError, "networks without biases"),
    (deep(Network(mup(depth=3), "linear", ratios=(1, 2))), ValueError, "of equal widths"),
    (deep(decoupled=True), ValueError, "with their own transposes"),
    (deep(features=1), ValueError, r"`features` are coordinates of particles.*got 1"),
    (deep(sgd=SGD(0.1, momentum=0.5)), ValueError, "takes plain descent. Set `momentum`"),
    (deep(sgd=SGD(0.1, clip=1)), ValueError, "and `clip` to None"),
    (deep(Network(ntk(depth=3), "linear")), ValueError, "in the kernel regime"),
    (lambda: gram_net(linear.limit(2, 1), dtype=int), ValueError, "`dtype` must be float64 or"),
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
JOB: dict[str, Any] = {
    "net": NET,
    "task": Task(X, Y, batches=[[0], [1]]),
    "sgd": SGD(0.1),
    "steps": 2,
}


ALL = BACKENDS + NETWORKS + TRAINING + PROGRAMS + LINEAR_AND_SHALLOW
ALL += REAL + TRANSFER + LAZY + KERNELS


@pytest.mark.parametrize(("call", "error", "match"), ALL)
def test_refused(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    refused(call, error, match)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"task": Task(X, Y)}, "teaches one sample per step; give the task `batches`"),
        ({"task": Task(X, X, batches=[[0], [1]])}, "of one output; `targets` have 2 columns"),
        ({"task": PAIRED}, "teaches one sample per step"),
        ({"sgd": SGD(0.1, momentum=0.5)}, "plain descent; set `momentum`"),
        ({"sgd": SGD(0.1, clip=1.0)}, "plain descent; set `momentum`"),
        ({"steps": -1}, "`steps` must be"),
        ({"net": Network(mup(depth=3), "tanh", C_b=1.0)}, "of a network without biases"),
        ({"net": Network(mup(depth=3), "tanh", ratios=[1, 2])}, "of equal widths and rates"),
        ({"net": Network(mup(depth=3), "tanh", lambda_W=[1, 2, 1])}, "of equal widths and rates"),
    ],
)
def test_programs_of_training_refuse_what_they_would_ignore(
    change: dict[str, Any], match: str
) -> None:
    for program in (trained, incremental):
        refused(lambda program=program: program(**{**JOB, **change}), ValueError, match)


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
    refused(
        lambda: train(NET, Task(X, Y, loss=loss), SGD_, steps=1, **ON),
        ValueError,
        "The loss mine is not finite at step 0",
    )
