r"""Where the losses of one size have their minimum, and how surely: a parabola in $\log_2$ of the hyperparameter.

Every seed trains at every value, so that what a seed does to all values alike cancels in the place of the minimum.
The error comes from leaving one seed out at a time. A value at which some run diverged has no mean loss: it is no
candidate, and no point of the parabola.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable

# Octaves to either side of the lowest loss that the parabola is laid through; one value at least.
REACH = 1.0
TWO_SIGMA = 0.97725  # what two standard errors of a normal deviate leave below
Edge = str  # "left", "right" or ""


@dataclass(frozen=True)
@readable
class Optimum:
    r"""The best value of the hyperparameter at one size, where the loss has its minimum.

    Args:
        place: $\log_2$ of the value; NaN where at every value some run diverged.
        sem: Its standard error in octaves; NaN of one seed.
        loss: Of the parabola there; of the lowest value where the grid ends.
        edge: ``"left"`` or ``"right"`` where the lowest loss is at that end of the grid, and the minimum may lie
            beyond; empty where the grid brackets it.
        diverged: How many of the runs gave no finite loss.
        omitted: `place` without each of the seeds in turn; the same at all sizes, so that they can be paired.
        lost: How many runs diverged at the value where those that did not are lowest; where that is none of the
            values at which no run diverged.
        lost_at: $\log_2$ of that value.
        guessed: How many of the runs within reach of the minimum diverged, at values that the parabola leaves out.
        bend: Second derivative of the parabola, in losses per square octave; 0 where there is none.
        bends: `bend` without each of the seeds in turn.
        lows: `loss` without each of them.
    """

    place: float
    sem: float
    loss: float
    edge: Edge
    diverged: int
    omitted: Float[np.ndarray, " seed"]
    lost: int = 0
    lost_at: float = float("nan")
    guessed: int = 0
    bend: float = 0.0
    bends: Float[np.ndarray, " seed"] = field(default_factory=lambda: np.zeros(0))
    lows: Float[np.ndarray, " seed"] = field(default_factory=lambda: np.zeros(0))


def jackknife(omitted: Float[np.ndarray, " seed"]) -> float:
    r"""Standard error of a statistic from its values without each seed: $\sqrt{\frac{m-1}m\sum(t_i-\bar t)^2}$.

    Args:
        omitted: Of $m$ seeds; NaN is returned of one.

    Example:
        >>> import numpy as np
        >>> from scalewise.plan.proof._optimum import jackknife
        >>> x = np.array([1.0, 2.0, 4.0])
        >>> without = (x.sum() - x) / 2
        >>> bool(np.isclose(jackknife(without), x.std(ddof=1) / 3**0.5))  # of a mean: the usual one
        True
    """
    m = len(omitted)
    if m < 2:
        return float("nan")
    return float(np.sqrt((m - 1) / m * np.sum((omitted - omitted.mean()) ** 2)))


def mean_of(x: Float[np.ndarray, " seed"]) -> tuple[float, float]:
    """Mean and its standard error, which the jackknife of a mean is; NaN of one seed."""
    omitted = (x.sum() - x) / (len(x) - 1) if len(x) > 1 else x
    return float(x.mean()), jackknife(omitted)


def sure(sem: float, dof: int, level: float = TWO_SIGMA) -> float:
    """Factor that makes a standard error of few seeds as sure as two of many."""
    if not np.isfinite(sem):
        return float("inf")
    from scipy.special import stdtrit  # here, because its import takes longer than a plan

    return float(stdtrit(dof, level)) * sem


def stable(losses: Float[np.ndarray, "value seed"]) -> Float[np.ndarray, " value"]:
    """Mean losses, infinite at a value where some run diverged: a mean without that run is not a loss."""
    good = np.isfinite(losses).all(axis=1)
    return np.where(good, np.where(np.isfinite(losses), losses, 0.0).mean(axis=1), np.inf)


def find_optimum(
    x: Float[np.ndarray, " value"], losses: Float[np.ndarray, "value seed"]
) -> Optimum:
    r"""Fit the minimum of the mean loss.

    Args:
        x: $\log_2$ of the values, ascending, at least three.
        losses: Of the same seeds at every value; what is not finite diverged.

    Example:
        >>> import numpy as np
        >>> from scalewise.plan.proof import find_optimum
        >>> x = np.arange(-9.0, -4.0)
        >>> found = find_optimum(x, (x[:, None] + 6.75) ** 2 + np.array([0.1, 0.3]))
        >>> round(found.place, 6), found.sem < 1e-9, found.edge
        (-6.75, True, '')
    """
    bad, mean, seeds = ~np.isfinite(losses), stable(losses), losses.shape[1]
    diverged, nan = int(bad.sum()), float("nan")
    lost, lost_at = _lost(x, losses, mean)
    if not np.isfinite(mean).any():
        nowhere = np.full(seeds, nan)
        return Optimum(
            place=nan,
            sem=nan,
            loss=float("inf"),
            edge="",
            diverged=diverged,
            omitted=nowhere,
            lost=lost,
            lost_at=lost_at,
        )
    k = int(mean.argmin())
    near = _window(x, k)
    window, guessed = _among(np.isfinite(mean), near, k), int(bad[near].sum())
    edge = "left" if k == 0 else "right" if k == len(x) - 1 else ""
    if edge or window is None:
        end, none = np.full(seeds, x[k]), np.zeros(seeds)
        return Optimum(
            place=float(x[k]),
            sem=nan,
            loss=float(mean[k]),
            edge=edge,
            diverged=diverged,
            omitted=end,
            lost=lost,
            lost_at=lost_at,
            guessed=guessed,
            bends=none,
            lows=_without(losses, lambda m: float(m[k])),
        )
    place = vertex(x, mean, window)
    omitted = _without(losses, lambda m: vertex(x, m, window))
    lows = _without(losses, lambda m: _value(x, m, window, vertex(x, m, window)))
    return Optimum(
        place=place,
        sem=jackknife(omitted),
        loss=_value(x, mean, window, place),
        edge="",
        diverged=diverged,
        omitted=omitted,
        lost=lost,
        lost_at=lost_at,
        guessed=guessed,
        bend=_bend(x, mean, window),
        bends=_without(losses, lambda m: _bend(x, m, window)),
        lows=lows,
    )


def _lost(x: np.ndarray, losses: np.ndarray, mean: np.ndarray) -> tuple[int, float]:
    """Number of runs that diverged at the value whose other runs beat every value without any, and that value."""
    bad = ~np.isfinite(losses)
    there = (~bad).sum(axis=1)
    rest = np.where(bad, 0.0, losses).sum(axis=1) / np.maximum(there, 1)
    rest = np.where(bad.any(axis=1) & (there > 0), rest, np.inf)
    k = int(rest.argmin())
    if rest[k] < mean.min():
        return int(bad[k].sum()), float(x[k])
    return (0 if np.isfinite(mean).any() else losses.shape[1]), float("nan")


def _among(good: np.ndarray, near: slice, k: int) -> slice | None:
    """Values about the lowest at which no run diverged: those near to it, and three at least, or none."""
    left, right = k, k + 1
    while left > 0 and good[left - 1]:
        left -= 1
    while right < len(good) and good[right]:
        right += 1
    first, last = max(left, near.start), min(right, near.stop)
    while last - first < 3 and (first > left or last < right):
        first, last = (first - 1, last) if first > left else (first, last + 1)
    return slice(first, last) if last - first >= 3 else None


def excess(
    x: Float[np.ndarray, " value"], losses: Float[np.ndarray, "value seed"], at: float
) -> tuple[float, float]:
    r"""Loss at a place of $\log_2$ of the value above that at the minimum, and its standard error.

    On the parabola as far as that reaches, and beyond on one through the three values nearest to the place.
    Infinite where runs diverge at the value nearest to the place; NaN where there is no such place or no minimum.
    """
    mean, nan = stable(losses), float("nan")
    good = np.isfinite(mean)
    if not good.any() or not np.isfinite(at):
        return nan, nan
    i = int(np.abs(x - at).argmin())
    if not good[i]:
        return float("inf"), nan
    k = int(mean.argmin())
    inner = int(np.clip(k, 1, len(x) - 2))
    window = _among(good, _window(x, inner), k)
    near = _among(good, slice(max(i - 1, 0), i + 2), i)
    if window is None or near is None:
        return nan, nan

    def of(m: np.ndarray) -> float:
        best = vertex(x, m, window)
        inside = x[window][0] <= at <= x[window][-1]
        here = _value(x, m, window if inside else near, at)
        return float(here - _value(x, m, window, best))

    return of(mean), jackknife(_without(losses, of))


def _without(losses: np.ndarray, statistic: Callable[[np.ndarray], float]) -> np.ndarray:
    """A statistic of mean losses, without each seed in turn; as it is of a single one."""
    y, seeds = losses, losses.shape[1]
    if seeds < 2:
        return np.array([statistic(y.mean(axis=1))])
    return np.array([statistic(np.delete(y, i, axis=1).mean(axis=1)) for i in range(seeds)])


def _window(x: np.ndarray, k: int) -> slice:
    near = np.flatnonzero(np.abs(x - x[k]) <= REACH + 1e-9)
    return slice(min(int(near[0]), k - 1), max(int(near[-1]), k + 1) + 1)


def _parabola(x: np.ndarray, mean: np.ndarray, window: slice) -> tuple[Any, float]:
    """Coefficients about the middle of the window, which keeps them well conditioned."""
    middle = float(x[window].mean())
    return np.polynomial.polynomial.polyfit(x[window] - middle, mean[window], 2), middle


def vertex(x: np.ndarray, mean: np.ndarray, window: slice) -> float:
    """The lowest place of the parabola in its window; of a parabola that opens downwards the lowest value's."""
    (_, slope, bend), middle = _parabola(x, mean, window)
    inside = x[window]
    if bend <= 0:
        return float(inside[mean[window].argmin()])
    return float(np.clip(middle - slope / (2 * bend), inside[0], inside[-1]))


def _bend(x: np.ndarray, mean: np.ndarray, window: slice) -> float:
    (_, _, bend), _ = _parabola(x, mean, window)
    return float(2 * bend)


def _value(x: np.ndarray, mean: np.ndarray, window: slice, at: float) -> float:
    coefficients, middle = _parabola(x, mean, window)
    return float(np.polynomial.polynomial.polyval(at - middle, coefficients))
