"""A function of parameters as JAX differentiates it along paths of these."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Flat = np.ndarray  # (parameter,)


class AlongPath:
    """A function of a flat vector of parameters, along paths of it: compiled for the first that is asked.

    Args:
        function: Of parameters and inputs, to (samples, outputs).
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        def values(theta: Any, path: Any, x: Any) -> list[Any]:
            return _series(lambda moved: function(moved, x), theta, path)

        def slopes(theta: Any, path: Any, x: Any, errors: Any) -> list[Any]:
            def loss(moved: Any) -> Any:
                return jnp.vdot(errors, function(moved, x))

            return _series(jax.grad(loss), theta, path)

        self.values, self.slopes = jax.jit(values), jax.jit(slopes)


@dataclass(frozen=True)
class JaxCurvature:
    """The `Curvature` of a function.

    Args:
        along: The function.
        theta: Where its parameters are.
        inputs: All samples.
        rates: Of every parameter, in a row.
        several: Samples at once; all of them if ``None``.
    """

    along: AlongPath
    theta: Any
    inputs: Any
    rates: Flat
    several: int | None = None

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self.theta.size

    @property
    def obstacle(self) -> str:
        """None that one could see."""
        return ""

    def gradients(self, errors: np.ndarray, path: Sequence[Flat] = ()) -> list[Flat]:
        """See `Curvature`."""
        weighed = jax.device_put(np.asarray(errors, self.theta.dtype))
        blocks = [
            self.along.slopes(self.theta, self._flat(path), self.inputs[some], weighed[some])
            for some in self._blocks(len(errors))
        ]
        terms = (
            [np.asarray(part, np.float64) for part in parts] for parts in zip(*blocks, strict=True)
        )
        return [self.rates * np.sum(parts, axis=0) for parts in terms]

    def outputs(self, path: Sequence[Flat], count: int | None = None) -> list[np.ndarray]:
        """See `Curvature`."""
        size = len(self.inputs) if count is None else count
        blocks = [
            self.along.values(self.theta, self._flat(path), self.inputs[some])
            for some in self._blocks(size)
        ]
        return [
            np.concatenate([np.asarray(part, np.float64) for part in parts])
            for parts in zip(*blocks, strict=True)
        ]

    def _blocks(self, count: int) -> list[slice]:
        several = self.several or max(1, count)
        return [slice(k, min(k + several, count)) for k in range(0, count, several)]

    def _flat(self, path: Sequence[Flat]) -> Any:
        return np.reshape(path, (len(path), self.parameters)).astype(self.theta.dtype)


def _series(f: Callable[[Any], Any], theta: Any, path: Any) -> list[Any]:
    """Terms of f along the path, from order 0 to that of the path."""

    def at(t: Any) -> Any:
        return f(theta + sum(t ** (k + 1) * part for k, part in enumerate(path)))

    terms, derivative = [], at
    for order in range(len(path) + 1):
        terms.append(derivative(jnp.zeros((), theta.dtype)) / math.factorial(order))
        derivative = partial(_slope, derivative)
    return terms


def _slope(f: Callable[[Any], Any], t: Any) -> Any:
    return jax.jvp(f, (t,), (jnp.ones_like(t),))[1]
