"""Property: criticality does not know the units. c sigma(s z)/s is critical where sigma is."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grids import thorough
from kinked import elu, hard_tanh, selu, skewed
from rescaled import rescaled
from scalewise.activations import BUILTIN_NAMES, activation
from scalewise.activations._scale import scale_of
from scalewise.critical import Criticality, criticality, equivalent_rates, susceptibilities

# Powers of 1/s with which the coefficients of a class scale; the others are plain numbers.
IN_UNITS = {"a_1": -2, "a_2": -4, "b_1": -2, "atilde_1": -2, "btilde_1": -2}
IN_SIZE = {"sigma_1": 1, "A_2": 2, "A_4": 4}
UNITS = [(1e-6, 1.0), (1e-3, 1e6), (30.0, 1.0), (1e4, 1e-6), (1e6, 1e6)]


def differences(one: Criticality, other: Criticality, s: float, c: float) -> list[str]:
    """What `other`, of c sigma(s z)/s, says otherwise than `one`, of sigma."""
    found = []

    def same(what: str, a: float | None, b: float | None, rtol: float = 1e-9) -> None:
        equal = a is b if a is None or b is None else abs(a - b) <= rtol * max(abs(a), abs(b))
        if not equal:
            found.append(f"{other.activation.name}: {what} is {b} and should be {a}")

    if (one.universality, one.stability) != (other.universality, other.stability):
        found.append(f"{other.activation.name}: {other.universality}, not {one.universality}")
        return found
    if one.C_b is None or other.C_W is None or other.C_b is None:
        return found
    same("C_W", one.C_W, other.C_W * c**2, 1e-12)
    same("C_b", one.C_b, other.C_b * s**2)
    same("K*", one.K_star, other.K_star and other.K_star * s**2)
    for name, value in one.coefficients.items():
        powers = -2 * one.coefficients["power"] if name == "a" else IN_UNITS.get(name, 0)
        unit = s**powers * c ** -IN_SIZE.get(name, 0)
        # Curvatures at K* > 0 are differences of moments: nine digits of the terms, fewer of some.
        same(name, value, other.coefficients[name] * unit, 1e-6)
    for name, value in one.exponents.items():
        same(f"exponent {name}", value, other.exponents[name], 1e-6)
    for a, b in zip(one.trivial_fixed_points, other.trivial_fixed_points, strict=True):
        same("another fixed point", a.K, b.K * s**2)
        same("its chi_parallel", a.chi_parallel, b.chi_parallel)
    return found


@pytest.mark.parametrize("part", [0, *thorough(1, 2)])
def test_units_do_not_matter(part: int) -> None:
    """Of every third activation; the kinked ones stand last."""
    every = (*map(activation, BUILTIN_NAMES), elu(), selu(), hard_tanh(), skewed())
    found = []
    for place, sigma in [*enumerate(every)][part::3]:
        one = criticality(sigma)
        # Two units each, neighbours in others; a smooth function, one with a kink, one in no class in all.
        everywhere = sigma.name in ("tanh", "leaky_relu", "sigmoid")
        for s, c in UNITS if everywhere else (UNITS[place % 5], UNITS[(place + 2) % 5]):
            found += differences(one, criticality(rescaled(sigma, s, c)), s, c)
    assert found == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "names", [("hard_tanh", "relu"), *thorough((("gelu", "tanh", "softsign"),))], ids=str
)
def test_units_of_callables_do_not_matter(names: tuple[str, ...]) -> None:
    """The kinks, slopes and parity of a callable are found in its own units too."""
    functions = {
        "tanh": (jnp.tanh, (), 1e4, 1.0),
        "gelu": (lambda z: jax.nn.gelu(z, approximate=False), (), 30.0, 1.0),
        "hard_tanh": (jax.nn.hard_tanh, (-1.0, 1.0), 1e-6, 1e6),
        "relu": (jax.nn.relu, (0.0,), 1e6, 1e-6),
        "softsign": (jax.nn.soft_sign, (0.0,), 1e-3, 1.0),
    }
    found = []
    for name in names:
        function, kinks, s, c = functions[name]
        one = activation(function, kinks=kinks, name=name)

        def other(z, function=function, s=s, c=c):
            return c * function(s * z) / s

        places = tuple(k / s for k in kinks)
        scaled = activation(other, kinks=places, name=f"{name}({s:g} z)")
        found += differences(criticality(one), criticality(scaled), s, c)
        if (one.parity, one.slopes is None) != (scaled.parity, scaled.slopes is None):
            found.append(f"{scaled.name}: parity {scaled.parity}, slopes {scaled.slopes}")
        jumps = [(k.location * s, k.slope_jump / c) for k in scaled.kinks]
        np.testing.assert_allclose(
            jumps, [(k.location, k.slope_jump) for k in one.kinks], rtol=1e-9
        )
        if places:
            with pytest.raises(ValueError, match=re.escape(f"at z = {places[0]:g}, a kink")):
                activation(other)
    assert found == []


def test_rates_and_susceptibilities_in_other_units() -> None:
    found = []
    for name in ("tanh", "gelu", "relu", "swish"):
        sigma, s, c = activation(name), 1e5, 1e-3
        other = rescaled(sigma, s, c)
        K = np.array([0.0, 1e-12, 1e-3, 1.0, 1e5])
        one = np.array(susceptibilities(sigma, K, 1.0))
        two = np.array(susceptibilities(other, K / s**2, 1.0)) / c**2
        if np.any(np.abs(one - two) > 1e-12 * one[1]):  # chi_parallel is known to that
            found.append(f"{name}: susceptibilities {two}, not {one}")
        rates = [equivalent_rates(criticality(a), 5) for a in (sigma, other)]
        if not np.allclose(*rates, rtol=1e-9):
            found.append(f"{name}: rates {rates}")
    assert found == []


def test_the_scale_is_found_from_the_function() -> None:
    """Where the slope bends, to a factor 8, for slopes of every kind; where it does not, 1 or a kink."""
    slopes = {
        "bump": lambda z: -2 * z * np.exp(-z * z),
        "cosine": lambda z: -np.sin(z),
        "faint": lambda z: 1 + 0.01 / np.cosh(np.clip(z, -300, 300)) ** 2,
        "ramp": lambda z: np.where(np.abs(z) < 1, 1.0, 0.0),
        "late": lambda z: np.where(z > 1, 1.0, 0.0),
        "mixed powers": lambda z: 2 * z + 3 * z * z,
        "exponential": np.exp,
    }
    for name, slope in slopes.items():
        for s in (1e-9, 1e-6, 0.3, 1.0, 1e6, 1e9):
            with np.errstate(over="ignore"):
                scale = scale_of(lambda z, f=slope, s=s: f(z / s))
            assert 0.125 <= scale / s <= 8, (name, s, scale)
    assert scale_of(lambda z: 3 * z**2) == 1.0
    assert scale_of(np.zeros_like, (0.0, -1024.0)) == 1024.0
    assert scale_of(lambda z: np.where(z > 0, 1.0, 0.1)) == 1.0
