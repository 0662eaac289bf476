"""A JAX function along paths of its parameters: what it does beyond its first derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scalewise._checked import checked

if TYPE_CHECKING:
    from scalewise.training._by_jax import JaxCurvature


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
    from scalewise.training._by_jax import Along, JaxCurvature

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

    def columns(moved: Any, x: Any) -> Any:
        z = function(rebuilt(moved), x)
        return z[:, None] if z.ndim == 1 else z

    return JaxCurvature(Along(columns), theta, jnp.asarray(inputs), np.concatenate(each))
