"""Sets of pairs of inputs: each with each, a rectangle of two sets, a list; in tiles that fit the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

TILE = 1 << 14  # numbers per scratch array: a handful of them fit the second-level cache
_BLOCK = 128  # inputs on either side of a tile of a rectangle
_GATHERED = 1 << 20  # features of the inputs of a list that are copied at a time


class Tile(NamedTuple):
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

    def clear_known(self, K: np.ndarray) -> None:
        """Put 0 where an input meets itself, which is known and would only lengthen the series of the tile."""
        if isinstance(self.rows, slice):
            a, b = self.rows, self.columns
            same = np.arange(max(a.start, b.start), min(a.stop, b.stop))
            K[same - a.start, same - b.start] = 0.0


def strips(count: int) -> Iterator[Tile]:
    """Strips of the upper triangle of a square."""
    start = 0
    while start < count:
        stop = start + max(1, min(count - start, TILE // (count - start)))
        here, beyond = slice(start, stop), slice(start, count)
        yield Tile(here, beyond, (here, beyond))
        start = stop


@dataclass(frozen=True)
class Pairs:
    """Pairs of inputs. An input that is repeated counts once, so that its entries agree to the last bit.

    Args:
        x: Different inputs: those that only stand first, those that stand on both sides, then the others.
        first: Places in `x` of the first inputs.
        second: Places of the second ones.
        listed: Whether they go one by one, and not each with each.
    """

    x: Float[np.ndarray, "input feature"]
    first: Int[np.ndarray, " first"]
    second: Int[np.ndarray, " second"]
    listed: bool = False

    @classmethod
    def between(cls, X: np.ndarray, Y: np.ndarray | None = None) -> Pairs:
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
    def in_turn(cls, X: np.ndarray, Y: np.ndarray) -> Pairs:
        """Each input of `X` with that in the same place of `Y`."""
        both = np.concatenate([X, Y]) + 0.0
        at, places = _different(both)
        return cls(both[at], places[: len(X)], places[len(X) :], listed=True)

    @property
    def _begin(self) -> int:
        """Where the second inputs of a rectangle begin."""
        return int(self.second.min())

    @property
    def is_square(self) -> bool:
        """Whether every input is paired with every input."""
        return not self.listed and self._begin == 0 and int(self.first.max()) + 1 == len(self.x)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of all different pairs."""
        if self.listed:
            return self.first.shape
        return int(self.first.max()) + 1, len(self.x) - self._begin

    def tiles(self) -> Iterator[Tile]:
        """All pairs of different inputs; of a square the upper triangle."""
        if self.listed:
            rest = np.flatnonzero(self.first != self.second)
            size = min(TILE, max(256, _GATHERED // self.x.shape[1]))
            for start in range(0, len(rest), size):
                here = rest[start : start + size]
                yield Tile(self.first[here], self.second[here], here)
        elif self.is_square:
            yield from strips(len(self.x))
        else:
            begin, (height, width) = self._begin, self.shape
            across = min(width, max(_BLOCK, TILE // height))
            down = max(1, TILE // across)
            for a in range(0, height, down):
                for b in range(0, width, across):
                    rows, columns = (
                        slice(a, min(a + down, height)),
                        slice(b, min(b + across, width)),
                    )
                    moved = slice(begin + columns.start, begin + columns.stop)
                    yield Tile(rows, moved, (rows, columns))

    def fill(self, target: np.ndarray, tile: Tile, values: np.ndarray) -> None:
        """Put the values of a tile where they belong."""
        target[tile.place] = values
        if self.is_square:
            target[tile.place[::-1]] = values.T

    def fill_known(self, target: np.ndarray, diagonal: Float[np.ndarray, " input"]) -> None:
        """Put in what the inputs have with themselves."""
        if self.listed:
            same = np.flatnonzero(self.first == self.second)
            target[same] = diagonal[self.first[same]]
        else:
            same = np.arange(self._begin, self.shape[0])
            target[same, same - self._begin] = diagonal[same]

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
        """What was asked for, out of the square of all different inputs."""
        return square[:, self.first if self.listed else self.first[:, None], self.second]


def _different(x: np.ndarray) -> tuple[Int[np.ndarray, " different"], Int[np.ndarray, " input"]]:
    """Where each different input stands first, and which of them each input is."""
    known: dict[bytes, int] = {}
    places = np.array([known.setdefault(row.tobytes(), len(known)) for row in x], dtype=np.int64)
    return np.unique(places, return_index=True)[1], places
