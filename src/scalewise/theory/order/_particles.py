r"""The program at infinite width as a function of the weights of its units.

With $\mu=\sum_iw_i\delta_{g_i}$ for each population, $g_i$ standard normal numbers of all its random layers,
$$u_i=\Sigma^{1/2}g_i,\qquad\Sigma=C_b+C_W\mathcal L\,\sum_jw_jx_jx_j'$$
over all labels, all other nodes are what they are in a network, and averages over channels are weighted. At equal
weights of many units it is the network at infinite width, and a network of width $n$ has $n$ units drawn at random.

Source: derived; the law of a layer given those below is exact at any width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import (
    Attend,
    Draw,
    Normalise,
    Program,
    attention,
    entering,
    forward,
    gathered,
)
from scalewise.networks.spi_jax import traced
from scalewise.theory.order._populations import Populations, populations

_SINGULAR = 1e-9  # of a variance: what is added to it

Weights = Mapping[int, Any]  # of the units of each population
Root = tuple[Any, Any]  # standard deviations, and a root of the correlations


@dataclass
class Particles:
    r"""The program on weighted units.

    Args:
        program: The nodes.
        own: Which of them share units.
        weights: Of the units.
        normals: (label, channel) of every random layer whose units are drawn.
        paths: In place of these what they gave at equal weights, (sample, *positions, channel).
        fields: Of each node (sample, *positions, channel).
        entries: Of two random layers of the same weights $\mathcal L\langle xx'\rangle$, over their labels.
        covariances: Of these what they give, with its jets if there are any.
        averages: All that units feel of others.
        calls: By weights the random layers that have them and whose units are drawn.
        factors: Of norms what they multiply channels by.
        mixing: Of heads that grow the weights of positions.
    """

    program: Program
    own: Populations
    weights: Weights
    normals: Mapping[int, Any]
    paths: Mapping[int, Any]
    fields: dict[int, Any]
    entries: dict[tuple[int, int], Any] = field(default_factory=dict)
    covariances: dict[tuple[int, int], Any] = field(default_factory=dict)
    averages: list[Any] = field(default_factory=list)
    calls: dict[int, list[int]] = field(default_factory=dict)
    factors: dict[int, Any] = field(default_factory=dict)
    mixing: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def run(
        cls,
        program: Program,
        wanted: tuple[int, ...],
        fixed: Mapping[int, Any],
        weights: Weights,
        *,
        normals: Mapping[int, Any] | None = None,
        paths: Mapping[int, Any] | None = None,
    ) -> Particles:
        """All nodes behind some.

        Args:
            program: The nodes.
            wanted: Those that are read.
            fixed: Fields without weights.
            weights: Of the units of each population.
            normals: (label, channel) of every random layer whose units are drawn.
            paths: In place of these what they gave at equal weights.
        """
        own = populations(program, wanted)
        made = cls(program, own, weights, normals or {}, paths or {}, dict(fixed))
        for here in program.behind(wanted):
            if here not in made.fields:
                made.add(here)
        return made

    def add(self, here: int) -> None:
        """The next node."""
        node = self.program.nodes[here]
        if isinstance(node, Draw):
            self._draw(here, node)
        else:
            self.fields[here] = self.value(here, *(self.fields[k] for k in node.of))

    def value(self, here: int, *below: Any) -> Any:
        """A node that is not a random layer, of what it reads."""
        node = self.program.nodes[here]
        if isinstance(node, Normalise):
            return self._normed(here, node, below[0])
        if isinstance(node, Attend) and node.grows:
            return self._attended(here, node, below)
        return forward(node, below, self.program.positions[node.of[0]], jnp, traced)

    @property
    def inputs(self) -> int:
        """How many."""
        return len(next(iter(self.fields.values())))

    def flat(self, node: int) -> Any:
        """A field over its labels, (label, channel)."""
        return self.fields[node].reshape(self.labels(node), -1)

    def labels(self, node: int) -> int:
        """Labels of a field."""
        return self.inputs * math.prod(self.program.positions[node])

    def shares(self, node: int, weights: Weights | None = None) -> Any:
        """The weight of each channel of a field in averages over channels, in the last axis."""
        if node in self.program.fixed:
            channels = self.fields[node].shape[-1]
            return np.full(channels, 1 / channels)
        weights = self.weights if weights is None else weights
        parts = [
            share / inner * jnp.repeat(weights[p], inner, axis=-1)
            for p, share, inner in self.own.parts[node]
        ]
        return jnp.concatenate(parts, axis=-1)

    def second(self, one: int, other: int) -> Any:
        """The average of the product of two fields."""
        return (self.flat(one) * self.shares(one)) @ self.flat(other).T

    def metric(self, node: int) -> Any:
        """The covariance of a field of one site over samples: given what is below it where that is a law."""
        if self.program.averages_out(((node, 1.0),)):
            return self.covariances[node, node]
        return self.second(node, node)

    def entering(self, one: int, other: int, average: Any) -> Any:
        """An average over labels below as two random layers of the same weights see it: the mean over taps."""
        first, second = (self._seen(k) for k in (one, other))
        if first is None and second is None:
            return average
        (at, there), (its, its_there) = (
            seen or _all(self.labels(k)) for k, seen in ((one, first), (other, second))
        )
        found = average[at[:, None], its[None]] * (there[:, None] * its_there[None])
        return found.sum(axis=-1) / at.shape[1]

    def same_place(self, one: int, other: int) -> Any:
        """Where two random layers have the same weights; 1 if everywhere."""
        node = self.program.nodes[one]
        assert isinstance(node, Draw)
        if node.shared:
            return 1.0
        places = math.prod(self.program.positions[one])
        rows, columns = (np.arange(self.labels(k)) % places for k in (one, other))
        return (rows[:, None] == columns).astype(float)

    def joint(self, blocks: Mapping[tuple[int, int], Any], calls: list[int]) -> Any:
        """Some random layers of the same weights, one after the other."""
        return jnp.block([[blocks[one, other] for other in calls] for one in calls])

    def _seen(self, here: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Which labels below each tap of each label sees, and where there is any; ``None`` for its own."""
        node = self.program.nodes[here]
        assert isinstance(node, Draw)
        if all(window.is_identity for window in node.windows):
            return None
        sizes = self.program.positions[node.of[0]]
        numbers = np.arange(self.inputs * math.prod(sizes)).reshape(self.inputs, *sizes, 1)
        seen, there = gathered(numbers, node.windows, sizes, np)
        there = np.broadcast_to(there, seen.shape[:-1]).reshape(-1, node.taps)
        return seen.reshape(-1, node.taps), there.astype(float)

    def _entries(self, one: int, other: int) -> Any:
        r"""$\mathcal L\langle xx'\rangle$, in the cheaper order."""
        nodes, positions = self.program.nodes, self.program.positions
        first, second = nodes[one], nodes[other]
        assert isinstance(first, Draw)
        assert isinstance(second, Draw)
        (x,), (y,) = first.of, second.of
        places = math.prod(positions[one]) * math.prod(positions[other])
        if places * first.taps > math.prod(positions[x]) * math.prod(positions[y]):
            return self.entering(one, other, self.second(x, y))
        u, v = (
            entering(self.fields[k], node.windows, positions[k], jnp).reshape(
                -1, first.taps, self.fields[k].shape[-1]
            )
            for node, k in ((first, x), (second, y))
        )
        scaled = (u * (self.shares(x) / first.taps)).reshape(len(u), -1)
        return scaled @ v.reshape(len(v), -1).T

    def meet(self, here: int, covariance: Callable[[int, int], Any]) -> list[int]:
        """Random layers of the same weights up to one, whose covariances are made; none if its units are not drawn.

        Args:
            here: The last of them.
            covariance: Of two, over labels, or over jets and labels.
        """
        weights = self.program.weights_of(here)
        calls = [*self.calls.get(weights, ()), here]
        for there in calls:
            Sigma = covariance(here, there)
            self.covariances[there, here], self.covariances[here, there] = Sigma.T, Sigma
        if here in self.own.drawn:
            self.calls[weights] = calls
            return calls
        return []

    def _covariance(self, one: int, other: int) -> Any:
        node, S = self.program.nodes[one], self._entries(one, other)
        assert isinstance(node, Draw)
        self.entries[other, one], self.entries[one, other] = S.T, S
        # A circular window of many taps may see a place twice: then its weights add up, as here.
        return (node.own.C_b + node.own.C_W * S) * self.same_place(one, other)

    def _draw(self, here: int, node: Draw) -> None:
        calls, size = self.meet(here, self._covariance), self.labels(here)
        if not calls:
            return
        if node.of[0] not in self.program.fixed:
            rows = jnp.concatenate([self.covariances[here, there] for there in calls], axis=1)
            self.averages.append(rows[np.tri(size, rows.shape[1], rows.shape[1] - size, bool)])
        root = rooted(self.joint(self.covariances, calls))
        if self.paths:
            before = jnp.concatenate([self.paths[k].reshape(self.labels(k), -1) for k in calls])
            still = (jax.lax.stop_gradient(part) for part in root)
            g = whitened(next(still), next(still), before)
        else:
            g = jnp.concatenate([self.normals[k] for k in calls])
        scale, L = root
        z = (scale[-size:, None] * L[-size:]) @ g
        self.fields[here] = z.reshape(self.inputs, *self.program.positions[here], -1)

    def _normed(self, here: int, node: Normalise, x: Any) -> Any:
        """Every group has all channels of its law."""

        def mean(values: Any) -> Any:
            found = self.mean(node, values)
            self.averages.append(found)
            return found

        x = x - mean(x) if node.centred else x
        self.factors[here] = 1 / jnp.sqrt(mean(x * x) + node.eps)
        return x * self.factors[here]

    def mean(self, node: Normalise, values: Any, weights: Weights | None = None) -> Any:
        """Over channels, and over positions where a norm is over these, too.

        Args:
            node: A norm.
            values: Made of what it reads.
            weights: Of units, if others than those of the program.
        """
        shares = self.shares(node.of[0], weights)
        found = (values * shares).sum(axis=-1, keepdims=True)
        if not node.joint:
            return found
        axes = tuple(range(-len(self.program.positions[node.of[0]]) - 1, -1))
        there = self.fields[node.of[1]] if len(node.of) > 1 else jnp.ones_like(found)
        return (found * there).sum(axis=axes, keepdims=True) / there.sum(axis=axes, keepdims=True)

    def _attended(self, here: int, node: Attend, below: Sequence[Any]) -> Any:
        """By heads that grow: every head has all channels of its law, and logits are averages over them."""
        assert node.power == 1
        q, k, v = (x.reshape(len(x), -1, x.shape[-1]) for x in below[:3])
        logits = (q * self.shares(node.of[0])) @ jnp.swapaxes(k, -1, -2)
        self.averages.append(logits)
        self.mixing[here] = self.attention(node, logits)
        return (self.mixing[here] @ v).reshape(*below[0].shape[:-1], -1)

    def attention(self, node: Attend, logits: Any) -> Any:
        """Weights of positions (sample, ..., position, other position)."""
        mask = None
        if len(node.of) > 3:
            ahead = (1,) * (logits.ndim - 2)
            mask = self.fields[node.of[3]].reshape(self.inputs, *ahead, -1)
        return attention(node, logits, jnp, traced, mask)


def _all(labels: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(labels)[:, None], np.ones((labels, 1))


def _over(values: Any, scale: Any) -> Any:
    """(label, channel), divided by a number for each label, or 0."""
    return values * jnp.where(scale > 0, 1 / jnp.where(scale > 0, scale, 1.0), 0.0)[:, None]


def over(Sigma: Any, values: Any) -> Any:
    """(label, channel), divided by a covariance that may be singular."""
    scale, L = rooted(Sigma)
    return _over(jax.scipy.linalg.cho_solve((L, True), _over(values, scale)), scale)


def whitened(scale: Any, L: Any, z: Any) -> Any:
    """The normal numbers that gave $z$.

    Args:
        scale: Standard deviations.
        L: A root of the correlations.
        z: (label, channel).
    """
    return jax.scipy.linalg.solve_triangular(L, _over(z, scale), lower=True)


def rooted(Sigma: Any) -> Root:
    """A root, whose derivatives exist where the covariance is singular.

    Args:
        Sigma: The covariance.
    """
    variance = jax.lax.stop_gradient(jnp.diagonal(Sigma))
    scale = jnp.where(variance > 0, jnp.sqrt(jnp.abs(variance)), 1.0)
    rho = Sigma / (scale[:, None] * scale) + _SINGULAR * jnp.eye(len(Sigma))
    return jnp.where(variance > 0, scale, 0.0), jnp.linalg.cholesky(rho)
