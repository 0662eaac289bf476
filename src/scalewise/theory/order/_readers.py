r"""A random layer that reads activations: what it makes of their averages, on pairs of labels.

A population is all channels that are drawn together; its labels are the sites of all activations in it. A layer
reads some of these labels, mixes them tap by tap, and reacts to the layers that the preactivations there are sums
of,
$$\delta\Sigma_t[P]=\eta_t[P]+\sum_{j,P'}R_{tj}[P,P']\,\delta\Sigma_j[P'],\qquad
R_{tj}[P,P']=\sum_{\bar P\in P}c_{\bar P}\,\mathcal L_t\,J[\bar P,P']\,\mathcal L_{tj},$$
where $\eta_t$ is the fluctuation of averages over the $n$ channels of the population at fixed laws of these,
$\bar P$ runs over `sources` and $J$ is `response`. Matrices act on pairs of labels, which are unordered where both
jets are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from scalewise.theory.flow._layer import Expectations, as_many
from scalewise.theory.flow._pairs import UnorderedPairs
from scalewise.theory.order._densities import densities
from scalewise.theory.order._jets import Pair
from scalewise.theory.order._terms import (
    Change,
    Expectation,
    Monomial,
    Noise,
    Sites,
    features,
    noise,
    response,
    sources,
)

Operator = np.ndarray | sparse.csr_array
OnPairs = Float[np.ndarray, "_pair _estimate _other"]
Among = Callable[[np.ndarray, np.ndarray], Expectations]
_ONES = (0, 0, 0, 0)
_PLAIN: Pair = ((), ())
_DENSE = 64  # pairs, up to which matrices are not sparse


@dataclass
class Reader:
    r"""One random layer.

    Args:
        population: Number of the channels that it reads.
        expectations: Of the activation over all labels of these.
        among: The same with two factors on some of the labels and two on others, where there are more than one
            layer reads.
        Theta: Of their preactivations, on all labels; ``None`` where no tangent is asked for.
        at: The labels that it reads.
        taps: $B_\tau$, from these labels to its own; ``None`` for one that changes nothing.
        lifts: $L_{tj}$, from the labels of layers $j$ that fluctuate to those at `at`; a factor for the same
            labels.
        labels: How many it has itself.
        C_W: Variance of its weights.
        lambda_W: Their factor of the learning rate.
        n: Channels of the population.
        excess: Of the law of its weights.
    """

    population: int
    expectations: Expectations
    among: Among | None
    Theta: Float[np.ndarray, "_all _all2"] | None
    at: Int[np.ndarray, " _read"]
    taps: Sequence[np.ndarray] | None
    lifts: Mapping[int, np.ndarray | float]
    labels: int
    C_W: float
    lambda_W: float
    n: int
    excess: float = 0.0
    _responses: dict[Pair, dict[tuple[int, Pair], Operator]] = field(default_factory=dict)
    _lifts: dict[tuple[int, Pair], Operator | float] = field(default_factory=dict)

    @property
    def flat(self) -> bool:
        """True if the activation has no curvature."""
        return self.expectations.sigma.is_piecewise_linear

    def pairs(self, pair: Pair) -> UnorderedPairs:
        """Its labels, two by two."""
        return pairs_of(self.labels, pair)

    def rate(self, name: str) -> float:
        """One of its factors."""
        return self.C_W if name == "C_W" else self.lambda_W

    def responses(self, pair: Pair) -> dict[tuple[int, Pair], Operator]:
        """$R_{tj}[P,P']$ by $j$ and $P'$."""
        if pair not in self._responses:
            self._responses[pair] = self._made(pair)
        return self._responses[pair]

    def _made(self, pair: Pair) -> dict[tuple[int, Pair], Operator]:
        found: dict[tuple[int, Pair], Operator] = {}
        for name, part in sources(pair):
            entries: dict[Pair, list[tuple[np.ndarray, np.ndarray]]] = {}
            for change, terms in response(part, flat=self.flat).items():
                place = self.place(change, part)
                entries.setdefault(change.pair, []).append((self.coefficient(terms, part), place))
            for changed, parts in entries.items():
                J = self._matrix(parts, changed)
                J = self.mixed(part, self.rate(name) * J)
                for j in self.lifts:
                    key = (j, changed)
                    R = J * L if isinstance(L := self.lift(j, changed), float) else J @ L
                    found[key] = found[key] + R if key in found else R
        return found

    def _matrix(self, parts: list[tuple[np.ndarray, np.ndarray]], changed: Pair) -> Operator:
        """The matrix with some entries in each row, sparse if it is large."""
        rows = np.arange(len(parts[0][0]))
        width = pairs_of(len(self.at), changed).first.size
        if width <= _DENSE:
            whole = np.zeros((rows.size, width))
            for value, place in parts:
                whole[rows, place] += value
            return whole
        values = np.stack([value for value, _ in parts], axis=1)
        columns = np.stack([place for _, place in parts], axis=1)
        starts = np.arange(0, values.size + 1, len(parts))
        return sparse.csr_array((values.ravel(), columns.ravel(), starts), (rows.size, width))

    def place(self, change: Change, pair: Pair) -> Int[np.ndarray, " pair"]:
        """Where each pair of labels that is read finds the covariance that changes."""
        sites = self.sites(pair)
        return pairs_of(len(self.at), change.pair).index[sites[change.at[0]], sites[change.at[1]]]

    def sites(self, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
        """Numbers among the labels that it reads, two by two."""
        known = pairs_of(len(self.at), pair)
        return known.first, known.second

    def coefficient(
        self, terms: Mapping[Expectation, float], pair: Pair
    ) -> Float[np.ndarray, " pair"]:
        """A sum of expectations on the pairs of labels that are read."""
        first, second = (self.at[site] for site in self.sites(pair))
        total = np.zeros(first.size)
        for (orders, tangents), factor in terms.items():
            total += (
                factor
                * self.expectations.M(*orders)[first, second]
                * self._powers(tangents, first, second)
            )
        return total

    def _powers(self, count: int, first: np.ndarray, second: np.ndarray) -> np.ndarray | float:
        return self.theta[first, second] ** count if count else 1.0

    @property
    def theta(self) -> Float[np.ndarray, "_all _all2"]:
        r"""$\Theta$, which is there."""
        assert self.Theta is not None
        return self.Theta

    def mixed(self, pair: Pair, values: Operator) -> Operator:
        r"""$\mathcal L_t$ on the rows of a matrix."""
        return values if self.taps is None else self._mix(pair[0] == pair[1]) @ values

    def mixed_array(self, pair: Pair, values: np.ndarray) -> np.ndarray:
        r"""$\mathcal L_t$ on the first axis."""
        if self.taps is None:
            return values
        flat = self._mix(pair[0] == pair[1]) @ values.reshape(len(values), -1)
        return flat.reshape(-1, *values.shape[1:])

    def _mix(self, same: bool) -> Operator:
        return self._mixes[same]

    @cached_property
    def _mixes(self) -> dict[bool, Operator]:
        assert self.taps is not None
        return {same: on_pairs(self.taps, same=same) for same in (False, True)}

    def lift(self, j: int, changed: Pair) -> Operator | float:
        """From pairs of labels of layer `j` to pairs of labels that are read."""
        if (j, changed) not in self._lifts:
            self._lifts[j, changed] = lift_of(self.lifts[j], changed)
        return self._lifts[j, changed]

    def fourth(self, pair: Pair) -> OnPairs | None:
        r"""The fourth cumulant of two $z$ of a neuron with what a `pair` is of; ``None`` of normal weights.

        $$\frac{C_W^2}{n}\Big(\frac{\mathbb E[W^4]}{\mathbb E[W^2]^2}-3\Big)\sum_\tau
          (B_\tau\otimes B_\tau)\langle F_aF_bF^S_cF^T_d\rangle(B_\tau\otimes B_\tau)^T.$$
        """
        if not self.excess:
            return None
        covariance = self._fluctuating(features(_PLAIN, flat=self.flat), _PLAIN, self, pair)
        assert covariance is not None
        first, second = (self._mean(own)[:, None, None] for own in (_PLAIN, pair))
        values = covariance + first * second.T
        if self.taps is not None:
            seen = [
                [on_pairs([B], same=own[0] == own[1]) for own in (_PLAIN, pair)] for B in self.taps
            ]
            values = np.sum([left(one, right(values, other)) for one, other in seen], axis=0)
        return self.excess * self.C_W**2 / self.n * values

    def _mean(self, pair: Pair) -> Float[np.ndarray, " pair"]:
        """The mean of two features on the pairs of labels that are read."""
        terms = Counter((m.orders, m.matched) for m in features(pair, flat=self.flat))
        known = {(orders, n): float(count) for (orders, n), count in terms.items() if n is not None}
        return self.coefficient(known, pair)

    def noise_with(self, pair: Pair, other: Reader, beside: Pair) -> OnPairs | None:
        r"""$n\,\mathrm{Cov}[\eta_t[P],\eta_k[Q]]$ of two layers that read one population."""
        total = None
        for name, one in sources(pair):
            part = self.fluctuations(features(one, flat=self.flat), one, other, beside)
            if part is not None:
                part = self.rate(name) * self.mixed_array(one, part)
                total = part if total is None else total + part
        return total

    def fluctuations(
        self, own: tuple[Monomial, ...], pair: Pair, other: Reader, beside: Pair
    ) -> OnPairs | None:
        r"""$n\,\mathrm{Cov}[\xi[m],\eta_k[Q]]$ of a sum of monomials on the pairs of labels that are read."""
        total = None
        for name, part in sources(beside):
            found = self._fluctuating(own, pair, other, part)
            if found is not None:
                found = other.mixed_array(part, found.transpose(2, 1, 0)).transpose(2, 1, 0)
                found = other.rate(name) * found
                total = found if total is None else total + found
        return total

    def _fluctuating(
        self, own: tuple[Monomial, ...], pair: Pair, other: Reader, beside: Pair
    ) -> OnPairs | None:
        """Covariances of monomials on pairs of labels that are read, with the features of another layer."""
        labels = [self.at[site] for site in self.sites(pair)]
        labels += [other.at[site] for site in other.sites(beside)]
        total = None
        for term, count in noise(own, features(beside, flat=self.flat)).items():
            part = count * self._at_four(term, labels, other)
            total = part if total is None else total + part
        return total

    def _at_four(self, term: Noise, labels: list[np.ndarray], other: Reader) -> OnPairs:
        """One expectation at four sites."""
        E, places = self.expectations, labels
        if term.orders == _ONES and term.inside:
            a, b, c, d = labels
            index = E.pairs.index
            value = as_many(E.source)[:, index[a, b][:, None], index[c, d]]
        else:
            sided = self.among is not None
            if self.among is not None:
                E = self.among(self.at, other.at)
                a, b = (np.searchsorted(self.at, own) for own in labels[:2])
                c, d = (np.searchsorted(other.at, own) for own in labels[2:])
                places = [a, b, c, d]
            value = _four(E, term, places, sided=sided)
        value = value.swapaxes(0, 1)
        if E.sigma.kinks and max(term.orders) == 2:
            value = value + _kinked(self.expectations, term, labels)
        for joined in term.joined:
            value = value * self._beside(joined, labels)
        return value

    def _beside(self, joined: Sites, labels: list[np.ndarray]) -> np.ndarray:
        r"""$\Theta$ between two of four sites."""
        x, y = joined
        if y < 2:
            return self.theta[labels[x], labels[y]][:, None, None]
        if x >= 2:
            return self.theta[labels[x], labels[y]]
        return self.theta[labels[x][:, None], labels[y]][:, None]


def _four(E: Expectations, term: Noise, labels: list[np.ndarray], *, sided: bool) -> np.ndarray:
    """From a family in the order in which it is known."""
    order = list(range(4))
    if sided or term.inside:
        p, q, r, s = term.orders
        order[:2] = [1, 0] if p < q else [0, 1]
        order[2:] = [3, 2] if r < s else [2, 3]
        family = (max(p, q), min(p, q), max(r, s), min(r, s))
        if not sided and family == (1, 1, 0, 0):
            family, order = (0, 0, 1, 1), [*order[2:], *order[:2]]
        T = E.covariance(family) if term.inside else E.four(family)
    else:
        a, b, c, d = sorted(term.orders, reverse=True)
        highest = (a, b, c, d)
        family = _FAMILY.get(highest, highest)
        left = list(range(4))
        for place, wanted in enumerate(family):
            order[place] = next(k for k in left if term.orders[k] == wanted)
            left.remove(order[place])
        T = E.four(family)
    at = [labels[0][:, None], labels[1][:, None], labels[2], labels[3]]
    return T[:, at[order[0]], at[order[1]], at[order[2]], at[order[3]]]


def _kinked(E: Expectations, term: Noise, labels: list[np.ndarray]) -> OnPairs:
    """The part of a second derivative that stands at kinks."""
    a, b, c, d = labels
    assert sorted(term.orders[:2]) == [0, 2]
    assert term.orders[2:] == (0, 0)
    first = (a, b) if term.orders[0] == 2 else (b, a)
    return densities(E.sigma, E.K, first, (c, d), E.M(0, 0)[c, d])


# In the order of factors in which four are known together.
_FAMILY = {(1, 1, 0, 0): (0, 0, 1, 1), (2, 1, 1, 0): (2, 0, 1, 1)}


@lru_cache(maxsize=512)
def _pairs(count: int, same: bool) -> UnorderedPairs:
    return UnorderedPairs.of(count) if same else UnorderedPairs.ordered(count)


def pairs_of(count: int, pair: Pair) -> UnorderedPairs:
    """Pairs of labels, unordered where both have the same jet."""
    return _pairs(count, pair[0] == pair[1])


def lift_of(L: np.ndarray | float, pair: Pair) -> Operator | float:
    """A matrix of labels, or a factor, as one of pairs of labels."""
    return on_pairs([L], same=pair[0] == pair[1]) if isinstance(L, np.ndarray) else L**2


def left(R: Operator, values: np.ndarray) -> np.ndarray:
    """A matrix on the first pairs."""
    return (R @ values.reshape(len(values), -1)).reshape(-1, *values.shape[1:])


def right(values: OnPairs, R: Operator) -> OnPairs:
    """A matrix on the second pairs."""
    return left(R, values.transpose(2, 1, 0)).transpose(2, 1, 0)


def on_pairs(matrices: Sequence[np.ndarray], *, same: bool) -> Operator:
    r"""$\sum_\tau B_\tau\cdot B_\tau^T$ on pairs of labels, unordered if both jets are the `same`."""
    rows, columns = matrices[0].shape
    total = sum(
        (sparse.kron(sparse.csr_array(B), sparse.csr_array(B), format="csr") for B in matrices[1:]),
        sparse.kron(sparse.csr_array(matrices[0]), sparse.csr_array(matrices[0]), format="csr"),
    )
    total = sparse.csr_array(total)
    if not same:
        return total
    here, there = _pairs(rows, True), _pairs(columns, True)
    size = columns * columns
    fold = sparse.csr_array(
        (np.ones(size), (np.arange(size), there.index.ravel())), shape=(size, there.first.size)
    )
    return sparse.csr_array(total[here.first * rows + here.second] @ fold)
