"""What only moves numbers, done to arrays of entries as jax does it to numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from scalewise.reading.spi import Entries, ModelReader, Operand, Plain, embedded

Params = dict[str, Any]


def _broadcast(own: Entries, p: Params) -> Entries:
    shape = [1] * len(p["shape"])
    for k, axis in enumerate(p["broadcast_dimensions"]):
        shape[axis] = own.shape[k]
    return np.broadcast_to(own.reshape(shape), p["shape"])


def _sliced(own: Entries, p: Params) -> Entries:
    steps = p["strides"] or (1,) * own.ndim
    ends = zip(p["start_indices"], p["limit_indices"], steps, strict=True)
    return own[tuple(slice(*e) for e in ends)]


def _itself(own: Entries, _: Params) -> Entries:
    return own


ALONE: dict[str, Callable[[Entries, Params], Entries]] = {
    "reshape": lambda own, p: own.reshape(p["new_sizes"]),
    "transpose": lambda own, p: own.transpose(p["permutation"]),
    "broadcast_in_dim": _broadcast,
    "squeeze": lambda own, p: own.squeeze(tuple(p["dimensions"])),
    "expand_dims": lambda own, p: np.expand_dims(own, tuple(p["dimensions"])),
    "slice": _sliced,
    "rev": lambda own, p: np.flip(own, tuple(p["dimensions"])),
    "copy": _itself,
    "copy_p": _itself,
    "stop_gradient": _itself,
    "reduce_precision": _itself,
    "sharding_constraint": _itself,
    "name": _itself,
}  # of one array
SEVERAL = frozenset(["optimization_barrier", "device_put"])  # arrays that are passed on as they are


def zeros_for(read: ModelReader, own: Operand) -> Entries:
    """Entries for an array that stands beside fields."""
    if not isinstance(own, Plain):
        return own
    if np.any(own.value):
        raise read.refuse(
            "puts numbers beside its fields that are not 0. Let parameters hold them."
        )
    return np.zeros(np.shape(own.value), dtype=int)


def overwritten(read: ModelReader, own: Operand, write: Callable[[Entries], Entries]) -> Entries:
    """Entries after others were written in their place; numbers other than 0 must all be written over."""
    if not isinstance(own, Plain):
        return write(own)
    found = write(-(np.asarray(own.value) != 0).astype(int))
    return zeros_for(read, own) if found.min(initial=0) < 0 else found


def starts(read: ModelReader, given: Sequence[Operand]) -> list[int]:
    """Where a slice begins, if that is the same for all inputs."""
    if not all(isinstance(own, Plain) for own in given):
        raise read.refuse(
            "takes a slice that begins where its inputs say. Let the place be the same for all samples."
        )
    return [int(own.value) for own in given if isinstance(own, Plain)]


def cut_out(own: Entries, begin: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    """A slice of some sizes, moved so that it fits as jax does it."""
    fits = [min(max(b, 0), n - m) for b, n, m in zip(begin, own.shape, sizes, strict=True)]
    return tuple(slice(b, b + m) for b, m in zip(fits, sizes, strict=True))


def padded(own: Entries, config: Sequence[tuple[int, int, int]]) -> Entries:
    """Zeros before, behind and between entries; negative numbers of them take entries away."""
    for axis, (low, high, between) in enumerate(config):
        moved = np.moveaxis(own, axis, 0)
        wide = np.zeros((max(len(moved) * (between + 1) - between, 0), *moved.shape[1:]), dtype=int)
        wide[:: between + 1] = moved
        ends = [(max(low, 0), max(high, 0)), *[(0, 0)] * (own.ndim - 1)]
        wide = np.pad(wide, ends)
        wide = wide[max(-low, 0) : len(wide) - max(-high, 0)]
        own = np.moveaxis(wide, 0, axis)
    return own


def gathered(own: Entries, index: Any, p: Params) -> Entries:
    """Slices of an array, each from where an index says; 0 beyond its ends."""
    fixed = {**p, "fill_value": 0}
    return np.asarray(jax.lax.gather_p.bind(np.ascontiguousarray(own), np.asarray(index), **fixed))


def scattered(own: Entries, index: Any, updates: Entries, p: Params) -> Entries:
    """An array with others written where an index says."""
    given = (np.ascontiguousarray(own), np.asarray(index), np.ascontiguousarray(updates))
    return np.asarray(jax.lax.scatter_p.bind(*given, **p))


def destinations(shape: Sequence[int], index: Any, updates: Sequence[int], p: Params) -> np.ndarray:
    """Which entry of an array, counted in a row, each of its updates goes to; -1 beyond its ends."""
    d = p["dimension_numbers"]
    numbers = jax.lax.GatherDimensionNumbers(
        offset_dims=d.update_window_dims,
        collapsed_slice_dims=d.inserted_window_dims,
        start_index_map=d.scatter_dims_to_operand_dims,
        operand_batching_dims=d.operand_batching_dims,
        start_indices_batching_dims=d.scatter_indices_batching_dims,
    )
    single = (*d.inserted_window_dims, *d.operand_batching_dims)
    window = iter(updates[a] for a in d.update_window_dims)
    sizes = tuple(1 if a in single else next(window) for a in range(len(shape)))
    places = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    mode = jax.lax.GatherScatterMode.FILL_OR_DROP
    return np.asarray(jax.lax.gather(places, index, numbers, sizes, mode=mode, fill_value=-1))


def looked_up(read: ModelReader, table: Entries, index: Entries, p: Params) -> Entries:
    """Rows of a table by tokens."""
    d, sizes = p["dimension_numbers"], p["slice_sizes"]
    told = [k for k in range(index.shape[-1]) if index[..., k].any()]
    axis = d.start_index_map[told[0]] if told else 0
    pairs = enumerate(zip(table.shape, sizes, strict=True))
    whole = all(m == (1 if a == axis else n) for a, (n, m) in pairs)
    if (
        len(told) != 1
        or not whole
        or d.operand_batching_dims
        or any(a != axis for a in d.collapsed_slice_dims)
    ):
        raise read.refuse(
            "looks up parts of rows where its inputs say. Look up whole rows of a table."
        )
    rows = rows_of(read, np.moveaxis(table, axis, 0), index[..., told[0]])
    return rows_placed(rows, index.ndim - 1, p, None if d.collapsed_slice_dims else axis)


def rows_of(read: ModelReader, table: Entries, tokens: Entries) -> Entries:
    """Rows (*tokens, *rest) of a table (row, *rest)."""
    rest = table.shape[1:]
    return np.asarray(embedded(read, table.reshape(len(table), -1), tokens)).reshape(
        *tokens.shape, *rest
    )


def rows_placed(rows: Entries, axes: int, p: Params, axis: int | None) -> Entries:
    """Rows (*index, *rest) as a lookup lays them out.

    Args:
        rows: The rows.
        axes: How many the index has.
        p: Of the lookup.
        axis: Which axis of the table was looked along, if it stays with the length 1.
    """
    offsets = p["dimension_numbers"].offset_dims
    if axis is not None:
        rows = np.expand_dims(rows, axes + axis)
    found = [*(a for a in range(rows.ndim) if a not in offsets), *offsets]
    return rows.transpose(np.argsort(found))
