"""One network of any layers with all its parameters in a row: its outputs, and its whole NTK."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets._program import by_all_weights, fields, last_entering
from scalewise.networks._program import Draw, Dropout, Hyperparameters, Program


@dataclass(frozen=True)
class Packed:
    """Where the parameters of a program stand in a row.

    Of each random layer first its weights, (channel, number that enters), then its biases.

    Args:
        program: Its last node is a random layer of one site.
    """

    program: Program

    def __post_init__(self) -> None:
        nodes = self.program.nodes
        if not isinstance(nodes[-1], Draw):
            raise ValueError(
                "A skip connection around the last layer adds to the outputs what is no weight of theirs. Networks "
                "that are trained end with a random layer alone."
            )
        if any(isinstance(node, Dropout) for node in nodes):
            raise ValueError(
                "`net` has Dropout, whose masks are drawn anew at every step of a training, which is then random "
                "by itself. Leave it out."
            )

    @cached_property
    def shapes(self) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Of the weights and the biases of each random layer."""
        found = {}
        for k, node in enumerate(self.program.nodes):
            if isinstance(node, Draw) and node.again is None:
                places = self.program.places(k)
                lead = (places,) if places > 1 else ()
                n = self.program.channels[k]
                found[k] = (*lead, n, self.program.fan_in(k)), (*lead, n)
        return found

    @property
    def count(self) -> int:
        """Of all parameters."""
        return sum(math.prod(shape) for both in self.shapes.values() for shape in both)

    def scales(self, dtype: str) -> np.ndarray:
        """The standard deviation of each parameter."""
        return np.sqrt(self._each(lambda own: (own.C_b, own.C_W))).astype(dtype)

    def rates(self, dtype: str) -> np.ndarray:
        r"""$\lambda_b$ or $\lambda_W$ over the fan-in, of each parameter."""
        return self._each(lambda own: (own.lambda_b, own.lambda_W)).astype(dtype)

    def _each(self, numbers: Callable[[Hyperparameters], tuple[float, float]]) -> np.ndarray:
        parts = []
        for k, (weights, biases) in self.shapes.items():
            node = self.program.nodes[k]
            assert isinstance(node, Draw)
            of_bias, of_weight = numbers(node.own)
            fan_in = self.program.fan_in(k)
            parts += [np.full(math.prod(weights), of_weight / fan_in)]
            parts += [np.full(math.prod(biases), of_bias)]
        return np.concatenate(parts)

    def weights(self, packed: Any) -> dict[int, tuple[Any, Any]]:
        """As the program takes them."""
        found, offset = {}, 0
        for k, shapes in self.shapes.items():
            both = []
            for shape in shapes:
                both.append(packed[offset : offset + math.prod(shape)].reshape(shape))
                offset += math.prod(shape)
            found[k] = jnp.swapaxes(both[0], -1, -2), both[1]
        return found

    def outputs(self, packed: Any, x: Any) -> tuple[Any, Any]:
        """Outputs (sample, output) of one network, and what enters its last weights."""
        last = len(self.program.nodes) - 1
        found, _ = fields(self.program, self.weights(packed), x, {}, last)
        return found[last].reshape(len(x), -1), last_entering(self.program, found, last)

    def ntk(self, packed: Any, x: Any) -> Any:
        """The NTK of one network, (output, sample, output, sample)."""
        program, weights = self.program, self.weights(packed)
        last, samples = len(program.nodes) - 1, len(x)
        outputs = program.channels[last]
        zero = {
            k: jnp.zeros((samples, *program.positions[k], program.channels[k]), x.dtype)
            for k, node in enumerate(program.nodes)
            if isinstance(node, Draw)
        }

        def summed(nudges: dict[int, Any]) -> tuple[Any, dict[int, Any]]:
            # Outputs of a sample depend on that sample alone, so the slopes of a sum are those of each.
            found, seen = fields(program, weights, x, nudges, last)
            return found[last].reshape(samples, outputs).sum(axis=0), seen

        back, seen = jax.jacrev(summed, has_aux=True)(zero)
        for k, delta in back.items():
            seen[k] = jnp.tile(seen[k], (outputs, *(1,) * (seen[k].ndim - 1)))
            back[k] = delta.reshape(outputs * samples, *delta.shape[2:])
        total = by_all_weights(program, seen, back)
        return total.reshape(outputs, samples, outputs, samples)
