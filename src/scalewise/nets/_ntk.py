r"""The mean NTK of every layer, from real weights and a few rows carried back through them.

For the neuron $i$ of layer $\ell'$ the NTK is $\sum_\ell(r_{\alpha_1}\cdot r_{\alpha_2})\,
T^{(\ell)}_{\alpha_1\alpha_2}$ with the row $r=dz^{(\ell')}_i/dz^{(\ell)}$ and what a layer of its own
contributes, $T^{(\ell)}=\lambda_b+\lambda_W\sigma\cdot\sigma/n_{\ell-1}$. The last weights are averaged
over analytically: they leave a trace, which a few random signs estimate without bias.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise.nets._networks import slope
from scalewise.nets._random import normals, take
from scalewise.network import MLP

__all__ = ["first_ntk", "sample_ntk"]

PROBES = 2
_FEW_LAYERS = 5  # up to here compiling a shape for each layer costs less than carrying spare rows


def first_ntk(net: MLP, x: np.ndarray) -> Float[np.ndarray, "sample sample"]:
    r"""$H^{(1)}=\lambda_b+\lambda_Wxx^T/n_0$, which does not fluctuate; PDLT (8.23)."""
    return net.lambda_b[0] + net.lambda_W[0] / net.input_dim * (x @ x.T)


@partial(jax.jit, static_argnames=("sigma", "width"))
def _forward(
    numbers: Any, offset: Any, s: Any, C_b: Any, C_W: Any, *, sigma: Any, width: int
) -> tuple[Any, Any, Any]:
    """Weights of one layer for each network; then the activations and slopes they lead to."""
    own = take(numbers, offset, s.shape[-1] + 1, width)
    weights = jnp.sqrt(C_W / s.shape[-1]) * own[:, :-1]
    value, derivative = slope(sigma, s @ weights + jnp.sqrt(C_b) * own[:, -1:])
    return weights, value, derivative


@partial(jax.jit, static_argnames="slots")
def _backward(
    new: tuple[Any, Any, Any],
    flow: tuple[Any, Any, Any] | None,
    derivative: Any,
    own: tuple[Any, Any],
    *,
    slots: int,
) -> tuple[Any, Any]:
    """One layer back: rows (network, slot, sample, probe, neuron), and the NTK they make so far.

    Slot 0 opens here, for the layer above; the slots of higher layers move up by one. The number of
    slots is rounded up (the spare ones hold zeros), so that few shapes are compiled.
    """
    networks, samples, width = derivative.shape
    numbers, offset, C_W = new
    probes = take(numbers, offset, PROBES, width)
    opened = (jnp.sqrt(C_W / width) * jnp.where(probes < 0, -1, 1))[:, None, None]
    rows = jnp.broadcast_to(opened, (networks, 1, samples, PROBES, width))
    ntk = own[1][:, None]
    if flow is not None:
        above, weights, ntk_above = flow
        carried = above.reshape(networks, -1, above.shape[-1]) @ jnp.swapaxes(weights, 1, 2)
        rows = jnp.concatenate([rows, carried.reshape(*above.shape[:-1], width)], axis=1)
        ntk = jnp.concatenate([ntk, ntk_above], axis=1)
    spare = slots - rows.shape[1]
    rows = jnp.pad(rows, [(0, 0), (0, max(spare, 0))] + [(0, 0)] * 3)[:, :slots]
    ntk = jnp.pad(ntk, [(0, 0), (0, max(spare, 0)), (0, 0), (0, 0)])[:, :slots]
    rows *= derivative[:, None, :, None, :]
    flat = rows.reshape(networks, slots, samples, -1)
    gram = flat @ jnp.swapaxes(flat, 2, 3) / PROBES
    return rows, ntk + gram * own[0][:, None]


@jax.jit
def _own(s: Any, lambda_b: Any, lambda_W: Any) -> Any:
    return lambda_b + lambda_W / s.shape[-1] * (s @ jnp.swapaxes(s, 1, 2))


def sample_ntk(
    net: MLP, x: np.ndarray, keys: Any, *, sigma: Callable[[Any], Any], dtype: str
) -> Float[np.ndarray, "network layer sample sample"]:
    r"""Unbiased draws of the mean NTK of the layers 2..L, one for each network.

    Args:
        net: The network.
        x: (samples, features).
        keys: One JAX key per network.
        sigma: The activation as a JAX function.
        dtype: ``"float32"`` or ``"float64"``.

    Returns:
        (networks, L-1, samples, samples) in preactivation² / learning rate. The expectation of each
        draw is $\mathbb E[\widehat H^{(\ell)}_{ii;\alpha_1\alpha_2}]$ at the widths of `net`.

    Source: PDLT (8.6), (8.12), (8.16)-(8.18), (8.59).
    """
    n, depth = net.widths, net.depth
    number = partial(np.asarray, dtype=dtype)
    sizes = [(n[i] + 1) * n[i + 1] for i in range(depth - 1)] + [PROBES * m for m in n[1:-1]]
    offsets = np.cumsum([0, *sizes], dtype=np.int32)
    numbers = normals(keys, count=int(offsets[-1]), dtype=dtype)
    s = jnp.broadcast_to(jnp.asarray(x, dtype), (len(keys), *x.shape))
    own, weights, slopes = [], [], []
    for i in range(depth):
        own.append(_own(s, number(net.lambda_b[i]), number(net.lambda_W[i])))
        if i < depth - 1:
            C = number(net.C_b[i]), number(net.C_W[i])
            w, s, derivative = _forward(numbers, offsets[i], s, *C, sigma=sigma, width=n[i + 1])
            weights.append(w)
            slopes.append(derivative)
    flow, ntk = None, None
    for i in range(depth - 1, 0, -1):
        new = numbers, offsets[depth + i - 2], number(net.C_W[i])
        slots = depth - i if depth <= _FEW_LAYERS else -(-(depth - i) // 4) * 4
        rows, ntk = _backward(new, flow, slopes[i - 1], (own[i - 1], own[i]), slots=slots)
        flow = (rows, weights[i - 1], ntk)
    assert ntk is not None
    return np.asarray(ntk[:, : depth - 1], dtype=np.float64)
