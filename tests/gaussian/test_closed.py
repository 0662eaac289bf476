"""Golden and property tests of the closed forms of pair moments."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from gaussian_oracle import ORDERS, PRICE, TEXTBOOK, grid, price
from grids import each
from scalewise.gaussian._closed import closed_pair_moments
from scalewise.gaussian._geometry import PairGeometry

VARIANCES = (1e-6, 1.0, 1e3)
COSINES = (0.0, 0.5, -0.7, 0.999, -0.999, 1 - 1e-8, -1 + 1e-8, 1 - 1e-12)


def moments(name, A, B, C, orders=ORDERS):
    found = closed_pair_moments(sw.activation(name), A, B, C, orders)
    assert found is not None
    return found


@each("name", TEXTBOOK)
@each("order", ORDERS)
def test_is_the_derivative_of_the_textbook_kernel(name, order):
    # Relative to each value itself: 1e-12 is 100 times the worst rounding seen, away from the
    # antipodal corner of GELU at variance 1e3, where 3e-13 is lost to cancellation.
    A, B, C, _ = grid(VARIANCES, COSINES)
    if name == "exp":
        A, B, C = (x[A + B < 300] for x in (A, B, C))
    found = moments(name, A, B, C, [order])[order]
    expected = np.array([float(price(name, *pair, order)) for pair in zip(A, B, C, strict=True)])
    # Odd moments vanish at c = 0, where 40 digits of differentiation leave noise of their own.
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-18)


def test_relu_at_the_limits_of_the_angle():
    # PDLT (5.159), (5.161) at psi = 0, pi/2, pi.
    A, B = 2.0, 0.5
    C = np.array([1.0, 0.0, -1.0])
    found = moments("relu", A, B, C)
    np.testing.assert_allclose(found[0, 0], [0.5, 1 / (2 * math.pi), 0], rtol=1e-15)
    np.testing.assert_allclose(found[1, 1], [0.5, 0.25, 0], rtol=1e-15)
    np.testing.assert_allclose(found[2, 0], [0, 0.5 / (2 * math.pi), 0], rtol=1e-15)
    # Finite parts at c = ±1: all that is left of a divergence is 0.
    np.testing.assert_allclose(found[2, 2], [0, 1 / (2 * math.pi), 0], rtol=1e-15)
    assert all(np.isfinite(value).all() for value in found.values())


@each("name", ["relu", "leaky_relu(0.1)", "perceptron"])
def test_finite_part_begins_at_the_stated_angle(name):
    singular = (1, 1) if name == "perceptron" else (2, 2)
    for distance, divergent in ((4e-13, True), (1e-14, False)):
        C = math.sqrt(1 - distance)
        value = moments(name, 1.0, 1.0, C, [singular])[singular]
        assert (abs(value) > 1e4) == divergent


@each("name", TEXTBOOK)
def test_identical_and_parallel_inputs(name):
    """At |c| = 1 the pair is one Gaussian variable: compare with single-input formulas."""
    K = np.array([1e-6, 0.37, 2.0, 30.0])
    expected = {
        "linear": (K, np.ones_like(K)),
        "relu": (K / 2, np.full_like(K, 0.5)),
        "leaky_relu(0.1)": (0.505 * K, np.full_like(K, 0.505)),
        "perceptron": (np.full_like(K, 0.5), np.zeros_like(K)),
        "erf": (
            2 / math.pi * np.arcsin(2 * K / (1 + 2 * K)),
            4 / math.pi / np.sqrt(1 + 4 * K),
        ),
        "sin": (-np.expm1(-2 * K) / 2, (1 + np.exp(-2 * K)) / 2),
        "exp": (np.exp(2 * K), np.exp(2 * K)),
        "quadratic": (3 * K**2, 4 * K),
        "monomial(3)": (15 * K**3, 27 * K**2),
        "monomial(5)": (945 * K**5, 25 * 105 * K**4),
    }.get(name)
    found = moments(name, K, K, K)
    if expected is not None:
        np.testing.assert_allclose(found[0, 0], expected[0], rtol=2e-15)
        np.testing.assert_allclose(found[1, 1], expected[1], rtol=2e-15)
    # Parallel inputs of different length, with C as a user's arithmetic leaves it.
    C = np.sqrt(K) * np.sqrt(3 * K)
    inside = moments(name, K, 3 * K, C * (1 - 1e-15))
    beyond = moments(name, K, 3 * K, C * (1 + 1e-15))
    for order in ((0, 0), (1, 1)):
        # A kink makes M_11 move by psi/2pi, and psi is 5e-8 for a rounding error of 1e-15 in C.
        np.testing.assert_allclose(inside[order], beyond[order], rtol=2e-8)
    assert all(np.isfinite(value).all() for value in beyond.values())


@pytest.mark.parametrize("name", TEXTBOOK)
@settings(max_examples=30, deadline=None)
@given(
    A=st.floats(1e-6, 1e2),
    B=st.floats(1e-6, 1e2),
    c=st.floats(-1, 1),
)
def test_swapping_the_inputs_swaps_the_orders(name, A, B, c):
    C = c * math.sqrt(A * B)
    straight, mirrored = moments(name, A, B, C), moments(name, B, A, C)
    for p, q in ORDERS:
        np.testing.assert_allclose(straight[p, q], mirrored[q, p], rtol=1e-13, atol=1e-300)


@settings(max_examples=50, deadline=None)
@given(scale=st.floats(1e-4, 1e4), c=st.floats(-1, 1))
def test_scale_invariance(scale, c):
    # sigma(s z) = s sigma(z): M_pq scales like s^{2-p-q}.
    one = moments("leaky_relu(0.1)", 1.0, 2.0, c * math.sqrt(2))
    large = moments("leaky_relu(0.1)", scale, 2 * scale, c * math.sqrt(2) * scale)
    for p, q in ORDERS:
        if 1 - c * c > 1e-9:  # nearer, the two cosines differ by a rounding error that matters
            expected = scale ** ((2 - p - q) / 2) * one[p, q]
            np.testing.assert_allclose(large[p, q], expected, rtol=1e-6, atol=1e-14 * scale)


@settings(max_examples=100, deadline=None)
@given(
    A=st.floats(1e-6, 1e3),
    B=st.floats(1e-6, 1e3),
    c=st.floats(-1, 1),
)
def test_determinant_keeps_its_digits(A, B, c):
    C = c * math.sqrt(A * B)
    pair = PairGeometry.of(np.array([A]), B, C)
    exact = Fraction(A) * Fraction(B) - Fraction(C) ** 2
    if exact < Fraction(1e-15) * Fraction(A) * Fraction(B):
        assert pair.determinant == 0
        assert abs(pair.cosine) == 1
    else:
        assert abs(Fraction(pair.determinant[0]) - exact) <= Fraction(1, 2**50) * exact


def test_broadcasts_and_keeps_the_shape():
    found = moments("gelu", np.ones((3, 1)), np.ones(4), np.full((2, 1, 1), 0.3))
    assert all(value.shape == (2, 3, 4) for value in found.values())
    assert found.keys() == PRICE.keys()


def test_no_closed_form_is_none():
    assert closed_pair_moments(sw.activation("tanh"), 1.0, 1.0, 0.5, [(0, 0)]) is None


def test_unknown_order_is_refused():
    with pytest.raises(ValueError, match=r"`orders` must be pairs .* got \(3, 0\)"):
        moments("relu", 1.0, 1.0, 0.5, [(3, 0)])


def test_overflow_is_refused_with_its_place():
    with pytest.raises(ValueError, match=r"\(0, 0\) of 'exp' does not fit .* A = 1000, B = 1000"):
        moments("exp", np.array([1.0, 1e3]), np.array([1.0, 1e3]), np.array([0.5, 1e3]))
