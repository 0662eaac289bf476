"""Tensors of one label alone, at every layer of a chain: the scalar terms of the one rule, from expectations."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from scalewise.theory._tables._scan import scan
from scalewise.theory.order._scalar_terms import Component, Term, Terms, component, step

Map = Float[np.ndarray, "map #input"]
Tensor = Float[np.ndarray, "layer input"]


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
            made = self._made(of)
            self._found[of] = None if made is None else scan(*made)
        return self._found[of]

    def _made(self, of: Component) -> tuple[Map, Map] | None:
        """What multiplies a component, and what is added to it."""
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
        return alpha, beta

    def _sum(self, terms: Terms) -> Map | None:
        """A sum of terms, if all of it exists."""
        if terms not in self._sums:
            missing = any(
                term.moment not in self.moments or (term.tangents and self.Theta is None)
                for term in terms
            )
            self._sums[terms] = None if missing else np.asarray(sum(map(self._term, terms)))
        return self._sums[terms]

    def _term(self, term: Term) -> Map:
        value = self.moments[term.moment]
        if term.factor != 1:
            value = term.factor * value
        for rate in term.rates:
            value = self.rates[rate] * value
        if term.tangents:
            assert self.Theta is not None
            value = value * self.Theta**term.tangents
        return value
