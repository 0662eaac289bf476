r"""The random numbers of one network of any layers, and what they become: weights, biases, masks and signs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import Draw, Drop, Program, Weights


@dataclass(frozen=True)
class DrawnNumbers:
    """The numbers that a network needs.

    Args:
        program: The nodes.
        read: Nodes that are needed: all random layers behind them are drawn, and no others.
        samples: How many inputs: masks are drawn for each.
        signs: How many random signs, array by array.
    """

    program: Program
    read: tuple[int, ...]
    samples: int
    signs: tuple[int, ...] = ()

    @cached_property
    def weighted(self) -> list[int]:
        """The random layers that are drawn, and the masks."""
        nodes = self.program.nodes
        found = (k for k in self.program.behind(self.read) if isinstance(nodes[k], Draw | Drop))
        return sorted({self.program.weights_of(k) for k in found})

    @cached_property
    def sizes(self) -> list[tuple[int, ...]]:
        """Shapes of the random numbers of a network: weights and biases, then signs."""
        shapes: list[tuple[int, ...]] = []
        for node in self.weighted:
            channels, sites = self.program.channels[node], self.program.positions[node]
            if isinstance(self.program.nodes[node], Drop):
                shapes += [(self.samples, *sites, channels), ()]
                continue
            places = self.program.places(node)
            lead = (places,) if places > 1 else ()
            shapes += [(*lead, self.program.fan_in(node), channels), (*lead, channels)]
        return shapes + [(count,) for count in self.signs]

    @property
    def count(self) -> int:
        """The number of all of them."""
        return sum(math.prod(size) for size in self.sizes)

    def floats(self, samples: int, copies: int) -> int:
        """Roughly how many numbers a network takes at once, with fields and what enters weights some times over."""
        program = self.program
        nodes = program.behind(self.read)
        fields = sum(math.prod(program.positions[k]) * program.channels[k] for k in nodes)
        windows = sum(
            math.prod(program.positions[k]) * program.fan_in(k)
            for k in nodes
            if isinstance(program.nodes[k], Draw)
        )
        return 3 * self.count + samples * copies * (fields + windows)

    def drawn_from(self, numbers: Any) -> tuple[Weights, list[Any]]:
        """Weights, biases and signs from the numbers of one network."""
        offsets = np.cumsum([0, *map(math.prod, self.sizes)])
        shaped = [
            numbers[a:b].reshape(shape)
            for a, b, shape in zip(offsets[:-1], offsets[1:], self.sizes, strict=True)
        ]
        weights: Weights = {}
        for k, node in enumerate(self.weighted):
            made = self.program.nodes[node]
            if isinstance(made, Drop):
                limit = NormalDist().inv_cdf(made.keep) if made.keep < 1 else math.inf
                below = shaped[2 * k] < limit
                weights[node] = below.astype(shaped[2 * k].dtype) / made.keep, None
                continue
            assert isinstance(made, Draw)
            C_b, C_W = made.own.C_b, made.own.C_W / self.program.fan_in(node)
            w = made.own.law.of_normal(shaped[2 * k])
            weights[node] = math.sqrt(C_W) * w, math.sqrt(C_b) * shaped[2 * k + 1]
        signs = [jnp.where(s < 0, -1.0, 1.0).astype(s.dtype) for s in shaped[2 * len(weights) :]]
        return weights, signs
