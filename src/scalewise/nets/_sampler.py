r"""Preactivation statistics without weights: the exact law of one layer given the one below.

Given layer $\ell$, the neurons of layer $\ell+1$ are independent and Gaussian with covariance
$\widehat G^{(\ell+1)}$. So an ensemble of layers is drawn without drawing a weight matrix, at a cost of
$O(n N^2)$ instead of $O(n^2 N)$ for each layer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise.nets._random import normals, take
from scalewise.network import MLP

__all__ = ["first_factor", "first_metric", "sample_metrics"]

Sigma = Callable[[Any], Any]


def first_metric(net: MLP, x: np.ndarray) -> Float[np.ndarray, "sample sample"]:
    r"""$G^{(1)}=C_b+C_Wxx^T/n_0$, which does not fluctuate; PDLT (4.8)."""
    return net.C_b[0] + net.C_W[0] / net.input_dim * (x @ x.T)


def first_factor(net: MLP, x: np.ndarray) -> Float[np.ndarray, "rank sample"]:
    r"""$R$ with $R^TR=G^{(1)}$, exact to rounding for singular $G^{(1)}$ too."""
    ones = np.full((1, len(x)), np.sqrt(net.C_b[0]))
    features = np.vstack([np.sqrt(net.C_W[0] / net.input_dim) * x.T, ones])
    return np.asarray(np.linalg.qr(features, mode="r"))


@partial(jax.jit, static_argnames=("sigma", "width"))
def _next_layer(
    numbers: Any, offset: Any, factor: Any, C_b: Any, C_W: Any, *, sigma: Sigma, width: int
) -> tuple[Any, Any]:
    rank, samples = factor.shape[-2:]
    z = take(numbers, offset, width, rank) @ factor
    features = jnp.sqrt(C_W / width) * sigma(z)
    ones = jnp.full((len(factor), 1, samples), jnp.sqrt(C_b), factor.dtype)
    features = jnp.concatenate([features, ones], axis=1)
    metric = jnp.swapaxes(features, 1, 2) @ features
    # The features are a square root of the metric already, and QR only shortens it: no eigenvalue
    # is ever divided by or cut off, and coincident samples stay coincident to rounding.
    shorter = samples < width + 1
    return (jnp.linalg.qr(features, mode="r") if shorter else features), metric


def sample_metrics(
    net: MLP, factor: np.ndarray, keys: Any, *, sigma: Sigma, dtype: str
) -> Float[np.ndarray, "network layer sample sample"]:
    r"""Draw $\widehat G^{(2)},\dots,\widehat G^{(L)}$ of one network for each key.

    Args:
        net: The network; its widths, $C_b$, $C_W$ and nothing else.
        factor: $R$ with $R^TR=G^{(1)}$, (rank, samples).
        keys: One JAX key per network.
        sigma: The activation as a JAX function.
        dtype: ``"float32"`` or ``"float64"``.

    Returns:
        (networks, L-1, samples, samples) in preactivation²; an exact draw of the joint law of all
        layers, up to the rounding of `dtype`.

    Source: PDLT (4.69)-(4.70).
    """
    n, samples = net.widths, factor.shape[1]
    ranks = [len(factor), *(min(m + 1, samples) for m in n[1:])]
    offsets = np.cumsum([0, *(ranks[i] * n[i + 1] for i in range(net.depth - 1))], dtype=np.int32)
    numbers = normals(keys, count=int(offsets[-1]), dtype=dtype)
    state = jnp.broadcast_to(jnp.asarray(factor, dtype), (len(keys), *factor.shape))
    metrics = []
    for i in range(net.depth - 1):
        C = (np.asarray(c[i + 1], dtype) for c in (net.C_b, net.C_W))
        state, metric = _next_layer(numbers, offsets[i], state, *C, sigma=sigma, width=n[i + 1])
        metrics.append(metric)
    return np.asarray(jnp.stack(metrics, axis=1), dtype=np.float64)
