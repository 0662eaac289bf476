r"""Tensors of one label alone, at every layer: the scalar terms of the one rule, from expectations.

Along a stream of skip connections averages $\xi^{(\ell)}[F]$ over the neurons of a layer fluctuate together with
all earlier ones, whose covariance with the law $C^{(k)}$ of each of these is carried on like the law itself,
$$x^{(k+1)}_\ell[Q]=\sum_{Q'}R^{(k)}[Q,Q']\,x^{(k)}_\ell[Q']+n\,\mathrm{Cov}\big[\xi^{(\ell)}[F],\eta^{(k)}[Q]\big],
\qquad k<\ell,$$
and is read at $k=\ell$. So are the neurons themselves, $F=z^Sz^T$, which two of them have in common with their law.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from scalewise.theory._tables._scan import scan
from scalewise.theory.order._jets import Pair
from scalewise.theory.order._scalar_terms import (
    Averages,
    Component,
    Orders,
    Term,
    Terms,
    by_layer,
    component,
    mean_of,
    responses,
    same,
    step,
)
from scalewise.theory.order._terms import Noise, features, noise, sources

Map = Float[np.ndarray, "map #input"]
Tensor = Float[np.ndarray, "layer input"]
_TANGENT = ("a",)
Past = Float[np.ndarray, "map layer"]  # of earlier layers with later ones


@dataclass
class Chain:
    r"""Factors that carry tensors of single labels from layer to layer, for all layers but the last.

    Args:
        moments: Expectations, by their names in the tables.
        rates: ``C_W`` and ``lambda_W`` of the next layer, and ``skip``, the $\gamma^2$ of what is added there.
        Theta: The NTK; ``None`` where there is none.
        r: $n_\ell/n_{\ell-1}$.
        shifts: $c_b^{\{1\}}$ and $c_W^{\{1\}}$ of $C_b$ and $C_W$.
        K: The kernel, of a stream.
        kept: How much of a neuron is left in later layers; ``None`` where neurons remember nothing.
        between: Covariances of two factors in a later layer and two in an earlier one, by their derivatives.
    """

    moments: Mapping[str, Map]
    rates: Mapping[str, Map]
    Theta: Map | None
    r: Map
    shifts: tuple[float, float] = (0.0, 0.0)
    K: Map | None = None
    kept: Past | None = None
    between: Mapping[Orders, Past] = field(default_factory=dict)
    _found: dict[Component, Tensor | None] = field(default_factory=dict)
    _sums: dict[Terms, Map | None] = field(default_factory=dict)
    _heard: dict[tuple[Averages | Pair, Pair], Past | None] = field(default_factory=dict)

    def tensors(self, letters: Collection[str]) -> dict[str, Tensor]:
        """Those out of some whose expectations are there, by letter."""
        found = {letter: self._of_neurons(component(letter)) for letter in letters}
        return {letter: X for letter, X in found.items() if X is not None}

    def _of_neurons(self, of: Component) -> Tensor | None:
        """A component of what two neurons have in common: of their laws, and of each with the law of the other."""
        X, (P, Q) = self.tensor(of), of
        if X is None or Q is None or self.kept is None:
            return X
        both = self._at_own(P, Q), self._at_own(Q, P)
        return None if both[0] is None or both[1] is None else X + both[0] + both[1]

    def tensor(self, of: Component) -> Tensor | None:
        """One component at every layer; ``None`` if an expectation behind it is missing."""
        if of not in self._found:
            made = self._made(of)
            self._found[of] = None if made is None else scan(*made)
        return self._found[of]

    def _made(self, of: Component) -> tuple[Map, Map] | None:
        """The factor of a component, and the addition to it."""
        own, alpha = step(of), np.zeros(1)
        beta = self._sum(own.added)
        if beta is None:
            return None
        if of[1] is None:
            beta = self.shifts[0] * (not any(of[0])) + self.shifts[1] * beta
        for key, factors in own.reads:
            known = [x for x in map(self._sum, factors) if x is not None]
            Y = None if key == of else self.tensor(key)
            if len(known) < len(factors) or (Y is None and key != of):
                return None
            factor = math.prod(known, start=self.r)
            if Y is None:
                alpha = alpha + factor
            else:
                beta = beta + factor * Y[:-1]
        for terms, own_averages, Q in own.met if self.kept is not None else ():
            factor, x = self._sum(terms), self._at_own(own_averages, Q)
            if factor is None or x is None:
                return None
            beta = beta + factor * x[:-1]
        return alpha, beta

    def _at_own(self, own: Averages | Pair, Q: Pair) -> Tensor | None:
        """Covariances of averages, or neurons, of each layer with its law."""
        x = self._with_past(own, Q)
        return None if x is None else np.diagonal(x)[:, None]

    def _with_past(self, own: Averages | Pair, Q: Pair) -> Past | None:
        """And with the laws of all earlier layers, (layer, layer of the averages)."""
        if (own, Q) not in self._heard:
            self._heard[own, Q] = self._carried(own, Q)
        return self._heard[own, Q]

    def _carried(self, own: Averages | Pair, Q: Pair) -> Past | None:
        alpha, beta = None, self._met(own, Q)
        for changed, terms in responses(Q).items():
            R = self._sum(terms)
            if R is None or beta is None:
                return None
            if same(changed, Q):
                alpha = R
            elif (x := self._with_past(own, changed)) is None:
                return None
            else:
                beta = beta + R * x[:-1]
        assert alpha is not None
        assert beta is not None
        earlier = np.triu(
            np.ones(beta.shape), 1
        )  # what comes later is never read, and may overflow
        return scan(alpha * earlier, beta * earlier)

    def _met(self, own: Averages | Pair, Q: Pair) -> Past | None:
        """Covariances of averages or neurons of later layers with what is drawn anew in each."""
        if own and isinstance(own[0], tuple):
            return self._neurons(own, Q)  # type: ignore[arg-type]
        assert self.kept is not None
        total = np.zeros(self.kept.shape)
        for rate, part in sources(Q):
            for term, count in noise(own, features(part, flat=False)).items():  # type: ignore[arg-type]
                value = self._between(term)
                if value is None:
                    return None
                total += count * self.rates[rate] * value
        return total

    def _between(self, term: Noise) -> Past | None:
        """One expectation at two sites of a later layer and two of an earlier one."""
        orders = by_layer(term)
        value = self.between.get(orders)
        if not term.inside and value is not None:
            late, early = (self.moments.get(mean_of(part)) for part in (orders[:2], orders[2:]))
            if late is None or early is None:
                return None
            value = value + _later(late) * early
        for x, y in term.joined if value is not None else ():
            if self.Theta is None:
                return None
            beside = self.Theta if x >= 2 else _later(self.Theta) if y < 2 else self._kept(_TANGENT)
            value = value * beside
        return value

    def _neurons(self, P: Pair, Q: Pair) -> Past | None:
        """By parts: how averages answer to the laws of both factors, times what is left of these."""
        terms = next((of for changed, of in responses(Q).items() if same(changed, P)), ())
        R = self._sum(tuple(term for term in terms if "skip" not in term.rates))
        if R is None:
            return None
        return (1 + (P[0] == P[1])) * R * self._kept(P[0]) * self._kept(P[1])

    def _kept(self, jet: tuple[str, ...]) -> Past:
        """Covariances of a jet with itself in later layers."""
        of = self.Theta if jet else self.K
        assert of is not None
        assert self.kept is not None
        return self.kept * of

    def _sum(self, terms: Terms) -> Map | None:
        """A sum of terms, if all of it exists."""
        if terms not in self._sums:
            missing = any(
                (term.moment and term.moment not in self.moments)
                or (term.tangents and self.Theta is None)
                for term in terms
            )
            self._sums[terms] = None if missing else np.asarray(sum(map(self._term, terms)))
        return self._sums[terms]

    def _term(self, term: Term) -> Map:
        value = self.moments[term.moment] if term.moment else np.ones(1)
        if term.factor != 1:
            value = term.factor * value
        for rate in term.rates:
            value = self.rates[rate] * value
        if term.tangents:
            assert self.Theta is not None
            value = value * self.Theta**term.tangents
        return value


def _later(of: Map) -> Float[np.ndarray, "1 layer"]:
    """By the layer of averages; the last one has none that are read."""
    return np.append(of[:, 0], 0.0)[None]
