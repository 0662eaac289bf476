"""Sums over entries: of products with parameters, with numbers, and of two fields with each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalewise.networks._forward import places_seen
from scalewise.networks._nodes import Norm
from scalewise.networks._sites import IDENTITY, Matrix, Window
from scalewise.reading._entrywise import Operand, Plain
from scalewise.reading._fields import (
    Combined,
    Entries,
    Function,
    Input,
    Known,
    Linear,
    Logits,
    Made,
    NotSeparableError,
    Shares,
    Turned,
    Weight,
)
from scalewise.reading._grids import kept, sample_of_rows
from scalewise.reading._moves import laid_out, numbered, window_of, windows_seen
from scalewise.reading._reader import Reader
from scalewise.reading._trees import norm_in, number, slope


def contracted(read: Reader, one: Operand, two: Operand) -> Operand:
    """Matrix products (..., row, k) by (..., k, column)."""
    for own in (one, two):
        if isinstance(own, Plain) and not own.value.any():
            shape = [o.value.shape if isinstance(o, Plain) else o.shape for o in (one, two)]
            lead = np.broadcast_shapes(shape[0][:-2], shape[1][:-2])
            return Plain(np.zeros((*lead, shape[0][-2], shape[1][-1])))
    if isinstance(one, Plain) and isinstance(two, Plain):
        return Plain(one.value @ two.value)
    if isinstance(one, Plain):
        found = mixed(read, np.swapaxes(two, -1, -2), np.swapaxes(one.value, -1, -2))  # pyright: ignore
        return np.swapaxes(found, -1, -2)
    if isinstance(two, Plain):
        return mixed(read, one, two.value)
    if not one.any() or not two.any():
        lead = np.broadcast_shapes(one.shape[:-2], two.shape[:-2])
        return np.zeros((*lead, one.shape[-2], two.shape[-1]), dtype=int)
    kinds = [_is_weight(read, own) for own in (one, two)]
    if all(kinds):
        raise read.refuse("multiplies two parameters with each other. Let a field come in between.")
    if kinds[0]:
        found = linear(read, np.swapaxes(two, -1, -2), np.swapaxes(one, -1, -2))
        return np.swapaxes(found, -1, -2)
    if kinds[1]:
        return linear(read, one, two)
    return _fields(read, one, two)


def _is_weight(read: Reader, own: Entries) -> bool:
    owners = read.fields.owners(own)
    return len(owners) == 1 and isinstance(read.source(owners[0]).what, Weight)


def _weights(read: Reader, own: Entries) -> tuple[Entries, float]:
    """Raw entries of a parameter, and the number that multiplies them."""
    (known,) = read.fields.owners(own)
    root, tree = read.tree(known)
    factor = slope(tree)
    if factor is None or own.min() <= 0:
        raise read.refuse(
            "computes weights from weights. Let it use them as they are, times a number."
        )
    return own - known.start + read.fields.known[root].start, factor


def linear(read: Reader, x: Entries, w: Entries) -> Entries:
    """A random layer: entries (..., row, k) by those of a parameter (..., k, channel)."""
    if w.ndim > 2:
        first = w.reshape(-1, *w.shape[-2:])
        if np.any(first != first[:1]):
            raise read.refuse(
                "has weights of its own for each place or group, written as a batch of matrices."
            )
        w = first[0]
    weights, factor = _weights(read, w)
    known, x = _one_field(read, x)
    if isinstance(read.source(known).what, Input):
        return _of_inputs(read, known, x, weights, factor)
    d = read.fields.decoded(x)
    channel = d.channel.reshape(-1, d.channel.shape[-1]).max(axis=0)
    if np.any((d.channel != channel) & (x > 0)):
        raise read.refuse(
            "mixes positions by weights that all channels share. However many channels there are, such weights are "
            "few, and what they make has no limit that is not random. Let weights mix channels."
        )
    if channel.min() < 0:
        keep = channel >= 0
        x, channel, weights = x[..., keep], channel[keep], weights[keep]
        d = read.fields.decoded(x)
    low, high = int(channel.min()), int(channel.max()) + 1
    order = np.argsort(channel, kind="stable")
    taps, rest = divmod(len(channel), high - low)
    if rest or not np.array_equal(channel[order], np.repeat(np.arange(low, high), taps)):
        raise read.refuse("reads some channels more often than others. Let it read all alike.")
    x, weights = x[..., order], weights[order]
    seen = read.fields.decoded(x).position.reshape(*x.shape[:-1], high - low, taps)
    if np.any(seen != seen[..., :1, :]):
        raise read.refuse(
            "reads other positions of other channels. Let it read all channels at the same positions."
        )
    seen = seen[..., 0, :]
    sample = sample_of_rows(read.fields, x)
    if (low, high) != (0, known.channels):
        known = read.cut(known, low, high)
    w_by_tap = weights.reshape(high - low, taps, -1).transpose(2, 1, 0)
    positions, index = _rows(read, [known], sample, seen)
    table = _rows_of(seen, sample, index, math.prod(positions))
    of, windows, order_of_taps = _taps(read, known, table, positions)
    made = Linear(
        of.number, windows, np.ascontiguousarray(w_by_tap[:, order_of_taps]), None, 1, factor
    )
    out = read.fields.new(known.samples, _settled_positions(windows, of), weights.shape[-1], made)
    return _rows_out(out, sample, index)


def _rows(
    read: Reader, owners: list[Known], sample: np.ndarray, seen: np.ndarray
) -> tuple[tuple[int, ...], np.ndarray]:
    """Positions along each axis of rows that see some, and which each row is."""
    if seen.shape[-1] == 1 and (found := kept(owners, sample, seen[..., 0])):
        return found
    return laid_out(sample, numbered(seen), read.flat)


def _rows_of(seen: np.ndarray, sample: np.ndarray, index: np.ndarray, places: int) -> np.ndarray:
    """What each place sees, (place, tap), the same of all samples."""
    table = np.full((places, seen.shape[-1]), -1)
    table[index] = seen
    if np.any(table[index] != seen):
        raise NotSeparableError
    return table


def _rows_out(out: Known, sample: np.ndarray, index: np.ndarray) -> Entries:
    """Entries (..., row, channel) of a field whose places the rows are."""
    sample = sample if out.samples > 1 else np.zeros_like(sample)
    start = out.start + (sample * out.places + index) * out.channels
    return start[..., None] + np.arange(out.channels)


def _one_field(read: Reader, x: Entries) -> tuple[Known, Entries]:
    """The only owner of entries, some of them 0 or there more than once; a new field if there are several."""
    owners = read.fields.owners(x)
    if len(owners) == 1:
        return owners[0], x
    return read.settled(x)


def _of_inputs(read: Reader, known: Known, x: Entries, weights: Entries, factor: float) -> Entries:
    """A random layer on entries of the inputs."""
    sample = sample_of_rows(read.fields, x)
    d = read.fields.decoded(x)
    positions, index = laid_out(sample, numbered(d.channel), read.flat)
    grid = np.zeros((known.samples, math.prod(positions), x.shape[-1]), dtype=int)
    grid[sample, index] = x
    placed = read.placed(known, grid, positions)
    made = Linear(
        placed.number, (IDENTITY,) * len(positions), weights.T[:, None, :], None, 1, factor
    )
    out = read.fields.new(known.samples, positions, weights.shape[-1], made)
    return _rows_out(out, sample, index)


def _taps(
    read: Reader, known: Known, table: np.ndarray, positions: tuple[int, ...]
) -> tuple[Known, tuple[Window, ...], np.ndarray]:
    """What a random layer reads, through which windows, and the order of its taps, if places see (place, tap)."""
    taps, axes = table.shape[-1], len(known.positions)
    if taps == 1:
        of = read.chosen(known, table[:, 0], positions)
        return of, (IDENTITY,) * len(of.positions), np.arange(1)
    if (
        len(table) == 1
        and taps == known.places
        and np.array_equal(np.sort(table[0]), np.arange(taps))
    ):
        return known, tuple(Window(taps=n) for n in known.positions), np.argsort(table[0])
    if axes != 1:
        raise NotSeparableError
    of = read.chosen(known, table.ravel(), (table.size,))
    return of, (Window(taps=taps, stride=taps),), np.arange(taps)


def _settled_positions(windows: Sequence[Window], of: Known) -> tuple[int, ...]:
    return tuple(own.length(size) for own, size in zip(windows, of.positions, strict=True))


def convolved(
    read: Reader,
    x: Entries,
    w: Entries,
    *,
    stride: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> Entries:
    """A convolution of entries (sample, channel, *positions) by a parameter (channel, channel below, *taps)."""
    taps = w.shape[2:]
    known, x = _one_field(read, x)
    clean = not read.flat and _is_clean(known, x) and not isinstance(read.source(known).what, Input)
    if not clean and groups == 1:
        seen = windows_seen(x, taps, stride, dilation, pads)
        rows = seen.reshape(*seen.shape[: 1 + len(taps)], -1)
        return np.moveaxis(linear(read, rows, w.reshape(len(w), -1).T), -1, 1)
    if not clean:
        raise read.refuse(
            "has groups, and reads positions that were moved. Let it read them as they lie."
        )
    weights, factor = _weights(read, w)
    found = [
        window_of(*own) for own in zip(known.positions, taps, stride, dilation, pads, strict=True)
    ]
    if any(pad is not None for pad, _ in found):
        own = tuple(IDENTITY if pad is None else pad for pad, _ in found)
        sizes = tuple(a.length(n) for a, n in zip(own, known.positions, strict=True))
        known = read.new(known, Made("spread", (known.number,), (own, 1.0)), positions=sizes)
    windows = tuple(window for _, window in found)
    positions = _settled_positions(windows, known)
    if groups > 1 and groups == known.channels:
        return _depthwise(read, known, weights, factor, windows, positions)
    by_tap = weights.reshape(*weights.shape[:2], -1).transpose(0, 2, 1)
    made = Linear(known.number, windows, by_tap, None, groups, factor)
    out = read.fields.new(known.samples, positions, len(w), made)
    return np.moveaxis(out.entries, -1, 1).reshape(out.samples, out.channels, *positions)


def _depthwise(
    read: Reader,
    known: Known,
    weights: Entries,
    factor: float,
    windows: Sequence[Window],
    positions: tuple[int, ...],
) -> Entries:
    """A convolution of every channel by itself: a sum over taps of what is seen times random numbers."""
    if weights.shape[:2] != (known.channels, 1):
        raise read.refuse(
            "makes several channels of one, channel by channel. Let it make one of each."
        )
    tables = [places_seen(own, n) for own, n in zip(windows, known.positions, strict=True)]
    terms: dict[int, float] = {}
    like = None
    for tap in np.ndindex(*weights.shape[2:]):
        rows = np.zeros((1,), dtype=int)
        for table, t, n in zip(tables, tap, known.positions, strict=True):
            own = table[:, t]
            rows = np.where((rows[:, None] < 0) | (own < 0), -1, rows[:, None] * n + own).ravel()
        seen = read.chosen(known, rows, positions)
        raw = np.broadcast_to(
            weights[(slice(None), 0, *tap)], (1, math.prod(positions), known.channels)
        )
        (owner,) = read.fields.owners(raw)
        gains = read.placed(owner, raw, positions)
        like = read.new(seen, Made("multiply", (seen.number, gains.number)))
        terms[like.number] = factor
    assert like is not None
    out = read.new(like, Combined(tuple(terms.items())))
    return np.moveaxis(out.entries, -1, 1).reshape(out.samples, out.channels, *positions)


def _is_clean(known: Known, x: Entries) -> bool:
    """Whether an array (sample, channel, *positions) is a field as it lies."""
    wanted = np.moveaxis(known.entries, -1, 1).reshape(
        known.samples, known.channels, *known.positions
    )
    return x.shape == wanted.shape and np.array_equal(x, wanted)


def mixed(read: Reader, x: Entries, numbers: np.ndarray) -> Entries:
    """Entries (..., row, k) by numbers (..., k, column): a fixed map of positions."""
    known, x = _one_field(read, x)
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


def _mixed_inputs(read: Reader, known: Known, x: Entries, numbers: np.ndarray) -> Entries:
    """The same of entries of the inputs, which become other numbers of these."""
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


def _mapped(read: Reader, known: Known, s: np.ndarray, c: np.ndarray, maps: np.ndarray) -> Entries:
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


def reduced(read: Reader, x: Entries, axes: Sequence[int], how: str) -> Operand:
    """Sums, means or largest numbers along axes, which are left out."""
    axes = [a % x.ndim for a in axes]
    axes = [a for a in axes if x.shape[a] > 1] or axes[:1]
    _, x = _one_field(read, x)
    d = read.fields.decoded(x)

    def changes(own: np.ndarray) -> list[int]:
        return [a for a in axes if np.any(own != own.take([0], axis=a))]

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
        if how == "max":
            raise read.refuse(
                "takes the largest of its channels, which has no limit. Take their mean."
            )
        x = _over_channels(read, x, over_channels, how)
    drop = tuple(a for a in axes if x.shape[a] == 1)
    return x.reshape([n for a, n in enumerate(x.shape) if a not in drop])


def _over_channels(read: Reader, x: Entries, axes: list[int], how: str) -> Entries:
    """Means over all channels, one number for each sample and position."""
    known, x = _one_field(read, x)
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
    own = ("mean", tree, groups)
    if how == "sum":
        own = ("mul", own, number(count))
    made = read.fields.new(known.samples, known.positions, groups, Function(of, own))
    s = d.sample.max(axis=tuple(axes), keepdims=True)
    s = s if made.samples > 1 else np.zeros_like(s)
    return made.start + (s * made.places + low) * groups + group


def largest(read: Reader, x: Entries) -> Entries:
    """The largest number of each row, where a row is all positions of one channel."""
    known, x = read.settled(x)
    if x.shape[-1] != known.places:
        raise read.refuse("takes the largest of some positions. Use a pool, or take all.")
    windows = tuple(Window(taps=n) for n in known.positions)
    return _in_windows(read, known, x, windows)


def _in_windows(read: Reader, known: Known, x: Entries, windows: tuple[Window, ...]) -> Entries:
    made = read.new(
        known,
        Made("largest", (known.number,), (windows,)),
        positions=_settled_positions(windows, known),
    )
    d = read.fields.decoded(x[..., 0])
    return made.start + d.sample * made.places * made.channels + d.channel


def pooled(
    read: Reader,
    x: Entries,
    taps: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[tuple[int, int]],
    how: str,
) -> Entries:
    """Means or largest numbers of windows, of entries (sample, channel, *positions)."""
    axes = len(taps)
    known, x = read.settled(x)
    if how == "mean":
        seen = windows_seen(x, taps, stride, (1,) * axes, pads)
        rows = np.moveaxis(seen, 1 + axes, 1)
        rows = rows.reshape(*rows.shape[: 2 + axes], 1, -1)
        return mixed(read, rows, np.full((rows.shape[-1], 1), 1 / rows.shape[-1]))[..., 0, 0]
    if not _is_clean(known, x):
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
    positions = _settled_positions(windows, known)
    made = read.new(known, Made("largest", (known.number,), (tuple(windows),)), positions=positions)
    return np.moveaxis(made.entries, -1, 1).reshape(made.samples, made.channels, *positions)


def embedded(read: Reader, w: Entries, index: Operand) -> Entries:
    """Rows of a parameter (token, channel) by tokens, or by fixed numbers."""
    if isinstance(index, Plain):
        return w[index.value.astype(int)]
    weights, factor = _weights(read, w)
    (known,) = read.fields.owners(index)
    what = known.what
    if not (isinstance(what, Input) and what.tokens) or index.min() <= 0:
        raise read.refuse(
            "looks up what is not a token of its inputs. Let tokens be integers that the model is given."
        )
    d = read.fields.decoded(index)
    sample = d.sample if known.samples > 1 else np.zeros_like(d.sample)
    positions, place = laid_out(sample, d.channel, read.flat)
    table = np.zeros(math.prod(positions), dtype=int)
    table[place] = d.channel
    from scalewise.reading._steps import Tokens

    if what.links:
        raise read.refuse(
            "computes tokens from tokens. Look up the tokens that the model is given."
        )
    make = Tokens(tuple((table + what.offset).tolist()), positions, len(w))
    hot = read.fields.new(
        known.samples, positions, len(w), Made("read", (-1,), (make, positions, len(w)))
    )
    root = len(w) ** 0.5
    made = Linear(
        hot.number, (IDENTITY,) * len(positions), weights.T[:, None, :], None, 1, factor / root
    )
    out = read.fields.new(known.samples, positions, w.shape[-1], made)
    return _rows_out(out, sample, place)


def normed(
    read: Reader, x: Entries, channels_last: bool, eps: float, groups: int | None
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


def _fields(read: Reader, one: Entries, two: Entries) -> Operand:
    """Products of two fields: logits of an attention, or what it makes of its values."""
    owners = read.fields.owners(one)
    if len(owners) == 1 and isinstance(owners[0].what, Shares):
        return _attended(read, owners[0], one, two)
    owners = read.fields.owners(two)
    if len(owners) == 1 and isinstance(owners[0].what, Shares):
        found = _attended(read, owners[0], np.swapaxes(two, -1, -2), np.swapaxes(one, -1, -2))
        return np.swapaxes(found, -1, -2)
    return _logits(read, one, np.swapaxes(two, -1, -2))


def _asked(read: Reader, x: Entries) -> tuple[Known, Entries, float, Norm | None]:
    """Queries or keys: a field, its entries, the number by which it is multiplied, and the norm of its heads."""
    known, x = read.settled(x)
    of, factor, norm = known, 1.0, None
    if isinstance(of.what, Turned):
        of = read.fields.known[of.what.of]
    terms = read.terms(of)
    if (
        len(terms) == 1
        and (own := next(iter(terms.items())))
        and read.fields.known[own[0]].size == of.size
    ):
        of, factor = read.fields.known[own[0]], factor * own[1]
    if isinstance(of.what, Function) and (found := norm_in(of.what.tree)) and found.groups > 1:
        norm = Norm((), found.eps, found.centred)
        factor *= found.factor
        of = read.fields.known[of.what.of]
    return of, x - known.start + of.start, factor, norm


def _turns(read: Reader, x: Entries, size: int) -> Matrix | None:
    """The matrices of positions by which heads are multiplied; ``None`` if they are not."""
    if len(np.unique(x)) < x.size:
        raise read.refuse(
            "has keys that several heads share, which is not known. Give keys and values as many heads as queries."
        )
    known, _ = read.settled(x)
    what = known.what
    if not isinstance(what, Turned):
        return None
    full = np.zeros((known.places, known.channels, known.channels))
    for order, by in what.terms:
        at: Any = (slice(None), np.arange(known.channels), order)
        np.add.at(full, at, by)
    heads = full.reshape(known.places, known.channels // size, size, known.channels // size, size)
    own = heads[:, 0, :, 0]
    rest = heads - np.einsum("gh,pij->pgihj", np.eye(heads.shape[1]), own)
    if np.abs(rest).max() > 1e-6:
        raise read.refuse(
            "multiplies channels of its heads by numbers that differ from head to head. Let parameters do that."
        )
    return Matrix.of(own.reshape(known.places, -1))


def _logits(read: Reader, q: Entries, k: Entries) -> Entries:
    """Products of queries and keys (..., position, channel) in heads."""
    turns = _turns(read, q, q.shape[-1]), _turns(read, k, q.shape[-1])
    if (turns[0] is None) != (turns[1] is None):
        raise read.refuse("turns queries or keys alone by their positions. Turn both.")
    queries, q, f, norm = _asked(read, q)
    keys, k, g, its = _asked(read, k)
    if norm != its:
        raise read.refuse("norms queries or keys alone. Norm both of them alike.")
    a, b = read.fields.decoded(q), read.fields.decoded(k)
    size = q.shape[-1]
    head = a.channel[..., 0] // size
    wanted = head[..., None] * size + np.arange(size)
    same = np.array_equal(a.channel, wanted) and np.array_equal(
        head[..., :1], b.channel[..., :1, 0] // size
    )
    if (
        not same
        or np.any(b.channel != b.channel[..., :1, :])
        or np.any(a.position != a.position[..., :1])
    ):
        raise read.refuse(
            "multiplies two fields over channels that are not those of equal heads. Attention has queries and keys "
            "of as many heads, each of channels that follow one another."
        )
    if np.any(a.sample[..., 0] != b.sample[..., :1, 0]):
        raise read.refuse("compares different samples. Samples must be independent of each other.")
    heads = queries.channels // size
    both = None if turns[0] is None or turns[1] is None else (turns[0], turns[1])
    what = Logits(queries.number, keys.number, size, f * g, turns=both, norm=norm)
    made = read.fields.new(queries.samples, (heads, queries.places, keys.places), 1, what)
    index = (a.sample[..., 0] * heads + head) * queries.places + a.position[..., 0]
    return made.start + index[..., :, None] * keys.places + b.position[..., None, :, 0]


def softmax(read: Reader, x: Entries, axis: int) -> Entries:
    """Weights of positions from logits."""
    (known,) = read.fields.owners(x) or (None,)
    if known is None or not isinstance(known.what, Logits):
        raise read.refuse("takes a softmax of something other than the logits of an attention.")
    d = read.fields.decoded(x)
    row = d.position // known.positions[-1]
    if x.shape[axis] != known.positions[-1] or np.any(row != row.take([0], axis=axis)):
        raise read.refuse(
            "takes a softmax over something other than all positions that are looked at."
        )
    made = read.new(known, Shares(known.what))
    return x - known.start + made.start


def _attended(read: Reader, shares: Known, p: Entries, v: Entries) -> Entries:
    """Averages of values (..., other, channel) by weights (..., position, other)."""
    what = shares.what
    assert isinstance(what, Shares)
    logits = what.logits
    values, v = read.settled(v)
    a, b = read.fields.decoded(p), read.fields.decoded(v)
    heads, places, others = shares.positions
    size = v.shape[-1]
    head, row = a.position // (places * others), a.position // others % places
    wanted = head[..., 0, 0][..., None, None] * size + np.arange(size)
    if (
        size * heads != values.channels
        or np.any(b.channel != np.broadcast_to(wanted, b.channel.shape))
        or np.any(a.position % others != np.swapaxes(b.position[..., :, :1], -1, -2))
    ):
        raise read.refuse(
            "averages channels that are not those of the heads of its logits. Give values equal heads."
        )
    q = read.fields.known[logits.queries]
    power = _power(read, logits)
    causal = _causal(read, logits, shares.positions)
    given = (size, power, causal, logits.turns, logits.norm)
    made = read.fields.new(
        values.samples,
        q.positions,
        values.channels,
        Made("attend", (q.number, logits.keys, values.number), given),
    )
    index = (a.sample[..., 0] * places + row[..., 0]) * made.channels
    channel = head[..., 0] * size
    return made.start + index[..., None] + channel[..., None] + np.arange(size)


def _power(read: Reader, logits: Logits) -> float:
    if logits.scale <= 0:
        raise read.refuse("multiplies logits by a negative number. Let it be positive.")
    if logits.size == 1:
        if logits.scale != 1:
            raise read.refuse("has heads of one channel, with a scale. Give heads more channels.")
        return 0.5
    power = -math.log(logits.scale) / math.log(logits.size)
    near = round(2 * power) / 2
    return near if abs(power - near) < 1e-6 else power


def _causal(read: Reader, logits: Logits, shape: tuple[int, ...]) -> bool:
    if logits.added is None:
        return False
    added = logits.added.reshape(shape)
    seen = added > -1e3
    if np.any(added[seen] != 0):
        raise read.refuse(
            "adds numbers of positions to its logits. Logits are products and masks here."
        )
    if seen.all():
        return False
    if np.any(seen != np.tri(*shape[1:], dtype=bool)):
        raise read.refuse(
            "masks positions otherwise than those that follow. Use a causal mask or none."
        )
    return True
