"""User callables as activations: derivatives by autodiff, kinks declared or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from scalewise.activations._activation import Activation, Derivative, Kink

__all__ = ["from_callable"]

_PROBE = np.linspace(-8.0, 8.0, 1601)
# An irrational offset keeps the ends off round numbers, where kinks like to sit. Preactivations of
# variance 1000 reach 100.
_FINE = np.linspace(-12.0, 12.0, 4801) + 0.0012345
_COARSE = np.linspace(12.0, 100.0, 881)[1:]
_ENDS = np.concatenate([-_COARSE[::-1], _FINE, _COARSE + 0.0012345])
_INTERVALS = (_ENDS[:-1], _ENDS[1:])


def from_callable(
    function: Callable[[Any], Any], kinks: tuple[float, ...], name: str | None
) -> Activation:
    """Build an `Activation` from a JAX-traceable elementwise callable."""
    label = name or getattr(function, "__name__", "activation")
    if any(not math.isfinite(k) for k in kinks):
        raise ValueError(f"`kinks` must be finite numbers; got {kinks}.")
    derivatives = tuple(_evaluator(function, order, label) for order in range(4))
    values = [derivative(_PROBE) for derivative in derivatives]
    _refuse_bad_values(label, values, kinks)
    _refuse_undeclared_kink(label, derivatives, kinks)
    records = tuple(_kink(derivatives, k) for k in sorted(kinks))
    return Activation(
        label,
        derivatives,  # pyright: ignore[reportArgumentType]
        lambda: function,
        kinks=tuple(k for k in records if k.jump or k.slope_jump),
        breaks=tuple(k.location for k in records if not (k.jump or k.slope_jump)),
        slopes=_slopes(derivatives[0], kinks),
        parity=_parity(values[0]),
        taylor=None if 0.0 in kinks else _taylor(function),
    )


def _evaluator(function: Callable[[Any], Any], order: int, label: str) -> Derivative:
    import jax

    def nth(z: Any) -> Any:
        g = function
        for _ in range(order):
            g = _forward(g)
        return g(z)

    compiled = jax.jit(nth)

    def evaluate(z: np.ndarray) -> np.ndarray:
        # Sizes are padded to powers of two so that JAX compiles a handful of shapes, not hundreds.
        flat = np.ravel(z)
        padded = np.zeros(max(256, 1 << max(flat.size - 1, 0).bit_length()))
        padded[: flat.size] = flat
        with jax.enable_x64(True):
            try:
                result = compiled(padded)
            except Exception as error:
                raise ValueError(
                    f"JAX cannot trace the activation {label!r}. Write it as a function of one array "
                    "with jax.numpy instead of numpy, and choose between cases with jax.numpy.where "
                    f"instead of `if`. JAX says: {str(error).splitlines()[0]}"
                ) from error
            if getattr(result, "shape", None) != padded.shape:
                raise ValueError(
                    f"The activation {label!r} must return an array of the shape it is given; for "
                    f"shape {padded.shape} it returned {getattr(result, 'shape', type(result))}. "
                    "Write it as an elementwise function of one array."
                )
            out = np.asarray(result, dtype=np.float64)
        return out[: flat.size].reshape(np.shape(z))

    return evaluate


def _refuse_bad_values(label: str, values: list[np.ndarray], kinks: tuple[float, ...]) -> None:
    for order, value in enumerate(values):
        bad = ~np.isfinite(value) & ~np.isin(_PROBE, kinks)
        if bad.any():
            where = _PROBE[np.argmax(bad)]
            what = "value" if order == 0 else f"derivative of order {order}"
            raise ValueError(
                f"The activation {label!r} must be finite for every real argument; its {what} at "
                f"z = {where:g} is {value[np.argmax(bad)]}. Rewrite it so that it (and its "
                "derivatives, see jax.numpy.where) stays finite there."
            )


def _jumps(derivative: Derivative) -> tuple[np.ndarray, np.ndarray]:
    """Where a derivative jumps and by how much, the largest first.

    Every interval of a grid is halved towards its larger difference, all at once; what is left when
    rounding ends it is a jump, not a slope, however steep the function is elsewhere.
    """
    left, right = _INTERVALS
    low, high = derivative(left), derivative(right)
    scale = np.max(np.abs(low[np.abs(left) < 12]))
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
        real = np.abs(jump) > 1e-7 * scale + 1e-6 * np.maximum(np.abs(low), np.abs(high))
    order = np.argsort(-np.abs(jump[real]), kind="stable")
    # Twelve decimals take back the last rounding: 0.7, not 0.7 - 1e-16; and never -0.
    return np.round(left[real][order], 12) + 0.0, jump[real][order]


def _refuse_undeclared_kink(
    label: str, derivatives: tuple[Derivative, ...], kinks: tuple[float, ...]
) -> None:
    for order, derivative in enumerate(derivatives):
        for place, jump in zip(*_jumps(derivative), strict=True):
            if any(abs(place - k) <= 1e-9 * max(1.0, abs(k)) for k in kinks):
                continue
            what = "" if order == 0 else f"has a derivative of order {order} that "
            complete = [k for k in kinks if abs(k - place) > 0.01] + [float(place)]
            raise ValueError(
                f"The activation {label!r} {what}jumps by {jump:.3g} at z = {place:g}, a kink "
                f"that was not declared; pass kinks=({', '.join(map(repr, complete))},)."
            )


def _kink(derivatives: tuple[Derivative, ...], location: float) -> Kink:
    h = 8 * np.spacing(max(1.0, abs(location)))
    sides = np.array([location - h, location + h])

    def jump(order: int) -> float:
        low, high = derivatives[order](sides)
        size = float(high - low)
        return size if abs(size) > 1e-6 * max(1.0, abs(low), abs(high)) else 0.0

    return Kink(location, jump(0), jump(1))


def _slopes(value: Derivative, kinks: tuple[float, ...]) -> tuple[float, float] | None:
    if any(k != 0.0 for k in kinks):
        return None
    z = np.array([0.25, 1.0, 3.0, 17.0, 400.0])
    plus, minus = value(z) / z, value(-z) / -z
    if np.ptp(plus) > 1e-12 * max(1.0, abs(plus[0])) or np.ptp(minus) > 1e-12 * max(
        1.0, abs(minus[0])
    ):
        return None
    return float(minus[1]), float(plus[1])


def _parity(values: np.ndarray) -> int:
    scale = float(np.max(np.abs(values)))
    if np.max(np.abs(values + values[::-1])) <= 1e-13 * scale:
        return -1
    return 1 if np.max(np.abs(values - values[::-1])) <= 1e-13 * scale else 0


def _taylor(function: Callable[[Any], Any]) -> tuple[float, ...]:
    import jax
    import jax.numpy as jnp

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
    import jax
    import jax.numpy as jnp

    return lambda u: jax.jvp(f, (u,), (jnp.ones_like(u),))[1]
