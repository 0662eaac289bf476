"""What experiments have in common: the form of their settings, data read case by case, and powers read off data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

import numpy as np
import xarray as xr

__all__ = ["each", "power", "settings"]

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


def each(dataset: xr.Dataset, name: str) -> list[tuple[Any, xr.Dataset]]:
    """The labels of a dimension as Python has them, and what the data are there."""
    return [(label, dataset.sel({name: label})) for label in dataset[name].values.tolist()]


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
