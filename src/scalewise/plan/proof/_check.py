"""What a grid of trainings says of a plan: optima, drift, what the transferred value costs, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from scalewise._extras import require
from scalewise._readable import Rows, readable
from scalewise.plan.proof._drift import Drift, GridSize, drift_of
from scalewise.plan.proof._optimum import Optimum, excess, find_optimum, stable
from scalewise.plan.proof._quality import Quality, quality_of
from scalewise.plan.proof._standing import Standing, pm, standing_of
from scalewise.plan.proof._verdict import TransferFinding, TransferOutcome, judge

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

_NAMED = 3  # values at which runs diverged that a table names


@dataclass(frozen=True)
@readable
class TransferCheck:
    """A grid of trainings over sizes, values of one hyperparameter and seeds, and what it says.

    Args:
        hyperparameter: Which one.
        values: Of the base, ascending.
        sizes: The first is the one that all others are compared with.
        losses: NaN or infinite where a run diverged: no number stands for it.
        optima: One for each size.
        drifts: One for each axis of size along which two sizes have an optimum.
        costs: For each size how much is lost at the optimum of the first, and its standard error; infinite where
            runs diverge there.
        tolerance: Octaves per octave of size that count as staying.
        finding: The outcome and its sentence.
        qualities: For each drift how well it fits, how robust it is, and the loss of an infinite size.
        standing: Where the first size stands at its best value.
    """

    hyperparameter: str
    values: tuple[float, ...]
    sizes: tuple[GridSize, ...]
    losses: Float[np.ndarray, "size value seed"] = field(repr=False)
    optima: tuple[Optimum, ...] = field(repr=False)
    drifts: tuple[Drift, ...]
    costs: tuple[tuple[float, float], ...]
    tolerance: float
    finding: TransferFinding
    qualities: tuple[Quality, ...] = ()
    standing: Standing | None = None

    @property
    def verdict(self) -> str:
        """The conclusion in one sentence."""
        return self.finding.sentence

    @property
    def outcome(self) -> TransferOutcome:
        """``"transfers"``, ``"drifts"``, ``"diverged"``, ``"not learnt"``, ``"not bracketed"``, ``"too poor"``."""
        return self.finding.outcome

    @property
    def ok(self) -> bool:
        """True if the optimum is shown to stay, from a base that is not known to have failed to learn."""
        return self.outcome is TransferOutcome.TRANSFERS

    @property
    def best(self) -> float:
        """The fitted optimum of the first size: what to carry; NaN where it has none, since runs diverged."""
        return float(2.0 ** self.optima[0].place)

    @property
    def diverged(self) -> Float[np.ndarray, "size value"]:
        """Share of the seeds that diverged, at every size and value."""
        return (~np.isfinite(self.losses)).mean(axis=2)

    def assert_ok(self) -> None:
        """Pass if the optimum is shown to stay; for a test of your own.

        Raises:
            AssertionError: If not, with the verdict.
        """
        if not self.ok:
            raise AssertionError(self.verdict)

    @cached_property
    def table(self) -> xr.Dataset:
        """The check as a Dataset.

        ``loss`` over (size, value, seed); over size ``optimum`` with ``optimum_sem`` in powers of 2, ``best_loss``,
        ``cost`` with ``cost_sem``, ``edge`` and ``diverged``; ``diverged_share`` of the seeds over (size, value).
        """
        import xarray as xr  # here, because its import takes longer than a plan

        o = self.optima
        return xr.Dataset(
            {
                "loss": (("size", "value", "seed"), self.losses),
                "diverged_share": (("size", "value"), self.diverged),
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

        return draw(
            self.hyperparameter,
            self.values,
            self.sizes,
            self.losses,
            optima=self.optima,
            drifts=self.drifts,
            headline=self.outcome,
        )

    def _told(self) -> list[str | Rows]:
        head = (
            "size",
            f"optimum of {self.hyperparameter}",
            "loss there",
            "lost if carried",
            "diverged",
        )
        rows: list[tuple[str, ...]] = []
        each = zip(self.sizes, self.optima, self.costs, self.diverged, strict=True)
        for size, o, (cost, error), share in each:
            sem = f" ± {o.sem:.2f}" if math.isfinite(o.sem) else ""
            beyond = {"left": "below ", "right": "above "}.get(o.edge, "")
            carried = "diverges" if cost == math.inf else f"{cost:.3g}{pm(error)}"
            there = (f"{beyond}2^({o.place:.2f}{sem})", f"{o.loss:.4g}", carried)
            none = ("none", "", "")
            diverged = self._where(share) if o.diverged else ""
            rows.append((size.label, *(there if math.isfinite(o.place) else none), diverged))
        lines = [line for q in self.qualities for line in q._told()]
        stands = self.standing._told() if self.standing else []
        return [
            self.verdict,
            "",
            Rows(head, rows),
            *([""] if lines or stands else []),
            *lines,
            *stands,
        ]

    def _where(self, share: Float[np.ndarray, " value"]) -> str:
        """Sentence on the values at which seeds diverged, and which share of them."""
        runs = f"{round(share.sum() * self.losses.shape[2])} of {self.losses[0].size}"
        at = [
            f"{part:.0%} at 2^{math.log2(value):.3g}"
            for value, part in zip(self.values, share, strict=True)
            if part
        ]
        shown = at if len(at) <= _NAMED else [*at[: _NAMED - 1], f"... {at[-1]}"]
        return f"{runs}: {', '.join(shown)}"


def check_losses(
    hyperparameter: str,
    values: Sequence[float],
    sizes: Sequence[GridSize],
    losses: Float[np.ndarray, "size value seed"],
    *,
    tolerance: float = 0.1,
    halves: Float[np.ndarray, "size value seed"] | None = None,
    baseline: float | None = None,
) -> TransferCheck:
    """Judge losses that were measured already.

    Args:
        hyperparameter: Its name.
        values: Of the base, ascending and positive, at least three.
        sizes: The first is the reference. An axis is judged over the sizes that differ from the first in nothing
        else.
        losses: Of the same seeds everywhere; what is not finite diverged.
        tolerance: Octaves per octave that count as staying.
        halves: Losses after half of the steps; NaN where they were not measured.
        baseline: The loss of a predictor that has learnt nothing.
    """
    x = np.log2(np.asarray(values, float))
    optima = [find_optimum(x, one) for one in losses]
    first, drifts, qualities = sizes[0], [], []
    for axis in first.at:
        line = [
            i
            for i, s in enumerate(sizes)
            if all(s.at[other] == first.at[other] for other in first.at if other != axis)
        ]
        line.sort(key=lambda i: sizes[i].at[axis])
        line = [i for i in line if math.isfinite(optima[i].place)]
        if len(line) > 1:
            along = [float(sizes[i].at[axis]) for i in line], [optima[i] for i in line]
            drifts.append(drift_of(axis, *along))
            inside = [i for i in line if not optima[i].edge]
            if len(inside) > 1:
                kept = [float(sizes[i].at[axis]) for i in inside], [optima[i] for i in inside]
                qualities.append(quality_of(drift_of(axis, *kept), kept[1]))
    costs = [excess(x, one, optima[0].place) for one in losses]
    costs[0] = (0.0, 0.0)
    told = [i for i, (cost, _) in enumerate(costs) if i and not math.isnan(cost)]
    worst = max(told, key=lambda i: costs[i][0], default=0)
    cost = (sizes[worst].label, *costs[worst])
    standing = _standing(losses[0], None if halves is None else halves[0], optima[0], baseline)
    finding = judge(
        hyperparameter, [s.label for s in sizes], list(x), optima, drifts, cost, tolerance, standing
    )
    return TransferCheck(
        hyperparameter=hyperparameter,
        values=tuple(map(float, values)),
        sizes=tuple(sizes),
        losses=losses,
        optima=tuple(optima),
        drifts=tuple(drifts),
        costs=tuple(costs),
        tolerance=tolerance,
        finding=finding,
        qualities=tuple(qualities),
        standing=standing,
    )


def _standing(
    losses: np.ndarray, halves: np.ndarray | None, o: Optimum, baseline: float | None
) -> Standing | None:
    """Standing of the first size at the value next to its optimum; nowhere where it has none."""
    if not math.isfinite(o.place):
        return None
    mean = stable(losses)
    k = int(mean.argmin())
    return standing_of(losses[k], [] if halves is None else halves[k], baseline)
