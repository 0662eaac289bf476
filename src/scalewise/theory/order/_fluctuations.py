r"""Order 1/n through all random layers: covariances and mean shifts of $\Sigma_t$, layer by layer.

With $\delta\Sigma_t=\eta_t+\sum_jR_{tj}\delta\Sigma_j$ of `_readers`, jets and their pairs left out, and
$X_{tk}=\mathrm{Cov}[\eta_t,\delta\Sigma_k]$,
$$X_{tk}=\mathrm{Cov}[\eta_t,\eta_k]+\sum_jX_{tj}R_{kj}^T,\qquad
\mathrm{Cov}[\delta\Sigma_t,\delta\Sigma_k]=X_{tk}+\sum_jR_{tj}\,\mathrm{Cov}[\delta\Sigma_j,\delta\Sigma_k],$$
$$\overline{\delta\Sigma}_t=\sum_jR_{tj}\overline{\delta\Sigma}_j+\mathcal L_t\Big[\tfrac12\sum_{jk}\langle
\partial_j\partial_kF\rangle\,\mathrm{Cov}[\delta\Sigma_j,\delta\Sigma_k]
+\sum_j\mathrm{Cov}[\xi[\partial_jF],\delta\Sigma_j]\Big].$$
Fluctuations $\eta$ of layers that read different populations are independent. The last term is what a channel does
to
itself: its own earlier values move the law from which its later ones are drawn; it is 0 unless channels remember,
as along a stream of skip connections. Nothing is computed that no wanted component needs.

Source: derived; of a chain it is PDLT (4.119), (4.115) and their like.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.theory.order._jets import Pair, charge, standard, standard_pair
from scalewise.theory.order._readers import OnPairs, Operator, Reader, left, right
from scalewise.theory.order._terms import Monomial, Wanted, curvature, past, quartic, sources

Covariance = tuple[int, int, Pair, Pair]
Heard = dict[tuple[int, Pair], OnPairs | None]  # by layer and pair
Own = Callable[[int, Pair], OnPairs | None]
Shift = Float[np.ndarray, "_pair _estimate"]


@dataclass
class OrderOne:
    """Tensors of order 1/n of random layers that are read one after the other.

    Args:
        readers: By number of the layer; of those that read the inputs there are none.
    """

    readers: dict[int, Reader] = field(default_factory=dict)
    _covariances: dict[Covariance, OnPairs | None] = field(default_factory=dict)
    _own: dict[tuple[int, Pair], Heard] = field(default_factory=dict)
    _shifts: dict[tuple[int, Pair], Shift] = field(default_factory=dict)
    _fourths: dict[tuple[int, Pair], OnPairs] = field(default_factory=dict)

    def add(self, number: int, reader: Reader, wanted: Wanted, alive: Collection[int]) -> None:
        """The next layer, with all that later ones will ask of it; those that are not alive are forgotten."""
        self.readers = {k: r for k, r in self.readers.items() if k in alive}
        self._covariances = {
            key: v
            for key, v in self._covariances.items()
            if {key[0], key[1]} <= self.readers.keys()
        }
        self._shifts = {key: v for key, v in self._shifts.items() if key[0] in self.readers}
        self._fourths = {key: v for key, v in self._fourths.items() if key[0] in self.readers}
        self._own = {}
        others = [*self.readers]
        self.readers[number] = reader
        for P, Q in wanted.covariances:
            self.covariance(number, number, P, Q)
            for k in others:
                self.covariance(number, k, P, Q)
                self.covariance(number, k, Q, P)
        for P in wanted.shifts:
            self.shift(number, P)

    def covariance(self, t: int, k: int, P: Pair, Q: Pair) -> OnPairs | None:
        r"""$\mathrm{Cov}[\delta\Sigma_t[P],\delta\Sigma_k[Q]]$; ``None`` where they have no channels in common."""
        if t < k:
            return _transposed(self.covariance(k, t, Q, P))
        found = standard(P, Q, ordered=t > k)
        one, other = found.pairs
        key = (t, k, one, other)
        if key not in self._covariances:
            self._covariances[key] = self._made(*key)
        values = self._covariances[key]
        if values is None:
            return None
        for axis, turn, layer, pair in zip((0, 2), found.turns, (t, k), found.pairs, strict=True):
            if turn:
                values = np.take(values, self.readers[layer].pairs(pair).index.T.ravel(), axis)
        return _transposed(values) if found.swap else values

    def _made(self, t: int, k: int, P: Pair, Q: Pair) -> OnPairs | None:
        parts = [self._noise(t, P, k, Q)]
        for j, changed, R in self.below(t, P):
            if charge(changed) == charge(Q):
                before = self.covariance(j, k, changed, Q)
                if before is not None:
                    parts.append(left(R, before))
        return summed(parts)

    def below(self, t: int, P: Pair) -> Iterator[tuple[int, Pair, Operator]]:
        """The layers that fluctuate and that a layer reacts to."""
        for (j, changed), R in self.readers[t].responses(P).items():
            yield j, changed, R

    def _noise(self, t: int, P: Pair, k: int, Q: Pair) -> OnPairs | None:
        r"""$X_{tk}=\mathrm{Cov}[\eta_t[P],\delta\Sigma_k[Q]]$."""
        one = self.readers[t]

        def own(k: int, Q: Pair) -> OnPairs | None:
            other = self.readers[k]
            found = one.noise_with(P, other, Q) if one.population == other.population else None
            return None if found is None else found / one.n

        return self.heard(own, k, Q, self._own.setdefault((t, P), {}))

    def heard(self, own: Own, k: int, Q: Pair, known: Heard) -> OnPairs | None:
        """The covariance of averages over channels with a layer: with its fluctuation, and with what it reacts to.

        Layers that are forgotten do not depend on any channels that are still read.

        Args:
            own: With the fluctuation of a layer.
            k: The layer.
            Q: Which pair of it.
            known: What was found of these averages. A layer of a stream reacts to all before it, and each of these
                to all before that; so it has to be kept.
        """
        if (k, Q) not in known:
            parts = [own(k, Q)]
            for j, changed, R in self.below(k, Q):
                before = self.heard(own, j, changed, known) if j in self.readers else None
                parts.append(None if before is None else right(before, R))
            known[k, Q] = summed(parts)
        return known[k, Q]

    def shift(self, t: int, P: Pair) -> Shift:
        r"""$\overline{\delta\Sigma}_t[P]$."""
        P, _ = standard_pair(P)
        key = (t, P)
        if key not in self._shifts:
            reader = self.readers[t]
            total: np.ndarray = np.zeros((reader.pairs(P).first.size, 1))
            for j, changed, R in self.below(t, P):
                if not charge(changed):
                    total = total + R @ self.shift(j, changed)
            for name, part in sources(P):
                inner = self._bent(reader, part) + self._past(reader, part)
                inner = inner + self._of_laws(reader, part)
                total = total + reader.rate(name) * reader.mixed_array(part, inner)
            self._shifts[key] = total
        return self._shifts[key]

    def _bent(self, reader: Reader, part: Pair) -> Shift:
        """The second derivative of an average, by what fluctuates."""
        total: np.ndarray = np.zeros((len(reader.sites(part)[0]), 1))
        for (one, other), terms in curvature(part, flat=reader.flat).items():
            weights = reader.coefficient(terms, part)[:, None]
            for j, k in itertools.product(reader.lifts, repeat=2):
                values = self.covariance(j, k, one.pair, other.pair)
                if values is None:
                    continue
                values = lifted(reader.lift(j, one.pair), values)
                values = lifted_second(reader.lift(k, other.pair), values)
                found = values[reader.place(one, part), :, reader.place(other, part)]
                total = total + weights * found
        return total

    def _of_laws(self, reader: Reader, part: Pair) -> Shift:
        """The fourth derivative of an average, by the fourth cumulants that weights of other laws leave."""
        total: np.ndarray = np.zeros((len(reader.sites(part)[0]), 1))
        lifts = [j for j in reader.lifts if self.readers[j].excess]
        for (one, other), terms in (quartic(part, flat=reader.flat) if lifts else {}).items():
            weights = reader.coefficient(terms, part)[:, None]
            for j in lifts:
                values = lifted(reader.lift(j, one.pair), self._fourth(j, other.pair))
                values = lifted_second(reader.lift(j, other.pair), values)
                found = values[reader.place(one, part), :, reader.place(other, part)]
                total = total + weights * found
        return total

    def _fourth(self, j: int, pair: Pair) -> OnPairs:
        """The fourth cumulant of the neurons of a layer, two $z$ first."""
        if (j, pair) not in self._fourths:
            found = self.readers[j].fourth(pair)
            assert found is not None
            self._fourths[j, pair] = found
        return self._fourths[j, pair]

    def _past(self, reader: Reader, part: Pair) -> Shift:
        """Products of a channel with its own past."""
        rows = np.arange(len(reader.sites(part)[0]))
        total: np.ndarray = np.zeros((len(rows), 1))
        kept: dict[Monomial, Heard] = {}
        for factor, m, change in past(part, flat=reader.flat):
            own = partial(self._of_past, reader, m, part)
            for j in reader.lifts:
                values = self.heard(own, j, change.pair, kept.setdefault(m, {}))
                if values is not None:
                    values = lifted_second(reader.lift(j, change.pair), values)
                    total = total + factor * values[rows, :, reader.place(change, part)]
        return total

    def _of_past(self, reader: Reader, m: Monomial, part: Pair, j: int, Q: Pair) -> OnPairs | None:
        r"""$\mathrm{Cov}[\xi[m],\eta_j[Q]]$."""
        other = self.readers[j]
        if other.population != reader.population:
            return None
        found = reader.fluctuations((m,), part, other, Q)
        return None if found is None else found / reader.n


def lifted(L: Operator | float, values: np.ndarray) -> np.ndarray:
    """A matrix, or a factor, on the first pairs."""
    return L * values if isinstance(L, float | int) else left(L, values)


def lifted_second(L: Operator | float, values: OnPairs) -> OnPairs:
    """A matrix, or a factor, on the second pairs."""
    return L * values if isinstance(L, float | int) else right(values, L)


def _transposed(values: Any) -> Any:
    return None if values is None else values.transpose(2, 1, 0)


def summed(parts: Iterable[OnPairs | None]) -> OnPairs | None:
    """A sum of those that are there."""
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total
