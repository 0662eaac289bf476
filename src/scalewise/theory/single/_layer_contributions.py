r"""Where the NTK and the gradients of one input come from, layer by layer.

Both follow from $\prod_{\ell'=\ell}^{L-1}\chi_\perp^{(\ell')}$, the mean squared chain-rule factor
from the output back to layer $\ell$.

Source: PDLT (9.28)-(9.30), (9.87)-(9.93).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.networks.spi import Numbers, Plain
from scalewise.theory.single._single_input import single_input_flow

Tensor = Float[np.ndarray, "layer input"]


@checked
def gradient_norms(net: Plain, x: Numbers | None = None, *, K1: Numbers | None = None) -> Tensor:
    r"""Mean squared chain-rule factor from the output back to every layer.

    $$\mathbb E\sum_j\Big(\frac{dz^{(L)}_i}{dz^{(\ell)}_j}\Big)^2
      =\prod_{\ell'=\ell}^{L-1}\chi_\perp^{(\ell')}+O(1/n)$$

    Args:
        net: The network.
        x: Inputs (samples, features).
        K1: Instead of `x`: first-layer kernels.

    Returns:
        The product for every layer and input, dimensionless; 1 at the output. Leading order.

    Raises:
        ValueError: If the activation jumps, or as in `single_input_flow`.

    Source: PDLT (9.90), (9.93).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.single import gradient_norms
        >>> gradient_norms(sw.MLP(3, 9, "relu", input_dim=1, output_dim=1, C_W=1.0), K1=1.0).ravel()
        array([0.25, 0.5 , 1.  ])
    """
    chi_perp = single_input_flow(net, x, K1=K1).chi_perp
    if chi_perp is None:
        raise ValueError(
            f"Gradients of {net.activation.name!r} do not exist: the activation jumps. Use one that "
            "is continuous."
        )
    ones = np.ones((1, chi_perp.shape[1]))
    return np.concatenate([np.cumprod(chi_perp[::-1], axis=0)[::-1], ones])


@checked
def ntk_layer_contributions(
    net: Plain, x: Numbers | None = None, *, K1: Numbers | None = None
) -> tuple[Tensor, Tensor]:
    r"""Contributions of the biases and the weights of each layer to the NTK of the output.

    $$\Theta^{(L)}=\sum_{\ell=1}^L\big[\lambda_b^{(\ell)}+\lambda_W^{(\ell)}\langle\sigma^2\rangle_
      {K^{(\ell-1)}}\big]\prod_{\ell'=\ell}^{L-1}\chi_\perp^{(\ell')},\qquad
      \langle\sigma^2\rangle_{K^{(0)}}\equiv\tfrac1{n_0}|x|^2$$

    Args:
        net: The network.
        x: Inputs (samples, features).
        K1: Instead of `x`: first-layer kernels.

    Returns:
        Contributions of the biases and of the weights, (layer, input) each; their sum over layers
        is $\Theta^{(L)}$. Units of the NTK.

    Raises:
        ValueError: If the activation jumps, or as in `single_input_flow`.

    Source: PDLT (9.28)-(9.30).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.single import ntk_layer_contributions
        >>> net = sw.MLP(3, 9, "relu", input_dim=1, output_dim=1, C_W=2.0)
        >>> bias, weight = ntk_layer_contributions(net, K1=1.0)
        >>> print(bias.ravel(), weight.ravel())
        [1. 1. 1.] [0.5 0.5 0.5]
    """
    back = gradient_norms(net, x, K1=K1)
    K = single_input_flow(net, x, K1=K1).K
    C_b, C_W, lam_b, lam_W = (
        np.array(v)[:, None] for v in (net.C_b, net.C_W, net.lambda_b, net.lambda_W)
    )
    second = (K - C_b) / C_W
    return lam_b * back, lam_W * second * back
