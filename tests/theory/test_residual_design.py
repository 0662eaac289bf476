"""Golden and property tests of how residual networks are chosen: growth, gamma, aspect ratio, blocks."""

import math

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
    residual_aspect_ratio,
    residual_block_scale,
    residual_growth,
    residual_susceptibilities,
)

# Golden


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
@pytest.mark.parametrize("name", ["relu", "tanh", "gelu", "swish"])
def test_critical_susceptibilities_are_one(name) -> None:
    net = ResidualMLP(3, 8, name, gamma=[0, 0.7, 0.7], input_dim=2, output_dim=8).at_criticality()
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


def test_bad_designs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`gamma` must be a number from 0 to 1; got 1\.2"):
        residual_growth("relu", 1.2)
    with pytest.raises(ValueError, match=r"'softplus' has no critical initialisation"):
        residual_growth("softplus", 0.5)
    with pytest.raises(ValueError, match=r"summed layer by layer, up to gamma = 0\.999"):
        residual_growth("gelu", 0.9999)
    with pytest.raises(ValueError, match=r"'gelu' is half-stable"):
        gamma_star("gelu", 0.5, 10)
    with pytest.raises(ValueError, match=r"`r` must be a positive finite number; got 0"):
        gamma_star("relu", 0.0, 10)
    z = np.ones((2, 3))
    with pytest.raises(ValueError, match=r"`draws` must be a whole number of at least 2; got 1"):
        residual_block_scale(lambda z: z, z, 0.5, draws=1)
    with pytest.raises(ValueError, match=r"`z` must not be all 0"):
        residual_block_scale(lambda z: z, 0 * z, 0.5)
    with pytest.raises(ValueError, match=r"`block` must keep the shape of its input"):
        residual_block_scale(lambda z: z[:1], z, 0.5)
    with pytest.raises(ValueError, match=r"`block` returned values of mean square 0\.0"):
        residual_block_scale(lambda z: 0 * z, z, 0.5)
