"""Outputs and NTK of a JAX function at given parameters: what a linearised model is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import jax
import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise._memory import Memory, bytes_of
from scalewise.jax._tangent_rows import TangentRows, columns_of, placed
from scalewise.training.spi import check_room, groups, ntk_by_blocks


@checked
def tangents(
    function: Callable[[Any, Any], Any],
    params: Any,
    inputs: Any,
    *,
    rates: Any = None,
    outputs: Literal["all", "mean"] | Annotated[Any, Float[np.ndarray, "read output"]] = "all",
    memory: Memory = "1 GiB",
) -> tuple[np.ndarray, np.ndarray]:
    r"""Outputs $z$ of one model and its NTK $\sum_\mu\lambda_\mu\frac{dz}{d\theta_\mu}\frac{dz}{d\theta_\mu}$.

    Args:
        function: Of parameters and inputs (samples, ...), to (samples, outputs) or (samples,). Where a sample has
            the same outputs alone, samples are differentiated alone; a function that mixes them is differentiated
            with all of them.
        params: A pytree of arrays.
        inputs: For a task, its training samples, then its test samples: ``task.all_inputs``.
        rates: $\lambda_\mu$: a pytree like `params`, of numbers or arrays; 1 for all by default.
        outputs: ``"all"`` pairs of outputs; the ``"mean"`` of the NTK over outputs; or a matrix of read-outs, such
            as ``np.eye(1000)[:10]``. As of `scalewise.torch.tangents`.
        memory: Budget in bytes, or a text such as ``"1 GiB"``, for derivatives. The model's pass, the derivatives
            by its largest array for one sample, and the result come on top. A smaller budget takes more passes
            and gives the same to rounding.

    Returns:
        Outputs (sample, output) and NTK (sample, sample, output, output), for
        `scalewise.training.predict_linearised`; the mean over outputs has the shape (sample, sample, 1, 1).
        Derivatives have the precision of the parameters, their sums that of float64.

    Raises:
        ValueError: If the function does not give outputs of such a shape, `rates` is not a pytree like `params`,
            `outputs` does not fit the outputs, or the NTK alone is larger than `memory`.

    Source: PDLT (7.17), (10.138)-(10.140).

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from scalewise.jax import tangents
        >>> z, H = tangents(lambda w, x: x @ w, jnp.array([1.0, 2.0]), np.eye(2, dtype="float32"))
        >>> z.ravel(), H[..., 0, 0]
        (array([1., 2.]), array([[1., 0.],
               [0., 1.]]))
    """
    x, budget, columns = placed(inputs), bytes_of(memory), columns_of(function)
    # Arrays of NumPy may meet a program that was compiled for another precision.
    params = jax.device_put(params)
    z = np.asarray(columns(params, x), np.float64)
    if z.ndim != 2 or len(z) != len(x):
        raise ValueError(
            f"`function` must give outputs (samples, outputs) for {len(x)} samples; got shape {z.shape}."
        )
    leaves = jax.tree.leaves(params)
    weights = [1.0] * len(leaves) if rates is None else jax.tree.leaves(rates)
    if len(weights) != len(leaves):
        raise ValueError(
            f"`rates` must be a pytree like `params`, with {len(leaves)} leaves; got {len(weights)}."
        )
    mean = isinstance(outputs, str) and outputs == "mean"
    R = np.eye(z.shape[1]) if isinstance(outputs, str) else np.asarray(outputs, np.float64)
    if R.shape[1] != z.shape[1] or not len(R):
        raise ValueError(
            f"`outputs` must be 'all', 'mean' or a matrix (read-outs, {z.shape[1]}), since `function` has "
            f"{z.shape[1]} outputs; got shape {R.shape}."
        )
    shape = len(x), len(R)
    check_room(len(x), 1 if mean else len(R), budget)
    rows = TangentRows(columns, params, x, z, R, weights)
    plan = groups(rows.kept, *shape, memory=budget, mean=mean)

    def products(one: Any, other: Any) -> np.ndarray:
        return rows.products(one, other, mean=mean)

    H = ntk_by_blocks(plan, rows.of, products, shape, mean=mean)
    return (z if isinstance(outputs, str) else z @ R.T), H
