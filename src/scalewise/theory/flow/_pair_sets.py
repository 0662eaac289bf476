"""Sets of pairs of inputs: each with each, a rectangle of two sets, a list; in tiles that fit the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

# Numbers per scratch array: a handful of them fit the cache, and a call costs less than its work.
TILE = 1 << 15
_BLOCK = 128  # inputs on either side of a tile of a rectangle
_SHARE = 8  # a strip of more than this part of all rows has too many pairs twice
_GATHERED = 1 << 20  # features of the inputs of a list that are copied at a time


class PairTile(NamedTuple):
    """A few pairs, with slices of inputs row by column, or with places one after the other.

    Args:
        rows: Which inputs are the first of a pair.
        columns: Which are the second.
        place: Where the pairs stand in the array of all different ones.
    """

    rows: Any
    columns: Any
    place: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its arrays."""
        if isinstance(self.rows, slice):
            return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start
        return self.rows.shape


def room_for(labels: int) -> int:
    """Pairs of inputs on a tile; layers that move positions have more calls, so that their tiles are larger.

    Args:
        labels: How many numbers a pair of inputs has.
    """
    return max(1, (TILE if labels == 1 else 2 * TILE) // labels)


def strips(count: int, room: int) -> Iterator[PairTile]:
    """Strips of the upper triangle of a square, in blocks of `room` pairs at most where these are shorter."""
    start = 0
    while start < count:
        stop = start + max(1, min(count - start, room // (count - start)))
        for begin in range(start, count, room):
            here = slice(start, stop), slice(begin, min(begin + room, count))
            yield PairTile(*here, here)
        start = stop


@dataclass(frozen=True)
class PairSet:
    """Pairs of inputs. An input that is repeated counts once, so that its entries agree to the last bit.

    Args:
        x: Different inputs: those that only stand first, those that stand on both sides, then the others.
        first: Places in `x` of the first inputs.
        second: Places of the second ones.
        listed: Whether they go one by one, and not each with each.
    """

    x: Float[np.ndarray, "input *positions feature"]
    first: Int[np.ndarray, " first"]
    second: Int[np.ndarray, " second"]
    listed: bool = False

    @classmethod
    def between(cls, X: np.ndarray, Y: np.ndarray | None = None) -> PairSet:
        """Each input of `X` with each of `Y`, or of `X` where that is not given."""
        both = (X if Y is None else np.concatenate([X, Y])) + 0.0
        at, places = _different(both)
        first = places[: len(X)]
        second = first if Y is None else places[len(X) :]
        sides = np.zeros((2, len(at)), dtype=bool)
        sides[0, first] = sides[1, second] = True
        order = np.argsort(sides[1] * (2 - sides[0].astype(int)), kind="stable")
        rank = np.argsort(order)
        return cls(both[at[order]], rank[first], rank[second])

    @classmethod
    def square(cls, X: np.ndarray) -> PairSet:
        """Each input of `X` with each, one that is repeated as if it were another."""
        every = np.arange(len(X))
        return cls(X, every, every)

    @classmethod
    def in_turn(cls, X: np.ndarray, Y: np.ndarray) -> PairSet:
        """Each input of `X` with that in the same place of `Y`."""
        both = np.concatenate([X, Y]) + 0.0
        at, places = _different(both)
        return cls(both[at], places[: len(X)], places[len(X) :], listed=True)

    @cached_property
    def _begin(self) -> int:
        """Where the second inputs of a rectangle begin."""
        return int(self.second.min())

    @cached_property
    def is_square(self) -> bool:
        """True if every input is paired with every input."""
        return not self.listed and self._begin == 0 and int(self.first.max()) + 1 == len(self.x)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of all different pairs."""
        if self.listed:
            return self.first.shape
        return int(self.first.max()) + 1, len(self.x) - self._begin

    def tiles(self, labels: int = 1) -> Iterator[PairTile]:
        """All pairs of different inputs; of a square the upper triangle.

        Args:
            labels: How many numbers a pair of inputs has.
        """
        room = room_for(labels)
        if self.listed:
            size = min(room, max(256, _GATHERED // math.prod(self.x.shape[1:])))
            for start in range(0, len(self.first), size):
                here = slice(start, start + size)
                yield PairTile(self.first[here], self.second[here], here)
        elif self.is_square:
            count = len(self.x)
            if labels > 1 and _SHARE * (room // count) > count:
                yield from _triangle(count, room)
            else:
                yield from strips(count, room)
        else:
            begin, (height, width) = self._begin, self.shape
            across = min(width, room, max(_BLOCK, room // height))
            down = max(1, room // across)
            for a in range(0, height, down):
                for b in range(0, width, across):
                    rows, columns = (
                        slice(a, min(a + down, height)),
                        slice(b, min(b + across, width)),
                    )
                    moved = slice(begin + columns.start, begin + columns.stop)
                    yield PairTile(rows, moved, (rows, columns))

    def fill(self, target: np.ndarray, tile: PairTile, values: np.ndarray) -> None:
        """Put the values of a tile where they belong: pairs, then any positions of the first and of the second."""
        target[tile.place] = values
        if self.is_square:
            target[tile.place[::-1]] = turned(values, len(tile.shape))

    def spread(self, target: Float[np.ndarray, "layer ..."]) -> Float[np.ndarray, "layer ..."]:
        """From different pairs to all that were asked for."""
        if self.listed:
            return target
        first, second = self.first, self.second - self._begin
        shape = (len(first), len(second))
        if shape == self.shape and (np.diff(first) == 1).all() and (np.diff(second) == 1).all():
            return target
        return target[:, first[:, None], second]

    def cut(self, square: Float[np.ndarray, "layer input input"]) -> Float[np.ndarray, "layer ..."]:
        """The pairs that were asked for, out of the square of all different inputs."""
        return square[:, self.first if self.listed else self.first[:, None], self.second]


def turned(values: np.ndarray, pairs: int = 2) -> np.ndarray:
    """These pairs with the second inputs, and their positions, first.

    Args:
        values: By pair, then by position of the first and of the second.
        pairs: How many axes pairs have: two row by column, one in turn.
    """
    axes = (values.ndim - pairs) // 2
    first, second = range(pairs, pairs + axes), range(pairs + axes, pairs + 2 * axes)
    return values.transpose(*reversed(range(pairs)), *second, *first)


def _triangle(count: int, room: int) -> Iterator[PairTile]:
    """The upper triangle of a square, `room` pairs in turn at a time."""
    rows, columns = np.triu_indices(count)
    for start in range(0, rows.size, room):
        here = rows[start : start + room], columns[start : start + room]
        yield PairTile(*here, here)


def _different(x: np.ndarray) -> tuple[Int[np.ndarray, " different"], Int[np.ndarray, " input"]]:
    """Where each different input stands first, and which of them each input is."""
    known: dict[bytes, int] = {}
    places = np.array([known.setdefault(row.tobytes(), len(known)) for row in x], dtype=np.int64)
    return np.unique(places, return_index=True)[1], places
