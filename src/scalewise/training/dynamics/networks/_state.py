"""A real network as the theory of its training sees it: measured, not predicted."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from scalewise._checked import checked
from scalewise.nets import Parameters, empirical_ddntk, empirical_dntk, empirical_ntk
from scalewise.nets.spi import check_parameters
from scalewise.networks.spi import AnyNetwork, by_node, check_inputs, rates_of, refuse_masks
from scalewise.networks.spi_jax import forward, precision
from scalewise.training._one_network import outputs_of
from scalewise.training.dynamics import NetworkState
from scalewise.training.nearly_kernel import CubicModel

LARGEST = 2**28  # bytes of the third derivatives


@checked
def state_of(net: AnyNetwork, parameters: Parameters, x: Any) -> NetworkState:
    r"""Outputs, NTK, dNTK and ddNTKs of one network on samples, to rounding.

    Args:
        net: The network, of any layers.
        parameters: As `init_weights` gives them.
        x: (samples, features), with positions between the two; the training samples first.

    Returns:
        The state on the points (sample, output), (samples x outputs)^4 numbers for each ddNTK.

    Raises:
        ValueError: If the inputs or the parameters do not fit the network, an activation or a maximum has a kink,
            or the network has Dropout.

    Source: PDLT (11.8), (∞.5), (∞.7).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import init_weights
        >>> from scalewise.training.dynamics.networks import state_of
        >>> net = sw.MLP(2, 5, "tanh", input_dim=3, output_dim=2)
        >>> state_of(net, init_weights(net), np.eye(3)).dntk.shape
        (6, 6, 6)
    """
    check_parameters(net, parameters)
    exact = _as_float64(parameters)
    first, second = empirical_ddntk(net, exact, x)
    tensors = (empirical_ntk(net, exact, x), empirical_dntk(net, exact, x), first, second)
    return NetworkState(
        outputs_of(net, exact, check_inputs(net, x)).reshape(-1), *map(_on_points, tensors)
    )


@checked
def features_of(net: AnyNetwork, parameters: Parameters, x: Any) -> CubicModel:
    r"""The cubic model that a network is near its parameters, of any layers: its derivatives are the features.

    Args:
        net: A small network: the third derivatives take (points) x (parameters)^3 numbers.
        parameters: As `init_weights` gives them; $\theta$ of the model is what is added to them, biases after
            weights.
        x: (samples, features), with positions between the two; the training samples first.

    Raises:
        ValueError: If the model would take more than 256 MiB, inputs or parameters do not fit, or the network has
            Dropout.

    Source: PDLT (11.143)-(11.152).
    """
    refuse_masks(net.program)
    check_parameters(net, parameters)
    inputs, exact = check_inputs(net, x), _as_float64(parameters)
    count = sum(a.size for a in (*exact.weights, *exact.biases))
    if 8 * len(inputs) * net.output_dim * count**3 > LARGEST:
        raise ValueError(
            f"`net` is too large for third derivatives: {count} parameters and {len(inputs)} samples. Take a "
            "narrower network; `state_of` contracts the derivatives of wide ones."
        )
    program = net.program
    own = zip(*rates_of(program).values(), strict=True)
    of_biases, of_weights = (
        [np.full(a.size, rate) for a, rate in zip(part, rates, strict=True)]
        for part, rates in zip(exact[::-1], own, strict=True)
    )
    with precision("float64"):
        flat, rebuilt = ravel_pytree(exact)

        def run(theta: Any) -> Any:
            found, _ = forward(program, by_node(program, rebuilt(theta), jnp), inputs)
            return found[-1].reshape(-1)

        slope = jax.jacrev(run)
        bend = jax.jacfwd(slope)
        every = jax.jit(lambda at: (run(at), slope(at), bend(at), jax.jacfwd(bend)(at)))
        z, J, H, D = (np.asarray(part) for part in every(flat))
    return CubicModel(z, J, H, D, np.concatenate([*of_weights, *of_biases]))


def _as_float64(parameters: Parameters) -> Parameters:
    weights, biases = (tuple(np.asarray(a, np.float64) for a in part) for part in parameters)
    return Parameters(weights, biases)


def _on_points(tensor: np.ndarray) -> np.ndarray:
    """From (samples..., outputs...) to points (sample, output)."""
    rank = tensor.ndim // 2
    order = [axis for k in range(rank) for axis in (k, rank + k)]
    moved = tensor.transpose(order)
    return moved.reshape((tensor.shape[0] * tensor.shape[-1],) * rank)
