"""Golden, property and agreement tests of critical initialisation.

Golden numbers with 18 digits are 30-digit mpmath quadratures made for this file; the others are
closed forms or come from the table named beside them. Independent routes: the derivative of
<sigma^2> by <sigma^2 (z^2 - K)>, and the recursion over many layers.
"""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalewise.activations import BUILTIN_NAMES, Activation, Kink, activation
from scalewise.criticality import criticality, susceptibilities
from scalewise.gaussian import single_moment
from scalewise.network import MLP

NONE = ("sigmoid", "softplus", "softplus_shifted", "monomial", "quadratic", "perceptron", "exp")
SOME = tuple(name for name in BUILTIN_NAMES if name not in NONE)


def g(source, K) -> float:
    return float(single_moment(source, K, (0, 0)).value)


def elu() -> Activation:
    return activation(jax.nn.elu, kinks=(0.0,))


def hard_tanh() -> Activation:
    return activation(jax.nn.hard_tanh, kinks=(-1.0, 1.0))


def selu() -> Activation:
    return activation(jax.nn.selu, kinks=(0.0,))


# Golden: the points


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("name", SOME)
def test_susceptibilities_of_every_point_are_one(name) -> None:
    point = criticality(name)
    assert point.chi_parallel == pytest.approx(1, abs=1e-13)
    assert point.chi_perp == pytest.approx(1, abs=1e-13)
    if point.K_star:
        # The fixed point itself, PDLT (5.56).
        fixed = point.C_b + point.C_W * g(name, point.K_star)
        assert fixed == pytest.approx(point.K_star, rel=1e-14, abs=0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("sigmoid", r"C_b = .*= -4, which is negative\."),
        ("softplus", r"chi_parallel is above chi_perp for every K from 1e-06 to 1e\+06"),
        ("softplus_shifted", r"unstable \(K grows away from it\).* K \+ 0\.1875 K\^2"),
        ("monomial", r"chi_parallel is above chi_perp"),
        ("monomial(3)", r"chi_parallel is above chi_perp"),
        ("monomial(7)", r"chi_parallel is above chi_perp"),
        ("quadratic", r"chi_parallel is above chi_perp"),
        ("exp", r"chi_parallel is above chi_perp for every K from 1e-06 to 100,"),
        ("perceptron", r"jumps at z = 0, so chi_perp is infinite"),
        ("leaky_relu(1e200)", r"A_2 = inf has no usable inverse"),
    ],
)
def test_none_says_why(name, reason) -> None:
    """PDLT 5.3.2."""
    import re

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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(("c", "stability"), [(-1.0, "stable"), (1.0, "unstable")])
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


# Golden: the ratio of the susceptibilities, PDLT (5.73)


def ratio(name: str, K: float) -> float:
    parallel, perp = susceptibilities(name, K, 1.0)
    return float(perp / parallel)


@pytest.mark.parametrize("K", [1e-6, 0.01, 1.0, 5.0, 50.0])
def test_ratio_in_closed_form(K) -> None:
    assert ratio("erf", K) == pytest.approx(1 + 2 * K, rel=1e-12, abs=0)
    assert ratio("sigmoid", K) == pytest.approx(ratio("tanh", K / 4), rel=1e-12, abs=0)
    for p in (2, 3, 5):
        assert ratio(f"monomial({p})", K) == pytest.approx(p / (2 * p - 1), rel=1e-12, abs=0)
    if K <= 1:  # beyond, chi_parallel falls below the accuracy promised of chi_perp
        assert ratio("sin", K) == pytest.approx((math.exp(2 * K) + 1) / 2, rel=1e-12, abs=0)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("K", [0.03, 1.0, 20.0])
@pytest.mark.parametrize(
    "sigma",
    [*(n for n in BUILTIN_NAMES if n not in ("perceptron", "exp")), elu, selu, hard_tanh],
    ids=lambda a: a if isinstance(a, str) else a.__name__,
)
def test_chi_parallel_is_the_derivative_of_the_recursion(sigma, K) -> None:
    """Against <sigma^2 (z^2 - K)>/2K^2, PDLT (5.50): no derivative, no kink."""
    sigma = sigma() if callable(sigma) else sigma
    parallel, perp = susceptibilities(sigma, K, 1.7)
    moment = single_moment(sigma, K, (0, 0), power=2).value - K * g(sigma, K)
    # The other route cancels: its error grows with <sigma^2>/K.
    slack = 1e-11 * (float(perp) + g(sigma, K) / K)
    assert float(parallel) == pytest.approx(1.7 * float(moment) / (2 * K * K), abs=slack)


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


# Agreement with the recursion over many layers


def flow(source, K: float, C_b: float, C_W: float, layers: int) -> list[float]:
    path = [K]
    for _ in range(layers):
        path.append(C_b + C_W * g(source, path[-1]))
    return path


def test_tanh_falls_as_tabulated() -> None:
    """Reference table 10.5, from K = 1 in layer 1; ten digits."""
    point = criticality("tanh")
    path = flow("tanh", 1.0, point.C_b, point.C_W, 49)
    tabulated = {2: 0.3942944904, 3: 0.2364504105, 10: 0.0580118478, 50: 0.0104307384}
    for layer, value in tabulated.items():
        assert path[layer - 1] == pytest.approx(value, abs=6e-11)


@pytest.mark.parametrize("name", ["swish", "gelu"])
def test_the_attracting_side_of_a_half_stable_point_attracts(name) -> None:
    point = criticality(name)
    stay = flow(name, point.K_star, point.C_b, point.C_W, 100)
    assert stay[-1] == pytest.approx(point.K_star, rel=1e-12, abs=0)
    # The drift is C_W g''/2 (K - K*)^2 > 0 for SWISH, < 0 for GELU, on both sides alike.
    sign = 1 if name == "swish" else -1
    for start in (0.95 * point.K_star, 1.01 * point.K_star):
        path = flow(name, start, point.C_b, point.C_W, 20)
        assert np.all(sign * np.diff(path) > 0)


@pytest.mark.parametrize(("name", "K"), [("swish", 14.5931049905541), ("gelu", 3.03498143550974)])
def test_the_other_fixed_point_at_the_critical_hyperparameters(name, K) -> None:
    """PDLT chapter 5, footnotes 20 and 21, corrected: not 14.5 and not 3.2. It is not critical."""
    point = criticality(name)
    # The drift is flat there, so this is a demand of 5 (SWISH) and 8 (GELU) digits of K.
    assert point.C_b + point.C_W * g(name, K) == pytest.approx(K, abs=1e-12)
    parallel, _ = susceptibilities(name, K, point.C_W)
    assert 5e-7 < 1 - float(parallel) < 1e-4  # chi is good to 1e-13


def test_eight_digits_are_not_enough() -> None:
    """At the eight digits printed in PDLT (5.101) SWISH has no fixed point near 14.3 any more."""
    exact = criticality("swish")
    grid = np.linspace(0.5, 14.5, 57)
    moments = single_moment("swish", np.append(grid, exact.K_star), (0, 0)).value
    K = np.append(grid, exact.K_star)
    printed = 0.55514317 + 1.98800468 * moments - K
    assert np.all(printed > 1e-10)
    ours = exact.C_b + exact.C_W * moments - K
    assert abs(ours[-1]) < 1e-13


# The network and the record


def test_a_network_takes_the_point_and_keeps_its_record() -> None:
    net = MLP(5, 32, "gelu", input_dim=4, output_dim=2, lambda_W=0.5).at_criticality()
    assert net.criticality is not None
    assert net.C_b == (net.criticality.C_b,) * 5
    assert net.C_W == (net.criticality.C_W,) * 5
    assert net.C_W[0] == pytest.approx(1.98305825744, rel=1e-11, abs=0)
    assert net.lambda_W == (0.5,) * 5


def test_a_network_without_a_point_says_why() -> None:
    net = MLP(5, 32, "softplus_shifted", input_dim=4, output_dim=2)
    with pytest.raises(
        ValueError, match=r"'softplus_shifted' has no critical initialisation: K\* = 0.*unstable"
    ):
        net.at_criticality()


@pytest.mark.parametrize("name", BUILTIN_NAMES)
def test_the_record_can_be_printed_and_written(name) -> None:
    point = criticality(name)
    text = str(point)
    assert point.activation.name in text
    assert (point.found or point.reason) in text
    assert text.count(point.found or point.reason) == 1
    assert json.loads(json.dumps(point.attributes(), allow_nan=False))["C_W"] == point.C_W


def test_the_record_prints_rejected_points() -> None:
    assert "not chosen: C_b = 0, C_W = 4: K* = 0" in str(criticality("gelu"))
    assert "K* = every K" in str(criticality("relu"))


# Refusals


@pytest.mark.parametrize("K", [-1.0, math.nan, math.inf])
def test_bad_variances_are_refused(K) -> None:
    with pytest.raises(ValueError, match=r"`K` is a variance and must be finite and at least 0"):
        susceptibilities("tanh", K, 1.0)


@pytest.mark.parametrize("C_W", [-1.0, math.nan, math.inf])
def test_bad_weight_variances_are_refused(C_W) -> None:
    with pytest.raises(ValueError, match=r"`C_W` is a variance and must be finite"):
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
