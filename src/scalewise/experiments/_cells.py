"""Cells of a comparison, trained through a sweep: each is kept once it is done, and a killed run goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from scalewise._extras import require
from scalewise.experiments._arms import Arm, Cell, Common
from scalewise.experiments._form import Progress
from scalewise.plan.spi import find_optimum
from scalewise.sweeps import sweep

_REACH = 2.2  # octaves to either side of where the best rate is expected


def about(
    rates: Sequence[float], base: np.ndarray, arm: Arm, growth: float, *, reach: float = _REACH
) -> tuple[float, ...]:
    """The rates to train with at a size, about where the best of the base and the arm's rules put its best.

    Args:
        rates: Of the base, ascending.
        base: Losses of the base, of shape (rate, seed).
        arm: Its rules.
        growth: Width over that of the base.
        reach: Octaves to either side of that place.
    """
    place = find_optimum(np.log2(rates), base).place
    if arm.drift is None or not math.isfinite(place):
        return tuple(rates)
    middle = np.clip(
        place + arm.drift * math.log2(growth), math.log2(rates[0]), math.log2(rates[-1])
    )
    return tuple(rate for rate in rates if abs(math.log2(rate) - middle) <= reach)


def on_grid(found: np.ndarray, cell: Cell, rates: Sequence[float]) -> np.ndarray:
    """Losses of a cell, of shape (rate, seed), over all rates: NaN where nobody trained."""
    out = np.full((len(rates), cell.seeds), np.nan)
    out[[list(rates).index(rate) for rate in cell.rates]] = found[0]
    return out


def trained(
    common: Common, cells: Sequence[Cell], *, store: str | None, progress: Progress, client: Any
) -> list[np.ndarray]:
    """Losses of cells, each of shape (2, rate, seed): on what nobody trains on, and of the training at the middle.

    They are infinite where a training diverged. A `store` keeps every cell; a killed run goes on from there.
    """
    if not cells:
        return []
    most = max(len(cell.rates) for cell in cells), max(cell.seeds for cell in cells)
    of = {f"{k}: {cell.label}": cell for k, cell in enumerate(cells)}
    found = sweep(
        partial(_losses, common=common, most=most),
        {"run": of},
        store=store,
        progress=progress or False,
        client=client,
    )
    return [
        found.loss.sel(run=name).values[:, : len(cell.rates), : cell.seeds]
        for name, cell in of.items()
    ]


def _losses(run: Cell, *, common: Common, most: tuple[int, int]) -> xr.Dataset:
    require("torch", for_="This experiment", extra="torch")
    from scalewise.experiments._decoder import losses_of

    whole = np.full((2, *most), np.nan)
    whole[:, : len(run.rates), : run.seeds] = losses_of(common, run)
    return xr.Dataset({"loss": (("moment", "rate", "seed"), whole)})
