"""The two covariances of a field on a tile, and the arrays that they are kept in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from scalewise.gaussian.spi import KernelMap

_SMALLER = 16  # times
_BLOCK = 4  # arrays: what a chain of layers needs at once


class Pair(NamedTuple):
    """C and T of a field on a tile; no T where it is 0 or not wanted."""

    C: np.ndarray
    T: np.ndarray | None

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Pair:
        """One function of both."""
        return Pair(change(self.C), None if self.T is None else change(self.T))

    def scaled(self, factor: float) -> Pair:
        """Both times a number, in place."""
        for tile in self:
            if tile is not None and factor != 1.0:
                tile *= factor
        return self


@dataclass
class Room:
    """Flat arrays of a few sizes, handed out and taken back: fresh ones would cost page faults on every tile.

    They are cut out of blocks: the larger a block is, the larger the pages that the system hands out. Who needs a
    sixteenth of one gets a smaller one.
    """

    size: int
    free: dict[int, list[np.ndarray]] = field(default_factory=dict)
    rows: dict[int, np.ndarray] = field(default_factory=dict)
    scratch: list[np.ndarray] = field(default_factory=list)
    shaped: dict[tuple[int, ...], list[np.ndarray]] = field(default_factory=dict)

    def take(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of a shape; what is in it means nothing."""
        count, size = math.prod(shape), self.size
        while 0 < count <= size // _SMALLER:
            size //= _SMALLER
        free = self.free.setdefault(size, [])
        if not free:
            free += list(np.empty((_BLOCK, size)))
            self.rows |= {_address(row): row for row in free}
        return free.pop()[:count].reshape(shape)

    def work(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Arrays for who is done with them at once."""
        self.scratch = self.scratch or list(np.empty((KernelMap.scratch, self.size)))
        if shape not in self.shaped:
            count = math.prod(shape)
            self.shaped[shape] = [row[:count].reshape(shape) for row in self.scratch]
        return self.shaped[shape]

    def give(self, *arrays: np.ndarray | None) -> None:
        """Take back arrays that nobody reads any more."""
        for array in arrays:
            if array is not None:
                row = self.rows[_address(array)]
                self.free[len(row)].append(row)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
