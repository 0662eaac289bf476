r"""Networks without weights: the exact law of one layer given the one below.

Given layer $\ell$, the neurons of layer $\ell+1$ are independent and Gaussian with covariance
$\widehat G^{(\ell+1)}=F^TF$, $F$ the features $\sqrt{C_W/n_\ell}\,\sigma^{(\ell)}$ and, for the bias, a row
of $\sqrt{C_b}$. With $F=QR$ the weights of a neuron are $Q\xi+(1-QQ^T)\eta$ for independent standard normal
$\xi,\eta$, and its preactivations are $R^T\xi$: as many numbers as there are samples, and a cost of
$O(nN^2)$ instead of $O(n^2N)$ for each layer. What goes back through the layer meets $\eta$ too, `_ntk.py`.

On a CPU the linear algebra is NumPy's, since XLA would take longer to compile it than it runs; on an
accelerator the same lines are compiled by JAX. Where the numbers are decides it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise.nets._devices import on_host
from scalewise.nets._networks import slope
from scalewise.nets._random import normals, philox, take
from scalewise.networks import Network

Sigma = Callable[[Any], Any]
_PADDED = 1 << 17  # entries: to compute twice as many takes longer than to compile


class SampledLayer(NamedTuple):
    r"""One hidden layer of every network of a batch.

    Args:
        xi: $\xi$ of the weights below, (network, neuron, rank).
        slopes: $\sigma'$, (network, neuron, sample); ``None`` if they were not asked for.
        gram: $\sigma^T\sigma/n$, (network, sample, sample).
        Q: An orthonormal basis of the features, (network, neuron, rank), the last row that of the
            bias; ``None`` where it is the identity, as there are more samples than neurons.
        z: The preactivations, (network, neuron, sample), where the layer above adds them to its own;
            ``None`` elsewhere.
    """

    xi: Any
    slopes: Any
    gram: Any
    Q: Any
    z: Any = None


def first_metric(net: Network, x: np.ndarray) -> Float[np.ndarray, "sample sample"]:
    r"""$G^{(1)}=C_b+C_Wxx^T/n_0$, which does not fluctuate; PDLT (4.8)."""
    return net.C_b[0] + net.C_W[0] / net.input_dim * (x @ x.T)


def first_factor(net: Network, x: np.ndarray) -> Float[np.ndarray, "rank sample"]:
    r"""$R$ with $R^TR=G^{(1)}$, exact to rounding for singular $G^{(1)}$ too."""
    ones = np.full((1, len(x)), np.sqrt(net.C_b[0]))
    features = np.vstack([np.sqrt(net.C_W[0] / net.input_dim) * x.T, ones])
    return np.asarray(np.linalg.qr(features, mode="r"))


def ranks(net: Network, samples: int) -> list[int]:
    r"""How many $\xi$ a neuron of each hidden layer has."""
    return [min(n + 1, samples) for n in net.widths[: net.depth - 1]]


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of (array module, arrays...), run where the arrays are: by NumPy, or compiled by JAX."""
    compiled = jax.jit(partial(function, jnp))

    def run(*arrays: Any) -> Any:
        if any(isinstance(array, jax.Array) for array in jax.tree.leaves(arrays)):
            return compiled(*arrays)
        with np.errstate(over="ignore", invalid="ignore"):  # whoever reads the result refuses it
            return function(np, *arrays)

    return run


@partial(jax.jit, static_argnames=("sigma", "slopes"))
def _activate(z: Any, *, sigma: Sigma, slopes: bool) -> tuple[Any, Any]:
    return slope(sigma, z) if slopes else (sigma(z), None)


def _activated(z: Any, *, sigma: Sigma, slopes: bool) -> tuple[Any, Any]:
    """Activation and slope; on the host a new shape of few entries need not be compiled."""
    if not isinstance(z, np.ndarray):
        return _activate(z, sigma=sigma, slopes=slopes)
    row = z if z.size > _PADDED else np.resize(z, 1 << max(10, (z.size - 1).bit_length()))
    values = _activate(row, sigma=sigma, slopes=slopes)
    s, derivative = (v if v is None else np.ravel(v)[: z.size].reshape(z.shape) for v in values)
    return s, derivative


@in_place
def _gaussian(xp: Any, xi: Any, R: Any) -> Any:
    return xi @ R


@in_place
def _remembered(xp: Any, fresh: Any, below: Any, skip: Any) -> Any:
    return fresh + skip * below


@in_place
def _gram(xp: Any, s: Any) -> Any:
    return xp.swapaxes(s, 1, 2) @ s / s.shape[1]


@in_place
def _factor(xp: Any, s: Any, C_b: Any, C_W: Any) -> tuple[Any, Any]:
    """Q and R of the features; no eigenvalue is ever divided by or cut off.

    So coincident samples stay coincident to rounding.
    """
    networks, width, samples = s.shape
    ones = xp.full((networks, 1, samples), xp.sqrt(C_b), s.dtype)
    features = xp.concatenate([xp.sqrt(C_W / width) * s, ones], axis=1)
    if samples > width:
        return None, features
    Q, R = xp.linalg.qr(features)
    return Q, R


def draw_layers(
    net: Network,
    factor: Float[np.ndarray, "rank sample"],
    numbers: Any,
    *,
    sigma: Sigma,
    slopes: bool = False,
) -> list[SampledLayer]:
    r"""The hidden layers of one network for each row of numbers.

    Args:
        net: The network; its widths, $C_b$, $C_W$, skip connections and nothing else.
        factor: $R$ with $R^TR=G^{(1)}$.
        numbers: Standard normal numbers, (networks, at least what `ranks` asks for), in the precision
            wanted.
        sigma: The activation as a JAX function.
        slopes: Whether the slopes are wanted.

    Returns:
        The layers 1..L-1; an exact draw of their joint law, up to rounding.

    Source: PDLT (4.69)-(4.70), with (B.3) $z^{(\ell+1)}=R^T\xi+\gamma z^{(\ell)}$.
    """
    n, dtype = net.widths, numbers.dtype
    z: Any = None
    R: Any = np.broadcast_to(factor.astype(dtype), (len(numbers), *factor.shape))
    layers, offset = [], 0
    for i, rank in enumerate(ranks(net, factor.shape[1])):
        xi = take(numbers, offset, n[i + 1], rank)
        offset += n[i + 1] * rank
        fresh = _gaussian(xi, R)
        z = _remembered(fresh, z, np.asarray(net.skips[i], dtype)) if net.skips[i] else fresh
        s, derivative = _activated(z, sigma=sigma, slopes=slopes)
        gram = _gram(s)
        Q = None
        if i < net.depth - 2:
            Q, R = _factor(s, *(np.asarray(c[i + 1], dtype) for c in (net.C_b, net.C_W)))
        layers.append(SampledLayer(xi, derivative, gram, Q, z if net.skips[i + 1] else None))
    return layers


def draw_numbers(keys: Any, count: int, dtype: str) -> Any:
    """Standard normal numbers for each key, as an array of NumPy or JAX, depending on which uses them."""
    return (philox if on_host() else normals)(keys, count=count, dtype=dtype)


def metrics(
    net: Network, layers: list[SampledLayer], *, neurons: slice = slice(None)
) -> Float[np.ndarray, "network layer sample sample"]:
    r"""$\widehat G^{(2)},\dots,\widehat G^{(L)}$ of each network, averaged over the weights above.

    Args:
        net: The network.
        layers: As `draw_layers` gives them.
        neurons: Which neurons $i$ to take the mean over of what a skip connection carries,
            $\widehat G^{(\ell+1)}=C_b+C_W\sigma\cdot\sigma/n_\ell+\gamma^2\langle z_iz_i\rangle_i$.
    """
    grams = np.stack([np.asarray(layer.gram, np.float64) for layer in layers], axis=1)
    C_b, C_W = (np.array(c[1:])[:, None, None] for c in (net.C_b, net.C_W))
    found = C_b + C_W * grams
    for i, layer in enumerate(layers):
        if layer.z is not None:
            found[:, i] += net.skips[i + 1] ** 2 * np.asarray(
                _gram(layer.z[:, neurons]), np.float64
            )
    return found
