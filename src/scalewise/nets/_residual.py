r"""Ensembles of residual networks: the exact law of one layer given the one below, with a skip.

Given layer $\ell$ the neurons of layer $\ell+1$ are independent,
$z_i\sim N(\gamma z^{(\ell)}_i,S)$ with $S=C_b+\frac{C_W}n\sum_j\sigma_j\sigma_j$. Averages over the
last Gaussian are taken in closed form, which takes most of the noise out.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.network import MLP

__all__ = ["residual_metrics"]


def residual_metrics(
    net: MLP,
    gamma: tuple[float, ...],
    x: Float[np.ndarray, "sample feature"],
    *,
    networks: int,
    seed: int = 0,
) -> tuple[
    Float[np.ndarray, "network layer sample sample"],
    Float[np.ndarray, "network layer sample sample sample sample"],
]:
    r"""Unbiased draws of the metric and of its second moment, for the layers 2, 3, ….

    Args:
        net: The network of the branches.
        gamma: $\gamma_1,\dots,\gamma_L$; where it is not 0 a layer is as wide as the one below.
        x: Inputs (samples, features).
        networks: How many networks.
        seed: Of the random numbers.

    Returns:
        Draws whose means are $\mathbb E[z_{i;1}z_{i;2}]$, preactivation², and
        $\mathbb E[z_{i;1}z_{i;2}z_{j;3}z_{j;4}]$ with $i\ne j$, preactivation⁴.

    Source: PDLT (B.3), (4.69).
    """
    rng = np.random.default_rng(seed)
    first = net.C_b[0] + net.C_W[0] / net.input_dim * (x @ x.T)
    value, vector = np.linalg.eigh(first)
    root = vector * np.sqrt(np.maximum(value, 0.0))
    z = rng.normal(size=(networks, net.widths[1], len(x))) @ root.T
    metrics, products = [], []
    for layer in range(1, net.depth):
        n, m, skip = net.widths[layer], net.widths[layer + 1], gamma[layer]
        s = net.activation(z)
        S = net.C_b[layer] + net.C_W[layer] / n * np.einsum("kia,kib->kab", s, s)
        if skip:
            mean = skip**2 * np.einsum("kia,kib->kab", z, z) / n
            # Of neurons i != j: all pairs less the equal ones.
            own = skip**4 * np.einsum("kia,kib,kic,kid->kabcd", z, z, z, z, optimize=True)
            cross = mean[:, :, :, None, None] * mean[:, None, None]
            cross = (n * n * cross - own) / (n * (n - 1))
        else:
            mean, cross = np.zeros_like(S), 0.0
        metrics.append(S + mean)
        left, right = S[:, :, :, None, None], S[:, None, None]
        both = left * right + left * mean[:, None, None] + mean[:, :, :, None, None] * right
        products.append(both + cross)
        value, vector = np.linalg.eigh(S)
        root = vector * np.sqrt(np.maximum(value, 0.0))[:, None]
        z = rng.normal(size=(networks, m, len(x))) @ root.swapaxes(1, 2) + (skip * z if skip else 0)
    return np.stack(metrics, axis=1), np.stack(products, axis=1)
