"""What a grid of trainings says of a plan: optima, drift, what the transferred value costs, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from scalewise._extras import require
from scalewise._readable import Rows, readable
from scalewise.plan.proof._drift import Drift, drift_of
from scalewise.plan.proof._optimum import Optimum, excess, find_optimum
from scalewise.plan.proof._verdict import Finding, Outcome, judge

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Size:
    """One size of the grid: its label, and where it stands on the axes that are judged."""

    label: str
    at: Mapping[str, float | int]


@dataclass(frozen=True)
@readable
class TransferCheck:
    """A grid of trainings over sizes, values of one hyperparameter and seeds, and what it says.

    Args:
        hyperparameter: Which one.
        values: Of the base, ascending.
        sizes: The first is the one that all others are compared with.
        losses: NaN or infinite where a run diverged.
        optima: One for each size.
        drifts: One for each axis of size along which two sizes have an optimum.
        costs: For each size how much is lost at the optimum of the first, and its standard error.
        tolerance: Octaves per octave of size that count as staying.
        finding: The outcome and its sentence.
    """

    hyperparameter: str
    values: tuple[float, ...]
    sizes: tuple[Size, ...]
    losses: Float[np.ndarray, "size value seed"] = field(repr=False)
    optima: tuple[Optimum, ...] = field(repr=False)
    drifts: tuple[Drift, ...]
    costs: tuple[tuple[float, float], ...]
    tolerance: float
    finding: Finding

    @property
    def verdict(self) -> str:
        """One sentence."""
        return self.finding.sentence

    @property
    def outcome(self) -> Outcome:
        """``"transfers"``, ``"drifts"``, ``"diverged"``, ``"not bracketed"`` or ``"too poor"``."""
        return self.finding.outcome

    @property
    def ok(self) -> bool:
        """Whether it is shown that the optimum stays."""
        return self.outcome is Outcome.TRANSFERS

    @property
    def best(self) -> float:
        """The fitted optimum of the first size: what to carry; NaN where every run of that size diverged."""
        return float(2.0 ** self.optima[0].place)

    def assert_ok(self) -> None:
        """Pass if the optimum is shown to stay; for a test of your own.

        Raises:
            AssertionError: If not, with the verdict.
        """
        if not self.ok:
            raise AssertionError(self.verdict)

    @cached_property
    def table(self) -> xr.Dataset:
        """All of it as a Dataset.

        ``loss`` over (size, value, seed); over size ``optimum`` with ``optimum_sem`` in powers of 2, ``best_loss``,
        ``cost`` with ``cost_sem``, ``edge`` and ``diverged``.
        """
        import xarray as xr  # here, because its import takes longer than a plan

        o = self.optima
        return xr.Dataset(
            {
                "loss": (("size", "value", "seed"), self.losses),
                "optimum": ("size", [one.place for one in o]),
                "optimum_sem": ("size", [one.sem for one in o]),
                "best_loss": ("size", [one.loss for one in o]),
                "cost": ("size", [c for c, _ in self.costs]),
                "cost_sem": ("size", [e for _, e in self.costs]),
                "edge": ("size", [one.edge for one in o]),
                "diverged": ("size", [one.diverged for one in o]),
            },
            {"size": [s.label for s in self.sizes], "value": list(self.values)},
            {"hyperparameter": self.hyperparameter, "verdict": self.verdict},
        )

    def plot(self) -> Figure:
        """Losses over the values, a line for each size, and the optima over the sizes."""
        require("matplotlib", for_="`TransferCheck.plot`", extra="report")
        from scalewise.plan.proof._picture import draw

        return draw(self)

    def _told(self) -> list[str | Rows]:
        head = (
            "size",
            f"optimum of {self.hyperparameter}",
            "loss there",
            "lost if carried",
            "diverged",
        )
        rows: list[tuple[str, ...]] = []
        for size, o, (cost, error) in zip(self.sizes, self.optima, self.costs, strict=True):
            sem = f" ± {o.sem:.2f}" if math.isfinite(o.sem) else ""
            beyond = {"left": "below ", "right": "above "}.get(o.edge, "")
            carried = f"{cost:.3g} ± {error:.2g}" if math.isfinite(error) else f"{cost:.3g}"
            there = (f"{beyond}2^({o.place:.2f}{sem})", f"{o.loss:.4g}", carried)
            none = ("none", "", "")
            diverged = f"{o.diverged} of {self.losses[0].size}" if o.diverged else ""
            rows.append((size.label, *(there if math.isfinite(o.place) else none), diverged))
        return [self.verdict, "", Rows(head, rows)]


def check_losses(
    hyperparameter: str,
    values: Sequence[float],
    sizes: Sequence[Size],
    losses: Float[np.ndarray, "size value seed"],
    *,
    tolerance: float = 0.1,
) -> TransferCheck:
    """Judge losses that were measured already.

    Args:
        hyperparameter: Its name.
        values: Of the base, ascending and positive, at least three.
        sizes: The first is the reference. An axis is judged over the sizes that differ from the first in nothing
        else.
        losses: Of the same seeds everywhere; what is not finite diverged.
        tolerance: Octaves per octave that count as staying.
    """
    x = np.log2(np.asarray(values, float))
    optima = [find_optimum(x, one) for one in losses]
    first, drifts = sizes[0], []
    for axis in first.at:
        line = [
            i for i, s in enumerate(sizes)
            if all(s.at[other] == first.at[other] for other in first.at if other != axis)
        ]  # fmt: skip
        line.sort(key=lambda i: sizes[i].at[axis])
        line = [i for i in line if math.isfinite(optima[i].place)]
        if len(line) > 1:
            drifts.append(
                drift_of(axis, [float(sizes[i].at[axis]) for i in line], [optima[i] for i in line])
            )
    costs = [excess(x, one, optima[0].place) for one in losses]
    costs[0] = (0.0, 0.0)
    told = [i for i, (cost, _) in enumerate(costs) if i and math.isfinite(cost)]
    worst = max(told, key=lambda i: costs[i][0], default=0)
    cost = (sizes[worst].label, *costs[worst])
    finding = judge(
        hyperparameter, [s.label for s in sizes], list(x), optima, drifts, cost, tolerance
    )
    return TransferCheck(
        hyperparameter, tuple(map(float, values)), tuple(sizes), losses, tuple(optima), tuple(drifts),
        tuple(costs), tolerance, finding,
    )  # fmt: skip
