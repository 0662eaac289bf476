"""Golden, property and agreement tests of residual networks.

Independent routes: the tables of the reference, closed forms of linear networks, sums over layers
written out here, ensembles by the exact conditional law, and networks with real weights.
"""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from grids import each
from scalewise.gaussian import pair_moment, single_moment
from scalewise.networks import ResidualMLP
from scalewise.theory.residual import (
    block_norm,
    gamma_star,
    printed_gamma_star,
    printed_residual_growth,
    printed_single_input,
    residual_aspect_ratio,
    residual_block_scale,
    residual_flow,
    residual_growth,
    residual_metric,
    residual_single_input,
    residual_susceptibilities,
)
from scalewise.theory.residual._residual_metric import covariances_of_layers

X = np.array([[1.0, 0.2], [0.3, -1.1]])
WITH_VERTEX = ["kernel", "four_point_vertex"]


def trunk(depth, width, sigma, gamma, *, features=2, **rest) -> ResidualMLP:
    """Skip connections up to the output."""
    gamma = [0, *[gamma] * (depth - 1)]
    shape = {"input_dim": features, "output_dim": width}
    return ResidualMLP(depth, width, sigma, gamma=gamma, **shape, **rest)


# Golden


@pytest.mark.covers("A7.1", "A9.3")
def test_printed_recursion_as_tabulated() -> None:
    """Reference table 10.5: tanh, gamma^2 = 1/2, C_W = 1/2, from K = 1; ten digits."""
    net = trunk(50, 10, "tanh", 0.5**0.5, C_W=[1, *[0.5] * 49])
    K, V, G1 = printed_single_input(net, 1.0)
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
    _, full, _ = residual_single_input(net, 1.0)
    assert full[1] == pytest.approx(V[1], rel=1e-12)
    assert full[2] / V[2] == pytest.approx(1.0157, abs=2e-4)
    assert full[-1] / V[-1] == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9])
def test_a_linear_network_remembers_quadratically(gamma) -> None:
    """nu = 2(1 - gamma^4) per layer in every version, (B.27)-(B.29)."""
    net = trunk(6, 20, "linear", gamma).at_criticality()
    expected = 2 * (1 - gamma**4) * np.arange(6) * 1.3**2
    for flow in (residual_single_input, printed_single_input):
        K, V, G1 = flow(net, 1.3)
        np.testing.assert_allclose(K, 1.3, rtol=1e-12)
        np.testing.assert_allclose(V, expected, rtol=1e-10)
        np.testing.assert_allclose(G1, 0, atol=1e-10)
    assert residual_growth("linear", gamma) == pytest.approx(2 * (1 - gamma**4), rel=1e-12)


@pytest.mark.covers("A9.3")
def test_growth_tabulated() -> None:
    """nu(gamma) as printed, reference section 14."""
    for name, values in (
        ("relu", (5, 3.5625, 2.25, 1.0625, 0.41)),
        ("linear", (2, 1.875, 1.5, 0.875, 0.38)),
        ("tanh", (2 / 3, 0.625, 0.5, 7 / 24, 0.38 / 3)),
    ):
        for square, value in zip((0, 0.25, 0.5, 0.75, 0.9), values, strict=True):
            gamma = math.sqrt(square)
            assert printed_residual_growth(name, gamma) == pytest.approx(value, rel=1e-12)
            if name != "relu":  # where sigma^2 is quadratic nothing was left out
                assert residual_growth(name, gamma) == pytest.approx(value, rel=1e-12)
        assert residual_growth(name, 1.0) == pytest.approx(0, abs=1e-15)


@pytest.mark.covers("A9.3")
@each("name", ["relu", "leaky_relu(-0.3)", "leaky_relu(0.5)", "leaky_relu(-1)"])
@each("gamma", [0.0, 0.3, 0.8, 0.97])
def test_growth_is_the_sum_over_the_memory(name, gamma) -> None:
    """(1 - gamma^2)^2 [c(1) + 2 sum c(gamma^lag)], each covariance by the polar engine."""
    a = sw.criticality(name).coefficients
    rho = gamma ** np.arange(0, 1500)
    product = pair_moment(name, 1.0, 1.0, rho, (0, 0), (0, 0)).value
    c = product / a["A_2"] ** 2 - 1
    total = (1 - gamma**2) ** 2 * (c[0] + 2 * np.sum(c[1:])) if gamma else c[0]
    assert residual_growth(name, gamma) == pytest.approx(total, rel=1e-8)


@pytest.mark.covers("A9.3")
@pytest.mark.parametrize(("name", "gamma"), [("relu", 0.7), ("gelu", 0.6), ("tanh", 0.5)])
def test_growth_is_that_of_the_recursion(name, gamma) -> None:
    """The slope of V/K^2 between two depths, deep enough for the memory to have filled."""
    net = trunk(41, 10, name, gamma).at_criticality()
    K_star = sw.criticality(name).K_star
    K, V, _ = residual_single_input(net, K_star or 1.0)
    slope = (V[40] / K[40] ** 2 - V[25] / K[25] ** 2) / 15
    slack = {"relu": 1e-4, "gelu": 0.01, "tanh": 0.06}[name]
    assert slope == pytest.approx(residual_growth(name, gamma), rel=slack)


def test_optimal_aspect_ratios() -> None:
    """(B.36): tanh at gamma^2 = 1/2 and ten outputs; ReLU as printed."""
    assert residual_aspect_ratio("tanh", 0.5**0.5, 10) == pytest.approx(0.16, rel=1e-12)
    printed = 4 / 50 / printed_residual_growth("relu", 0.5**0.5)
    assert printed == pytest.approx(0.0355556, rel=1e-5)


@pytest.mark.covers("A9.3")
@given(st.floats(1.0001, 50), st.sampled_from(["tanh", "linear", "relu", "leaky_relu(0.4)"]))
@settings(max_examples=12, deadline=None)
def test_gamma_star_inverts_the_growth(factor, name) -> None:
    r = factor * residual_aspect_ratio(name, 0.0, 10)
    gamma = gamma_star(name, r, 10)
    assert residual_growth(name, gamma) * r == pytest.approx(4 / 50, rel=1e-7)
    printed = printed_gamma_star(name, r, 10)
    assert printed_residual_growth(name, printed) * r == pytest.approx(4 / 50, rel=1e-9)
    if name in ("tanh", "linear"):
        assert gamma**4 == pytest.approx(1 - 1 / factor, rel=1e-9)
    if name == "relu":
        assert printed**2 == pytest.approx(3 - math.sqrt(4 + 5 / factor), rel=1e-9)
        assert gamma > printed


def test_below_the_optimal_depth_no_skip_is_needed() -> None:
    for find in (gamma_star, printed_gamma_star):
        assert find("relu", 0.01, 10) == 0
        assert find("relu", 0.032, 10) > 0
    assert printed_gamma_star("relu", 0.032, 10) ** 2 == pytest.approx(0.4504902, abs=1e-7)


# Properties


@pytest.mark.covers("A9.1", "A9.2")
@pytest.mark.parametrize("name", ["tanh", "relu", "gelu"])
def test_without_skips_it_is_predict(name) -> None:
    mlp = sw.MLP(4, [30, 20, 40], name, input_dim=2, output_dim=3).at_criticality()
    flow, theory = residual_flow(mlp, X), sw.predict(mlp, X)
    np.testing.assert_allclose(flow.K, theory.kernel.values, rtol=1e-9)
    slack = 8 * (flow.V_error + theory.four_point_vertex_error.values) + 1e-8
    assert np.all(np.abs(flow.V - theory.four_point_vertex.values) < slack)
    K, V, G1 = residual_single_input(mlp, float(flow.K[0, 1, 1]))
    np.testing.assert_allclose(K, theory.kernel.values[:, 1, 1], rtol=1e-9)
    np.testing.assert_allclose(V, theory.four_point_vertex.values[:, 1, 1, 1, 1], rtol=1e-7)
    np.testing.assert_allclose(G1, theory.metric_nlo.values[:, 1, 1], atol=1e-7)


@pytest.mark.covers("A9.3")
@pytest.mark.parametrize("name", ["tanh", "relu", "swish"])
def test_one_input_of_many_is_the_single_input(name) -> None:
    net = trunk(4, 30, name, 0.6).at_criticality()
    flow = residual_flow(net, X)
    assert flow.V.shape == (4, 2, 2, 2, 2)
    for a in (0, 1):
        K, V, _ = residual_single_input(net, float(flow.K[0, a, a]))
        np.testing.assert_allclose(flow.K[:, a, a], K, rtol=1e-9)
        np.testing.assert_allclose(flow.V[:, a, a, a, a], V, rtol=1e-7)
    V = flow.V[-1]
    np.testing.assert_allclose(V, V.transpose(2, 3, 0, 1), atol=1e-6 + 8 * flow.V_error.max())
    np.testing.assert_allclose(V, V.transpose(1, 0, 2, 3), rtol=1e-12)


def test_inputs_may_be_left_out() -> None:
    net = trunk(4, 30, "tanh", 0.6).at_criticality()
    all_of_them = residual_flow(net, X)
    one = residual_flow(net, X[1:])
    np.testing.assert_allclose(one.V[:, 0, 0, 0, 0], all_of_them.V[:, 1, 1, 1, 1], rtol=1e-8)


@pytest.mark.covers("A9.1", "A9.2")
@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "swish"])
def test_critical_susceptibilities_are_one(name) -> None:
    net = trunk(3, 8, name, 0.7).at_criticality()
    record = sw.criticality(name)
    at = 2.0 if record.K_star is None else record.K_star
    parallel, perp = residual_susceptibilities(name, at, net.C_W[2], 0.7)
    assert float(parallel) == pytest.approx(1, abs=1e-12)
    assert float(perp) == pytest.approx(1, abs=1e-12)
    # The first layer has no skip and keeps the critical numbers of the plain network.
    assert net.C_W[0] == pytest.approx(record.C_W, rel=1e-14)
    assert net.C_W[2] == pytest.approx(0.51 * record.C_W, rel=1e-14)
    if record.K_star:
        g = float(single_moment(name, at, (0, 0)).value)
        fixed = net.C_b[2] + net.C_W[2] * g + 0.49 * at
        assert fixed == pytest.approx(at, rel=1e-12)


def test_metric_of_an_activation_with_kinks_off_zero() -> None:
    """Price's theorem by differences, against the smooth route on a smooth activation's limit."""
    sharp = sw.activation(jax.nn.hard_tanh, kinks=(-1.0, 1.0))
    net = trunk(4, 20, sharp, 0.6).at_criticality()
    _, _, G1 = residual_single_input(net, 1.0)
    rng = np.random.default_rng(0)
    # Networks of width 20, all neurons of one input; the mean of z^2 in the last layer.
    M = 40_000
    z = rng.normal(size=(M, 20))
    for layer in (1, 2):
        S = net.C_W[layer] * np.mean(np.clip(z, -1, 1) ** 2, axis=1)
        z = 0.6 * z + rng.normal(size=z.shape) * np.sqrt(S)[:, None]
    G = net.C_W[3] * np.mean(np.clip(z, -1, 1) ** 2, axis=1) + 0.36 * np.mean(z**2, axis=1)
    K, _, _ = residual_single_input(net, 1.0)
    noise = G.std() / math.sqrt(M)
    assert abs(G.mean() - K[3] - G1[3] / 20) < 4 * noise + 0.3 * abs(G1[3]) / 20
    assert noise < 0.2 * abs(G1[3]) / 20


# Agreement with ensembles


@pytest.mark.covers("A9.3")
@pytest.mark.parametrize("name", ["tanh", "relu"])
@pytest.mark.parametrize("square", [0.25, 0.5, 0.75])
def test_ensembles_by_the_conditional_law(name, square) -> None:
    """V and G at layer 4 of a trunk, two inputs, two widths: within errors and a bias of O(1/n)."""
    excess = []
    for n in (30, 90):
        net = trunk(4, n, name, math.sqrt(square)).at_criticality()
        flow = residual_flow(net, X)
        found = sw.measure(net, X, networks=8000, seed=3, observables=WITH_VERTEX).isel(layer=-1)
        mean, error = found.kernel.values, found.kernel_sem.values
        V, noise = found.four_point_vertex.values, found.four_point_vertex_sem.values
        scale = np.sqrt(np.einsum("abab->ab", flow.V[-1]))
        bias = 9 / n * scale[:, :, None, None] * scale
        assert np.all(np.abs(V - flow.V[-1]) < 4 * noise + bias + 8 * flow.V_error[-1])
        excess.append(np.max(np.abs(V - flow.V[-1]) / (scale[:, :, None, None] * scale)))
        for a in (0, 1):
            K, _, G1 = residual_single_input(net, float(flow.K[0, a, a]))
            assert abs(mean[a, a] - K[-1] - G1[-1] / n) < 4 * error[a, a] + 30 / n**2 * K[-1]
    assert excess[1] < 0.15


@pytest.mark.covers("A7.1", "A9.3")
def test_real_weights_tell_the_whole_memory_from_the_printed_one() -> None:
    """ReLU, gamma^2 = 1/2, five layers: V/K^2 is 13.7, not 9; 3000 networks with weights."""
    n, M = 60, 3000
    net = trunk(5, n, "relu", 0.5**0.5, features=1).at_criticality()
    _, V, G1 = residual_single_input(net, 1.0)
    _, printed, _ = printed_single_input(net, 1.0)
    assert V[-1] == pytest.approx(13.72, abs=0.01)
    assert printed[-1] == pytest.approx(9.0, rel=1e-9)
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
    assert value - printed[-1] > 4 * noise + 9 / n * printed[-1]
    # The mean drifts too, because z is skewed where its own past widens it.
    assert G1[-1] > 0.5


def test_the_mean_metric_drifts_by_the_memory() -> None:
    """ReLU, gamma^2 = 1/2, layer 3: G1/K = Cov[1(v > 0), relu(u)^2] at correlation gamma.

    That orthant moment is (pi - psi + sin psi cos psi)/2 pi, psi = pi/4; networks drift so too.
    """
    n, M = 12, 100_000
    net = trunk(3, n, "relu", 0.5**0.5, features=1).at_criticality()
    _, _, G1 = residual_single_input(net, 1.0)
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


def test_the_terms_of_the_mean_metric() -> None:
    sigma = sw.activation("softplus")
    joint = np.array(
        [[0.9, 0.2, 0.5, 0.1], [0.2, 0.7, 0.1, 0.4], [0.5, 0.1, 0.8, 0.3], [0.1, 0.4, 0.3, 0.6]]
    )
    value, _ = covariances_of_layers(sigma, joint)
    want = [covariance_of(sigma, joint, orders) for orders in ((2, 0), (1, 1), (0, 2))]
    want = np.array([0.5, 1.0, 0.5])[:, None] * np.array(want)
    np.testing.assert_allclose(value[0], want, rtol=1e-7)


def test_the_terms_of_the_mean_metric_at_a_kink() -> None:
    """Price: they are derivatives with respect to the kernel of the later layer, by differences."""
    sigma = sw.activation("relu")
    joint = np.array(
        [[0.9, 0.4, 0.5, 0.1], [0.4, 0.7, 0.1, 0.4], [0.5, 0.1, 0.8, 0.3], [0.1, 0.4, 0.3, 0.6]]
    )
    value, _ = covariances_of_layers(sigma, joint)
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
@pytest.mark.parametrize(("name", "depth"), [("tanh", 3), ("relu", 4), ("gelu", 3)])
def test_the_mean_metric_of_several_inputs(name, depth) -> None:
    """Its diagonal is the single-input one; without skips it is that of `predict`; linear: none."""
    x = np.array([[1.0, 0.2], [0.9, 0.9]])
    net = trunk(depth, 30, name, 0.7).at_criticality()
    found = residual_metric(net, x)
    for a in (0, 1):
        _, _, G1 = residual_single_input(net, float(found.K[0, a, a]))
        np.testing.assert_allclose(found.G1[:, a, a], G1, rtol=1e-8, atol=1e-12)
    widths = [30, 20, 40][: depth - 1]
    mlp = sw.MLP(depth, widths, name, input_dim=2, output_dim=3).at_criticality()
    plain = sw.predict(mlp, x, observables=["metric_nlo"])
    np.testing.assert_allclose(residual_metric(mlp, x).G1, plain.metric_nlo.values, atol=1e-8)


@pytest.mark.covers("A9.3")
def test_networks_drift_apart_by_the_memory() -> None:
    """ReLU, two correlated inputs, layer 3, two widths: the off-diagonal entry of the mean metric."""
    x = np.array([[1.0, 0.2], [0.9, 0.9]])
    for n, M in ((8, 60_000), (16, 60_000)):
        net = trunk(3, n, "relu", 0.5**0.5).at_criticality()
        theory = residual_metric(net, x)
        found = sw.measure(net, x, networks=M, seed=5, observables="kernel")
        drift = n * float(found.kernel[2, 0, 1] - theory.K[2, 0, 1])
        noise = n * float(found.kernel_sem[2, 0, 1])
        assert abs(drift - theory.G1[2, 0, 1]) < 4 * noise + 2 / n * theory.G1[2, 0, 1]
        assert theory.G1[2, 0, 1] > 4 * noise


# General blocks


@pytest.mark.covers("A9.4")
def test_one_layer_block_at_kaiming() -> None:
    """(B.45): a ReLU layer with C_W = 2 must give xi^2 = 1 - gamma^2."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(200, 300))

    def block(z):
        return np.maximum(z, 0) @ (rng.normal(size=(300, 300)) * math.sqrt(2 / 300))

    scale = residual_block_scale(block, z, 0.8)
    # z itself is a sample: its mean ReLU square differs from half its mean square by a little.
    exact = math.sqrt(0.36 * np.mean(z**2) / (2 * np.mean(np.maximum(z, 0) ** 2)))
    assert abs(scale.xi - exact) < 4 * scale.xi_error + 1e-3
    assert scale.xi == pytest.approx(0.6, abs=0.01)
    assert scale.xi_error < 0.01


@pytest.mark.covers("A9.4")
@given(st.floats(-0.9, 0.9), st.floats(0.05, 0.99), st.floats(0.2, 3))
@settings(max_examples=40, deadline=None)
def test_the_scale_keeps_the_norm(overlap, gamma, size) -> None:
    """(B.44) at the root of (B.45), for a block that is correlated with its input."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(10, 40))

    def block(z):
        return size * (overlap * z + math.sqrt(1 - overlap**2) * rng.normal(size=z.shape))

    scale = residual_block_scale(block, z, gamma, draws=4)
    assert scale.xi > 0
    assert block_norm(scale, gamma, scale.xi) == pytest.approx(scale.G_zz, rel=1e-10)
    assert scale.G_Rz == pytest.approx(size * overlap * scale.G_zz, abs=0.3 * size)


@pytest.mark.covers("A9.4")
def test_twenty_deep_blocks_keep_their_norm() -> None:
    """Three-layer ReLU blocks, fresh weights: flat over twenty of them, (B.42)-(B.45)."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(64, 128))

    def block(z):
        for _ in range(3):
            z = np.maximum(z, 0) @ (rng.normal(size=(128, 128)) * math.sqrt(2.5 / 128))
        return z

    start = np.mean(z**2)
    for _ in range(20):
        scale = residual_block_scale(block, z, 0.9, draws=6)
        z = 0.9 * z + scale.xi * block(z)
    assert np.mean(z**2) == pytest.approx(start, rel=0.5)


# Refusals


def test_bad_networks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 hidden layers of 30 inputs are more than 48"):
        residual_flow(trunk(3, 8, "tanh", 0.5), np.ones((30, 2)))
    with pytest.raises(
        ValueError, match=r"leaves the range of float64 at layer 2 .* explode or vanish"
    ):
        residual_flow(trunk(4, 8, "relu", 0.0, C_W=[1, 1e-160, 1e-160, 1]), X)
    with pytest.raises(ValueError, match=r"`K1` is a variance and must be positive"):
        residual_single_input(trunk(4, 8, "relu", 0.5), 0.0)


def test_bad_designs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`gamma` must be from 0 to 1 at criticality; got 1\.2"):
        residual_growth("relu", 1.2)
    with pytest.raises(ValueError, match=r"'softplus' has no critical initialisation"):
        residual_growth("softplus", 0.5)
    with pytest.raises(ValueError, match=r"summed layer by layer, up to gamma = 0\.999"):
        residual_growth("gelu", 0.9999)
    with pytest.raises(ValueError, match=r"'gelu' is half-stable"):
        gamma_star("gelu", 0.5, 10)
    with pytest.raises(ValueError, match=r"`r` is an aspect ratio and must be positive"):
        gamma_star("relu", 0.0, 10)
    z = np.ones((2, 3))
    with pytest.raises(ValueError, match=r"`draws` must be at least 2 and `gamma` from 0 to 1"):
        residual_block_scale(lambda z: z, z, 0.5, draws=1)
    with pytest.raises(ValueError, match=r"`z` must be a finite matrix, not all 0"):
        residual_block_scale(lambda z: z, 0 * z, 0.5)
    with pytest.raises(ValueError, match=r"`block` must keep the shape of its input"):
        residual_block_scale(lambda z: z[:1], z, 0.5)
    with pytest.raises(ValueError, match=r"`block` returned values of mean square 0\.0"):
        residual_block_scale(lambda z: 0 * z, z, 0.5)
