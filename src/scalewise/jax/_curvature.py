"""A JAX function along paths of its parameters: what it does beyond its first derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scalewise._checked import checked

Flat = np.ndarray  # (parameter,)


@checked
def curvature(
    function: Callable[[Any, Any], Any], params: Any, inputs: Any, *, rates: Any = None
) -> JaxCurvature:
    r"""What dNTK and ddNTKs of one model are made of, for `scalewise.training.predict_linearised`.

    Args:
        function: As of `tangents`; three times differentiable.
        params: A pytree of arrays, in whose precision everything is computed.
        inputs: Training samples, then test samples.
        rates: As of `tangents`.

    Returns:
        Derivatives along paths; each costs a few gradients, and no tensor of derivatives is made.

    Raises:
        ValueError: If `rates` is not a pytree like `params`.

    Source: PDLT (11.8), (∞.5), (∞.7), along paths.

    Example:
        >>> import jax.numpy as jnp, numpy as np, scalewise as sw
        >>> from scalewise.jax import curvature, tangents
        >>> from scalewise.training import predict_linearised
        >>> model = (lambda w, x: w**x), jnp.array([2.0]), np.array([[2.0], [3.0]], "float32")
        >>> task = sw.Task([[2.0]], [1.9**2], test_inputs=[[3.0]])
        >>> found = predict_linearised(*tangents(*model), task, curvature=curvature(*model))
        >>> nearly = found.output_mean + found.output_mean_nlo
        >>> found.output_mean.values.round(3), nearly.values.round(3), round(1.9**3, 3)
        (array([[6.83]]), array([[6.856]]), 6.859)
    """
    leaves = jax.tree.leaves(params)
    weights = [1.0] * len(leaves) if rates is None else jax.tree.leaves(rates)
    if len(weights) != len(leaves):
        raise ValueError(
            f"`rates` must be a pytree like `params`, with {len(leaves)} leaves; got {len(weights)}."
        )
    each = [
        np.broadcast_to(np.asarray(rate, np.float64), leaf.shape).ravel()
        for rate, leaf in zip(weights, leaves, strict=True)
    ]
    return JaxCurvature(function, params, jnp.asarray(inputs), np.concatenate(each))


class JaxCurvature:
    """The `Curvature` of a function.

    Args:
        function: Of parameters and inputs.
        params: A pytree.
        inputs: All samples.
        rates: Of every parameter, in a row.
    """

    def __init__(
        self, function: Callable[[Any, Any], Any], params: Any, inputs: Any, rates: Flat
    ) -> None:
        self._function, self._inputs, self._rates = function, inputs, rates
        self._theta, self._rebuilt = ravel_pytree(params)

    @property
    def parameters(self) -> int:
        """How many there are."""
        return self._theta.size

    @property
    def obstacle(self) -> str:
        """None that one could see."""
        return ""

    def gradients(self, errors: np.ndarray, path: Sequence[Flat] = ()) -> list[Flat]:
        """See `scalewise.training.Curvature`."""
        terms = self._slopes(self._along(path), jnp.asarray(errors, self._theta.dtype))
        return [self._rates * np.asarray(term, np.float64) for term in terms]

    def outputs(self, path: Sequence[Flat], count: int | None = None) -> list[np.ndarray]:
        """See `scalewise.training.Curvature`."""
        terms = self._values(self._along(path), len(self._inputs) if count is None else count)
        return [np.asarray(term, np.float64) for term in terms]

    def _along(self, path: Sequence[Flat]) -> Any:
        return jnp.asarray(np.reshape(path, (len(path), self.parameters)), self._theta.dtype)

    def _columns(self, theta: Any, count: int) -> Any:
        z = self._function(self._rebuilt(theta), self._inputs[:count])
        return z[:, None] if z.ndim == 1 else z

    @cached_property
    def _values(self) -> Any:
        def values(path: Any, count: int) -> list[Any]:
            return _series(lambda theta: self._columns(theta, count), self._theta, path)

        return jax.jit(values, static_argnums=1)

    @cached_property
    def _slopes(self) -> Any:
        def slopes(path: Any, errors: Any) -> list[Any]:
            def loss(theta: Any) -> Any:
                return jnp.vdot(errors, self._columns(theta, len(errors)))

            return _series(jax.grad(loss), self._theta, path)

        return jax.jit(slopes)


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
