"""Golden and property tests of critical initialisation: the points, and why there are none.

Golden numbers with 18 digits are 30-digit mpmath quadratures made for this file; the others are
closed forms or come from the table named beside them.
"""

import dataclasses
import math
import re

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grids import each
from kinked import elu, g, hard_tanh, selu
from scalewise.activations import BUILTIN_NAMES, Kink, activation
from scalewise.critical import criticality
from scalewise.gaussian import single_moment

NONE = (
    *("sigmoid", "softplus", "softplus_shifted", "monomial", "quadratic", "perceptron", "exp"),
    *("hardsigmoid", "logsigmoid", "tanhshrink"),
)
SOME = tuple(name for name in BUILTIN_NAMES if name not in NONE)


# Golden: the points


@pytest.mark.covers("A4.4", "A5.1")
@each(
    ("name", "C_W", "K_star"),
    [
        ("linear", 1.0, None),
        ("relu", 2.0, None),
        ("leaky_relu(0.5)", 1.6, None),
        ("leaky_relu(-1)", 1.0, None),
        ("tanh", 1.0, 0.0),
        ("sin", 1.0, 0.0),
        ("erf", math.pi / 4, 0.0),
    ],
)
def test_points_in_closed_form(name, C_W, K_star) -> None:
    """PDLT (5.67) and (5.90)."""
    point = criticality(name)
    assert point.C_b == 0
    np.testing.assert_allclose(point.C_W, C_W, rtol=1e-15)
    assert point.K_star == K_star
    assert point.reason == ""


@pytest.mark.covers("A4.4", "A5.1")
@each(
    ("name", "K_star", "C_b", "C_W", "attracts"),
    [
        (
            "swish",
            14.320173618025798817,
            0.5551431707215303962,
            1.9880046782694920053,
            "attracts from below and repels from above",
        ),
        (
            "gelu",
            (3 + math.sqrt(17)) / 2,
            0.17292239075606735175,
            1.9830582574375471252,
            "repels from below and attracts from above",
        ),
    ],
)
def test_half_stable_points(name, K_star, C_b, C_W, attracts) -> None:
    """PDLT (5.101), (5.105); 12 digits are demanded, the quadrature gives 13."""
    point = criticality(name)
    assert point.K_star == pytest.approx(K_star, rel=3e-14, abs=0)
    assert point.C_b == pytest.approx(C_b, rel=1e-13, abs=0)
    np.testing.assert_allclose(point.C_W, C_W, rtol=1e-14)
    assert attracts in point.found
    zero, chosen = point.candidates
    assert (zero.K_star, zero.C_b, zero.C_W, zero.stability) == (0, 0, 4, "unstable")
    assert chosen.stability == "half-stable"


def test_mish_and_hard_swish_have_half_stable_points_too() -> None:
    mish = criticality(jax.nn.mish)
    assert mish.K_star == pytest.approx(1.6701691324780777513, rel=3e-14, abs=0)
    assert mish.C_b == pytest.approx(0.0945217873706652995, rel=1e-12, abs=0)
    np.testing.assert_allclose(mish.C_W, 2.0135240697195302936, rtol=1e-14)
    hard = criticality(activation(jax.nn.hard_swish, kinks=(-3.0, 3.0)))
    assert hard.K_star is not None
    assert [c.stability for c in hard.candidates] == ["unstable", "half-stable"]
    # The kinks count: a root of the part without their delta functions lies elsewhere.
    smooth = single_moment(hard.activation, hard.K_star, (0, 2)).value
    assert abs(float(smooth)) > 0.01


@each("name", SOME)
def test_susceptibilities_of_every_point_are_one(name) -> None:
    point = criticality(name)
    assert point.chi_parallel == pytest.approx(1, abs=1e-13)
    assert point.chi_perp == pytest.approx(1, abs=1e-13)
    if point.K_star:
        # The fixed point itself, PDLT (5.56).
        fixed = point.C_b + point.C_W * g(name, point.K_star)
        assert fixed == pytest.approx(point.K_star, rel=1e-14, abs=0)


@each(
    ("name", "reason"),
    [
        ("sigmoid", r"C_b = .*= -4, which is negative\."),
        ("softplus", r"chi_parallel is above chi_perp for every K from 4e-06 to 4e\+06"),
        ("softplus_shifted", r"unstable \(K grows away from it\).* K \+ 0\.1875 K\^2"),
        ("monomial", r"chi_parallel is above chi_perp"),
        ("monomial(3)", r"chi_parallel is above chi_perp"),
        ("monomial(7)", r"chi_parallel is above chi_perp"),
        ("quadratic", r"chi_parallel is above chi_perp"),
        ("exp", r"chi_parallel is above chi_perp for every K from 2.5e-07 to 250,"),
        ("perceptron", r"jumps at z = 0, so chi_perp is infinite"),
    ],
)
def test_none_says_why(name, reason) -> None:
    """PDLT 5.3.2."""

    point = criticality(name)
    assert point.C_b is point.C_W is point.K_star is point.chi_parallel is point.chi_perp is None
    assert point.found == ""
    assert re.search(reason, point.reason)
    assert point.reason.endswith(".")


def test_sigmoid_keeps_its_rejected_point() -> None:
    (point,) = criticality("sigmoid").candidates
    assert (point.K_star, point.C_b, point.C_W, point.stability) == (0, -4, 16, "none")


def test_a_point_beyond_zero_with_a_negative_bias_variance_is_rejected() -> None:
    """swish + 1/5 has the root K* = 374.05 with C_b = -2.904."""
    swish = activation("swish")
    raised = dataclasses.replace(
        swish,
        name="raised",
        derivatives=(lambda z: swish(z) + 0.2, *swish.derivatives[1:]),
        taylor=(0.2, *(swish.taylor or ())[1:]),
    )
    point = criticality(raised)
    assert point.C_W is None
    assert "C_b = -2.904" in point.reason
    (candidate,) = point.candidates
    assert candidate.stability == "none"
    assert candidate.K_star == pytest.approx(374.045535804090441, rel=1e-12, abs=0)


@each(
    ("name", "series"),
    [
        ("tanh", "K - 2 K^2"),
        ("sin", "K - K^2"),
        ("erf", "K - 2 K^2"),
        ("gelu", f"K + {6 / math.pi:.6g} K^2"),
        ("swish", "K + 0.75 K^2"),
    ],
)
def test_the_coefficient_that_decides_at_zero(name, series) -> None:
    """a_1, PDLT (5.86), reference values; a_1 > 0 repels."""
    zero = criticality(name).candidates[0]
    assert series in zero.note
    assert zero.stability == ("stable" if " - " in series else "unstable")


@each(("c", "stability"), [(-1.0, "stable"), (1.0, "unstable")])
def test_where_a_1_vanishes_a_2_decides(c, stability) -> None:
    """sigma = z + c z^5/120: a_1 = 0 and a_2 = c/4, PDLT (5.87)."""
    base = activation("linear")
    quintic = dataclasses.replace(
        base,
        name="quintic",
        derivatives=(
            lambda z: z + c * z**5 / 120,
            lambda z: 1 + c * z**4 / 24,
            lambda z: c * z**3 / 6,
            lambda z: c * z**2 / 2,
        ),
        slopes=None,
        taylor=(0.0, 1.0, 0.0, 0.0, 0.0, c),
    )
    zero = criticality(quintic).candidates[0]
    assert zero.stability == stability
    assert f"{'+' if c > 0 else '-'} 0.25 K^3" in zero.note


def test_kinks_at_zero_give_half_integer_powers() -> None:
    """ELU: sigma^2 = z^2 + z^3 + ... below 0, so the next term is -2 K^{3/2}/sqrt(2 pi)."""
    point = criticality(elu())
    assert (point.C_b, point.K_star) == (0, 0)
    np.testing.assert_allclose(point.C_W, 1, rtol=1e-15)
    assert f"K - {2 / math.sqrt(2 * math.pi):.6g} K^1.5" in point.found
    K = 1e-6
    drift = (g(point.activation, K) - K) / K**1.5
    assert drift == pytest.approx(
        -2 / math.sqrt(2 * math.pi), rel=3e-3, abs=0
    )  # next order: sqrt(K)


def test_selu_takes_the_mean_square_of_its_two_slopes() -> None:
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    point = criticality(selu())
    np.testing.assert_allclose(
        point.C_W, 2 / (scale**2 * (1 + alpha**2)), rtol=1e-6
    )  # jax keeps 7 digits
    assert (point.C_b, point.K_star) == (0, 0)


def test_a_function_linear_around_zero_is_decided_beyond_all_orders() -> None:
    point = criticality(hard_tanh())
    assert (point.C_b, point.C_W, point.K_star) == (0, 1, 0)
    assert "K - less than any power" in point.found


def test_a_line_that_is_not_declared_scale_invariant_is_found_all_the_same() -> None:
    disguised = dataclasses.replace(activation("linear"), slopes=None)
    point = criticality(disguised)
    assert (point.C_b, point.C_W, point.K_star) == (0, 1, 0)
    assert len(point.candidates) == 1


# Properties


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.sampled_from(["swish", "gelu", "tanh", "erf"]))
@settings(max_examples=15, deadline=None)
def test_scaling_the_activation_scales_the_point(a, b, name) -> None:
    """a sigma(b z): K* and C_b divide by b^2, C_W by (a b)^2."""
    base = activation(name)
    scaled = dataclasses.replace(
        base,
        derivatives=tuple(
            lambda z, d=d, k=k: a * b**k * d(b * z) for k, d in enumerate(base.derivatives)
        ),
        taylor=tuple(a * b**k * s for k, s in enumerate(base.taylor or ())),
        family=None,
    )
    one, other = criticality(base), criticality(scaled)
    assert other.K_star == pytest.approx(one.K_star / b**2, rel=1e-11, abs=0)
    assert other.C_b == pytest.approx(one.C_b / b**2, rel=1e-11, abs=0)
    np.testing.assert_allclose(other.C_W, one.C_W / (a * b) ** 2, rtol=1e-11)


@given(st.floats(-3, 3), st.floats(-3, 3))
@settings(max_examples=40, deadline=None)
def test_scale_invariant_points(minus, plus) -> None:
    kinks = (Kink(0.0, 0.0, plus - minus),) if plus != minus else ()
    relu = activation("relu")
    sigma = dataclasses.replace(
        relu,
        derivatives=(
            lambda z: np.where(z >= 0, plus, minus) * z,
            lambda z: np.where(z >= 0, plus, minus),
            *relu.derivatives[2:],
        ),
        kinks=kinks,
        slopes=(minus, plus),
    )
    A_2 = 0.5 * (minus * minus + plus * plus)
    point = criticality(sigma)
    if A_2 < 1e-300:
        assert point.C_W is None
        return
    assert point.C_W == 1 / A_2
    assert point.K_star is None
    # Every K is a K*.
    assert point.C_W * g(sigma, 7.0) == pytest.approx(7, rel=1e-13, abs=0)


def test_a_constant_lets_no_signal_through() -> None:
    point = criticality(lambda z: 0 * z + 1.0)
    assert point.C_W is None
    assert point.reason.startswith("The activation is constant, so chi_perp is 0 whatever C_W is")
