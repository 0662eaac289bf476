r"""A layer of one site as two of its neurons see it: what they share, and what is averaged over.

Neurons of random layers with weights of their own are $z_i=b_i+\sum_jw_{ij}y_j$ with independent standard normal
$w_{ij}$ and rates $\lambda_W/C_W$: given the network below, all that two of them have in common is in the fields
$y$, which hold $\sqrt{C_W/m}$ for $m$ entries. Where a neuron adds what it remembers, or its weights are used
below, too, nothing is averaged over: $y$ are then the neurons themselves, and the two are of different halves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import Draw, Program, last_entering

Part = tuple[tuple[int, float], ...]  # fields with factors, that are added up


@dataclass(frozen=True)
class LayerNeurons:
    """The neurons of a layer, by what they read.

    Args:
        program: The nodes.
        layer: Which, of one site, counted from 1.
    """

    program: Program
    layer: int

    @cached_property
    def parts(self) -> list[Part]:
        """Parts that are added up, group by group; all in one unless all are averaged over."""
        parts = self.program.parts(self.node)
        return parts if self.averaged else [((self.node, 1.0),)]

    @property
    def node(self) -> int:
        """The preactivations of the layer."""
        return self.program.layers[self.layer - 1]

    @cached_property
    def averaged(self) -> bool:
        """True if the weights are averaged over: nobody else has them, and they are of one rate."""
        program, parts = self.program, self.program.parts(self.node)
        if not all(program.averages_out(part) for part in parts):
            return False
        ends, draws = [part[0][0] for part in parts], self._draws(parts)
        below = program.behind(k for own in draws for k in own.of)
        alone = all(program.is_fresh(end, below) for end in ends)
        return alone and len({own.own.lambda_W / own.own.C_W for own in draws}) == 1

    @property
    def read(self) -> tuple[int, ...]:
        """The nodes that $y$ are made of."""
        if not self.averaged:
            return (self.node,)
        return tuple(k for own in self._draws(self.parts) for k in own.of)

    @property
    def above_random_layers(self) -> bool:
        """True if $y$ depend on weights; elsewhere NTK and its differentials are the same in all networks."""
        return any(isinstance(self.program.nodes[k], Draw) for k in self.program.behind(self.read))

    @property
    def rate(self) -> float:
        r"""$\lambda_W/C_W$; 0 where nothing is averaged over."""
        if not self.averaged:
            return 0.0
        own = self._draws(self.parts)[0].own
        return own.lambda_W / own.C_W

    @property
    def entries(self) -> int:
        """How many $y$ there are."""
        if not self.averaged:
            return self.program.channels[self.node]
        return sum(map(self._entries, self.parts))

    @property
    def C_b(self) -> float:
        """The variance of the biases."""
        return self._added("C_b")

    @property
    def lambda_b(self) -> float:
        """Their learning-rate factor."""
        return self._added("lambda_b")

    @cached_property
    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Masks of the $y$ of each of two neurons: 1 of those, 0 of others."""
        if self.averaged:
            return np.ones(self.entries), np.ones(self.entries)
        first = (np.arange(self.entries) % 2 == 0).astype(float)
        if self.entries < 2:
            raise ValueError(
                f"Layer {self.layer} of `net` has one neuron, which remembers what it was, and what was asked for "
                "is of two. Use at least 2, or leave observables with four samples out of `observables`."
            )
        return first, 1.0 - first

    def values(self, found: list[Any]) -> Any:
        """$y$ of all samples, (sample, entry).

        Args:
            found: The fields of all nodes that are read.
        """
        if not self.averaged:
            z = found[self.node]
            sizes = sum(half * half.sum() for half in self.halves)
            return z.reshape(len(z), -1) * (1 / np.sqrt(sizes)).astype(z.dtype)
        fields = []
        for part, own in zip(self.parts, self._draws(self.parts), strict=True):
            ((node, factor),) = part
            u = last_entering(self.program, found, node, jnp)
            fields.append(factor * math.sqrt(own.own.C_W / u.shape[1]) * u)
        return jnp.concatenate(fields, axis=1)

    def _draws(self, parts: list[Part]) -> list[Draw]:
        made = [self.program.nodes[part[0][0]] for part in parts]
        return [node for node in made if isinstance(node, Draw)]

    def _entries(self, part: Part) -> int:
        node = part[0][0]
        made = self.program.nodes[node]
        assert isinstance(made, Draw)
        return self.program.fan_in(node) * made.groups

    def _added(self, name: str) -> float:
        if not self.averaged:
            return 0.0
        pairs = zip(self.parts, self._draws(self.parts), strict=True)
        return sum(part[0][1] ** 2 * getattr(own.own, name) for part, own in pairs)
