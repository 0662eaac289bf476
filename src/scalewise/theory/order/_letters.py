r"""Covariances of tangents: the NTK as a kernel of the derivatives of fields along a random direction.

With a letter $a$ for a direction $\omega^a$ of all parameters, normal with the learning-rate factors as variances,
and $z^a=\partial_{\omega^a}z$, the NTK is $\mathbb E_\omega[z^az^a]$, and tangents are fields of a forward program:
$$u^a\sim N(0,\Theta),\qquad
  \Theta=\lambda_b+\lambda_W\mathcal L\langle xx\rangle+C_W\mathcal L\langle x^ax^a\rangle,\qquad
  x^a_i=J_iu^a_i.$$
Given the path of a unit tangents are averaged by hand: $\langle x^ax^a\rangle=\sum_iw_iJ_i\Theta J_i^T$.

Source: derived; PDLT (8.63) for fully connected layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import (
    Attend,
    Concat,
    Draw,
    Mix,
    Normalise,
    PositionMap,
    Stack,
    Sum,
    Weigh,
    forward,
)
from scalewise.theory.order._heads import of_heads
from scalewise.theory.order._particles import Particles
from scalewise.theory.order._slopes import Sites, UnitSlopes


class Letters:
    r"""Averages $\langle x^ay^a\rangle$ of tangents over units, (label, label).

    Args:
        made: The program on weighted units.
        own: What else is in the average of two fields that random layers read, or that are the end, by their nodes.
        explained: By weights what of the covariance of tangents is a function of fields.
        moving: Whether random layers have learning rates. Without them it is a linear function of `own` and
            `explained`: how averages follow them.
    """

    def __init__(
        self,
        made: Particles,
        *,
        own: Callable[[int, int], Any] | None = None,
        explained: Mapping[int, Any] | None = None,
        moving: bool = True,
    ) -> None:
        self.made, self.own, self.moving = made, own, moving
        self.explained = explained or {}
        self.slopes = UnitSlopes(made)
        self.found: dict[tuple[int, int], Any] = {}
        self.laws: dict[tuple[int, int], Any] = {}

    def ntk(self, node: int) -> Any:
        """The NTK of a field at one site."""
        if self.made.program.averages_out(((node, 1.0),)):
            return self.law(node, node)
        found = self.of(node, node)
        return found if self.own is None else found + self.own(node, node)

    def averages(self) -> list[Any]:
        """All that units feel of the tangents of others."""
        found, program = [], self.made.program
        for calls in self.made.calls.values():
            for place, here in enumerate(calls):
                if program.nodes[here].of[0] not in program.fixed:
                    found += [self.law(here, there).ravel() for there in calls[: place + 1]]
        return found

    def law(self, one: int, other: int) -> Any:
        """Covariances of tangents of two random layers of the same weights."""
        if (one, other) not in self.laws:
            self.laws[one, other] = self._law(one, other)
        return self.laws[one, other]

    def of(self, one: int, other: int) -> Any:
        """Covariances of tangents of two fields."""
        if (one, other) not in self.found:
            self.found[one, other] = self._of(one, other)
        return self.found[one, other]

    def _law(self, one: int, other: int) -> Any:
        made = self.made
        node, second = (made.program.nodes[k] for k in (one, other))
        assert isinstance(node, Draw)
        x, y = node.of[0], second.of[0]
        below = self.of(x, y)
        if self.own is not None and x not in made.program.fixed and y not in made.program.fixed:
            below = below + self.own(x, y)
        found = node.own.C_W * made.entering(one, other, below)
        if self.moving:
            found = found + node.own.lambda_b + node.own.lambda_W * made.entries[one, other]
        return found * made.same_place(one, other)

    def _of(self, one: int, other: int) -> Any:
        program = self.made.program
        if {one, other} & program.fixed or program.apart(one, other):
            return jnp.zeros((self.made.labels(one), self.made.labels(other)))
        first, second = program.nodes[one], program.nodes[other]
        if isinstance(first, Draw) and isinstance(second, Draw):
            return self._given(one, other)
        if isinstance(first, Concat) and one == other:
            pairs = zip(first.of, first.shares, strict=True)
            return sum(share * self.of(k, k) for k, share in pairs)
        # The later one first, so that what remains has fewer nodes behind it.
        for here in sorted({one, other}, reverse=True):
            if _is_linear(program.nodes[here]):
                if here == one:
                    return self._linear(one, lambda k: self.of(k, other))
                return self._linear(other, lambda k: self.of(one, k).T).T
        if one == other and isinstance(first, Attend):
            return of_heads(self.made, self.of, one)
        return self._by_units(one, other)

    def _given(self, one: int, other: int) -> Any:
        """Covariances of two random layers that fields do not explain."""
        weights = self.made.program.weights_of(one)
        if weights not in self.explained:
            return self.law(one, other)
        calls = self.made.calls[weights]
        edges = np.cumsum([0, *(self.made.labels(k) for k in calls)])
        rows, columns = (
            slice(edges[calls.index(k)], edges[calls.index(k) + 1]) for k in (one, other)
        )
        return self.law(one, other) - self.explained[weights][rows, columns]

    def _linear(self, here: int, below: Callable[[int], Any]) -> Any:
        """A linear node, of whose parts (label, anything) is known."""
        made, program = self.made, self.made.program
        node, positions = program.nodes[here], program.positions

        def laid(k: int) -> Any:
            found = below(k)
            return found.reshape(made.inputs, *positions[k], found.shape[-1])

        if isinstance(node, Normalise):
            found = laid(node.of[0]) * made.factors[here]
        elif isinstance(node, Sum):
            parts = [f * laid(k) for f, k in zip(node.factors, node.of, strict=True)]
            found = jnp.stack(parts).sum(axis=0)
        elif isinstance(node, Attend):
            x = laid(node.of[2])
            found = made.mixing[here] @ x.reshape(made.inputs, -1, x.shape[-1])
        else:
            last = [made.fields[k] for k in node.of[1:]]
            parts = (
                [laid(k) for k in node.of] if isinstance(node, Stack) else [laid(node.of[0]), *last]
            )
            found = forward(node, parts, positions[node.of[0]], jnp)
        return found.reshape(made.labels(here), -1)

    def _by_units(self, one: int, other: int) -> Any:
        made, found = self.made, 0.0
        shares, program = made.shares(one), made.program
        for (k, sites), J in self.slopes.of(one).items():
            for (m, its), other_J in self.slopes.of(other).items():
                if {k, m} & program.fixed or program.apart(k, m):
                    continue
                left, right = (_spread(a, made, node) for a, node in ((J, one), (other_J, other)))
                seen = self.of(k, m)[np.ix_(self._labels(sites, k), self._labels(its, m))]
                found = found + (left * shares) @ right.T * seen
        return found

    def _labels(self, sites: Sites, node: int) -> np.ndarray:
        """Labels of a given tangent that are followed; any where none is."""
        size = self.made.labels(node) // self.made.inputs
        own = np.maximum(np.asarray(sites), 0)
        return (np.arange(self.made.inputs)[:, None] * size + own).ravel()


def _spread(J: Any, made: Particles, node: int) -> Any:
    """Slopes over all labels and channels."""
    field = made.fields[node]
    return jnp.broadcast_to(J, field.shape).reshape(-1, field.shape[-1])


def _is_linear(node: object) -> bool:
    """True if labels are combined, with factors that all units share."""
    linear = isinstance(node, Sum | PositionMap | Normalise | Weigh | Mix | Stack)
    return linear or (isinstance(node, Attend) and node.grows)
