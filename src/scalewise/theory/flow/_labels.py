"""Labels of the nodes of a network on some inputs: on a tile of pairs, over all pairs, and the means there."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scalewise.gaussian.spi import KernelMap, Other, Places
from scalewise.networks.spi import Program, fixed_fields
from scalewise.theory.flow._attention import MOST_HEADS, Mixing
from scalewise.theory.flow._maps import NormMap
from scalewise.theory.flow._means import Mean, mean_at
from scalewise.theory.flow._positions import Crossed, axes_of
from scalewise.theory.flow._room import Pair, Room

Inputs = slice | np.ndarray
_NOWHERE: Any = (None, None, (), {})


@dataclass
class Labels:
    """Labels of the nodes of a network on some inputs, and arrays for what stands at pairs of them on a tile.

    Args:
        program: The nodes.
        x: (inputs, *positions, features).
        ntk: Whether tangents are wanted.
        crossed: For each node and axis whether positions are paired each with each.
        maps: Of each activation, norm and attention, by node, on all labels; made where they are missing when
            inputs meet themselves.
        shifts: Of positions that are not crossed, see `Places`.
        heads: How many are drawn of an attention whose heads do not grow, at most.
        tile: The tile at hand, and the labels of nodes there, by layout.
    """

    program: Program
    x: np.ndarray
    ntk: bool
    crossed: list[Crossed]
    maps: dict[int, KernelMap | NormMap | Mixing] = field(default_factory=dict)
    means: dict[int, Mean] = field(default_factory=dict)
    maps_of_two: dict[tuple[int, int], KernelMap] = field(default_factory=dict)
    room: Room | None = None
    scramble: int = 0
    heads: int = MOST_HEADS
    shifts: tuple[int, ...] = ()
    tile: tuple[Inputs | None, Inputs | None, tuple[int, ...], dict[Any, Places]] = _NOWHERE

    @cached_property
    def fixed(self) -> dict[int, np.ndarray]:
        """Fields without weights."""
        return fixed_fields(self.program, self.x)

    def mean(self, node: int) -> Mean:
        """The mean of a field over channels, at all labels; ``None`` for 0."""
        if node not in self.means:
            if node in self.program.fixed:
                self.means[node] = self.fixed[node].mean(axis=-1).ravel()
            else:
                self.means[node] = mean_at(
                    self.program, node, self.known, self.mean, self.fixed.__getitem__
                )
        return self.means[node]

    def known(self, node: int) -> Mean:
        """Variances that enter an activation, or means that leave a norm."""
        made = self.maps[node]
        return made.mean if isinstance(made, NormMap) else made.K

    def places(self, node: int, rows: Inputs, columns: Inputs, other: int | None = None) -> Places:
        """The labels of a node on a tile, or of one and another one."""
        positions, crossed = self.program.positions, self.crossed[node]
        if not (self.tile[0] is rows and self.tile[1] is columns and self.tile[2] == self.shifts):
            self.tile = rows, columns, self.shifts, {}
        if other in (None, node):
            layout, made = (positions[node], crossed), self.tile[3]
            if layout not in made:
                made[layout] = Places(rows, columns, *layout, self.shifts)
            return made[layout]
        counts = [len(self.x) * math.prod(positions[k]) for k in sorted((node, other))]
        halves = slice(0, counts[0]), slice(counts[0], sum(counts))
        beyond = Other(positions[other], *(halves if node < other else halves[::-1]))
        return Places(rows, columns, positions[node], crossed, other=beyond)

    @cached_property
    def labels_of_pair(self) -> int:
        """The most pairs of labels that two inputs have at a node."""
        one = np.zeros(1, dtype=np.int64)
        return max(
            math.prod(self.places(k, one, one).shape) for k in range(len(self.program.nodes))
        )

    @property
    def arrays(self) -> Room:
        """Where arrays are taken from."""
        assert self.room is not None
        return self.room

    def own(self, pair: Pair, spare: bool) -> Pair:
        """Arrays to write over: those of a field that nobody else reads, or copies."""
        if spare:
            return pair
        return pair.each(self.copied)

    def copied(self, array: np.ndarray) -> np.ndarray:
        """A copy of the numbers in an array of their own."""
        copy = self.arrays.take(array.shape)
        copy[...] = array
        return copy

    def at_own_place(self, pair: Pair, at: Places) -> None:
        """Nothing in common at different places."""
        axes = [axis for axis in axes_of(at) if axis[1] is not None]
        for first, second in axes:
            assert second is not None
            shape = [1] * pair.C.ndim
            shape[first] = shape[second] = pair.C.shape[first]
            same = np.eye(pair.C.shape[first]).reshape(shape)
            for tile in pair:
                if tile is not None:
                    tile *= same

    def laid_out(self, blocks: np.ndarray, at: Places) -> np.ndarray:
        """Positions of every pair of inputs as a tile."""
        out = self.arrays.take(at.shape)
        out[...] = blocks.reshape(at.shape)
        return out

    def laid(self, whole: Pair, at: Places) -> Pair:
        """Matrices over all labels as tiles."""
        inputs = len(self.x)

        def tile(A: np.ndarray) -> np.ndarray:
            shape = inputs, len(A) // inputs, inputs, A.shape[1] // inputs
            return self.laid_out(A.reshape(shape).swapaxes(1, 2), at)

        return whole.each(tile)

    def matrices(self, pair: Pair, at: Places) -> Pair:
        """Over all labels, of a tile of all inputs and positions."""
        labels = len(self.x) * math.prod(at.positions)
        return pair.each(lambda tile: blocks(tile, at).swapaxes(1, 2).reshape(labels, -1))

    def gram(self, left: np.ndarray, right: np.ndarray, at: Places, out: np.ndarray) -> np.ndarray:
        """Products of what is fixed, (input, *positions, feature), averaged over features."""
        left, right = left[at.rows], at.shifted(right[at.columns], 1)
        features = left.shape[-1]
        if at.by_rows and not at.positions:
            np.matmul(left, right.T, out=out)
        elif at.positions and all(at.crossed):
            a = left.reshape(len(left), *(1,) * at.by_rows, -1, features)
            b = right.reshape(len(right), -1, features)
            shape = *out.shape[: 1 + at.by_rows], a.shape[-2], b.shape[-2]
            np.matmul(a, b.swapaxes(1, 2), out=out.reshape(shape))
        else:
            axes = "abcdefg"[: left.ndim - 2]
            second = "".join(
                a.upper() if each else a for a, each in zip(axes, at.crossed, strict=True)
            )
            beyond = "".join(a for a in second if a.isupper())
            other = "m" * at.by_rows
            path = f"n{axes}z,{other or 'n'}{second}z->n{other}{axes}{beyond}"
            np.einsum(path, left, right, out=out)
        out /= features
        return out

    def outer(self, one: int, other: int, at: Places, out: np.ndarray) -> Pair | None:
        """The covariance of fields that have nothing in common but their means."""
        means = [self.mean(k) for k in (one, other)]
        if means[0] is None or means[1] is None:
            return None
        left, right = (
            m.reshape(len(self.x), *self.program.positions[k], 1)
            for k, m in zip((one, other), means, strict=True)
            if m is not None
        )
        return Pair(self.gram(left, right, at, out), None)

    def zeros(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of zeros."""
        array = self.arrays.take(shape)
        array.fill(0.0)
        return array


def blocks(tile: np.ndarray, at: Places) -> np.ndarray:
    """Positions of the first and of the second input in one axis each."""
    return tile.reshape(*at.shape[: 1 + at.by_rows], math.prod(at.positions), math.prod(at.beyond))
