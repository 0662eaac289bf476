"""Conformance of every built-in activation; golden values; user callables and every refusal.

The derivatives are held against nested `jax.grad` of the traceable form, in float64.
"""

import dataclasses

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.activations import BUILTIN_NAMES, Activation, activation

NAMES = (*BUILTIN_NAMES, "leaky_relu(0.3)", "leaky_relu(-1)", "monomial(3)", "monomial(5)")
SCALE_INVARIANT = ("linear", "relu", "leaky_relu", "leaky_relu(0.3)", "leaky_relu(-1)")
# No kink of a built-in activation lies on this grid, and exp does not overflow.
GRID = np.concatenate([np.linspace(-6, 6, 49) + 0.01, [-37.5, -20.25, 20.25, 37.5]])


def jets(sigma: Activation, z: np.ndarray, orders: int) -> list[np.ndarray]:
    """Derivatives 0 to `orders` of the traceable form, by nested reverse differentiation."""
    functions = [sigma.traceable()]
    for _ in range(orders):
        functions.append(jax.grad(functions[-1]))

    def values(u):
        # A grad of a constant is a float 0 of the right shape; of an integer power it is a float.
        return [jnp.asarray(f(u), dtype=jnp.float64) for f in functions]

    with jax.enable_x64(True):
        return [np.asarray(v) for v in jax.jit(jax.vmap(values))(jnp.asarray(z))]


# Conformance


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_agree_with_autodiff(name) -> None:
    sigma = activation(name)
    for order, expected in enumerate(jets(sigma, GRID, 3)):
        ours = sigma.derivative(GRID, order)
        assert ours.dtype == np.float64
        # Autodiff of saturating functions cancels against 1: absolute error of a few roundings,
        # relative only for those that grow.
        np.testing.assert_allclose(ours, expected, rtol=1e-13, atol=2e-14)


@pytest.mark.parametrize("name", NAMES)
def test_traceable_form_is_the_same_function(name) -> None:
    sigma = activation(name)
    with jax.enable_x64(True):
        traced = np.asarray(jax.jit(sigma.traceable())(jnp.asarray(GRID)))
    np.testing.assert_allclose(sigma(GRID), traced, rtol=1e-14, atol=2e-16)


@pytest.mark.parametrize("name", NAMES)
def test_taylor_coefficients_agree_with_autodiff(name) -> None:
    sigma = activation(name)
    if sigma.taylor is None:
        assert 0.0 in sigma.split_points
        return
    expected = [float(v[0]) for v in jets(sigma, np.zeros(1), 5)]
    np.testing.assert_allclose(sigma.taylor, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_kinks_are_where_and_as_large_as_declared(name) -> None:
    sigma = activation(name)
    for kink in sigma.kinks:
        sides = np.array([kink.location - 1e-12, kink.location + 1e-12])
        jump, slope_jump = (np.diff(sigma.derivative(sides, order))[0] for order in (0, 1))
        assert jump == pytest.approx(kink.jump, abs=1e-11)
        assert slope_jump == pytest.approx(kink.slope_jump, abs=1e-11)
    assert sigma.is_smooth == (not sigma.kinks)
    assert sigma.is_continuous == (name != "perceptron")


@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.3)", "perceptron", "tanh", "gelu", "exp"])
def test_a_built_in_passed_as_a_callable_is_recognised(name) -> None:
    """Nothing that is known of a built-in is lost if the user passes the function itself."""
    sigma = activation(name)
    kinks = tuple(kink.location for kink in sigma.kinks)
    mine = activation(sigma.traceable(), kinks=kinks, name="mine")
    assert (mine.name, mine.parity, mine.slopes) == ("mine", sigma.parity, sigma.slopes)
    assert mine.split_points == sigma.split_points
    for one, other in zip(mine.kinks, sigma.kinks, strict=True):
        assert one.jump == pytest.approx(other.jump, abs=1e-9)
        assert one.slope_jump == pytest.approx(other.slope_jump, abs=1e-9)
    if sigma.taylor is not None:
        np.testing.assert_allclose(mine.taylor, sigma.taylor, rtol=1e-13, atol=1e-15)
    for order in range(4):
        np.testing.assert_allclose(
            mine.derivative(GRID, order), sigma.derivative(GRID, order), rtol=1e-13, atol=2e-14
        )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_shapes_are_kept(name, shape) -> None:
    sigma = activation(name)
    z = np.full(shape, 0.5)
    for order in range(4):
        value = sigma.derivative(z, order)
        assert isinstance(value, np.ndarray)
        assert value.shape == shape
    assert sigma(z).shape == shape


@given(st.sampled_from(SCALE_INVARIANT), st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_scale_invariance(name, z, scale) -> None:
    """PDLT (2.13): sigma(lambda z) = lambda sigma(z), to one rounding on either side."""
    sigma = activation(name)
    assert sigma.is_scale_invariant
    assert float(sigma(scale * z)) == pytest.approx(scale * float(sigma(z)), rel=1e-15, abs=1e-300)
    minus, plus = sigma.slopes
    assert float(sigma(z)) == (plus if z >= 0 else minus) * z


@pytest.mark.parametrize("name", [n for n in NAMES if n not in SCALE_INVARIANT])
def test_the_others_are_not_scale_invariant(name) -> None:
    sigma = activation(name)
    assert not sigma.is_scale_invariant
    assert sigma.slopes is None
    assert not np.allclose(sigma(2 * GRID[:49]), 2 * sigma(GRID[:49]))


@given(st.sampled_from(NAMES), st.floats(-30, 30))
def test_parity(name, z) -> None:
    sigma = activation(name)
    if sigma.parity and (z or sigma.parity == -1):
        value, mirror = float(sigma(z)), float(sigma(-z))
        assert mirror == pytest.approx(sigma.parity * value, rel=1e-14, abs=1e-300)


@pytest.mark.parametrize("name", NAMES)
def test_parity_is_neither_only_where_it_is_neither(name) -> None:
    sigma = activation(name)
    z = GRID[30:49]
    even, odd = (np.allclose(sigma(-z), sign * sigma(z), rtol=1e-12) for sign in (1, -1))
    assert sigma.parity == even - odd


# Golden: where the obvious formula would cancel


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("tanh", mpmath.tanh),
        ("sigmoid", lambda z: 1 / (1 + mpmath.exp(-z))),
        ("softplus", lambda z: mpmath.log(1 + mpmath.exp(z))),
        ("swish", lambda z: z / (1 + mpmath.exp(-z))),
        ("gelu", lambda z: z * mpmath.ncdf(z)),
        ("erf", mpmath.erf),
    ],
)
def test_tails_keep_their_digits(name, function) -> None:
    """Relative accuracy at -7.3 and 7.3, where 1 - tanh^2 and the like keep 11 digits at best."""
    sigma = activation(name)
    with mpmath.workdps(60):
        for z in (-7.3, 7.3):
            for order in range(4):
                expected = float(mpmath.diff(function, mpmath.mpf(z), order))
                assert float(sigma.derivative(z, order)) == pytest.approx(
                    expected, rel=2e-14, abs=0
                )


def test_catalogue_has_the_names_of_the_literature() -> None:
    assert set(BUILTIN_NAMES) == {
        *("linear", "relu", "leaky_relu", "tanh", "sin", "sigmoid", "softplus"),
        *("softplus_shifted", "gelu", "swish", "erf", "monomial", "quadratic", "perceptron", "exp"),
    }


def test_parameters_are_read() -> None:
    assert activation("leaky_relu(0.25)").slopes == (0.25, 1.0)
    assert activation("leaky_relu").slopes == (0.01, 1.0)
    assert activation(" monomial( 3 ) ").parameter == 3
    assert activation("monomial").name == activation("quadratic").name == "quadratic"
    assert activation("monomial(1)").is_scale_invariant
    assert activation("leaky_relu(1)").kinks == ()


def test_an_activation_is_returned_as_it_is() -> None:
    sigma = activation("tanh")
    assert activation(sigma) is sigma
    assert str(sigma) == "tanh"


# User callables


def test_a_callable_takes_its_name_and_smoothness_from_the_function() -> None:
    sigma = activation(jnp.arctan)
    assert sigma.name == "arctan"
    assert sigma.is_smooth
    assert sigma.parity == -1
    np.testing.assert_allclose(sigma.taylor, [0, 1, 0, -2, 0, 24], atol=1e-13)


@pytest.mark.parametrize("steepness", [1.0, 30.0, 300.0])
def test_a_steep_slope_is_no_kink(steepness) -> None:
    sigma = activation(lambda z: jnp.tanh(steepness * z), name="steep")
    assert sigma.is_smooth


@pytest.mark.parametrize(
    ("function", "declared", "message"),
    [
        (jnp.abs, (), r"derivative of order 1 that jumps by 2 at z = 0, .* pass kinks=\(0\.0,\)"),
        (lambda z: jnp.abs(z - 0.7), (), r"jumps by 2 at z = 0\.7,.*kinks=\(0\.7,\)"),
        (
            lambda z: jnp.where(z > 1.5, 3.0, 0.0),
            (),
            r" jumps by 3 at z = 1\.5, a kink that was not declared",
        ),
        (jax.nn.elu, (), r"derivative of order 2 that jumps by -1 at z = 0"),
        (lambda z: jnp.abs(z) ** 3, (), r"derivative of order 3 that jumps by 12 at z = 0"),
        (jax.nn.hard_tanh, (-1.0,), r"jumps by -1 at z = 1,.*kinks=\(-1\.0, 1\.0,\)"),
        (lambda z: jnp.abs(z - 1 / 3), (0.33,), r"kinks=\(0\.333333333333,\)"),
        (lambda z: jnp.minimum(z, 20.0), (), r"jumps by -1 at z = 20,"),
        # A kink beside a steeper slope.
        (lambda z: jnp.sin(20 * z) + 0.05 * jnp.abs(z - 3), (), r"jumps by 0\.1 at z = 3,"),
        (lambda z: z**5 + jnp.abs(z - 2), (), r"jumps by 2 at z = 2,"),
    ],
    ids=[
        *("abs", "shifted", "step", "elu", "cube", "hard_tanh"),
        *("misplaced", "far", "beside a wave", "beside a power"),
    ],
)
def test_an_undeclared_kink_is_refused_with_its_place(function, declared, message) -> None:
    with pytest.raises(ValueError, match=message):
        activation(function, kinks=declared)


def test_declared_kinks_are_measured() -> None:
    sigma = activation(jax.nn.hard_tanh, kinks=(1.0, -1.0))
    assert [k.location for k in sigma.kinks] == [-1, 1]
    assert [k.slope_jump for k in sigma.kinks] == [1, -1]
    assert [k.jump for k in sigma.kinks] == [0, 0]
    elu = activation(jax.nn.elu, kinks=(0.0,))
    assert elu.kinks == ()
    assert elu.breaks == (0.0,)
    assert elu.taylor is None
    assert not elu.is_smooth


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            jnp.sum,
            r"must return an array of the shape it is given; .*it returned \(\)\..*elementwise",
        ),
        (lambda z: z[:-1], r"must return an array of the shape it is given"),
        (lambda z: (z, z), r"must return an array of the shape it is given"),
    ],
    ids=["scalar", "shorter", "pair"],
)
def test_a_callable_that_changes_the_shape_is_refused(function, message) -> None:
    with pytest.raises(ValueError, match=message):
        activation(function)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (jnp.log, r"must be finite for every real argument; its value at z = -8 is nan"),
        (lambda z: 1 / (z - 2), r"its value at z = 2 is inf"),
        (lambda z: jnp.cbrt(z), r"its derivative of order 1 at z = 0 is"),
    ],
    ids=["log", "pole", "root"],
)
def test_a_callable_that_is_not_finite_is_refused(function, message) -> None:
    with pytest.raises(ValueError, match=message):
        activation(function)


@pytest.mark.parametrize("kink", [np.nan, np.inf])
def test_kinks_must_be_finite(kink) -> None:
    with pytest.raises(ValueError, match=r"`kinks` must be finite numbers; got"):
        activation(jnp.tanh, kinks=(kink,))


# Names


@pytest.mark.parametrize("name", ["reluu", "", "tanh tanh", "leaky_relu(a)", "leaky_relu()"])
def test_an_unknown_name_lists_the_known_ones(name) -> None:
    with pytest.raises(ValueError, match=r"No activation is called .*linear, relu, .*, exp\."):
        activation(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tanh(2)", r"'tanh' takes no parameter; got 'tanh\(2\)'"),
        ("leaky_relu(--)", r"parameter in 'leaky_relu\(--\)' is not a number"),
        ("leaky_relu(1e999)", r"parameter in 'leaky_relu\(1e999\)' must be finite"),
        ("monomial(2.5)", r"power of `monomial` must be a whole number of at least 1; got 2\.5"),
        ("monomial(0)", r"power of `monomial` must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_parameters_are_refused(name, message) -> None:
    with pytest.raises(ValueError, match=message):
        activation(name)


def test_what_is_no_activation_is_refused(monkeypatch) -> None:
    with pytest.raises(ValueError, match=r"`order` must be 0, 1, 2 or 3; got 4"):
        activation("tanh").derivative(0.0, 4)


def test_activations_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        activation("tanh").name = "other"


@pytest.mark.parametrize(
    "function", [np.tanh, lambda z: z if z > 0 else 0 * z], ids=["numpy", "if"]
)
def test_a_callable_that_jax_cannot_trace_is_refused(function) -> None:
    with pytest.raises(ValueError, match=r"JAX cannot trace the activation .* jax\.numpy"):
        activation(function)
