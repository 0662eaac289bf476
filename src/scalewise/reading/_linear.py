"""Sums of entries times parameters: random layers of any kind."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scalewise.networks.spi import IDENTITY, Window, places_seen
from scalewise.reading._entrywise import Operand, Plain
from scalewise.reading._fields import (
    Combined,
    Entries,
    Input,
    KnownField,
    Linear,
    Made,
    NotSeparableError,
    Weight,
)
from scalewise.reading._grids import kept, sample_of_rows
from scalewise.reading._moves import laid_out, numbered, window_of, windows_seen
from scalewise.reading._reader import ModelReader
from scalewise.reading._steps import tokens
from scalewise.reading._trees import evaluate, slope


def is_weight(read: ModelReader, own: Entries) -> bool:
    """True if entries are those of a parameter, or of a function of one."""
    owners = read.fields.owners(own)
    return len(owners) == 1 and isinstance(read.source(owners[0]).what, Weight)


def weights_of(read: ModelReader, own: Entries) -> tuple[Entries, float]:
    """Raw entries of a parameter, and the number that multiplies them."""
    (known,) = read.fields.owners(own)
    root, tree = read.tree(known)
    factor = slope(tree)
    if factor is None or own.min() <= 0:
        raise read.refuse(
            "computes weights from weights. Let it use them as they are, times a number."
        )
    return own - known.start + read.fields.known[root].start, factor


def linear(read: ModelReader, x: Entries, w: Entries) -> Entries:
    """A random layer: entries (..., row, k) by those of a parameter (..., k, channel)."""
    if w.ndim > 2:
        first = w.reshape(-1, *w.shape[-2:])
        if np.any(first != first[:1]):
            raise read.refuse(
                "has weights of its own for each place or group, written as a batch of matrices."
            )
        w = first[0]
    weights, factor = weights_of(read, w)
    known, x = one_field(read, x)
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
    out = read.fields.new(known.samples, positions_after(windows, of), weights.shape[-1], made)
    return rows_out(out, sample, index)


def _rows(
    read: ModelReader, owners: list[KnownField], sample: np.ndarray, seen: np.ndarray
) -> tuple[tuple[int, ...], np.ndarray]:
    """Positions along each axis of rows that see some, and which each row is."""
    if seen.shape[-1] == 1 and (found := kept(owners, sample, seen[..., 0])):
        return found
    return laid_out(sample, numbered(seen), read.flat)


def _rows_of(seen: np.ndarray, sample: np.ndarray, index: np.ndarray, places: int) -> np.ndarray:
    """Positions that each place sees, (place, tap), the same of all samples."""
    table = np.full((places, seen.shape[-1]), -1)
    table[index] = seen
    if np.any(table[index] != seen):
        raise NotSeparableError
    return table


def rows_out(out: KnownField, sample: np.ndarray, index: np.ndarray) -> Entries:
    """Entries (..., row, channel) of a field whose places the rows are."""
    sample = sample if out.samples > 1 else np.zeros_like(sample)
    start = out.start + (sample * out.places + index) * out.channels
    return start[..., None] + np.arange(out.channels)


def one_field(read: ModelReader, x: Entries) -> tuple[KnownField, Entries]:
    """The only owner of entries, some of them 0 or there more than once; a new field if there are several."""
    owners = read.fields.owners(x)
    if len(owners) == 1:
        return owners[0], x
    return read.settled(x)


def _of_inputs(
    read: ModelReader, known: KnownField, x: Entries, weights: Entries, factor: float
) -> Entries:
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
    return rows_out(out, sample, index)


def _taps(
    read: ModelReader, known: KnownField, table: np.ndarray, positions: tuple[int, ...]
) -> tuple[KnownField, tuple[Window, ...], np.ndarray]:
    """The field that a random layer reads, its windows, and the order of its taps, if places see (place, tap)."""
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


def positions_after(windows: Sequence[Window], of: KnownField) -> tuple[int, ...]:
    return tuple(own.length(size) for own, size in zip(windows, of.positions, strict=True))


def convolved(
    read: ModelReader,
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
    known, x = one_field(read, x)
    clean = not read.flat and is_clean(known, x) and not isinstance(read.source(known).what, Input)
    if not clean and groups == 1:
        seen = windows_seen(x, taps, stride, dilation, pads)
        rows = seen.reshape(*seen.shape[: 1 + len(taps)], -1)
        return np.moveaxis(linear(read, rows, w.reshape(len(w), -1).T), -1, 1)
    if not clean:
        raise read.refuse(
            "has groups, and reads positions that were moved. Let it read them as they lie."
        )
    weights, factor = weights_of(read, w)
    found = [
        window_of(*own) for own in zip(known.positions, taps, stride, dilation, pads, strict=True)
    ]
    if any(pad is not None for pad, _ in found):
        own = tuple(IDENTITY if pad is None else pad for pad, _ in found)
        sizes = tuple(a.length(n) for a, n in zip(own, known.positions, strict=True))
        known = read.new(known, Made("spread", (known.number,), (own, 1.0)), positions=sizes)
    windows = tuple(window for _, window in found)
    positions = positions_after(windows, known)
    if groups > 1 and groups == known.channels:
        return _depthwise(read, known, weights, factor, windows, positions)
    by_tap = weights.reshape(*weights.shape[:2], -1).transpose(0, 2, 1)
    made = Linear(known.number, windows, by_tap, None, groups, factor)
    out = read.fields.new(known.samples, positions, len(w), made)
    return np.moveaxis(out.entries, -1, 1).reshape(out.samples, out.channels, *positions)


def _depthwise(
    read: ModelReader,
    known: KnownField,
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


def is_clean(known: KnownField, x: Entries) -> bool:
    """True if an array (sample, channel, *positions) is a field as it lies."""
    wanted = np.moveaxis(known.entries, -1, 1).reshape(
        known.samples, known.channels, *known.positions
    )
    return x.shape == wanted.shape and np.array_equal(x, wanted)


def embedded(read: ModelReader, w: Entries, index: Operand) -> Entries:
    """Rows of a parameter (token, channel) by tokens, or by fixed numbers."""
    if isinstance(index, Plain):
        return w[index.value.astype(int)]
    weights, factor = weights_of(read, w)
    owners = read.fields.owners(index)
    if len(owners) != 1 or not _are_tokens(read, owners[0], len(w)) or index.min() <= 0:
        raise read.refuse(
            "looks up what is not a token of its inputs. Let tokens be integers that the model is given."
        )
    known = read.source(owners[0])
    what = known.what
    assert isinstance(what, Input)
    d = read.fields.decoded(index)
    sample = d.sample if known.samples > 1 else np.zeros_like(d.sample)
    positions, place = laid_out(sample, d.channel, read.flat)
    table = np.zeros(math.prod(positions), dtype=int)
    table[place] = d.channel
    if what.links:
        raise read.refuse(
            "computes tokens from tokens. Look up the tokens that the model is given."
        )
    given = tuple((table + what.offset).tolist()), positions, len(w)
    looked_up = Made("read", (-1,), (tokens, given, "tokens", positions, len(w)))
    hot = read.fields.new(known.samples, positions, len(w), looked_up)
    root = len(w) ** 0.5
    made = Linear(
        hot.number, (IDENTITY,) * len(positions), weights.T[:, None, :], None, 1, factor / root
    )
    out = read.fields.new(known.samples, positions, w.shape[-1], made)
    return rows_out(out, sample, place)


def _are_tokens(read: ModelReader, known: KnownField, count: int) -> bool:
    """True if a field is tokens of the inputs, also where those below 0 would be counted from the end."""
    root, tree = read.tree(known)
    what = read.fields.known[root].what
    own = np.arange(float(count))
    return isinstance(what, Input) and what.tokens and np.array_equal(evaluate(tree, own), own)
