"""One cell of a sweep, computed wherever it is sent, and all that is told of it."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import xarray as xr

from scalewise._threads import blas_threads_for
from scalewise._version import __version__
from scalewise._words import shown

# Packages that may change the last digits of a cell, if they are installed.
_PACKAGES = ("numpy", "scipy", "xarray", "jax", "torch")


@dataclass(frozen=True)
class CellSetting:
    """Settings of the process that asks, so that others compute alike.

    Args:
        wide: Whether JAX was told to use 64 bits; ``None`` if it is not imported.
        default: PyTorch's default dtype; ``None`` if it is not imported.
        threads: How many PyTorch computes with.
    """

    wide: bool | None
    default: str | None
    threads: int = 1

    @classmethod
    def here(cls) -> CellSetting:
        """Settings of this process."""
        jax, torch = sys.modules.get("jax"), sys.modules.get("torch")
        return cls(
            None if jax is None else bool(jax.config.jax_enable_x64),
            None if torch is None else str(torch.get_default_dtype()).removeprefix("torch."),
            1 if torch is None else torch.get_num_threads(),
        )

    @contextmanager
    def held(self) -> Iterator[None]:
        """A context with these settings and one thread, since how threads share a sum shows in its last digit."""
        now = CellSetting.here()
        replace(self, threads=1)._set(now)
        try:
            yield
        finally:
            now._set(replace(self, threads=1))

    def _set(self, now: CellSetting) -> None:
        if self.wide is not None and self.wide != now.wide:
            jax: Any = import_module("jax")  # there, since whoever asks has it
            jax.config.update("jax_enable_x64", self.wide)
        if self.default is not None and (self.default, self.threads) != (now.default, now.threads):
            torch: Any = import_module("torch")
            torch.set_default_dtype(getattr(torch, self.default))
            torch.set_num_threads(self.threads)


@dataclass(frozen=True)
class CellOutcome:
    """Result of a cell, or its error.

    Args:
        cell: Its number.
        dataset: What it gave, if it gave something.
        error: What was raised, in a line, if something was.
        trace: Where.
        seconds: How long it took.
        worker: Where it ran.
    """

    cell: int
    dataset: xr.Dataset | None
    error: str | None
    trace: str | None
    seconds: float
    worker: str


def attempt(
    function: Callable[..., Any], cell: int, arguments: dict[str, Any], setting: CellSetting
) -> CellOutcome:
    """Compute a cell; whatever it raises is part of the outcome."""
    start, worker = time.perf_counter(), f"{socket.gethostname()}:{os.getpid()}"
    try:
        with setting.held(), blas_threads_for():
            dataset = _as_dataset(function(**arguments))
    except Exception as error:
        seconds = time.perf_counter() - start
        line = f"{type(error).__name__}: {error}"
        return CellOutcome(cell, None, line, traceback.format_exc(limit=-8), seconds, worker)
    return CellOutcome(cell, dataset, None, None, time.perf_counter() - start, worker)


def _as_dataset(found: Any) -> xr.Dataset:
    if isinstance(found, xr.DataArray):
        found = found.to_dataset(name=found.name or "value")
    if not isinstance(found, xr.Dataset):
        raise TypeError(
            f"A cell must return a Dataset or a DataArray of xarray; got {shown(found)}. A number x is "
            'xarray.Dataset({"value": x}).'
        )
    return found.compute()


@cache
def versions() -> dict[str, str]:
    """Versions of Python, scalewise, and packages that may change the last digits."""
    known = {"python": ".".join(platform.python_version_tuple()[:2]), "scalewise": __version__}
    for package in _PACKAGES:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known
