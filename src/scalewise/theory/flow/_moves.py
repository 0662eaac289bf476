"""Sums of a tile moved along its axes, by long runs of numbers.

A tile that keeps its size is moved as one run of numbers: what would cross an edge is 0 for that time. Slices would
be as short as the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from scalewise.networks.spi import Piece, Taps

Along = tuple[Taps, int, int, tuple[int, ...]]
Part = tuple[slice, ...]
# The contribution of one tap: slices of the sum, slices of the tile, and what is 0 for that time, where these are
# runs of all numbers.
Move = tuple[Part, Part, tuple[Part, ...] | None]


class _Shift(NamedTuple):
    """Labels that a tap takes from equally far away along an axis.

    Args:
        by: How far.
        pieces: What it takes.
    """

    by: int
    pieces: tuple[Piece, ...]


def add_moved(A: np.ndarray, along: Along, out: np.ndarray) -> None:
    """The sum over taps of a tile that is moved by each.

    Args:
        A: A tile; it is as before in the end.
        along: What a layer does, on how many positions, by how much the second positions are further on, and on
            which axes of the tile, all moved together.
        out: Where the sum goes.
    """
    in_runs = A.flags.c_contiguous and out.flags.c_contiguous
    starts, moves = _moves(along, A.shape, out.shape, in_runs)
    if starts:
        np.copyto(out, A)
    else:
        out.fill(0.0)
    source, target = A.reshape(-1), out.reshape(-1)
    for to, of, beyond in moves:
        if beyond is None:
            np.add(out[to], A[of], out=out[to])
            continue
        kept = [A[part].copy() for part in beyond]
        for part in beyond:
            A[part] = 0.0
        np.add(target[to], source[of], out=target[to])
        for part, values in zip(reversed(beyond), reversed(kept), strict=True):
            A[part] = values


@lru_cache(maxsize=1024)
def _moves(
    along: Along, shape: tuple[int, ...], result: tuple[int, ...], in_runs: bool
) -> tuple[bool, tuple[Move, ...]]:
    """True if one tap leaves everything where it is, and the moves of the other taps."""
    own, size, shift, axes = along
    found: list[Move] = []
    starts = False
    for shifts in _shifts(own, size, shift):
        for both in product(shifts, repeat=len(axes)):
            still = all(one.by == 0 and _length(one, size) == size for one in both)
            if not starts and shape == result and still:
                starts = True
            elif in_runs and shape == result and all(_is_long(one, size) for one in both):
                found.append(_run(tuple(zip(axes, both, strict=True)), size, shape))
            else:
                for pieces in product(*(one.pieces for one in both)):
                    ends = zip(*pieces, strict=True)
                    to, of = (_cut(len(shape), zip(axes, end, strict=True)) for end in ends)
                    found.append((to, of, None))
    return starts, tuple(found)


def _shifts(own: Taps, size: int, shift: int) -> list[list[_Shift]]:
    """By tap what it takes from where, sorted by distance.

    Where the second position is further on, the other end following the last, the two are at most so far apart on
    either side of that break; nothing is taken across it if there are zeros beyond the ends.
    """
    found = []
    for pieces in own.pieces(size):
        taken: dict[int, list[Piece]] = {}
        for piece in pieces:
            taken.setdefault(piece.of.start - piece.to.start, []).append(piece)
        if shift % size and not own.is_circular:
            taken = {by: _broken(by, size, -shift % size) for by in taken}
        found.append([_Shift(by, tuple(ones)) for by, ones in taken.items() if ones])
    return found


def _broken(by: int, size: int, at: int) -> list[Piece]:
    """Labels that stay on their side of a break, a distance away."""
    ends = ((max(start, start - by), min(stop, stop - by)) for start, stop in ((0, at), (at, size)))
    return [
        Piece(slice(start, stop), slice(start + by, stop + by, 1))
        for start, stop in ends
        if start < stop
    ]


def _length(shift: _Shift, size: int) -> int:
    return sum(len(range(size)[piece.of]) for piece in shift.pieces)


def _is_long(shift: _Shift, size: int) -> bool:
    steps = {part.step for piece in shift.pieces for part in piece}
    return steps <= {None, 1} and 2 * _length(shift, size) >= size


def _run(moved: tuple[tuple[int, _Shift], ...], size: int, shape: tuple[int, ...]) -> Move:
    """As one run, while what is not moved is 0."""
    beyond = [
        _cut(len(shape), [(axis, part)])
        for axis, shift in moved
        for part in _others([piece.of for piece in shift.pieces], size)
    ]
    by = sum(math.prod(shape[axis + 1 :]) * shift.by for axis, shift in moved)
    count = math.prod(shape)
    to = slice(max(0, -by), count - max(0, by))
    return (to,), (slice(to.start + by, to.stop + by),), tuple(beyond)


def _others(parts: list[slice], size: int) -> list[slice]:
    """Gaps between slices, and at both ends."""
    starts = [0, *(part.stop for part in parts)]
    stops = [*(part.start for part in parts), size]
    return [slice(a, b) for a, b in zip(starts, stops, strict=True) if a < b]


def _cut(axes: int, slices: Iterable[tuple[int, slice]]) -> Part:
    found = [slice(None)] * axes
    for axis, part in slices:
        found[axis] = part
    return tuple(found)
