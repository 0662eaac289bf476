r"""How far the optimum moves for every doubling of a size: a line through optima, with the larger of two errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scalewise.plan.proof._optimum import Optimum, sure


@dataclass(frozen=True)
class GridSize:
    """One size of the grid: its label, and where it stands on the axes that are judged."""

    label: str
    at: Mapping[str, float | int]


@dataclass(frozen=True)
class Drift:
    """Octaves of the optimum for each octave of a size.

    Args:
        axis: What the factory calls that size.
        sizes: Its values, ascending.
        slope: Octaves per octave.
        sem: Its standard error: what the seeds scatter by or what the optima scatter about the line, whichever is
            larger; NaN of one seed.
        dof: Degrees of freedom of the former.
    """

    axis: str
    sizes: tuple[float, ...]
    slope: float
    sem: float
    dof: int

    @property
    def error(self) -> float:
        """Half the interval that holds the drift as surely as two standard errors of many seeds."""
        return sure(self.sem, self.dof)


def drift_of(axis: str, sizes: Sequence[float], optima: Sequence[Optimum]) -> Drift:
    r"""Least squares of optima against $\log_2$ of a size.

    Args:
        axis: Name of the size.
        sizes: At least two, ascending.
        optima: One for each, of the same seeds.
    """
    u = np.log2(np.asarray(sizes, float))
    u = u - u.mean()
    weights = u / (u @ u)
    places = np.array([o.place for o in optima])
    slope = float(weights @ places)
    seeds = len(optima[0].omitted)
    # Networks of two sizes share a seed's batches but no weights: taken as independent, as many as there are.
    scatter = math.sqrt(sum(o.sem**2 for o in optima) / len(optima))
    by_seeds = scatter * math.sqrt(float(weights @ weights))
    rest = places - places.mean() - slope * u
    free = len(u) - 2
    about = math.sqrt(float(rest @ rest) / free / float(u @ u)) if free else 0.0
    sem = max(by_seeds, about) if math.isfinite(by_seeds) else math.nan
    dof = max(1, (seeds - 1) * len(optima))
    return Drift(axis, tuple(map(float, sizes)), slope, sem, dof)
