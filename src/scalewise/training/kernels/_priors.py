"""Where training by gradients and Bayesian inference are the same: rates, and weight decay of a prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.networks import Network


class Decay(NamedTuple):
    """Weight decay: coefficients of the squares of parameters in the loss, one for each layer.

    Args:
        biases: $a_b$; infinite for biases that are 0 for sure.
        weights: $a_W$, likewise.
    """

    biases: Float[np.ndarray, " layer"]
    weights: Float[np.ndarray, " layer"]


@checked
def bayes_rates(net: Network) -> Network:
    r"""The network with rates at which gradient descent to the end is exact Bayesian inference.

    $\lambda_b^{(L)}=C_b^{(L)}$, $\lambda_W^{(L)}=C_W^{(L)}$ and 0 below: only the last layer learns,
    $\Theta^{(L)}=K^{(L)}$, and all tensors that make the NTK fluctuate with outputs or move vanish.

    Args:
        net: The network.

    Source: PDLT (10.46), (10.48), (10.49), (∞.173).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.training.kernels import bayes_rates
        >>> bayes_rates(sw.MLP(3, 10, "tanh", input_dim=2, output_dim=1, C_W=1.5)).lambda_W
        (0.0, 0.0, 1.5)
    """
    still = (0.0,) * (net.depth - 1)
    return net.numbered(lambda_b=(*still, net.C_b[-1]), lambda_W=(*still, net.C_W[-1]))


@checked
def decay_of_prior(net: Network) -> Decay:
    r"""The weight decay whose minimum is the most probable network, $-\log p(\theta)=\sum a_\mu\theta_\mu^2$.

    $a_b=1/2C_b$ and $a_W=n_{\ell-1}/2C_W$, beside a loss that is a negative log-likelihood.

    Args:
        net: The network, whose initialisation is the prior.

    Source: PDLT (6.6), (6.19), (6.22).
    """
    with np.errstate(divide="ignore"):
        biases = 1 / (2 * np.array(net.C_b))
        weights = np.array(net.widths[:-1]) / (2 * np.array(net.C_W))
    return Decay(biases, weights)
