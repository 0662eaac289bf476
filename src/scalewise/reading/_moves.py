"""Maps of positions, and windows, axis by axis where they are of that kind."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from scalewise.networks.spi import IDENTITY, Matrix, Window, places_seen
from scalewise.reading._fields import Entries, NotSeparableError


def along(
    table: np.ndarray, places: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[Window | Matrix, ...]]:
    """A matrix for each axis, whose product is a map of positions; and how many places there are along each.

    Args:
        table: (place, position).
        places: As they lie; axes of length 1 may be missing.
        sizes: Positions along each axis.
    """
    for shape in _with_ones(places, len(sizes)):
        found = _factored(table.reshape(*shape, *sizes), len(sizes))
        if found is not None:
            return shape, tuple(
                IDENTITY if np.array_equal(own, np.eye(len(own))) else Matrix.of(own)
                for own in found
            )
    raise NotSeparableError


def _with_ones(places: tuple[int, ...], axes: int) -> list[tuple[int, ...]]:
    long = tuple(n for n in places if n != 1)
    if len(long) > axes:
        return []
    found = []
    for where in itertools.combinations(range(axes), len(long)):
        shape = [1] * axes
        for k, n in zip(where, long, strict=True):
            shape[k] = n
        found.append(tuple(shape))
    return found


def _factored(table: np.ndarray, axes: int) -> list[np.ndarray] | None:
    """Factors (place, position) of an array (*places, *positions)."""
    if axes == 1:
        return [table]
    peak = np.unravel_index(np.abs(table).argmax(), table.shape)
    if not table[peak]:
        return None
    found, total = [], np.ones(())
    for k in range(axes):
        cut = tuple(slice(None) if j % axes == k else peak[j] for j in range(2 * axes))
        own = table[cut] / (table[peak] if k else 1.0)
        found.append(own)
        total = np.multiply.outer(total, own)
    order = [2 * k for k in range(axes)] + [2 * k + 1 for k in range(axes)]
    return found if np.allclose(total.transpose(order), table, rtol=1e-12, atol=1e-14) else None


def window_of(
    size: int, taps: int, stride: int, dilation: int, pads: tuple[int, int]
) -> tuple[Matrix | None, Window]:
    """A window with zeros beyond the ends, and the matrix that puts them there where no window does by itself."""
    reach = (taps - 1) * dilation + 1
    places = (size + sum(pads) - reach) // stride + 1
    index = np.arange(places)[:, None] * stride + np.arange(taps) * dilation - pads[0]
    index[(index < 0) | (index >= size)] = -1
    for padding in ("valid", "zero"):
        window = Window(taps, stride, dilation, padding)
        if window.length(size) == places and np.array_equal(places_seen(window, size), index):
            return None, window
    rows = np.zeros((size + sum(pads), size))
    rows[pads[0] : pads[0] + size] = np.eye(size)
    return Matrix.of(rows), Window(taps, stride, dilation)


def windows_seen(
    x: Entries,
    taps: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[tuple[int, int]],
) -> Entries:
    """Entries (sample, channel, *positions) that windows see: (sample, *places, channel, *taps)."""
    axes = len(taps)
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    for k in range(axes):
        size = x.shape[2 + k]
        places = (size - (taps[k] - 1) * dilation[k] - 1) // stride[k] + 1
        index = np.arange(places)[:, None] * stride[k] + np.arange(taps[k]) * dilation[k]
        x = np.moveaxis(np.take(x, index, axis=2 + k), 3 + k, -1)
    return np.moveaxis(x, 1, 1 + axes)


def laid_out(sample: np.ndarray, row: np.ndarray, flat: bool) -> tuple[tuple[int, ...], np.ndarray]:
    """Positions along each axis, and which of them each row of an array is.

    Args:
        sample: Of each row.
        row: A number of what it sees, by which rows of one sample differ.
        flat: Whether positions are one axis in any case.
    """
    pure, places = [], []
    for axis, size in enumerate(row.shape):
        if size == 1:
            continue
        first = [own.take([0], axis=axis) for own in (sample, row)]
        of_sample, of_row = np.any(sample != first[0]), np.any(row != first[1])
        pure.append(not (of_sample and of_row))
        if of_row:
            places.append(axis)
    sizes = tuple(row.shape[a] for a in places)
    samples = len(np.unique(sample))
    if all(pure) and samples * math.prod(sizes) == row.size:
        shape = [row.shape[a] if a in places else 1 for a in range(row.ndim)]
        index = np.broadcast_to(np.arange(math.prod(sizes)).reshape(shape), row.shape)
    else:
        flattened, index = sample.ravel(), np.zeros(row.size, dtype=int)
        for s in np.unique(flattened):
            index[flattened == s] = np.arange(np.sum(flattened == s))
        index, sizes = index.reshape(row.shape), (row.size // samples,)
    return ((math.prod(sizes),) if flat else sizes), index


def numbered(rows: np.ndarray) -> np.ndarray:
    """Rows (..., numbers) by the order in which each first appears."""
    flat = rows.reshape(-1, rows.shape[-1])
    _, first, inverse = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=int)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()].reshape(rows.shape[:-1])
