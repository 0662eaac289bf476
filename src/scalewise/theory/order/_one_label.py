"""Tensors of one label alone, at every layer of a chain: the scalar terms of the one rule, from expectations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from scalewise.theory._tables._scan import scan
from scalewise.theory.order._jets import Pair
from scalewise.theory.order._scalar_terms import (
    Component,
    Terms,
    component,
    covariance_step,
    shift_step,
)

Map = Float[np.ndarray, "map #input"]
Tensor = Float[np.ndarray, "layer input"]
Step = tuple[np.ndarray, np.ndarray]  # what multiplies a tensor, and what is added


@dataclass
class Chain:
    r"""What carries tensors of single labels from layer to layer, for all layers but the last.

    Args:
        moments: Expectations, by their names in the tables.
        rates: ``C_W`` and ``lambda_W`` of the next layer.
        Theta: The NTK; ``None`` where there is none.
        r: $n_\ell/n_{\ell-1}$.
        shifts: $c_b^{\{1\}}$ and $c_W^{\{1\}}$ of $C_b$ and $C_W$.
    """

    moments: Mapping[str, Map]
    rates: Mapping[str, Map]
    Theta: Map | None
    r: Map
    shifts: tuple[float, float] = (0.0, 0.0)
    _found: dict[Component, Tensor | None] = field(default_factory=dict)
    _sums: dict[Terms, Map | None] = field(default_factory=dict)

    def tensors(self, letters: Collection[str]) -> dict[str, Tensor]:
        """Those out of some whose expectations are there, by letter."""
        found = {letter: self.tensor(component(letter)) for letter in letters}
        return {letter: X for letter, X in found.items() if X is not None}

    def tensor(self, of: Component) -> Tensor | None:
        """One component at every layer; ``None`` if an expectation behind it is missing."""
        if of not in self._found:
            P, Q = of
            step = self._shift(P) if Q is None else self._covariance(P, Q)
            self._found[of] = None if step is None else scan(*step)
        return self._found[of]

    def _covariance(self, P: Pair, Q: Pair) -> Step | None:
        own = covariance_step(P, Q)
        alpha, beta = 0.0, self._sum(own.noise)
        if beta is None:
            return None
        for key, one, other in own.reads:
            left, right = self._sum(one), self._sum(other)
            if left is None or right is None:
                return None
            factor = self.r * left * right
            if key == (P, Q):
                alpha = alpha + factor
            elif (Y := self.tensor(key)) is None:
                return None
            else:
                beta = beta + factor * Y[:-1]
        return np.asarray(alpha), beta

    def _shift(self, P: Pair) -> Step | None:
        own = shift_step(P)
        mean = self._sum(own.mean)
        if mean is None:
            return None
        alpha, beta = 0.0, self.shifts[0] * own.biased + self.shifts[1] * mean
        for key, terms in (*own.reads, *own.bends):
            factor = self._sum(terms)
            if factor is None:
                return None
            if key == (P, None):
                alpha = alpha + self.r * factor
            elif (Y := self.tensor(key)) is None:
                return None
            else:
                beta = beta + self.r * factor * Y[:-1]
        return np.asarray(alpha), beta

    def _sum(self, terms: Terms) -> Map | None:
        """A sum of terms, if all of it exists."""
        if terms not in self._sums:
            missing = any(
                term.moment not in self.moments or (term.tangents and self.Theta is None)
                for term in terms
            )
            self._sums[terms] = None if missing else self._made(terms)
        return self._sums[terms]

    def _made(self, terms: Terms) -> Map:
        total = 0.0
        for term in terms:
            value = self.moments[term.moment]
            if term.factor != 1:
                value = term.factor * value
            for rate in term.rates:
                value = self.rates[rate] * value
            if term.tangents:
                assert self.Theta is not None
                value = value * self.Theta**term.tangents
            total = total + value
        return np.asarray(total)
