r"""Agreement tests: one verb trains at infinite width in every regime, and the exponents alone say which it is."""

import numpy as np
import pytest

from grids import thorough
from refusals import unlike
from scalewise.limits import (
    SGD,
    Architecture,
    Finite,
    Infinite,
    Kernel,
    layer_kernels,
    limit_kernel,
    train,
)
from scalewise.scaling import abc, classify, mup, ntk, uniform
from scalewise.tasks import Task

X = np.array([[0.9, -0.4], [0.3, 1.0], [-0.8, 0.5], [0.5, 0.7]])
TASK = Task(X[:3], [1.0, -1.0, 0.5], test_inputs=X[3:])
BINARY = Task(X[:3], [1.0, -1.0, 1.0], test_inputs=X[3:], loss="logistic")
GP = abc((1, "3/2", "1/2"), (-1, -1, 0), 0)
FROZEN_OUTPUT = abc(("-1/2", 0, "3/2"), ("1/2", "1/2", "1/2"), -1)
SLOWED = abc((0, 0, 0, 0), (0, "1/2", "1/2", "1/2"), 1)
REGIMES = {
    "maximal update": mup(depth=3),
    "neural tangent": ntk(depth=3),
    "GP": GP,
    "GP from zero": abc((1, "3/2", "1/2"), (-1, -1, "1/2"), 0),
    "standard, rate 1/n": abc((0, 0, 0), (0, "1/2", "1/2"), 1),
    "uniform, three eighths": uniform("3/8", depth=3),
    "second layer alone learns features": abc((0, 0, "1/2"), (0, "1/2", "1/2"), 0),
}


@pytest.mark.covers("E11")
@pytest.mark.parametrize(
    "name",
    [
        "neural tangent",
        "second layer alone learns features",
        *thorough(
            "maximal update", "GP", "GP from zero", "standard, rate 1/n", "uniform, three eighths"
        ),
    ],
)
def test_means_over_networks_agree_with_the_limit_at_two_widths(name):
    """Four standard errors, raised for the number of outputs, and a bias that falls with the width."""
    net = Architecture(REGIMES[name], "tanh", C_b=0.1, lambda_b=0.5)
    limit = train(net, TASK, SGD(0.5), steps=4, on=Infinite(4e-3))
    r = float(classify(net.strategy).r)
    for n, replicas in ((64, 200), (256, 60)):
        found = train(net, TASK, SGD(0.5), steps=4, on=Finite(n, replicas=replicas, seed=3))
        for what in ("logits", "feature_kernel", "loss"):
            # The feature kernels of a kernel regime are exact.
            sem = np.hypot(found[f"{what}_sem"], limit.get(f"{what}_sem", 0.0))
            # Random starts that fade: squares of n^(-r) for outputs that start as n^(-r).
            allowed = 4.5 * sem + 4 / n + 0.5 * n ** -max(2 * (0.5 - r), 0.5)
            gap = found[f"{what}_mean"] - limit[f"{what}_mean"]
            assert (np.abs(gap) < allowed).all(), (what, n)
    moved = np.abs(limit.logits_mean[-1] - limit.logits_mean[0]).max()
    assert moved > 0.15
    assert limit.attrs["width"] == np.inf


def test_the_kernel_regime_has_no_particles():
    """Outputs are those of the kernel, features those of the start; opposite draws cancel for the square loss."""
    net = Architecture(ntk(depth=3), "tanh")
    found = train(net, TASK, SGD(0.5), steps=5, on=Infinite(1e-3), every=2)
    expected = train(net, TASK, SGD(0.5), steps=5, on=Kernel(np.zeros((4, 1))), every=2)
    np.testing.assert_allclose(found.logits_mean, expected.logits_mean, atol=1e-14)
    assert found.time.values.tolist() == [0, 2, 4, 5]
    np.testing.assert_array_equal(
        found.feature_kernel_mean, np.broadcast_to(layer_kernels(net, X).features[1:], (4, 2, 4, 4))
    )
    assert "particles" not in found.attrs
    assert found.attrs["replicas"] == 8
    # Its loss is not that of the mean: initial outputs add their variance.
    assert float(found.loss_mean[0]) > float(expected.loss_mean[0]) + 0.05


@pytest.mark.covers("E11")
def test_as_many_draws_as_the_tolerance_asks_for():
    net, options = Architecture(ntk(depth=3), "tanh"), {"steps": 3}
    for antithetic in (True, False):
        on = Infinite(0.03, antithetic=antithetic)
        found = train(net, BINARY, SGD(0.5), on=on, **options)
        assert float(found.logits_sem.max()) <= 0.03
        same = train(net, BINARY, SGD(0.5), steps=3, on=Kernel(replicas=4000, seed=5))
        sem = np.hypot(found.logits_sem, same.logits.std("replica") / 4000**0.5)
        assert (np.abs(found.logits_mean - same.logits_mean) < 4.5 * sem).all()
        assert found.sizes["replica"] == found.attrs["replicas"]
        again = train(net, BINARY, SGD(0.5), on=on, **options)
        np.testing.assert_array_equal(found.logits, again.logits)
    assert found.attrs["replicas"] > 100


@pytest.mark.covers("E11")
@pytest.mark.parametrize("strategy", [SLOWED, *thorough(ntk(depth=3))])
def test_copies_leave_the_last_hidden_layer_its_share(strategy):
    """Decoupled in the kernel regime: networks follow the kernel without the layers below, not the whole one."""
    net, sgd, gaps = Architecture(strategy, "tanh", C_b=0.1, lambda_b=0.7), SGD(0.6), []
    kernels = [limit_kernel(net, X, decoupled=d) for d in (True, False)]
    for n in (64, 512):
        found = train(
            net, TASK, sgd, steps=4, on=Finite(n, replicas=12), decoupled=True
        ).logits.values
        limits = []
        for theta in kernels:
            f = [found[:, 0]]
            for _ in range(4):
                f.append(f[-1] - 0.2 * theta[:, :3] @ (f[-1][:, :3] - TASK.targets))
            limits.append(np.stack(f, axis=1))
        gaps.append([np.sqrt(((found - limit)[:, 1:] ** 2).mean()) for limit in limits])
    (near, _), (nearer, far) = gaps
    assert nearer < 0.6 * near
    assert nearer < 0.25 * far
    copies = train(net, TASK, sgd, steps=4, on=Infinite(1e-3), decoupled=True)
    whole = train(net, TASK, sgd, steps=4, on=Infinite(1e-3))
    assert np.abs(copies.logits_mean - whole.logits_mean).max() > 0.03
    start = f[0][:1] * 0
    for _ in range(4):
        start = start - 0.2 * kernels[0][:, :3] @ (start[:, :3] - TASK.targets)
    np.testing.assert_allclose(copies.logits_mean[-1], start[0], atol=1e-12)


@pytest.mark.covers("E14")
@pytest.mark.parametrize(
    ("strategy", "r"),
    [
        (abc((8, 0, 8), (-8, "1/2", "-15/2"), 1), "1/2"),
        (abc((8, 0, 8), (-8, "1/2", -7), 0), "0"),
    ],
)
def test_a_linear_network_whose_middle_matrix_alone_is_trained(strategy, r):
    """(17), (19): f_{t+1} = f_t - chi V V^T h^T h at any width, exactly; in the limit it is -chi |xi|^2.

    With smaller logits features are learned, and yet it is a kernel's descent.
    """
    net, sgd = Architecture(strategy, "linear"), SGD(0.4)
    assert str(classify(strategy).r) == r
    task = Task(X[:1], [1.0], test_inputs=X[1:])
    real = train(net, task, sgd, steps=3, on=Finite(40))
    f, h = real.logits_mean.values[:, :, 0], real.feature_kernel_mean.values
    kernel = np.diff(f, axis=0) / (0.4 * (1.0 - f[:3, :1]))
    # The same kernel at every step, and h^T h but for V V^T; the first layer stands still.
    np.testing.assert_allclose(kernel, kernel[:1].repeat(3, 0), rtol=1e-9)
    np.testing.assert_allclose(kernel[0] / kernel[0, 0], h[0, 0, 0] / h[0, 0, 0, 0], rtol=1e-9)
    np.testing.assert_allclose(h[3, 0], h[0, 0], atol=1e-9)
    limit = train(net, task, sgd, steps=3, on=Infinite(0.01, start=8192)).logits_mean.values[..., 0]
    f = [np.zeros(4)]
    for _ in range(3):
        f.append(f[-1] - 0.4 * (f[-1][0] - 1.0) * X @ X[0])
    np.testing.assert_allclose(limit, f, atol=0.04)


@pytest.mark.covers("E11")
def test_features_may_move_and_outputs_not():
    """Stable, trivial and r = 0: errors stay those of the outputs 0, and features are taught by them."""
    net = Architecture(FROZEN_OUTPUT, "tanh")
    found = classify(net.strategy)
    assert (str(found), found.r) == ("trivial, stable", 0)
    limit = train(net, TASK, SGD(0.5), steps=4, on=Infinite(0.01, start=16384))
    assert np.abs(limit.logits_mean).max() == 0
    moved = np.abs(limit.feature_kernel_mean[-1] - limit.feature_kernel_mean[0]).max()
    assert moved > 0.05
    for n in (128, 512):
        real = train(net, TASK, SGD(0.5), steps=4, on=Finite(n, replicas=20))
        sem = np.hypot(real.feature_kernel_sem, limit.feature_kernel_sem)
        assert (
            np.abs(real.feature_kernel_mean - limit.feature_kernel_mean) < 4.5 * sem + 3 / n
        ).all()
        assert np.abs(real.logits_mean).max() < 4 / n
    still = Architecture(abc((1, "3/2", "3/2"), (-1, -1, -1), 0), "tanh")
    outputs = train(still, TASK, SGD(0.5), steps=2, on=Infinite(0.01)).logits_mean.values
    assert np.ptp(outputs, axis=0).max() == 0


REFUSED = [
    ("`features` are coordinates of particles.*got 3", {"features": 3}),
    ("Weight decay shrinks .* got weight_decay = 0.1", {"sgd": SGD(0.1, weight_decay=0.1)}),
    (
        r"1e\+06 bytes for 48 numbers of each draw: with \d+ draws of the initial outputs",
        {"on": Infinite(1e-6, memory=1e6), "task": BINARY, "sgd": SGD(0.5), "steps": 3},
    ),
    (
        r"not finite at step \d+: training diverged. Lower `eta`",
        {"sgd": SGD(1e200), "steps": 9},
    ),
    ("`every` must be a whole number of at least 1 or .*; got 0", {"every": 0}),
]


def refused_run(options: dict) -> None:
    job = {"task": TASK, "sgd": SGD(0.1), "steps": 2, "on": Infinite(0.1), **options}
    train(Architecture(ntk(depth=3), "tanh"), job.pop("task"), job.pop("sgd"), **job)


def test_bad_input() -> None:
    assert [] == unlike((lambda o=options: refused_run(o), match) for match, options in REFUSED)
