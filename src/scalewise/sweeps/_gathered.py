"""What the cells gave, as arrays over the grid: in memory, or in a store as they come."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from scalewise._extras import require
from scalewise.sweeps._grid import Grid
from scalewise.sweeps._store import Store, within

_DATA = "data"
_KINDS = "biufcT"  # truth values, numbers and texts


class GatheredCells:
    """Arrays with the names of the grid as leading dimensions; each cell is one chunk.

    Args:
        grid: The grid.
        record: An open store; ``None`` for arrays in memory.
        resumed: Whether the store has cells already.
    """

    def __init__(self, grid: Grid, record: Store | None, *, resumed: bool) -> None:
        self._grid = grid
        self._where = within(record, _DATA)
        self._arrays: dict[str, Any] = {}
        self._like: dict[
            str, tuple[tuple[str, ...], tuple[int, ...]]
        ] = {}  # dims and shape of a cell's
        self._fixed: dict[str, xr.Variable] = {}  # coordinates, the same in every cell
        self._attributes: dict[str, dict[str, Any]] = {}
        self._told: list[str] = []  # coordinates that may differ from cell to cell
        if resumed:
            self._reopen()

    @property
    def begun(self) -> bool:
        """True if it is known what a cell gives."""
        return bool(self._like)

    def put(self, cell: int, dataset: xr.Dataset) -> None:
        """Take what a cell gave; the first one says how all must look.

        Raises:
            ValueError: If it differs, or cannot be kept.
        """
        coordinates = [str(name) for name in dataset.coords if name not in dataset.dims]
        dataset = self._prepared(dataset)
        if not self.begun:
            self._told = [name for name in coordinates if name in dataset.data_vars]
            self._begin(dataset)
        self._check(dataset)
        place = self._grid.place(cell)
        for name, variable in dataset.data_vars.items():
            self._arrays[str(name)][place] = _values(variable)

    def result(self, done: np.ndarray) -> xr.Dataset:
        """The whole; NaN where a cell is missing.

        Args:
            done: Over the grid, which cells are there.
        """
        if not self.begun:
            return xr.Dataset(coords=self._grid.labels)
        if self._where is not None:
            require("zarr", for_="A sweep with `store`", extra="sweep")
            found = xr.open_zarr(self._where, consolidated=False, chunks=None)
            found = found.reset_coords(self._told)[list(self._like)]
        else:
            found = xr.Dataset(
                {n: (self._dims(n), a, self._attributes[n]) for n, a in self._arrays.items()},
                {**self._fixed, **self._grid.labels},
            )
        if not done.all():
            there = xr.DataArray(done, self._grid.labels)
            whole = {n: v.where(there) for n, v in found.data_vars.items() if v.dtype.kind in "biu"}
            found = found.assign(whole)
        return found.set_coords([name for name in self._told if name in found])

    def _dims(self, name: str) -> tuple[str, ...]:
        return (*self._grid.labels, *self._like[name][0])

    def _prepared(self, dataset: xr.Dataset) -> xr.Dataset:
        """A cell's Dataset with coordinates of dimensions only, and without the labels of the cell."""
        own = [n for n in self._grid.labels if n in dataset.coords and dataset[n].ndim == 0]
        dataset = dataset.drop_vars(own)
        dataset = dataset.reset_coords([n for n in dataset.coords if n not in dataset.dims])
        taken = [n for n in self._grid.labels if n in dataset.dims or n in dataset.variables]
        if taken:
            raise ValueError(
                f"The Dataset of a cell has {taken[0]!r} itself, which is a name of the grid. Rename it in the "
                "cell."
            )
        for name, variable in dataset.variables.items():
            if _values(variable).dtype.kind not in _KINDS:
                raise ValueError(
                    f"{name!r} of a cell's Dataset is of dtype {variable.dtype}; a sweep keeps numbers, truth "
                    "values and texts."
                )
        return dataset

    def _check(self, dataset: xr.Dataset) -> None:
        names = set(map(str, dataset.data_vars))
        if names != set(self._like):
            odd = sorted(names ^ set(self._like))
            raise ValueError(
                f"The Datasets of the cells differ: {', '.join(odd)} is not in all of them. Return the same "
                "variables from every cell."
            )
        for name, (dims, shape) in self._like.items():
            found = dataset[name]
            if (found.dims, found.shape) != (dims, shape):
                raise ValueError(
                    f"The Datasets of the cells differ: {name!r} has {_shape(found.dims, found.shape)} here and "
                    f"{_shape(dims, shape)} in the first. Select in the cell what all of them have, such as "
                    "`.isel(layer=-1)`."
                )
        for name, fixed in self._fixed.items():
            if not np.array_equal(_values(dataset.coords[name].variable), _values(fixed)):
                raise ValueError(
                    f"The Datasets of the cells differ in the coordinate {name!r}. Give it the same values in "
                    f"every cell, or drop it there: `.drop_vars({name!r})`."
                )

    def _begin(self, dataset: xr.Dataset) -> None:
        shape = self._grid.shape
        for name, variable in dataset.data_vars.items():
            self._like[str(name)] = (tuple(map(str, variable.dims)), variable.shape)
            self._attributes[str(name)] = dict(variable.attrs)
        self._fixed = {str(n): c.variable for n, c in dataset.coords.items()}
        if self._where is None:
            for name, variable in dataset.data_vars.items():
                kind = _values(variable).dtype
                self._arrays[str(name)] = np.full((*shape, *variable.shape), _empty(kind), kind)
            return
        told: dict[str, Any] = {"variables": list(self._like)}
        if self._told:
            told["coordinates"] = " ".join(self._told)  # as xarray reads them
        group = _group(self._where, "w", attributes=told, zarr_format=3)
        labels = {n: xr.Variable(n, v) for n, v in self._grid.labels.items()}
        for name, fixed in {**labels, **self._fixed}.items():
            values = _values(fixed)
            array = group.create_array(
                name, shape=values.shape, dtype=values.dtype, dimension_names=fixed.dims
            )
            array[...] = values
        for name, variable in dataset.data_vars.items():
            kind = _values(variable).dtype
            self._arrays[str(name)] = group.create_array(
                name,
                shape=(*shape, *variable.shape),
                chunks=(*(1,) * len(shape), *(max(1, n) for n in variable.shape)),
                dtype=kind,
                fill_value=_empty(kind),
                dimension_names=self._dims(str(name)),
                attributes=as_json(variable.attrs),
            )

    def _reopen(self) -> None:
        group = _group(self._where, "r+")
        self._told = str(group.attrs.get("coordinates", "")).split()
        of_grid, order = (
            len(self._grid.shape),
            {n: k for k, n in enumerate(group.attrs["variables"])},
        )
        for name, array in sorted(group.arrays(), key=lambda pair: order.get(pair[0], -1)):
            dims = array.metadata.dimension_names
            if name in self._grid.labels:
                continue
            if dims[:of_grid] == (*self._grid.labels,):
                self._arrays[name] = array
                self._like[name] = (dims[of_grid:], array.shape[of_grid:])
            else:
                self._fixed[name] = xr.Variable(dims, array[...])


def _group(where: str | None, mode: Any, **options: Any) -> Any:
    """A group of Zarr."""
    require("zarr", for_="A sweep with `store`", extra="sweep")
    import zarr

    return zarr.open_group(where, mode=mode, **options)


def _values(variable: Any) -> np.ndarray:
    """Values as an array that can be kept: texts as texts of any length."""
    values = np.asarray(variable.values)
    text = values.dtype.kind == "U" or (
        values.dtype == object and all(isinstance(v, str) for v in values.flat)
    )
    return values.astype(np.dtypes.StringDType()) if text else values


def _empty(kind: np.dtype) -> Any:
    return np.nan if kind.kind in "fc" else "" if kind.kind == "T" else 0


def as_json(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes as JSON has them; what it cannot hold as text."""
    plain = json.dumps(attributes, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v))
    return json.loads(plain)


def _shape(dims: Iterable[Any], shape: Iterable[int]) -> str:
    return "(" + ", ".join(f"{d}: {n}" for d, n in zip(dims, shape, strict=True)) + ")"
