"""Golden and property tests of the Hermite series: coefficients, error bounds, the tail test."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from scalewise.gaussian import pair_moment, pair_moments, single_moment
from scalewise.gaussian._hermite import PairSeries, hermite_table, mehler


def test_coefficients_of_sin_and_exp_are_known() -> None:
    """sin(√K x): h_k = ±K^{k/2} e^{-K/2}/√k! for odd k; exp: K^{k/2} e^{K/2}/√k!."""
    K = np.array([0.01, 0.7, 4.0])
    sine = hermite_table(np.sin, K, parity=-1)
    assert sine.converged
    power = hermite_table(np.exp, K[:2])
    assert len(sine.coefficients) > 15
    assert len(power.coefficients) > 10
    for k in range(min(20, len(sine.coefficients), len(power.coefficients))):
        size = K ** (k / 2) / math.sqrt(math.factorial(k))
        sign = 0 if k % 2 == 0 else (-1) ** ((k - 1) // 2)
        np.testing.assert_allclose(
            sine.coefficients[k], sign * size * np.exp(-K / 2), rtol=1e-11, atol=1e-15
        )
        np.testing.assert_allclose(
            power.coefficients[k], (size * np.exp(K / 2))[:2], rtol=1e-11, atol=1e-14
        )


def test_parity_only_saves_work() -> None:
    K = np.array([0.3, 2.0])
    for function, parity in ((np.tanh, -1), (lambda z: 1 / np.cosh(z), 1)):
        with_parity = hermite_table(function, K, parity=parity).coefficients
        without = hermite_table(function, K).coefficients
        n = min(len(with_parity), len(without))
        np.testing.assert_allclose(with_parity[:n], without[:n], atol=2e-15)


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-3, 5.0), st.floats(1e-3, 5.0), st.floats(-1.0, 1.0))
def test_the_error_bound_of_a_truncated_series_holds(A: float, B: float, c: float) -> None:
    """Cut at any tolerance, the sum is within its own bound of the full one."""
    pair = tuple(np.array([v]) for v in (A, B, c * math.sqrt(A * B)))
    series = PairSeries(*pair)
    full, _, size = series.moment(series.table(np.tanh, -1), series.table(np.tanh, -1))
    rough = hermite_table(np.tanh, series.variances, parity=-1, rtol=1e-2)
    value, bound, _ = series.moment(rough, rough)
    assert abs(value[0] - full[0]) <= 3 * bound[0] + 1e-13 * size[0]


def test_derivative_of_a_table_is_the_table_of_the_derivative() -> None:
    sigma = sw.activation("tanh")
    one = np.array([0.4])
    series = PairSeries(one, one, one)
    got = series.derivative(series.table(sigma.derivatives[0])).coefficients
    want = series.table(sigma.derivatives[1]).coefficients
    n = min(len(got), len(want))
    np.testing.assert_allclose(got[: n - 1], want[: n - 1], atol=1e-13)


def test_the_sum_of_a_pair_is_a_polynomial_in_the_correlation() -> None:
    rng = np.random.default_rng(0)
    f, g, c = rng.normal(size=(5, 3)), rng.normal(size=(7, 3)), np.array([-1.0, 0.0, 0.6])
    left, right = np.array([2, 0, 1]), np.array([0, 0, 2])
    for there in (slice(0), slice(0, None, 2), slice(1, None, 2), slice(0, 3), slice(None)):
        g[there] = 0.0  # orders that are not there are passed over
        products = f[:, left] * g[:5, right]
        want = [np.polynomial.polynomial.polyval(c[i], products[:, i]) for i in range(3)]
        np.testing.assert_allclose(mehler(f, g, c, left, right), want, rtol=1e-13)


def test_a_bump_between_the_nodes_has_no_error_bound() -> None:
    r"""$\langle e^{-s^2(z_a^2+z_b^2)}\rangle=[(1+2s^2)^2-(2s^2c)^2]^{-1/2}$; one node alone sees the bump."""
    s, c, one = 1e5, 0.3, np.array([1.0])
    series = PairSeries(one, one, c * one)
    bump = series.table(lambda z: np.exp(-((s * z) ** 2)), 1)
    value, error, _ = series.moment(bump, bump)
    exact = ((1 + 2 * s * s) ** 2 - (2 * s * s * c) ** 2) ** -0.5
    assert abs(value[0] - exact) <= error[0]


def test_a_kink_fails_the_tail_test() -> None:
    K = np.array([1.0])
    assert hermite_table(np.tanh, K).converged
    assert not hermite_table(np.abs, K).converged
    assert not hermite_table(lambda z: np.maximum(z - 0.3, 0.0), K).converged


def test_an_undeclared_kink_that_hid_from_the_search_is_refused_with_its_remedy() -> None:
    """Far out, kinks are not searched for; a variance that reaches them finds them out."""
    hidden = sw.activation(lambda z: jnp.tanh(z) + jnp.maximum(z - 2e4, 0.0), name="hidden")
    small = np.array([0.5])
    assert np.isfinite(pair_moments(hidden, small, small, small / 2)[0, 0].value).all()
    large = np.array([4e8])
    with pytest.raises(ValueError, match=r"'hidden'.*do not converge.*kinks="):
        pair_moments(hidden, large, large, 0.5 * large)
    declared = sw.activation(lambda z: jnp.tanh(z) + jnp.maximum(z - 2e4, 0.0), kinks=(2e4,))
    found = pair_moments(declared, large, large, 0.5 * large)[0, 0]
    assert found.error[0] < 1e-9 * found.value[0]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"positive semidefinite.*A=1, B=1, C=1\.5"):
        pair_moments("tanh", 1.0, 1.0, 1.5)
    with pytest.raises(ValueError, match="`K` must be a variance of at least 0; got -1"):
        single_moment("tanh", -1.0, (0, 0))
    with pytest.raises(ValueError, match=r"preactivation of variance 0.*'relu'.*jumps at 0"):
        pair_moments("relu", 0.0, 1.0, 0.0)
    for A in (1e-150, 1e150):
        with pytest.raises(ValueError, match=r"`A` holds the variance 1e.150.*rescale"):
            pair_moments("relu", A, 1.0, 0.0)
    with pytest.raises(ValueError, match="`C` must hold finite numbers"):
        pair_moments("tanh", 1.0, 1.0, math.nan)
    with pytest.raises(ValueError, match="`orders` must be a sequence of pairs out of"):
        pair_moments("tanh", 1.0, 1.0, 0.0, [(5, 1)])
    with pytest.raises(
        ValueError, match="`orders_a` must be derivative orders, at least one, each 0, 1, 2 or 3"
    ):
        pair_moment("tanh", 1.0, 1.0, 0.0, (4,), (0,))
    with pytest.raises(
        ValueError,
        match="`engine` must be 'auto', 'closed', 'hermite' or 'quadrature'; got 'magic'",
    ):
        pair_moments("tanh", 1.0, 1.0, 0.0, engine="magic")
    with pytest.raises(ValueError, match="'tanh' has no closed forms; use engine='auto'"):
        pair_moments("tanh", 1.0, 1.0, 0.0, engine="closed")
    kinked = sw.activation(lambda z: jnp.clip(z, -1, 1), kinks=(-1.0, 1.0), name="hardtanh")
    with pytest.raises(ValueError, match="'hardtanh' has kinks and no convergent Hermite series"):
        pair_moments(kinked, 1.0, 1.0, 0.0, engine="hermite")
