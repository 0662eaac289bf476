r"""How covariances on the way answer to single units, for one input and all later ones.

A unit that is drawn moves the averages of its own layer by what it is more than the mean, $x_sx_t-M_{00}$, and all
later ones by the exact maps of pairs, so that $\delta K_{st}$, $\delta\Theta_{st}$ and $\delta X_{st}$, a field at
$s$ beside a tangent at $t$, are known of each unit at the labels of every layer. What a layer beyond answers with
at second order are averages over units of products of two of them.

Source: derived; first order of von Mises' expansion, forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from scalewise.theory.order._layout import Hop, Spreading
from scalewise.theory.order._strips import Kernels, Moments

Block = Float[np.ndarray, "_row _column _unit"]
Labels = Float[np.ndarray, "_label _unit"]
FIRST = ((0, 0), (1, 1), (2, 0), (0, 2), (1, 0), (0, 1))
OF_NTK = ((2, 2), (3, 1), (1, 3), (2, 1), (1, 2))


@dataclass(frozen=True)
class FreshUnits:
    """Units of one population, (label, unit).

    Args:
        z: Preactivations.
        s: By order, derivatives of the activation.
        y: Tangents; none where the NTK is not wanted.
    """

    z: Labels
    s: tuple[Labels, ...]
    y: Labels | None

    def read(self, hop: Hop, inputs: int) -> FreshUnits:
        """At the labels that a layer reads."""
        if len(self.z) == inputs * len(hop.at):
            return self
        size = len(self.z) // inputs
        at = (np.arange(inputs)[:, None] * size + hop.at).ravel()
        y = None if self.y is None else self.y[at]
        return FreshUnits(self.z[at], tuple(s[at] for s in self.s), y)

    def only(self, rows: slice) -> FreshUnits:
        """Some labels."""
        y = None if self.y is None else self.y[rows]
        return FreshUnits(self.z[rows], tuple(s[rows] for s in self.s), y)


@dataclass(frozen=True)
class UnitChange:
    r"""Changes between labels of an input and those of some others.

    Args:
        K: Covariances.
        Theta: Of tangents.
        X: Of a field and a tangent; fields of the first labels.
        Y: Likewise, fields of the second labels.
    """

    K: Block
    Theta: Block | None = None
    X: Block | None = None
    Y: Block | None = None

    def each(self, function: Any) -> UnitChange:
        """One function of every part."""
        others = (None if part is None else function(part) for part in (self.Theta, self.X, self.Y))
        return UnitChange(function(self.K), *others)

    def plus(self, other: UnitChange | None) -> UnitChange:
        """The sum."""
        if other is None:
            return self
        pairs = ((self.Theta, other.Theta), (self.X, other.X), (self.Y, other.Y))
        others = (None if a is None or b is None else a + b for a, b in pairs)
        return UnitChange(self.K + other.K, *others)


@dataclass(frozen=True)
class Alone:
    """Changes of labels with themselves: variances, and a field beside its own tangent."""

    K: Labels
    X: Labels | None

    def some(self, units: slice) -> Alone:
        """By some units."""
        X = None if self.X is None else np.ascontiguousarray(self.X[:, units])
        return Alone(np.ascontiguousarray(self.K[:, units]), X)


@dataclass(frozen=True)
class UnitScene:
    """An input, and others with which its labels are paired.

    Args:
        known: The network at infinite width.
        a: The input.
        first: The first of the others; itself, or one behind it.
        last: The last of them.
        moments: By layer, on these pairs.
        K: Likewise.
        Theta: Likewise.
        maps: By layer and by what it is lifted from, on pairs of labels; made for parts.
    """

    known: Kernels
    a: int
    first: int
    last: int
    moments: dict[int, Moments]
    K: dict[int, np.ndarray]
    Theta: dict[int, np.ndarray]
    maps: dict[tuple[int, int], sparse.csr_array | None] = field(default_factory=dict)

    @staticmethod
    def of(
        known: Kernels, a: int, last: int, orders: Sequence[tuple[int, int]], *, ntk: bool
    ) -> UnitScene:
        """The pairs of an input with itself and with later ones."""
        moments, K, Theta = {}, {}, {}
        for hop in known.layout.hops:
            columns = slice(0, (last + 1 - a) * len(hop.at))
            moments[hop.draw] = known.moments(hop, a, (*FIRST, *orders), last)
            K[hop.draw] = known.strip(known.K, hop.lifts, a)[:, columns]
            if ntk:
                Theta[hop.draw] = known.strip(known.Theta, hop.lifts, a)[:, columns]
        return UnitScene(known, a, a, last, moments, K, Theta)

    def part(self, first: int, last: int) -> UnitScene:
        """Some of the others, with maps of what is moved there."""
        moments, K, Theta = {}, {}, {}
        maps: dict[tuple[int, int], sparse.csr_array | None] = {}
        later = read(self.known)
        for hop in self.known.layout.hops:
            size = len(hop.at)
            some = slice((first - self.first) * size, (last + 1 - self.first) * size)
            found = self.moments[hop.draw]
            moments[hop.draw] = {pq: np.ascontiguousarray(M[:, some]) for pq, M in found.items()}
            K[hop.draw] = np.ascontiguousarray(self.K[hop.draw][:, some])
            if hop.draw in self.Theta:
                Theta[hop.draw] = np.ascontiguousarray(self.Theta[hop.draw][:, some])
            if hop.draw in later:
                maps[hop.draw, -1] = _on_pairs(hop.taps, self.a, first, last)
            for j, lift in hop.lifts.items():
                maps[hop.draw, j] = _on_pairs(lift, self.a, first, last)
        return UnitScene(self.known, self.a, first, last, moments, K, Theta, maps)

    @property
    def inputs(self) -> int:
        """Inputs of the second labels."""
        return self.last + 1 - self.first

    def rows(self, size: int) -> slice:
        """The first labels."""
        return slice(self.a * size, (self.a + 1) * size)

    def columns(self, size: int) -> slice:
        """The second ones."""
        return slice(self.first * size, (self.last + 1) * size)


def read(known: Kernels) -> set[int]:
    """Random layers that others read."""
    return set[int]().union(*(hop.lifts for hop in known.layout.hops))


def _on_pairs(own: Spreading, a: int, first: int, last: int) -> sparse.csr_array | None:
    """On pairs of labels; ``None`` where nothing is changed."""
    if own.is_plain:
        return None
    parts = [
        sparse.kron(own.of_input(one, a), own.of_input(one, first, last), format="csr")
        for one in own.maps
    ]
    return sparse.csr_array(sum(parts[1:], parts[0]))


def makers(known: Kernels, root: int) -> dict[int, Hop]:
    """Layers that a population moves through one other alone, which no other moves, with that one.

    There changes are known to second order in preactivations exactly.
    """
    own, moved, found = known.layout, dict[int, Hop | None](), dict[int, Hop]()
    for hop in own.hops:
        behind = [moved[j] for j in hop.lifts if j in moved]
        if len(behind) == 1 and behind[0] is not None and hop.lifts[behind[0].draw].is_plain:
            found[hop.draw] = behind[0]
        if behind or hop.root == root:
            moved[hop.draw] = None if behind else hop
    return found


def moved_by(known: Kernels, root: int) -> set[int]:
    """Layers that read what a population moves."""
    moved, found = set[int](), set[int]()
    for hop in known.layout.hops:
        if moved & hop.lifts.keys():
            found.add(hop.draw)
        if moved & hop.lifts.keys() or hop.root == root:
            moved.add(hop.draw)
    return found


def responses(
    at: UnitScene, root: int, units: FreshUnits, alone: dict[int, Alone] | None, *, rest: bool
) -> Iterator[tuple[Hop, UnitChange, Alone, Alone]]:
    """Each layer that reads what units move, with what they move, alone at the first and at the second labels.

    Args:
        at: The labels.
        root: Their population.
        units: The units.
        alone: By layer, changes of all labels with themselves; read off a single input where there are none.
        rest: Whether what is linear or quadratic in preactivations is left out; then layers of `makers` alone.
    """
    own, moved = at.known.layout, dict[int, UnitChange]()
    later, exact = read(at.known), makers(at.known, root)
    for hop in own.hops:
        answer: UnitChange | None = None
        parts = [_lifted(at, hop, j, moved[j]) for j in hop.lifts if j in moved]
        if parts and (hop.draw in exact or not rest):
            change = parts[0]
            for part in parts[1:]:
                change = change.plus(part)
            first, second = _alone(at, hop, change, alone)
            yield hop, change, first, second
            if hop.draw in later and not rest:
                answer = _answered(at, hop, change, first, second)
        if hop.draw not in later:
            continue
        if hop.root == root and not (rest and parts):
            answer = _own(at, hop, units, rest=rest).plus(answer)
        if answer is not None:
            moved[hop.draw] = _made(at, hop, answer)


def _alone(
    at: UnitScene, hop: Hop, change: UnitChange, alone: dict[int, Alone] | None
) -> tuple[Alone, Alone]:
    if alone is None:
        X = None if change.X is None else np.einsum("ppn->pn", change.X)
        found = Alone(np.einsum("ppn->pn", change.K), X)
        return found, found
    size, both = len(hop.at), alone[hop.draw]
    first, second = (
        Alone(both.K[part], None if both.X is None else both.X[part])
        for part in (at.rows(size), at.columns(size))
    )
    return first, second


def _lifted(at: UnitScene, hop: Hop, j: int, change: UnitChange) -> UnitChange:
    own, lift = at.maps[hop.draw, j], hop.lifts[j]
    return change if own is None else change.each(lambda part: _on(own, part, lift, at.inputs))


def _on(own: sparse.csr_array, part: Block, through: Spreading, inputs: int) -> Block:
    made, read = through.sizes
    found = own @ part.reshape(read * inputs * read, -1)
    return found.reshape(made, made * inputs, -1)


def _own(at: UnitScene, hop: Hop, units: FreshUnits, *, rest: bool) -> UnitChange:
    """Units themselves."""
    size, M = len(hop.at), at.moments[hop.draw]
    here = units.read(hop, at.known.layout.inputs)
    s, t = here.only(at.rows(size)), here.only(at.columns(size))
    both = _pairs(s.s[0], t.s[0])
    left = _Less(at, hop, (s, t)) if rest else None
    K = both - M[0, 0][..., None] if left is None else left.of(both, 0)
    if s.y is None or t.y is None:
        return UnitChange(K)
    slopes = _pairs(s.s[1], t.s[1])
    slopes = slopes - M[1, 1][..., None] if left is None else left.of(slopes, 1)
    slopes *= at.Theta[hop.draw][..., None]
    X, Y = _pairs(s.s[0], t.s[1]), _pairs(s.s[1], t.s[0])
    if left is not None:
        left.mixed(X, Y)
    X *= t.y
    Y *= s.y[:, None]
    return UnitChange(K, slopes, X, Y)


class _Less:
    """Products at two labels without what is linear or quadratic in preactivations, in place."""

    def __init__(self, at: UnitScene, hop: Hop, of: tuple[FreshUnits, FreshUnits]) -> None:
        size, variances = len(hop.at), at.known.variances(hop)
        self.s, self.t = (part.z for part in of)
        self.M, self.K = at.moments[hop.draw], at.K[hop.draw]
        self.squares = tuple(
            0.5 * (z * z - variances[part, None])
            for z, part in ((self.s, at.rows(size)), (self.t, at.columns(size)))
        )
        self.odd = not at.known.layout.course.populations[hop.root].sigma.parity
        self.both = _pairs(self.s, self.t)
        self.room = np.empty_like(self.both)

    def _take(self, found: Block, M: np.ndarray, values: np.ndarray) -> None:
        found -= np.multiply(M[..., None], values, out=self.room)

    def of(self, found: Block, p: int) -> Block:
        r"""Products $\sigma^{(p)}_s\sigma^{(p)}_t$, and these without their mean."""
        M = self.M
        found -= (M[p, p] - M[1 + p, 1 + p] * self.K)[..., None]
        self._take(found, M[1 + p, 1 + p], self.both)
        self._take(found, M[2 + p, p], self.squares[0][:, None])
        self._take(found, M[p, 2 + p], self.squares[1])
        if self.odd:
            self._take(found, M[1 + p, p], self.s[:, None])
            self._take(found, M[p, 1 + p], self.t)
        return found

    def mixed(self, X: Block, Y: Block) -> None:
        r"""Products $\sigma_s\sigma'_t$ and $\sigma'_s\sigma_t$, which tangents multiply."""
        M = self.M
        for found, first, second, own in ((X, (1, 1), (0, 2), (0, 1)), (Y, (2, 0), (1, 1), (1, 0))):
            self._take(found, M[first], self.s[:, None])
            self._take(found, M[second], self.t)
            if self.odd:
                found -= M[own][..., None]


def _pairs(s: Labels, t: Labels) -> Block:
    return s[:, None] * t


def _answered(
    at: UnitScene, hop: Hop, change: UnitChange, first: Alone, second: Alone
) -> UnitChange:
    """The linear answer of averages."""
    M = {pq: values[..., None] for pq, values in at.moments[hop.draw].items()}
    a, b = first.K[:, None], second.K
    found = UnitChange(0.5 * M[2, 0] * a + M[1, 1] * change.K + 0.5 * M[0, 2] * b)
    if change.Theta is None or change.X is None or change.Y is None:
        return found
    slopes = 0.5 * M[3, 1] * a + M[2, 2] * change.K + 0.5 * M[1, 3] * b
    slopes *= at.Theta[hop.draw][..., None]
    slopes += M[1, 1] * change.Theta
    assert first.X is not None
    assert second.X is not None
    X = M[1, 1] * change.X + M[0, 2] * second.X
    Y = M[1, 1] * change.Y + M[2, 0] * first.X[:, None]
    return replace(found, Theta=slopes, X=X, Y=Y)


def _made(at: UnitScene, hop: Hop, answer: UnitChange) -> UnitChange:
    """The covariances of the next layer."""
    own, rates = at.maps[hop.draw, -1], hop.node.own
    carried = (
        answer if own is None else answer.each(lambda part: _on(own, part, hop.taps, at.inputs))
    )
    found = carried.each(lambda part: rates.C_W * part)
    if found.Theta is None:
        return found
    return replace(found, Theta=found.Theta + rates.lambda_W * carried.K)
