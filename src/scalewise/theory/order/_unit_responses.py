r"""How covariances on the way answer to single units, for one input and all later ones.

A unit that is drawn moves the averages of its own layer by what it is more than the mean, $x_sx_t-M_{00}$, and all
later ones by the exact maps of pairs, so that $\delta K_{st}$, $\delta\Theta_{st}$ and $\delta X_{st}$, a field at
$s$ beside a tangent at $t$, are known of each unit at the labels of every layer. What a layer beyond answers with
at second order are averages over units of products of two of them.

Source: derived; first order of von Mises' expansion, forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import sparse

from scalewise.theory.order._layout import Hop, Spreading
from scalewise.theory.order._strips import Kernels, Moments

Block = Float[np.ndarray, "_row _column _unit"]
Labels = Float[np.ndarray, "_label _unit"]
FIRST = ((0, 0), (1, 1), (2, 0), (0, 2))
OF_NTK = ((2, 2), (3, 1), (1, 3))


@dataclass(frozen=True)
class Fresh:
    """Units of one population, (label, unit).

    Args:
        z: Preactivations.
        s: By order, derivatives of the activation.
        y: Tangents; none where the NTK is not wanted.
    """

    z: Labels
    s: tuple[Labels, ...]
    y: Labels | None

    def read(self, hop: Hop, inputs: int) -> Fresh:
        """At the labels that a layer reads."""
        if len(self.z) == inputs * len(hop.at):
            return self
        size = len(self.z) // inputs
        at = (np.arange(inputs)[:, None] * size + hop.at).ravel()
        y = None if self.y is None else self.y[at]
        return Fresh(self.z[at], tuple(s[at] for s in self.s), y)

    def only(self, rows: slice) -> Fresh:
        """Some labels."""
        y = None if self.y is None else self.y[rows]
        return Fresh(self.z[rows], tuple(s[rows] for s in self.s), y)


@dataclass(frozen=True)
class Change:
    r"""What changes between labels of an input and those of some others.

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

    def each(self, function: Any) -> Change:
        """Of every part."""
        parts = (self.K, self.Theta, self.X, self.Y)
        return Change(*(None if part is None else function(part) for part in parts))

    def plus(self, other: Change | None) -> Change:
        """The sum."""
        if other is None:
            return self
        pairs = zip(
            (self.K, self.Theta, self.X, self.Y),
            (other.K, other.Theta, other.X, other.Y),
            strict=True,
        )
        return Change(*(None if a is None or b is None else a + b for a, b in pairs))


@dataclass(frozen=True)
class Alone:
    """Changes of labels with themselves: variances, and a field beside its own tangent."""

    K: Labels
    X: Labels | None


@dataclass(frozen=True)
class Scene:
    """An input, and others with which its labels are paired.

    Args:
        known: The network at infinite width.
        a: The input.
        last: The last of the others, the first of which is itself.
        moments: By layer, on these pairs.
        Theta: Likewise.
        maps: By layer and by what it is lifted from, on pairs of labels.
    """

    known: Kernels
    a: int
    last: int
    moments: dict[int, Moments]
    Theta: dict[int, np.ndarray]
    maps: dict[tuple[int, int], sparse.csr_array | None]

    @property
    def inputs(self) -> int:
        """Of the second labels."""
        return self.last + 1 - self.a

    def rows(self, size: int) -> slice:
        """The first labels."""
        return slice(self.a * size, (self.a + 1) * size)

    def columns(self, size: int) -> slice:
        """The second ones."""
        return slice(self.a * size, (self.last + 1) * size)


def scene(known: Kernels, a: int, last: int, orders: Sequence[tuple[int, int]], *, ntk: bool) -> Scene:  # fmt: skip
    """The pairs of an input with itself and with some later ones."""
    own = known.layout
    moments, Theta, maps = {}, {}, dict[tuple[int, int], sparse.csr_array | None]()
    for hop in own.hops:
        columns = slice(0, (last + 1 - a) * len(hop.at))
        found = known.moments(hop, a, (*FIRST, *orders))
        moments[hop.draw] = {pq: values[:, columns] for pq, values in found.items()}
        if ntk:
            Theta[hop.draw] = known.strip(known.Theta, hop.lifts, a)[:, columns]
        maps[hop.draw, -1] = None if hop.draw not in read(known) else _on_pairs(hop.taps, a, last)
        for j, lift in hop.lifts.items():
            maps[hop.draw, j] = _on_pairs(lift, a, last)
    return Scene(known, a, last, moments, Theta, maps)


def read(known: Kernels) -> set[int]:
    """Random layers that others read."""
    return set[int]().union(*(hop.lifts for hop in known.layout.hops))


def _on_pairs(own: Spreading, a: int, last: int) -> sparse.csr_array | None:
    """On pairs of labels; ``None`` where nothing is changed."""
    if own.is_plain:
        return None
    parts = [
        sparse.kron(own.of_input(one, a), own.of_input(one, a, last), format="csr")
        for one in own.maps
    ]
    return sparse.csr_array(sum(parts[1:], parts[0]))


def responses(at: Scene, root: int, units: Fresh, alone: dict[int, Alone] | None) -> Iterator[tuple[Hop, Change, Alone, Alone]]:  # fmt: skip
    """Each layer that reads what units move, with what they move, alone at the first and at the second labels.

    Args:
        at: The labels.
        root: Their population.
        units: The units.
        alone: By layer, changes of all labels with themselves; where there is none yet, of one input alone, they are
            read off.
    """
    own, moved = at.known.layout, dict[int, Change]()
    later = read(at.known)
    for hop in own.hops:
        parts = [_lifted(at, hop, j, moved[j]) for j in hop.lifts if j in moved]
        answer: Change | None = None
        if parts:
            change = parts[0]
            for part in parts[1:]:
                change = change.plus(part)
            first, second = _alone(at, hop, change, alone)
            yield hop, change, first, second
            answer = _answered(at, hop, change, first, second) if hop.draw in later else None
        if hop.draw not in later:
            continue
        if hop.root == root:
            answer = _own(at, hop, units).plus(answer)
        if answer is not None:
            moved[hop.draw] = _made(at, hop, answer)


def _alone(
    at: Scene, hop: Hop, change: Change, alone: dict[int, Alone] | None
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


def _lifted(at: Scene, hop: Hop, j: int, change: Change) -> Change:
    own, lift = at.maps[hop.draw, j], hop.lifts[j]
    return change if own is None else change.each(lambda part: _on(own, part, lift, at.inputs))


def _on(own: sparse.csr_array, part: Block, through: Spreading, inputs: int) -> Block:
    made, read = through.sizes
    found = own @ part.reshape(read * inputs * read, -1)
    return found.reshape(made, made * inputs, -1)


def _own(at: Scene, hop: Hop, units: Fresh) -> Change:
    """What units are themselves."""
    size = len(hop.at)
    here = units.read(hop, at.known.layout.inputs)
    s, t = here.only(at.rows(size)), here.only(at.columns(size))
    M = at.moments[hop.draw]
    found = Change(_pairs(s.s[0], t.s[0]) - M[0, 0][..., None])
    if s.y is None or t.y is None:
        return found
    slopes = _pairs(s.s[1], t.s[1]) - M[1, 1][..., None]
    slopes *= at.Theta[hop.draw][..., None]
    X, Y = _pairs(s.s[0], t.s[1] * t.y), _pairs(s.s[1] * s.y, t.s[0])
    return replace(found, Theta=slopes, X=X, Y=Y)


def _pairs(s: Labels, t: Labels) -> Block:
    return s[:, None] * t


def _answered(at: Scene, hop: Hop, change: Change, first: Alone, second: Alone) -> Change:
    """The linear answer of averages."""
    M = {pq: values[..., None] for pq, values in at.moments[hop.draw].items()}
    a, b = first.K[:, None], second.K
    found = Change(0.5 * M[2, 0] * a + M[1, 1] * change.K + 0.5 * M[0, 2] * b)
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


def _made(at: Scene, hop: Hop, answer: Change) -> Change:
    """The covariances of the next layer."""
    own, rates = at.maps[hop.draw, -1], hop.node.own
    carried = (
        answer if own is None else answer.each(lambda part: _on(own, part, hop.taps, at.inputs))
    )
    found = carried.each(lambda part: rates.C_W * part)
    if found.Theta is None:
        return found
    return replace(found, Theta=found.Theta + rates.lambda_W * carried.K)
