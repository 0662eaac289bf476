r"""The one rule: what the averages of a layer of jets are, and how they answer to a change of the layer below.

$$F^S=\sum_{\pi}\sigma^{(|\pi|)}(z)\prod_{\beta\in\pi}z^\beta,\qquad
\Sigma^{S,T}=C_W\mathcal L\langle F^SF^T\rangle+\lambda_W\sum_{a\in S\cap T}\mathcal L\langle F^{S\setminus a}
F^{T\setminus a}\rangle+\mathrm{const},$$
over partitions $\pi$ of $S$, with $\mathcal LA=\sum_\tau B_\tau AB_\tau^T$ over the taps of the layer. An average
of a product of features is a polynomial in jets times derivatives of $\sigma$. By Wick its value is a sum over
matchings of equal jets at different sites, and by Price a change $\delta C$ of the covariances of its variables
$u,v,\dots$, the $z$ at its sites and its jets, changes it by
$$\delta\mathbb E[m]=\sum_{u\le v}f_{uv}\,\delta C_{uv}\,\mathbb E[\partial_u\partial_vm],\qquad
f_{uu}=\tfrac12,\;f_{u<v}=1.$$
A term below has two sites, 0 and 1, and says which derivatives of $\sigma$ are averaged, how many factors $\Theta$
stand beside them, and which covariances change at which sites. A piecewise linear $\sigma$ has no $\sigma''$ of
the chain rule; those of an integration by parts are densities at its kinks.

Source: derived; PDLT (4.119), (8.77)-(8.97), (11.49), (11.52), (∞.177)-(∞.181) are what it makes of `TENSORS`.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from scalewise.theory.order._jets import TENSORS, Jet, Pair, charge, standard, standard_pair

Sites = tuple[int, int]
Variable = tuple[int, Jet, int]  # its number, its jet, none for z, and its site


@dataclass(frozen=True)
class Monomial:
    r"""$\sigma^{(p_0)}(z_0)\sigma^{(p_1)}(z_1)$ times jets at the two sites.

    Args:
        orders: $p_0,p_1$.
        jets: Of each site.
    """

    orders: Sites
    jets: tuple[tuple[Jet, ...], tuple[Jet, ...]]

    @property
    def matched(self) -> int | None:
        r"""How many factors $\Theta$ the average has beside $M_{p_0p_1}$; ``None`` if it is 0."""
        if sorted(self.jets[0]) != sorted(self.jets[1]):
            return None
        assert all(len(jet) == 1 for jet in self.jets[0])
        return len(self.jets[0])


@dataclass(frozen=True)
class Change:
    r"""A covariance of jets that changes: $\delta C^{S,T}$ at two sites, each 0 or 1."""

    pair: Pair
    at: Sites


def partitions(letters: Jet) -> Iterator[tuple[Jet, ...]]:
    """All ways to part letters into blocks."""
    if not letters:
        yield ()
        return
    first, rest = letters[0], letters[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = tuple(x for x in rest if x not in others)
            for tail in partitions(left):
                yield ((first, *others), *tail)


@cache
def features(pair: Pair, *, flat: bool) -> tuple[Monomial, ...]:
    r"""$F^S_0F^T_1$; of a `flat` activation, which is piecewise linear, without $\sigma''$."""
    found = []
    for blocks in itertools.product(*(tuple(partitions(jet)) for jet in pair)):
        orders = (len(blocks[0]), len(blocks[1]))
        if not (flat and max(orders) > 1):
            found.append(Monomial(orders, (blocks[0], blocks[1])))
    return tuple(found)


@cache
def sources(pair: Pair) -> tuple[tuple[str, Pair], ...]:
    r"""Averages that $\Sigma^{S,T}$ is made of, each with the name of its factor, ``C_W`` or ``lambda_W``."""
    S, T = pair
    without = [
        ("lambda_W", (tuple(x for x in S if x != a), tuple(x for x in T if x != a)))
        for a in S
        if a in T
    ]
    return (("C_W", pair), *without)


@cache
def derivatives(m: Monomial) -> tuple[tuple[float, Monomial, Change], ...]:
    """Derivatives of a monomial in each covariance of its variables that may change, with their factors."""
    found = []
    for u, v in itertools.combinations_with_replacement(_variables(m), 2):
        if u == v and u[1]:
            continue
        left = _derived(_derived(m, u), v)
        found.append((0.5 if u == v else 1.0, left, _change(u[1:], v[1:])))
    return tuple(found)


def _variables(m: Monomial) -> list[Variable]:
    """Variables of a monomial: $z$ at its sites, and its jets."""
    variables: list[tuple[Jet, int]] = [((), 0), ((), 1)]
    variables += [(jet, site) for site in (0, 1) for jet in m.jets[site]]
    return [(number, *variable) for number, variable in enumerate(variables)]


def _derived(m: Monomial, variable: Variable) -> Monomial:
    """The derivative by one of its variables."""
    orders, jets = list(m.orders), [list(m.jets[0]), list(m.jets[1])]
    _, jet, site = variable
    if jet:
        jets[site].remove(jet)
    else:
        orders[site] += 1
    return Monomial((orders[0], orders[1]), (tuple(jets[0]), tuple(jets[1])))


def _change(u: tuple[Jet, int], v: tuple[Jet, int]) -> Change:
    """In one order for both."""
    (S, x), (T, y) = sorted((u, v), key=_by_length)
    return Change((S, T), (x, y))


def _by_length(variable: tuple[Jet, int]) -> tuple[int, tuple[Jet, int]]:
    return len(variable[0]), variable


Expectation = tuple[Sites, int]  # derivatives, and factors Theta


@cache
def response(pair: Pair, *, flat: bool) -> dict[Change, dict[Expectation, float]]:
    r"""How $\langle F^SF^T\rangle$ answers to each change, as a sum of expectations."""
    found: dict[Change, dict[Expectation, float]] = {}
    for m in features(pair, flat=flat):
        for factor, left, change in derivatives(m):
            if left.matched is not None:
                terms = found.setdefault(change, defaultdict(float))
                terms[left.orders, left.matched] += factor
    return found


@cache
def curvature(pair: Pair, *, flat: bool) -> dict[tuple[Change, Change], dict[Expectation, float]]:
    r"""Half the second derivative of $\langle F^SF^T\rangle$ in two changes whose product has a mean."""
    found: dict[tuple[Change, Change], dict[Expectation, float]] = {}
    for m in features(pair, flat=flat):
        for factor, left, change in derivatives(m):
            for other, last, beside in derivatives(left):
                if last.matched is None or charge(change.pair) != charge(beside.pair):
                    continue
                terms = found.setdefault((change, beside), defaultdict(float))
                terms[last.orders, last.matched] += 0.5 * factor * other
    return found


@cache
def quartic(pair: Pair, *, flat: bool) -> dict[tuple[Change, Change], dict[Expectation, float]]:
    r"""How $\langle F^SF^T\rangle$ answers to a fourth cumulant of its variables, those of two changes together."""
    found: dict[tuple[Change, Change], dict[Expectation, float]] = {}
    for m in features(pair, flat=flat):
        for four in itertools.combinations_with_replacement(_variables(m), 4):
            counts = Counter(four)
            if any(jet and count > 1 for (_, jet, _), count in counts.items()):
                continue  # no monomial has two factors of one jet
            last = m
            for variable in four:
                last = _derived(last, variable)
            if last.matched is None:
                continue
            u, v, w, x = sorted(((jet, site) for _, jet, site in four), key=_by_length)
            terms = found.setdefault((_change(u, v), _change(w, x)), defaultdict(float))
            terms[last.orders, last.matched] += 1 / math.prod(map(math.factorial, counts.values()))
    return found


@cache
def past(pair: Pair, *, flat: bool) -> tuple[tuple[float, Monomial, Change], ...]:
    r"""How $F^SF^T$ of a neuron answers to changes that the same neuron made before: a product with a mean."""
    return tuple(
        term
        for m in features(pair, flat=flat)
        for term in derivatives(m)
        if charge(term[2].pair) == charge_of(term[1])
    )


def charge_of(m: Monomial) -> frozenset[str]:
    """The letters that have no partner in a monomial."""
    found: frozenset[str] = frozenset()
    for jet in (*m.jets[0], *m.jets[1]):
        found = found ^ frozenset(jet)
    return found


@dataclass(frozen=True)
class Noise:
    r"""An expectation at four sites: derivatives of $\sigma$, and the pairs of sites that factors $\Theta$ join.

    Args:
        orders: Of each site.
        joined: Pairs of sites.
        inside: Whether none joins the first two sites to the others: then it is the covariance of the two halves.
    """

    orders: tuple[int, int, int, int]
    joined: tuple[Sites, ...]
    inside: bool


@cache
def noise(first: tuple[Monomial, ...], second: tuple[Monomial, ...]) -> dict[Noise, int]:
    """The covariance of the sums of some monomials at the first two sites and of some at the other two."""
    found: Counter[Noise] = Counter()
    for m, other in itertools.product(first, second):
        jets = [
            (jet, site) for site, of_site in enumerate((*m.jets, *other.jets)) for jet in of_site
        ]
        for joined in _matchings(tuple(jets)):
            inside = all((x < 2) == (y < 2) for x, y in joined)
            found[Noise((*m.orders, *other.orders), joined, inside)] += 1
    return dict(found)


def _matchings(jets: tuple[tuple[Jet, int], ...]) -> Iterator[tuple[Sites, ...]]:
    """All ways to join equal jets at different sites in pairs."""
    if not jets:
        yield ()
        return
    (jet, site), *rest = jets
    for place, (other, beside) in enumerate(rest):
        if other == jet:  # one site has no letter twice
            assert len(jet) == 1
            for tail in _matchings((*rest[:place], *rest[place + 1 :])):
                yield ((site, beside), *tail)


@dataclass(frozen=True)
class Wanted:
    """Which components tensors need of every layer.

    Args:
        covariances: Pairs of pairs of jets.
        shifts: Pairs of jets.
    """

    covariances: tuple[tuple[Pair, Pair], ...]
    shifts: tuple[Pair, ...]

    @property
    def has_tangents(self) -> bool:
        """True if any takes a derivative in the parameters."""
        pairs = (*self.shifts, *itertools.chain(*self.covariances))
        return any(jet for pair in pairs for jet in pair)


@cache
def wanted(letters: tuple[str, ...]) -> Wanted:
    """All components behind some of `TENSORS`."""
    todo: list[tuple[Pair, Pair | None]] = []
    for letter in letters:
        todo.append((TENSORS[letter].first, TENSORS[letter].second))
    covariances: dict[tuple[Pair, Pair], None] = {}
    shifts: dict[Pair, None] = {}
    while todo:
        P, Q = todo.pop(0)
        if Q is None:
            P, _ = standard_pair(P)
            if P not in shifts:
                shifts[P] = None
                todo += _behind_a_shift(P)
        elif (pairs := standard(P, Q).pairs) not in covariances:
            covariances[pairs] = None
            todo += _behind(*pairs)
    return Wanted(tuple(covariances), tuple(shifts))


def _behind(P: Pair, Q: Pair) -> Iterator[tuple[Pair, Pair]]:
    for (_, one), (_, other) in itertools.product(sources(P), sources(Q)):
        for change, beside in itertools.product(
            response(one, flat=False), response(other, flat=False)
        ):
            if charge(change.pair) == charge(beside.pair):
                yield change.pair, beside.pair


def _behind_a_shift(P: Pair) -> Iterator[tuple[Pair, Pair | None]]:
    for _, part in sources(P):
        yield from ((change.pair, None) for change in response(part, flat=False))
        yield from ((one.pair, other.pair) for one, other in curvature(part, flat=False))
