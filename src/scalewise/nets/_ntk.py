r"""The mean NTK of every layer: a few rows carried back, through weights that are never drawn.

For the neuron $i$ of layer $\ell'$ the NTK is $\sum_\ell(r_{\alpha_1}\cdot r_{\alpha_2})\,
T^{(\ell)}_{\alpha_1\alpha_2}$ with the row $r=dz^{(\ell')}_i/dz^{(\ell)}$ and what a layer of its own
contributes, $T^{(\ell)}=\lambda_b+\lambda_W\sigma\cdot\sigma/n_{\ell-1}$. The last weights are averaged
over analytically: they leave a trace, which a random sign for each neuron estimates without bias.

Given the preactivations, the weights of a layer are $\sqrt{C_W/n}\,(\xi Q^T+\eta(1-QQ^T))$ with a known
$\xi$ (`_sampler.py`) and an $\eta$ that nothing else depends on. A row splits into what it finds of $\xi$,
and a Gaussian whose covariance over the samples, $B=\mathbb E[r\cdot r]$, and over the neurons, $1-QQ^T$,
are known. So its products need not be sampled, and its own continuation takes one number for each sample
and neuron: a network costs $O(nN^2)$ for each pair of layers, never $O(n^2)$.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.nets._random import take
from scalewise.nets._sampler import SampledLayer, in_place
from scalewise.networks import Network

PROBES = 1


def first_ntk(net: Network, x: np.ndarray) -> Float[np.ndarray, "sample sample"]:
    r"""$H^{(1)}=\lambda_b+\lambda_Wxx^T/n_0$, which does not fluctuate; PDLT (8.23)."""
    return net.lambda_b[0] + net.lambda_W[0] / net.input_dim * (x @ x.T)


def row_numbers(net: Network, samples: int) -> list[tuple[int, ...]]:
    r"""Shapes of the random numbers that rows need: the signs of each hidden layer, and each $\eta$.

    A second sign of each neuron is for the skip connection of the layer above.

    The $\eta$ of the weights into layer 2 is averaged over, as no row goes further; so are those of
    weights that have no part beside $\xi$.
    """
    n = net.widths[1 : net.depth]
    signs = [(PROBES, width, 2 if net.skips[i] else 1) for i, width in enumerate(n, 1)]
    return signs + [(PROBES, width + 1, samples) for width in n[1:-1] if width >= samples]


@in_place
def _opened(xp: Any, signs: Any, slopes: Any, C_W: Any, skip: Any) -> tuple[Any, Any]:
    """Rows of the trace over the weights above, (network, probe, neuron, sample), and their products."""
    scaled = xp.sqrt(C_W / slopes.shape[1]) * slopes
    signs = xp.where(signs < 0, -1, 1).astype(slopes.dtype)
    rows, B = signs[..., :1] * scaled[:, None], xp.swapaxes(scaled, 1, 2) @ scaled
    if skip is not None:  # a neuron of the layer above is one of this, any of them
        rows = rows + skip / np.sqrt(slopes.shape[1]).astype(slopes.dtype) * signs[..., 1:]
        B = B + skip**2
    return rows, B


@in_place
def _beside(xp: Any, eta: Any, Q: Any) -> Any:
    """The part of eta orthogonal to the features, one row for each neuron and none for the bias."""
    Q = Q[:, None]
    return (eta - Q @ (xp.swapaxes(Q, 2, 3) @ eta))[:, :, :-1]


@in_place
def _carried(
    xp: Any, rows: tuple[Any, Any], xi: Any, rest: tuple[Any, Any, Any], C_W: Any, skip: Any
) -> tuple[Any, Any]:
    """One layer back: the rows below, and the mean of their products over what was not sampled."""
    (above, B), (Q, slopes, beside) = rows, rest
    scale = xp.sqrt(C_W / slopes.shape[1])
    found = xp.swapaxes(xi, 1, 2)[:, None] @ above
    below = found if Q is None else Q[:, None] @ found
    below = scale * below[:, :, :-1] * slopes[:, None]
    if skip is not None:
        below = below + skip * above
    products = (xp.swapaxes(below, 2, 3) @ below).sum(axis=1) / above.shape[1]
    if Q is None:
        return below, products
    free = 1.0 - (Q * Q).sum(axis=2, keepdims=True)[:, :-1]
    products = products + scale**2 * B * (xp.swapaxes(slopes, 1, 2) @ (free * slopes))
    if beside is not None:
        below = below + scale * (beside @ _root(xp, B)[:, None]) * slopes[:, None]
    return below, products


def _root(xp: Any, B: Any) -> Any:
    """The symmetric square root of what is positive but for rounding; that of inf is left to B itself."""
    value, vector = xp.linalg.eigh(xp.where(xp.isfinite(B), B, 0.0))
    return (vector * xp.sqrt(xp.maximum(value, 0.0))[:, None]) @ xp.swapaxes(vector, 1, 2)


def mean_ntks(
    net: Network, x: Float[np.ndarray, "sample feature"], layers: list[SampledLayer], numbers: Any
) -> Float[np.ndarray, "network layer sample sample"]:
    r"""Unbiased draws of the mean NTK of the layers 2..L, one for each network.

    Args:
        net: The network.
        x: (samples, features).
        layers: Its hidden layers, with slopes.
        numbers: Standard normal numbers that the layers know nothing of, as many as `row_numbers`.

    Returns:
        In preactivation² / learning rate. The expectation of each draw is
        $\mathbb E[\widehat H^{(\ell)}_{ii;\alpha_1\alpha_2}]$ at the widths of `net`.

    Source: PDLT (8.6), (8.12), (8.16)-(8.18), (8.59); with skip connections
        $dz^{(\ell+1)}_i/dz^{(\ell)}_j=W_{ij}\sigma'_j+\gamma\delta_{ij}$ from (B.3).
    """
    C_W = np.asarray(net.C_W, numbers.dtype)
    skips = [np.asarray(skip, numbers.dtype) if skip else None for skip in net.skips]
    own = [first_ntk(net, x)]
    own += [
        net.lambda_b[i] + net.lambda_W[i] * np.asarray(layer.gram, np.float64)
        for i, layer in enumerate(layers, 1)
    ]
    shapes = row_numbers(net, len(x))
    offsets = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    parts = [take(numbers, int(o), *s) for o, s in zip(offsets, shapes, strict=False)]
    signs, etas = parts[: len(layers)], iter(parts[len(layers) :])
    sampled = [0 < i < len(layers) - 1 and layer.Q is not None for i, layer in enumerate(layers)]
    beside = [
        _beside(next(etas), layer.Q) if own_part else None
        for layer, own_part in zip(layers, sampled, strict=True)
    ]
    ntks = []
    for top in range(len(layers)):
        rows = _opened(signs[top], layers[top].slopes, C_W[top + 1], skips[top + 1])
        ntk = own[top + 1] + np.asarray(rows[1], np.float64) * own[top]
        for i in range(top - 1, -1, -1):
            rest = layers[i].Q, layers[i].slopes, beside[i]
            rows = _carried(rows, layers[i + 1].xi, rest, C_W[i + 1], skips[i + 1])
            ntk = ntk + np.asarray(rows[1], np.float64) * own[i]
        ntks.append(ntk)
    return np.stack(ntks, axis=1)
