"""User callables as activations: derivatives by autodiff, kinks declared or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.activations._activation import Activation, Derivative, Kink
from scalewise.activations._scale import OCTAVES, scale_of, size_of

# All in units of the activation's own scale.
_PROBE = np.linspace(-8.0, 8.0, 1601)
# An irrational offset keeps the ends off round numbers, where kinks like to sit. Preactivations of
# variance 1000 reach 100.
_FINE = np.linspace(-12.0, 12.0, 4801) + 0.0012345
_COARSE = np.concatenate([np.linspace(12.0, 100.0, 881)[1:], np.geomspace(100.0, 1e4, 41)[1:]])
_ENDS = np.concatenate([-_COARSE[::-1], _FINE, _COARSE + 0.0012345])
# What is asked of a callable at once: JAX compiles one shape for all small arrays, to compile takes longest.
_BLOCK, _BLOCKS = 1024, 16


def from_callable(
    function: Callable[[Any], Any], kinks: tuple[float, ...], name: str | None
) -> Activation:
    """Build an `Activation` from a JAX-traceable elementwise callable."""
    label = name or getattr(function, "__name__", "activation")
    derivatives = tuple(_evaluator(function, order, label) for order in range(4))
    scale = scale_of(derivatives[1], kinks)
    values = [derivative(scale * _PROBE) for derivative in derivatives]
    _refuse_bad_values(label, values, scale * _PROBE, kinks)
    _refuse_undeclared_kink(label, derivatives, scale, kinks)
    records = tuple(_kink(derivatives, k, scale) for k in sorted(kinks))
    return Activation(
        label,
        derivatives,  # pyright: ignore[reportArgumentType]
        lambda: function,
        kinks=tuple(k for k in records if k.jump or k.slope_jump),
        breaks=tuple(k.location for k in records if not (k.jump or k.slope_jump)),
        slopes=_slopes(derivatives[0], kinks),
        parity=_parity(derivatives[0], scale),
        taylor=None if 0.0 in kinks else _taylor(function),
    )


def _evaluator(function: Callable[[Any], Any], order: int, label: str) -> Derivative:
    def nth(z: Any) -> Any:
        g = function
        for _ in range(order):
            g = _forward(g)
        return g(z)

    compiled = jax.jit(nth)

    def evaluate(z: np.ndarray) -> np.ndarray:
        # Large arrays are padded to powers of two, so that JAX compiles a handful of shapes, not hundreds.
        flat = np.ravel(z)
        size = 1 << max(flat.size - 1, 0).bit_length()
        size = size if size > _BLOCK * _BLOCKS else _BLOCK
        padded = np.zeros((max(-(-flat.size // size), 1), size))
        padded.ravel()[: flat.size] = flat
        with jax.enable_x64(True):
            try:
                found = [np.asarray(compiled(block)) for block in padded]
            except Exception as error:
                raise ValueError(
                    f"JAX cannot trace the activation {label!r}. Write it as a function of one array "
                    "with jax.numpy instead of numpy, and choose between cases with jax.numpy.where "
                    f"instead of `if`. JAX says: {str(error).splitlines()[0]}"
                ) from error
        return np.concatenate(found)[: flat.size].reshape(np.shape(z))

    return evaluate


def _refuse_bad_values(
    label: str, values: list[np.ndarray], z: np.ndarray, kinks: tuple[float, ...]
) -> None:
    for order, value in enumerate(values):
        bad = ~np.isfinite(value) & ~np.isin(z, kinks)
        if bad.any():
            where = z[np.argmax(bad)]
            what = "value" if order == 0 else f"derivative of order {order}"
            raise ValueError(
                f"The activation {label!r} must be finite for every real argument; its {what} at "
                f"z = {where:g} is {value[np.argmax(bad)]}. Rewrite it so that it (and its "
                "derivatives, see jax.numpy.where) stays finite there."
            )


def _jumps(derivative: Derivative, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Where a derivative jumps and by how much, the largest first.

    Every interval of a grid is halved towards its larger difference, all at once; what is left when
    rounding ends it is a jump, not a slope, however steep the function is elsewhere.
    """
    left, right = unit * _ENDS[:-1], unit * _ENDS[1:]
    low, high = derivative(left), derivative(right)
    size = np.max(np.abs(low[np.abs(left) < 12 * unit]))
    for _ in range(48):
        middle = 0.5 * (left + right)
        value = derivative(middle)
        with np.errstate(invalid="ignore"):
            lower = np.abs(value - low) > np.abs(high - value)
        right, high = np.where(lower, middle, right), np.where(lower, value, high)
        left, low = np.where(lower, left, middle), np.where(lower, low, value)
    # A few roundings outwards: at the kink itself autodiff may answer with the mean of both sides.
    step = 4 * np.spacing(np.maximum(np.abs(left), np.abs(right)))
    low, high = derivative(left - step), derivative(right + step)
    with np.errstate(invalid="ignore"):
        jump = high - low
        real = np.abs(jump) > 1e-7 * size + 1e-6 * np.maximum(np.abs(low), np.abs(high))
    order = np.argsort(-np.abs(jump[real]), kind="stable")
    # Twelve decimals of a unit take back the last rounding: 0.7, not 0.7 - 1e-16; and never -0.
    decimals = 12 - math.ceil(math.log10(unit))
    return np.round(left[real][order], decimals) + 0.0, jump[real][order]


def _refuse_undeclared_kink(
    label: str, derivatives: tuple[Derivative, ...], scale: float, kinks: tuple[float, ...]
) -> None:
    for order, derivative in enumerate(derivatives):
        for place, jump in zip(*_jumps(derivative, scale), strict=True):
            if any(abs(place - k) <= 1e-9 * max(scale, abs(k)) for k in kinks):
                continue
            what = "" if order == 0 else f"has a derivative of order {order} that "
            further = place * np.geomspace(1.0, 16.0, 65)[1:]
            lost = further[~np.isfinite(derivative(further))]
            if lost.size:
                raise ValueError(
                    f"The activation {label!r} {what}jumps by {jump:.3g} at z = {place:g} and "
                    f"is not finite at z = {lost[0]:g}: it is computed through numbers that overflow. Write it so "
                    "that none does, with the functions of jax.nn, jax.numpy.logaddexp or jax.numpy.where."
                )
            complete = [k for k in kinks if abs(k - place) > 0.01 * scale] + [float(place)]
            raise ValueError(
                f"The activation {label!r} {what}jumps by {jump:.3g} at z = {place:g}, a kink "
                f"that was not declared; pass kinks=({', '.join(map(repr, complete))},)."
            )


def _kink(derivatives: tuple[Derivative, ...], location: float, scale: float) -> Kink:
    h = 8 * np.spacing(max(scale, abs(location)))
    sides = np.array([location - h, location + h])
    size = size_of(derivatives[0], scale)

    def jump(order: int) -> float:
        low, high = derivatives[order](sides)
        change = float(high - low)
        natural = max(size / scale**order, abs(low), abs(high))
        return change if abs(change) > 1e-6 * natural else 0.0

    return Kink(location, jump(0), jump(1))


def _slopes(value: Derivative, kinks: tuple[float, ...]) -> tuple[float, float] | None:
    if any(k != 0.0 for k in kinks):
        return None
    plus, minus = value(OCTAVES) / OCTAVES, value(-OCTAVES) / -OCTAVES
    largest = max(abs(float(plus[0])), abs(float(minus[0])))
    # Written so that a slope that is not a number is not a slope.
    if not max(np.ptp(plus), np.ptp(minus)) <= 1e-12 * largest:
        return None
    return float(minus[0]), float(plus[0])


def _parity(value: Derivative, scale: float) -> int:
    z = scale * _PROBE
    values = value(z)
    mirrored = values[::-1]
    size = 1e-13 * np.maximum(np.abs(values), size_of(value, scale))
    if np.all(np.abs(values + mirrored) <= size):
        return -1
    return 1 if np.all(np.abs(values - mirrored) <= size) else 0


def _taylor(function: Callable[[Any], Any]) -> tuple[float, ...]:
    def derivatives(z: Any) -> list[Any]:
        values, f = [], function
        for _ in range(6):
            values.append(f(z))
            f = _forward(f)
        return values

    # Compiled as one program: traced eagerly, the fifth derivative alone takes seconds.
    with jax.enable_x64(True):
        return tuple(map(float, jax.jit(derivatives)(jnp.zeros((), dtype=jnp.float64))))


def _forward(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda u: jax.jvp(f, (u,), (jnp.ones_like(u),))[1]
