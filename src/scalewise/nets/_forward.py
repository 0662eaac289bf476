r"""Every tensor of one small network, layer by layer: the stochastic forward equations.

Identities that hold for each network by itself. All neurons and all samples are kept, so the arrays
grow as $n^4N^4$: this is a microscope for networks of a few neurons, and the oracle of whatever is
contracted more cleverly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.nets._jets import derivatives
from scalewise.nets._networks import (
    check_has_slope,
    check_parameters,
    check_smooth,
    precision,
    traced,
)
from scalewise.networks._inputs import check_inputs
from scalewise.networks._mlp import Plain
from scalewise.networks._weights import Parameters

LARGEST = 2**28  # bytes of one tensor

Array = np.ndarray
_sum = partial(np.einsum, optimize=True)


@dataclass(frozen=True)
@readable
class LayerTensors:
    r"""The tensors of one layer of one network; neurons first, then samples, each in the order printed.

    Args:
        ntk: $\widehat H_{i_1i_2;\alpha_1\alpha_2}$.
        dntk: $\widehat{dH}_{i_0i_1i_2;\alpha_0\alpha_1\alpha_2}$.
        dd_first: $\widehat{dd_IH}_{i_0i_1i_2i_3;\alpha_0\alpha_1\alpha_2\alpha_3}$.
        dd_second: $\widehat{dd_{II}H}_{i_1i_2i_3i_4;\alpha_1\alpha_2\alpha_3\alpha_4}$.
    """

    ntk: Float[np.ndarray, "i j a b"]
    dntk: Float[np.ndarray, "i j k a b c"]
    dd_first: Float[np.ndarray, "i j k l a b c d"]
    dd_second: Float[np.ndarray, "i j k l a b c d"]


@checked
def layer_tensors(net: Plain, parameters: Parameters, x: Any) -> tuple[LayerTensors, ...]:
    r"""NTK, dNTK and both ddNTKs of every layer of one network, all neurons and samples.

    $$\widehat H^{(\ell+1)}_{i_1i_2}=\delta_{i_1i_2}\Big[\lambda_b+\frac{\lambda_W}{n_\ell}\sum_j
    \sigma_{j;1}\sigma_{j;2}\Big]+\sum_{j_1j_2}W_{i_1j_1}W_{i_2j_2}\sigma'_{j_1;1}\sigma'_{j_2;2}
    \widehat H^{(\ell)}_{j_1j_2},$$
    and the equations of the same kind for its differentials.

    Args:
        net: A small network: a tensor holds (neurons x samples)^4 numbers.
        parameters: As `init_weights` gives them.
        x: (samples, features).

    Returns:
        One record for each layer 1..L, float64; exact to rounding.

    Raises:
        ValueError: If the activation has a kink, a tensor would take more than 256 MiB, or inputs or
            parameters do not fit the network.

    Source: PDLT (8.12), (11.24), (∞.174), (∞.175), with the index patterns restored; steps of
        the output, the NTK and the dNTK follow from them by (∞.4), (∞.6), (∞.9).

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.nets import init_weights, layer_tensors
        >>> net = sw.MLP(2, 3, "tanh", input_dim=2, output_dim=1)
        >>> layer_tensors(net, init_weights(net), np.eye(2))[1].dntk.shape
        (1, 1, 1, 2, 2, 2)
    """
    check_has_slope(net.activation)
    check_smooth(net.activation)
    check_parameters(net, parameters)
    x = check_inputs(net, x)
    size = 8 * (max(net.widths[1:]) * len(x)) ** 4
    if size > LARGEST:
        raise ValueError(
            f"`net` is too large to keep all neurons: widths {net.widths[1:]} with {len(x)} samples "
            f"take {size / 2**30:.3g} GiB for one tensor. Use `empirical_dntk` and `empirical_ddntk`, "
            "which contract as they go."
        )
    layers: list[LayerTensors] = []
    slopes: tuple[Array, ...] = ()
    entering = x.T
    for i, (weight, bias) in enumerate(zip(parameters.weights, parameters.biases, strict=True)):
        w = np.asarray(weight, np.float64)
        own = net.lambda_W[i] / net.widths[i]
        shared = net.lambda_b[i] + own * (entering.T @ entering)
        ntk = _sum("ij,ab->ijab", np.eye(len(w)), shared)
        layers.append(_next(w, slopes, layers[-1], ntk, own) if layers else _first(ntk))
        z = w @ entering + np.asarray(bias, np.float64)[:, None]
        slopes = _slopes(z, traced(net.activation))
        entering = slopes[0]
    return tuple(layers)


def _slopes(z: Array, sigma: Any) -> tuple[Array, ...]:
    """The activation and its three derivatives, (neuron, sample) each."""
    with precision("float64"):
        return tuple(np.asarray(d) for d in derivatives(sigma, jnp.asarray(z), 3))


def _first(ntk: Array) -> LayerTensors:
    """PDLT (8.23), (11.26): the NTK is deterministic, and nothing bends."""
    n, _, samples, _ = ntk.shape
    return LayerTensors(ntk, *(np.zeros((n,) * k + (samples,) * k) for k in (3, 4, 4)))


def _next(
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
