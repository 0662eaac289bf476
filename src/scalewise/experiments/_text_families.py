"""Conclusions from losses of the decoder's experiment: of each family its optima, and which of two loses less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from scalewise.experiments._form import each
from scalewise.experiments._text_runs import FAMILIES
from scalewise.plan.proof import TransferCheck, check_losses
from scalewise.plan.spi import GridSize, mean_of


@dataclass(frozen=True)
class Family:
    """The losses of one family, and what they say.

    Args:
        losses: Over (size, rate, seed).
        check: Optima of every size, and their drifts.
        x: Powers of 2 of the rates.
    """

    losses: np.ndarray
    check: TransferCheck
    x: np.ndarray

    @classmethod
    def of(cls, here: xr.Dataset) -> Family:
        """The family of a Dataset: ``loss`` over (size, rate, seed), ``width`` and ``depth``, the base first."""
        places = zip(here["size"].values, here.width.values, here.depth.values, strict=True)
        sizes = [GridSize(str(label), {"width": int(n), "depth": int(L)}) for label, n, L in places]
        rates, losses = [float(r) for r in here.rate.values], here.loss.values
        tolerance = float(here.attrs.get("allowance", 0.1))
        check = check_losses("lr", rates, sizes, losses, tolerance=tolerance)
        return cls(losses, check, np.log2(rates))

    def retuned(self, size: int) -> tuple[float, float]:
        """The loss at the best rate of a size, and its error."""
        return mean_of(self.by_seed(size, self.check.optima[size].place))

    def carried(self, size: int) -> tuple[float, float]:
        """The loss at the best rate of the base."""
        return mean_of(self.by_seed(size, self.check.optima[0].place))

    def rows(self, name: str, labels: Sequence[str]) -> list[tuple[str, ...]]:
        """Rows of a table: losses carried and retuned, and the best rate, under labels of sizes that it has.

        Where both losses are the same at every size they have one row.
        """
        at = {size.label: i for i, size in enumerate(self.check.sizes)}
        best = [
            f"{o.edge} of {o.place:g}" if o.edge else f"{o.place:.2f} ± {o.sem:.2f}"
            for o in self.check.optima
        ]
        told = (
            ("carried", lambda i: _shown(*self.carried(i))),
            ("retuned", lambda i: _shown(*self.retuned(i))),
            ("log₂ of the best rate", best.__getitem__),
        )
        carried, retuned, rates = (
            (f"{name}, {what}", *(get(at[label]) if label in at else "" for label in labels))
            for what, get in told
        )
        if carried[1:] == retuned[1:]:
            return [(f"{name}, carried and retuned", *carried[1:]), rates]
        return [carried, retuned, rates]

    def by_seed(self, size: int, place: float) -> np.ndarray:
        """Losses of every seed at a rate between those of the grid, on a parabola through the three nearest."""
        i = int(np.clip(np.abs(self.x - place).argmin(), 1, len(self.x) - 2))
        near = slice(i - 1, i + 2)
        y = np.where(np.isfinite(self.losses[size, near]), self.losses[size, near], np.nan)
        if np.isnan(y).any():  # beside where it diverges: the value itself
            return self.losses[size, i]
        return np.polyfit(self.x[near] - place, y, 2)[-1]


def where_trained(here: xr.Dataset) -> tuple[Family, list[str]]:
    """The family of the sizes where it was trained, and their labels, its base first."""
    kept = here.dropna("size", how="all", subset=["loss"])
    return Family.of(kept), [str(label) for label in kept["size"].values]


def _shown(loss: float, sem: float) -> str:
    return "not trained" if np.isnan(loss) else f"{loss:.3f} ± {sem:.3f}"


def above(
    one: Family, i: int, other: Family, j: int, *, carried: bool = False
) -> tuple[float, float]:
    """Loss of a carried family at a size above another, retuned or carried, seed by seed."""
    mine = one.by_seed(i, one.check.optima[0].place)
    theirs = other.by_seed(j, other.check.optima[0 if carried else j].place)
    both = min(len(mine), len(theirs))
    return mean_of(mine[:both] - theirs[:both])


def families(dataset: xr.Dataset) -> list[tuple[str, int, dict[str, Family]]]:
    """Families that were trained, of every optimizer and duration."""
    line, every = widening(dataset), [*range(dataset.sizes["size"])]
    first = int(dataset.steps[0])
    found = []
    for optimizer, steps, here in each(dataset, "optimizer", "steps"):
        trained = here.isel(size=every if steps == first else line)
        mine = {f: _paired(trained.sel(family=f)) for f in FAMILIES}
        of = {f: Family.of(x) for f, x in mine.items() if x.sizes["seed"]}
        found.append((optimizer, steps, of))
    return found


def _paired(here: xr.Dataset) -> xr.Dataset:
    """The seeds that every size has, which errors of drifts need."""
    return here.isel(seed=here.loss.notnull().any("rate").all("size").values)


def widening(dataset: xr.Dataset) -> list[int]:
    """Sizes of the least depth, by their width."""
    depth = dataset.depth.values
    mine = [i for i in range(len(depth)) if depth[i] == depth[0]]
    return sorted(mine, key=lambda i: int(dataset.width[i]))
