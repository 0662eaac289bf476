"""The whole neural tangent kernel of one network of any layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.nets._networks import check_has_slope, check_parameters, precision
from scalewise.networks._by_jax import ntk_of
from scalewise.networks.spi import (
    AnyNetwork,
    Parameters,
    bare,
    check_inputs,
    rates_of,
    refuse_masks,
)


@checked
def empirical_ntk(
    net: AnyNetwork, parameters: Parameters, x: Any, other: Any = None
) -> Float[np.ndarray, "sample other output output_1"]:
    r"""The neural tangent kernel of one real network at its output, to rounding.

    $$\widehat H_{i_1i_2;\alpha_1\alpha_2}=\sum_\ell\Big[\sum_j\frac{dz^{(L)}_{i_1;\alpha_1}}
    {dz^{(\ell)}_j}\frac{dz^{(L)}_{i_2;\alpha_2}}{dz^{(\ell)}_j}\Big]\Big[\lambda_b^{(\ell)}+
    \frac{\lambda_W^{(\ell)}}{n_{\ell-1}}\sum_k\sigma^{(\ell-1)}_{k;\alpha_1}
    \sigma^{(\ell-1)}_{k;\alpha_2}\Big].$$

    That is of fully connected layers; with positions $p$ both brackets stand under a sum over pairs of them, with
    all taps in the second. No derivative by a weight is formed where it is cheaper so: a bracket is a matrix
    product of what flows back with itself, or of what flows forward with itself.

    Args:
        net: Its layers and learning rates.
        parameters: As `init_weights` gives them, or arrays of the same shapes.
        x: (samples, features), with positions between the two.
        other: A second set of inputs, `x` itself by default.

    Returns:
        (samples, other samples, outputs, outputs) in the dtype of the parameters; exact to rounding.

    Raises:
        ValueError: If inputs do not fit the network, the parameters have other shapes than the network's, an
            activation jumps, or the network has Dropout.

    Source: PDLT (8.7), (8.12), (8.16)-(8.18); with site matrices derived.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import empirical_ntk, init_weights
        >>> net = sw.MLP(2, 5, "tanh", input_dim=3, output_dim=2)
        >>> empirical_ntk(net, init_weights(net), np.eye(3)).shape
        (3, 3, 2, 2)
    """
    for sigma in net.activations:
        check_has_slope(sigma)
    refuse_masks(net.program)
    dtype = check_parameters(net, parameters)
    inputs = [check_inputs(net, x)] + ([] if other is None else [check_inputs(net, other)])
    rates = np.array([*rates_of(net.program).values()], dtype)
    with precision(dtype):
        arrays = [np.asarray(a, dtype) for a in inputs]
        return np.asarray(ntk_of(parameters, arrays, rates, program=bare(net.program)))
