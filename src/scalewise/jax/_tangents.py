"""Outputs and NTK of a JAX function at given parameters: what a linearised model is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from scalewise._checked import checked


@checked
def tangents(
    function: Callable[[Any, Any], Any], params: Any, inputs: Any, *, rates: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Outputs $z$ of one model and its NTK $\sum_\mu\lambda_\mu\frac{dz}{d\theta_\mu}\frac{dz}{d\theta_\mu}$.

    Args:
        function: Of parameters and inputs (samples, ...), to (samples, outputs) or (samples,).
        params: A pytree of arrays.
        inputs: For a task, its training samples, then its test samples: ``task.all_inputs``.
        rates: $\lambda_\mu$: a pytree like `params`, of numbers or arrays; 1 for all by default.

    Returns:
        Outputs (sample, output) and NTK (sample, sample, output, output), for
        `scalewise.training.predict_linearised`. Derivatives have the precision of the parameters, their sums that
        of float64; all derivatives of all samples are in memory at once.

    Raises:
        ValueError: If the function does not give outputs of such a shape.

    Source: PDLT (7.17), (10.138)-(10.140).

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from scalewise.jax import tangents
        >>> z, H = tangents(lambda w, x: x @ w, jnp.array([1.0, 2.0]), np.eye(2, dtype="float32"))
        >>> z.ravel(), H[..., 0, 0]
        (array([1., 2.]), array([[1., 0.],
               [0., 1.]]))
    """
    x = jax.numpy.asarray(inputs)

    def columns(p: Any) -> Any:
        z = function(p, x)
        return z[:, None] if z.ndim == 1 else z

    z = np.asarray(columns(params), np.float64)
    if z.ndim != 2 or len(z) != len(x):
        raise ValueError(
            f"`function` must give outputs (samples, outputs) for {len(x)} samples; got shape {z.shape}."
        )
    slopes = jax.tree.leaves(jax.jacrev(columns)(params))
    weights = [1.0] * len(slopes) if rates is None else jax.tree.leaves(rates)
    if len(weights) != len(slopes):
        raise ValueError(
            f"`rates` must be a pytree like `params`, with {len(slopes)} leaves; got {len(weights)}."
        )
    H = np.zeros((z.size, z.size))
    for slope, rate in zip(slopes, weights, strict=True):
        J = np.asarray(slope, np.float64)
        scaled = J * np.asarray(rate, np.float64)
        H += scaled.reshape(z.size, -1) @ J.reshape(z.size, -1).T
    return z, H.reshape(*z.shape, *z.shape).transpose(0, 2, 1, 3)
