"""Golden, property and agreement tests of residual networks.

Independent routes: the tables of the reference, closed forms of linear networks, sums over layers
written out here, ensembles by the exact conditional law, and networks with real weights.
"""

import math

import jax
import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from residual_recursions import printed, remembered
from scalewise.networks import Network, ResidualMLP
from scalewise.theory.flow._kernel_flow import kernel_flow
from scalewise.theory.flow._layer import LayerExpectations
from scalewise.theory.order import _tensors
from scalewise.theory.order._densities import densities
from scalewise.theory.order._one_input import one_input
from scalewise.theory.order._whole import whole_tensors
from scalewise.theory.residual import residual_growth

X = np.array([[1.0, 0.2], [0.3, -1.1]])
WITH_VERTEX = ["kernel", "four_point_vertex"]
OF_ONE = [*WITH_VERTEX, "metric_nlo"]


def trunk(depth, width, sigma, gamma, *, features=2, **rest) -> Network:
    """Skip connections up to the output."""
    gamma = [0, *[gamma] * (depth - 1)]
    shape = {"input_dim": features, "output_dim": width}
    return ResidualMLP(depth, width, sigma, gamma=gamma, **shape, **rest)


def alone(net, K1=1.0) -> list[np.ndarray]:
    """K, V and G1 at every layer of the input whose first kernel is K1."""
    x = np.full((1, net.input_dim), math.sqrt((K1 - net.C_b[0]) / net.C_W[0]))
    theory = sw.predict(net, x, observables=OF_ONE)
    return [theory[name].values.ravel() for name in OF_ONE]


# Golden


@pytest.mark.covers("A7.1", "A9.3")
def test_printed_recursion_as_tabulated() -> None:
    """Reference table 10.5: tanh, gamma^2 = 1/2, C_W = 1/2, from K = 1; ten digits."""
    net = trunk(50, 10, "tanh", 0.5**0.5, C_W=[1, *[0.5] * 49])
    K, V, G1 = printed(net, 1.0)
    table = {
        2: (0.6971472452, 0.2061786227, 0.0),
        3: (0.5134764101, 0.2225904297, -0.0154176708),
        10: (0.1457610729, 0.0798754676, -0.1262773783),
    }
    for layer, row in table.items():
        got = (K[layer - 1], V[layer - 1], G1[layer - 1])
        np.testing.assert_allclose(got, row, atol=6e-11)
    # V/K^2 l = 0.376, 0.446 on the way to 1/2, (B.35).
    for layer, value in ((10, 0.376), (50, 0.446)):
        assert V[layer - 1] / K[layer - 1] ** 2 / layer == pytest.approx(value, abs=6e-4)
    # The whole memory changes the third layer by more than a percent, and fades with K.
    _, full, _ = alone(net)
    assert full[1] == pytest.approx(V[1], rel=1e-12)
    assert full[2] / V[2] == pytest.approx(1.0157, abs=2e-4)
    assert full[-1] / V[-1] == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9])
def test_a_linear_network_remembers_quadratically(gamma) -> None:
    """nu = 2(1 - gamma^4) per layer in every version, (B.27)-(B.29)."""
    net = trunk(6, 20, "linear", gamma).at_criticality()
    expected = 2 * (1 - gamma**4) * np.arange(6) * 1.3**2
    for flow in (alone, printed):
        K, V, G1 = flow(net, 1.3)
        np.testing.assert_allclose(K, 1.3, rtol=1e-12)
        np.testing.assert_allclose(V, expected, rtol=1e-10)
        np.testing.assert_allclose(G1, 0, atol=1e-10)
    assert residual_growth("linear", gamma) == pytest.approx(2 * (1 - gamma**4), rel=1e-12)


@pytest.mark.covers("A9.3")
@pytest.mark.parametrize(
    ("name", "gamma"), [("relu", 0.7), *thorough(("gelu", 0.6), ("tanh", 0.5))]
)
def test_growth_is_that_of_the_recursion(name, gamma) -> None:
    """The slope of V/K^2 between two depths, deep enough for the memory to have filled."""
    net = trunk(41, 10, name, gamma).at_criticality()
    K_star = sw.criticality(name).K_star
    K, V, _ = alone(net, K_star or 1.0)
    slope = (V[40] / K[40] ** 2 - V[25] / K[25] ** 2) / 15
    slack = {"relu": 1e-4, "gelu": 0.01, "tanh": 0.06}[name]
    assert slope == pytest.approx(residual_growth(name, gamma), rel=slack)


# Properties


SHORT = ([30, 30, 40, 40], [0.0, 0.6, 0.0, 0.7, 0.0])
STREAM = (30, [0.0, 0.7, 0.7, 0.8, 0.0])
DEEP = (30, [0.0, *[0.8] * 13, 0.0])


@pytest.mark.covers("A9.1", "A9.2")
@pytest.mark.parametrize(
    ("name", "widths", "skips"),
    [
        *((name, *SHORT) for name in ("tanh", "relu")),
        ("tanh", *STREAM),
        *thorough(("gelu", *SHORT)),
        *thorough(("tanh", *DEEP), ("relu", *DEEP)),
    ],
)
def test_one_input_from_tables_is_one_on_whole_arrays(name, widths, skips, monkeypatch) -> None:
    if widths == 30:  # layer by layer, as those of more than a dozen layers are
        monkeypatch.setattr(_tensors, "TOGETHER", 1)
    depth = len(skips)
    net = ResidualMLP(depth, widths, name, gamma=skips, C_b=0.1, C_W=1.2, input_dim=2, output_dim=3)
    letters = (
        ("V", "G1", "D", "A", "F", "B", "H1", *"PQRSTU") if depth < 10 else ("V", "G1", "D", "A")
    )
    if not net.activation.is_smooth:
        letters = letters[:6]
    alone = one_input(net, kernel_flow(net, X[:1]).K, letters)
    whole = whole_tensors(net, X[:1], letters, range(1, depth + 1))
    assert {*alone} == {*letters}
    for letter in letters:
        value, error = whole[letter]
        want = alone[letter][0]
        assert np.all(np.abs(value - want) < 3 * error + 1e-8 * np.abs(want).max()), letter
        assert error.max() < 4e-3 * np.abs(want).max()


@pytest.mark.covers("A7.1", "A9.3")
def test_one_input_against_quadrature() -> None:
    """Every layer with every earlier one by two-dimensional quadrature, kinks by differences."""
    wrong = []
    for name, rtol in (
        ("tanh", 1e-8),
        ("relu", 1e-8),
        ("gelu", 1e-8),
        ("sin", 1e-8),
        ("hard_tanh", 1e-5),
    ):
        net = trunk(5, 30, name, 0.6, C_W=[1, 0.7, 0.4, 0.9, 0.6], C_b=0.1)
        for kind, got, want in zip(OF_ONE, alone(net, 1.3), remembered(net, 1.3), strict=True):
            if not np.allclose(got, want, rtol=rtol, atol=rtol * np.abs(want).max()):
                wrong.append((name, kind, got, want))
    assert wrong == []


@pytest.mark.covers("A9.3")
def test_of_a_jump_the_vertex_is_known_at_any_depth() -> None:
    """A step: sigma^2 = sigma, g' = 0, and Cov[sigma, sigma] = arcsin(rho)/2 pi."""
    skips = [0.0, *[0.5, 0.5, 0.0] * 17]
    net = ResidualMLP(52, 8, "perceptron", gamma=skips, C_b=0.1, C_W=0.4, input_dim=2, output_dim=1)
    found = sw.predict(net, X[:1])
    K, V = found.kernel.values.ravel(), found.four_point_vertex.values.ravel()
    g, want = np.zeros(0), [0.0]
    for m, skip in enumerate(skips[1:]):
        gone = np.array([np.prod(skips[k + 1 : m + 1]) for k in range(m)])
        c = np.arcsin(gone * np.sqrt(K[:m] / K[m])) / (2 * math.pi)
        A = skip**4 * want[-1] + 0.8 * skip**2 * float(g @ c) + 0.4**2 / 4
        g = np.append(skip**2 * g, 0.4)
        want.append(A)
    np.testing.assert_allclose(V, want, rtol=1e-9)


@pytest.mark.covers("A9.3")
@pytest.mark.parametrize("name", ["tanh", *thorough("relu", "swish")])
def test_one_input_of_many_is_the_single_input(name) -> None:
    net = trunk(4, 30, name, 0.6).at_criticality()
    many = sw.predict(net, X, observables=OF_ONE)
    V, error = many.four_point_vertex.values, many.four_point_vertex_error.values
    assert V.shape == (4, 2, 2, 2, 2)
    for a in (0, 1):
        one = alone(net, float(many.kernel[0, a, a]))
        np.testing.assert_allclose(many.kernel[:, a, a], one[0], rtol=1e-9)
        np.testing.assert_allclose(V[:, a, a, a, a], one[1], rtol=1e-7)
        np.testing.assert_allclose(many.metric_nlo[:, a, a], one[2], rtol=1e-8, atol=1e-12)
    V = V[-1]
    np.testing.assert_allclose(V, V.transpose(2, 3, 0, 1), atol=1e-6 + 8 * error.max())
    np.testing.assert_allclose(V, V.transpose(1, 0, 2, 3), rtol=1e-12)


@pytest.mark.thorough("test_one_input_against_quadrature")
def test_metric_of_an_activation_with_kinks_off_zero() -> None:
    """Price's theorem by differences, against the smooth route on a smooth activation's limit."""
    sharp = sw.activation(jax.nn.hard_tanh, kinks=(-1.0, 1.0))
    net = trunk(4, 20, sharp, 0.6).at_criticality()
    _, _, G1 = alone(net)
    rng = np.random.default_rng(0)
    # Networks of width 20, all neurons of one input; the mean of z^2 in the last layer.
    M = 40_000
    z = rng.normal(size=(M, 20))
    for layer in (1, 2):
        S = net.C_W[layer] * np.mean(np.clip(z, -1, 1) ** 2, axis=1)
        z = 0.6 * z + rng.normal(size=z.shape) * np.sqrt(S)[:, None]
    G = net.C_W[3] * np.mean(np.clip(z, -1, 1) ** 2, axis=1) + 0.36 * np.mean(z**2, axis=1)
    K, _, _ = alone(net)
    noise = G.std() / math.sqrt(M)
    assert abs(G.mean() - K[3] - G1[3] / 20) < 4 * noise + 0.3 * abs(G1[3]) / 20
    assert noise < 0.2 * abs(G1[3]) / 20


# Agreement with ensembles


@pytest.mark.covers("A9.3")
@pytest.mark.parametrize(
    ("square", "name"),
    [
        (0.25, "relu"),
        *thorough((0.5, "tanh"), (0.25, "tanh"), (0.75, "tanh"), (0.5, "relu"), (0.75, "relu")),
    ],
)
def test_ensembles_by_the_conditional_law(name, square) -> None:
    """V and G at layer 4 of a trunk, two inputs, two widths: within errors and a bias of O(1/n)."""
    excess = []
    # Times the width it is the same for every width.
    theory = trunk(4, 30, name, math.sqrt(square)).at_criticality()
    theory = sw.predict(theory, X, observables=OF_ONE).isel(layer=-1)
    exact, doubt = theory.four_point_vertex.values, theory.four_point_vertex_error.values
    for n in (30, 90):
        net = trunk(4, n, name, math.sqrt(square)).at_criticality()
        found = sw.measure(net, X, networks=8000, seed=3, observables=WITH_VERTEX).isel(layer=-1)
        mean, error = found.kernel.values, found.kernel_sem.values
        V, noise = found.four_point_vertex.values, found.four_point_vertex_sem.values
        scale = np.sqrt(np.einsum("abab->ab", exact))
        bias = 9 / n * scale[:, :, None, None] * scale
        assert np.all(np.abs(V - exact) < 4 * noise + bias + 8 * doubt)
        excess.append(np.max(np.abs(V - exact) / (scale[:, :, None, None] * scale)))
        for a in (0, 1):
            K, G1 = float(theory.kernel[a, a]), float(theory.metric_nlo[a, a])
            assert abs(mean[a, a] - K - G1 / n) < 4 * error[a, a] + 30 / n**2 * K
    assert excess[1] < 0.15


@pytest.mark.covers("A7.1", "A9.3")
def test_real_weights_tell_the_whole_memory_from_the_printed_one() -> None:
    """ReLU, gamma^2 = 1/2, five layers: V/K^2 is 13.7, not 9; 3000 networks with weights."""
    n, M = 60, 3000
    net = trunk(5, n, "relu", 0.5**0.5, features=1).at_criticality()
    _, V, G1 = alone(net)
    _, short, _ = printed(net, 1.0)
    assert V[-1] == pytest.approx(13.72, abs=0.01)
    assert short[-1] == pytest.approx(9.0, rel=1e-9)
    rng = np.random.default_rng(12)
    z = rng.normal(size=(M, n, 1))
    for _ in range(3):
        w = rng.normal(size=(M, n, n)) / math.sqrt(n)
        z = w @ np.maximum(z, 0) + math.sqrt(0.5) * z
    z = z[:, :, 0]
    S, own = np.mean(np.maximum(z, 0) ** 2, axis=1), 0.5 * z**2
    G = S + own.mean(axis=1)
    pairs = (n * n * own.mean(axis=1) ** 2 - np.sum(own**2, axis=1)) / (n * (n - 1))
    GG = S**2 + 2 * S * own.mean(axis=1) + pairs
    value = n * (GG.mean() - G.mean() ** 2)
    noise = n * (GG - 2 * G.mean() * G).std() / math.sqrt(M)
    assert abs(value - V[-1]) < 4 * noise + 9 / n * V[-1]
    assert value - short[-1] > 4 * noise + 9 / n * short[-1]
    # The mean drifts too, because z is skewed where its own past widens it.
    assert G1[-1] > 0.5


def test_the_mean_metric_drifts_by_the_memory() -> None:
    """ReLU, gamma^2 = 1/2, layer 3: G1/K = Cov[1(v > 0), relu(u)^2] at correlation gamma.

    That orthant moment is (pi - psi + sin psi cos psi)/2 pi, psi = pi/4; networks drift so too.
    """
    n, M = 12, 80_000
    net = trunk(3, n, "relu", 0.5**0.5, features=1).at_criticality()
    _, _, G1 = alone(net)
    assert G1[2] == pytest.approx((0.75 * math.pi + 0.5) / (2 * math.pi) - 0.25, rel=1e-8)
    found = sw.measure(net, [[0.5**0.5]], networks=M, seed=9, observables="kernel")
    mean, noise = float(found.kernel[2].item()), float(found.kernel_sem[2].item())
    assert abs(mean - 1 - G1[2] / n) < 4 * noise + 0.2 * G1[2] / n
    assert 6 * noise < G1[2] / n


def covariance_of(sigma, joint, orders) -> np.ndarray:
    """By a product rule of its own over four smooth variables, entries ab and cd of different layers."""
    x, w = np.polynomial.hermite_e.hermegauss(24)
    u = np.stack(np.meshgrid(x, x, x, x, indexing="ij")).reshape(4, -1)
    weights = np.einsum("i,j,k,l->ijkl", w, w, w, w).ravel() / w.sum() ** 4
    z = np.linalg.cholesky(joint) @ u
    late = sigma.derivative(z[0], orders[0]) * sigma.derivative(z[1], orders[1])
    early = sigma(z[[2, 2, 3]]) * sigma(z[[2, 3, 3]])
    return (early - (early @ weights)[:, None]) @ (weights * late)


def covariances_of_layers(sigma, joint) -> np.ndarray:
    """Of derivatives of sigma_a sigma_b in the later layer, densities included, with products in the other."""
    layer, early = LayerExpectations(sigma, joint), (np.array([2, 2, 3]), np.array([2, 3, 3]))
    rows = []
    for family, (a, b), half in (
        ((2, 0), (0, 1), 0.5),
        ((1, 1), (0, 1), 1.0),
        ((2, 0), (1, 0), 0.5),
    ):
        row = layer.covariance((*family, 0, 0))[:, a, b][:, *early]
        if family == (2, 0):
            place = np.array([a]), np.array([b])
            row = row + densities(sigma, joint, place, early, layer.M(0, 0)[early])[0]
        rows.append(half * row)
    most = max(map(len, rows))
    return np.stack([np.broadcast_to(row, (most, 3)) for row in rows], axis=1)


def test_the_terms_of_the_mean_metric() -> None:
    sigma = sw.activation("softplus")
    joint = np.array(
        [[0.9, 0.2, 0.5, 0.1], [0.2, 0.7, 0.1, 0.4], [0.5, 0.1, 0.8, 0.3], [0.1, 0.4, 0.3, 0.6]]
    )
    value = covariances_of_layers(sigma, joint)
    want = [covariance_of(sigma, joint, orders) for orders in ((2, 0), (1, 1), (0, 2))]
    want = np.array([0.5, 1.0, 0.5])[:, None] * np.array(want)
    np.testing.assert_allclose(value[0], want, rtol=1e-7)


def test_the_terms_of_the_mean_metric_at_a_kink() -> None:
    """Price: they are derivatives with respect to the kernel of the later layer, by differences."""
    sigma = sw.activation("relu")
    joint = np.array(
        [[0.9, 0.4, 0.5, 0.1], [0.4, 0.7, 0.1, 0.4], [0.5, 0.1, 0.8, 0.3], [0.1, 0.4, 0.3, 0.6]]
    )
    value = covariances_of_layers(sigma, joint)
    u = np.random.default_rng(0).normal(size=(4, 400_000))
    u = np.concatenate([u, -u], axis=1)

    def covariance(bump: np.ndarray) -> np.ndarray:
        # The later layer comes last: the same numbers for the earlier one whatever its variance.
        moved = (joint + bump)[np.ix_([2, 3, 0, 1], [2, 3, 0, 1])]
        early_a, early_b, a, b = np.maximum(np.linalg.cholesky(moved) @ u, 0)
        early = np.stack([early_a**2, early_a * early_b, early_b**2])
        return (early - early.mean(axis=1)[:, None]) @ (a * b) / a.size

    for row, (i, j) in enumerate(((0, 0), (0, 1), (1, 1))):
        bump = np.zeros((4, 4))
        bump[i, j] = bump[j, i] = 0.02
        want = (covariance(bump) - covariance(-bump)) / 0.04
        np.testing.assert_allclose(value.mean(axis=0)[row], want, atol=6e-3)


@pytest.mark.covers("A9.3")
@pytest.mark.thorough("test_the_mean_metric_drifts_by_the_memory")
def test_networks_drift_apart_by_the_memory() -> None:
    """ReLU, two correlated inputs, layer 3, two widths: the off-diagonal entry of the mean metric."""
    x = np.array([[1.0, 0.2], [0.9, 0.9]])
    theory = trunk(3, 8, "relu", 0.5**0.5).at_criticality()
    theory = sw.predict(theory, x, observables=["kernel", "metric_nlo"]).isel(layer=2)
    for n, M in ((8, 60_000), (16, 60_000)):
        net = trunk(3, n, "relu", 0.5**0.5).at_criticality()
        found = sw.measure(net, x, networks=M, seed=5, observables="kernel")
        drift = n * float(found.kernel[2, 0, 1] - theory.kernel[0, 1])
        noise = n * float(found.kernel_sem[2, 0, 1])
        G1 = float(theory.metric_nlo[0, 1])
        assert abs(drift - G1) < 4 * noise + 2 / n * G1
        assert G1 > 4 * noise


# Refusals


def test_bad_networks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 hidden layers of 30 inputs are more than 48"):
        sw.predict(trunk(3, 8, "tanh", 0.5), np.ones((30, 2)), observables="metric_nlo")
    with pytest.raises(
        ValueError, match=r"leaves the range of float64 at layer 3 .* explode or vanish"
    ):
        sw.predict(trunk(4, 8, "relu", 1e-80, C_W=[1, 1e-160, 1e-160, 1]), X)
    with pytest.raises(ValueError, match=r"does not have a correlation of its first two layers"):
        sw.predict(trunk(4, 8, "softplus", 0.5), 0 * X)
