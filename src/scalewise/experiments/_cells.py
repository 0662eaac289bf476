"""Cells of a comparison, trained through a sweep: each is kept once it is done, and a killed run goes on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from scalewise._extras import require
from scalewise.experiments._arms import Cell, Common
from scalewise.experiments._form import Progress
from scalewise.sweeps import sweep


def trained(
    common: Common, cells: Sequence[Cell], *, store: str | None, progress: Progress, client: Any
) -> list[np.ndarray]:
    """Losses of cells, each of shape (2, rate, seed): on what nobody trains on, and of the training at the middle.

    They are infinite where a training diverged. A `store` keeps every cell; a killed run goes on from there.
    """
    most = max(len(cell.rates) for cell in cells), max(cell.seeds for cell in cells)
    of = {f"{k}: {cell.label}": cell for k, cell in enumerate(cells)}
    found = sweep(
        partial(_losses, common=common, most=most), {"run": of}, store=store, progress=progress or False,
        client=client,
    )  # fmt: skip
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
