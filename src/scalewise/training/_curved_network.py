"""One network of any layers along a path of its parameters, by NumPy alone: its passes, with series for arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network
from scalewise.networks.spi import (
    Attend,
    Draw,
    Max,
    Parameters,
    Pointwise,
    Weights,
    back,
    by_node,
    by_weights,
    fields,
    rates_of,
    shapes_of,
)
from scalewise.training._one_network import parameters_of
from scalewise.training._series import Series, derivative

Flat = Float[np.ndarray, " parameter"]


@dataclass(frozen=True)
class CurvedNetwork:
    r"""A network beyond its first derivatives; see `Curvature`.

    Forwards that gives outputs, backwards gradients, for the price of a few passes and without a tensor of
    derivatives.

    Args:
        net: Its layers and rates.
        given: Weights and biases; in a row, all weights come first.
        x: Training samples, then test samples.

    Source: PDLT (11.8), (∞.5), (∞.7) along one path, by forward and backward passes.
    """

    net: Network
    given: Any
    x: Float[np.ndarray, "sample *positions feature"]

    @cached_property
    def start(self) -> Parameters:
        """Where the path begins, float64."""
        return parameters_of(self.net, self.given)

    @cached_property
    def rates(self) -> Flat:
        """The learning rate of every parameter."""
        own = np.array([*rates_of(self.net.program).values()]).T[::-1]
        pairs = zip(self.start, own, strict=True)
        return np.concatenate(
            [
                np.full(a.size, rate)
                for part, each in pairs
                for a, rate in zip(part, each, strict=True)
            ]
        )

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self.rates.size

    @property
    def obstacle(self) -> str:
        """A clause that says what in it is not smooth; empty if all is."""
        for node in self.net.program.nodes:
            if isinstance(node, Max):
                return "a maximum over positions has no third derivative"
            sigma = node.sigma if isinstance(node, Pointwise | Attend) else None
            if sigma is not None and not sigma.is_smooth:
                return f"the activation {sigma.name!r} has no third derivative"
        return ""

    def gradients(
        self, errors: Float[np.ndarray, "train output"], path: Sequence[Flat] = ()
    ) -> list[Flat]:
        """See `Curvature`."""
        program, weights = self.net.program, self._weights(path)
        found, seen = fields(program, weights, self.x[: len(errors)], function=_value)
        deltas = back(program, weights, found, errors.reshape(found[-1].shape), derivative)
        slopes: dict[int, list[Any]] = {}
        for k, delta in deltas.items():
            node, own = program.nodes[k], program.weights_of(k)
            assert isinstance(node, Draw)
            parts = by_weights(node, seen[k], delta)
            before = slopes.get(own, (0.0, 0.0))
            slopes[own] = [a + b for a, b in zip(before, parts, strict=True)]
        every = [slopes[k][part] for part in (0, 1) for k in shapes_of(program)]
        orders = zip(*(_terms(a, len(path)) for a in every), strict=True)
        return [self.rates * np.concatenate([a.ravel() for a in order]) for order in orders]

    def outputs(self, path: Sequence[Flat], count: int | None = None) -> list[np.ndarray]:
        """See `Curvature`."""
        x = self.x[:count]
        found, _ = fields(self.net.program, self._weights(path), x, function=_value)
        return [a.reshape(len(x), -1) for a in _terms(found[-1], len(path))]

    def shaped(self, flat: Flat) -> Parameters:
        """Weights and biases from a row."""
        parts = [a for part in self.start for a in part]
        cuts = np.cumsum([a.size for a in parts])[:-1]
        arrays = [p.reshape(a.shape) for p, a in zip(np.split(flat, cuts), parts, strict=True)]
        count = len(self.start.weights)
        return Parameters(tuple(arrays[:count]), tuple(arrays[count:]))

    def _weights(self, path: Sequence[Flat]) -> Weights:
        """Weights and biases along the path."""
        if not len(path):
            return by_node(self.net.program, self.start)
        orders = [self.start, *map(self.shaped, path)]
        series = (
            tuple(Series(terms) for terms in zip(*part, strict=True))
            for part in zip(*orders, strict=True)
        )
        return by_node(self.net.program, Parameters(*series))


def _value(sigma: Any) -> Any:
    return derivative(sigma, 0)


def _terms(a: Any, order: int) -> list[np.ndarray]:
    return a.terms if isinstance(a, Series) else [a, *(np.zeros_like(a),) * order]
