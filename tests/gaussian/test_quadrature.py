"""Golden, agreement and property tests of the quadrature engine."""

from __future__ import annotations

import math
from functools import cache

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import gaussian_oracle as oracle
import scalewise as sw
from gaussian_oracle import ORDERS, conditional, grid, plane
from grids import each, thorough
from scalewise.gaussian._closed import closed_pair_moments
from scalewise.gaussian._kinked_moments import kinked_pair_moments
from scalewise.gaussian._quadrature import (
    line_rule,
    pair_quadrature,
    single_quadrature,
)

HARD_TANH, RELU6, ELU = map(sw.activation, ("hardtanh", "relu6", "elu"))
# Of a user, as JAX differentiates them; compiled when a test asks for one.
OWN = {
    "soft_shrink": (lambda z: jnp.sign(z) * jnp.maximum(jnp.abs(z) - 0.5, 0), (-0.5, 0.5)),
    "half_elu": (lambda z: jnp.where(z > 0, z, 0.5 * jnp.expm1(jnp.minimum(z, 0.0))), (0.0,)),
    "relu": (lambda z: jnp.maximum(z, 0), (0.0,)),
}


@cache
def own(name: str) -> sw.Activation:
    function, kinks = OWN[name]
    return sw.activation(function, kinks=kinks, name=f"own {name}")


def of_single(function, K, splits=()):
    value, error = single_quadrature(function, np.float64(K), splits)
    assert error <= 1e-12 * max(1.0, abs(value))
    return float(value)


# One input --------------------------------------------------------------------------------------

# Reference tables of single-input expectations, 10 digits: g, g', <sigma'^2>, h, j, <sigma^4>.
AT_UNIT_VARIANCE = {
    "tanh": (0.3942944904, 0.1817976881, 0.4644029024, -0.08914813744, -0.6851737935, 0.2529918832),
    "sin": (0.4323323584, 0.1353352832, 0.5676676416, -0.06766764162, -1.082682266, 0.3073742912),
    "sigmoid": (
        0.2933790359,
        0.03119824198,
        0.04483624135,
        -0.005282352384,
        -0.06437997325,
        0.1315943131,
    ),
    "softplus": (
        0.9212459089,
        0.4533019725,
        0.2933790359,
        0.01559912099,
        0.07333615351,
        2.337752154,
    ),
    "swish": (0.3557755198, 0.4171802591, 0.3794823516, 0.03449874548, 0.2919184845, 0.9191644113),
    "gelu": (0.4252214826, 0.4864802487, 0.4558508656, 0.03062938308, 0.1531469154, 1.304679097),
    "relu": (0.5, 0.5, 0.5, 0.0, 0.0, 1.5),
    "quadratic": (3.0, 6.0, 4.0, 2.0, 24.0, 105.0),
    "monomial(3)": (15.0, 45.0, 27.0, 27.0, 360.0, 10395.0),
}


@each("name", AT_UNIT_VARIANCE)
def test_single_input_expectations_at_unit_variance(name):
    s = sw.activation(name)
    found = [
        of_single(f, 1.0, s.split_points)
        for f in (
            lambda z: s(z) ** 2,
            lambda z: s(z) ** 2 * (z * z - 1) / 2,
            lambda z: s.derivative(z) ** 2,
            lambda z: s.derivative(z) ** 2 * (z * z - 1) / 4,
            lambda z: s(z) ** 2 * (z**4 - 6 * z * z + 3),
            lambda z: s(z) ** 4,
        )
    ]
    # The table has ten digits.
    np.testing.assert_allclose(found, AT_UNIT_VARIANCE[name], rtol=6e-10, atol=1e-13)


# chi_perp/chi_parallel = <sigma'^2>/g'(K), PDLT (5.73): the curves of figures 5.1-5.3.
RATIO = {
    "tanh": {0.01: 1.019809, 1.0: 2.554504, 5.0: 8.017319, 50.0: 68.08621},
    "sigmoid": {0.01: 1.004988, 1.0: 1.43714, 5.0: 2.908473, 50.0: 18.05907},
    "softplus": {0.01: 0.5913859, 1.0: 0.6472044, 5.0: 0.7429416, 50.0: 0.8927494},
    "softplus_shifted": {0.01: 0.9987654, 1.0: 0.94613, 5.0: 0.9318742, 50.0: 0.9661592},
    "swish": {0.01: 0.9951579, 1.0: 0.9096364, 5.0: 0.9615912, 50.0: 1.014122},
    "gelu": {0.01: 0.9881444, 1.0: 0.9370388, 5.0: 1.009623, 50.0: 1.014148},
    "sin": {0.01: 1.010101, 1.0: 4.194528, 2.0: 27.79908},
    "erf": {0.01: 1.02, 1.0: 3.0, 5.0: 11.0, 50.0: 101.0},
}


@each("name", RATIO)
def test_ratio_of_susceptibilities(name):
    s = sw.activation(name)
    for K, expected in RATIO[name].items():
        perp = of_single(lambda z: s.derivative(z) ** 2, K)
        slope = of_single(lambda z: z * s(z) * s.derivative(z), K) / K
        # The table has seven digits.
        np.testing.assert_allclose(perp / slope, expected, rtol=6e-7)


@each("splits", [(), (0.0,), (1.0,), (-0.3, 2e-4, 40.0)])
def test_line_rule_integrates_polynomials(splits):
    K = np.array([[1e-6, 0.3], [1.0, 1e3]])
    z, w = line_rule(K, splits)
    for power, moment in ((0, 1), (1, 0), (2, 1), (4, 3), (6, 15)):
        found = np.sum(w * (z / np.sqrt(K)[..., None]) ** power, axis=-1)
        np.testing.assert_allclose(found, moment, rtol=1e-14, atol=1e-14)


def test_single_quadrature_resolves_steep_functions():
    # Wide law, narrow feature; erf: <erf'^2>_K = (4/pi)/sqrt(1+4K), <erf^2> an arcsine.
    s, K = sw.activation("erf"), np.array([0.0, 1e-6, 1.0, 1e3])
    value, error = single_quadrature(lambda z: s.derivative(z) ** 2, K)
    np.testing.assert_allclose(value, 4 / math.pi / np.sqrt(1 + 4 * K), rtol=1e-13)
    assert np.all(error < 1e-12)
    value, _ = single_quadrature(lambda z: s(z) ** 2, K)
    expected = 2 / math.pi * np.arcsin(2 * K / (1 + 2 * K))
    np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_an_unresolved_integral_says_so():
    # <cos z> oscillates 500 times per standard deviation: no level resolves it, the error is large.
    value, error = single_quadrature(np.cos, np.float64(1e7))
    assert error >= abs(value - math.exp(-5e6))
    assert error > 1e-3
    # exp(20 z) has its weight at 20 standard deviations, outside the range.
    _, error = single_quadrature(np.exp, np.float64(400.0))
    assert error > 1.0


# Two inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["relu", *thorough("gelu", "erf", "leaky_relu(0.1)", "monomial(3)")]
)
@each("orders", [(0, 0), (1, 1)])
def test_pair_quadrature_equals_the_closed_form(name, orders):
    s = sw.activation(name)
    A, B, C, _ = grid((1e-6, 1.0, 1e3), (0.0, 0.6, -0.9999, 1 - 1e-8, 1.0, -1.0))
    f, g = (s.derivatives[p] for p in orders)
    value, error = pair_quadrature(f, g, A, B, C, s.split_points)
    closed = closed_pair_moments(s, A, B, C, [orders])
    assert closed is not None
    size = np.sqrt(
        single_quadrature(lambda z: f(z) ** 2, A)[0] * single_quadrature(lambda z: g(z) ** 2, B)[0]
    )
    # The promise is 1e-10 of the size; 1e-13 is what the rule achieves, and its error covers it.
    assert np.all(np.abs(value - closed[orders]) <= 1e-13 * size)
    assert np.all(np.abs(value - closed[orders]) <= error)
    assert np.all(error <= 1e-11 * size)


@pytest.mark.parametrize(
    "name", ["tanh", "softplus", *thorough("swish", "sigmoid", "softplus_shifted")]
)
@each(
    ("A", "B", "c", "step"),
    # The step resolves the poles at distance pi/2: exp(-pi²/(step sqrt(K))) is below 1e-15.
    [(1.0, 1.0, 0.3, 0.2), (0.2, 3.0, -0.95, 0.12), (1e-6, 1.0, 0.5, 0.2), (40.0, 2.0, 1.0, 0.03)],
)
def test_pair_quadrature_equals_the_plane_sum(name, A, B, c, step):
    s = sw.activation(name)
    C = c * math.sqrt(A * B)
    for f, g in ((s.derivatives[0],) * 2, (s.derivatives[1],) * 2, s.derivatives[::2]):
        value, error = pair_quadrature(f, g, A, B, C)
        expected = plane(f, g, A, B, C, step)
        size = math.sqrt(plane(f, f, A, A, A, step) * plane(g, g, B, B, B, step))
        assert abs(value - expected) <= 1e-13 * size
        assert error <= 1e-11 * size


def test_a_users_relu_equals_the_closed_form():
    A, B, C, _ = grid((1e-6, 1e3), (0.0, 0.6, -0.9999, 1 - 1e-8, 1.0, -1.0))
    value, error = kinked_pair_moments(own("relu"), A, B, C, ORDERS)
    closed = closed_pair_moments(sw.activation("relu"), A, B, C, ORDERS)
    assert closed is not None
    sizes = {(0, 0): np.sqrt(A * B) / 2, (1, 1): 0.5}
    for order in ORDERS:
        gap, size = np.abs(value[order] - closed[order]), sizes.get(order, np.abs(closed[order]))
        assert np.all(gap <= 1e-13 * size + 1e-280), order
        assert np.all(gap <= error[order] + 1e-280), order


@pytest.mark.parametrize(
    ("activation", "reference"),
    [
        (HARD_TANH, oracle.HARD_TANH),
        ("half_elu", oracle.Elu(0.5)),
        *thorough((RELU6, oracle.RELU6), ("soft_shrink", oracle.SOFT_SHRINK), (ELU, oracle.Elu())),
    ],
)
def test_kinked_moments_equal_conditional_integrals(activation, reference):
    activation = own(activation) if activation in OWN else activation
    for A, B, c in ((0.7, 1.9, 0.4), (4.0, 0.5, -0.93)):
        C = c * math.sqrt(A * B)
        value, error = kinked_pair_moments(activation, A, B, C, ORDERS)
        for order in ORDERS:
            expected = float(conditional(reference, A, B, C, order))
            # 1e-11: jumps are measured from values 1e-12 on either side of a kink.
            np.testing.assert_allclose(value[order], expected, rtol=1e-11, atol=1e-12)
            assert error[order] < 1e-10, order


@each("order", [(0, 0), (1, 1), (2, 0), (2, 2)])
def test_kinked_moments_far_from_unit_variance(order):
    for A, B, c in ((1e3, 1e3, 0.5), (300.0, 0.01, -0.8), (2.0, 3.0, 0.9999)):
        C = c * math.sqrt(A * B)
        value, _ = kinked_pair_moments(HARD_TANH, A, B, C, [order])
        expected = float(conditional(oracle.HARD_TANH, A, B, C, order))
        # 1e-12: the sum of doubles that answers here cancels terms of order 1/tau² = 300.
        np.testing.assert_allclose(value[order], expected, rtol=1e-11, atol=1e-12)


@pytest.mark.thorough("test_kinked_moments_equal_conditional_integrals")
def test_kinked_moments_to_twenty_digits():
    with mp.workdps(20):
        for order in ((0, 0), (2, 2), (4, 0)):
            found, _ = kinked_pair_moments(HARD_TANH, 0.7, 1.9, 0.5, [order])
            expected = conditional(oracle.HARD_TANH, 0.7, 1.9, 0.5, order, ctx=mp)
            assert abs(found[order] - expected) <= 1e-14


@each("side", [1, -1])
def test_kinked_moments_are_continuous_up_to_coincidence(side):
    """What does not diverge at |c| = 1 tends to its value there, like sqrt(1-c²)."""
    A = np.array([0.3, 2.0])
    near = kinked_pair_moments(HARD_TANH, A, A, side * A * (1 - 5e-13), ORDERS)[0]
    there = kinked_pair_moments(HARD_TANH, A, A, side * A, ORDERS)[0]
    for order in ((0, 0), (1, 1), (2, 0), (0, 2)):
        # sqrt(1-c²) = 1e-6 times the density at the kinks
        np.testing.assert_allclose(near[order], there[order], atol=1e-6)
    for order in ORDERS:
        assert np.all(np.isfinite(there[order]))


@each("c", [-0.99999, -1 + 1e-8, -1.0])
def test_nearly_antipodal_inputs_and_a_kink_off_centre(c):
    # f = 0.3 + [z > 1]; both above 1 at once is out of reach, so two tails of one Gaussian remain.
    def f(z):
        return np.where(z > 1, 1.3, 0.3)

    A, B = np.array([1.0, 0.3]), np.array([3.0, 9.0])
    value, error = pair_quadrature(f, f, A, B, c * np.sqrt(A * B), (1.0,))
    tails = [[0.5 * math.erfc(1 / math.sqrt(2 * K)) for K in leg] for leg in (A, B)]
    np.testing.assert_allclose(value, 0.09 + 0.3 * np.sum(tails, axis=0), rtol=1e-13)
    assert np.all(error < 1e-12)


def test_coincident_hard_tanh_is_a_single_gaussian():
    K = np.array([1e-6, 0.3, 2.0, 1e3])
    found, _ = kinked_pair_moments(HARD_TANH, K, K, K, [(0, 0), (1, 1), (2, 0)])
    inside = np.array([math.erf(1 / math.sqrt(2 * k)) for k in K])
    density = np.exp(-0.5 / K) / np.sqrt(2 * math.pi * K)
    # <min(z²,1)>, P(|z|<1), and sum of slope jumps times densities times sigma at the kinks.
    np.testing.assert_allclose(
        found[0, 0], K * (inside - 2 * density) + (1 - inside), rtol=1e-12, atol=1e-19
    )
    np.testing.assert_allclose(found[1, 1], inside, rtol=1e-12)
    np.testing.assert_allclose(found[2, 0], -2 * density, rtol=1e-12)


def test_at_coincidence_a_kink_sees_half_of_either_side():
    # relu6: <delta'(z_a - 6) sigma'_b> = N(6) (6/A) <sigma'_b | z_a = 6>, and sigma' falls from 1 to 0
    # there. The kink at 0 leaves only the singular part, which is left out.
    A = 9.0
    density = math.exp(-0.5 * 36 / A) / math.sqrt(2 * math.pi * A)
    found, _ = kinked_pair_moments(RELU6, A, A, A, [(3, 1), (1, 3)])
    for order in ((3, 1), (1, 3)):
        np.testing.assert_allclose(found[order], -density * (6 / A) * 0.5, rtol=1e-12)


def test_small_variance_keeps_the_digits_of_the_fourth_derivative():
    # A smooth activation through the kinked road: sigma = sin with a kink nobody reaches.
    s = sw.activation(
        lambda z: jnp.sin(z) + jnp.maximum(jnp.abs(z) - 2.0, 0.0), kinks=(-2.0, 2.0), name="far"
    )
    A, B, C = 1e-4, 4e-4, 1e-4
    found, error = kinked_pair_moments(s, A, B, C, ORDERS)
    sin = closed_pair_moments(sw.activation("sin"), A, B, C, ORDERS)
    assert sin is not None
    for order in ORDERS:
        size = math.sqrt(sin[0, 0]) if 4 in order else 1.0
        assert abs(found[order] - sin[order]) <= 1e-11 * size
        assert abs(found[order] - sin[order]) <= error[order]


def test_arrays_keep_their_shape_and_numbers_do_not_depend_on_the_batch():
    A, B, C, _ = grid((0.5, 2.0), (0.3, 1.0))
    together, _ = kinked_pair_moments(
        HARD_TANH, A.reshape(2, 4), B.reshape(2, 4), C.reshape(2, 4), ORDERS
    )
    for k in (0, 3, 6):
        alone, _ = kinked_pair_moments(HARD_TANH, A[k], B[k], C[k], ORDERS)
        for order in ORDERS:
            assert together[order].shape == (2, 4)
            assert alone[order].shape == ()
            # Blocks of another size sum in another order.
            np.testing.assert_allclose(
                together[order].flat[k], alone[order], rtol=1e-12, atol=1e-15
            )


def test_the_kernel_of_a_step():
    step = sw.activation(lambda z: jnp.where(z > 0.5, 1.0, 0.0), kinks=(0.5,), name="step")
    kernel, _ = kinked_pair_moments(step, 1.0, 1.0, 0.0, [(0, 0)])
    np.testing.assert_allclose(kernel[0, 0], (0.5 * math.erfc(0.5 / math.sqrt(2))) ** 2, rtol=1e-12)


def test_overflow_is_refused_and_an_overflowing_norm_promises_nothing():
    with pytest.raises(
        ValueError, match=r"must be a finite number; .* overflows or does not exist within"
    ):
        single_quadrature(np.exp, np.array([1.0, 1e4]))
    # exp(12 sqrt(1e3)) is a double, its square is not.
    value, error = pair_quadrature(np.exp, np.exp, np.float64(1e3), np.float64(1e3), np.float64(0))
    assert np.isfinite(value)
    assert error == np.inf


def test_unknown_order_is_refused():
    with pytest.raises(ValueError, match=r"`orders` must be pairs .* got \(2, 1\)"):
        kinked_pair_moments(own("relu"), 1.0, 1.0, 0.5, [(2, 1)])
