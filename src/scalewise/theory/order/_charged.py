r"""Averages that hold one tangent, $\langle xy^a\rangle$: 0 at infinite width, and moved by single units.

With $X=C_W\mathcal L\langle xx^a\rangle$ the covariance of a field and a tangent that a random layer gives,
$$\mathbb E[u^a\mid u]=X^T\Sigma^{-1}u,\qquad\mathrm{Cov}[u^a\mid u]=\Theta-X^T\Sigma^{-1}X.$$
To first order all units follow the mean, whose averages are $X$ of later layers; norms and logits have averages
of the same kind. To second order the mean's square and the covariance that is left change the NTK.

Tangents that a unit is given are drawn, independent of its path.

Source: derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import Attend, Draw, Node, Normalise, forward
from scalewise.networks.spi_jax import traced
from scalewise.theory.order._letters import Letters
from scalewise.theory.order._particles import Particles, Weights, over

Tangents = dict[int, Any]  # of fields


def own_tangents(made: Particles, given: Mapping[int, Any]) -> Tangents:
    """How all fields follow the tangents of random layers, with all averages held, (copy, *field).

    Args:
        made: The program on weighted units.
        given: (copy, *field) of random layers whose units are drawn.
    """

    def one(given: Mapping[int, Any]) -> Tangents:
        found: Tangents = dict(given)
        for here in made.fields:
            node = made.program.nodes[here]
            if here not in found and any(k in found for k in node.of):
                found[here] = held(made, here, node, found)
        return found

    return jax.vmap(one)(dict(given))


def held(made: Particles, here: int, node: Node, tangents: Tangents) -> Any:
    """How a field follows the tangents of those that it is made of, with all averages held.

    Args:
        made: The program on weighted units.
        here: The field.
        node: What makes it.
        tangents: Of what it is made of.
    """
    if isinstance(node, Normalise):
        return made.factors[here] * tangents[node.of[0]]
    if isinstance(node, Attend) and node.grows:
        v = tangents.get(node.of[2])
        if v is None:
            return jnp.zeros_like(made.fields[here])
        return (made.mixing[here] @ v.reshape(len(v), -1, v.shape[-1])).reshape(v.shape)
    return _followed(made, node, tangents)


def _followed(made: Particles, node: Node, tangents: Tangents) -> Any:
    """A function of channels."""
    below = tuple(made.fields[k] for k in node.of)
    rates = tuple(tangents.get(k, jnp.zeros_like(x)) for k, x in zip(node.of, below, strict=True))
    moving = [place for place, k in enumerate(node.of) if k not in made.program.fixed]

    def value(*some: Any) -> Any:
        whole = list(below)
        for place, x in zip(moving, some, strict=True):
            whole[place] = x
        return forward(node, whole, made.program.positions[node.of[0]], jnp, traced)

    return jax.jvp(value, tuple(below[i] for i in moving), tuple(rates[i] for i in moving))[1]


@dataclass
class Charged:
    """How all units follow weights of tangents that single units are given.

    Args:
        made: The program on weighted units.
        mine: Tangents that units are given (copy, *field), of all fields.
        weights: Of these, (copy, unit), which sum over copies; everything is linear in them.
        means: What all units follow, of each field.
        X: By weights of random layers, of all of them with the tangents of all, (label, label).
        averages: All that units feel.
        kept: Averages by the node that makes them, and their number in it.
        laws: Of random layers the last block of `X`.
        done: By weights the random layers that have them, so far.
    """

    made: Particles
    mine: Tangents
    weights: Weights
    means: Tangents = field(default_factory=dict)
    X: dict[int, Any] = field(default_factory=dict)
    averages: list[Any] = field(default_factory=list)
    kept: dict[tuple[int, int], Any] = field(default_factory=dict)
    laws: dict[int, Any] = field(default_factory=dict)
    done: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def run(
        cls, made: Particles, mine: Tangents, weights: Weights, wanted: tuple[int, ...]
    ) -> Charged:
        """All nodes behind some."""
        found = cls(made, mine, weights)
        for here in made.program.behind(wanted):
            if here not in made.program.fixed:
                found.add(here)
        return found

    def add(self, here: int) -> None:
        """The next node."""
        node = self.made.program.nodes[here]
        if isinstance(node, Draw):
            self._draw(here, node)
        elif here not in self.made.program.fixed:
            self.means[here] = self._mean(here, node)

    def metric(self, node: int) -> Any:
        """The metric of a field at one site with its tangent."""
        if self.made.program.averages_out(((node, 1.0),)):
            return self.laws[node]
        return self.second(node, node)

    def second(self, one: int, other: int) -> Any:
        """The average of the product of a field and of a tangent, over their labels."""
        if other in self.made.program.fixed:
            return jnp.zeros((self.made.labels(one), self.made.labels(other)))
        x = self.made.flat(one)
        found = self._weighed(one, x[None]) @ self._flat(self.mine, other).swapaxes(1, 2)
        found = found.sum(axis=0)
        return found + (x * self.made.shares(one)) @ self._mean_of(other).T

    def square(self, one: int, other: int) -> Any:
        """The product of two tangents that comes of their means, to second order."""
        x, y = self._mean_of(one), self._mean_of(other)
        mine, its = self._flat(self.mine, one), self._flat(self.mine, other)
        found = (x * self.made.shares(one)) @ y.T
        found = found + (self._weighed(one, mine) @ y.T).sum(axis=0)
        return found + (self._weighed(other, its) @ x.T).sum(axis=0).T

    def explained(self) -> dict[int, Any]:
        r"""$X^T\Sigma^{-1}X$ of random layers, by their weights."""
        found = {}
        for weights, X in self.X.items():
            Sigma = self.made.joint(self.made.covariances, self.done[weights])
            found[weights] = X.T @ over(Sigma, X)
        return found

    def change(self) -> Letters:
        """The change of the NTK, to second order."""
        return Letters(self.made, own=self.square, explained=self.explained(), moving=False)

    def _flat(self, tangents: Tangents, node: int) -> Any:
        """(copy, label, channel)."""
        found = tangents[node]
        return found.reshape(len(found), self.made.labels(node), -1)

    def _mean_of(self, node: int) -> Any:
        found = self.means.get(node)
        if found is None:
            return jnp.zeros_like(self.made.flat(node))
        return jnp.broadcast_to(found, self.made.fields[node].shape).reshape(
            self.made.labels(node), -1
        )

    def _weighed(self, node: int, values: Any) -> Any:
        """(copy, label, channel), by the weights that tangents have."""
        return values * self.made.shares(node, self.weights)[:, None]

    def _draw(self, here: int, node: Draw) -> None:
        made, weights = self.made, self.made.program.weights_of(here)
        calls = [*self.done.get(weights, ()), here]
        right = [self._entering(there, here) for there in calls]
        self.laws[here] = right[-1]
        if here not in made.own.drawn:
            return
        self.done[weights] = calls
        before = self.X.get(weights)
        if before is None:
            X = right[0]
        else:
            left = jnp.concatenate([self._entering(here, there) for there in calls[:-1]], axis=1)
            X = jnp.block([[before, jnp.concatenate(right[:-1])], [left, right[-1]]])
        size = 0 if before is None else len(before)
        self.averages += [X[:size, size:].ravel(), X[size:].ravel()]
        self.X[weights] = X
        Sigma = made.joint(made.covariances, calls)
        found = X.T @ over(Sigma, jnp.concatenate([made.flat(k) for k in calls]))
        edges = np.cumsum([0, *(made.labels(k) for k in calls)])
        for k, start, end in zip(calls, edges[:-1], edges[1:], strict=True):
            self.means[k] = found[start:end].reshape(made.fields[k].shape)
        if len(calls) > 1:  # what came later tells of tangents that were there before
            for other in sorted(self.means):
                if calls[0] < other < here and not isinstance(made.program.nodes[other], Draw):
                    self.means[other] = self._mean(other, made.program.nodes[other])

    def _entering(self, one: int, other: int) -> Any:
        nodes = self.made.program.nodes
        node = nodes[one]
        assert isinstance(node, Draw)
        below = self.second(node.of[0], nodes[other].of[0])
        found = node.own.C_W * self.made.entering(one, other, below)
        return found * self.made.same_place(one, other)

    def _mean(self, here: int, node: Node) -> Any:
        if isinstance(node, Normalise):
            return self._normed(here, node)
        if isinstance(node, Attend) and node.grows:
            return self._attended(here, node)
        return _followed(self.made, node, self.means)

    def _normed(self, here: int, node: Normalise) -> Any:
        made, below, factor = self.made, node.of[0], self.made.factors[here]
        x = made.fields[below]
        x_a, mine = self.means.get(below, jnp.zeros_like(x)), self.mine[below]

        def average(number: int, mean: Any, own: Any) -> Any:
            """Kept, so that what is told of it later changes units alone."""
            if (here, number) not in self.kept:
                injected = jax.vmap(partial(made.mean, node))(own, weights=self.weights)
                self.kept[here, number] = made.mean(node, mean) + injected.sum(axis=0)
                self.averages.append(self.kept[here, number].ravel())
            return self.kept[here, number]

        if node.centred:
            x, x_a = x - made.mean(node, x), x_a - average(0, x_a, mine)
        q_a = average(1, 2 * x * x_a, 2 * x * mine)
        return factor * x_a - 0.5 * factor**3 * x * q_a

    def _attended(self, here: int, node: Attend) -> Any:
        made, shares = self.made, self.made.shares(node.of[0])
        q, k, v = (self._rows(made.fields[i]) for i in node.of[:3])
        q_a, k_a, v_a = (
            self._rows(self.means.get(i, jnp.zeros_like(made.fields[i]))) for i in node.of[:3]
        )
        logits = (q * shares) @ jnp.swapaxes(k, -1, -2)
        if (here, 0) not in self.kept:
            mine, its = (jax.vmap(self._rows)(self.mine[i]) for i in node.of[:2])
            w = made.shares(node.of[0], self.weights)[:, None, None]
            change = (q_a * shares) @ jnp.swapaxes(k, -1, -2) + (q * shares) @ jnp.swapaxes(
                k_a, -1, -2
            )
            own = (mine * w) @ jnp.swapaxes(k, -1, -2) + (q * w) @ jnp.swapaxes(its, -1, -2)
            self.kept[here, 0] = change + own.sum(axis=0)
            self.averages.append(self.kept[here, 0].ravel())
        p, p_a = jax.jvp(partial(made.attention, node), (logits,), (self.kept[here, 0],))
        return (p @ v_a + p_a @ v).reshape(*made.fields[node.of[0]].shape[:-1], -1)

    @staticmethod
    def _rows(x: Any) -> Any:
        return x.reshape(len(x), -1, x.shape[-1])
