"""Golden, agreement: posteriors at order 1/n against printed values, closed forms, tensors, drawn networks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm

import scalewise as sw
from grids import thorough
from scalewise.training import Bayes, LastLayer, predict_training
from scalewise.training._asked import Asked
from scalewise.training.posterior import NEURONS
from scalewise.training.width._dense import DENSE

# Coefficients are coefficients, wherever their sum would not converge.
pytestmark = pytest.mark.filterwarnings("ignore::scalewise.training.ExpansionWarning")

X = np.array([[1.0, 0.5, -0.3], [0.2, 1.0, 0.8], [0.7, 0.9, 0.1], [-0.4, 0.3, 1.2]])
Y = np.array([[1.2, -0.4], [-0.3, 0.9]])
UPPER = np.triu_indices(3)


def known(
    net: sw.Network, y: np.ndarray, algorithm: Bayes | LastLayer, tests: int = 1
) -> xr.Dataset:
    x = X[: 2 + tests]
    wanted = np.full((tests, y.shape[1]), 0.25)
    task = sw.Task(x[:2], y, test_inputs=x[2:], test_targets=wanted)
    return predict_training(net, task, algorithm, observables="all")


@pytest.mark.covers("B26", "C76")
@pytest.mark.parametrize(("name", "outputs"), [("gelu", 1), *thorough(("tanh", 2))])
def test_the_last_layer_alone_by_both_routes(name: str, outputs: int) -> None:
    """As a posterior whose hidden layers are not learned, and as gradient descent whose NTK is the kernel."""
    wrong = []
    net = sw.MLP(3, (60, 30), name, input_dim=3, output_dim=outputs, C_W=1.4, C_b=0.2)
    y = np.array([[1.0, -1.0], [-1.0, 1.0]])[:, :outputs]
    task = sw.Task(X[:2], y, test_inputs=X[2:], test_targets=y)
    asked = Asked(net, task, LastLayer())
    rows = [
        "output_mean_nlo",
        "output_mean_nlo_by_layer",
        "output_covariance_nlo",
        "test_loss_nlo",
        "test_error_nlo",
    ]
    here, there = (route.compute(asked, rows) for route in (NEURONS, DENSE))
    for row in rows:
        error = here.errors[row].max()
        off, size = (
            np.abs(here.values[row] - there.values[row]).max(),
            np.abs(there.values[row]).max(),
        )
        if off > 2 * error or error > 0.2 * size:
            wrong.append((name, row, off, error, size))
    assert not wrong


@pytest.mark.covers("B7", "B8")
def test_printed_values() -> None:
    """PDLT (6.88), (6.104), covariance and evidence derived; all of them were checked by sampling."""
    changes = ([0.0951, -0.5543, -0.1485, -0.1113, -0.3978, -0.2216],)
    changes += ([0.0117, -0.9571, -0.3714, -0.1005, -0.6209, -0.4258],)
    cases = (
        (1, [0.14291], [0.15640], -1.33227, changes[0]),
        (2, [0.14135, -0.08694], [0.1828, -0.1505, -0.1505, 0.1374], -0.48219, changes[1]),
    )
    for outputs, mean, covariance, evidence, features in cases:
        net = sw.MLP(2, 100, "tanh", input_dim=3, output_dim=outputs, C_W=1.5, C_b=0.2)
        found = known(net, Y[:, :outputs], Bayes())
        assert found.output_mean_nlo.values.ravel() == pytest.approx(mean, abs=1e-3)
        flat = found.output_covariance_nlo.values.ravel()
        assert flat == pytest.approx(covariance, abs=1e-3)
        assert float(found.log_evidence_nlo) == pytest.approx(evidence, abs=4e-3)
        assert found.feature_change_nlo.values[0][UPPER] == pytest.approx(features, abs=2e-3)


@pytest.mark.covers("B7")
def test_deep_linear_networks_have_closed_forms() -> None:
    r"""$m^{\{1\}}=0$, Cov$^{\{1\}}_{ij}=\sum_\ell\frac n{n_\ell}(y_iK^{-1}y_j-N_A\delta_{ij})$Cov, layers add."""
    rng = np.random.default_rng(0)
    for depth, widths in ((2, (7,)), (3, (50, 25)), (5, (40, 20, 80, 10))):
        for outputs in (1, 2):
            x, y = rng.standard_normal((7, 6)), rng.standard_normal((4, outputs))
            net = sw.MLP(depth, widths, "linear", input_dim=6, output_dim=outputs, C_W=1.3)
            found = predict_training(
                net, sw.Task(x[:4], y, test_inputs=x[4:]), Bayes(), observables="all"
            )
            K = 1.3**depth * x @ x.T / 6
            a = y.T @ np.linalg.solve(K[:4, :4], y)
            inf = K[4:, 4:] - K[4:, :4] @ np.linalg.solve(K[:4, :4], K[:4, 4:])
            ratios = widths[-1] / np.array(widths)
            want = ratios.sum() * np.einsum("ij,bc->ijbc", a - 4 * np.eye(outputs), inf)
            assert found.output_mean_nlo.values == pytest.approx(np.zeros((outputs, 3)), abs=1e-9)
            assert found.output_covariance_nlo.values == pytest.approx(want, rel=1e-8, abs=1e-9)
            part = found.variance_nlo.values
            assert part == pytest.approx(np.einsum("iibb->ib", want), rel=1e-8)
            if outputs == 1:
                evidence = 0.25 * ((a[0, 0] - 6) ** 2 - 12) * ratios.sum()
                assert float(found.log_evidence_nlo) == pytest.approx(evidence, rel=1e-8)


@pytest.mark.covers("B7", "C76")
def test_linear_networks_with_noise_are_averages_over_one_scale() -> None:
    r"""Of one output each layer has a scale $Q$ of its own with $nQ\sim\chi^2_n$, so variance $2/n$; layers add."""
    rng = np.random.default_rng(3)
    x, y, noise, h = rng.standard_normal((7, 6)), np.array([1.0, -1.0, -1.0, 1.0]), 0.7, 1e-3
    widths = (50, 25)
    net = sw.MLP(3, widths, "linear", input_dim=6, output_dim=1, C_W=1.3)
    task = sw.Task(x[:4], y[:, None], test_inputs=x[4:], test_targets=np.ones((3, 1)))
    found = predict_training(net, task, Bayes(noise), observables="all")
    K = 1.3**3 * x @ x.T / 6

    def given(Q: float) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
        own = Q * K[:4, :4] + noise * np.eye(4)
        R = Q * np.linalg.solve(own, K[:4, 4:]).T
        log = -0.5 * y @ np.linalg.solve(own, y) - 0.5 * np.linalg.slogdet(own)[1]
        spread = Q * K[4:, 4:] - Q * R @ K[:4, 4:]
        return R @ y, spread, log, norm.cdf(-(R @ y) / np.sqrt(np.diag(spread)))

    below, here, above = (map(np.asarray, given(1 + step)) for step in (-h, 0, h))
    slopes, bends = [], []
    for low, middle, high in zip(below, here, above, strict=True):
        slopes.append((high - low) / (2 * h))
        bends.append((high - 2 * middle + low) / h**2)
    r = sum(widths[-1] / n for n in widths)
    mean, covariance, error = (r * (bends[k] + 2 * slopes[k] * slopes[2]) for k in (0, 1, 3))
    covariance += 2 * r * np.multiply.outer(slopes[0], slopes[0])
    np.testing.assert_allclose(found.output_mean_nlo[0], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.test_error_nlo, error, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.output_covariance_nlo[0, 0], covariance, rtol=1e-4, atol=1e-5)
    assert float(found.log_evidence_nlo) == pytest.approx(r * (bends[2] + slopes[2] ** 2), rel=1e-4)


class Pieces(NamedTuple):
    """Leading order, V and G1 of the last layer on all samples, from `predict`."""

    K: np.ndarray
    V: np.ndarray
    G1: np.ndarray


def tensors(net: sw.Network, x: np.ndarray) -> Pieces:
    names = ["kernel", "four_point_vertex", "metric_nlo"]
    data = sw.predict(net, x, observables=names, layers=net.depth)
    return Pieces(*(data[name].values[0] for name in names))


def by_couplings(of: Pieces, y: np.ndarray, n: float) -> np.ndarray:
    """PDLT (6.79)-(6.88) with all couplings, of width n."""
    K, V, G1 = of
    count, outputs = y.shape
    inverse = np.linalg.inv(K)
    traced = np.einsum("xy,abxy->ab", inverse, V) * outputs / 2
    g = K + (G1 - traced - np.einsum("xy,axby->ab", inverse, V)) / n
    v = np.einsum("abcd,ap,bq,cr,ds->pqrs", V, *4 * [inverse], optimize=True) / n
    A, B = slice(0, count), slice(count, None)
    R = g[B, A] @ np.linalg.inv(g[A, A])
    G = g[B, B] - R @ g[A, B]
    m = R @ y
    Phi = np.concatenate([y, m])
    first = np.einsum("pqrs,qi,rk,sk->pi", v[B], Phi, Phi, Phi, optimize=True)
    second = v[B, B, B] @ Phi
    both = outputs * np.einsum("pq,xr,pqri->xi", G, G, second)
    both += 2 * np.einsum("xp,qr,pqri->xi", G, G, second)
    return (m + 0.5 * G @ first + 0.5 * both).T


@pytest.mark.covers("B7", "B8")
@pytest.mark.parametrize(
    ("name", "outputs"), [("gelu", 2), ("relu", 1), *thorough(("tanh", 1), ("sin", 2))]
)
def test_means_and_features_follow_from_the_tensors(name: str, outputs: int) -> None:
    """(6.88) with its couplings and (6.104) with V, for smooth and kinked activations and unequal widths."""
    wrong = []
    net = sw.MLP(3, (60, 100), name, input_dim=3, output_dim=outputs, C_W=[1.5, 1.4, 1.2], C_b=0.3)
    y, n = Y[:, :outputs], 1e7
    found, of = known(net, y, Bayes(), tests=2), tensors(net, X)
    S = np.linalg.inv(of.K[:2, :2])
    weights = S @ (y @ y.T - outputs * of.K[:2, :2]) @ S
    features = 0.5 * np.einsum("abcd,cd->ab", of.V[..., :2, :2], weights) / net.C_W[-1]
    cases = [(found.feature_change_nlo.isel(layer=-1), features)]
    if net.activation.is_smooth:  # of others V is sampled, and inverse kernels magnify its error
        mean = n * (by_couplings(of, y, n) - found.output_mean.values)
        cases.append((found.output_mean_nlo, mean))
    for here, there in cases:
        error = float(found[f"{here.name}_error"].max())
        off, size = np.abs(here.values - there).max(), np.abs(there).max()
        if off > error + 0.01 * size or error > 0.1 * size:
            wrong.append((name, here.name, off, error, size))
    assert not wrong


@pytest.mark.covers("B7")
@pytest.mark.parametrize("name", ["softplus", *thorough("gelu")])
def test_the_mean_metric_is_that_of_the_recursion(name: str) -> None:
    """Its part of the mean, through four layers, against the metric at order 1/n that `predict` carries upwards."""
    wrong = []
    net = sw.MLP(4, (50, 100, 80), name, input_dim=3, output_dim=1, C_W=1.5, C_b=0.2)
    found, of = known(net, Y[:, :1], Bayes()), tensors(net, X[:3])
    S = np.linalg.inv(of.K[:2, :2])
    R = of.K[2:, :2] @ S
    want = float(((of.G1[2:, :2] - R @ of.G1[:2, :2]) @ S @ Y[:, :1]).item())
    here = found.output_mean_nlo_by_part.sel(part="metric_nlo").item()
    error = found.output_mean_nlo_by_part_error.sel(part="metric_nlo").item()
    if abs(here - want) > 1.5 * error or error > 0.2 * abs(want):
        wrong.append((name, here, want, error))
    assert not wrong


class Drawn(NamedTuple):
    """What real hidden layers say: means with an axis of independent groups in front, n times the difference."""

    mean: np.ndarray
    covariance: np.ndarray
    evidence: np.ndarray
    features: np.ndarray


def drawn(net: sw.Network, y: np.ndarray, leading: xr.Dataset, *, learns: bool, seed: int) -> Drawn:
    """Many hidden layers, neuron by neuron given the layer below; the last layer in closed form."""
    rng, groups, some = np.random.default_rng(seed), 24, 4000
    x, n, (count, outputs) = X[:3], net.widths[-2], y.shape
    first = net.C_b[0] + net.C_W[0] * x @ x.T / 3
    inf = leading.output_mean.values, leading.output_covariance.values
    rows = []
    for _ in range(groups):
        G, seen = np.broadcast_to(first, (some, 3, 3)), []
        for layer in range(1, net.depth):
            u = rng.standard_normal((some, net.widths[layer], 3))
            s = net.activation(u @ np.linalg.cholesky(G).swapaxes(1, 2))
            seen.append(s.swapaxes(1, 2) @ s / net.widths[layer])
            G = net.C_b[layer] + net.C_W[layer] * seen[-1]
        own = G[:, :count, :count]
        R = np.linalg.solve(own, G[:, :count, count:]).swapaxes(1, 2)
        log = -0.5 * np.einsum(
            "ai,nai->n", y, np.linalg.solve(own, np.broadcast_to(y, (some, *y.shape)))
        )
        log -= 0.5 * outputs * np.linalg.slogdet(2 * np.pi * own)[1]
        ratio = np.exp(log - float(leading.log_evidence)) if learns else np.ones(some)
        w = ratio / ratio.sum()
        m = (R @ y).swapaxes(1, 2)
        within = G[:, count:, count:] - R @ G[:, :count, count:]
        mean = np.einsum("n,nib->ib", w, m)
        off = m - mean
        cov = np.einsum("n,nib,njc->ijbc", w, off, off)
        cov += np.einsum("ij,n,nbc->ijbc", np.eye(outputs), w, within)
        cov -= np.einsum("ij,bc->ijbc", np.eye(outputs), inf[1])
        moved = [np.einsum("n,nab->ab", w, f) - f.mean(axis=0) for f in seen]
        rows.append((mean - inf[0], cov, np.log(ratio.mean()), np.array(moved)))
    return Drawn(*(n * np.array(part) for part in zip(*rows, strict=True)))


@pytest.mark.covers("B7", "B8", "B26")
@pytest.mark.parametrize(
    ("depth", "name", "outputs", "algorithm"),
    [
        (2, "tanh", 1, Bayes()),
        *thorough((3, "relu", 2, Bayes()), (3, "tanh", 2, LastLayer())),
    ],
    ids=str,
)
def test_drawn_hidden_layers_agree(
    depth: int, name: str, outputs: int, algorithm: Bayes | LastLayer
) -> None:
    """Exact reweighting of real hidden layers, without weights for the last layer alone, at two widths."""
    wrong = []
    widths = [(40, 20) if depth == 3 else (30,), (80, 40) if depth == 3 else (60,)]
    nets = [
        sw.MLP(depth, w, name, input_dim=3, output_dim=outputs, C_W=1.5, C_b=0.2) for w in widths
    ]
    y, learns = 0.8 * Y[:, :outputs], isinstance(algorithm, Bayes)
    found = known(nets[0], y, algorithm)
    leading = known(nets[0], y, Bayes())
    at = [drawn(net, y, leading, learns=learns, seed=k) for k, net in enumerate(nets)]
    names = (
        "output_mean_nlo",
        "output_covariance_nlo",
        "log_evidence_nlo",
        "feature_change_nlo",
    )
    for row, narrow, wide in zip(names, *at, strict=True):
        if row not in found:
            continue
        # n times the difference is a + b/n: without b.
        groups = 2 * wide - narrow
        error = groups.std(axis=0, ddof=1) / np.sqrt(len(groups))
        # What c/n^2 may leave of it.
        bias = 0.25 * np.abs(wide.mean(axis=0) - narrow.mean(axis=0)).max()
        z = np.abs(groups.mean(axis=0) - found[row].values) / (error + 0.2 * bias)
        told = (
            depth,
            name,
            outputs,
            row,
            float(z.max()),
            float(np.abs(found[row]).max() / error.max()),
        )
        if z.max() > 4.5:
            wrong.append(told)
    assert not wrong


def test_tails_of_many_tests_are_refused_before_they_take_an_hour() -> None:
    rng = np.random.default_rng(0)
    net = sw.MLP(3, 40, "tanh", input_dim=3, output_dim=1)
    y, x = np.sign(rng.standard_normal((400, 1))), rng.standard_normal((400, 3))
    task = sw.Task(x[:300], y[:300], test_inputs=x[300:], test_targets=y[300:])
    asked = Asked(net, task, Bayes(0.1))
    assert "fewer tests at a time" in NEURONS.obstacle(asked, "test_error_nlo")
    assert not NEURONS.obstacle(asked, "variance_nlo")
    few = sw.Task(x[:300], y[:300], test_inputs=x[300:310], test_targets=y[300:310])
    assert not NEURONS.obstacle(Asked(net, few, Bayes(0.1)), "test_error_nlo")


def test_coefficients_do_not_need_tests_or_each_other() -> None:
    """Evidence and features are about the training samples: without tests, and each asked for alone."""
    net = sw.MLP(2, 40, "tanh", input_dim=3, output_dim=2, C_b=0.1, C_W=1.5)
    whole = sw.Task(X[:2], Y, test_inputs=X[2:])
    alone = sw.Task(X[:2], Y)
    for algorithm in (Bayes(), Bayes(0.1), LastLayer()):
        every = predict_training(net, alone, algorithm, observables="all")
        assert bool(np.isfinite(every.to_array().values).all())
    for name in ("log_evidence_nlo", "feature_change_nlo"):
        found = predict_training(net, alone, Bayes(), observables=name)[name]
        wanted = predict_training(net, whole, Bayes(), observables=["output_mean_nlo", name])[name]
        seen = (
            wanted.isel(sample=slice(2), sample_1=slice(2)) if "sample" in wanted.dims else wanted
        )
        assert np.allclose(found, seen, rtol=0.03), name
