"""What a search at the base has found, trial by trial, and what of it is worth carrying."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scalewise._readable import Rows, readable
from scalewise.plan._constants import Said
from scalewise.plan.proof._fresh import Fresh
from scalewise.plan.proof._standing import Standing, pm

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
@readable
class Trial:
    """One candidate, trained with every seed.

    Args:
        changed: What was changed of the best so far; empty for the start.
        to: Its new value: of a setting itself, of a constant the factor.
        losses: One for each seed.
        halves: After half of the steps; empty where `train` returned no curve.
        gain: By how much its mean loss is below that of the best before it; negative if it lost.
        gain_sem: Standard error of that, seed by seed; NaN of one seed.
        kept: Whether the search went on from it.
    """

    changed: str
    to: float
    losses: tuple[float, ...]
    halves: tuple[float, ...] = field(repr=False)
    gain: float
    gain_sem: float
    kept: bool


@dataclass(frozen=True)
@readable
class Tuned:
    """Result of a search at the base.

    Args:
        settings: Arguments of `train` to carry: of the winner, or of the start where its gain is within the noise.
        constants: For `plan`, or `with_constants` of a plan; of the same one.
        trials: Every candidate in the order of the search.
        spent: How many runs it took, those on fresh seeds included.
        budget: How many it had.
        finished: Whether no smaller step was left; otherwise the budget ended it.
        standing: Where the base stands that these make.
        fresh: Winner and start on seeds that the search has not seen; ``None`` where the budget left no runs.
    """

    settings: dict[str, float]
    constants: Said
    trials: tuple[Trial, ...] = field(repr=False)
    spent: int
    budget: int
    finished: bool
    standing: Standing
    fresh: Fresh | None = None

    @property
    def best(self) -> Trial:
        """The last trial that was kept: the winner, lucky by the draw."""
        return [t for t in self.trials if t.kept][-1]

    @property
    def loss(self) -> tuple[float, float]:
        """Mean loss at the base of what is to be carried, and its error; on fresh seeds if there were any."""
        return self.standing.loss

    @property
    def verdict(self) -> str:
        """Sentences on the gain, and on what to do if the base has not learnt."""
        gain = "The budget left no runs on fresh seeds, so whether the gain is beyond its noise was not measured."
        if self.fresh:
            gain = self.fresh.sentence
        return " ".join(line for line in (gain, self.standing.sentence) if line)

    @property
    def record(self) -> xr.Dataset:
        """Every trial as a Dataset: ``changed``, ``to``, ``gain`` with ``gain_sem``, ``kept``; ``loss`` by seed."""
        import xarray as xr  # here, because its import takes longer than a plan

        told = {
            name: ("trial", [getattr(t, name) for t in self.trials])
            for name in ("changed", "to", "gain", "gain_sem", "kept")
        }
        return xr.Dataset({**told, "loss": (("trial", "seed"), [t.losses for t in self.trials])})

    def _told(self) -> list[str | Rows]:
        loss, sem = self.loss
        found = ", ".join(f"{k} = {v:.4g}" for k, v in self.settings.items())
        end = "" if self.finished else " The budget ended the search before its smallest step."
        first = np.mean(self.trials[0].losses)
        trials: list[tuple[str, ...]] = []
        for t in self.trials[1:]:
            gain = f"{t.gain:+.4g}{pm(t.gain_sem)}"
            told = gain if np.isfinite(t.losses).all() else "diverged"
            trials.append((t.changed, f"{t.to:.4g}", told, "kept" if t.kept else ""))
        return [
            f"{found}; constants={self.constants}",
            f"Loss at the base {loss:.4g}{pm(sem)}, of the search's start {first:.4g}; "
            f"{self.spent} of {self.budget} runs.{end}",
            " ".join(line for line in (self.verdict, self.standing.unmeasured) if line),
            "",
            Rows(("tried", "at", "gain", ""), trials),
        ]
