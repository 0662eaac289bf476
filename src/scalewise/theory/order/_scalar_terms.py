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
from collections.abc import Iterator, Mapping
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
Rates = tuple[str, ...]


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
    rates: Rates
    moment: str
    tangents: int


Terms = tuple[Term, ...]
_Sums = defaultdict[tuple[Rates, str, int], float]


@dataclass(frozen=True)
class Step:
    r"""How a component follows from those of the layer below.

    Args:
        reads: Components there, each with the factors that it is multiplied by.
        added: Noise of a covariance, or what a mean shift has for a factor of $c_W^{\{1\}}$.
    """

    reads: tuple[tuple[Component, tuple[Terms, ...]], ...]
    added: Terms


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
def step(of: Component) -> Step:
    """The step of a component."""
    P, Q = of
    return _shift(P) if Q is None else _covariance(P, Q)


def _covariance(P: Pair, Q: Pair) -> Step:
    both = itertools.product(_responses(P).items(), _responses(Q).items())
    reads = tuple(
        (_named(one, other), (left, right))
        for (one, left), (other, right) in both
        if charge(one) == charge(other)
    )
    added: _Sums = defaultdict(float)
    for (rate, one), (other_rate, other) in itertools.product(sources(P), sources(Q)):
        for own, count in noise(features(one, flat=False), features(other, flat=False)).items():
            names = _COVARIANCES if own.inside else _FOURS
            name = names.get(tuple(sorted(own.orders)), _UNKNOWN)
            added[tuple(sorted((rate, other_rate))), name, len(own.joined)] += count
    return Step(reads, _terms(added))


def _shift(P: Pair) -> Step:
    changed = _responses(P).items()
    reads = [(_named(one, None), (terms,)) for one, terms in changed if not charge(one)]
    bends: defaultdict[Component, _Sums] = defaultdict(lambda: defaultdict(float))
    for rate, part in sources(P):
        for m in features(part, flat=False):
            for factor, last, one, other in _twice(m):
                if last.matched is not None and charge(one.pair) == charge(other.pair):
                    own = bends[_named(one.pair, other.pair)]
                    _add(own, (rate,), m, last, 0.5 * factor)
    reads += [(key, (_terms(own),)) for key, own in bends.items()]
    mean: _Sums = defaultdict(float)
    for m in features(P, flat=False):
        if m.matched is not None:
            _add(mean, (), m, m, 1.0)
    return Step(tuple(reads), _terms(mean))


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
    found: defaultdict[Pair, _Sums] = defaultdict(lambda: defaultdict(float))
    for rate, part in sources(P):
        for m in features(part, flat=False):
            for factor, left, change in derivatives(m):
                if left.matched is not None:
                    _add(found[change.pair], (rate,), m, left, factor)
    return {changed: _terms(of) for changed, of in found.items()}


def _add(sums: _Sums, rates: Rates, m: Monomial, left: Monomial, factor: float) -> None:
    r"""A derivative of a monomial: $\sum_i\binom mi\sigma^{(p+i)}\sigma^{(q+m-i)}$ is one of a product."""
    count = sum(left.orders) - sum(m.orders)
    number, name = _PRODUCTS.get((tuple(sorted(m.orders)), count), (1, _UNKNOWN))
    assert left.matched is not None
    sums[rates, name, left.matched] += factor * number / 2**count


def _terms(sums: _Sums) -> Terms:
    return tuple(Term(factor, *key) for key, factor in sums.items())
