"""Golden and property tests of the susceptibilities, their ratio and their limit at small kernels.

An independent route: the derivative of <sigma^2> by <sigma^2 (z^2 - K)>.
"""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from grids import each
from kinked import elu, g, hard_tanh, selu
from scalewise.activations import BUILTIN_NAMES, activation
from scalewise.critical import susceptibilities
from scalewise.gaussian import single_moment

# Golden: the ratio of the susceptibilities, PDLT (5.73)


def ratio(name: str, K: float) -> float:
    parallel, perp = susceptibilities(name, K, 1.0)
    return float(perp / parallel)


@each("K", [1e-6, 0.01, 1.0, 5.0, 50.0])
def test_ratio_in_closed_form(K) -> None:
    assert ratio("erf", K) == pytest.approx(1 + 2 * K, rel=1e-12, abs=0)
    assert ratio("sigmoid", K) == pytest.approx(ratio("tanh", K / 4), rel=1e-12, abs=0)
    for p in (2, 3, 5):
        assert ratio(f"monomial({p})", K) == pytest.approx(p / (2 * p - 1), rel=1e-12, abs=0)
    if K <= 1:  # beyond, chi_parallel falls below the accuracy promised of chi_perp
        assert ratio("sin", K) == pytest.approx((math.exp(2 * K) + 1) / 2, rel=1e-12, abs=0)


@pytest.mark.covers("A4.4")
@each(
    ("name", "K", "value"),
    [
        ("tanh", 0.01, 1.019809),
        ("tanh", 50, 68.08621),
        ("softplus", 1e-12, 0.590616),
        ("softplus", 1, 0.6472044),
        ("softplus_shifted", 5, 0.9318742),
        ("swish", 1, 0.9096364),
        ("swish", 50, 1.014122),
        ("gelu", 0.5, 0.9092645),
        ("gelu", 10, 1.018514),
    ],
)
def test_ratio_tabulated(name, K, value) -> None:
    assert ratio(name, K) == pytest.approx(
        value, rel=1e-6, abs=0
    )  # six or seven digits are tabulated


def test_limits_at_zero() -> None:
    """sigma_1^2 and sigma_1^2 + sigma_0 sigma_2, PDLT (5.81) with its misprint corrected."""
    parallel, perp = susceptibilities("softplus", np.array([0.0, 1e-10]), 1.0)
    assert perp[0] == pytest.approx(0.25, rel=1e-15, abs=0)
    assert parallel[0] == pytest.approx(0.25 + 0.25 * math.log(2), rel=1e-15, abs=0)
    np.testing.assert_allclose([parallel[1], perp[1]], [parallel[0], perp[0]], rtol=1e-9)


# Properties


@each("K", [0.03, 1.0, 20.0])
@each(
    "sigma",
    [*(n for n in BUILTIN_NAMES if n not in ("perceptron", "exp")), elu, selu, hard_tanh],
)
def test_chi_parallel_is_the_derivative_of_the_recursion(sigma, K) -> None:
    """Against <sigma^2 (z^2 - K)>/2K^2, PDLT (5.50): no derivative, no kink."""
    sigma = sigma() if callable(sigma) else sigma
    parallel, perp = susceptibilities(sigma, K, 1.7)
    moment = single_moment(sigma, K, (0, 0), power=2).value - K * g(sigma, K)
    # The other route cancels: its error grows with <sigma^2>/K.
    slack = 1e-11 * (float(perp) + g(sigma, K) / K)
    assert float(parallel) == pytest.approx(1.7 * float(moment) / (2 * K * K), abs=slack)


# Refusals


@each("K", [-1.0, math.nan, math.inf])
def test_bad_variances_are_refused(K) -> None:
    with pytest.raises(ValueError, match=r"`K` is a variance and must be finite and at least 0"):
        susceptibilities("tanh", K, 1.0)


@each("C_W", [-1.0, math.nan, math.inf])
def test_bad_weight_variances_are_refused(C_W) -> None:
    with pytest.raises(ValueError, match=r"`C_W` must be a finite number of at least 0"):
        susceptibilities("tanh", 1.0, C_W)


def test_jumps_have_no_susceptibilities() -> None:
    with pytest.raises(ValueError, match=r"'perceptron' jumps, so its perpendicular"):
        susceptibilities("perceptron", 1.0, 1.0)


def test_infinite_susceptibilities_are_refused() -> None:
    corner = activation(lambda z: 1 + jnp.abs(z), kinks=(0.0,), name="corner")
    with pytest.raises(ValueError, match=r"'corner' are not finite at K = 0.*a positive one"):
        susceptibilities(corner, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"overflows.*Make the variances smaller"):
        susceptibilities("exp", 1e6, 1.0)


def test_shapes_are_kept() -> None:
    parallel, perp = susceptibilities("tanh", np.array([[0.0, 1.0], [2.0, 0.0]]), 1.5)
    assert parallel.shape == perp.shape == (2, 2)
    np.testing.assert_allclose(parallel[0, 0], 1.5, rtol=1e-15)
