"""Golden and property tests of universality classes, coefficients, exponents and loci.

Independent routes: the tables of the reference, coefficients by polynomial algebra on Gaussian moments,
and finite differences of quadratures.
"""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grids import each
from kinked import elu, g, hard_tanh, polynomial, skewed
from scalewise.activations import activation
from scalewise.critical import (
    criticality,
    parallel_locus,
    perpendicular_locus,
    susceptibilities,
    susceptibility_ratio,
)

# Golden: tables A and B


@pytest.mark.covers("A5.1")
@each(
    ("name", "universality", "stability"),
    [
        ("linear", "scale-invariant", "line"),
        ("relu", "scale-invariant", "line"),
        ("leaky_relu(0.2)", "scale-invariant", "line"),
        ("tanh", "K*=0", "stable"),
        ("sin", "K*=0", "stable"),
        ("erf", "K*=0", "stable"),
        ("swish", "half-stable", "half-stable"),
        ("gelu", "half-stable", "half-stable"),
        ("sigmoid", "none", "none"),
        ("softplus", "none", "none"),
        ("softplus_shifted", "none", "none"),
        ("quadratic", "none", "none"),
        ("monomial(3)", "none", "none"),
        ("perceptron", "none", "none"),
    ],
)
def test_classes(name, universality, stability) -> None:
    record = criticality(name)
    assert (record.universality, record.stability) == (universality, stability)
    assert bool(record.coefficients) == (universality != "none")
    assert record.attributes()["universality"] == universality


@pytest.mark.covers("A5.1")
def test_user_callables_are_classified_like_the_built_in() -> None:
    """By what the function does, not by its name."""
    for function, name in (
        (lambda z: jnp.tanh(z), "tanh"),
        (lambda z: z / (1 + jnp.exp(-z)), "swish"),
    ):
        mine, built_in = criticality(function), criticality(name)
        assert mine.universality == built_in.universality
        for key, value in built_in.coefficients.items():
            assert mine.coefficients[key] == pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.covers("A5.4")
@each(
    ("name", "a_1", "a_2", "b_1"),
    [
        ("tanh", -2, 17 / 3, -2),
        ("sin", -1, 2 / 3, -1),
        ("erf", -2, 14 / 3, -2),
        ("swish", 3 / 4, -5 / 8, 1),
        ("gelu", 6 / math.pi, -10 / math.pi, 8 / math.pi),
        ("softplus_shifted", 3 / 16, -5 / 64, 1 / 4),
    ],
)
def test_coefficients_at_zero(name, a_1, a_2, b_1) -> None:
    """PDLT (5.86)-(5.88), reference table 10.2; those of unstable points too."""
    zero = criticality(name).candidates[0]
    assert zero.K_star == 0
    got = [zero.coefficients[key] for key in ("a_1", "a_2", "b_1")]
    np.testing.assert_allclose(got, [a_1, a_2, b_1], rtol=1e-12)
    assert zero.attracts_from_below is None
    assert zero.attracts_from_above is (a_1 < 0)
    assert bool(zero.exponents) == (a_1 < 0)


@pytest.mark.covers("A5.5")
def test_coefficients_of_half_stable_points() -> None:
    """PDLT (5.102), (5.105) and the twelve digits of the reference, section 5.5."""
    for name, a, b, source in (
        ("swish", 2.84979218941e-6, 0.0017330272, 4.9231871),
        ("gelu", -1.43626418732e-4, 0.0093335406, 4.9042262),
    ):
        record = criticality(name)
        c = record.coefficients
        assert c["atilde_1"] == pytest.approx(a, rel=1e-9, abs=0)
        assert c["btilde_1"] == pytest.approx(b, rel=1e-7, abs=0)
        assert c["vertex_source"] == pytest.approx(source, rel=1e-7, abs=0)
        assert c["nu"] == c["vertex_source"]
        assert record.point is not None
        assert record.point.attracts_from_below is (name == "swish")
        assert record.point.attracts_from_above is (name == "gelu")


@pytest.mark.covers("A5.5")
@each(("name", "K"), [("swish", 14.5931049905541), ("gelu", 3.03498143550974)])
def test_trivial_fixed_points(name, K) -> None:
    """PDLT chapter 5, footnotes 20 and 21, corrected: 14.5931 and 3.03498."""
    record = criticality(name)
    (other,) = record.trivial_fixed_points
    assert other.K == pytest.approx(K, rel=1e-8, abs=0)
    assert record.C_b + record.C_W * g(name, other.K) == pytest.approx(other.K, abs=3e-13)
    assert other.chi_parallel < 1
    assert "is a fixed point too, but not a critical one" in str(record)
    assert not criticality("tanh").trivial_fixed_points
    assert not criticality("relu").trivial_fixed_points


@pytest.mark.covers("A5.2")
@each(
    ("a", "C_W", "nu", "rho"),
    [
        (0, 2, 5, 0.318309886),
        (0.01, 1.99980002, 4.99880024, 0.311944325),
        (0.1, 1.98019802, 4.88236447, 0.255278226),
        (0.5, 1.6, 3.08, 0.063661977),
        (1, 1, 2, 0),
        (-1, 1, 2, 2 / math.pi),
    ],
)
def test_scale_invariant_family(a, C_W, nu, rho) -> None:
    """Reference table 10.7."""
    record = criticality(f"leaky_relu({a})")
    c = record.coefficients
    np.testing.assert_allclose(
        [record.C_W, c["nu"], c["rho"]], [C_W, nu, rho], rtol=6e-9, atol=1e-15
    )
    assert c["A_2"] == pytest.approx((1 + a * a) / 2, rel=1e-15)
    assert c["A_4"] == pytest.approx((1 + a**4) / 2, rel=1e-15)


@pytest.mark.covers("A7.4")
def test_exponents_of_the_classes() -> None:
    """Reference table 7.4; and p_V - 2 p_0 = -1 where K itself has the exponent p_0, (5.129)."""
    tanh = criticality("tanh").exponents
    assert dict(tanh) == {"p_0": 1, "p_parallel": 2, "p_perp": 1, "p_V": 1, "p_1": 0}
    relu = criticality("relu").exponents
    assert dict(relu) == {"p_0": 0, "p_parallel": 0, "p_perp": 2, "p_V": -1, "p_1": None}
    assert criticality("linear").exponents["p_perp"] == 0
    for source in ("tanh", "relu", elu()):
        p = criticality(source).exponents
        assert p["p_V"] - 2 * p["p_0"] == -1
    flat = criticality(hard_tanh())
    assert flat.universality == "K*=0"
    assert not flat.exponents  # it falls more slowly than any power
    assert criticality("sigmoid").exponents == {}


# Properties


def gaussian_coefficients(taylor) -> tuple[float, float, float]:
    """a_1, a_2, b_1 from <z^2k> = (2k-1)!! K^k and products of polynomials."""
    p = np.array([t / math.factorial(k) for k, t in enumerate(taylor)])
    double = [1, 1, 3, 15, 105, 945]
    square = np.convolve(p, p)
    slope = p[1:] * np.arange(1, len(p))
    slopes = np.convolve(slope, slope)
    even = [square[2 * k] * double[k] for k in range(4)]
    return even[2] / even[1], even[3] / even[1], slopes[2] / slopes[0]


@pytest.mark.covers("A5.4")
@given(
    st.lists(st.integers(-8, 8).map(lambda k: k / 8), min_size=2, max_size=4),
    st.integers(1, 8).map(lambda k: k / 4),
    st.sampled_from([0.0, 1.0, -3.0]),
)
@settings(max_examples=12, deadline=None)
def test_random_mixtures_of_tanh_and_polynomials(higher, slope, share) -> None:
    """slope z + ... z^5, and tanh: Taylor coefficients and algebra decide."""
    sigma = polynomial([0.0, slope, *higher], share)
    zero = [c for c in criticality(sigma).candidates if c.K_star == 0]
    if abs(sigma.taylor[1]) < 1e-6:
        return
    (point,) = zero
    a_1, a_2, b_1 = gaussian_coefficients(sigma.taylor)
    got = [point.coefficients[key] for key in ("a_1", "a_2", "b_1")]
    np.testing.assert_allclose(got, [a_1, a_2, b_1], rtol=1e-9, atol=1e-9)
    assert point.C_W == pytest.approx(1 / sigma.taylor[1] ** 2, rel=1e-12)
    if abs(a_1) > 1e-9:
        assert point.stability == ("stable" if a_1 < 0 else "unstable")
        assert point.universality == ("K*=0" if a_1 < 0 else "none")
    if a_1 < -1e-9:
        assert point.exponents["p_perp"] == pytest.approx(b_1 / a_1, rel=1e-9, abs=1e-9)


@given(st.lists(st.floats(0.1, 1), min_size=2, max_size=3), st.booleans())
@settings(max_examples=8, deadline=None)
def test_polynomials_by_parity(coefficients, odd) -> None:
    """Odd ones with positive coefficients repel from 0; even ones have no slope at 0."""
    p = np.zeros(6)
    p[1 if odd else 2 : 6 : 2][: len(coefficients)] = coefficients[: 3 if odd else 2]
    record = criticality(polynomial(p))
    assert (record.universality, record.stability) == ("none", "none")
    if odd:
        assert record.candidates[0].K_star == 0
        assert record.candidates[0].stability == "unstable"
    else:
        assert not record.candidates


@pytest.mark.covers("A5.5")
@each("name", ["swish", "gelu"])
def test_coefficients_beyond_zero_by_differences(name) -> None:
    """Five-point differences of chi_parallel and chi_perp in K."""
    record = criticality(name)
    h = 0.01 * record.K_star
    K = record.K_star + h * np.array([-2, -1, 1, 2])
    weights = np.array([1, -8, 8, -1]) / (12 * h)
    parallel, perp = susceptibilities(name, K, record.C_W)
    c = record.coefficients
    assert c["atilde_1"] == pytest.approx(0.5 * float(weights @ parallel), rel=1e-4, abs=0)
    assert c["btilde_1"] == pytest.approx(float(weights @ perp), rel=1e-5, abs=0)


@given(st.floats(0.2, 5), st.floats(0.2, 5))
@settings(max_examples=4, deadline=None)
def test_exponents_do_not_depend_on_scales(a, b) -> None:
    """a sigma(b z): dimensionless numbers stay."""
    base = skewed()
    scaled = dataclasses.replace(
        base,
        derivatives=tuple(
            lambda z, d=d, k=k: a * b**k * d(b * z) for k, d in enumerate(base.derivatives)
        ),
        taylor=tuple(a * b**k * t for k, t in enumerate(base.taylor)),
    )
    one, other = criticality(base), criticality(scaled)
    for name, p in one.exponents.items():
        assert other.exponents[name] == pytest.approx(p, rel=1e-12, abs=1e-12)
    assert other.coefficients["nu"] == pytest.approx(2 / 3, rel=1e-12)
    assert other.coefficients["a_1"] == pytest.approx(-1.25 * b * b, rel=1e-12)


# The plane of the hyperparameters


@pytest.mark.covers("A5.1")
@each(
    ("K", "solid", "dashed"),
    [
        (0.1, (1.1775691, 0.00083228), (1.3965523, -0.01760916)),
        (0.5, (1.6879751, 0.03804120), (3.0804301, -0.34304073)),
        (1.0, (2.1533026, 0.15096463), (5.50062, -1.1688642)),
        (2.0, (2.8611624, 0.51226495), (11.302451, -3.8770004)),
    ],
)
def test_loci_of_tanh(K, solid, dashed) -> None:
    """Figure 5.1 left; the dashed line runs at negative bias variances."""
    np.testing.assert_allclose(
        np.array(perpendicular_locus("tanh", K)), solid, rtol=3e-7, atol=6e-9
    )
    np.testing.assert_allclose(np.array(parallel_locus("tanh", K)), dashed, rtol=3e-7, atol=6e-9)


@pytest.mark.covers("A5.1")
@given(st.floats(0.02, 30), st.sampled_from(["tanh", "gelu", "relu", "softplus"]))
@settings(max_examples=15, deadline=None)
def test_on_the_loci_one_susceptibility_is_one(K, name) -> None:
    for locus, which in ((parallel_locus, 0), (perpendicular_locus, 1)):
        C_W, C_b = locus(name, K)
        assert float(susceptibilities(name, K, float(C_W))[which]) == pytest.approx(1, rel=1e-10)
        assert float(C_b + C_W * g(name, K)) == pytest.approx(K, rel=1e-10)


def test_loci_meet_at_the_critical_point() -> None:
    for name in ("tanh", "gelu"):
        record = criticality(name)
        for locus in (parallel_locus, perpendicular_locus):
            C_W, C_b = locus(name, record.K_star)
            np.testing.assert_allclose([C_W, C_b], [record.C_W, record.C_b], rtol=1e-10, atol=1e-14)


@pytest.mark.covers("A4.4")
def test_ratio_of_the_susceptibilities() -> None:
    """(5.73): closed forms of the reference, section 5.5; an array keeps its shape."""
    K = np.array([[0.01, 0.5], [2.0, 10.0]])
    np.testing.assert_allclose(susceptibility_ratio("erf", K), 1 + 2 * K, rtol=1e-11)
    np.testing.assert_allclose(susceptibility_ratio("monomial(3)", K), 0.6, rtol=1e-11)
    small = susceptibility_ratio("sin", np.array([0.1, 1.0]))
    np.testing.assert_allclose(small, (np.exp([0.2, 2.0]) + 1) / 2, rtol=1e-11)
    assert float(susceptibility_ratio("gelu", criticality("gelu").K_star)) == pytest.approx(
        1, abs=1e-12
    )


def test_where_there_is_no_locus() -> None:
    bump = activation(lambda z: jnp.exp(-(z**2)), name="bump")
    with pytest.raises(ValueError, match=r"chi_parallel of 'bump' is not positive at K = 1,"):
        parallel_locus(bump, 1.0)
