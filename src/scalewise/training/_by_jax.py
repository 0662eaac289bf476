"""One network of any layers as JAX differentiates it: linearised, and along paths of its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise.networks._by_jax import forward, ntk_of, precision
from scalewise.networks._network import Network
from scalewise.networks._nodes import Max
from scalewise.networks._program import Program
from scalewise.networks._weights import Parameters, bare, by_node, rates_of, shapes_of
from scalewise.training._one_network import Tangents, outputs_of

Flat = np.ndarray  # (parameter,)


def tangents_by_jax(
    net: Network, parameters: Parameters, x: Float[np.ndarray, "sample *positions feature"]
) -> Tangents:
    """Outputs and NTK of a network with given weights.

    Args:
        net: Its layers and rates.
        parameters: Its weights and biases, float64.
        x: Inputs.

    Source: PDLT (8.7), (8.12); with site matrices derived.
    """
    rates = np.array([*rates_of(net.program).values()])
    with precision("float64"):
        H = ntk_of(parameters, [x], rates, program=bare(net.program))
    return Tangents(outputs_of(net, parameters, x), np.asarray(H))


@dataclass(frozen=True)
class CurvedNetwork:
    """What a network of any layers does beyond its first derivatives; see `Curvature`.

    Args:
        net: Its layers and rates.
        given: Its weights and biases, float64.
        x: Training samples, then test samples.
    """

    net: Network
    given: Parameters
    x: Float[np.ndarray, "sample *positions feature"]

    @cached_property
    def _own(self) -> JaxCurvature:
        program = self.net.program
        theta = np.concatenate([np.ravel(a) for part in self.given for a in part])
        rates = zip(*rates_of(program).values(), strict=True)
        of_biases, of_weights = (
            [np.full(a.size, rate) for a, rate in zip(part, own, strict=True)]
            for part, own in zip(self.given[::-1], rates, strict=True)
        )
        each = np.concatenate([*of_weights, *of_biases])
        with precision("float64"):
            at, x = jnp.asarray(theta), jnp.asarray(self.x)
            return JaxCurvature(_along(bare(program)), at, x, each)

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self.net.parameters

    @property
    def obstacle(self) -> str:
        """Whether all that it computes is smooth."""
        for sigma in self.net.activations:
            if not sigma.is_smooth:
                return f"the activation {sigma.name!r} has no third derivative"
        has_maximum = any(isinstance(node, Max) for node in self.net.program.nodes)
        return "a maximum over positions has no third derivative" if has_maximum else ""

    def gradients(self, errors: np.ndarray, path: Sequence[Flat] = ()) -> list[Flat]:
        """See `Curvature`."""
        with precision("float64"):
            return self._own.gradients(errors, path)

    def outputs(self, path: Sequence[Flat], count: int | None = None) -> list[np.ndarray]:
        """See `Curvature`."""
        with precision("float64"):
            return self._own.outputs(path, count)


class Along:
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
    """

    along: Along
    theta: Any
    inputs: Any
    rates: Flat

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
        x, weighed = self.inputs[: len(errors)], jnp.asarray(errors, self.theta.dtype)
        terms = self.along.slopes(self.theta, self._flat(path), x, weighed)
        return [self.rates * np.asarray(term, np.float64) for term in terms]

    def outputs(self, path: Sequence[Flat], count: int | None = None) -> list[np.ndarray]:
        """See `Curvature`."""
        terms = self.along.values(self.theta, self._flat(path), self.inputs[:count])
        return [np.asarray(term, np.float64) for term in terms]

    def _flat(self, path: Sequence[Flat]) -> Any:
        return jnp.asarray(np.reshape(path, (len(path), self.parameters)), self.theta.dtype)


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


@lru_cache(maxsize=64)
def _along(program: Program) -> Along:
    """The outputs of a network; the same object each time, so that JAX compiles once."""
    both = shapes_of(program).values()
    shapes = [own for part in zip(*both, strict=True) for own in part]
    cuts = np.cumsum([math.prod(shape) for shape in shapes])[:-1]

    def outputs(theta: Any, x: Any) -> Any:
        parts = zip(jnp.split(theta, cuts), shapes, strict=True)
        arrays = tuple(part.reshape(shape) for part, shape in parts)
        parameters = Parameters(arrays[: len(both)], arrays[len(both) :])
        found, _ = forward(program, by_node(program, parameters, jnp), x)
        return found[-1].reshape(len(x), -1)

    return Along(outputs)
