"""Which positions a sample has: numbers of each input, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scalewise.networks._forward import gathered
from scalewise.networks._sites import IDENTITY, Taps, Transposed, Window


def there(x: Any, xp: Any) -> Any:
    """The mask of positions, (sample, *positions, 1): 1 where a sample has one, 0 where not; the last feature."""
    mask = x[..., -1:]
    if xp is np and not np.isin(mask, (0.0, 1.0)).all():
        raise ValueError(
            "`x` must have a mask as its last feature: 1 at the positions that a sample has, 0 at the others; "
            f"they reach from {mask.min():g} to {mask.max():g}. Mask() reads it."
        )
    if xp is np and not mask.reshape(len(mask), -1).any(axis=1).all():
        sample = int(np.argmin(mask.reshape(len(mask), -1).any(axis=1)))
        raise ValueError(
            f"`x` has a sample without any position (sample {sample}): its mask, the last feature, is 0 at all "
            "of them. Drop it."
        )
    return mask


def within(x: Any, xp: Any, windows: tuple[Window, ...], sizes: tuple[int, ...]) -> Any:
    """The mask of windows, (sample, *places, 1): 1 where all that one sees is there, or its middle if it is padded.

    Args:
        x: The mask of the positions before.
        xp: NumPy or JAX's.
        windows: One for each axis.
        sizes: Positions before.
    """
    left = list(sizes)
    for axis, window in enumerate(windows):
        along = [Window(stride=window.stride)] if window.padding != "valid" else [window]
        row = [*(IDENTITY,) * axis, *along, *(IDENTITY,) * (len(left) - axis - 1)]
        if not row[axis].is_identity:
            x = gathered(x, row, left, xp)[0].min(axis=-2)
        left[axis] = row[axis].length(left[axis])
    return x


def written(x: Any, xp: Any, windows: tuple[Taps, ...], sizes: tuple[int, ...]) -> Any:
    """The mask of transposed windows, (sample, *places, 1): as many for each position as they are apart.

    Args:
        x: The mask of the positions before.
        xp: NumPy or JAX's.
        windows: One for each axis.
        sizes: Positions before.
    """
    for axis, (own, size) in enumerate(zip(windows, sizes, strict=True), 1):
        if isinstance(own, Transposed):
            stride, places = own.window.stride, np.arange(own.length(size))
            last = np.minimum(places // stride, size - 1)
            first = last
            if own.window.padding == "valid":
                first = np.maximum(-((own.window.reach - 1 - places) // stride), 0)
            # Between two that do not meet it is there if both are.
            low, high = np.minimum(first, last), np.maximum(first, last)
            ends = xp.take(x, low, axis=axis), xp.take(x, high, axis=axis)
            among = np.zeros((len(places), size), bool)
            for place, (a, b) in enumerate(zip(first, last, strict=True)):
                among[place, a : b + 1] = True
            row = among.reshape(len(places), size, *(1,) * (x.ndim - 1 - axis))
            seen = (xp.expand_dims(x, axis) * row).max(axis=axis + 1)
            gap = (first > last).reshape(-1, *(1,) * (x.ndim - 1 - axis))
            x = xp.where(gap, ends[0] * ends[1], seen)
    return x


def wrapped(x: Any, xp: Any, windows: tuple[Window, ...], sizes: tuple[int, ...]) -> Any:
    """Rows of what circular windows see, (sample, *places, position): a sample, with the other end beyond each.

    Args:
        x: The mask of the positions.
        xp: NumPy or JAX's.
        windows: One for each axis.
        sizes: Positions before.
    """

    def places(starts: Any, lengths: Any, axis: int) -> Any:
        own, size = windows[axis], sizes[axis]
        beyond = own.reach - 1 if own.is_circular else 0
        at = np.arange(size + beyond)[:, None] - beyond // 2 - starts
        seen = np.arange(size) - starts
        inside = (at >= -beyond) & (at < lengths + beyond) & (seen >= 0) & (seen < lengths)
        return inside & (seen == (at % lengths if own.is_circular else at))

    return _of_boxes(x, xp, places)


def stretched(x: Any, xp: Any, shape: tuple[int, ...], sizes: tuple[int, ...], method: str) -> Any:
    """Rows of equally many places of every sample, (sample, *places, position), however long it is.

    Args:
        x: The mask of the positions.
        xp: NumPy or JAX's.
        shape: How many places along each axis.
        sizes: Positions before.
        method: `"nearest"` or `"linear"`, see `Resize`.
    """

    def weights(starts: Any, lengths: Any, axis: int) -> Any:
        positions = np.arange(sizes[axis]) - starts
        inside = (positions >= 0) & (positions < lengths)
        return inside * resized(positions, lengths, shape[axis], method, xp)

    return _of_boxes(x, xp, weights)


def _of_boxes(x: Any, xp: Any, matrices: Callable[[Any, Any, int], Any]) -> Any:
    """Rows of matrices that depend on how long a sample is along each axis, (sample, *places, position).

    Args:
        x: The mask of the positions.
        xp: NumPy or JAX's.
        matrices: (sample, place, position) along an axis, from (sample, 1, 1) where a sample starts and how long
            it is.
    """
    box, axes, each = xp.ones_like(x[..., 0]), x.ndim - 2, []
    for axis in range(axes):
        others = tuple(1 + k for k in range(axes) if k != axis)
        along = x[..., 0].max(axis=others) if others else x[..., 0]
        size = along.shape[1]
        starts, lengths = xp.argmax(along, axis=1), along.sum(axis=1)
        places = np.arange(size) - starts[:, None]
        inside = (places >= 0) & (places < lengths[:, None])
        box = box * inside.reshape(-1, *(1,) * axis, size, *(1,) * (axes - axis - 1))
        each.append(matrices(starts[:, None, None], lengths[:, None, None], axis))
    if xp is np and not np.array_equal(box, x[..., 0]):
        sample = int(np.argmax((box != x[..., 0]).reshape(len(x), -1).any(axis=1)))
        raise ValueError(
            f"`x` has a sample (sample {sample}) whose positions are not one run along every axis, so nothing "
            "says how long it is, which Resize and circular windows go by. Move its positions together."
        )
    found = each[0]
    for own in each[1:]:
        own = own.reshape(len(own), *(1,) * (found.ndim - 2), own.shape[1], 1, own.shape[2])
        found = found[..., None, :, None] * own
        found = found.reshape(*found.shape[:-2], -1)
    return found.astype(x.dtype)


def resized(positions: Any, lengths: Any, wanted: int, method: str, xp: Any = np) -> Any:
    """Rows of weights, (..., place, position): positions are cells of equal size, seen at their centres.

    Args:
        positions: Which, counted from the first of a sample.
        lengths: How many it has.
        wanted: How many places.
        method: `"nearest"` or `"linear"`.
        xp: NumPy or JAX's.
    """
    places = np.arange(wanted)[:, None]
    if method == "nearest":
        return (positions == (2 * places + 1) * lengths // (2 * wanted)) + 0.0
    centres = (places + 0.5) * lengths / wanted - 0.5
    weights = xp.maximum(0.0, 1 - abs(centres - positions) / xp.maximum(1.0, lengths / wanted))
    weights = weights * ((positions >= 0) & (positions < lengths))
    return weights / weights.sum(axis=-1, keepdims=True)


def inverse_count(x: Any, xp: Any) -> Any:
    """Inverse number of the positions of a sample, at one site, (sample, 1, ..., 1)."""
    count = x.sum(axis=tuple(range(1, x.ndim - 1)), keepdims=True)
    return 1.0 / xp.maximum(count, 1.0)


def last_position(x: Any, xp: Any) -> Any:
    """A row with 1 at the last position of a sample, along the only axis, (sample, 1, position)."""
    mask = x[..., 0]
    behind = xp.cumsum(mask[:, ::-1], axis=1)[:, ::-1]
    return (mask * (behind == 1.0))[:, None, :]
