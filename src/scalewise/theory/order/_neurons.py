r"""Layers whose neurons are sums of random layers: what two different ones of them have in common.

The covariance of such neurons given what is below is $\langle zz'\rangle$ over them. Its fluctuation is that of
the laws, $\delta C=\sum_jL_j\,\delta\Sigma_jL_j^T$, and of the neurons themselves, $\xi[zz']$; two different ones
share
$$\tfrac1nV=\mathrm{Cov}[\delta C,\delta C]+\mathrm{Cov}[\delta C,\xi[zz']]+\mathrm{Cov}[\xi[zz'],\delta C],$$
because what one neuron is moves the laws that the other one is drawn from. The same for jets.

Source: derived; PDLT (B.24) keeps of it what is quadratic in $z$.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from scalewise.theory.flow._pairs import UnorderedPairs
from scalewise.theory.order._fluctuations import Heard, OrderOne, lifted, lifted_second, summed
from scalewise.theory.order._jets import Component, Jet, Pair
from scalewise.theory.order._readers import OnPairs, Operator, Reader, lift_of, pairs_of
from scalewise.theory.order._terms import response, sources

Cross = Float[np.ndarray, "_label _other"]


@dataclass
class Neurons:
    """The neurons of one layer.

    Args:
        order: All random layers behind it.
        lifts: From the labels of those that fluctuate to its own, or a factor.
        population: Whose channels they are.
        K: Covariances with the labels of the population.
        Theta: Those of tangents.
        n: Channels of the layer below.
        remember: Whether a neuron is more than one random layer.
    """

    order: OrderOne
    lifts: Mapping[int, np.ndarray | float]
    population: int
    K: Cross
    Theta: Cross | None
    n: int
    remember: bool

    @property
    def labels(self) -> int:
        """How many it has."""
        return len(self.K)

    def tensor(self, component: Component) -> Float[np.ndarray, "_estimate ..."]:
        """A tensor of the layer, its printed indices in order, times the channels of the layer below."""
        first, second = component.first, component.second
        index = self._pairs(first).index
        if second is None:
            values = np.moveaxis(self._shift(first)[index], 2, 0)
        else:
            values = self._covariance(first, second).swapaxes(0, 1)[:, index]
            values = values[..., self._pairs(second).index]
        sites, printed = component.printed.split("->")
        return self.n * np.einsum(f"...{sites}->...{printed}", values)

    def _lift(self, j: int, pair: Pair) -> Operator | float:
        return lift_of(self.lifts[j], pair)

    def _pairs(self, pair: Pair) -> UnorderedPairs:
        return pairs_of(self.labels, pair)

    def _shift(self, pair: Pair) -> np.ndarray:
        total: np.ndarray = np.zeros((self._pairs(pair).first.size, 1))
        for j in self.lifts:
            total = total + lifted(self._lift(j, pair), self.order.shift(j, pair))
        return total

    def _covariance(self, P: Pair, Q: Pair) -> OnPairs:
        parts: list[OnPairs | None] = []
        for j in self.lifts:
            for k in self.lifts:
                values = self.order.covariance(j, k, P, Q)
                if values is not None:
                    values = lifted(self._lift(j, P), values)
                    parts.append(lifted_second(self._lift(k, Q), values))
        if self.remember:
            parts.append(self._remembered(P, Q))
            other = self._remembered(Q, P)
            parts.append(None if other is None else other.transpose(2, 1, 0))
        total = summed(parts)
        if total is None:
            return np.zeros((self._pairs(P).first.size, 1, self._pairs(Q).first.size))
        return total

    def _remembered(self, P: Pair, Q: Pair) -> OnPairs | None:
        r"""$\mathrm{Cov}[\xi[z^Sz^T],\delta C[Q]]$."""
        parts, known = list[OnPairs | None](), Heard()
        for j in self.lifts:
            values = self.order.heard(partial(self._of, P), j, Q, known)
            parts.append(None if values is None else lifted_second(self._lift(j, Q), values))
        return summed(parts)

    def _of(self, P: Pair, k: int, Q: Pair) -> OnPairs | None:
        r"""$\mathrm{Cov}[\xi[z^Sz^T],\eta_k[Q]]$."""
        reader = self.order.readers[k]
        if reader.population != self.population:
            return None
        found = self._quadratic(P, reader, Q)
        return None if found is None else found / reader.n

    def _quadratic(self, P: Pair, reader: Reader, Q: Pair) -> OnPairs | None:
        r"""$n\,\mathrm{Cov}[\xi[z^Sz^T],\eta_k[Q]]$, by parts: $\eta$ answers to the laws of $z^S$, $z^T$."""
        own = self._pairs(P)
        total = None
        for name, part in sources(Q):
            for change, terms in response(part, flat=reader.flat).items():
                if set(change.pair) != set(P) or sorted(change.pair) != sorted(P):
                    continue
                x, y = (reader.at[reader.sites(part)[site]] for site in change.at)
                S, T = P if change.pair == P else P[::-1]
                a, b = (own.first, own.second) if change.pair == P else (own.second, own.first)
                value = self._cross(S)[a][:, x] * self._cross(T)[b][:, y]
                if S == T:
                    value = value + self._cross(S)[a][:, y] * self._cross(T)[b][:, x]
                value = value * reader.coefficient(terms, part)
                value = reader.rate(name) * reader.mixed_array(part, value.T[:, :, None])
                total = value if total is None else total + value
        return None if total is None else total.transpose(1, 2, 0)

    def _cross(self, jet: Jet) -> Cross:
        if not jet:
            return self.K
        assert len(jet) == 1
        assert self.Theta is not None
        return self.Theta
