"""One network of any layers with all its parameters in a row: its outputs, and its whole NTK."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import (
    NORMAL,
    ArrayShape,
    Draw,
    Hyperparameters,
    Parameters,
    Program,
    Weights,
    by_node,
    last_entering,
    rates_of,
    refuse_masks,
    shapes_of,
)
from scalewise.networks.spi_jax import forward, whole_ntk


@dataclass(frozen=True)
class Packed:
    """Where the parameters of a program stand in a row.

    Of each random layer first its weights, then its biases.

    Args:
        program: Its last node is a random layer of one site.
    """

    program: Program

    def __post_init__(self) -> None:
        if not isinstance(self.program.nodes[-1], Draw):
            raise ValueError(
                "A skip connection around the last layer adds to the outputs what is no weight of theirs. Networks "
                "that are trained end with a random layer alone."
            )
        refuse_masks(self.program)

    @cached_property
    def shapes(self) -> dict[int, tuple[ArrayShape, ArrayShape]]:
        """Shapes of the weights and the biases of each random layer."""
        return shapes_of(self.program)

    @property
    def count(self) -> int:
        """The number of all parameters."""
        return sum(math.prod(shape) for both in self.shapes.values() for shape in both)

    def scales(self, dtype: str) -> np.ndarray:
        """The standard deviation of each parameter."""
        return np.sqrt(self._each(lambda own: (own.C_b, own.C_W))).astype(dtype)

    def drawn(self, numbers: Any, dtype: str) -> Any:
        """Parameters from as many standard normal numbers, (..., parameter)."""
        if not self.program.is_normal:
            parts, offset = [], 0
            for k, shapes in self.shapes.items():
                node = self.program.nodes[k]
                assert isinstance(node, Draw)
                for shape, law in zip(shapes, (node.own.law, NORMAL), strict=True):
                    size = math.prod(shape)
                    parts.append(law.of_normal(numbers[..., offset : offset + size]))
                    offset += size
            xp = np if isinstance(numbers, np.ndarray) else jnp
            numbers = xp.concatenate(parts, axis=-1)
        return numbers * self.scales(dtype)

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

    def weights(self, packed: Any) -> Weights:
        """As the program takes them."""
        parts, offset = [], 0
        for shape in (shape for both in self.shapes.values() for shape in both):
            parts.append(packed[offset : offset + math.prod(shape)].reshape(shape))
            offset += math.prod(shape)
        return by_node(self.program, Parameters(tuple(parts[::2]), tuple(parts[1::2])), jnp)

    def outputs(self, packed: Any, x: Any) -> tuple[Any, Any]:
        """Outputs (sample, output) of one network, and what enters its last weights."""
        last = len(self.program.nodes) - 1
        found, _ = forward(self.program, self.weights(packed), x)
        return found[last].reshape(len(x), -1), last_entering(self.program, found, last, jnp)

    def ntk(self, packed: Any, x: Any) -> Any:
        """The NTK of one network, (output, sample, output, sample)."""
        return whole_ntk(self.program, self.weights(packed), rates_of(self.program), [x])
