"""Golden and agreement: scales of hidden layers, exactly of linear networks and against drawn layers of others."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from scipy.special import gammaln, kve
from scipy.stats import gamma, multivariate_normal

import scalewise as sw
from grids import thorough
from scalewise.training import Bayes, predict_training, renormalised_posterior
from scalewise.training.posterior._scales import OneLayer, SeveralLayers

pytestmark = pytest.mark.filterwarnings("ignore::scalewise.training.ExpansionWarning")
RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((6, 8)), RNG.standard_normal((4, 2))


def task_of(outputs: int) -> sw.Task:
    return sw.Task(X[:4], Y[:, :outputs], test_inputs=X[4:], test_targets=0.3 * Y[:2, :outputs])


def infinite(net: sw.Network, task: sw.Task) -> xr.Dataset:
    return predict_training(net, task, Bayes())


def test_one_linear_layer_is_a_ratio_of_bessel_functions() -> None:
    r"""$p(Q|y)\propto Q^{(n-N)/2-1}e^{-nQ/2-a/2Q}$ with $a=yK^{-1}y$, however few the neurons."""
    for n in (3, 16, 400):
        net, task = sw.MLP(2, n, "linear", input_dim=8, output_dim=1, C_W=1.3), task_of(1)
        found, inf = renormalised_posterior(net, task), infinite(net, task)
        K = 1.3**2 * X @ X.T / 8
        a, order = float(Y[:, 0] @ np.linalg.solve(K[:4, :4], Y[:, 0])), 0.5 * (n - 4)
        z = np.sqrt(n * a)
        scale = np.sqrt(a / n) * kve(order + 1, z) / kve(order, z)
        # In place of the normal density of infinite width, the integral over the scale.
        log = np.log(2 * kve(order, z)) - z + 0.5 * order * np.log(a / n)
        log += 0.5 * n * np.log(n / 2) - gammaln(0.5 * n) + 0.5 * a
        assert found.output_mean.values == pytest.approx(inf.output_mean.values, rel=1e-9)
        assert found.scale.item() == pytest.approx(scale, rel=1e-3)
        want = scale * inf.variance.values[None]
        assert found.variance.values == pytest.approx(want, rel=1e-3)
        evidence = float(inf.log_evidence) + log
        assert float(found.log_evidence) == pytest.approx(evidence, abs=5e-4)


def test_several_linear_layers_are_an_integral_over_their_scales() -> None:
    """On a grid of two scales; the product of both is what the kernel has."""
    net, task = sw.MLP(3, (6, 9), "linear", input_dim=8, output_dim=1), task_of(1)
    found, inf = renormalised_posterior(net, task), infinite(net, task)
    t = np.linspace(-3.0, 2.0, 600)
    K = X @ X.T / 8
    a = float(Y[:, 0] @ np.linalg.solve(K[:4, :4], Y[:, 0]))
    Q = np.exp(t)
    both = Q[:, None] * Q
    log = sum(
        part
        for part in (
            (3.0 * (t - Q))[:, None],
            4.5 * (t - Q),
            -2.0 * np.log(both) - 0.5 * a / both,
        )
    )
    w = np.exp(log - log.max())
    w /= w.sum()
    want = (w * both).sum() * inf.variance.values[None]
    assert np.abs(found.variance - want).max() < found.variance_error.max() + 1e-4
    want = [(w.sum(axis=1) * Q).sum(), (w.sum(axis=0) * Q).sum()]
    assert np.abs(found.scale - want).max() < found.scale_error.max() + 1e-4
    assert found.scale_error.max() < 0.05


def drawn(
    net: sw.Network, task: sw.Task, draws: int, noise: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance by exact reweighting of hidden layers, and the standard error of the latter."""
    rng, n = np.random.default_rng(1), net.widths[1]
    y, count = task.targets, len(task.inputs)
    root = np.linalg.cholesky(net.C_b[0] + net.C_W[0] * X @ X.T / 8)
    log, means, within = [], [], []
    for _ in range(20):
        s = net.activation(rng.standard_normal((draws // 20, n, len(X))) @ root.T)
        G = net.C_b[1] + net.C_W[1] / n * s.swapaxes(1, 2) @ s
        own, B = G[:, :count, :count] + noise * np.eye(count), slice(count, None)
        R = np.linalg.solve(own, G[:, :count, B]).swapaxes(1, 2)
        inverse = np.linalg.solve(own, np.broadcast_to(y, (len(s), *y.shape)))
        size = np.linalg.slogdet(own)[1]
        log.append(-0.5 * np.einsum("ai,nai->n", y, inverse) - 0.5 * y.shape[1] * size)
        means.append((R @ y).swapaxes(1, 2))
        within.append(G[:, B, B] - R @ G[:, :count, B])
    groups = []
    highest = max(part.max() for part in log)
    weights = [np.exp(part - highest) for part in log]
    total = sum(w.sum() for w in weights)
    mean = sum(np.einsum("n,nib->ib", w, m) for w, m in zip(weights, means, strict=True)) / total
    for w, m, c in zip(weights, means, within, strict=True):
        off = m - mean
        cov = np.einsum("n,nib,njc->ijbc", w, off, off)
        groups.append(cov + np.einsum("ij,n,nbc->ijbc", np.eye(len(mean)), w, c))
    whole = sum(groups) / total
    error = np.std([20 * g / total for g in groups], axis=0, ddof=1) / np.sqrt(20)
    return mean, whole, error


def test_several_outputs_share_a_matrix_of_scales() -> None:
    """Of a linear network exactly; with a bias in the last layer as well, which no scale changes."""
    net, task = sw.MLP(2, 10, "linear", input_dim=8, output_dim=2), task_of(2)
    found = renormalised_posterior(net, task)
    mean, covariance, error = drawn(net, task, 120_000)
    z = np.abs(found.output_covariance.values - covariance) / error
    assert z.max() < 4.5
    assert np.abs(found.output_mean.values - mean).max() < 0.02
    # It is not that of one scale for both, nor of none.
    inf = infinite(net, task).output_covariance.values
    assert np.abs(covariance[0, 1] / error[0, 1]).max() > 8
    assert np.abs((covariance[0, 0] - inf) / error[0, 0]).max() > 8


def test_little_data_agree_with_the_coefficients_of_one_over_n() -> None:
    """Where both are exact, the two have the same 1/n; of other activations one of them only."""
    n = 200
    for depth, outputs in ((2, 2), (3, 1)):
        net = sw.MLP(depth, n, "linear", input_dim=8, output_dim=outputs, C_W=1.2)
        task = task_of(outputs)
        found, one = (
            renormalised_posterior(net, task),
            predict_training(
                net,
                task,
                Bayes(),
                observables=["variance", "variance_nlo", "log_evidence", "log_evidence_nlo"],
            ),
        )
        for row in ("variance", "log_evidence"):
            want, error = one[f"{row}_nlo"].values, n * float(found[f"{row}_error"].max())
            off = np.abs(n * (found[row].values - one[row].values) - want).max()
            size = np.abs(want).max()
            assert off < error + 0.06 * size, (depth, row, off, error, size)
            assert error < size, (depth, row, error, size)


@pytest.mark.parametrize("name", ["relu", *thorough("tanh", "softplus")])
def test_as_many_samples_as_neurons(name: str) -> None:
    """Much better than infinite width, of smooth and kinked activations, with and without means; not exact."""
    net = sw.MLP(2, 6, name, input_dim=8, output_dim=1, C_W=1.5, C_b=0.1)
    task = task_of(1)
    found = renormalised_posterior(net, task, noise_variance=0.3)
    inf = predict_training(net, task, Bayes(0.3)).output_covariance.values
    _, covariance, error = drawn(net, task, 60_000, 0.3)
    off = np.abs(found.output_covariance.values - covariance)
    before = np.abs(inf - covariance)
    assert off.max() < 0.6 * before.max(), (name, off.max(), before.max(), error.max())


def test_refusals() -> None:
    cases = (
        (sw.MLP(1, (), "linear", input_dim=8, output_dim=1), 1, "must have a hidden layer"),
        (sw.MLP(3, 9, "tanh", input_dim=8, output_dim=2), 2, "one hidden layer or one output"),
        (sw.MLP(2, 1, "tanh", input_dim=8, output_dim=2), 2, "as many hidden neurons as outputs"),
        (sw.MLP(2, 9, "tanh", input_dim=7, output_dim=2), 2, "8 features"),
    )
    for net, outputs, message in cases:
        with pytest.raises(ValueError, match=message):
            renormalised_posterior(net, task_of(outputs))
    again = sw.Task(X[[0, 0]], Y[:2, :1], test_inputs=X[4:])
    with pytest.raises(ValueError, match="Training samples 0 and 1 are the same"):
        renormalised_posterior(sw.MLP(2, 9, "tanh", input_dim=8, output_dim=1), again)


def noise_and_bias(outputs: int, noise: float) -> tuple[OneLayer, np.ndarray]:
    """A layer of scales, and what of the kernel they multiply."""
    net = sw.MLP(2, 9, "tanh", input_dim=8, output_dim=outputs, C_W=1.5, C_b=[0.1, 0.4])
    first = net.C_b[0] + net.C_W[0] * X @ X.T / 8
    scales = OneLayer.of(net, first, RNG.standard_normal((4, outputs)), noise)
    return scales, scales.moves


def test_given_scales_outputs_are_one_gaussian_process() -> None:
    """By one covariance of all outputs on all samples; three outputs, since two are reflected, not turned."""
    scales, moves = noise_and_bias(3, 0.2)
    t = RNG.standard_normal(6)
    likelihood, mean, found, Q = scales.given(t)
    K = np.kron(Q, moves) + np.kron(np.eye(3), np.full((6, 6), 0.4))
    places = np.arange(18).reshape(3, 6)
    A, B = places[:, :4].ravel(), places[:, 4:].ravel()
    own, y = K[np.ix_(A, A)] + 0.2 * np.eye(12), scales.y.T.ravel()
    R = np.linalg.solve(own, K[np.ix_(A, B)]).T
    covariance = (K[np.ix_(B, B)] - R @ K[np.ix_(A, B)]).reshape(3, 2, 3, 2)
    log = multivariate_normal(np.zeros(12), own).logpdf(y)
    np.testing.assert_allclose(mean, (R @ y).reshape(3, 2), rtol=1e-9)
    np.testing.assert_allclose(found, covariance.transpose(0, 2, 1, 3), atol=1e-9)
    assert [likelihood, scales.log_likelihood(t)] == pytest.approx([log, log], rel=1e-9)


def test_given_scales_several_layers_are_a_network_of_other_variances() -> None:
    """Each scale multiplies the variance of the weights behind its layer, and no bias."""
    net = sw.MLP(3, 9, "tanh", input_dim=8, output_dim=1, C_W=1.5, C_b=[0.1, 0.4, 0.3])
    t, task = np.array([0.2, -0.3]), task_of(1)
    scales = SeveralLayers(net, net.C_b[0] + 1.5 * X @ X.T / 8, task.targets, 0.2)
    likelihood, mean, covariance, scale = scales.given(t)
    Q = np.exp(2 * t)
    other = net.numbered(C_W=(1.5, 1.5 * Q[0], 1.5 * Q[1]))
    found = predict_training(other, task, Bayes(0.2))
    np.testing.assert_allclose(scale, Q)
    np.testing.assert_allclose(mean, found.output_mean, rtol=1e-8)
    np.testing.assert_allclose(covariance[0, 0], found.output_covariance, rtol=1e-8)
    assert likelihood == pytest.approx(float(found.log_evidence), rel=1e-9)


def test_with_noise_means_vary_from_scale_to_scale() -> None:
    """Against the integral over one scale on a grid."""
    net = sw.MLP(2, 12, "linear", input_dim=8, output_dim=1, C_W=1.3)
    task, noise = sw.Task(X[:4], 4 * Y[:, :1], test_inputs=X[4:]), 2.0
    found = renormalised_posterior(net, task, noise_variance=noise)
    t, K = np.linspace(-5.0, 3.0, 400), 1.3**2 * X @ X.T / 8
    rows = []
    for Q in np.exp(t):
        own = Q * K[:4, :4] + noise * np.eye(4)
        R = Q * np.linalg.solve(own, K[:4, 4:]).T
        log = multivariate_normal(np.zeros(4), own).logpdf(4 * Y[:, 0])
        rows.append((log, R @ (4 * Y[:, 0]), Q * K[4:, 4:] - Q * R @ K[:4, 4:]))
    log, mean, covariance = map(np.array, zip(*rows, strict=True))
    w = np.exp(log + gamma(6.0, scale=1 / 6).logpdf(np.exp(t)) + t)
    evidence = np.log(w.sum() * (t[1] - t[0]))
    w /= w.sum()
    middle = w @ mean
    within = np.einsum("q,qab->ab", w, covariance)
    between = np.einsum("q,qa,qb->ab", w, mean - middle, mean - middle)
    error = float(found.output_covariance_error.max())
    assert np.abs(between).max() > 8 * error
    np.testing.assert_allclose(found.output_covariance[0, 0], within + between, atol=error)
    error = float(found.output_mean_error.max())
    np.testing.assert_allclose(found.output_mean[0], middle, atol=error)
    assert float(found.log_evidence) == pytest.approx(evidence, abs=2e-3)
