r"""Every tensor of order 1/n of the next layer on labels of a tile, as the one rule makes it.

A tensor is a component of the covariance of $\Sigma$, or of its mean shift, on labels $x,y$ and $v,w$, which may be
equal. With $R$ the answer of `scalewise.theory.order._terms` to a change at some of a pair's own labels,

$$V'[P,Q]=\mathrm{Cov}\big[F^{P_1}_xF^{P_2}_y,F^{Q_1}_vF^{Q_2}_w\big]+r\sum_{P'Q'}R_P[P']\,R_Q[Q']\,V[P',Q'],$$

and the first part is expectations at four labels times the $\Theta$ that join them.

Source: derived; `scalewise.theory.order._fluctuations` on whole arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from scalewise.theory.spi import (
    TENSORS,
    Change,
    Expectation,
    Noise,
    Pair,
    charge,
    curvature,
    features,
    noise,
    response,
    sources,
    standard,
    standard_pair,
    symmetries,
    wanted,
)
from scalewise.training.tiles._setting import Site
from scalewise.training.tiles._tiles import Families, Labels, Tile, Value, Vertex, multiplied

Factor = Value | float | None
Term = tuple[Factor, ...]
Part = tuple[
    float, Pair
]  # of a pair of jets: a factor, and the pair whose average it stands before
Covariance = tuple[Pair, Pair]


class Tensors:
    """The tensors of all layers on one tile.

    Args:
        stack: The hidden layers, from the first.
        tile: The labels.
        sources: The layers whose width is finite; all if ``None``.
        wide: Tensors on a tile of which this one has the first samples of the second label.
        own: Letters of tensors that are not wanted there; others, and expectations, are parts of what is there.
    """

    def __init__(
        self,
        stack: Sequence[Site],
        tile: Tile,
        *,
        sources: frozenset[int] | None = None,
        wide: Tensors | None = None,
        own: frozenset[str] = frozenset(),
    ) -> None:
        self.stack, self.tile, self.sources = stack, tile, sources
        self._wide = wide
        self._own = {standard(*both).pairs for both in map(_component, own) if both is not None}
        self.answered: dict[tuple[int, Pair, Labels], list[_Answer]] = {}

    def covariance(self, layer: int, first: Pair, second: Pair, labels: Labels) -> Value | None:
        """The covariance of jets of a layer, two labels for either pair; ``None`` if it is 0."""
        if layer == 1:
            return None
        found = standard(first, second)
        if self._wide is not None and found.pairs not in self._own:
            return self._narrowed(self._wide.covariance(layer, first, second, labels))
        at = [labels[:2], labels[2:]]
        sides = zip(reversed(at) if found.swap else at, found.turns, strict=True)
        one, other = (side[::-1] if turned else side for side, turned in sides)

        def make(*names: int) -> Value | None:
            return _total(_Below(self, layer - 1).covariance(found.pairs, names))

        if layer > len(self.stack):  # asked once, and not kept
            return make(*one, *other)
        ways = symmetries(*found.pairs)
        return self.tile.known((found.pairs, layer), (*one, *other), make, ways)

    def shift(self, layer: int, pair: Pair, labels: Labels) -> Value | None:
        """The mean shift of two jets of a layer; ``None`` if it is 0."""
        if layer == 1:
            return None
        if self._wide is not None:
            return self._narrowed(self._wide.shift(layer, pair, labels))
        one, turned = standard_pair(pair)

        def make(*names: int) -> Value | None:
            return _total(_Below(self, layer - 1).shift(one, names))

        return self.tile.known((one, layer), labels[::-1] if turned else labels, make)

    def four(self, site: Site, *vertices: Vertex) -> Value:
        """An expectation of a layer."""
        if self._wide is None:
            return self.tile.four(site, *vertices)
        found = self._narrowed(self._wide.four(site, *vertices))
        assert found is not None
        return found

    def last(self, letter: str, *labels: int) -> np.ndarray:
        """A tensor of the outputs at its full size, with an axis for each of the first labels that it has."""
        layer, both = len(self.stack) + 1, _component(letter)
        if both is None:
            found = self.shift(layer, TENSORS[letter].first, labels)
        else:
            places, printed = TENSORS[letter].printed.split("->")
            found = self.covariance(layer, *both, tuple(labels[printed.index(x)] for x in places))
        shape = tuple(len(row) for row in self.tile.rows[: len(labels)])
        if found is not None and found.shape != shape:
            found = np.broadcast_to(found.reshape(found.shape[: len(labels)]), shape)
        return np.zeros(shape) if found is None else found

    def _narrowed(self, found: np.ndarray | None) -> np.ndarray | None:
        return found if found is None else found[:, : len(self.tile.rows[1])]


class _Answer(NamedTuple):
    """The answer of an average to a change of the layer below: to which, at which labels."""

    value: Value
    pair: Pair
    labels: Labels


class _Below:
    """The layer that a tensor comes from."""

    def __init__(self, tensors: Tensors, layer: int) -> None:
        self._tensors, self._site = tensors, tensors.stack[layer - 1]
        self._finite = tensors.sources is None or layer in tensors.sources
        self._flat = self._site.sigma.is_piecewise_linear

    def covariance(self, pairs: Covariance, labels: Labels) -> Iterator[Term]:
        r"""The terms of $V'[P,Q]$."""
        sides = tuple(zip(pairs, (labels[:2], labels[2:]), strict=True))
        if self._finite:
            (one, _), (other, _) = sides
            for factor, P in self._parts(one):
                for beside, Q in self._parts(other):
                    own = (features(part, flat=self._flat) for part in (P, Q))
                    for term, count in noise(*own).items():
                        yield from self._noise(factor * beside * count, term, labels)
        answers = [self._answers(pair, at) for pair, at in sides]
        for first in answers[0]:
            terms = (
                (second.value, self._old(first.pair, second.pair, (*first.labels, *second.labels)))
                for second in answers[1]
                if charge(first.pair) == charge(second.pair)
            )
            yield self._site.r, first.value, _total(terms)

    def shift(self, pair: Pair, labels: Labels) -> Iterator[Term]:
        r"""The terms of a mean shift: what averages answer to one, and their curvature."""
        for answer in self._answers(pair, labels):
            if not charge(answer.pair):
                below = self._tensors.shift(self._site.layer, answer.pair, answer.labels)
                yield self._site.r, answer.value, below
        for factor, part in self._parts(pair):
            for (one, other), terms in curvature(part, flat=self._flat).items():
                at = (*self._at(one, labels), *self._at(other, labels))
                value, old = self._mean(terms, labels), self._old(one.pair, other.pair, at)
                yield factor * self._site.r, value, old

    def _parts(self, pair: Pair) -> Iterator[Part]:
        for name, part in sources(pair):
            factor = self._site.C_W if name == "C_W" else self._site.lambda_W
            yield factor, part

    def _answers(self, pair: Pair, labels: Labels) -> list[_Answer]:
        """All that a pair of jets answers to, each change once."""
        place = self._site.layer, pair, labels
        if place in self._tensors.answered:
            return self._tensors.answered[place]
        found: dict[Change, Value] = {}
        for factor, part in self._parts(pair):
            for change, terms in response(part, flat=self._flat).items():
                value = factor * self._mean(terms, labels)
                found[change] = found[change] + value if change in found else value
        self._tensors.answered[place] = [
            _Answer(value, change.pair, self._at(change, labels)) for change, value in found.items()
        ]
        return self._tensors.answered[place]

    def _mean(self, terms: Mapping[Expectation, float], labels: Labels) -> Value:
        """A sum of expectations at two labels."""
        x, y = labels
        total = 0.0
        for (orders, tangents), factor in terms.items():
            own = factor * self._M(orders, x, y)
            total = total + (own * self._theta(x, y) ** tangents if tangents else own)
        return np.asarray(total)

    def _noise(self, factor: float, term: Noise, labels: Labels) -> Iterator[Term]:
        """An expectation at four labels; a covariance is without the product of both halves."""
        joined = [self._theta(labels[i], labels[j]) for i, j in term.joined]
        vertices = zip(labels, term.orders, strict=True)
        values: Value = self._tensors.four(self._site, *vertices)
        if term.inside:
            (x, y, v, w), (p, q, s, t) = labels, term.orders
            apart = multiplied(self._M((p, q), x, y), self._M((s, t), v, w))
            values = np.subtract(values, apart, out=apart)
        yield (factor, *joined, values)

    def _old(self, first: Pair, second: Pair, labels: Labels) -> Value | None:
        return self._tensors.covariance(self._site.layer, first, second, labels)

    def _M(self, orders: tuple[int, int], x: int, y: int) -> Value:
        return self._tensors.tile.edge(self._site.M(*orders), x, y)

    def _theta(self, x: int, y: int) -> Value:
        return self._tensors.tile.edge(self._site.Theta, x, y)

    @staticmethod
    def _at(change: Change, labels: Labels) -> Labels:
        return tuple(labels[site] for site in change.at)


@cache
def families(letters: frozenset[str]) -> Families:
    """Derivatives at four labels that any of these tensors takes an expectation of, in any layer."""
    found = set[tuple[int, ...]]()
    for pairs in wanted(tuple(sorted(letters))).covariances:
        for (_, one), (_, other) in itertools.product(*map(sources, pairs)):
            both = features(one, flat=False), features(other, flat=False)
            found |= {tuple(sorted(term.orders)) for term in noise(*both)}
    return frozenset(found)


@cache
def exchanges(letter: str) -> tuple[Labels, ...]:
    """The orders of its indices in which a tensor of four samples is the same one."""
    both = _component(letter)
    assert both is not None
    places, printed = TENSORS[letter].printed.split("->")
    ways = ({x: places[k] for x, k in zip(places, way, strict=True)} for way in symmetries(*both))
    return tuple(tuple(printed.index(way[x]) for x in printed) for way in ways)


def _component(letter: str) -> Covariance | None:
    """The covariance that a tensor is; ``None`` of a mean shift."""
    own = TENSORS[letter]
    return None if own.second is None else (own.first, own.second)


def _total(terms: Iterator[Term]) -> Value | None:
    """The sum of products, without those that have a factor 0; whole arrays are passed over as seldom as can be."""
    out: np.ndarray | None = None
    for term in terms:
        if any(factor is None for factor in term):
            continue
        found = _product([factor for factor in term if factor is not None])
        if out is None:
            out = found
        elif out.shape == np.broadcast_shapes(out.shape, found.shape):
            out += found
        else:
            out = out + found
    return out


def _product(factors: Sequence[np.ndarray | float]) -> np.ndarray:
    """A new array; small factors are multiplied with each other first."""
    number = math.prod(factor for factor in factors if not isinstance(factor, np.ndarray))
    arrays = sorted((f for f in factors if isinstance(f, np.ndarray)), key=np.size)
    parts: list[np.ndarray] = [arrays[0] * number]
    for factor in arrays[1:]:
        if sum(n > 1 for n in np.broadcast_shapes(parts[-1].shape, factor.shape)) < 4:
            parts[-1] = multiplied(parts[-1], factor)
        else:
            parts.append(factor)
    if len(parts) == 1:
        return parts[0]
    out = multiplied(parts[-1], parts[-2])
    for part in parts[:-2]:
        out *= part
    return out
