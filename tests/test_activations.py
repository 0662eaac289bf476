"""Conformance of every built-in activation; golden values; user callables and every refusal.

The derivatives are held against nested `jax.grad` of the traceable form, in float64.
"""

import dataclasses
import functools
import math
import pickle
import warnings

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch
from flax import nnx
from hypothesis import given
from hypothesis import strategies as st

import scalewise
from grids import each, thorough
from scalewise import MLP
from scalewise.activations import BUILTIN_NAMES, Activation, activation
from scalewise.activations._callable import from_callable
from scalewise.gaussian import single_moment

NAMES = (
    *BUILTIN_NAMES,
    *("leaky_relu(0.3)", "leaky_relu(-1)", "monomial(3)", "monomial(5)"),
    *("elu(0.5)", "elu(-2)", "celu(2)", "softplus(3)"),
)
_SCALE, _ALPHA = mpmath.mpf("1.0507009873554804934"), mpmath.mpf("1.6732632423543772848")
_CUBIC = mpmath.mpf("0.044715")
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


def _sigmoid(z):
    return 1 / (1 + mpmath.exp(-z))


# Conformance


@pytest.mark.covers("A1.2", "C18")
@each("name", NAMES)
def test_derivatives_agree_with_autodiff(name) -> None:
    sigma = activation(name)
    for order, expected in enumerate(jets(sigma, GRID, 3)):
        ours = sigma.derivative(GRID, order)
        assert ours.dtype == np.float64
        # Autodiff of saturating functions cancels against 1: absolute error of a few roundings,
        # relative only for those that grow.
        # The gate of gelu_tanh, of slope 10 and more, multiplies them; its tails are held below.
        atol = 5e-13 if name == "gelu_tanh" else 2e-14
        np.testing.assert_allclose(ours, expected, rtol=1e-13, atol=atol)


@each("name", NAMES)
def test_traceable_form_is_the_same_function(name) -> None:
    sigma = activation(name)
    with jax.enable_x64(True):
        traced = np.asarray(jax.jit(sigma.traceable())(jnp.asarray(GRID)))
    np.testing.assert_allclose(sigma(GRID), traced, rtol=1e-14, atol=2e-16)


@pytest.mark.covers("A1.2", "C18")
@each("name", NAMES)
def test_taylor_coefficients_agree_with_autodiff(name) -> None:
    """Up to third order the derivatives, held against autodiff above; then the slopes of the third."""
    sigma = activation(name)
    if sigma.taylor is None:
        assert 0.0 in sigma.split_points
        return
    np.testing.assert_allclose(
        sigma.taylor[:4], [sigma.derivative(0.0, k) for k in range(4)], rtol=1e-13, atol=1e-15
    )
    third = np.polynomial.Chebyshev.interpolate(
        lambda z: sigma.derivative(z, 3), 24, domain=[-0.4, 0.4]
    )
    expected = [third.deriv(1)(0.0), third.deriv(2)(0.0)]
    np.testing.assert_allclose(sigma.taylor[4:], expected, rtol=1e-9, atol=1e-9)


@each("name", NAMES)
def test_kinks_are_where_and_as_large_as_declared(name) -> None:
    sigma = activation(name)
    for kink in sigma.kinks:
        sides = np.array([kink.location - 1e-12, kink.location + 1e-12])
        jump, slope_jump = (np.diff(sigma.derivative(sides, order))[0] for order in (0, 1))
        assert jump == pytest.approx(kink.jump, abs=1e-11)
        assert slope_jump == pytest.approx(kink.slope_jump, abs=1e-11)
    for place in sigma.breaks:
        sides = np.array([place - 1e-12, place + 1e-12])
        jumps = [np.diff(sigma.derivative(sides, order))[0] for order in range(4)]
        assert np.max(np.abs(jumps[:2])) < 1e-11
        assert np.max(np.abs(jumps[2:])) > 1e-3
    assert sigma.is_continuous == (name != "perceptron")


@pytest.mark.parametrize(
    "name", ["leaky_relu(0.3)", "perceptron", "gelu", *thorough("relu", "tanh", "exp")]
)
def test_a_built_in_passed_as_a_callable_is_recognised(name) -> None:
    """Nothing that is known of a built-in is lost on the way of every other callable."""
    sigma = activation(name)
    kinks = tuple(kink.location for kink in sigma.kinks)
    mine = from_callable(sigma.traceable(), kinks, "mine")
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


@each("name", NAMES)
@each("shape", [(), (0,), (3,), (2, 3)])
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


@each("name", [n for n in NAMES if n not in SCALE_INVARIANT])
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


@each("name", NAMES)
def test_parity_is_neither_only_where_it_is_neither(name) -> None:
    sigma = activation(name)
    z = GRID[30:49]
    even, odd = (np.allclose(sigma(-z), sign * sigma(z), rtol=1e-12) for sign in (1, -1))
    assert sigma.parity == even - odd


# Golden: where the obvious formula would cancel


@each(
    ("name", "function"),
    [
        ("tanh", mpmath.tanh),
        ("sigmoid", lambda z: 1 / (1 + mpmath.exp(-z))),
        ("softplus", lambda z: mpmath.log(1 + mpmath.exp(z))),
        ("swish", lambda z: z / (1 + mpmath.exp(-z))),
        ("gelu", lambda z: z * mpmath.ncdf(z)),
        ("erf", mpmath.erf),
        ("gelu_tanh", lambda z: z * _sigmoid(mpmath.sqrt(8 / mpmath.pi) * (z + _CUBIC * z**3))),
        ("quick_gelu", lambda z: z * _sigmoid(mpmath.mpf("1.702") * z)),
        ("mish", lambda z: z * mpmath.tanh(mpmath.log(1 + mpmath.exp(z)))),
        ("logsigmoid", lambda z: -mpmath.log(1 + mpmath.exp(-z))),
        ("tanhshrink", lambda z: z - mpmath.tanh(z)),
        ("softsign", lambda z: z / (1 + abs(z))),
        ("selu", lambda z: _SCALE * (z if z > 0 else _ALPHA * mpmath.expm1(z))),
        ("celu(2)", lambda z: z if z > 0 else 2 * mpmath.expm1(z / 2)),
        ("softplus(3)", lambda z: mpmath.log(1 + mpmath.exp(3 * z)) / 3),
        ("hardswish", lambda z: z * min(max(z / 6 + mpmath.mpf("0.5"), 0), 1)),
    ],
)
def test_tails_keep_their_digits(name, function) -> None:
    """Relative accuracy at -7.3 and 7.3, where 1 - tanh^2 and the like keep 11 digits at best."""
    sigma = activation(name)
    with mpmath.workdps(60):
        for z in (-7.3, 7.3):
            for order in range(4):
                # Derivatives of 0 come out of the differences of mpmath as 1e-40.
                expected = float(mpmath.diff(function, mpmath.mpf(z), order))
                assert float(sigma.derivative(z, order)) == pytest.approx(
                    expected, rel=3e-14, abs=1e-30
                )


@each(
    ("name", "function"),
    [
        ("tanhshrink", lambda z: z - mpmath.tanh(z)),
        ("softplus_shifted", lambda z: mpmath.log((1 + mpmath.exp(z)) / 2)),
        ("elu(0.5)", lambda z: z if z > 0 else mpmath.expm1(z) / 2),
    ],
)
def test_values_near_0_keep_their_digits(name, function) -> None:
    with mpmath.workdps(60):
        for z in (-1.9, -0.99, -0.3, -1e-3, -1e-9, 1e-9, 0.02, 0.999, 1.001, 1.999):
            expected = float(function(mpmath.mpf(z)))
            assert float(activation(name)(z)) == pytest.approx(expected, rel=1e-15, abs=0), z


@each("name", NAMES)
def test_values_far_out_are_numbers(name) -> None:
    """Nothing overflows on the way to a finite limit, and nothing is 0 times infinity."""
    z = np.array([-1e200, -1e20, -800.0, 800.0, 1e20, 1e200])
    sigma = activation(name)
    with np.errstate(over="ignore"):
        for order in range(4):
            assert not np.isnan(sigma.derivative(z, order)).any(), order
    if sigma.family not in ("exp", "monomial"):
        assert np.isfinite(sigma(z)).all()
        assert np.all(np.abs(sigma.derivative(z, 1)) < 10)


def test_catalogue_has_the_names_of_the_literature() -> None:
    assert set(BUILTIN_NAMES) == {
        *("linear", "relu", "leaky_relu", "tanh", "sin", "sigmoid", "softplus"),
        *("softplus_shifted", "gelu", "swish", "erf", "monomial", "quadratic", "perceptron", "exp"),
        *("gelu_tanh", "quick_gelu", "mish", "elu", "celu", "selu", "logsigmoid", "softsign"),
        *("tanhshrink", "hardtanh", "hardsigmoid", "hardswish", "relu6"),
    }


def test_parameters_are_read() -> None:
    assert activation("leaky_relu(0.25)").slopes == (0.25, 1.0)
    assert activation("leaky_relu").slopes == (0.01, 1.0)
    assert activation(" monomial( 3 ) ").parameter == 3
    assert activation("monomial").name == activation("quadratic").name == "quadratic"
    assert activation("monomial(1)").is_scale_invariant
    assert activation("leaky_relu(1)").kinks == ()


def test_names_that_people_use() -> None:
    """Any case, any separator, and what other libraries and configurations call the same function."""
    expected = {
        "silu": "swish",
        "SiLU": "swish",
        "Tanh": "tanh",
        "GELU": "gelu",
        "gelu_new": "gelu_tanh",
        "gelu_pytorch_tanh": "gelu_tanh",
        "QuickGELU": "quick_gelu",
        "LeakyReLU(0.2)": "leaky_relu(0.2)",
        "leaky_relu(negative_slope=0.2)": "leaky_relu(0.2)",
        "leaky-relu": "leaky_relu(0.01)",
        "ELU(alpha=0.5)": "elu(0.5)",
        "elu(1)": "elu",
        "elu(0)": "relu",
        "CELU( 2.0 )": "celu(2)",
        "Softplus(beta=2)": "softplus(2)",
        "hard_tanh": "hardtanh",
        "Hardswish": "hardswish",
        "hard swish": "hardswish",
        "LogSigmoid": "logsigmoid",
        "identity": "linear",
        "leaky_relu(0.123456789)": "leaky_relu(0.123456789)",
    }
    assert {name: activation(name).name for name in expected} == expected


def test_a_name_identifies_its_function() -> None:
    """A name in a record makes the very function again; two functions of one name do not exist."""
    digests = {}
    for name in (*NAMES, "elu(0.12345678)", "elu(0.12345679)"):
        sigma = activation(name)
        assert activation(sigma.name) == sigma or activation(sigma.name).digest() == sigma.digest()
        assert digests.setdefault(sigma.name, sigma.digest()) == sigma.digest()
    assert (
        len(set(digests.values())) == len(digests) - 1
    )  # celu and elu with alpha = 1 are the same


@each(
    ("name", "meant"),
    [("reluu", "relu"), ("Geluu", "gelu"), ("hard_sigmod", "hardsigmoid"), ("sillu", "swish")],
)
def test_a_near_miss_is_told_what_was_meant(name, meant) -> None:
    with pytest.raises(
        ValueError, match=rf"No activation is called '{name}'\. Did you mean '{meant}'\?"
    ):
        activation(name)


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


@each("steepness", [1.0, 30.0, 300.0])
def test_a_steep_slope_is_no_kink(steepness) -> None:
    sigma = activation(lambda z: jnp.tanh(steepness * z), name="steep")
    assert sigma.is_smooth


@pytest.mark.parametrize(
    ("function", "declared", "message"),
    [
        (
            lambda z: jnp.where(z > 1.5, 3.0, 0.0),
            (),
            r" jumps by 3 at z = 1\.5, a kink that was not declared",
        ),
        (lambda z: jnp.abs(z) ** 3, (), r"derivative of order 3 that jumps by 12 at z = 0"),
        (jax.nn.hard_tanh, (-1.0,), r"jumps by -1 at z = 1,.*kinks=\(-1\.0, 1\.0,\)"),
        # A kink beside a steeper slope.
        (lambda z: jnp.sin(20 * z) + 0.05 * jnp.abs(z - 3), (), r"jumps by 0\.1 at z = 3,"),
        *thorough(
            # Its derivative is not a number at the kink itself, and finite beside it.
            (lambda z: jnp.sqrt((z - 1.0625) ** 2), (), r"jumps by 2 at z = 1\.0625, a kink"),
            (
                lambda z: jnp.abs(z) + z**2,
                (),
                r"derivative of order 1 that jumps by 2 at z = 0, .* pass kinks=\(0\.0,\)",
            ),
            (lambda z: jnp.abs(z - 0.7), (), r"jumps by 2 at z = 0\.7,.*kinks=\(0\.7,\)"),
            (lambda z: 3 * jax.nn.elu(z), (), r"derivative of order 2 that jumps by -3 at z = 0"),
            (lambda z: jnp.abs(z - 1 / 3), (0.33,), r"kinks=\(0\.333333333333,\)"),
            (lambda z: jnp.minimum(z, 20.0), (), r"jumps by -1 at z = 20,"),
            (lambda z: z**5 + jnp.abs(z - 2), (), r"jumps by 2 at z = 2,"),
        ),
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


@each(
    ("function", "message"),
    [
        (jnp.log, r"must be finite wherever preactivations may be; its value at z = 0 is -inf"),
        (lambda z: 1 / (z - 2), r"its value at z = 2 is inf"),
        (lambda z: jnp.cbrt(z), r"its derivative of order 1 at z = 0 is"),
    ],
)
def test_a_callable_that_is_not_finite_is_refused(function, message) -> None:
    with pytest.raises(ValueError, match=message):
        activation(function)


@each("kink", [np.nan, np.inf])
def test_kinks_must_be_finite(kink) -> None:
    with pytest.raises(ValueError, match=r"`kinks` must be a sequence of values, each a finite"):
        activation(jnp.tanh, kinks=(kink,))
    with pytest.raises(
        ValueError, match=r"`kinks` must be left out with 'tanh', which has its own"
    ):
        activation("tanh", kinks=(0.0,))
    with pytest.raises(ValueError, match=r"`name` must be left out with 'tanh', which has its own"):
        activation(activation("tanh"), name="mine")


# Names


@each("name", ["reluu", "", "tanh tanh", "leaky_relu()", "(2)", "x=2"])
def test_an_unknown_name_lists_the_known_ones(name) -> None:
    with pytest.raises(ValueError, match=r"No activation is called .*linear, relu, .*, exp\."):
        activation(name)


@each(
    ("name", "message"),
    [
        ("leaky_relu(a)", r"parameter in 'leaky_relu\(a\)' is not a number"),
        ("elu(beta=2)", r"parameter of 'elu' is called alpha; got 'elu\(beta=2\)'"),
        ("celu(0)", r"parameter of `celu`, alpha, must be positive; got 0"),
        ("softplus(-1)", r"parameter of `softplus`, beta, must be positive; got -1"),
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


@each(
    "function",
    [
        np.arctan,
        math.atan,
        lambda z: z if z > 0 else 0.3 * z * z,
        torch.nn.Hardshrink(),
        torch.atan,
    ],
)
def test_a_callable_that_jax_cannot_trace_is_refused(function) -> None:
    message = r"JAX cannot trace the activation .* not those of a built-in one.* jax\.numpy"
    with pytest.raises(ValueError, match=message):
        activation(function)


@each(
    ("function", "message"),
    [
        (lambda z: jnp.sqrt(z + 0j), r"returns complex numbers \(complex128\).*jax\.numpy\.real"),
        (lambda z: jnp.arctan(z.astype(jnp.float32)), r"computes in float32 inside, to about 6"),
        (
            lambda z: jnp.arctan(jnp.sin(z).astype(jnp.bfloat16)).astype(z.dtype) + z,
            r"computes in bfloat16 inside, to about 2 digits",
        ),
        (jax.jit(lambda z: jnp.cos(z.astype(jnp.float16)) + z), r"computes in float16 inside"),
        (jax.nn.softmax, r"'softmax' does not act entry by entry: its value at z = .* depends on"),
        (jnp.cumsum, r"does not act entry by entry"),
        (lambda z: z - jnp.mean(z), r"does not act entry by entry"),
        (lambda z: 0.5, r"shape \(1024,\) it returned \(\)"),
        (lambda z: None, r"it returned <class 'NoneType'>"),
        (torch.nn.Dropout(), r"'Dropout' gives other values for the same arguments .*\.eval\(\)"),
    ],
)
def test_what_is_not_a_function_of_one_real_number_is_refused(function, message) -> None:
    with pytest.raises(ValueError, match=message):
        activation(function)


def test_booleans_and_whole_numbers_are_numbers() -> None:
    """A step made of comparisons jumps where it is said to, has no slope, and runs in networks."""
    step = activation(lambda z: z > 0, kinks=(0.0,), name="step")
    sign = activation(lambda z: jnp.sign(z).astype(int), kinks=(0.0,), name="sign")
    assert [k.jump for k in (*step.kinks, *sign.kinks)] == [1.0, 2.0]
    for sigma in (step, sign):
        assert not sigma.is_continuous
        assert not sigma.derivative(GRID, 1).any()
        assert sigma.traceable()(jnp.ones(3, jnp.float32)).dtype == jnp.float32
    assert activation(lambda z: (z >= 0).astype(int)).name == "perceptron"
    # A parameter in float32 is a number like any other; only what is computed from z must not be cut.
    assert activation(lambda z: jnp.float32(0.3) * jnp.sin(z), name="wave").is_smooth


def test_a_built_in_of_another_library_is_recognised() -> None:
    """By its values: torch modules and functions, JAX and Flax functions, NumPy's and Python's."""
    nn, f = torch.nn, torch.nn.functional
    expected = [
        (nn.GELU(), "gelu"),
        (nn.GELU(approximate="tanh"), "gelu_tanh"),
        (lambda x: x * torch.sigmoid(1.702 * x), "quick_gelu"),
        (nn.LeakyReLU(0.2), "leaky_relu(0.2)"),
        (nn.PReLU(), "leaky_relu(0.25)"),  # its slope is a float32 parameter
        (nn.RReLU(0.5, 0.5).eval(), "leaky_relu(0.5)"),
        (nn.ReLU(inplace=True), "relu"),
        (f.silu, "swish"),
        (nn.ELU(0.5), "elu(0.5)"),
        (nn.CELU(2.0), "celu(2)"),
        (nn.SELU(), "selu"),
        (nn.Mish(), "mish"),
        (nn.Hardswish(), "hardswish"),
        (nn.Hardtanh(), "hardtanh"),
        (nn.ReLU6(), "relu6"),
        (nn.Softsign(), "softsign"),
        (nn.Hardsigmoid(), "hardsigmoid"),
        (nn.LogSigmoid(), "logsigmoid"),
        (nn.Softplus(), "softplus"),
        (nn.Softplus(beta=2), "softplus(2)"),
        (nn.Tanhshrink(), "tanhshrink"),
        (nn.Identity(), "linear"),
        (torch.sin, "sin"),
        (torch.erf, "erf"),
        (lambda x: x**3, "monomial(3)"),
        (jax.nn.silu, "swish"),
        (jax.nn.gelu, "gelu_tanh"),
        (nnx.gelu, "gelu_tanh"),
        (functools.partial(jax.nn.gelu, approximate=False), "gelu"),
        (jax.nn.elu, "elu"),
        (jax.nn.hard_swish, "hardswish"),
        (jax.nn.log_sigmoid, "logsigmoid"),
        (jnp.abs, "leaky_relu(-1)"),
        (np.tanh, "tanh"),
        (math.exp, "exp"),  # which overflows with an error
        (lambda z: z if z > 0 else 0 * z, "relu"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about itself
        found = [(activation(function), name) for function, name in expected]
    assert [sigma.name for sigma, _ in found] == [name for _, name in found]
    # The very object, so that whatever is kept for the built-in one serves it too.
    assert all(sigma is activation(name) for sigma, name in found)
    assert activation(np.tanh, name="mine").name == "mine"
    assert activation(np.tanh, name="mine").derivatives == activation("tanh").derivatives


def test_what_only_resembles_a_built_in_is_not_taken_for_it() -> None:
    for function in (
        lambda z: 2 * jnp.tanh(z),
        lambda z: jnp.tanh(z) + 1e-9 * jnp.cos(z),
        lambda z: jnp.tanh(1.00000001 * z),
        lambda z: z * jax.nn.sigmoid(1.7 * z),
    ):
        sigma = activation(function, name="tanh")
        assert sigma.name == "tanh"
        assert sigma.digest() not in {activation(name).digest() for name in BUILTIN_NAMES}
        assert all(sigma.derivatives[0] is not activation(n).derivatives[0] for n in BUILTIN_NAMES)
    with pytest.raises(ValueError, match=r"jumps by -1 at z = 90"):
        activation(lambda z: jnp.minimum(jax.nn.relu(z), 90.0), kinks=(0.0,))
    with pytest.raises(ValueError, match=r"jumps by 1 at z = 0"):
        activation(lambda z: jnp.minimum(jax.nn.relu(z), 1e4))


def test_built_in_activations_are_the_same_in_another_process() -> None:
    wrong = []
    for name in NAMES:
        known = activation(name)
        net = MLP(2, 8, known, input_dim=2, output_dim=1)
        if pickle.loads(pickle.dumps(known)) is not known or pickle.loads(pickle.dumps(net)) != net:
            wrong.append(name)
    assert wrong == []


# Functions that are numbers only so far


def _overflowing(z):
    return jnp.log1p(jnp.exp(1.3 * z)) / 1.3 - 0.2 * z + 0.1 * jnp.tanh(2 * z)


def _careful(z):
    return jnp.logaddexp(1.3 * z, 0.0) / 1.3 - 0.2 * z + 0.1 * jnp.tanh(2 * z)


@each(
    ("function", "low", "high"),
    [
        (_overflowing, -np.inf, 181.5),
        (lambda z: jnp.log1p(z) + 0.1 * jnp.tanh(z), -1.0, np.inf),
        (lambda z: z * jnp.exp(z**2) / (1 + jnp.exp(z**2)), -15.35, 15.35),
        (lambda z: 1e-6 * jnp.log1p(jnp.exp(1e6 * z)) - 0.2 * z, -np.inf, 2.36e-4),
    ],
)
def test_a_callable_is_known_as_far_as_it_can_be_computed(function, low, high) -> None:
    sigma = activation(function, name="mine")
    np.testing.assert_allclose(sigma.domain, (low, high), rtol=0.15)
    reach = min(-sigma.domain[0], sigma.domain[1])
    for order in range(4):
        assert np.isfinite(sigma.derivative(reach * np.array([-0.5, 0.0, 0.5]), order)).all()
        assert np.isnan(
            sigma.derivative([v for v in (1.5 * low, 1.5 * high) if abs(v) < np.inf])
        ).all()


def test_a_function_is_judged_where_the_question_takes_it() -> None:
    mine, careful = activation(_overflowing), activation(_careful)
    for order in range(4):
        np.testing.assert_allclose(
            single_moment(mine, 1.0, (order, order)).value,
            single_moment(careful, 1.0, (order, order)).value,
            rtol=1e-12,
        )
    with pytest.raises(
        ValueError, match=r"does not exist within twelve standard deviations.*`domain`"
    ):
        single_moment(mine, 1e3, (3, 3))


@each("text", ["celu(1e-150)", "softplus(1e300)", "elu(1e-200)", "leaky_relu(1e200)"])
def test_a_parameter_whose_fourth_power_is_not_a_number_is_refused(text) -> None:
    with pytest.raises(ValueError, match=r"must be finite, and 0 or from 1e-70 to 1e\+70 in size"):
        activation(text)


def test_a_callable_that_only_looks_like_a_vanishing_parameter_is_taken() -> None:
    """Its values far out are those of celu with a parameter whose cube underflows."""
    sigma = activation(lambda z: jax.nn.silu(0.03 * z) / 0.03)
    np.testing.assert_allclose(sigma(10.0), 10.0 / (1 + np.exp(-0.3)), rtol=1e-14)


@each("declared", [(), (0.5,), (0.501,)])
def test_the_kinks_that_a_message_names_are_accepted(declared) -> None:
    def narrow(z):
        return jnp.clip(z, 0.5, 0.501)

    with pytest.raises(ValueError, match=r"pass kinks=\(0\.5, 0\.501,\)"):
        activation(narrow, kinks=declared)
    assert len(activation(narrow, kinks=(0.5, 0.501)).kinks) == 2


@each("power", [0.5, 1.25, 1.5, 1.95])
@each("place", [0.0, 0.7])
def test_a_kink_where_a_derivative_is_unbounded_is_refused(power, place) -> None:
    with pytest.raises(ValueError, match=rf"at z = {place:g}, but .* grows there without bound"):
        activation(lambda z: jnp.abs(z - place) ** power, kinks=(place,))


def test_a_kernel_does_without_a_third_derivative() -> None:
    r"""$\langle|z|^5\rangle_1=8\sqrt{2/\pi}$."""
    smooth_enough = activation(lambda z: jnp.abs(z) ** 2.5, kinks=(0.0,))
    found = single_moment(smooth_enough, 1.0, (0, 0)).value
    np.testing.assert_allclose(found, 8 * math.sqrt(2 / math.pi), rtol=1e-8)


@each(("power", "place"), [(2.05, 0.0), (2.95, 0.7)])
def test_what_takes_a_third_derivative_without_bound_is_left_out(power, place) -> None:
    sigma = activation(lambda z: jnp.abs(z - place) ** power, kinks=(place,))
    assert sigma.unbounded == (place,)
    net = MLP(3, 32, sigma, input_dim=2, output_dim=1, C_b=0.1, C_W=0.3)
    found = scalewise.predict(net, [[1.0, 0.5]])
    assert set(found.data_vars) >= {"kernel", "ntk", "four_point_vertex"}
    assert found.attrs["left_out"] == ["metric_nlo"]
    for name in ("metric_nlo", "ntk_nlo", "ntk_A", "dntk_Q"):
        with pytest.raises(ValueError, match=rf"third derivative, which grows .* z = {place:g}"):
            scalewise.predict(net, [[1.0, 0.5]], observables=name)


def test_the_vertex_without_a_third_derivative() -> None:
    r"""$V'=C_W^2(\langle\sigma^4\rangle-\langle\sigma^2\rangle^2)+(C_Wg')^2V$, $g=\langle\sigma^2\rangle$."""
    sigma = activation(lambda z: jnp.abs(z) ** 2.5, kinks=(0.0,))
    net = MLP(3, 32, sigma, input_dim=1, output_dim=1, C_b=0.1, C_W=0.3)
    K, V, wanted = 0.5, 0.0, []
    mean = 8 * math.sqrt(2 / math.pi)
    for _ in range(2):
        V = 0.09 * (945 * K**5 - mean**2 * K**5) + (0.3 * 2.5 * mean * K**1.5) ** 2 * V
        K = 0.1 + 0.3 * mean * K**2.5
        wanted.append(V)
    found = scalewise.predict(net, [[math.sqrt(0.4 / 0.3)]], observables="V")
    np.testing.assert_allclose(found.four_point_vertex.values.ravel()[1:], wanted, rtol=1e-6)


@each(
    "function",
    [
        lambda z: jnp.abs(z) ** 3.1,
        lambda z: jnp.maximum(z, 0) * jnp.cos(z),
        lambda z: jnp.maximum(z, 0) ** 3,
    ],
)
def test_a_third_derivative_that_has_limits_is_taken(function) -> None:
    assert activation(function, kinks=(0.0,)).unbounded == ()
