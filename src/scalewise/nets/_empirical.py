r"""The NTK of one real network at its output, and its differentials by directional derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.nets._contracted import contracted
from scalewise.nets._networks import (
    check_has_slope,
    check_parameters,
    check_slopes,
    check_smooth,
    precision,
)
from scalewise.networks import Network
from scalewise.networks.spi import (
    AnyNetwork,
    Parameters,
    bare,
    check_inputs,
    rates_of,
    refuse_masks,
)
from scalewise.networks.spi_jax import ntk_of

Legs = Sequence[Annotated[Any, Float[np.ndarray, "vector output"]]] | None


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


@checked
def empirical_dntk(
    net: AnyNetwork, parameters: Parameters, x: Any, legs: Legs = None
) -> Float[np.ndarray, "sample sample sample leg leg_1 leg_2"]:
    r"""The differential of the neural tangent kernel of one real network, to rounding.

    $$\widehat{dH}_{i_0i_1i_2;\alpha_0\alpha_1\alpha_2}=\sum\lambda_{\mu_1\nu_1}\lambda_{\mu_2\nu_2}
    \frac{d^2z_{i_0;\alpha_0}}{d\theta_{\mu_1}d\theta_{\mu_2}}\frac{dz_{i_1;\alpha_1}}{d\theta_{\nu_1}}
    \frac{dz_{i_2;\alpha_2}}{d\theta_{\nu_2}}$$

    It is the second derivative of $z_0$ along $\lambda\,\nabla z_1$ and $\lambda\,\nabla z_2$, which
    takes vectors of one layer at a time and no array of the shape of the parameters.

    Args:
        net: Its layers and learning rates.
        parameters: As `init_weights` gives them.
        x: (samples, features), with positions between the two.
        legs: Three arrays (vectors, outputs): leg $k$ is contracted with each vector of array $k$.
            By default every leg keeps all outputs.

    Returns:
        (samples, samples, samples, vectors, vectors, vectors) in the dtype of the parameters: samples
        $\alpha_0\alpha_1\alpha_2$, then outputs $i_0i_1i_2$. Symmetric in legs 1 and 2; exact to
        rounding, with the derivative almost everywhere at kinks.

    Raises:
        ValueError: If inputs, parameters or `legs` do not fit the network, an activation jumps, or the network has
            Dropout.

    Source: PDLT (11.8), (11.17)-(11.24).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import empirical_dntk, init_weights
        >>> net = sw.MLP(2, 5, "tanh", input_dim=3, output_dim=2)
        >>> empirical_dntk(net, init_weights(net), np.eye(3)).shape
        (3, 3, 3, 2, 2, 2)
    """
    check_slopes(net, "dntk_P")
    return _contracted(net, parameters, x, legs, ["dntk"], 3)[0]


@checked
def empirical_ddntk(
    net: AnyNetwork, parameters: Parameters, x: Any, legs: Legs = None
) -> tuple[
    Float[np.ndarray, "sample sample sample sample leg leg_1 leg_2 leg_3"],
    Float[np.ndarray, "sample sample sample sample leg leg_1 leg_2 leg_3"],
]:
    r"""Both second differentials of the neural tangent kernel of one real network, to rounding.

    $$\begin{aligned}\widehat{dd_IH}_{i_0i_1i_2i_3}&=\sum\lambda\lambda\lambda\,\frac{d^3z_{i_0}}{d\theta_{\mu_1}
    d\theta_{\mu_2}d\theta_{\mu_3}}\frac{dz_{i_1}}{d\theta_{\nu_1}}\frac{dz_{i_2}}{d\theta_{\nu_2}}
    \frac{dz_{i_3}}{d\theta_{\nu_3}},\\
    \widehat{dd_{II}H}_{i_1i_2i_3i_4}&=\sum\lambda\lambda\lambda\,\frac{d^2z_{i_1}}{d\theta_{\mu_1}
    d\theta_{\mu_3}}\frac{d^2z_{i_2}}{d\theta_{\mu_2}d\theta_{\nu_3}}\frac{dz_{i_3}}{d\theta_{\nu_1}}
    \frac{dz_{i_4}}{d\theta_{\nu_2}}\end{aligned}$$

    The first is a third derivative along $\lambda\,\nabla z_1,\lambda\,\nabla z_2,\lambda\,\nabla z_3$,
    the second the product of the changes of $\nabla z_1$ along $\lambda\,\nabla z_3$ and of
    $\nabla z_2$ along $\lambda\,\nabla z_4$.

    Args:
        net: Its layers and learning rates.
        parameters: As `init_weights` gives them.
        x: (samples, features), with positions between the two.
        legs: Four arrays (vectors, outputs), as in `empirical_dntk`, for both tensors in turn.

    Returns:
        The two tensors, (samples ×4, vectors ×4) each, in the dtype of the parameters. The first is
        symmetric in its last three legs, the second under (1, 3) ↔ (2, 4); exact to rounding.

    Raises:
        ValueError: If inputs, parameters or `legs` do not fit the network, an activation or a maximum has a kink,
            or the network has Dropout.

    Source: PDLT (∞.5), (∞.7), (∞.174), (∞.175).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import empirical_ddntk, init_weights
        >>> net = sw.MLP(2, 5, "tanh", input_dim=3, output_dim=1)
        >>> first, second = empirical_ddntk(net, init_weights(net), np.eye(2, 3))
        >>> first.shape
        (2, 2, 2, 2, 1, 1, 1, 1)
    """
    check_smooth(net)
    first, second = _contracted(net, parameters, x, legs, ["dd_first", "dd_second"], 4)
    return first, second


def _contracted(
    net: Network, parameters: Parameters, x: Any, legs: Legs, names: Sequence[str], count: int
) -> list[np.ndarray]:
    """Tensors of the outputs, with `count` legs."""
    refuse_masks(net.program)
    dtype = check_parameters(net, parameters)
    given = [np.eye(net.output_dim)] * count if legs is None else legs
    if len(given) != count or any(v.shape[1] != net.output_dim for v in given):
        raise ValueError(
            f"`legs` must be {count} arrays of vectors with {net.output_dim} entries each, one for "
            f"every output of the network; got shapes {[v.shape for v in given]}."
        )
    return contracted(net, parameters, check_inputs(net, x).astype(dtype), given, names)
