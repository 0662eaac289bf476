"""Parts that experiments share: the form of their settings, data read case by case, and powers read off data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import numpy as np
import xarray as xr

from scalewise.sweeps import sweep

Folder = str | Path | None  # that keeps what is finished
Progress = Callable[[int, int], None] | None  # called with parts done, and all of them
T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def settings(**small: Any) -> Callable[[type[T]], type[T]]:
    """Make a class of settings a frozen dataclass with a method ``small()``.

    Args:
        **small: What a run of seconds has in place of the defaults.
    """

    def made(kind: type[T]) -> type[T]:
        def reduced(cls: type[T]) -> T:
            """Less of everything: seconds."""
            return cls(**small)

        whole: Any = dataclass(frozen=True)(kind)
        whole.small = classmethod(reduced)
        return whole

    return made


def computed(cell: Callable[..., xr.Dataset], grid: Mapping[str, Any], **given: Any) -> xr.Dataset:
    """A cell on a grid, in this process; what is `given` goes to every cell beside its labels."""
    found = sweep(partial(cell, **given), grid, client=0, progress=False)
    return found.reset_coords(drop=True)


def each(dataset: xr.Dataset, *names: str) -> list[tuple[Any, ...]]:
    """For all labels of some dimensions: the labels, as Python has them, and what the data are there."""
    labels = product(*(dataset[name].values.tolist() for name in names))
    return [(*at, dataset.sel(dict(zip(names, at, strict=True)))) for at in labels]


def power(x: Any, y: Any, sem: Any = None) -> tuple[float, float]:
    r"""Slope of $\log|y|$ against $\log x$, and its standard error.

    Args:
        x: Positive, at least two.
        y: Of one sign.
        sem: Standard errors of `y`; without them the slope has the error of its scatter.

    Returns:
        The slope and its standard error, 0 for two points without `sem`.
    """
    u, v = np.log(np.asarray(x, dtype=float)), np.log(np.abs(np.asarray(y, dtype=float)))
    w = np.ones_like(u) if sem is None else (np.asarray(y) / np.asarray(sem)) ** 2
    centred = u - np.sum(w * u) / np.sum(w)
    slope = np.sum(w * centred * v) / np.sum(w * centred**2)
    variance = 1 / np.sum(w * centred**2)
    if sem is None:
        left = v - np.mean(v) - slope * centred
        variance *= np.sum(left**2) / max(u.size - 2, 1)
    return float(slope), float(np.sqrt(variance))
