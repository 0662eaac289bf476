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

import numpy as np

from scalewise.gaussian.spi import KernelMap, Places
from scalewise.networks.spi import (
    Attend,
    Concat,
    Draw,
    Drop,
    Matrix,
    Normalise,
    Pointwise,
    PositionMap,
    Stack,
    Sum,
    Taps,
)
from scalewise.theory.flow._attention import Mixing
from scalewise.theory.flow._labels import Labels
from scalewise.theory.flow._maps import NormMap, map_of
from scalewise.theory.flow._positions import axes_of, convolved, mixed
from scalewise.theory.flow._room import Pair

Links = dict[tuple[int, int], Pair | None]  # of different nodes; ``None`` where they are 0


class Rules(Labels):
    """Rules by which the nodes of a network on some inputs change the two covariances of a tile."""

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

    def dropped(self, node: Drop, below: Pair, spare: bool, at: Places) -> Pair:
        """A label has the same mask as itself alone."""
        found = self.own(below, spare)
        if at.known is not None:
            for tile in found:
                if tile is not None:
                    tile[at.known.at] /= node.keep
        return found

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

    def spread(self, node: PositionMap, below: Pair, spare: bool, at: Places) -> Pair:
        """A fixed map of positions."""
        found = self.moved(node.along, below, spare, node.of[0], at, other=node.along)
        return found.scaled(node.factor * node.factor)
