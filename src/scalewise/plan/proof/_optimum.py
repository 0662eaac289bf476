r"""Where the losses of one size have their minimum, and how surely: a parabola in $\log_2$ of the hyperparameter.

Every seed trains at every value, so that what a seed does to all values alike cancels in the place of the minimum.
The error comes from leaving one seed out at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable

# Octaves to either side of the lowest loss that the parabola is laid through; one value at least.
REACH = 1.0
Edge = str  # "left", "right" or ""


@dataclass(frozen=True)
@readable
class Optimum:
    r"""The minimum of one size.

    Args:
        place: $\log_2$ of the value; NaN where every run diverged.
        sem: Its standard error in octaves; NaN of one seed.
        loss: Of the parabola there; of the lowest value where the grid ends.
        edge: ``"left"`` or ``"right"`` where the lowest loss is at that end of the grid, and the minimum may lie
            beyond; empty where the grid brackets it.
        diverged: How many of the runs gave no finite loss.
        omitted: `place` without each of the seeds in turn; the same at all sizes, so that they can be paired.
        lost: How many of the runs at the lowest value gave none; all where no run of the size gave any.
        guessed: How many of the runs that the parabola is laid through gave none: what stands for their losses is
            the worst that was seen, and not a measurement.
    """

    place: float
    sem: float
    loss: float
    edge: Edge
    diverged: int
    omitted: Float[np.ndarray, " seed"]
    lost: int = 0
    guessed: int = 0


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


def finite(losses: Float[np.ndarray, "value seed"]) -> tuple[np.ndarray, int]:
    """Losses with a number for every run: one that diverged counts as the worst that was seen, and how many did."""
    bad = ~np.isfinite(losses)
    if bad.all():
        return np.zeros_like(losses), int(bad.sum())
    return np.where(bad, losses[~bad].max(), losses), int(bad.sum())


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
    y, diverged = finite(losses)
    mean = y.mean(axis=1)
    nan = float("nan")
    if diverged == losses.size:
        nowhere = np.full(y.shape[1], nan)
        return Optimum(nan, nan, float("inf"), "", diverged, nowhere, lost=y.shape[1])
    k, bad = int(mean.argmin()), ~np.isfinite(losses)
    lost = int(bad[k].sum())
    edge = "left" if k == 0 else "right" if k == len(x) - 1 else ""
    if edge:
        end = np.full(y.shape[1], x[k])
        return Optimum(float(x[k]), nan, float(mean[k]), edge, diverged, end, lost)
    window = _window(x, k)
    place = vertex(x, mean, window)
    omitted = _without(y, lambda m: vertex(x, m, window))
    loss, guessed = float(_value(x, mean, window, place)), int(bad[window].sum())
    return Optimum(place, jackknife(omitted), loss, "", diverged, omitted, lost, guessed)


def excess(
    x: Float[np.ndarray, " value"], losses: Float[np.ndarray, "value seed"], at: float
) -> tuple[float, float]:
    r"""How much more is lost at a place of $\log_2$ of the value than at the minimum, and its standard error.

    On the parabola as far as that reaches, and beyond on one through the three values nearest to the place. NaN
    where there is no such place, or every run diverged.
    """
    y, diverged = finite(losses)
    if diverged == losses.size or not np.isfinite(at):
        return float("nan"), float("nan")
    mean = y.mean(axis=1)
    k = int(np.clip(mean.argmin(), 1, len(x) - 2))
    window = _window(x, k)
    i = int(np.clip(np.abs(x - at).argmin(), 1, len(x) - 2))
    near = slice(i - 1, i + 2)

    def of(m: np.ndarray) -> float:
        best = vertex(x, m, window)
        inside = x[window][0] <= at <= x[window][-1]
        here = _value(x, m, window if inside else near, at)
        return float(here - _value(x, m, window, best))

    return of(mean), jackknife(_without(y, of))


def _without(y: np.ndarray, statistic: Callable[[np.ndarray], float]) -> np.ndarray:
    """A statistic of mean losses, without each seed in turn; as it is of a single one."""
    seeds = y.shape[1]
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


def _value(x: np.ndarray, mean: np.ndarray, window: slice, at: float) -> float:
    coefficients, middle = _parabola(x, mean, window)
    return float(np.polynomial.polynomial.polyval(at - middle, coefficients))
