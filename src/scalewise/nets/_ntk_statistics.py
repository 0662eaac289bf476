r"""Fluctuations of the NTK in every layer, from the whole NTK of real hidden layers.

The weights of the layer above are averaged over analytically. With the matrices
$X_{\alpha\beta}=\sigma'_{j\alpha}\sigma'_{k\beta}\widehat H_{jk;\alpha\beta}$ of a hidden layer and
$\omega_{12}=\frac1n\sum_j[\lambda_W\sigma_{j1}\sigma_{j2}+C_W(X_{12})_{jj}]$, what is left are
$D=n\,\mathrm{Cov}(\widehat G_{12},\omega_{34})$, $A=n\,\mathrm{Cov}(\omega_{12},\omega_{34})$, and the means
of $C_W^2\,\sigma_1^TX_{34}\sigma_2/n$ and $C_W^2\,\mathrm{tr}(X_{12}^TX_{34})/n$: exact at any width.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets._networks import slope
from scalewise.nets._random import normals, take
from scalewise.networks._perceptron import Perceptron


@partial(jax.jit, static_argnames=("sigma", "width"))
def _layer(
    numbers: Any, offset: Any, s: Any, C_b: Any, C_W: Any, *, sigma: Any, width: int
) -> tuple[Any, Any, Any]:
    """Weights of one layer for each network; then the activations and slopes they lead to."""
    own = take(numbers, offset, s.shape[-1] + 1, width)
    weights = jnp.sqrt(C_W / s.shape[-1]) * own[:, :-1]
    return weights, *slope(sigma, s @ weights + jnp.sqrt(C_b) * own[:, -1:])


@jax.jit
def _crossed(ntk: Any, derivative: Any) -> Any:
    """X for the pairs of samples a <= b, (network, pair, neuron, neuron)."""
    a, b = np.triu_indices(derivative.shape[1])
    return derivative[:, a, :, None] * ntk * derivative[:, b, None, :]


@jax.jit
def _carried(X: Any, weights: Any, own: Any) -> Any:
    """The NTK one layer up, PDLT (8.12); `own` is what its own parameters give, (network, pair)."""
    up = jnp.swapaxes(weights, 1, 2)[:, None]
    ntk = up @ X @ weights[:, None]
    return ntk + own[..., None, None] * jnp.eye(ntk.shape[-1], dtype=ntk.dtype)


@jax.jit
def _first(own: Any, derivative: Any) -> Any:
    """X of layer 1, where the NTK is diagonal."""
    networks, _, width = derivative.shape
    eye = jnp.eye(width, dtype=derivative.dtype)
    ntk = jnp.broadcast_to(own[..., None, None] * eye, (networks, own.shape[1], width, width))
    return _crossed(ntk, derivative)


@jax.jit
def _pairs(s: Any, constant: Any, factor: Any) -> Any:
    """A constant and a multiple of the mean of s s, for pairs of samples a <= b."""
    a, b = np.triu_indices(s.shape[1])
    gram = constant + factor / s.shape[-1] * (s @ jnp.swapaxes(s, 1, 2))
    return gram[:, a, b]


@jax.jit
def _joint(s: Any, X: Any, C_b: Any, C_W: Any, lambda_W: Any) -> Any:
    """The metric and omega of the layer above, (network, 2 pairs)."""
    trace = jnp.einsum("kpjj->kp", X) / s.shape[-1]
    return jnp.concatenate(
        [_pairs(s, C_b, C_W), _pairs(s, jnp.zeros_like(C_b), lambda_W) + C_W * trace], axis=1
    )


def _all_pairs(X: Any, samples: int) -> Any:
    """X for all ordered pairs of samples, (network, sample, sample, neuron, neuron)."""
    pair = np.zeros((samples, samples), dtype=int)
    pair[np.triu_indices(samples)] = np.arange(X.shape[1])
    above = np.arange(samples)[:, None] <= np.arange(samples)
    pair = np.where(above, pair, pair.T)
    return jnp.where(above[..., None, None], X[:, pair], jnp.swapaxes(X, 2, 3)[:, pair])


@jax.jit
def _B(s: Any, X: Any, C_W: Any) -> Any:
    """One draw of B_1324 for each network, flat."""
    networks, samples, width = s.shape
    flat = _all_pairs(X, samples).reshape(networks, samples**2, -1)
    gram = (C_W**2 / width) * (flat @ jnp.swapaxes(flat, 1, 2))
    quads = gram.reshape(networks, *(samples,) * 4)
    return jnp.swapaxes(quads, 2, 3).reshape(networks, -1)


@jax.jit
def _F(s: Any, X: Any, C_W: Any) -> Any:
    """One draw of F_1324 for each network, flat."""
    networks, samples, width = s.shape
    half = _all_pairs(X, samples) @ jnp.swapaxes(s, 1, 2)[:, None, None]
    quads = jnp.einsum("kaj,kcdjb->kacbd", s, half)
    return (C_W**2 / width) * quads.reshape(networks, -1)


def sample_statistics(
    net: Perceptron,
    x: np.ndarray,
    keys: Any,
    *,
    parts: tuple[str, ...],
    sigma: Callable[[Any], Any],
    dtype: str,
) -> dict[str, np.ndarray]:
    r"""Draw what the NTK statistics of the layers 2..L are made of, for one network per key.

    Args:
        net: The network.
        x: (samples, features).
        keys: One key per network.
        parts: Of ``"joint"``, ``"B"`` and ``"F"``.
        sigma: The activation as a JAX function.
        dtype: ``"float32"`` or ``"float64"``.

    Returns:
        ``"joint"``: metric and omega of the pairs a <= b, (networks, L-1, 2 pairs), whose covariance
        times the width below is V, D and A; the others: draws whose means are the tensors,
        (networks, L-1, samples^4) in the printed order of their indices.

    Source: PDLT (8.68), (8.69), (8.83), (8.90).
    """
    n, depth = net.widths, net.depth
    number = partial(np.asarray, dtype=dtype)
    sizes = [(n[i] + 1) * n[i + 1] for i in range(depth - 1)]
    offsets = np.cumsum([0, *sizes], dtype=np.int32)
    numbers = normals(keys, count=int(offsets[-1]), dtype=dtype)
    s = jnp.broadcast_to(jnp.asarray(x, dtype), (len(keys), *x.shape))
    drawn: dict[str, list[Any]] = {part: [] for part in parts}
    X: Any = None
    for i in range(depth - 1):
        own = _pairs(s, number(net.lambda_b[i]), number(net.lambda_W[i]))
        C = number(net.C_b[i]), number(net.C_W[i])
        weights, s, derivative = _layer(numbers, offsets[i], s, *C, sigma=sigma, width=n[i + 1])
        X = (
            _first(own, derivative)
            if X is None
            else _crossed(_carried(X, weights, own), derivative)
        )
        C_b, C_W = number(net.C_b[i + 1]), number(net.C_W[i + 1])
        for part, found in drawn.items():
            if part == "joint":
                found.append(_joint(s, X, C_b, C_W, number(net.lambda_W[i + 1])))
            else:
                found.append({"B": _B, "F": _F}[part](s, X, C_W))
    return {part: np.asarray(jnp.stack(found, axis=1), float) for part, found in drawn.items()}
