"""A JAX function along paths of its parameters: what it does beyond its first derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from scalewise._checked import checked
from scalewise._memory import Memory, bytes_of
from scalewise.jax._tangent_rows import columns_of, placed, reads_alone

if TYPE_CHECKING:
    from scalewise.training.spi_jax import JaxCurvature

PASSES = 8  # as much as the forward pass makes: with the way back, twice along a path


@checked
def curvature(
    function: Callable[[Any, Any], Any],
    params: Any,
    inputs: Any,
    *,
    rates: Any = None,
    memory: Memory = "1 GiB",
) -> JaxCurvature:
    r"""Derivatives that make dNTK and ddNTKs of one model, for `scalewise.training.predict_linearised`.

    Args:
        function: As of `tangents`; three times differentiable.
        params: A pytree of arrays, in whose precision everything is computed.
        inputs: Training samples, then test samples.
        rates: As of `tangents`.
        memory: Budget in bytes, or a text such as ``"1 GiB"``, for what the function's passes keep: where all
            samples do not fit, they are taken in blocks, unless the function mixes them.

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
    from scalewise.training.spi_jax import AlongPath, JaxCurvature

    # As `tangents` does, so that NumPy's arrays and plain numbers have the precision that they are computed in.
    params = jax.device_put(params)
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
    theta, rebuilt = ravel_pytree(params)

    columns = columns_of(lambda moved, some: function(rebuilt(moved), some))
    x, several = placed(inputs), None
    size = max(1, bytes_of(memory) // (PASSES * _kept(columns, theta, x[:1])))
    if size < len(x) and reads_alone(columns, theta, x, np.asarray(columns(theta, x))):
        several = size
    return JaxCurvature(AlongPath(columns), theta, x, np.concatenate(each), several)


def _kept(columns: Callable[[Any, Any], Any], theta: Any, x: Any) -> int:
    """Bytes of all that a forward pass makes for one sample, beside numbers as many as parameters."""
    made = jax.make_jaxpr(partial(columns, theta))(x)
    return max(1, _made(made.jaxpr))


def _made(jaxpr: Any) -> int:
    total = 0
    for eqn in jaxpr.eqns:
        inner = [
            getattr(p, "jaxpr", p)
            for p in eqn.params.values()
            if hasattr(p, "eqns") or hasattr(p, "jaxpr")
        ]
        times = eqn.params.get("length", 1) if eqn.primitive.name == "scan" else 1
        if inner:
            total += times * sum(_made(part) for part in inner)
        else:
            total += sum(v.aval.size * v.aval.dtype.itemsize for v in eqn.outvars)
    return total
