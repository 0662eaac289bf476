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

Along a stream of skip connections laws add up: $\gamma^2$ joins $R$ where a component answers to itself. And what
a neuron was in earlier layers it still is in part, so that the fluctuations of averages in one layer have something
in common with the laws that those of earlier layers moved: `Step.met` says which averages meet which laws.

Source: derived; for the tensors it says PDLT (5.109), (5.110), (9.13)-(9.21), (11.55), (11.56), (∞.14)-(∞.17).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from scalewise.theory.order._jets import TENSORS, Pair, charge, standard, standard_pair
from scalewise.theory.order._terms import (
    Change,
    Monomial,
    Noise,
    derivatives,
    features,
    noise,
    past,
    sources,
)

Component = tuple[Pair, Pair | None]  # of the vertex, or a mean shift
Rates = tuple[str, ...]


@dataclass(frozen=True)
class Term:
    r"""A number times rates, an expectation and a power of $\Theta$.

    Args:
        factor: The number.
        rates: Names, ``C_W``, ``lambda_W`` or ``skip``.
        moment: The name of the expectation in the tables; empty for 1.
        tangents: The power.
    """

    factor: float
    rates: Rates
    moment: str
    tangents: int


ONE = Term(1.0, (), "", 0)
Terms = tuple[Term, ...]
Averages = tuple[Monomial, ...]
_Sums = defaultdict[tuple[Rates, str, int], float]


@dataclass(frozen=True)
class LayerStep:
    r"""How a component follows from those of the layer below.

    Args:
        reads: Components there, each with the factors that it is multiplied by.
        added: Noise of a covariance, or what a mean shift has for a factor of $c_W^{\{1\}}$.
        met: Averages of this layer and covariances that those of earlier layers moved, with a factor.
    """

    reads: tuple[tuple[Component, tuple[Terms, ...]], ...]
    added: Terms
    met: tuple[tuple[Terms, Averages, Pair], ...]


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
def step(of: Component) -> LayerStep:
    """The step of a component."""
    P, Q = of
    return _shift(P) if Q is None else _covariance(P, Q)


def _covariance(P: Pair, Q: Pair) -> LayerStep:
    both = itertools.product(responses(P).items(), responses(Q).items())
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
    met = tuple(
        (_times(terms, 1.0, rate), features(part, flat=False), changed)
        for one, other in ((P, Q), (Q, P))
        for rate, part in sources(one)
        for changed, terms in responses(other).items()
        if charge(changed) == charge(part)
    )
    return LayerStep(reads, _terms(added), met)


def _shift(P: Pair) -> LayerStep:
    changed = responses(P).items()
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
    met = tuple(
        (_times((ONE,), factor, rate), (m,), change.pair)
        for rate, part in sources(P)
        for factor, m, change in past(part, flat=False)
    )
    return LayerStep(tuple(reads), _terms(mean), met)


def _times(terms: Terms, factor: float, rate: str) -> Terms:
    return tuple(
        replace(term, factor=factor * term.factor, rates=tuple(sorted((rate, *term.rates))))
        for term in terms
    )


def _twice(m: Monomial) -> Iterator[tuple[float, Monomial, Change, Change]]:
    """Derivatives of a monomial in each two covariances that may change, with their factors."""
    for factor, left, one in derivatives(m):
        for second, last, other in derivatives(left):
            yield factor * second, last, one, other


@cache
def crossings(letters: tuple[str, ...]) -> tuple[Orders, ...]:
    """Derivatives in two layers whose covariances tensors of a stream need: two of the later layer, then two."""
    todo, seen, found = [component(letter) for letter in letters], set[Component](), set[Orders]()
    while todo:
        if (of := todo.pop()) not in seen:
            seen.add(of)
            todo += [key for key, _ in step(of).reads]
            for _, own, Q in step(of).met:
                found |= _crossed(own, Q)
    return tuple(sorted(found))


def _crossed(own: Averages, Q: Pair) -> set[Orders]:
    found = set[Orders]()
    for _, part in sources(Q):
        found |= {by_layer(term) for term in noise(own, features(part, flat=False))}
    return found.union(*(_crossed(own, before) for before in responses(Q) if not same(before, Q)))


def by_layer(term: Noise) -> Orders:
    """Derivatives in the later and in the earlier layer, the higher one first."""
    p, q, r, s = term.orders
    return max(p, q), min(p, q), max(r, s), min(r, s)


def same(one: Pair, other: Pair) -> bool:
    """True of two pairs that one label does not tell apart."""
    return sorted(one) == sorted(other)


def mean_of(orders: Orders) -> str:
    """The name of an average of two factors; not in the tables, perhaps."""
    p, q = sorted(orders)
    return _PRODUCTS.get(((p, q), 0), (1, f"s{p}{q}"))[1]


def _named(P: Pair, Q: Pair | None) -> Component:
    """One name for all components that are equal at one label."""
    return (standard_pair(P)[0], None) if Q is None else standard(P, Q).pairs


@cache
def responses(P: Pair) -> Mapping[Pair, Terms]:
    r"""How the covariance $S,T$ of the next layer answers to each change in this one."""
    found: defaultdict[Pair, _Sums] = defaultdict(lambda: defaultdict(float))
    for rate, part in sources(P):
        for m in features(part, flat=False):
            for factor, left, change in derivatives(m):
                if left.matched is not None:
                    _add(found[change.pair], (rate,), m, left, factor)
    own = next(changed for changed in found if same(changed, P))
    found[own][("skip",), "", 0] = 1.0
    return {changed: _terms(of) for changed, of in found.items()}


def _add(sums: _Sums, rates: Rates, m: Monomial, left: Monomial, factor: float) -> None:
    r"""A derivative of a monomial: $\sum_i\binom mi\sigma^{(p+i)}\sigma^{(q+m-i)}$ is one of a product."""
    count = sum(left.orders) - sum(m.orders)
    number, name = _PRODUCTS.get((tuple(sorted(m.orders)), count), (1, _UNKNOWN))
    assert left.matched is not None
    sums[rates, name, left.matched] += factor * number / 2**count


def _terms(sums: _Sums) -> Terms:
    return tuple(Term(factor, *key) for key, factor in sums.items())
