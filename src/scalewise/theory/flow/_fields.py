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
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from scalewise.gaussian import KernelMap, Places
from scalewise.networks._forward import fixed_fields
from scalewise.networks._program import (
    Attend,
    Concat,
    Draw,
    Dropout,
    Mix,
    Norm,
    Pointwise,
    Product,
    Program,
    Spread,
    Sum,
)
from scalewise.networks._sites import Matrix, Taps
from scalewise.theory.flow._attention import Mixing, drawn_heads
from scalewise.theory.flow._maps import NormMap, map_of
from scalewise.theory.flow._means import Mean, mean_at
from scalewise.theory.flow._positions import Crossed, axes_of, convolved, mixed
from scalewise.theory.flow._room import Pair, Room
from scalewise.theory.flow._units import Units

Inputs = slice | np.ndarray
_NOWHERE: Any = (None, None, (), {})
_NOTHING = (np.empty((0, 0)), None)


@dataclass
class Fields:
    """A network on some inputs.

    Args:
        program: The nodes.
        x: (inputs, *positions, features).
        ntk: Whether tangents are wanted.
        crossed: For each node and axis whether positions are paired each with each.
        maps: Of each activation, norm and attention, by node, on all labels; made where they are missing when
            inputs meet themselves.
        shifts: Of positions that are not crossed, see `Places`.
        tile: The tile at hand, and the labels of nodes there, by layout.
    """

    program: Program
    x: np.ndarray
    ntk: bool
    crossed: list[Crossed]
    maps: dict[int, KernelMap | NormMap | Mixing] = field(default_factory=dict)
    means: dict[int, Mean] = field(default_factory=dict)
    room: Room | None = None
    scramble: int = 0
    shifts: tuple[int, ...] = ()
    tile: tuple[Inputs, Inputs, tuple[int, ...], dict[Any, Places]] = _NOWHERE

    @cached_property
    def fixed(self) -> dict[int, np.ndarray]:
        """Fields without weights."""
        return fixed_fields(self.program, self.x)

    def mean(self, node: int) -> Mean:
        """Of a field over channels, at all labels; ``None`` for 0."""
        if node not in self.means:
            if node in self.program.fixed:
                self.means[node] = self.fixed[node].mean(axis=-1).ravel()
            else:
                self.means[node] = mean_at(self.program, node, self._known, self.mean)
        return self.means[node]

    def _known(self, node: int) -> Mean:
        made = self.maps[node]
        return made.mean if isinstance(made, NormMap) else made.K

    def places(self, node: int, rows: Inputs, columns: Inputs) -> Places:
        """The labels of a node on a tile."""
        if not (self.tile[0] is rows and self.tile[1] is columns and self.tile[2] == self.shifts):
            self.tile = rows, columns, self.shifts, {}
        layout, made = (self.program.positions[node], self.crossed[node]), self.tile[3]
        if layout not in made:
            made[layout] = Places(rows, columns, *layout, self.shifts)
        return made[layout]

    @property
    def labels_of_pair(self) -> int:
        """The most pairs of labels that two inputs have at a node."""
        one = np.zeros(1, dtype=np.int64)
        return max(
            math.prod(self.places(k, one, one).shape) for k in range(len(self.program.nodes))
        )

    def along(
        self,
        rows: Inputs,
        columns: Inputs,
        last: int,
        given: dict[int, Pair] | None = None,
        only: frozenset[int] | None = None,
    ) -> Iterator[tuple[int, Pair]]:
        """Take a tile of inputs through the nodes up to `last`, and yield each while it is there.

        Some may be given, and some left out: then it is through those of `only`.
        """
        program, kept = self.program, dict(given or {})
        shapes = [self.places(here, rows, columns) for here in range(last + 1)]
        size = max(math.prod(at.shape) for at in self.tile[3].values())
        if self.room is None or self.room.size < size:
            self.room = Room(size)
        units = Units(program, len(self.x), self.scramble)
        for here, at in enumerate(shapes):
            if only is not None and here not in only:
                continue
            node = program.nodes[here]
            below = [kept[k] for k in node.of]
            # What a node reads twice is nobody's to write over.
            spare = [program.last_reader[k] == here and node.of.count(k) == 1 for k in node.of]
            if here in program.fixed:
                found = Pair(self._gram(self.fixed[here], at), None)
            elif isinstance(node, Attend | Mix) or here in program.estimated:
                if isinstance(node, Mix):
                    found = self._mixed(self._given(node.of[1]), below[0], at)
                elif isinstance(node, Attend):
                    found = self._attended(node, below, here, shapes)
                else:
                    found = self._estimated(units, here, at)
                for k, free in dict(zip(node.of, spare, strict=True)).items():
                    self._room.give(*kept[k] if free else ())
            elif isinstance(node, Draw):
                found = self._drawn(node, below[0], spare[0], here, rows, columns)
                if not node.shared:
                    self._apart(found, at)
            elif isinstance(node, Pointwise | Norm):
                found = self._mapped(node, below[0], spare[0], here, at)
            elif isinstance(node, Product):
                found = self._multiplied(below, spare)
            elif isinstance(node, Dropout):
                found = self._dropped(node, below[0], spare[0], at)
            elif isinstance(node, Sum | Concat):
                found = self._summed(node, below, spare, at)
            else:
                assert isinstance(node, Spread)
                found = self._spread(node, below[0], spare[0], here, rows, columns)
            if here in program.sampled and here not in program.estimated:
                whole = self._matrices(found, at) if isinstance(node, Draw) else Pair(*_NOTHING)
                units.add(here, *whole)
            for k, free in zip(node.of, spare, strict=True):
                if free:
                    kept.pop(k, None)
                    units.forget(k)
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

    def _estimated(self, units: Units, here: int, at: Places) -> Pair:
        """Averages over channels that are drawn, at all labels at once."""
        units.add(here, *_NOTHING)
        self.means[here] = units.mean(here)
        found, inputs = Pair(*units.averages(here, ntk=self.ntk)), len(self.x)
        return found.each(
            lambda A: self._laid_out(
                A.reshape(inputs, -1, inputs, len(A) // inputs).swapaxes(1, 2), at
            )
        )

    def _attended(self, node: Attend, below: list[Pair], here: int, shapes: list[Places]) -> Pair:
        """Averages over positions, with weights that do not fluctuate, or of heads that are drawn."""
        at = shapes[here]
        if not node.grows:
            Cs, Ts = zip(*(pair.each(partial(_blocks, at=at)) for pair in below), strict=True)
            found = drawn_heads(node, Cs, Ts if self.ntk else None, (self.scramble, here))
            self.means[here] = None
            return Pair(*found).each(partial(self._laid_out, at=at))
        if here not in self.maps:
            own = _blocks(below[0].C, shapes[node.of[0]])
            self.maps[here] = self.map_at(here, np.einsum("aapq->apq", own) if at.by_rows else own)
        weights = self.maps[here]
        assert isinstance(weights, Mixing)
        return self._mixed(weights, below[2], at)

    def _given(self, node: int) -> Mixing:
        """Matrices that the inputs give."""
        rows = self.fixed[node]
        return Mixing(rows.reshape(len(rows), -1, rows.shape[-1]), rows)

    def _mixed(self, weights: Mixing, below: Pair, at: Places) -> Pair:
        def averaged(tile: np.ndarray) -> np.ndarray:
            out = self._room.take(at.shape)
            weights.apply(at, tile, out)
            return out

        return below.each(averaged)

    def _apart(self, pair: Pair, at: Places) -> None:
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

    def _dropped(self, node: Dropout, below: Pair, spare: bool, at: Places) -> Pair:
        """A label has the same mask as itself alone."""
        found = self._own(below, spare)
        if at.known is not None:
            for tile in found:
                if tile is not None:
                    tile[at.known.at] /= node.keep
        return found

    def _laid_out(self, blocks: np.ndarray, at: Places) -> np.ndarray:
        """Positions of every pair of inputs as a tile."""
        out = self._room.take(at.shape)
        out[...] = blocks.reshape(at.shape)
        return out

    def _matrices(self, pair: Pair, at: Places) -> Pair:
        """Over all labels, of a tile of all inputs and positions."""
        labels = len(self.x) * math.prod(at.positions)
        return pair.each(lambda tile: _blocks(tile, at).swapaxes(1, 2).reshape(labels, labels))

    def _gram(self, x: np.ndarray, at: Places) -> np.ndarray:
        """Products of what is fixed, averaged over features."""
        C = self._room.take(at.shape)
        left, right = x[at.rows], at.shifted(x[at.columns], 1)
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
        places = self.places(between[0], rows, columns)
        shape = self.places(between[1], rows, columns).shape
        sizes = places.positions
        # Axes that shrink come first, so that nothing on the way is larger than both ends, as the room is.
        order = sorted(range(len(along)), key=lambda k: along[k].length(sizes[k]) / sizes[k])

        def moved(array: np.ndarray) -> np.ndarray:
            now, mine = array, spare
            for axis in order:
                own, size = along[axis], sizes[axis]
                if own.is_identity:
                    continue
                left, right = axes_of(places)[axis]
                both = (left,) if right is None else (left, right)
                # Of a fixed map each position moves by itself.
                for axes in [(axis_,) for axis_ in both] if fixed else [both]:
                    out = self._room.take(
                        tuple(own.length(size) if k in axes else n for k, n in enumerate(now.shape))
                    )
                    if fixed:
                        mixed(now, own, size, axes, out)
                    else:
                        convolved(now, own, size, axes, out, self._shift(axis))
                    if mine:
                        self._room.give(now)
                    now, mine = out, True
            return (now if mine else self._copied(now)).reshape(shape)

        return below.each(moved)

    def _shift(self, axis: int) -> int:
        return self.shifts[axis] if axis < len(self.shifts) else 0

    def _mapped(
        self, node: Pointwise | Norm, below: Pair, spare: bool, here: int, at: Places
    ) -> Pair:
        if here not in self.maps:
            known = at.known
            assert known is not None, "inputs go with themselves first"
            variances = below.C[known.at].ravel()
            self.maps[here] = self.map_at(here, variances)
        own = self.maps[here]
        assert not isinstance(own, Mixing)
        if isinstance(own, NormMap):
            found = self._own(below, spare)
            own.apply(at, *found)
            return found
        C = below.C if spare else self._copied(below.C)
        slope = None if below.T is None else self._room.take(C.shape)
        own.apply(at, C, slope, self._room.work(C.shape))
        if slope is not None:
            slope *= below.T
        if spare:
            self._room.give(below.T)
        return Pair(C, slope)

    def map_at(self, here: int, variances: np.ndarray) -> KernelMap | NormMap | Mixing:
        """The map of an activation or a norm, from the variances of all labels before it; of attention likewise."""
        node = self.program.nodes[here]
        if isinstance(node, Attend):
            return Mixing.attending(variances, node)
        assert isinstance(node, Pointwise | Norm)
        mean = self.mean(node.of[0]) if isinstance(node, Norm) else None
        sites = math.prod(self.program.positions[here])
        return map_of(node, variances, mean, sites=sites, slope=self.ntk)

    def _multiplied(self, below: list[Pair], spare: list[bool]) -> Pair:
        """A product of independent fields: of two after another, so that T goes through all."""
        (C, T), own = below[0], spare[0]
        for (other, its), free in zip(below[1:], spare[1:], strict=True):
            moved = self._room.take(C.shape)
            np.multiply(C, other, out=moved)
            slope = None
            for a, b in ((T, other), (its, C)):
                if a is not None:
                    part = a * b
                    slope = part if slope is None else slope + part
            if slope is not None:
                slope = self._copied(slope)
            if own:
                self._room.give(C, T)
            if free:
                self._room.give(other, its)
            C, T, own = moved, slope, True
        return Pair(C, T)

    def _summed(self, node: Sum | Concat, below: list[Pair], spare: list[bool], at: Places) -> Pair:
        weights = [f * f for f in node.factors] if isinstance(node, Sum) else node.shares

        def total(arrays: list[np.ndarray | None]) -> np.ndarray | None:
            found = None
            for array, weight, mine in zip(arrays, weights, spare, strict=True):
                if array is None:
                    continue
                part = array if mine else self._room.take(array.shape)
                if weight != 1 or not mine:
                    np.multiply(array, weight, out=part)
                if found is None:
                    found = part
                else:
                    found += part
                    self._room.give(part)
            return found

        C = total([pair.C for pair in below])
        assert C is not None
        if isinstance(node, Sum):
            means = [(f, self.mean(k)) for f, k in zip(node.factors, node.of, strict=True)]
            for (f, m), (g, other) in itertools.permutations(means, 2):
                if m is not None and other is not None:
                    C += at.left(f * m) * at.right(g * other)
        return Pair(C, total([pair.T for pair in below]))

    def _spread(
        self, node: Spread, below: Pair, spare: bool, here: int, rows: Inputs, columns: Inputs
    ) -> Pair:
        found = self._moved(node.along, below, spare, (node.of[0], here), rows, columns, fixed=True)
        for array in found:
            if array is not None:
                array *= node.factor * node.factor
        return found


def _blocks(tile: np.ndarray, at: Places) -> np.ndarray:
    """Positions of the first and of the second input in one axis each."""
    sites = math.prod(at.positions)
    return tile.reshape(*at.shape[: 1 + at.by_rows], sites, sites)
