"""Golden, agreement: posteriors of networks of any layers at order 1/n, from the metric of the last one."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.training import Bayes, GradientDescent, LastLayer, predict_training
from scalewise.training._asked import Asked
from scalewise.training.posterior import NEURONS
from scalewise.training.posterior._metric import METRIC

# Coefficients are coefficients, wherever their sum would not converge.
pytestmark = pytest.mark.filterwarnings("ignore::scalewise.training.ExpansionWarning")

RNG = np.random.default_rng(4)
X = RNG.normal(size=(4, 4, 2))  # samples, positions on a ring, features
FLAT = np.array([[1.0, 0.5, -0.3], [0.2, 1.0, 0.8], [0.7, 0.9, 0.1], [-0.4, 0.3, 1.2]])
Y = np.array([[1.0, -0.4], [-0.3, 0.9]])
ROWS = ("output_mean_nlo", "output_covariance_nlo", "log_evidence_nlo")
RING = sw.Conv(3, padding="circular")
ENDS = ("tanh", sw.GlobalAvgPool(), sw.Dense(2))
KINDS = {
    "convolution": (RING, "tanh", RING, *ENDS),
    "stream": (RING, sw.Skip("tanh", RING), *ENDS),
    "norm": (RING, "tanh", RING, sw.RMSNorm(), *ENDS),
}


def network(kind: str, layers: tuple | None = None) -> sw.Network:
    return sw.Network(*(layers or KINDS[kind]), input_shape=(4, 2), width=16, C_b=0.2, C_W=1.5)


def task(tests: int = 1) -> sw.Task:
    return sw.Task(X[:2], Y, test_inputs=X[2 : 2 + tests], test_targets=np.full((tests, 2), 0.25))


@pytest.mark.covers("B7", "B26", "C76")
@pytest.mark.parametrize("algorithm", [Bayes(0.3), *thorough(LastLayer(), Bayes())], ids=str)
def test_of_a_perceptron_it_says_what_single_neurons_say(algorithm) -> None:
    """By a route that samples neurons, and shares nothing but how outcomes are put together."""
    x, y = FLAT, np.array([[1.0, -1.0], [-1.0, 1.0]])
    net = sw.MLP(3, (60, 30), "gelu", input_dim=3, output_dim=2, C_W=1.4, C_b=0.2)
    asked = Asked(net, sw.Task(x[:2], y, test_inputs=x[2:], test_targets=y), algorithm)
    names = sorted(METRIC.outcomes - {"learning_parameter"})
    if isinstance(algorithm, LastLayer):
        names.remove("log_evidence_nlo")
    here, there = (route.compute(asked, names) for route in (METRIC, NEURONS))
    wrong = []
    for name in names:
        error = here.errors[name].max() + 1.5 * there.errors[name].max()
        off = np.abs(here.values[name] - there.values[name]).max()
        size = np.abs(there.values[name]).max()
        if off > error or error > 0.12 * size:
            wrong.append((name, off, error, size))
    assert not wrong


@pytest.mark.covers("B7")
def test_linear_convolutions_of_one_position_have_closed_forms() -> None:
    r"""$m^{\{1\}}=0$, Cov$^{\{1\}}_{ij}=\sum_\ell\frac n{n_\ell}(y_iK^{-1}y_j-N_A\delta_{ij})$Cov, layers add."""
    x, y = RNG.normal(size=(5, 1, 6)), RNG.normal(size=(3, 2))
    layers = (sw.Conv(1, 8), "linear", sw.Conv(1, 4), "linear", sw.Flatten(), sw.Dense(2))
    net = sw.Network(*layers, input_shape=(1, 6), width=4, C_W=1.3)
    asked = Asked(net, sw.Task(x[:3], y, test_inputs=x[3:]), Bayes())
    found = METRIC.compute(asked, ["output_mean_nlo", "output_covariance_nlo"]).values
    K = 1.3**3 * x[:, 0] @ x[:, 0].T / 6
    a = y.T @ np.linalg.solve(K[:3, :3], y) - 3 * np.eye(2)
    inf = K[3:, 3:] - K[3:, :3] @ np.linalg.solve(K[:3, :3], K[:3, 3:])
    np.testing.assert_allclose(found["output_mean_nlo"], 0, atol=1e-9)
    want = (0.5 + 1) * np.einsum("ij,bc->ijbc", a, inf)
    np.testing.assert_allclose(found["output_covariance_nlo"], want, rtol=1e-8, atol=1e-9)


@pytest.mark.covers("C76")
@pytest.mark.parametrize(
    "algorithm", [Bayes(0.3), *thorough(GradientDescent(0.1, steps=5))], ids=str
)
def test_layers_of_a_convolution_add_as_their_widths_say(algorithm) -> None:
    """Half as wide, the first layer adds twice as much, and the second the same."""
    rows = ["output_mean_nlo", "output_mean_nlo_by_layer"]
    layers = KINDS["convolution"]

    def of(first: int) -> tuple[np.ndarray, np.ndarray]:
        net = network("convolution", layers=(replace(RING, channels=first), *layers[1:]))
        found = predict_training(net, task(), algorithm, observables=rows)
        return found[rows[0]].values, found[rows[1]].values

    (mean, each), (narrow, _) = of(16), of(8)
    np.testing.assert_allclose(each.sum(axis=0), mean, rtol=1e-10)
    np.testing.assert_allclose(each[0], narrow - mean, rtol=1e-6, atol=1e-8)
    assert np.abs(each).max(axis=(1, 2)).min() > 0.05 * np.abs(mean).max()


def test_what_it_does_not_know_is_said() -> None:
    asked = {kind: Asked(network(kind), task(), Bayes()) for kind in ("convolution", "stream")}
    assert not METRIC.obstacle(asked["convolution"], "output_mean_nlo_by_layer")
    assert "have their channels in common" in METRIC.obstacle(
        asked["stream"], "output_mean_nlo_by_layer"
    )
    for kind in ("stream", "norm"):
        assert not METRIC.obstacle(Asked(network(kind), task(), Bayes()), "output_mean_nlo")
    with pytest.raises(ValueError, match="what hidden layers learn is known of an `MLP`"):
        predict_training(network("stream"), task(), Bayes(), observables="feature_change_nlo")
    many = sw.Task(RNG.normal(size=(40, 4, 2)), np.ones((40, 2)))
    with pytest.raises(ValueError, match=r"labels.*Give fewer samples"):
        predict_training(network("stream"), many, Bayes(1.0), observables="log_evidence_nlo")


class Drawn(NamedTuple):
    """Means over drawn networks, n times what they have beyond infinite width; an axis of groups in front."""

    mean: np.ndarray
    covariance: np.ndarray
    evidence: np.ndarray


def metrics(kind: str, n: int, some: int, rng: np.random.Generator) -> np.ndarray:
    """Of explicit weights, tap by tap, what the read-out has for a metric on three samples."""

    def ring(field: np.ndarray) -> np.ndarray:
        channels = field.shape[-1]
        W = rng.standard_normal((some, 3, channels, n)) * np.sqrt(1.5 / (3 * channels))
        b = rng.standard_normal((some, 1, 1, n)) * np.sqrt(0.2)
        seen = [
            np.roll(field, 1 - tap, axis=-2).reshape(some, -1, channels) @ W[:, tap]
            for tap in range(3)
        ]
        return np.sum(seen, axis=0).reshape(some, 3, 4, n) + b

    z = ring(np.broadcast_to(X[:3], (some, 3, 4, 2)))
    z = ring(np.tanh(z)) + (z if kind == "stream" else 0.0)
    if kind == "norm":
        z = z / np.sqrt((z * z).mean(axis=-1, keepdims=True))
    pooled = np.tanh(z).mean(axis=2)
    return 0.2 + 1.5 * pooled @ pooled.swapaxes(1, 2) / n


def drawn(kind: str, n: int, algorithm: Bayes | LastLayer, inf, seed: int) -> Drawn:
    """Exact reweighting of drawn networks by their evidence, the read-out in closed form."""
    rng, groups, some = np.random.default_rng(seed), 24, 1500
    noise = algorithm.noise_variance * np.eye(2)
    rows = []
    for _ in range(groups):
        G = metrics(kind, n, some, rng)
        own = G[:, :2, :2] + noise
        R = np.linalg.solve(own, G[:, :2, 2:]).swapaxes(1, 2)
        u = np.linalg.solve(own, np.broadcast_to(Y, (some, 2, 2)))
        log = -0.5 * np.einsum("ai,nai->n", Y, u) - np.linalg.slogdet(2 * np.pi * own)[1]
        ratio = np.ones(some)
        if isinstance(algorithm, Bayes):
            ratio = np.exp(log - float(inf.log_evidence))
        w, m = ratio / ratio.sum(), (R @ Y).swapaxes(1, 2)
        within = G[:, 2:, 2:] - R @ G[:, :2, 2:]
        mean = np.einsum("n,nib->ib", w, m)
        cov = np.einsum("n,nib,njc->ijbc", w, m - mean, m - mean)
        cov += np.einsum("ij,n,nbc->ijbc", np.eye(2), w, within)
        cov -= np.einsum("ij,bc->ijbc", np.eye(2), inf.output_covariance.values)
        rows.append((mean - inf.output_mean.values, cov, np.log(ratio.mean())))
    return Drawn(*(n * np.array(part) for part in zip(*rows, strict=True)))


@pytest.mark.covers("B7", "B26")
@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        ("convolution", Bayes(0.3)),
        *thorough(*((kind, LastLayer()) for kind in ("convolution", "stream"))),
        *thorough(*((kind, Bayes(0.3)) for kind in ("stream", "norm"))),
    ],
    ids=str,
)
def test_drawn_networks_agree(kind: str, algorithm: Bayes | LastLayer) -> None:
    """At two widths, extrapolated in second order; the coefficients are ten of its errors."""
    found = predict_training(network(kind), task(), algorithm, observables="all")
    narrow, wide = (
        drawn(kind, n, algorithm, found, seed) for seed, n in enumerate((16, 32), start=1)
    )
    wrong = []
    for row, here, there in zip(ROWS, narrow, wide, strict=True):
        if row not in found:
            continue
        groups = 2 * there - here  # n times the difference is a + b/n: without b
        error = groups.std(axis=0, ddof=1) / np.sqrt(len(groups))
        bias = 0.05 * np.abs(there.mean(axis=0) - here.mean(axis=0)).max()
        noise = np.hypot(error + bias, found[f"{row}_error"].values)
        z = np.abs(groups.mean(axis=0) - found[row].values) / noise
        told = (kind, row, float(z.max()), float(np.abs(found[row]).max() / error.max()))
        if z.max() > 4.5:
            wrong.append(told)
    assert not wrong
