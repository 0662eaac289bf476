"""The law of a parameter: from numbers that are spread evenly over it, or from its entries alone."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy import special

from scalewise.networks import WeightLaw
from scalewise.networks.spi import LAWS, NORMAL
from scalewise.reading._reader import ParameterLaw

_ALIKE = 0.02  # between the excess of a law and that of one with a name
_SLIP = 1e-4  # of the excess of evenly spread normal numbers, in single precision
_CENTRED = 1e-6  # of a standard deviation: evenly spread numbers in single precision have a mean of that size


def law_of(values: np.ndarray, *, few: bool) -> ParameterLaw:
    """How numbers are drawn: variance, mean, and the law with a name that has their excess.

    Args:
        values: The numbers.
        few: Whether they are draws, whose moments are off by chance; else they are spread evenly over the law.
    """
    values = np.asarray(values, dtype=float).ravel()
    if not len(values) or np.all(values == values[0]):
        return ParameterLaw(0.0, float(values[0]) if len(values) else 0.0, NORMAL)
    mean, variance = float(values.mean()), float(values.var())
    noise = 4 / math.sqrt(len(values)) if few else _CENTRED
    if abs(mean) <= noise * math.sqrt(variance):
        mean = 0.0
    squares = np.square(values - values.mean())
    excess = float(np.square(squares).mean() / variance**2 - 3)
    if not few and abs(excess - _even_normal(len(values))[1]) < _SLIP:
        variance /= _even_normal(len(values))[0]
    return ParameterLaw(
        variance, mean, _named(excess, 5 * math.sqrt(24 / len(values)) if few else _ALIKE)
    )


@cache
def _even_normal(count: int) -> tuple[float, float]:
    """Variance and excess of evenly spread standard normal numbers, whose ends are cut."""
    z = special.ndtri((np.arange(count) + 0.5) / count)
    variance = float(z.var())
    return variance, float((z**4).mean() / variance**2 - 3)


def _named(excess: float, noise: float) -> WeightLaw:
    """The law with a name that has this excess; normal if the entries do not tell."""
    near = min(LAWS.values(), key=lambda law: abs(law.excess - excess))
    return NORMAL if abs(excess) <= noise or abs(near.excess - excess) > max(noise, 0.1) else near
