r"""The stochastic forward equations of fully connected layers, one network by itself: an oracle.

From the tensors of one layer those of the next: PDLT (8.12), (11.24), (∞.174), (∞.175), with the index patterns
restored. All neurons and all samples are kept, neurons in front.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets import LayerTensors

Array = np.ndarray
_sum = partial(np.einsum, optimize=True)


def layers(net: Any, parameters: Any, x: Array, sigma: Any) -> list[LayerTensors]:
    """Of all layers of a perceptron."""
    found: list[LayerTensors] = []
    slopes: tuple[Array, ...] = ()
    entering = x.T
    for i, (w, b) in enumerate(zip(*map(_arrays, parameters), strict=True)):
        rate = net.lambda_W[i] / net.widths[i]
        shared = net.lambda_b[i] + rate * (entering.T @ entering)
        own = _sum("ij,ab->ijab", np.eye(len(w)), shared)
        found.append(next_layer(w, slopes, found[-1], own, rate) if found else first_layer(own))
        slopes = derivatives(w @ entering + b[:, None], sigma)
        entering = slopes[0]
    return found


def _arrays(part: Any) -> list[Array]:
    return [np.asarray(a, np.float64) for a in part]


def derivatives(z: Array, sigma: Any) -> tuple[Array, ...]:
    """The activation and its three derivatives, (neuron, sample) each."""
    functions = [sigma]
    for _ in range(3):
        functions.append(lambda z, f=functions[-1]: jax.jvp(f, (z,), (jnp.ones_like(z),))[1])
    with jax.enable_x64(True):
        return tuple(map(np.asarray, jax.jit(lambda z: [f(z) for f in functions])(z)))


def first_layer(ntk: Array) -> LayerTensors:
    """PDLT (8.23), (11.26): the NTK is deterministic, and nothing bends."""
    n, _, samples, _ = ntk.shape
    return LayerTensors(ntk, *(np.zeros((n,) * k + (samples,) * k) for k in (3, 4, 4)))


def next_layer(
    w: Array, slopes: tuple[Array, ...], below: LayerTensors, own: Array, rate: float
) -> LayerTensors:
    """One layer up.

    Args:
        w: W^(l+1).
        slopes: sigma and its derivatives in layer l, (neuron, sample) each.
        below: The tensors of layer l.
        own: What the parameters of layer l+1 give to the NTK.
        rate: lambda_W^(l+1) / n_l.
    """
    # W_ij alone, then times a derivative of sigma at (j, sample).
    legs = (w, *(w[:, :, None] * s for s in slopes[1:]))
    H = below.ntk
    ntk = own + _sum("ixa,jyb,xyab->ijab", legs[1], legs[1], H)
    return LayerTensors(
        ntk,
        _dntk(legs, slopes, below, rate),
        _dd_first(legs, slopes, below, rate),
        _dd_second(legs, slopes, below, rate),
    )


def _dntk(
    legs: tuple[Array, ...], slopes: tuple[Array, ...], below: LayerTensors, rate: float
) -> Array:
    """PDLT (11.24)."""
    (_, w1, w2, _), (s, s1, *_) = legs, slopes
    H, dH = below.ntk, below.dntk
    result = _sum("ixa,jyb,kzc,xyzabc->ijkabc", w1, w1, w1, dH)
    result += _sum("ixa,jyb,kzc,xyab,xzac->ijkabc", w2, w1, w1, H, H)
    new = rate * _sum("ij,kzc,xa,xb,xzac->ijkabc", np.eye(len(w1)), w1, s1, s, H)
    return result + new + new.transpose(0, 2, 1, 3, 5, 4)


def _bent(slopes: tuple[Array, ...], below: LayerTensors) -> Array:
    """The dNTK of sigma at leg 0 and z at the two others: s'' H H + s' dH."""
    H, dH = below.ntk, below.dntk
    bent = _sum("xa,xyab,xzac->xyzabc", slopes[2], H, H)
    return bent + _sum("xa,xyzabc->xyzabc", slopes[1], dH)


def _dd_first(
    legs: tuple[Array, ...], slopes: tuple[Array, ...], below: LayerTensors, rate: float
) -> Array:
    """PDLT (∞.174): its three permutations of legs are made by swapping."""
    (w, w1, w2, w3), (s, *_) = legs, slopes
    H, dH, eye, bent = below.ntk, below.dntk, np.eye(len(w)), _bent(slopes, below)
    outer = "iwa,jxb,kyc,lzd,"
    result = _sum(outer + "wxyzabcd->ijklabcd", w1, w1, w1, w1, below.dd_first)
    result += _sum(outer + "wxab,wyac,wzad->ijklabcd", w3, w1, w1, w1, H, H, H)
    # dH H, the single leg being 3; and a new weight, shared by legs 0 and 1.
    lone = _sum(outer + "wxyabc,wzad->ijklabcd", w2, w1, w1, w1, dH, H)
    new = rate * _sum("ij,xb,kyc,lzd,xyzacd->ijklabcd", eye, s, w1, w1, bent)
    for k in (1, 2, 3):
        result += np.swapaxes(np.swapaxes(lone, 3, k), 7, 4 + k)
        result += np.swapaxes(np.swapaxes(new, 1, k), 5, 4 + k)
    return result


def _dd_second(
    legs: tuple[Array, ...], slopes: tuple[Array, ...], below: LayerTensors, rate: float
) -> Array:
    """PDLT (∞.175): what is not symmetric under (1, 3) <-> (2, 4) comes with its mirror image."""
    (w, w1, w2, _), (s, s1, *_) = legs, slopes
    H, dH, eye, bent = below.ntk, below.dntk, np.eye(len(w)), _bent(slopes, below)
    outer = "iwa,jxb,kyc,lzd,"
    result = _sum(outer + "wxyzabcd->ijklabcd", w1, w1, w1, w1, below.dd_second)
    result += _sum(outer + "wxab,wyac,xzbd->ijklabcd", w2, w2, w1, w1, H, H, H)
    result += rate**2 * _sum("ik,jl,xa,yb,xc,yd,xyab->ijklabcd", eye, eye, s1, s1, s, s, H)
    result += rate * _sum("ij,kyc,lzd,xa,xb,xyac,xzbd->ijklabcd", eye, w1, w1, s1, s1, H, H)
    lone = _sum(outer + "xzbd,wxyabc->ijklabcd", w1, w2, w1, w1, H, dH)
    lone += rate * _sum("ik,jy,lzd,xc,xa,yxzbad->ijklabcd", eye, w, w1, s, s1, bent)
    return result + lone + lone.transpose(1, 0, 3, 2, 5, 4, 7, 6)
