"""Inputs and kernels that a network can take; the others are refused before anything is computed."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array, not_finite
from scalewise.networks._forward import fixed_fields
from scalewise.networks._network import Network
from scalewise.networks._nodes import Draw, Normalise, Read
from scalewise.networks._program import Program

_DECADES = 280  # of float64 on either side of 1, with some to spare for factors


def check_inputs(net: Network, x: Any) -> Float[np.ndarray, "sample *positions feature"]:
    """Inputs as a float64 array that `net` can take; refused if a result would not be a number.

    A first-layer kernel may be 0 (a zero input vector with C_b = 0) where the next one is not and sigma is smooth
    at 0; at some positions of an input it may always be.
    """
    if not isinstance(net, Network):
        raise TypeError(f"`net` must be a network such as scalewise.MLP; got {type(net).__name__}.")
    array, shape = float_array("`x`", x), net.input_shape
    axes = ("samples", *("positions",) * (len(shape) - 1), "features")
    if array.ndim != len(axes) or 0 in array.shape:
        raise ValueError(
            f"`x` must have shape ({', '.join(axes)}) with at least one of each; "
            f"got shape {array.shape}. For a single input write x[None, :]."
        )
    if array.shape[1:] != shape:
        ours = f"input_dim={shape[0]}" if len(shape) == 1 else f"input_shape={shape}"
        what = f"{array.shape[1]} features" if len(shape) == 1 else f"inputs of {array.shape[1:]}"
        raise ValueError(f"`x` has {what}, but the network takes {ours}. Change one of the two.")
    if not np.all(np.isfinite(array)):
        raise ValueError(not_finite("`x`", array))
    read = {0: array}
    for here, node in enumerate(net.program.nodes):
        if isinstance(node, Read) and node.of[0] in read:
            read[here] = node(read[node.of[0]], np)  # which refuses what it cannot read
    first = net.own(1)
    with np.errstate(over="ignore", under="ignore"):
        square = np.mean(array * array, axis=-1)
        variance = first.C_b + first.C_W * square.reshape(len(array), -1).max(axis=1)
    if np.any(variance == 0):
        zero = int(np.argmin(variance))
        if np.any(array[zero]):
            raise ValueError(
                f"`x` is too small: |x|²/n_0 underflows in sample {zero}. Rescale it, or set it to 0."
            )
        _refuse_lost_signal(net, zero)
    if not np.all(np.isfinite(variance)):
        raise ValueError(
            f"`x` is too large: |x|²/n_0 overflows in sample {int(np.argmax(variance))}. Rescale it."
        )
    check_kernels(net, 1, variance[variance > 0])
    if any(isinstance(net.program.nodes[k], Normalise) for k in net.program.fixed):
        fixed_fields(net.program, array)  # which refuses what leaves nothing to divide by
    return array


def refuse_laws_at_inputs(program: Program) -> None:
    """Refuse what has no Gaussian limit: a sum over the features of an input of weights that are not normal.

    Such a sum stays as far from normal as it is, of relative order 1/n_0, however wide the network becomes.
    """
    for here, node in enumerate(program.nodes):
        if isinstance(node, Draw) and node.of[0] in program.fixed and not node.own.law.is_normal:
            raise ValueError(
                f"Node [{here}] of this network reads the inputs with weights that are {node.own.law.name}, and "
                f"its {program.fan_in(here)} numbers do not grow with the width: what they add up to is not "
                "Gaussian in any limit. Give that layer law='normal', as in Dense(law='normal'), or let `measure` "
                "draw the network as it is."
            )


def _refuse_lost_signal(net: Network, sample: int) -> None:
    """Refuse an input without a first-layer kernel where the layers above cannot do with that."""
    refused = f"`x` holds a zero input vector (sample {sample}) and C_b = 0, "
    remedy = "Drop that sample or set C_b > 0 in the first layer."
    if net.depth == 1 or not net.activations:
        return
    sigma, second = net.activations[0], net.own(2)
    if second.C_b + second.C_W * float(sigma(np.zeros(1))[0]) ** 2 == 0:
        raise ValueError(
            refused
            + "so its preactivations are all 0 and have no correlation with anything. "
            + remedy
        )
    if 0.0 in sigma.split_points:
        raise ValueError(
            refused
            + f"so its preactivations are exactly 0, where {sigma.name!r} or a derivative of it "
            "jumps and has no value. " + remedy
        )


def refuse_zero_inputs(net: Network, x: Float[np.ndarray, "sample feature"], what: str) -> None:
    """Refuse inputs whose preactivations in the first layer are all 0, which do not have `what`: "an angle"."""
    zero = ~np.any(x, axis=1)
    if net.C_b[0] == 0 and zero.any():
        raise ValueError(
            f"`x` holds a zero input vector (sample {int(np.argmax(zero))}) and C_b = 0, so it does not "
            f"have {what}. Drop that sample or set C_b > 0 in the first layer."
        )


def check_kernels(
    net: Network, layer: int, K: Float[np.ndarray, "*_layer sample"], *, power: int = 2
) -> None:
    """Refuse kernels that explode or vanish, or of which what is computed from them would.

    They are of this layer or, with an axis of layers in front, of those from it on. `power` is the highest of
    them that occurs: 1 of kernel and NTK alone, 2 in their relative variance, 4 in the squares by which
    expectations of four factors are judged.
    """
    largest = 10.0 ** (_DECADES / power)
    needs = "" if power == 1 else f", and what is asked for needs K^{power}"
    good = (K > 1 / largest) & (K < largest)
    if not np.all(good):
        place = tuple(np.argwhere(~good)[0])
        layer += int(place[0]) if K.ndim > 1 else 0
        own, names = net.own(layer), " and ".join(repr(sigma.name) for sigma in net.activations)
        raise ValueError(
            f"The kernel of {names} leaves the range of float64 at layer {layer} "
            f"(K = {K[place]:.3g}{needs}): with "
            f"C_b = {own.C_b:g}, C_W = {own.C_W:g} signals explode or vanish. Use "
            "fewer layers, other scales of the inputs, or critical hyperparameters: net.at_criticality()."
        )


def digest_of(x: Float[np.ndarray, "sample *features"]) -> str:
    """A short fingerprint of the inputs, so that two results can tell whether theirs are the same."""
    return hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:16]
