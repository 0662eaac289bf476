r"""Pairs of positions one shift after another, where in the end a pool adds them all.

Random layers, activations and norms take positions $(s,s+o)$ to positions $(s',s'+o)$ with the same $o$, as long as
windows move by one position: $\sum_\tau B_\tau AB_\tau^T$ moves both of a pair. So a tile of one shift $o$ along
the first axes passes through these layers while it is in cache, and a pool over all positions adds up what comes
out. Of an input with itself $o$ and $-o$ come out the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from scalewise.networks.spi import (
    Attend,
    Draw,
    Matrix,
    Max,
    Mix,
    PositionMap,
    Program,
    Taps,
    Window,
)
from scalewise.theory.flow._fields import Fields, Inputs
from scalewise.theory.flow._positions import crossings
from scalewise.theory.flow._room import Pair

_LARGEST = 1 << 16  # numbers of a pair of inputs that stay in cache


@dataclass(frozen=True)
class Shifts:
    """The first layers of a program, whose positions are paired one shift after the other.

    Args:
        sizes: Positions along the axes that are shifted; none if nothing is.
        before: The nodes that have these, and the pools behind them.
        pools: Nodes that add up all shifts.
    """

    sizes: tuple[int, ...] = ()
    before: frozenset[int] = frozenset()
    pools: frozenset[int] = frozenset()

    @classmethod
    def along(cls, program: Program, wanted: list[int], axes: int) -> Shifts | None:
        """Shifts along the first axes; ``None`` if the program does not allow it.

        Args:
            program: The nodes.
            wanted: Nodes of which all pairs of positions are wanted.
            axes: How many.
        """
        cut = [sizes[:axes] for sizes in program.positions]
        different = {sizes for sizes in cut if math.prod(sizes) > 1}
        if (
            len(different) != 1
            or program.sampled
            or program.links
            or any(math.prod(cut[k]) > 1 for k in wanted)
        ):
            return None
        (sizes,) = different
        pools: set[int] = set()
        for here, node in enumerate(program.nodes):
            for below in node.of:
                if cut[below] != sizes:
                    if cut[here] == sizes:
                        return None
                elif cut[here] == sizes:
                    if here not in program.fixed and not _keeps_shifts(program, here, axes):
                        return None
                elif here in program.fixed or not _adds_up(program, here, below, axes):
                    return None
                else:
                    pools.add(here)
        before = {here for here, own in enumerate(cut) if own == sizes}
        return cls(sizes, frozenset(before | pools), frozenset(pools)) if pools else None

    @classmethod
    def of(cls, program: Program, wanted: list[int]) -> Shifts:
        """As few axes as make tiles small enough.

        Args:
            program: The nodes.
            wanted: Nodes of which all pairs of positions are wanted.
        """
        found = cls()
        if not any(program.positions):
            return found
        for axes in range(max(map(len, program.positions)) + 1):
            here = cls.along(program, wanted, axes) if axes else cls()
            if here is None:
                break
            found = here
            if _labels(program, wanted, axes) <= _LARGEST:
                break
        return found

    def through(
        self, fields: Fields, rows: Inputs, columns: Inputs, last: int
    ) -> Iterator[tuple[int, Pair]]:
        """As `Fields.along`; nodes before a pool as they are at equal positions.

        Args:
            fields: The program on some inputs.
            rows: Which inputs are the first of a pair.
            columns: Which are the second.
            last: The last node that is wanted.
        """
        if not self.pools or last < min(self.pools):
            yield from fields.along(rows, columns, last)
            return
        pools = [pool for pool in self.pools if pool <= last]
        alike = not (isinstance(rows, slice) or isinstance(columns, slice)) and np.array_equal(
            rows, columns
        )
        sums: dict[int, Pair] = {}
        for shifts, weight in self._all(alike):
            fields.shifts = shifts
            for here, pair in fields.along(rows, columns, last, only=self.before):
                if here in self.pools:
                    _add(sums, here, pair, weight, fields)
                elif not any(shifts):
                    yield here, pair
        fields.shifts = ()
        for pool in sorted(pools):
            yield pool, sums[pool]
        rest = frozenset(range(last + 1)) - self.before
        yield from fields.along(rows, columns, last, sums, rest)

    def _all(self, alike: bool) -> Iterator[tuple[tuple[int, ...], int]]:
        """Every shift, none first; of two that come out the same one, twice."""
        for shifts in product(*map(range, self.sizes)):
            back = tuple(-shift % size for shift, size in zip(shifts, self.sizes, strict=True))
            if not alike or shifts <= back:
                yield shifts, 2 if alike and shifts != back else 1


def _add(sums: dict[int, Pair], here: int, pair: Pair, weight: int, fields: Fields) -> None:
    """Into an array of the room."""
    if here not in sums:
        assert fields.room is not None
        sums[here] = pair.each(lambda A: fields.room.take(A.shape))  # pyright: ignore
        for target in sums[here]:
            if target is not None:
                target.fill(0.0)
    for target, values in zip(sums[here], pair, strict=True):
        if target is not None and values is not None:
            target += weight * values


def _labels(program: Program, wanted: list[int], shifted: int) -> int:
    """The most pairs of labels that two inputs have at a node."""
    crossed = crossings(program, wanted, shifted)
    return max(
        math.prod(size * size if each else size for size, each in zip(sizes, own, strict=True))
        for sizes, own in zip(program.positions, crossed, strict=True)
    )


def _keeps_shifts(program: Program, here: int, axes: int) -> bool:
    node = program.nodes[here]
    if isinstance(node, PositionMap):
        return all(own.is_identity for own in node.along[:axes])
    if isinstance(node, Draw):
        return node.shared and all(map(_slides, node.windows[:axes]))
    return not isinstance(node, Attend | Mix | Max)


def _slides(own: Taps | Matrix) -> bool:
    """True if it moves by one position, and has as many places as there are positions."""
    slides = isinstance(own, Window) and own.stride == 1 and own.padding != "valid"
    return own.is_identity or slides


def _adds_up(program: Program, here: int, below: int, axes: int) -> bool:
    node, sizes = program.nodes[here], program.positions[below]
    if not isinstance(node, PositionMap):
        return False
    return all(
        isinstance(own, Window) and own.covers(size)
        for own, size in zip(node.along[:axes], sizes[:axes], strict=True)
    )
