r"""Error factors: how the loss hangs on the preactivations of every layer of one network."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.nets._networks import (
    Parameters,
    check_has_slope,
    check_parameters,
    precision,
    sweep,
    traced,
)
from scalewise.networks import MLP
from scalewise.networks._inputs import check_inputs
from scalewise.networks._mlp import WithoutSkips

Slopes = Annotated[Any, Float[np.ndarray, "sample output"]]


@checked
def error_factors(
    net: WithoutSkips, parameters: Parameters, x: Any, error: Slopes
) -> tuple[Float[np.ndarray, "sample neuron"], ...]:
    r"""What the loss changes by with each preactivation of each layer.

    $$\epsilon^{(\ell)}_{j;\tilde\alpha}=\sum_k\frac{\partial\mathcal L}{\partial z^{(L)}_{k;\tilde\alpha}}
    \frac{dz^{(L)}_{k;\tilde\alpha}}{dz^{(\ell)}_{j;\tilde\alpha}}$$

    Args:
        net: The network.
        parameters: As `init_weights` gives them.
        x: (samples, features).
        error: $\partial\mathcal L/\partial z^{(L)}$, (samples, outputs); $z-y$ for half the squared
            distance.

    Returns:
        One array (samples, n_l) per layer, the last of them `error`; exact to rounding.

    Raises:
        ValueError: If the inputs, the parameters or the shape of `error` do not fit the network, or
            the activation jumps.

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
        _, rows = sweep(parameters, inputs, traced(net.activation))
        lower = [np.einsum("sk,skj->sj", top, np.asarray(r)) for r in rows]
    return (*lower, top)


@checked
def parameter_step(net: WithoutSkips, parameters: Parameters, x: Any, error: Slopes) -> Parameters:
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
    errors = error_factors(net, parameters, x, error)
    with precision(str(top.dtype)):
        forward, _ = sweep(parameters, inputs, traced(net.activation))
    entering = [np.asarray(s) for s in forward]
    weights = [
        -net.lambda_W[i] / net.widths[i] * e.T @ s
        for i, (e, s) in enumerate(zip(errors, entering, strict=True))
    ]
    biases = [-net.lambda_b[i] * e.sum(axis=0) for i, e in enumerate(errors)]
    return Parameters(tuple(weights), tuple(biases))


def _fitted(
    net: MLP, parameters: Parameters, x: Any, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    check_has_slope(net.activation)
    dtype = check_parameters(net, parameters)
    inputs = np.asarray(check_inputs(net, x), dtype)
    top = error.astype(dtype)
    if top.shape != (len(inputs), net.output_dim):
        raise ValueError(
            f"`error` must have shape (samples, outputs) = {(len(inputs), net.output_dim)}, the slope "
            f"of the loss at each output; got {top.shape}."
        )
    return inputs, top
