r"""The one rule for one label: every tensor is a number, every term a monomial in expectations, rates and $\Theta$.

With one label all sites meet in one $z\sim N(0,K)$. An average of features is a sum of
$c\,\Theta^k\langle\sigma^{(p)}\sigma^{(q)}\rangle$, and a derivative in a covariance that contains $z$ is one of
the whole product,
$$\Big\langle\frac{d^m}{dz^m}\big(\sigma^{(p)}\sigma^{(q)}\big)\Big\rangle,$$
in the sense of distributions, where $\sigma^{(p)}$ itself is what the chain rule says. These are, up to numbers,
the expectations of `scalewise.theory._tables`. So the terms of a layer are found once, for all layers:
$$X'=r\sum R\,R\,Y+N,\qquad
  x'=r\Big[\sum R\,y+\sum B\,Y\Big]+c_b^{\{1\}}+c_W^{\{1\}}\langle F^SF^T\rangle,$$
for covariances $X,Y$ and mean shifts $x,y$. The ratio $r=n_\ell/n_{\ell-1}$ stands where layer $\ell$ fluctuates.

Source: derived; for the tensors it says PDLT (5.109), (5.110), (9.13)-(9.21), (11.55), (11.56), (∞.14)-(∞.17).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from scalewise.theory.order._jets import TENSORS, Pair, charge, standard, standard_pair
from scalewise.theory.order._terms import (
    Change,
    Monomial,
    derivatives,
    features,
    noise,
    sources,
)

Component = tuple[Pair, Pair | None]  # of the vertex, or a mean shift


@dataclass(frozen=True)
class Term:
    r"""A number times rates, an expectation and a power of $\Theta$.

    Args:
        factor: The number.
        rates: Names, ``C_W`` or ``lambda_W``.
        moment: The name of the expectation in the tables.
        tangents: The power.
    """

    factor: float
    rates: tuple[str, ...]
    moment: str
    tangents: int


Terms = tuple[Term, ...]


@dataclass(frozen=True)
class CovarianceStep:
    """How a component of the vertex follows from those of the layer below.

    Args:
        reads: Components there, and what the first and the second pair make of them.
        noise: What the layer adds.
    """

    reads: tuple[tuple[Component, Terms, Terms], ...]
    noise: Terms


@dataclass(frozen=True)
class ShiftStep:
    """How a mean shift follows from the layer below.

    Args:
        reads: Mean shifts there, and what is made of them.
        bends: Components of the vertex there, likewise.
        mean: What is averaged with the factor ``C_W``, without it.
        biased: Whether the variance of the biases is part of what shifts.
    """

    reads: tuple[tuple[Component, Terms], ...]
    bends: tuple[tuple[Component, Terms], ...]
    mean: Terms
    biased: bool


Orders = tuple[int, ...]
# Derivatives of products of two, by their orders and the number of derivatives: a number and a name in the tables.
_PRODUCTS: dict[tuple[Orders, int], tuple[int, str]] = {
    ((0, 0), 0): (1, "g"),
    ((0, 0), 2): (2, "g1"),
    ((0, 0), 4): (4, "g2"),
    ((0, 1), 1): (1, "g1"),
    ((0, 2), 0): (1, "s02"),
    ((1, 1), 0): (1, "p"),
    ((1, 1), 2): (2, "p1"),
    ((1, 1), 4): (4, "p2"),
    ((1, 2), 1): (1, "z12"),
    ((1, 3), 0): (1, "s13"),
    ((2, 2), 0): (1, "s22"),
}
_COVARIANCES: dict[Orders, str] = {
    (0, 0, 0, 0): "vss",
    (0, 0, 1, 1): "vsp",
    (1, 1, 1, 1): "vpp",
}  # of two squares
_FOURS: dict[Orders, str] = {
    (0, 0, 1, 1): "m22",
    (1, 1, 1, 1): "p4",
    (0, 1, 1, 2): "s0112",
    (1, 1, 1, 3): "s1113",
    (1, 1, 2, 2): "s1122",
}
_UNKNOWN = "?"  # what the tables do not hold


@cache
def component(letter: str) -> Component:
    """The component that a tensor is."""
    row = TENSORS[letter]
    return _named(row.first, row.second)


@cache
def covariance_step(P: Pair, Q: Pair) -> CovarianceStep:
    """The step of one component."""
    both = itertools.product(_responses(P).items(), _responses(Q).items())
    reads = tuple(
        (_named(one, other), left, right)
        for (one, left), (other, right) in both
        if charge(one) == charge(other)
    )
    added: defaultdict[tuple[tuple[str, ...], str, int], float] = defaultdict(float)
    for (rate, one), (other_rate, other) in itertools.product(sources(P), sources(Q)):
        for own, count in noise(features(one, flat=False), features(other, flat=False)).items():
            names = _COVARIANCES if own.inside else _FOURS
            name = names.get(tuple(sorted(own.orders)), _UNKNOWN)
            added[tuple(sorted((rate, other_rate))), name, len(own.joined)] += count
    return CovarianceStep(reads, tuple(Term(n, *key) for key, n in added.items()))


@cache
def shift_step(P: Pair) -> ShiftStep:
    """The step of one mean shift."""
    reads = tuple(
        (_named(changed, None), terms)
        for changed, terms in _responses(P).items()
        if not charge(changed)
    )
    bends: defaultdict[Component, list[_Derived]] = defaultdict(list)
    for rate, part in sources(P):
        for m in features(part, flat=False):
            for factor, last, one, other in _twice(m):
                if last.matched is not None and charge(one.pair) == charge(other.pair):
                    key = _named(one.pair, other.pair)
                    bends[key].append(_Derived((rate,), m, last, 0.5 * factor))
    mean = [_Derived((), m, m, 1.0) for m in features(P, flat=False) if m.matched is not None]
    bent = tuple((key, _terms(found)) for key, found in bends.items())
    return ShiftStep(reads, bent, _terms(mean), not any(P))


def _twice(m: Monomial) -> Iterator[tuple[float, Monomial, Change, Change]]:
    """What a monomial becomes for each two covariances that may change, with its factor."""
    for factor, left, one in derivatives(m):
        for second, last, other in derivatives(left):
            yield factor * second, last, one, other


def _named(P: Pair, Q: Pair | None) -> Component:
    """One name for all components that are equal at one label."""
    return (standard_pair(P)[0], None) if Q is None else standard(P, Q).pairs


@cache
def _responses(P: Pair) -> Mapping[Pair, Terms]:
    r"""How $\Sigma^{S,T}$ of the next layer answers to each change in this one."""
    found: defaultdict[Pair, list[_Derived]] = defaultdict(list)
    for rate, part in sources(P):
        for m in features(part, flat=False):
            for factor, left, change in derivatives(m):
                if left.matched is not None:
                    found[change.pair].append(_Derived((rate,), m, left, factor))
    return {changed: _terms(of) for changed, of in found.items()}


@dataclass(frozen=True)
class _Derived:
    """A monomial of two sites and a derivative of it."""

    rates: tuple[str, ...]
    m: Monomial
    left: Monomial
    factor: float


def _terms(found: Iterable[_Derived]) -> Terms:
    r"""Sums over both sites as derivatives of products: $\sum_i\binom mi\sigma^{(p+i)}\sigma^{(q+m-i)}$ is one."""
    sums: defaultdict[tuple[tuple[str, ...], str, int], float] = defaultdict(float)
    for own in found:
        count = sum(own.left.orders) - sum(own.m.orders)
        number, name = _PRODUCTS.get((tuple(sorted(own.m.orders)), count), (1, _UNKNOWN))
        assert own.left.matched is not None
        sums[own.rates, name, own.left.matched] += own.factor * number / 2**count
    return tuple(Term(factor, *key) for key, factor in sums.items())
