r"""Error factors: how the loss hangs on the preactivations of every layer of one network."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.nets._networks import check_has_slope, check_parameters, precision
from scalewise.networks import Network
from scalewise.networks.spi import (
    AnyNetwork,
    Parameters,
    Program,
    bare,
    by_node,
    check_inputs,
    rates_of,
    refuse_masks,
)
from scalewise.networks.spi_jax import forward, nothing

Slopes = Annotated[Any, Float[np.ndarray, "sample output"]]


@checked
def error_factors(
    net: AnyNetwork, parameters: Parameters, x: Any, error: Slopes
) -> tuple[Float[np.ndarray, "sample *positions neuron"], ...]:
    r"""Derivatives of the loss in each preactivation of each random layer.

    $$\epsilon^{(\ell)}_{j;\tilde\alpha}=\sum_k\frac{\partial\mathcal L}{\partial z^{(L)}_{k;\tilde\alpha}}
    \frac{dz^{(L)}_{k;\tilde\alpha}}{dz^{(\ell)}_{j;\tilde\alpha}}$$

    Args:
        net: The network.
        parameters: As `init_weights` gives them.
        x: (samples, features), with positions between the two.
        error: $\partial\mathcal L/\partial z^{(L)}$, (samples, outputs); $z-y$ for half the squared
            distance.

    Returns:
        One array (samples, n_l) per random layer, with positions between the two where there are any, the last of
        them `error`; exact to rounding.

    Raises:
        ValueError: If the inputs, the parameters or the shape of `error` do not fit the network, an activation
            jumps, or the network has Dropout.

    Source: PDLT (8.4), (8.16)-(8.18), (11.5).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import error_factors, init_weights
        >>> net = sw.MLP(3, 5, "tanh", input_dim=3, output_dim=2)
        >>> [e.shape for e in error_factors(net, init_weights(net), np.eye(3), np.ones((3, 2)))]
        [(3, 5), (3, 5), (3, 2)]
    """
    inputs, top = _fitted(net, parameters, x, error)
    with precision(str(top.dtype)):
        found = _factors(parameters, inputs, top, program=bare(net.program))
        return (*(np.asarray(found[k]) for k in sorted(found)[:-1]), top)


@checked
def parameter_step(net: AnyNetwork, parameters: Parameters, x: Any, error: Slopes) -> Parameters:
    r"""The step of all parameters per unit of the global learning rate.

    $$\Delta b^{(\ell)}_j=-\lambda_b^{(\ell)}\sum_{\tilde\alpha}\epsilon^{(\ell)}_{j;\tilde\alpha},\qquad
    \Delta W^{(\ell)}_{jk}=-\frac{\lambda_W^{(\ell)}}{n_{\ell-1}}\sum_{\tilde\alpha}
    \epsilon^{(\ell)}_{j;\tilde\alpha}\sigma^{(\ell-1)}_{k;\tilde\alpha}$$

    Args:
        net: The network.
        parameters: As `init_weights` gives them.
        x: (samples, features).
        error: As in `error_factors`.

    Returns:
        Steps in the shapes of the parameters; exact to rounding.

    Raises:
        ValueError: As `error_factors` does.

    Source: PDLT (7.11), (8.6), (11.4).
    """
    inputs, top = _fitted(net, parameters, x, error)
    with precision(str(top.dtype)):
        slopes = _gradient(parameters, inputs, top, program=bare(net.program))
    steps = [
        [-rate * np.asarray(slope) for rate, slope in zip(rates, own, strict=True)]
        for rates, own in zip(
            zip(*rates_of(net.program).values(), strict=True),
            (slopes.biases, slopes.weights),
            strict=True,
        )
    ]
    return Parameters(tuple(steps[1]), tuple(steps[0]))


@partial(jax.jit, static_argnames="program")
def _factors(parameters: Parameters, x: Any, top: Any, *, program: Program) -> dict[int, Any]:
    """By what is added to each random layer, by its node."""
    weights = by_node(program, parameters, jnp)

    def outputs(nudges: dict[int, Any]) -> Any:
        found, _ = forward(program, weights, x, nudges=nudges)
        return found[-1].reshape(top.shape)

    return jax.vjp(outputs, nothing(program, weights, x))[1](top)[0]


@partial(jax.jit, static_argnames="program")
def _gradient(parameters: Parameters, x: Any, top: Any, *, program: Program) -> Parameters:
    def outputs(given: Parameters) -> Any:
        found, _ = forward(program, by_node(program, given, jnp), x)
        return found[-1].reshape(top.shape)

    return jax.vjp(outputs, parameters)[1](top)[0]


def _fitted(
    net: Network, parameters: Parameters, x: Any, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    for sigma in net.activations:
        check_has_slope(sigma)
    refuse_masks(net.program)
    dtype = check_parameters(net, parameters)
    inputs = np.asarray(check_inputs(net, x), dtype)
    top = error.astype(dtype)
    if top.shape != (len(inputs), net.output_dim):
        raise ValueError(
            f"`error` must have shape (samples, outputs) = {(len(inputs), net.output_dim)}, the slope "
            f"of the loss at each output; got {top.shape}."
        )
    return inputs, top
