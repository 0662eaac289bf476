r"""The kernel and the NTK of every field of a network on a tile of pairs: the program at infinite width.

With $C=\langle xx'\rangle$ the covariance of a field over pairs of labels and $T$ that of its tangents, averages
over channels at infinite width,
$$\begin{aligned}
\text{random layer}&\quad C'=C_b+C_W\mathcal LC,\quad T'=\lambda_b+\lambda_W\mathcal LC+C_W\mathcal LT,\\
\text{activation}&\quad C'=\langle\sigma\sigma\rangle_C,\quad T'=\langle\sigma'\sigma'\rangle_CT,\\
\text{sum}&\quad\textstyle\sum_mf_m^2C_m+\sum_{m\ne k}f_mf_k\langle x_m\rangle\langle x_k'\rangle,\
  \sum_mf_m^2T_m,\qquad\text{fixed map}\quad BCB^T,\ BTB^T,\\
\text{product}&\quad\textstyle\prod_mC_m,\ \sum_mT_m\prod_{k\ne m}C_k,
  \qquad\text{channels beside each other}\quad\textstyle\sum_m\frac{n_m}nC_m,\ \sum_m\frac{n_m}nT_m,\\
\text{norm}&\quad C'_{st}=C_{st}/\sqrt{(C_{ss}+\epsilon)(C_{tt}+\epsilon)},\quad T'_{st}\text{ likewise}.
\end{aligned}$$
The two of a preactivation are $K$ and $\Theta$. A tile passes through all nodes while it is in cache, in place
where nobody else reads what a node reads.

Source: PDLT (4.118), (8.63); with skip connections (B.9), (B.11), their NTK derived; with site matrices
    $\mathcal LA=\sum_\tau B_\tau AB_\tau^T$ derived.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scalewise.gaussian import KernelMap, Other, Places
from scalewise.networks.spi import (
    Attend,
    Concat,
    Draw,
    Drop,
    Matrix,
    Normalise,
    Pointwise,
    PositionMap,
    Program,
    Stack,
    Sum,
    Taps,
    fixed_fields,
)
from scalewise.theory.flow._attention import MOST_HEADS, Mixing
from scalewise.theory.flow._maps import NormMap, map_of
from scalewise.theory.flow._means import Mean, mean_at
from scalewise.theory.flow._positions import Crossed, axes_of, convolved, mixed
from scalewise.theory.flow._room import Pair, Room

Inputs = slice | np.ndarray
_NOWHERE: Any = (None, None, (), {})
Links = dict[tuple[int, int], Pair | None]  # of different nodes; ``None`` where they are 0


@dataclass
class Rules:
    """Rules by which the nodes of a network on some inputs change the two covariances of a tile.

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
    tile: tuple[Inputs, Inputs, tuple[int, ...], dict[Any, Places]] = _NOWHERE

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

    def given(self, node: int) -> Mixing:
        """Matrices that the inputs give."""
        rows = self.fixed[node]
        return Mixing(rows.reshape(len(rows), -1, rows.shape[-1]), rows)

    def mixed(self, weights: Mixing, below: Pair, at: Places) -> Pair:
        """Positions of each input mixed by a matrix of its own."""

        def averaged(tile: np.ndarray) -> np.ndarray:
            out = self.arrays.take(at.shape)
            weights.apply(at, tile, out)
            return out

        return below.each(averaged)

    def weighed(self, weights: np.ndarray, below: Pair, spare: bool, at: Places) -> Pair:
        """A number for each position of each input."""
        found, own = self.own(below, spare), weights.ravel()
        for tile in found:
            if tile is not None:
                tile *= at.left(own)
                tile *= at.right(own)
        return found

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

    def dropped(self, node: Drop, below: Pair, spare: bool, at: Places) -> Pair:
        """A label has the same mask as itself alone."""
        found = self.own(below, spare)
        if at.known is not None:
            for tile in found:
                if tile is not None:
                    tile[at.known.at] /= node.keep
        return found

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

    def drawn(self, node: Draw, below: Pair, spare: bool, at: Places) -> Pair:
        """A random layer."""
        if all(window.is_identity for window in node.windows):
            C, T = self.own(below, spare)
        else:
            C, T = self.moved(node.windows, below, spare, node.of[0], at)
        own, taps = node.own, node.taps
        if self.ntk:
            if T is None:
                T = self.arrays.take(C.shape)
                np.multiply(C, own.lambda_W / taps, out=T)
            else:
                T *= own.C_W / taps
                share = C
                if own.lambda_W != taps:
                    share = self.arrays.work(C.shape)[0]
                    np.multiply(C, own.lambda_W / taps, out=share)
                T += share
            if own.lambda_b:
                T += own.lambda_b
        C *= own.C_W / taps
        if own.C_b:
            C += own.C_b
        if not node.shared:
            self.at_own_place(Pair(C, T), at)
        return Pair(C, T)

    def moved(
        self,
        along: tuple[Taps | Matrix, ...],
        below: Pair,
        spare: bool,
        of: int,
        at: Places,
        *,
        other: tuple[Taps | Matrix, ...] | None = None,
    ) -> Pair:
        """Both covariances after what a layer does along each axis: of random weights, or of a fixed map.

        A fixed map moves each side by itself, the second one by `other`.
        """
        axes = axes_of(self.places(of, at.rows, at.columns))
        sizes = self.program.positions[of]
        # Axes that shrink come first, so that nothing on the way is larger than both ends, as the room is.
        order = sorted(range(len(along)), key=lambda k: along[k].length(sizes[k]) / sizes[k])

        def moved(array: np.ndarray) -> np.ndarray:
            now, mine = array, spare
            for axis in order:
                both = tuple(k for k in axes[axis] if k is not None)
                steps = [(along[axis], both)]
                if other is not None:
                    steps = [
                        (side[axis], (k,)) for side, k in zip((along, other), both, strict=False)
                    ]
                for own, moves in steps:
                    if own.is_identity:
                        continue
                    shape = [own.length(n) if k in moves else n for k, n in enumerate(now.shape)]
                    out = self.arrays.take(tuple(shape))
                    if other is not None:
                        mixed(now, own, moves, out)
                    else:
                        shift = self.shifts[axis] if axis < len(self.shifts) else 0
                        convolved(now, own, moves, out, shift)
                    if mine:
                        self.arrays.give(now)
                    now, mine = out, True
            return (now if mine else self.copied(now)).reshape(at.shape)

        return below.each(moved)

    def mapped(
        self, node: Pointwise | Normalise, below: Pair, spare: bool, here: int, at: Places
    ) -> Pair:
        """An activation or a norm."""
        if here not in self.maps:
            known = at.known
            assert known is not None, "inputs go with themselves first"
            variances = below.C[known.at].ravel()
            self.maps[here] = self.map_at(here, variances)
        own = self.maps[here]
        assert not isinstance(own, Mixing)
        if isinstance(own, NormMap):
            found = self.own(below, spare)
            own.apply(at, *found)
            return found
        C = below.C if spare else self.copied(below.C)
        slope = None if below.T is None else self.arrays.take(C.shape)
        own.apply(at, C, slope, self.arrays.work(C.shape))
        if slope is not None:
            slope *= below.T
        if spare:
            self.arrays.give(below.T)
        return Pair(C, slope)

    def map_at(self, here: int, variances: np.ndarray) -> KernelMap | NormMap | Mixing:
        """The map of an activation or a norm, from the variances of all labels before it; of attention likewise."""
        node = self.program.nodes[here]
        if isinstance(node, Attend):
            mask = self.fixed[node.of[3]].reshape(len(self.x), 1, -1) if len(node.of) > 3 else None
            return Mixing.attending(variances, node, mask)
        assert isinstance(node, Pointwise | Normalise)
        mean = self.mean(node.of[0]) if isinstance(node, Normalise) else None
        there = np.ones((len(self.x), math.prod(self.program.positions[here])))
        if len(node.of) > 1:
            there = self.fixed[node.of[1]].reshape(there.shape)
        return map_of(node, variances, mean, there, slope=self.ntk)

    def multiplied(self, below: list[Pair], spare: list[bool]) -> Pair:
        """A product of independent fields: of two after another, so that T goes through all."""
        (C, T), own = below[0], spare[0]
        for (other, its), free in zip(below[1:], spare[1:], strict=True):
            moved = self.arrays.take(C.shape)
            np.multiply(C, other, out=moved)
            slope = None
            for a, b in ((T, other), (its, C)):
                if a is not None:
                    part = a * b
                    slope = part if slope is None else slope + part
            if slope is not None:
                slope = self.copied(slope)
            if own:
                self.arrays.give(C, T)
            if free:
                self.arrays.give(other, its)
            C, T, own = moved, slope, True
        return Pair(C, T)

    def summed(
        self,
        node: Sum | Concat,
        below: list[Pair],
        spare: list[bool],
        at: Places,
        links: Links,
    ) -> Pair:
        """A sum, with the covariances of its parts; or channels beside each other."""
        weights = [f * f for f in node.factors] if isinstance(node, Sum) else node.shares

        def total(arrays: list[np.ndarray | None]) -> np.ndarray | None:
            found = None
            for array, weight, mine in zip(arrays, weights, spare, strict=True):
                if array is None:
                    continue
                part = array if mine else self.arrays.take(array.shape)
                if weight != 1 or not mine:
                    np.multiply(array, weight, out=part)
                if found is None:
                    found = part
                else:
                    found += part
                    self.arrays.give(part)
            return found

        C, T = total([pair.C for pair in below]), total([pair.T for pair in below])
        assert C is not None
        if isinstance(node, Sum):
            parts = list(zip(node.factors, node.of, strict=True))
            for (f, one), (g, other) in itertools.permutations(parts, 2):
                if (one, other) not in links:
                    m, n = self.mean(one), self.mean(other)
                    if m is not None and n is not None:
                        C += at.left(f * m) * at.right(g * n)
                    continue
                link = links[one, other]
                if link is not None:
                    C += f * g * link.C
                    if link.T is not None:
                        T = self.zeros(C.shape) if T is None else T
                        T += f * g * link.T
        return Pair(C, T)

    def stacked(self, node: Stack, below: list[Pair], at: Places, links: Links) -> Pair:
        """Positions of fields after one another: their covariances block by block."""
        first, second = axes_of(at)[node.axis]
        sizes = [self.program.positions[k][node.axis] for k in node.of]
        starts = np.cumsum([0, *sizes])
        slices = [slice(a, a + size) for a, size in zip(starts, sizes, strict=False)]
        C = self.zeros(at.shape)
        T = self.zeros(at.shape) if any(pair.T is not None for pair in below) else None
        for (i, one), (j, other) in itertools.product(enumerate(node.of), repeat=2):
            if second is None and i != j:
                continue
            block = [slice(None)] * C.ndim
            block[first] = slices[i]
            if second is not None:
                block[second] = slices[j]
            here = tuple(block)
            found: Pair | None
            if i == j:
                found = below[i]
            elif (one, other) in links:
                found = links[one, other]
            else:
                found = self.outer(one, other, at, np.empty(C[here].shape))
            if found is not None:
                C[here] = found.C
                if T is not None and found.T is not None:
                    T[here] = found.T
        return Pair(C, T)

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

    def spread(self, node: PositionMap, below: Pair, spare: bool, at: Places) -> Pair:
        """A fixed map of positions."""
        found = self.moved(node.along, below, spare, node.of[0], at, other=node.along)
        return found.scaled(node.factor * node.factor)


def blocks(tile: np.ndarray, at: Places) -> np.ndarray:
    """Positions of the first and of the second input in one axis each."""
    return tile.reshape(*at.shape[: 1 + at.by_rows], math.prod(at.positions), math.prod(at.beyond))
