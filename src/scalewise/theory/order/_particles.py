r"""The program at infinite width as a function of the weights of its units.

With $\mu=\sum_iw_i\delta_{g_i}$ for each population, $g_i$ standard normal numbers of all its random layers,
$$u_i=\Sigma^{1/2}g_i,\qquad\Sigma=C_b+C_W\mathcal L\,\sum_jw_jx_jx_j'$$
over all labels, all other nodes are what they are in a network, and averages over channels are weighted. At equal
weights of many units it is the network at infinite width, and a network of width $n$ has $n$ units drawn at random.

Source: derived; the law of a layer given those below is exact at any width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks._by_jax import traced
from scalewise.networks._forward import attention, entering, forward
from scalewise.networks._nodes import Attend, Draw, Norm
from scalewise.networks._program import Program
from scalewise.theory.order._populations import Populations, populations

_SINGULAR = 1e-9  # of a variance: what is added to it

Weights = Mapping[int, Any]  # of the units of each population


@dataclass
class Particles:
    """The program on weighted units.

    Args:
        program: The nodes.
        own: Which of them share units.
        weights: Of the units.
        normals: (label, channel) of every random layer whose units are drawn.
        fields: Of each node (sample, *positions, channel).
        covariances: Of random layers over labels.
        averages: All that units feel of others.
        entered: By weights what has entered them, and the normals of what they gave.
    """

    program: Program
    own: Populations
    weights: Weights
    normals: Mapping[int, Any]
    fields: dict[int, Any]
    covariances: dict[int, Any] = field(default_factory=dict)
    averages: list[Any] = field(default_factory=list)
    entered: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)

    @classmethod
    def run(
        cls,
        program: Program,
        wanted: tuple[int, ...],
        fixed: Mapping[int, Any],
        normals: Mapping[int, Any],
        weights: Weights,
    ) -> Particles:
        """All nodes behind some.

        Args:
            program: The nodes.
            wanted: Those that are read.
            fixed: Fields without weights.
            normals: (label, channel) of every random layer whose units are drawn.
            weights: Of the units of each population.
        """
        made = cls(program, populations(program, wanted), weights, normals, dict(fixed))
        for here in program.behind(wanted):
            if here not in made.fields:
                made.add(here)
        return made

    def add(self, here: int) -> None:
        """The next node."""
        node = self.program.nodes[here]
        if isinstance(node, Draw):
            self._draw(here, node)
            return
        below = [self.fields[k] for k in node.of]
        if isinstance(node, Norm):
            self.fields[here] = self._normed(node, below[0], self.shares(node.of[0]))
        elif isinstance(node, Attend) and node.grows:
            self.fields[here] = self._attended(node, below, self.shares(node.of[0]))
        else:
            sizes = self.program.positions[node.of[0]]
            self.fields[here] = forward(node, below, sizes, jnp, traced)

    def shares(self, node: int) -> Any:
        """The weight of each channel of a field in averages over channels."""
        if node in self.program.fixed:
            channels = self.fields[node].shape[-1]
            return np.full(channels, 1 / channels)
        parts = [
            share / self.own.inner[p] * jnp.repeat(self.weights[p], self.own.inner[p])
            for p, share in self.own.parts[node]
        ]
        return jnp.concatenate(parts)

    def metric(self, node: int) -> Any:
        """Of a field at one site its covariance over samples: given what is below it where that is a law."""
        if self.program.averages_out(((node, 1.0),)):
            return self.covariances[node]
        z = self.fields[node].reshape(len(self.fields[node]), -1)
        return (z * self.shares(node)) @ z.T

    def _draw(self, here: int, node: Draw) -> None:
        below = node.of[0]
        u = entering(self.fields[below], node.windows, self.program.positions[below], jnp)
        u = u.reshape(-1, node.taps, self.fields[below].shape[-1])
        before = self.entered.setdefault(self.program.weights_of(here), [])
        both = jnp.concatenate([*(entered for entered, _ in before), u])
        flat = (both * self.shares(below)).reshape(len(both), -1)
        # A circular window of many taps may see a place twice: then its weights add up, as here.
        Sigma = node.own.C_b + node.own.C_W / node.taps * flat @ both.reshape(len(both), -1).T
        if not node.shared:
            place = np.arange(len(both)) % math.prod(self.program.positions[here])
            Sigma = Sigma * (place[:, None] == place)
        self.covariances[here] = Sigma[-len(u) :, -len(u) :]
        if here in self.own.drawn:
            if below not in self.program.fixed:
                self.averages.append(
                    Sigma[-len(u) :][np.tri(len(u), len(both), len(both) - len(u), bool)]
                )
            g = jnp.concatenate([*(normals for _, normals in before), self.normals[here]])
            z = (_rooted(Sigma) @ g)[-len(u) :]
            before.append((u, self.normals[here]))
            samples = len(self.fields[below])
            self.fields[here] = z.reshape(samples, *self.program.positions[here], -1)

    def _normed(self, node: Norm, x: Any, shares: Any) -> Any:
        """Every group has all channels of its law."""

        def mean(values: Any) -> Any:
            found = (values @ shares)[..., None]
            axes = tuple(range(1, x.ndim - 1))
            found = found.mean(axis=axes, keepdims=True) if node.joint else found
            self.averages.append(found)
            return found

        x = x - mean(x) if node.centred else x
        return x / jnp.sqrt(mean(x * x) + node.eps)

    def _attended(self, node: Attend, below: list[Any], shares: Any) -> Any:
        """By heads that grow: every head has all channels of its law, and logits are averages over them."""
        assert node.power == 1
        q, k, v = (x.reshape(len(x), -1, x.shape[-1]) for x in below[:3])
        mask = below[3].reshape(len(q), 1, -1) if len(below) > 3 else None
        logits = (q * shares) @ jnp.swapaxes(k, -1, -2)
        self.averages.append(logits)
        p = attention(node, logits, jnp, traced, mask)
        return (p @ v).reshape(*below[0].shape[:-1], -1)


def _rooted(Sigma: Any) -> Any:
    """A root, whose derivatives exist where the covariance is singular."""
    variance = jax.lax.stop_gradient(jnp.diagonal(Sigma))
    scale = jnp.where(variance > 0, jnp.sqrt(jnp.abs(variance)), 1.0)
    rho = Sigma / (scale[:, None] * scale) + _SINGULAR * jnp.eye(len(Sigma))
    return jnp.where(variance > 0, scale, 0.0)[:, None] * jnp.linalg.cholesky(rho)
