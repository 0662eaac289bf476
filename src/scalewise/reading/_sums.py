"""Sums of entries times numbers: pools, graphs, averages over positions and channels, norms, maxima."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalewise.networks.spi import Window
from scalewise.reading._entrywise import Operand
from scalewise.reading._fields import (
    Entries,
    Function,
    Input,
    KnownField,
    LogitsOf,
    Made,
    NotSeparableError,
)
from scalewise.reading._grids import sample_of_rows
from scalewise.reading._linear import is_clean, one_field, positions_after
from scalewise.reading._moves import numbered, window_of, windows_seen
from scalewise.reading._reader import ModelReader
from scalewise.reading._trees import number


def mixed(read: ModelReader, x: Entries, numbers: np.ndarray) -> Entries:
    """Entries (..., row, k) by numbers (..., k, column): a fixed map of positions."""
    known, x = one_field(read, x)
    if isinstance(read.source(known).what, Input):
        return _mixed_inputs(read, known, x, numbers)
    x = np.broadcast_to(x, (*np.broadcast_shapes(x.shape[:-2], numbers.shape[:-2]), *x.shape[-2:]))
    numbers = np.broadcast_to(numbers, (*x.shape[:-2], *numbers.shape[-2:]))
    d = read.fields.decoded(x)
    for own, what in ((d.channel, "channels"), (d.sample, "samples")):
        if np.any((own != own.max(axis=-1, keepdims=True)) & (x > 0)):
            raise read.refuse(
                f"adds up different {what} with fixed numbers. "
                + (
                    "Let parameters do that."
                    if what == "channels"
                    else "Samples must be independent."
                )
            )
    channel, sample = d.channel.max(axis=-1), d.sample.max(axis=-1)
    # one map for all rows of a batch: (row, column) -> a row of positions
    shape = (*x.shape[:-1], numbers.shape[-1])
    maps = np.zeros((*shape, known.places))
    flat_maps = maps.reshape(-1, numbers.shape[-1], known.places)
    flat_x = x.reshape(-1, x.shape[-1])
    positions = d.position.reshape(flat_x.shape)
    lead = np.broadcast_to(numbers[..., None, :, :], (*x.shape[:-1], *numbers.shape[-2:])).reshape(
        -1, *numbers.shape[-2:]
    )
    for k in range(x.shape[-1]):
        there = flat_x[:, k] > 0
        at: Any = (np.flatnonzero(there), slice(None), positions[there, k])
        np.add.at(flat_maps, at, lead[there, k])
    s = np.broadcast_to(np.maximum(sample, 0)[..., None], shape)
    c = np.broadcast_to(channel[..., None], shape)
    return _mapped(read, known, s, c, maps)


def _mixed_inputs(read: ModelReader, known: KnownField, x: Entries, numbers: np.ndarray) -> Entries:
    """A sum over entries of the inputs, which become other numbers of these."""
    x = np.broadcast_to(x, (*np.broadcast_shapes(x.shape[:-2], numbers.shape[:-2]), *x.shape[-2:]))
    numbers = np.broadcast_to(numbers, (*x.shape[:-2], *numbers.shape[-2:]))
    sample = sample_of_rows(read.fields, x)
    d = read.fields.decoded(x)
    shape = (*x.shape[:-1], numbers.shape[-1])
    sums = np.zeros((*shape, known.channels))
    for k in range(x.shape[-1]):
        own = np.where(d.owner[..., k] >= 0, 1.0, 0.0)[..., None] * numbers[..., None, k, :]
        at = np.maximum(d.channel[..., k], 0)[..., None, None]
        np.put_along_axis(
            sums,
            np.broadcast_to(at, (*shape, 1)),
            np.take_along_axis(sums, np.broadcast_to(at, (*shape, 1)), -1) + own[..., None],
            -1,
        )
    s = np.broadcast_to(sample[..., None], shape)
    first = [np.flatnonzero(s == k) for k in range(known.samples)]
    rows = sums.reshape(-1, known.channels)
    if any(not np.array_equal(rows[own], rows[first[0]]) for own in first):
        raise read.refuse(
            "adds up other numbers of other samples. Give samples an axis of their own."
        )
    made = read.computed(known, rows[first[0]], np.zeros(len(first[0])))
    index = np.zeros(s.size, dtype=int)
    for own in first:
        index[own] = np.arange(len(own))
    return made.start + s * made.channels + index.reshape(shape)


def _mapped(
    read: ModelReader, known: KnownField, s: np.ndarray, c: np.ndarray, maps: np.ndarray
) -> Entries:
    """Entries of which each is a sum over positions of one sample and one channel."""
    row = numbered(maps)
    some = np.unique(c)
    if not np.array_equal(some, np.arange(known.channels)):
        raise read.refuse("adds up positions of some channels alone. Let it be all of them.")
    one = (c == 0) & (s == 0)
    axes = [a for a in range(row.ndim) if row.shape[a] > 1 and np.any(row != row.take([0], axis=a))]
    sizes = tuple(row.shape[a] for a in axes)
    if row[one].size == math.prod(sizes) and len(np.unique(row[one])) == len(np.unique(row)):
        shape = [row.shape[a] if a in axes else 1 for a in range(row.ndim)]
        index = np.broadcast_to(np.arange(math.prod(sizes)).reshape(shape), row.shape)
    else:
        found, index = np.unique(row, return_inverse=True)
        index, sizes = index.reshape(row.shape), (len(found),)
    table = np.zeros((math.prod(sizes), known.places))
    table[index] = maps
    if np.any(table[index] != maps):
        raise read.refuse(
            "moves positions of one channel otherwise than those of another. Move all alike."
        )
    made = read.moved(known, table, (math.prod(sizes),) if read.flat else sizes)
    s = s if made.samples > 1 else np.zeros_like(s)
    return made.start + (s * made.places + index) * made.channels + c


def reduced(read: ModelReader, x: Entries, axes: Sequence[int], how: str) -> Operand:
    """Sums, means or largest numbers along axes, which are left out."""
    axes = [a % x.ndim for a in axes]
    axes = [a for a in axes if x.shape[a] > 1] or axes[:1]
    _, x = one_field(read, x)
    d = read.fields.decoded(x)

    def changes(own: np.ndarray) -> list[int]:
        return [a for a in axes if np.any((own != own.max(axis=a, keepdims=True)) & (x > 0))]

    over_channels = changes(d.channel)
    if changes(d.sample):
        raise read.refuse("puts samples together. Samples must be independent of each other.")
    over_places = [a for a in axes if a not in over_channels]
    if over_places and x.shape[over_places[0]] > 1:
        rest = [a for a in range(x.ndim) if a not in over_places]
        count = math.prod(x.shape[a] for a in over_places)
        rows = x.transpose(*rest, *over_places).reshape(*(x.shape[a] for a in rest), 1, count)
        if how == "max":
            found = largest(read, rows[..., 0, :])
        else:
            weight = 1.0 if how == "sum" else 1 / count
            found = mixed(read, rows, np.full((count, 1), weight))[..., 0, 0]
        x = np.expand_dims(found, tuple(over_places))
    if over_channels:
        if how == "max" and not isinstance(read.source(one_field(read, x)[0]).what, LogitsOf):
            raise read.refuse(
                "takes the largest of its channels, which has no limit. Take their mean."
            )
        x = _over_channels(read, x, over_channels, how)
    drop = tuple(a for a in axes if x.shape[a] == 1)
    return x.reshape([n for a, n in enumerate(x.shape) if a not in drop])


def _over_channels(read: ModelReader, x: Entries, axes: list[int], how: str) -> Entries:
    """Means over all channels, sums or largest numbers, one for each sample and position."""
    known, x = one_field(read, x)
    d = read.fields.decoded(x)
    count = math.prod(x.shape[a] for a in axes)
    low, group = (
        own.min(axis=tuple(axes), keepdims=True) for own in (d.position, d.channel // count)
    )
    if known.channels % count or np.any(d.position != low) or np.any(d.channel // count != group):
        raise read.refuse(
            "averages over some of its channels, or over others at other positions. Average over all."
        )
    groups = known.channels // count
    of, tree = read.tree(known)
    own = ("peak", tree) if how == "max" else ("mean", tree, groups)
    if how == "sum":
        own = ("mul", own, number(float(count)))
    made = read.fields.new(known.samples, known.positions, groups, Function(of, own))
    s = d.sample.max(axis=tuple(axes), keepdims=True)
    s = s if made.samples > 1 else np.zeros_like(s)
    return made.start + (s * made.places + low) * groups + group


def largest(read: ModelReader, x: Entries) -> Entries:
    """The largest number of each row, where a row is all positions of one channel."""
    known, x = read.settled(x)
    if x.shape[-1] != known.places:
        raise read.refuse("takes the largest of some positions. Use a pool, or take all.")
    windows = tuple(Window(taps=n) for n in known.positions)
    return _in_windows(read, known, x, windows)


def _in_windows(
    read: ModelReader, known: KnownField, x: Entries, windows: tuple[Window, ...]
) -> Entries:
    made = read.new(
        known,
        Made("largest", (known.number,), (windows,)),
        positions=positions_after(windows, known),
    )
    d = read.fields.decoded(x[..., 0])
    return made.start + d.sample * made.places * made.channels + d.channel


def pooled(
    read: ModelReader,
    x: Entries,
    taps: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[tuple[int, int]],
    how: str,
) -> Entries:
    """Means, sums or largest numbers of windows, of entries (sample, channel, *positions)."""
    axes = len(taps)
    known, x = read.settled(x)
    if how != "max":
        seen = windows_seen(x, taps, stride, (1,) * axes, pads)
        rows = np.moveaxis(seen, 1 + axes, 1)
        rows = rows.reshape(*rows.shape[: 2 + axes], 1, -1)
        weight = 1 / rows.shape[-1] if how == "mean" else 1.0
        return mixed(read, rows, np.full((rows.shape[-1], 1), weight))[..., 0, 0]
    if not is_clean(known, x):
        raise (
            NotSeparableError
            if read.flat is False
            else read.refuse("takes the largest of moved positions.")
        )
    windows = []
    for own in zip(known.positions, taps, stride, (1,) * axes, pads, strict=True):
        pad, window = window_of(*own)
        if pad is not None:
            raise read.refuse(
                "takes maxima with a padding that is not centred. Choose another size of the window."
            )
        windows.append(window)
    positions = positions_after(windows, known)
    made = read.new(known, Made("largest", (known.number,), (tuple(windows),)), positions=positions)
    return np.moveaxis(made.entries, -1, 1).reshape(made.samples, made.channels, *positions)


def normed(
    read: ModelReader, x: Entries, channels_last: bool, eps: float, groups: int | None
) -> Entries:
    """A norm over channels (the last axis), or over groups of channels (the second axis) and all positions."""
    known, x = read.settled(x)
    centred, joint = True, groups is not None
    if channels_last:
        d = read.fields.decoded(x)
        if x.shape[-1] != known.channels or np.any(d.position != d.position[..., :1]):
            raise read.refuse(
                "norms over positions and channels together. Norm over channels alone."
            )
    made = read.new(known, Made("norm", (known.number,), (eps, centred, joint, groups or 1)))
    return x - known.start + made.start
