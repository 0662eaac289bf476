"""Golden, property and agreement tests: deep linear networks in maximal update, exactly at n = infinity."""

import numpy as np
import pytest
import xarray as xr

from scalewise.limits import SGD, Architecture, Exact, TrainingError, linear, train
from scalewise.scaling import mup
from scalewise.tasks import Task

ONE = np.ones((1, 1))
# Outputs after one to four steps from xi = y = 1 with eta = 0.1, worked out term by term elsewhere.
VALUES = {
    1: [0.2, 0.36288, 0.49795249, 0.60955357],
    2: [0.3, 0.52436687, 0.69706541, 0.82052617],
    3: [0.4, 0.67905209, 0.86651409, 0.95749433],
}
RNG = np.random.default_rng(1)
X = RNG.normal(size=(4, 6))
Y = RNG.normal(size=(4, 2))
TEST = RNG.normal(size=(2, 6))


def trained(
    x,
    y,
    *,
    depth,
    steps,
    learning_rate,
    test=None,
    batches=None,
    sigma_u=1.0,
    sigma_w=1.0,
    sigma_v=1.0,
) -> xr.Dataset:
    """So many hidden layers in maximal update."""
    variances = (sigma_u**2, *[sigma_w**2] * (depth - 1), sigma_v**2)
    net = Architecture(mup(depth=depth + 1), "linear", C_W=variances)
    task = Task(x, y, test_inputs=test, batches=batches)
    return train(net, task, SGD(learning_rate), steps=steps, on=Exact())


@pytest.mark.covers("E16")
@pytest.mark.parametrize("depth", VALUES)
def test_four_steps_of_one_sample(depth: int) -> None:
    run = trained(ONE, ONE, depth=depth, steps=4, learning_rate=0.1)
    np.testing.assert_allclose(
        run.logits_mean.values[:, 0, 0], [0, *VALUES[depth]], rtol=0, atol=6e-9
    )
    np.testing.assert_allclose(
        run.loss_mean, 0.5 * (run.logits_mean.values[:, 0, 0] - 1) ** 2, rtol=1e-13
    )


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_first_step_counts_the_layers(depth: int) -> None:
    """Each of the L + 1 layers contributes sigma_u² sigma_w² ... without its own factor."""
    s = {"sigma_u": 1.3, "sigma_w": 0.7, "sigma_v": 0.6}
    run = trained(ONE, ONE, depth=depth, steps=1, learning_rate=0.01, **s)
    u, w, v = (x**2 for x in s.values())
    own = w ** (depth - 1) * (u + v) + (depth - 1) * u * v * w ** (depth - 2)
    if depth == 1:
        own = u + v
    linear = run.logits_mean.values[1, 0, 0] / 0.01
    # What is left is quadratic in the rate.
    half = trained(ONE, ONE, depth=depth, steps=1, learning_rate=0.005, **s)
    extrapolated = 2 * half.logits_mean.values[1, 0, 0] / 0.005 - linear
    assert extrapolated == pytest.approx(own, rel=3e-4)


def test_a_large_step() -> None:
    run = trained(ONE, ONE, depth=2, steps=3, learning_rate=0.5)
    np.testing.assert_allclose(
        run.logits_mean.values[:, 0, 0], [0, 1.5, 103 / 256, 0.9319394], atol=5e-8
    )


@pytest.mark.covers("E16")
def test_one_hidden_layer_is_the_algorithm_of_its_own() -> None:
    net = linear.limit(6, 2, sigma_u=1.2, sigma_v=0.8, alpha=0.0)
    s = {"sigma_u": 1.2, "sigma_v": 0.8}
    batches = [[0, 2], [1, 3], [3, 3], [0, 1]]
    run = trained(X, Y, depth=1, steps=4, learning_rate=0.2, test=TEST, batches=batches, **s)
    for rows in batches:
        net, _ = linear.step(net, X[rows], Y[rows], SGD(0.2))
    everything = np.concatenate([X, TEST])
    np.testing.assert_allclose(
        run.logits_mean.values[-1], linear.outputs(net, everything), atol=1e-13
    )
    H = everything @ net.u.T
    np.testing.assert_allclose(run.feature_kernel_mean.values[-1, 0], H @ H.T, rtol=0, atol=1e-12)


def real_networks(n: int, depth: int, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and last kernels of one real network under plain gradient descent."""
    rng = np.random.default_rng(seed)
    everything = np.concatenate([X, TEST])
    U = 1.1 * rng.normal(size=(n, 6))
    W = [0.9 * rng.normal(size=(n, n)) / np.sqrt(n) for _ in range(depth - 1)]
    nV = 0.7 * rng.normal(size=(2, n))
    outputs = []
    for t in range(steps + 1):
        h = [U @ everything.T]
        for w in W:
            h.append(w @ h[-1])
        f = (nV @ h[-1] / n).T
        outputs.append(f)
        if t == steps:
            break
        chi = (f[:4] - Y) / 4
        back = nV.T @ chi.T  # one column per sample
        nV = nV - 0.15 * chi.T @ h[-1][:, :4].T
        for k in reversed(range(depth - 1)):
            below = W[k].T @ back
            W[k] = W[k] - 0.15 * back @ h[k][:, :4].T / n
            back = below
        U = U - 0.15 * back @ X
    return np.array(outputs), np.array([a.T @ a / n for a in h])


@pytest.mark.covers("E16")
@pytest.mark.parametrize("depth", [2, 3])
def test_agreement_with_real_networks_at_two_widths(depth: int) -> None:
    s = {"sigma_u": 1.1, "sigma_w": 0.9, "sigma_v": 0.7}
    run = trained(X, Y, depth=depth, steps=5, learning_rate=0.15, test=TEST, **s)
    gaps = []
    for n, seeds in ((64, 24), (512, 12)):
        drawn = [real_networks(n, depth, 5, seed) for seed in range(seeds)]
        for found, wanted in (
            (np.array([f for f, _ in drawn]), run.logits_mean.values),
            (np.array([k for _, k in drawn]), run.feature_kernel_mean.values[-1]),
        ):
            sem = found.std(0, ddof=1) / np.sqrt(seeds)
            # Neglected: 1/n, of the size of the numbers themselves.
            allowed = 5.5 * sem + 4 * np.abs(wanted).max() / n
            assert np.all(np.abs(found.mean(0) - wanted) < allowed)
        gaps.append(np.sqrt(np.mean([(f[-1] - run.logits_mean.values[-1]) ** 2 for f, _ in drawn])))
    assert np.log(gaps[0] / gaps[1]) / np.log(8) == pytest.approx(0.5, abs=0.2)


def test_inputs_that_are_followed_change_nothing() -> None:
    settings = {"depth": 3, "steps": 6, "learning_rate": 0.1}
    alone = trained(X, Y, **settings)
    watched = trained(X, Y, test=TEST, **settings)
    np.testing.assert_allclose(
        alone.logits_mean.values, watched.logits_mean.values[:, :4], rtol=0, atol=1e-12
    )
    turned = np.linalg.qr(RNG.normal(size=(6, 6)))[0]
    other = trained(X @ turned, Y, test=TEST @ turned, **settings)
    np.testing.assert_allclose(
        other.logits_mean.values, watched.logits_mean.values, rtol=0, atol=1e-12
    )


def test_zero_inputs_and_many_steps() -> None:
    run = trained(np.zeros((2, 3)), np.ones((2, 1)), depth=2, steps=3, learning_rate=0.1)
    np.testing.assert_array_equal(run.logits_mean.values, 0)
    long = trained(X[:2], Y[:2], depth=2, steps=150, learning_rate=0.1)
    assert long.loss_mean[-1] < 1e-6
    assert np.all(np.diff(long.loss_mean.values[20:]) <= 1e-12)


def test_a_run_that_diverges_keeps_what_it_has() -> None:
    settings = {"depth": 3, "steps": 8, "learning_rate": 1e60}
    with pytest.raises(
        TrainingError, match=r"not finite at step [1-8]: training diverged. Lower `eta`"
    ) as failure:
        trained(X, Y, **settings)
    found = failure.value.found
    assert found.attrs["status"] == str(failure.value)
    assert np.isfinite(found.logits).all()
    assert 1 <= found.sizes["time"] < 9
