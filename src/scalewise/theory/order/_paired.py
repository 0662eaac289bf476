r"""Tangents of one unit beside each other: what weights that act on it several times add to the mean of the NTK.

With $y=Lg$ the tangents of a unit at all calls of some weights, $LL^T=\Theta$ in the order of the calls, averages
$\langle x^ax^a\rangle$ move with $gg^T$ of single units, and so do the laws $\Theta$ of later calls, by which the
same unit answers. Beyond the mean over $g$, which is taken by hand, its second derivative in its weight has
$$\mathrm{Cov}_g\big[gg^T,gg^T\big]=\mathbb E_{g,h}[SS],\qquad S=\tfrac1{\sqrt2}(gh^T+hg^T),$$
of two letters $g$, $h$. What a call answers with anew is independent of earlier tangents: so it is 0 unless an
average of two calls is the law of a third one, or fields of several calls meet behind them.

Source: derived.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp

from scalewise.networks.spi import Draw, Program
from scalewise.theory.order._charged import Tangents, held
from scalewise.theory.order._influences import of_different
from scalewise.theory.order._letters import Letters
from scalewise.theory.order._particles import Particles, Weights, rooted, whitened


def meets_itself(program: Program) -> bool:
    """True unless no weights act on a neuron twice, or twice in a chain of layers.

    Args:
        program: The nodes.
    """
    draws = (k for k in program.draws if program.nodes[k].of[0] not in program.fixed)
    again = max(Counter(map(program.weights_of, draws)).values(), default=0)
    meet = any(len(set(node.of) - program.fixed) > 1 for node in program.nodes)
    return again > 2 or (again == 2 and meet)


@dataclass
class Paired:
    """Tangents as they follow the laws that they move.

    Args:
        made: The program on weighted units.
        given: (copy, *field) of random layers, at the laws of infinitely many units.
        weights: Of products of two copies, (copy, other copy, unit).
        found: Tangents of fields so far.
    """

    made: Particles
    given: Mapping[int, Any]
    weights: Weights
    found: Tangents = field(default_factory=dict)

    @classmethod
    def of(
        cls, made: Particles, given: Mapping[int, Any], weights: Weights, *, exact: bool
    ) -> Paired:
        """Tangents of two letters: columns of a root, or different ones of those that are drawn."""
        whole = weights if exact else {p: of_different(w) for p, w in weights.items()}
        return cls(made, given, whole)

    @cached_property
    def letters(self) -> Letters:
        """Averages of two tangents with these."""
        return Letters(self.made, own=self.second)

    def second(self, one: int, other: int) -> Any:
        """The average of the products of two tangents, each of another copy."""
        x, y = (self._flat(node) for node in (one, other))
        w = self.made.shares(one, self.weights)
        products = (jnp.einsum(f"{ab}n,csn,dtn->st", w, x, y) for ab in ("cd", "dc"))
        return sum(products) / math.sqrt(2)

    def _flat(self, node: int) -> Any:
        """(copy, label, channel)."""
        found = self.tangents(node)
        return found.reshape(len(found), self.made.labels(node), -1)

    def tangents(self, here: int) -> Any:
        """Those of a field, (copy, *field)."""
        if here not in self.found:
            node, program = self.made.program.nodes[here], self.made.program
            if isinstance(node, Draw):
                self.found[here] = self._followed(here, node)
            else:
                below = {k: self.tangents(k) for k in node.of if k not in program.fixed}
                self.found[here] = jax.vmap(lambda some: held(self.made, here, node, some))(below)
        return self.found[here]

    def _followed(self, here: int, node: Draw) -> Any:
        made = self.made
        if node.of[0] in made.program.fixed:
            return self.given[here]
        whole = made.calls[made.program.weights_of(here)]
        calls = whole[: whole.index(here) + 1]
        laws = {(k, m): self.letters.law(k, m) for k in calls for m in calls}
        scale, L = rooted(made.joint(laws, calls))
        still = jax.lax.stop_gradient((scale, L))
        own = [self.given[k].reshape(len(self.given[k]), made.labels(k), -1) for k in calls]
        g = jax.vmap(lambda y: whitened(*still, y))(jnp.concatenate(own, axis=1))
        size = made.labels(here)
        return ((scale[-size:, None] * L[-size:]) @ g).reshape(self.given[here].shape)


def bent(
    made: Particles,
    given: Mapping[int, Any],
    weights: Weights,
    ends: tuple[int, ...],
    *,
    exact: bool,
) -> list[Any]:
    """NTKs to second order in weights of products of tangents.

    Args:
        made: The program on weighted units.
        given: (copy, *field) of random layers.
        weights: A direction of them.
        ends: The layers.
        exact: Whether copies are the columns of a root, and not drawn.
    """

    def ntks(step: Any) -> list[Any]:
        now = {p: step * w for p, w in weights.items()}
        own = Paired.of(made, given, now, exact=exact)
        return [own.letters.ntk(end) for end in ends]

    def slope(step: Any) -> list[Any]:
        return jax.jvp(ntks, (step,), (jnp.ones(()),))[1]

    _, second = jax.jvp(slope, (jnp.zeros(()),), (jnp.ones(()),))
    return [0.5 * part for part in second]


def moved(made: Particles, given: Mapping[int, Any], weights: Weights, *, exact: bool) -> list[Any]:
    """Averages of two tangents that units feel, as weights of products of these move them.

    Args:
        made: The program on weighted units.
        given: (copy, *field) of random layers.
        weights: Of products.
        exact: Whether copies are the columns of a root, and not drawn.
    """
    return Paired.of(made, given, weights, exact=exact).letters.averages()
