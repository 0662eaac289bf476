"""Nodes of Gaussian expectations over two inputs, and terms of the series for two others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product as product_of
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import hermite_e

from scalewise.activations import Activation

Matrix = Float[np.ndarray, "sample sample"]
Orders = tuple[int, ...]
Nodes = slice | Int[np.ndarray, " _"]  # places of some
# Products of four factors that expectations are taken of, the sharpest among them.
_PRODUCTS: tuple[Orders, ...] = ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 1, 1), (3, 1, 1, 1))
STEPS = 1.2 * 0.88 ** np.arange(22)  # of the trapezoid rule, in standard deviations
TERMS = 128  # of the series, at most
_STEP = 5  # from one accuracy to the next
_COARSE = 0.1  # the coarsest accuracy of the series
_ALONG, _ACROSS = (
    2e-5,
    1e-2,
)  # the coarsest of nodes, along the sum of two inputs and along their difference
_FINER = 0.1  # for three inputs, of which there are few
FAR = 9.0  # standard deviations beyond which nothing is
CLOSE = 1e-7  # of s or t: two inputs that are one
DERIVATIVES = 3  # of an activation, at most
_FACTORS = 4  # derivatives of two factors, together, at most
# Terms of the series from which a half, a quarter, ... of the nodes are enough: at this accuracy of it, and how
# many more at one that is finer by `_STEP`. Later where the series ends before its terms are small.
_ROUGH = 2.5e-3
_FEWER, _LATER = (5, 9, 13), (1, 2, 3)
_FEWER_OPEN, _LATER_OPEN = (6, 12), (2, 4)
_INNER = 4  # nodes of what is left of a sample, more than coefficients
_WIDEST, _CLOSEST = 26.0, 0.025  # nodes that tell of all terms: their end, and their distance
_SCALES = tuple(np.linspace(1.0, 0.3, 8).tolist())  # of samples that are smaller than the largest
_SEEN = 24  # samples of which residual variances are looked at


@dataclass(frozen=True)
class Accuracy:
    """Errors that are allowed, relative to a product of four factors.

    Args:
        nodes: By the trapezoid rule along the sum of two inputs.
        across: Along their difference, in which all four factors never move together.
        series: By the series where two inputs are one, where its remainder is put in.
    """

    nodes: float
    across: float
    series: float


@dataclass(frozen=True)
class NodeRule:
    """Nodes for two inputs, and for what is left of a third.

    Args:
        u: Of the two. The first of them are coarser rules.
        w: Their weights.
        nodes: How many of them are for each term of the series.
        needed: How many terms of the series are summed, by the orders of both derivatives.
        sizes: Of terms, relative to the whole, at most.
        open: What the terms leave out, relative, where there are as many as are ever taken; 0 if fewer are enough.
    """

    u: Float[np.ndarray, "2 node"]
    w: Float[np.ndarray, " node"]
    nodes: tuple[int, ...]
    needed: dict[tuple[int, int], int]
    sizes: tuple[float, ...]
    open: float = 0.0

    @property
    def terms(self) -> int:
        """The most."""
        return max(self.needed.values())

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The share of all weights that the nodes for each term have."""
        return tuple(float(self.w[:count].sum()) for count in self.nodes)

    def ends(
        self,
        rho: Float[np.ndarray, " pair"],
        first: Float[np.ndarray, " pair"],
        second: Float[np.ndarray, " pair"],
    ) -> tuple[Float[np.ndarray, "pair node"], Float[np.ndarray, "pair node"]]:
        """Two inputs at the nodes.

        Args:
            rho: Their correlation.
            first: The standard deviation of one.
            second: And of the other.
        """
        both, apart = (
            np.sqrt((1 + sign * rho) / 2)[:, None] * u
            for sign, u in zip((1, -1), self.u, strict=True)
        )
        return first[:, None] * (both + apart), second[:, None] * (both - apart)

    def parts(self) -> Iterator[tuple[slice, int]]:
        """Nodes, and how many coefficients are for them: of derivatives, those of a few terms more."""
        start = 0
        for end in sorted(set(self.nodes)):
            yield slice(start, end), DERIVATIVES + sum(count >= end for count in self.nodes)
            start = end


class _Terms(NamedTuple):
    """Of a `NodeRule`."""

    needed: dict[tuple[int, int], int]
    sizes: tuple[float, ...]
    open: float


def product(sigma: Activation, orders: Orders, z: np.ndarray) -> np.ndarray:
    r"""$\prod_p\sigma^{(p)}$, as precise as $z$."""
    flat = z.reshape(-1)
    factors = {p: sigma.derivatives[p](flat).astype(z.dtype, copy=False) for p in set(orders)}
    return math.prod((factors[p] for p in orders[1:]), start=factors[orders[0]]).reshape(z.shape)


def rule_for(sigma: Activation, rho: Matrix, sd: float, accuracy: Accuracy) -> NodeRule:
    """Nodes that are as accurate as that.

    Args:
        sigma: The activation.
        rho: Correlations of all samples.
        sd: The largest standard deviation.
        accuracy: Wanted.
    """
    alike, apart = np.sqrt((1 + rho.max()) / 2), np.sqrt((1 - rho.min()) / 2)
    steps = (
        _step(sigma, sd * alike, _until(accuracy.nodes, _ALONG)),
        _step(sigma, sd * apart, _until(accuracy.across, _ACROSS)),
    )
    radius = _radius(sigma, sd * alike, accuracy.nodes)
    lines = [np.arange(-np.floor(radius / h), np.floor(radius / h) + 1) for h in steps]
    terms = _terms_for(sigma, sd * _residual(rho), accuracy)
    finer = max(0.0, math.log(_ROUGH / accuracy.series, _STEP))
    thinned = (_FEWER_OPEN, _LATER_OPEN) if terms.open else (_FEWER, _LATER)
    fewer = [first + finer * later for first, later in zip(*thinned, strict=True)]
    return _rule(sigma, lines, steps, radius, terms, fewer)


def line_for(sigma: Activation, rho: Matrix, sd: float, accuracy: Accuracy) -> NodeRule:
    """Nodes of one input; nothing is saved where samples are few.

    Args:
        sigma: The activation.
        rho: Correlations of all samples.
        sd: The largest standard deviation.
        accuracy: Of expectations of four inputs.
    """
    nodes, series = accuracy.nodes * _FINER, accuracy.series * _FINER
    step, radius = _step(sigma, sd, _until(nodes, _ALONG)), _radius(sigma, sd, nodes)
    line = np.arange(-np.floor(radius / step), np.floor(radius / step) + 1)
    residual = np.sqrt(np.clip(1 - np.square(rho).min(), 0.0, 1.0))
    finer = Accuracy(nodes, nodes, series)
    terms = _terms_for(sigma, sd * residual, finer)
    return _rule(sigma, [line, np.zeros(1)], (step, step), radius, terms)


def _rule(
    sigma: Activation,
    lines: list[np.ndarray],
    steps: tuple[float, float],
    radius: float,
    terms: _Terms,
    fewer: Sequence[float] = (),
) -> NodeRule:
    """Nodes within a radius, a half of them, of these, ... where that is enough."""
    places = np.stack(np.meshgrid(*lines, indexing="ij")).reshape(2, -1)
    if sigma.parity:  # four factors have as many odd ones as not: half of the nodes tell all
        places = places[:, (places[0] > 0) | ((places[0] == 0) & (places[1] >= 0))]
    near = np.sum((places * np.array(steps)[:, None]) ** 2, axis=0) <= radius**2
    places = places[:, near]
    level = _levels(places, len(fewer))
    places = places[:, np.argsort(-level, kind="stable")]
    u = places * np.array(steps)[:, None]
    w = np.exp(-np.sum(u**2, axis=0) / 2)
    if sigma.parity:
        w[np.any(places != 0, axis=0)] *= 2
    counts = [int(np.count_nonzero(level >= most)) for most in range(len(fewer) + 1)]
    nodes = [counts[sum(k >= first for first in fewer)] for k in range(len(terms.sizes))]
    return NodeRule(u, w / w.sum(), tuple(nodes), *terms)


def _levels(places: np.ndarray, most: int) -> np.ndarray:
    """How often a lattice may be thinned to a half, along diagonals and axes in turns, and still has a place."""
    found, (i, j) = np.zeros(places.shape[1], int), places.astype(int)
    within = np.ones(len(found), bool)
    for turn in range(most):
        within &= (i + j) % 2 == 0 if turn % 2 == 0 else i % 2 == 0
        found += within
        if turn % 2:
            i, j = i // 2, j // 2
    return found


def inner_nodes(terms: int, some: int) -> int:
    """How many nodes of what is left of a sample: coefficients behind all terms are not taken for one of the first.

    Args:
        terms: Coefficients that are not small.
        some: How many of the first are wanted.
    """
    return (terms + some) // 2 + _INNER


def projection(terms: int, nodes: int) -> tuple[np.ndarray, Float[np.ndarray, "term inner"]]:
    """Nodes of what is left of a sample, and from values there to coefficients.

    Args:
        terms: How many coefficients.
        nodes: How many nodes.
    """
    g, w = _gauss(nodes)
    size = np.sqrt(_factorials(terms))
    return g, hermite_e.hermevander(g, terms - 1).T * w / size[:, None]


def _factorials(count: int) -> Float[np.ndarray, " term"]:
    return np.cumprod(np.maximum(np.arange(count), 1.0))


def _step(sigma: Activation, scale: float, levels: Sequence[float]) -> float:
    """The largest at which four factors that are one input are found, and smaller than at any coarser accuracy.

    Of what oscillates one input may be found by chance, and smaller ones are not; and two accuracies at one step
    have one error, which their difference does not show.

    Args:
        sigma: The activation.
        scale: The standard deviation of the input.
        levels: Accuracies, the last one wanted.
    """
    passed = 0
    for step in STEPS:
        if _found(sigma, scale, step, levels[passed]):
            passed += 1
            if passed == len(levels):
                return float(step)
    return float(STEPS[-1])


def _found(sigma: Activation, scale: float, step: float, accuracy: float) -> bool:
    for orders, part in product_of(_PRODUCTS, _SCALES):
        found, _ = on_line(sigma, orders, part * scale, step)
        known, size = on_line(sigma, orders, part * scale, step / 2)
        if abs(found - known) > accuracy * size:
            return False
    return True


def _until(accuracy: float, coarsest: float) -> list[float]:
    """An accuracy and those that are coarser by `_STEP`, the coarsest first."""
    coarser = max(0, round(np.log(coarsest / accuracy) / np.log(_STEP)))
    return [accuracy * float(_STEP) ** k for k in range(coarser, -1, -1)]


def _radius(sigma: Activation, scale: float, accuracy: float) -> float:
    """Within which four factors that are one input are found."""
    r = np.linspace(0.0, FAR, 541)
    within = 0.0
    for orders in _PRODUCTS:
        size = sum(np.abs(product(sigma, orders, sign * scale * r)) for sign in (1, -1))
        beyond = np.cumsum((r * np.exp(-(r**2) / 2) * size)[::-1])[::-1]
        within = max(within, float(r[np.argmax(beyond <= accuracy * beyond[0])]))
    return within


def on_line(sigma: Activation, orders: Orders, scale: float, step: float) -> tuple[float, float]:
    """The mean of a product of one input, and of its absolute value."""
    u = step * np.arange(-np.floor(FAR / step), np.floor(FAR / step) + 1)
    w = np.exp(-(u**2) / 2)
    w /= w.sum()
    values = product(sigma, orders, scale * u)
    return float(w @ values), float(w @ np.abs(values))


def _residual(rho: Matrix) -> float:
    """The largest standard deviation of a sample given two others, relative to its own; of some samples."""
    some = np.unique(np.linspace(0, len(rho) - 1, _SEEN).round().astype(int))
    K = rho[np.ix_(some, some)]
    first, second = np.triu_indices(len(some), 1)
    if len(first) == 0:
        return 0.0
    r = K[first, second][:, None]
    a, b = K[first], K[second]
    known = (a**2 + b**2 - 2 * r * a * b) / np.maximum(1 - r**2, CLOSE)
    return float(np.sqrt(np.clip(1 - known, 0.0, 1.0).max()))


def tails(sigma: Activation, scale: float) -> list[Float[np.ndarray, " term"]]:
    """The rest of each derivative of one input after so many terms, root mean squares relative to its size.

    Args:
        sigma: The activation.
        scale: The standard deviation of the input.
    """
    (g, w, He), left = _polynomials(), []
    for p in range(DERIVATIVES + 1):
        values = product(sigma, (p,), scale * g)
        shares = (He.T @ (w * values)) ** 2 / max(float(w @ values**2), 1e-300)
        left.append(np.sqrt(np.clip(1 - np.cumsum(shares), 0.0, 1.0)))
    return left


@cache
def _polynomials() -> tuple[np.ndarray, np.ndarray, Float[np.ndarray, "node term"]]:
    """All of the series with size 1, at nodes so many that they tell however large a kernel is."""
    g = np.arange(-_WIDEST, _WIDEST + _CLOSEST / 2, _CLOSEST)
    w = np.exp(-(g**2) / 2)
    return g, w / w.sum(), hermite_e.hermevander(g, TERMS - 1) / np.sqrt(_factorials(TERMS))


def _terms_for(sigma: Activation, scale: float, accuracy: Accuracy) -> _Terms:
    """What the series needs of a product of two derivatives of one input, relative to their sizes.

    Where others are 0 every second term is, too: an accuracy that is finer by `_STEP` has two terms more at least.
    """
    left = tails(sigma, scale)
    levels, found, open_, sizes = _until(accuracy.series, _COARSE), {}, 0.0, np.zeros(TERMS)
    for p, q in np.ndindex(DERIVATIVES + 1, DERIVATIVES + 1):
        if p + q > _FACTORS:
            continue
        both, terms = np.append(left[p] * left[q], 0.0), 0
        for level in levels:
            terms = min(max(terms + 2, 1 + int(np.argmax(both < level))), TERMS)
        found[p, q] = terms
        sizes = np.maximum(sizes, [1.0, *both[: TERMS - 1]])
        if terms == TERMS:
            open_ = max(open_, float(both[TERMS - 1]))
    return _Terms(found, tuple(sizes[: max(found.values())].tolist()), open_)


def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    g, w = hermite_e.hermegauss(count)
    return g, w / w.sum()
