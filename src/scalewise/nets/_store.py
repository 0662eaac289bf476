"""A run on disk: it survives being killed at any moment, and goes on where it was.

The store is a Zarr group. Everything in it is written under a temporary name and then renamed, which
either happens or does not; so a reader finds complete groups only, and the newest one counts.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import zarr

__all__ = ["Store", "open_store"]

_TEMPORARY = ".writing-"


@dataclass(frozen=True)
class Store:
    """An open run.

    Args:
        path: The folder.
    """

    path: Path

    def load(self, name: str) -> tuple[int, dict[str, np.ndarray]] | None:
        """The index of the next network of an ensemble, and its sums so far; ``None`` if new."""
        complete = sorted((self.path / name).glob("next-*"))
        if not complete:
            return None
        group: Any = zarr.open_group(complete[-1], mode="r")
        return int(complete[-1].name[5:]), {
            key: np.asarray(array[...]) for key, array in group.arrays()
        }

    def save(self, name: str, following: int, state: dict[str, np.ndarray]) -> None:
        """Replace what is known of an ensemble."""
        folder = self.path / name
        if not folder.exists():
            _publish(folder, {})
        for leftover in folder.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(leftover)
        older = sorted(folder.glob("next-*"))
        _publish(folder / f"next-{following:012d}", state)
        for path in older:
            shutil.rmtree(path)

    def finish(self, result: xr.Dataset) -> None:
        """Add the result, as the group ``result``."""
        final = self.path / "result"
        if final.exists():
            return
        temporary = _temporary(final)
        result.to_zarr(temporary, mode="w", consolidated=False, zarr_format=3)
        os.rename(temporary, final)


def open_store(path: str | os.PathLike[str], configuration: dict[str, Any]) -> Store:
    """Open or create the store of a run.

    Args:
        path: A folder; made if it does not exist.
        configuration: Everything that determines the numbers.

    Raises:
        ValueError: If the folder is something else, or holds a run of another configuration; the
            message names what differs.
    """
    folder = Path(path)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _publish(folder, {}, {"configuration": configuration})
        return Store(folder)
    try:
        found = json.loads((folder / "zarr.json").read_text())["attributes"]["configuration"]
    except (OSError, ValueError, KeyError):
        raise ValueError(
            f"`store` must be a new path or the store of an earlier run; {folder} is neither. "
            "Choose another path."
        ) from None
    wanted = json.loads(json.dumps(configuration))
    differing = [k for k in {**wanted, **found} if wanted.get(k) != found.get(k)]
    if differing:
        what = "; ".join(f"{k}: {found.get(k)!r} there, {wanted.get(k)!r} here" for k in differing)
        raise ValueError(
            f"`store` {folder} holds a run with other arguments ({what}). Use the same arguments to "
            "resume it, or another path."
        )
    return Store(folder)


def _temporary(final: Path) -> Path:
    return final.parent / f"{_TEMPORARY}{final.name}"


def _publish(
    final: Path, arrays: dict[str, np.ndarray], attributes: dict[str, Any] | None = None
) -> None:
    temporary = _temporary(final)
    group = zarr.open_group(temporary, mode="w", attributes=attributes or {})
    for name, values in arrays.items():
        # One chunk and no compression: a state is written often and read once.
        array = group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=values.shape, compressors=None
        )
        array[...] = values
    os.rename(temporary, final)
