r"""The kernel and the NTK of every field of a network on a tile of pairs: the program at infinite width.

With $C=\langle xx'\rangle$ the covariance of a field over pairs of labels and $T$ that of its tangents, averages
over channels at infinite width,
$$\begin{aligned}
\text{random layer}&\quad C'=C_b+C_W\mathcal LC,\quad T'=\lambda_b+\lambda_W\mathcal LC+C_W\mathcal LT,\\
\text{activation}&\quad C'=\langle\sigma\sigma\rangle_C,\quad T'=\langle\sigma'\sigma'\rangle_CT,\\
\text{sum}&\quad\textstyle\sum_mf_m^2C_m,\ \sum_mf_m^2T_m,\qquad\text{fixed map}\quad BCB^T,\ BTB^T,\\
\text{norm}&\quad C'_{st}=C_{st}/\sqrt{(C_{ss}+\epsilon)(C_{tt}+\epsilon)},\quad T'_{st}\text{ likewise}.
\end{aligned}$$
The two of a preactivation are $K$ and $\Theta$. A tile passes through all nodes while it is in cache, in place
where nobody else reads what a node reads.

Source: PDLT (4.118), (8.63); with skip connections (B.9), (B.11), their NTK derived; with site matrices
    $\mathcal LA=\sum_\tau B_\tau AB_\tau^T$ derived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from scalewise.gaussian import KernelMap, Places
from scalewise.networks._program import Draw, Norm, Pointwise, Program, Source, Spread, Sum
from scalewise.networks._sites import Matrix, Taps
from scalewise.theory.flow._maps import NormMap, map_of
from scalewise.theory.flow._positions import Crossed, axes_of, convolved, mixed

Inputs = slice | np.ndarray
_BLOCK = 4  # arrays: what a chain of layers needs at once


class Pair(NamedTuple):
    """C and T of a field on a tile; no T where it is 0 or not wanted."""

    C: np.ndarray
    T: np.ndarray | None

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Pair:
        """The same function of both."""
        return Pair(change(self.C), None if self.T is None else change(self.T))


@dataclass
class Room:
    """Flat arrays of one size, handed out and taken back: fresh ones would cost page faults on every tile.

    They are cut out of blocks: the larger a block is, the larger the pages that the system hands out.
    """

    size: int
    free: list[np.ndarray] = field(default_factory=list)
    rows: dict[int, np.ndarray] = field(default_factory=dict)
    scratch: list[np.ndarray] = field(default_factory=list)
    shaped: dict[tuple[int, ...], list[np.ndarray]] = field(default_factory=dict)

    def take(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of a shape; what is in it means nothing."""
        if not self.free:
            self.free = list(np.empty((_BLOCK, self.size)))
            self.rows |= {_address(row): row for row in self.free}
        return self.free.pop()[: math.prod(shape)].reshape(shape)

    def work(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Arrays for who is done with them at once."""
        self.scratch = self.scratch or list(np.empty((KernelMap.scratch, self.size)))
        if shape not in self.shaped:
            count = math.prod(shape)
            self.shaped[shape] = [row[:count].reshape(shape) for row in self.scratch]
        return self.shaped[shape]

    def give(self, *arrays: np.ndarray | None) -> None:
        """Take back arrays that nobody reads any more."""
        self.free += [self.rows[_address(array)] for array in arrays if array is not None]


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@dataclass
class Fields:
    """A network on some inputs.

    Args:
        program: The nodes.
        x: (inputs, *positions, features).
        ntk: Whether tangents are wanted.
        crossed: For each node and axis whether positions are paired each with each.
        maps: Of each activation and norm, by node, on all labels; made where they are missing when inputs meet
            themselves.
    """

    program: Program
    x: np.ndarray
    ntk: bool
    crossed: list[Crossed]
    maps: dict[int, KernelMap | NormMap] = field(default_factory=dict)
    room: Room | None = None

    def places(self, node: int, rows: Inputs, columns: Inputs) -> Places:
        """The labels of a node on a tile."""
        return Places(rows, columns, self.program.positions[node], self.crossed[node])

    @property
    def labels_of_pair(self) -> int:
        """The most pairs of labels that two inputs have at a node."""
        one = np.zeros(1, dtype=np.int64)
        return max(
            math.prod(self.places(k, one, one).shape) for k in range(len(self.program.nodes))
        )

    def along(self, rows: Inputs, columns: Inputs, last: int) -> Iterator[tuple[int, Pair]]:
        """Take a tile of inputs through the nodes up to `last`, and yield each while it is there."""
        program, kept = self.program, {}
        layouts = list(zip(program.positions, self.crossed, strict=True))[: last + 1]
        different = {layout: Places(rows, columns, *layout) for layout in dict.fromkeys(layouts)}
        shapes = [different[layout] for layout in layouts]
        size = max(math.prod(at.shape) for at in different.values())
        if self.room is None or self.room.size < size:
            self.room = Room(size)
        for here, at in enumerate(shapes):
            node = program.nodes[here]
            below = [kept[k] for k in node.of]
            spare = [program.last_reader[k] == here for k in node.of]
            if isinstance(node, Source):
                found = Pair(self._gram(at), None)
            elif isinstance(node, Draw):
                found = self._drawn(node, below[0], spare[0], here, rows, columns)
            elif isinstance(node, Pointwise | Norm):
                found = self._mapped(node, below[0], spare[0], here, at)
            elif isinstance(node, Sum):
                found = self._summed(node, below, spare)
            else:
                found = self._spread(node, below[0], spare[0], here, rows, columns)
            for k, free in zip(node.of, spare, strict=True):
                if free:
                    del kept[k]
            kept[here] = found
            yield here, found
        for pair in kept.values():
            self._room.give(*pair)

    @property
    def _room(self) -> Room:
        assert self.room is not None
        return self.room

    def _own(self, pair: Pair, spare: bool) -> Pair:
        """Arrays to write over: those of a field that nobody else reads, or copies."""
        if spare:
            return pair
        return pair.each(self._copied)

    def _copied(self, array: np.ndarray) -> np.ndarray:
        copy = self._room.take(array.shape)
        copy[...] = array
        return copy

    def _gram(self, at: Places) -> np.ndarray:
        """Products of inputs, averaged over features."""
        x, C = self.x, self._room.take(at.shape)
        left, right = x[at.rows], x[at.columns]
        features = x.shape[-1]
        if at.by_rows and not at.positions:
            np.matmul(left, right.T, out=C)
        elif at.positions and all(at.crossed):
            a = left.reshape(len(left), *(1,) * at.by_rows, -1, features)
            b = right.reshape(len(right), -1, features)
            np.matmul(
                a, b.swapaxes(1, 2), out=C.reshape(*C.shape[: 1 + at.by_rows], a.shape[-2], -1)
            )
        else:
            axes = "abcdefg"[: x.ndim - 2]
            second = "".join(
                a.upper() if each else a for a, each in zip(axes, at.crossed, strict=True)
            )
            beyond = "".join(a for a in second if a.isupper())
            other = "m" * at.by_rows
            np.einsum(
                f"n{axes}z,{other or 'n'}{second}z->n{other}{axes}{beyond}", left, right, out=C
            )
        C /= features
        return C

    def _drawn(
        self, node: Draw, below: Pair, spare: bool, here: int, rows: Inputs, columns: Inputs
    ) -> Pair:
        if all(window.is_identity for window in node.windows):
            C, T = self._own(below, spare)
        else:
            C, T = self._moved(node.windows, below, spare, (node.of[0], here), rows, columns)
        own, taps = node.own, node.taps
        if self.ntk:
            if T is None:
                T = self._room.take(C.shape)
                np.multiply(C, own.lambda_W / taps, out=T)
            else:
                T *= own.C_W / taps
                share = self._room.work(C.shape)[0]
                np.multiply(C, own.lambda_W / taps, out=share)
                T += share
            if own.lambda_b:
                T += own.lambda_b
        C *= own.C_W / taps
        if own.C_b:
            C += own.C_b
        return Pair(C, T)

    def _moved(
        self,
        along: tuple[Taps | Matrix, ...],
        below: Pair,
        spare: bool,
        between: tuple[int, int],
        rows: Inputs,
        columns: Inputs,
        *,
        fixed: bool = False,
    ) -> Pair:
        """Both covariances after what a layer does along each axis: of random weights, or of a fixed map."""
        places = Places(rows, columns, self.program.positions[between[0]], self.crossed[between[0]])
        shape = self.places(between[1], rows, columns).shape

        def moved(array: np.ndarray) -> np.ndarray:
            now, mine = array, spare
            for axis, own in enumerate(along):
                if own.is_identity:
                    continue
                size = places.positions[axis]
                left, right = axes_of(places)[axis]
                both = (left,) if right is None else (left, right)
                # Of a fixed map each position moves by itself.
                for axes in [(axis_,) for axis_ in both] if fixed else [both]:
                    out = self._room.take(
                        tuple(own.length(size) if k in axes else n for k, n in enumerate(now.shape))
                    )
                    (mixed if fixed else convolved)(now, own, size, axes, out)
                    if mine:
                        self._room.give(now)
                    now, mine = out, True
            return (now if mine else self._copied(now)).reshape(shape)

        return below.each(moved)

    def _mapped(
        self, node: Pointwise | Norm, below: Pair, spare: bool, here: int, at: Places
    ) -> Pair:
        if here not in self.maps:
            known = at.known
            assert known is not None, "inputs go with themselves first"
            variances = below.C[known.at].ravel()
            self.maps[here] = map_of(node, variances, slope=self.ntk)
        own = self.maps[here]
        if isinstance(own, NormMap):
            found = self._own(below, spare)
            for tile in found:
                if tile is not None:
                    own.apply(at, tile)
            return found
        C = below.C if spare else self._copied(below.C)
        slope = None if below.T is None else self._room.take(C.shape)
        own.apply(at, C, slope, self._room.work(C.shape))
        if slope is not None:
            slope *= below.T
        if spare:
            self._room.give(below.T)
        return Pair(C, slope)

    def _summed(self, node: Sum, below: list[Pair], spare: list[bool]) -> Pair:
        def total(arrays: list[np.ndarray | None]) -> np.ndarray | None:
            found = None
            for array, factor, mine in zip(arrays, node.factors, spare, strict=True):
                if array is None:
                    continue
                part = array if mine else self._room.take(array.shape)
                if factor != 1 or not mine:
                    np.multiply(array, factor * factor, out=part)
                if found is None:
                    found = part
                else:
                    found += part
                    self._room.give(part)
            return found

        C = total([pair.C for pair in below])
        assert C is not None
        return Pair(C, total([pair.T for pair in below]))

    def _spread(
        self, node: Spread, below: Pair, spare: bool, here: int, rows: Inputs, columns: Inputs
    ) -> Pair:
        found = self._moved(node.along, below, spare, (node.of[0], here), rows, columns, fixed=True)
        for array in found:
            if array is not None:
                array *= node.factor * node.factor
        return found
