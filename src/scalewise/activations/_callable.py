"""User callables as activations: derivatives by autodiff, kinks declared or refused, and where they are numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.activations._activation import Activation, Derivative, Kink
from scalewise.activations._scale import OCTAVES, scale_of, size_of
from scalewise.activations._tracing import BLOCK

# All in units of the activation's own scale.
_PROBE = np.linspace(-8.0, 8.0, 1601)
# An irrational offset keeps the ends off round numbers, where kinks like to sit. Preactivations of
# variance 1000 reach 100.
_FINE = np.linspace(-12.0, 12.0, 4801) + 0.0012345
_COARSE = np.concatenate([np.linspace(12.0, 100.0, 881)[1:], np.geomspace(100.0, 1e4, 41)[1:]])
_ENDS = np.concatenate([-_COARSE[::-1], _FINE, _COARSE + 0.0012345])
_BLOCKS = 16  # of the shape that JAX compiles for all small arrays
# An exponential to the fourth power, as in a third derivative, overflows at a quarter of the way.
_OVERFLOW = 0.25
_NAMED = 16  # kinks in a message

Derivatives = tuple[Derivative, Derivative, Derivative, Derivative]


def from_callable(
    function: Callable[[Any], Any], kinks: tuple[float, ...], name: str | None
) -> Activation:
    """Build an `Activation` from a JAX-traceable elementwise callable."""
    label = name or getattr(function, "__name__", "activation")
    own: Any = tuple(_evaluator(function, order, label) for order in range(4))
    scale = scale_of(own[1], kinks)
    _refuse_lone_gaps(label, own, scale, kinks)
    _refuse_unbounded(label, own, scale, kinks)
    domain = _without_overflow(label, own, scale, kinks)
    if domain != (-math.inf, math.inf):
        own = tuple(partial(_inside, derivative, domain) for derivative in own)
    records = tuple(
        Kink(k, *(_jump(own, order, k, scale) for order in (0, 1))) for k in sorted(kinks)
    )
    return Activation(
        label,
        own,
        partial(_restricted, function, domain),
        kinks=tuple(k for k in records if k.jump or k.slope_jump),
        breaks=tuple(k.location for k in records if not (k.jump or k.slope_jump)),
        slopes=_slopes(own[0], kinks),
        parity=_parity(own[0], scale),
        taylor=None if 0.0 in kinks else _taylor(function),
        domain=domain,
        unbounded=tuple(k for k in sorted(kinks) if _grows(own[3], k, scale)),
    )


def _inside(derivative: Derivative, domain: tuple[float, float], z: np.ndarray) -> np.ndarray:
    """A derivative in the domain; beyond it, not a number."""
    return np.where((z > domain[0]) & (z < domain[1]), derivative(z), np.nan)


def _restricted(
    function: Callable[[Any], Any], domain: tuple[float, float]
) -> Callable[[Any], Any]:
    """The function as networks use it, not a number beyond the domain."""
    if domain == (-math.inf, math.inf):
        return function
    return lambda z: jnp.where((z > domain[0]) & (z < domain[1]), function(z), jnp.nan)


def _evaluator(function: Callable[[Any], Any], order: int, label: str) -> Derivative:
    nth = function
    for _ in range(order):
        nth = _forward(nth)
    compiled = jax.jit(nth)

    def evaluate(z: np.ndarray) -> np.ndarray:
        # Large arrays are padded to powers of two, so that JAX compiles a handful of shapes, not hundreds.
        flat = np.ravel(z)
        size = 1 << max(flat.size - 1, 0).bit_length()
        size = size if size > BLOCK * _BLOCKS else BLOCK
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


def _refuse_lone_gaps(
    label: str, derivatives: Derivatives, scale: float, kinks: tuple[float, ...]
) -> None:
    """Single points where a number is missing, 0 in particular; where the numbers end is another matter."""
    z = scale * _PROBE
    values = np.stack([derivative(z) for derivative in derivatives])
    bad = ~np.isfinite(values) & ~np.isin(z, kinks)
    any_bad = bad.any(axis=0)
    lone = bad & ((z == 0) | ~(np.roll(any_bad, 1) | np.roll(any_bad, -1)))
    if lone.any():
        order, place = np.argwhere(lone)[0]
        what = "value" if order == 0 else f"derivative of order {order}"
        raise ValueError(
            f"The activation {label!r} must be finite wherever preactivations may be; its {what} at "
            f"z = {z[place]:g} is {values[order, place]}. Rewrite it so that it (and its "
            "derivatives, see jax.numpy.where) stays finite there."
        )


def _refuse_unbounded(
    label: str, derivatives: Derivatives, scale: float, kinks: tuple[float, ...]
) -> None:
    """Kinks at which one of the first two derivatives has no limit: it has grown 64 times closer to them.

    A third derivative that is unbounded can be integrated beside two that are not, and the kernel does without.
    """
    for kink in kinks:
        for order, derivative in enumerate(derivatives[:3]):
            if _grows(derivative, kink, scale):
                what = "it" if order == 0 else f"its derivative of order {order}"
                raise ValueError(
                    f"The activation {label!r} may have a kink at z = {kink:g}, but {what} grows there without "
                    "bound, and the theory needs two bounded derivatives on either side. Make it smooth, for "
                    "example with (z**2 + 1e-4)**0.75 in place of abs(z)**1.5."
                )


def _grows(derivative: Derivative, kink: float, scale: float) -> bool:
    """True if a derivative has no limit on one side of a kink: every 64 times closer it has grown as much again."""
    step = 64 * np.spacing(max(scale, abs(kink))) * np.array([1.0, 64.0, 64.0**2])
    size = max(float(np.max(np.abs(derivative(scale * _PROBE[::200] + 0.1)))), 1e-300)
    with np.errstate(invalid="ignore"):
        for side in (-1, 1):
            values = derivative(kink + side * step)
            last, before = np.abs(np.diff(values))
            # Written so that what is not a number has no limit.
            if not (last <= 0.9 * before or last <= 1e-6 * size or abs(values[0]) < abs(values[1])):
                return True
    return False


def _without_overflow(
    label: str, derivatives: Derivatives, scale: float, kinks: tuple[float, ...]
) -> tuple[float, float]:
    """The interval about 0 in which a callable and its derivatives are numbers, not made of ones that overflow.

    Raises:
        ValueError: If one of them jumps in it where no kink was declared.
    """
    low, high = (_finite_until(derivatives, side * scale, kinks) for side in (-1, 1))
    ends, found = [low, high], dict[float, tuple[int, float]]()
    for order, derivative in enumerate(derivatives):
        for place, jump in zip(*_jumps(derivative, scale), strict=True):
            near = [k for k in (*kinks, *found) if abs(place - k) <= 1e-9 * max(scale, abs(k))]
            side = int(place > 0)
            if near or abs(place) >= abs(ends[side]):
                continue
            if abs(place) > _OVERFLOW * abs((low, high)[side]):
                ends[side] = place - math.copysign(1e-3 * abs(place), place)
            else:
                found[float(place)] = order, float(jump)
    found = {k: what for k, what in found.items() if ends[0] < k < ends[1]}
    if found:
        _refuse_undeclared(label, derivatives, scale, kinks, found)
    return ends[0], ends[1]


def _finite_until(derivatives: Derivatives, unit: float, kinks: tuple[float, ...]) -> float:
    """Distance from 0 up to which all are finite, on the side of a unit of this sign; infinite without an end."""
    z = unit * np.concatenate([[0.0], _ENDS[_ENDS > 0]])
    for _ in range(4):
        bad = ~np.isin(z, kinks) & ~np.all([np.isfinite(d(z)) for d in derivatives], axis=0)
        if not bad.any():
            return math.copysign(math.inf, unit)
        first = int(np.argmax(bad))
        z = np.linspace(z[max(first - 1, 0)], z[first], 513)
    return float(z[0])


def _jumps(derivative: Derivative, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Places where a derivative jumps and by how much, the largest first.

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


def _refuse_undeclared(
    label: str,
    derivatives: Derivatives,
    scale: float,
    kinks: tuple[float, ...],
    found: dict[float, tuple[int, float]],
) -> NoReturn:
    """Refuse kinks by their places, with the whole list to declare; one that was nearly right gives way."""
    place, (order, jump) = next(iter(found.items()))
    meant = [
        k
        for k in kinks
        if all(abs(k - other) > 0.01 * scale for other in found)
        or any(_jump(derivatives, order, k, scale) for order in range(4))
    ]
    complete = sorted([*meant, *found], key=abs)
    named = ", ".join(map(repr, sorted(complete[:_NAMED])))
    more = f" and {len(complete) - _NAMED} more, further out" if len(complete) > _NAMED else ""
    what = "" if order == 0 else f"has a derivative of order {order} that "
    raise ValueError(
        f"The activation {label!r} {what}jumps by {jump:.3g} at z = {place:g}, a kink "
        f"that was not declared; pass kinks=({named},){more}."
    )


def _jump(derivatives: Derivatives, order: int, location: float, scale: float) -> float:
    """Jump of a derivative at a place; 0 for a rounding."""
    h = 8 * np.spacing(max(scale, abs(location)))
    low, high = derivatives[order](np.array([location - h, location + h]))
    change = float(high - low)
    natural = max(size_of(derivatives[0], scale) / scale**order, abs(low), abs(high))
    return change if abs(change) > 1e-6 * natural else 0.0


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
    def raised(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def derivatives(z: Any) -> tuple[Any, ...]:
            values, slopes = jax.jvp(f, (z,), (jnp.ones_like(z),))
            return (*values, slopes[-1])

        return derivatives

    def first(z: Any) -> tuple[Any, ...]:
        return (function(z),)

    # All orders in one nest, since to trace the last costs as much as all others together, and compiled as
    # one program: traced eagerly, the fifth derivative alone takes seconds.
    orders = first
    for _ in range(5):
        orders = raised(orders)
    with jax.enable_x64(True):
        return tuple(map(float, jax.jit(orders)(jnp.zeros((), dtype=jnp.float64))))


def _forward(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda u: jax.jvp(f, (u,), (jnp.ones_like(u),))[1]
