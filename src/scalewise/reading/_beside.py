"""Entries of several fields as one: channels beside each other or in another order, positions after one another."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from scalewise.reading._fields import KnownField, Made, NotSeparableError, Turned
from scalewise.reading._grids import FieldGrid

Reader = Any  # that of `_reader.py`, which imports this file


def reordered(read: Reader, grid: FieldGrid) -> KnownField | None:
    """Channels of one field in another order, some of them times numbers; ``None`` if it is something else."""
    d = read.fields.decoded(grid.ids)
    if (
        d.owner.min() < 0
        or np.any(d.owner != d.owner[:1, :1])
        or np.any(d.channel != d.channel[:1, :1])
    ):
        return None
    owners, channel = d.owner[0, 0], d.channel[0, 0]
    parts = {k: read.turned(read.fields.known[k]) for k in np.unique(owners)}
    if any(p is None or len(p.terms) > 1 for p in parts.values()):
        return None
    own = [p for p in parts.values() if p is not None]
    source = read.fields.known[own[0].of]
    whole = np.array_equal(np.sort(channel), np.arange(source.channels))
    if (
        len({p.of for p in own}) > 1
        or not whole
        or np.any(d.position != np.arange(source.places)[:, None])
    ):
        return None
    order, numbers = np.zeros(len(channel), dtype=int), np.zeros((source.places, len(channel)))
    for k, part in parts.items():
        assert part is not None
        there = owners == k
        ((of, by),) = part.terms
        order[there], numbers[:, there] = of[channel[there]], by[:, channel[there]]
    return read.new(source, Turned(source.number, ((order, numbers),)))


def beside(read: Reader, grid: FieldGrid) -> KnownField:
    """Channels of several fields beside each other, or positions after one another."""
    if (made := reordered(read, grid)) is not None:
        return made
    owner = read.fields.decoded(grid.ids).owner
    by_channel, by_place = owner[0, 0], owner[0, :, 0]
    if np.array_equal(owner, np.broadcast_to(by_channel, owner.shape)):
        parts = [
            read.taken(read.fields.known[by_channel[low]], grid.channels(low, high))
            for low, high in _runs(by_channel)
        ]
        made = Made("join", tuple(p.number for p in parts))
        channels = sum(p.channels for p in parts)
        return read.fields.new(max(p.samples for p in parts), parts[0].positions, channels, made)
    if not np.array_equal(owner, np.broadcast_to(by_place[:, None], owner.shape)):
        raise read.refuse(
            "puts fields beside each other in a pattern that is not known. Join channels, or positions."
        )
    lattice = by_place.reshape(grid.positions)
    for axis in range(lattice.ndim):
        line = np.moveaxis(lattice, axis, 0).reshape(lattice.shape[axis], -1)
        if (line == line[:, :1]).all():
            break
    else:
        raise NotSeparableError
    parts = [
        read.taken(read.fields.known[line[low, 0]], grid.slab(axis, low, high))
        for low, high in _runs(line[:, 0])
    ]
    made = Made("stack", tuple(p.number for p in parts), (axis,))
    samples = max(p.samples for p in parts)
    return read.fields.new(samples, grid.positions, parts[0].channels, made)


def _runs(values: np.ndarray) -> list[tuple[int, int]]:
    """From where to where neighbours are equal."""
    ends = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return list(itertools.pairwise(ends))
