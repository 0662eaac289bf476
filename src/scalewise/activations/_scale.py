r"""The units of an activation, found from the function itself: where it bends, and how much it changes.

$c\,\sigma(z/s)$ has the criticality of $\sigma$ in other units, so every grid and every tolerance is
taken in units of $s$ and $c$. Both are powers of two: to divide by them costs no digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

Function = Callable[[np.ndarray], np.ndarray]

OCTAVES: Float[np.ndarray, " octave"] = 2.0 ** np.arange(-60, 61)
_ROUNDING = 1e-9  # a slope that changes less, relative to itself, does not change
_CONSTANT = 0.1  # over the first three octaves, relative: a slope at 0, and not a power of z
_BEND = 0.25  # change of the power with which the slope grows


def scale_of(slope: Function, splits: Sequence[float] = ()) -> float:
    r"""The scale of preactivations on which an activation bends, a power of two, given $\sigma'$.

    Where $\sigma'$ has changed by half of what it changes in all, or by half of its value at 0 if it
    goes on for ever. Without a slope at 0: where $\sigma'$ ceases to be one power of $z$. It is 1 where there is no
    scale (lines that meet at 0, powers); for $\sigma(z/s)$ it is $s$ times as large, to a factor 2.
    """
    offsets = [abs(point) for point in splits if point]
    fallback = _power_of_two(min(offsets)) if offsets else 1.0
    with np.errstate(all="ignore"):
        sides = np.stack([slope(OCTAVES), slope(-OCTAVES)])
    good = np.atleast_1d(np.isfinite(sides).all(axis=0))
    sides = sides[:, : good.size if good.all() else int(np.argmin(good))]
    if sides.shape[1] < 4:
        return fallback
    first = sides[:, :1]
    steady = np.ptp(sides[:, :4], axis=1, keepdims=True) <= _CONSTANT * np.abs(first)
    start = np.where(steady, first, 0.0)
    change = np.maximum.accumulate(np.max(np.abs(sides - start), axis=0))
    total, at_zero = float(change[-1]), float(np.max(np.abs(start)))
    if total <= _ROUNDING * at_zero or total == 0.0:
        return fallback
    if at_zero or change[0] == 0.0:
        wanted = 0.5 * min(total, at_zero or total)
        return float(OCTAVES[np.argmax(change >= wanted)])
    power = np.log2(change[1:] / change[:-1])
    bent = np.abs(power - power[0]) > _BEND
    return float(OCTAVES[np.argmax(bent)]) if bent.any() else fallback


def size_of(value: Function, scale: float) -> float:
    r"""$\max|\sigma(z)-\sigma(0)|$ on the activation's own scale, a power of two; 1 for a constant."""
    at = reach(scale)
    with np.errstate(all="ignore"):
        change = np.abs(value(at) - value(np.zeros(1)))
    largest = float(np.max(change[np.isfinite(change)], initial=0.0))
    return _power_of_two(largest) if largest > 0.0 else 1.0


def reach(scale: float) -> Float[np.ndarray, " point"]:
    """A few points of either sign on the scale."""
    half = scale * np.array([0.25, 0.5, 1.0, 2.0])
    return np.concatenate([-half[::-1], half])


def _power_of_two(number: float) -> float:
    return float(2.0 ** np.round(np.log2(number)))
