"""Arrays with names as xarray has them, made of NumPy's alone.

Where dask is installed, xarray imports it at the first array that it is given, to see whether that array is one of
dask's, which takes more than half a second. Ours are NumPy's, and xarray need not look. It still looks when a
result is indexed, reduced, printed or used in arithmetic; `values`, names, attributes and copies do without.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing


class _Labels(np.ndarray):
    """Labels that say themselves that they are NumPy's: `xarray.IndexVariable` takes their word for it."""

    def to_numpy(self) -> np.ndarray:
        return self.view(np.ndarray)


def variable(
    dims: str | Sequence[Hashable], values: Any, attrs: Mapping[str, Any] | None = None
) -> xr.Variable:
    """`values` over named dimensions: `xarray.Variable`, for numbers and arrays of NumPy."""
    if isinstance(values, BackendArray):  # is read where it is asked for
        return xr.Variable(dims, indexing.LazilyIndexedArray(values), attrs)
    return xr.Variable(dims, np.asarray(values), attrs, fastpath=True)


def dataset(
    variables: Mapping[str, Any],
    coords: Mapping[Any, Any] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Variables that share coordinates: `xarray.Dataset`, for numbers and arrays of NumPy.

    Args:
        variables: By name: a variable or array of xarray, dimensions with values (and attributes), or a number.
        coords: The same, or the labels of the dimension of that name.
        attrs: What is told of all.
    """
    labels = coords if isinstance(coords, xr.Coordinates) else _of_names(coords or {})
    return xr.Dataset(_of_names(variables), labels, attrs)


def _of_names(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _of_name(name, value) for name, value in given.items()}


def _of_name(name: str, value: Any) -> Any:
    if isinstance(value, xr.Variable | xr.DataArray):
        return value
    dims, values, *attrs = value if isinstance(value, tuple) else (None, value)
    array = np.asarray(values)
    dims = ((name,) if array.ndim else ()) if dims is None else dims
    if dims in (name, (name,)):
        return xr.IndexVariable(name, array.view(_Labels), *attrs, fastpath=True)
    return variable(dims, array, *attrs)
