"""Sums of a tile moved along its axes, by long runs of numbers.

A tile that keeps its size is moved as one run of numbers: what would cross an edge is 0 for that time. Slices would
be as short as the last axis.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from scalewise.networks._sites import Piece, Taps

Along = tuple[Taps, int, tuple[int, ...]]
Part = tuple[slice, ...]


class _Move(NamedTuple):
    """What one tap adds.

    Args:
        to: Slices of the sum.
        of: Slices of the tile.
        beyond: What is 0 for that time, where these are runs of all numbers.
    """

    to: Part
    of: Part
    beyond: tuple[Part, ...] | None


def add_moved(A: np.ndarray, along: Along, out: np.ndarray) -> None:
    """The sum over taps of a tile that is moved by each.

    Args:
        A: A tile; it is as before in the end.
        along: What layers do, on how many positions, and on which axes of the tile, all moved together.
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
) -> tuple[bool, tuple[_Move, ...]]:
    """Whether one tap leaves everything where it is, and the others."""
    own, size, axes = along
    found = []
    starts = False
    for pieces in own.pieces(size):
        for both in product(pieces, repeat=len(axes)):
            moved = tuple(zip(axes, both, strict=True))
            if not starts and shape == result and all(_stays(piece, size) for piece in both):
                starts = True
            elif in_runs and shape == result and all(_is_long(piece, size) for piece in both):
                found.append(_run(moved, size, shape))
            else:
                to, of = ([(axis, piece[k]) for axis, piece in moved] for k in (0, 1))
                found.append(_Move(_cut(len(shape), to), _cut(len(shape), of), None))
    return starts, tuple(found)


def _stays(piece: Piece, size: int) -> bool:
    return piece == (slice(0, size), slice(0, size, 1))


def _is_long(piece: Piece, size: int) -> bool:
    return {piece.of.step, piece.to.step} <= {None, 1} and 2 * len(range(size)[piece.to]) >= size


def _run(moved: tuple[tuple[int, Piece], ...], size: int, shape: tuple[int, ...]) -> _Move:
    """As one run, while what is not moved is 0."""
    beyond = [
        _cut(len(shape), [(axis, part)])
        for axis, piece in moved
        for part in (slice(0, piece.of.start), slice(piece.of.stop, size))
        if part.start < part.stop
    ]
    by = sum(
        math.prod(shape[axis + 1 :]) * (piece.of.start - piece.to.start) for axis, piece in moved
    )
    count = math.prod(shape)
    to = slice(max(0, -by), count - max(0, by))
    return _Move((to,), (slice(to.start + by, to.stop + by),), tuple(beyond))


def _cut(axes: int, slices: list[tuple[int, slice]]) -> Part:
    found = [slice(None)] * axes
    for axis, part in slices:
        found[axis] = part
    return tuple(found)
