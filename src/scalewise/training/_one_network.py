"""One network of any layers with given weights, by NumPy alone: outputs, NTK, and what enters its last layer."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import Must
from scalewise.networks import Network
from scalewise.networks.spi import (
    Draw,
    Parameters,
    back,
    by_all_weights,
    by_node,
    check_shapes,
    fields,
    last_entering,
    rates_of,
    refuse_masks,
)
from scalewise.training._series import derivative

Ntk = Float[np.ndarray, "sample sample_1 output output_1"]
GivenWeights = Annotated[
    Any,
    Must(
        "what `nets.init_weights` gives: `weights` and `biases` of every random layer",
        lambda v: hasattr(v, "weights") and hasattr(v, "biases"),
    ),
]


def parameters_of(net: Network, given: Any) -> Parameters:
    """Weights and biases as float64 arrays.

    Raises:
        ValueError: If they have other shapes than the network's, or it has Dropout.
    """
    refuse_masks(net.program)
    weights, biases = (
        tuple(float_array("`weights`", a) for a in part) for part in (given.weights, given.biases)
    )
    found = Parameters(weights, biases)
    check_shapes(net.program, found, "`weights`")
    return found


def outputs_of(
    net: Network, given: Any, x: Float[np.ndarray, "sample *positions input"]
) -> Float[np.ndarray, "sample output"]:
    """Outputs of one network."""
    _check_fit(net, x)
    found, _ = fields(net.program, by_node(net.program, parameters_of(net, given)), x)
    return found[-1].reshape(len(x), -1)


def tangents_of(
    net: Network, given: Any, x: Float[np.ndarray, "sample *positions input"]
) -> tuple[Float[np.ndarray, "sample output"], Ntk]:
    """Outputs and NTK of one network, with learning rates; one pass back for each output.

    Args:
        net: Its layers and rates.
        given: Weights and biases.
        x: Inputs.

    Raises:
        ValueError: As `parameters_of`.

    Source: PDLT (8.7), (8.12), (8.16)-(8.18); with site matrices derived.
    """
    program = net.program
    weights = by_node(program, parameters_of(net, given))
    found, seen = fields(program, weights, x)
    z = found[-1].reshape(len(x), -1)
    rows = [
        back(
            program,
            weights,
            found,
            np.broadcast_to(e, z.shape).reshape(found[-1].shape),
            derivative,
        )
        for e in np.eye(z.shape[1])
    ]
    sides = {k: (seen[k], np.stack([row[k] for row in rows])) for k in rows[0]}
    H = by_all_weights(program, rates_of(program), sides, sides, np)
    return z, H.transpose(1, 3, 0, 2)


def features_of(
    net: Network, given: Any, x: Float[np.ndarray, "sample *positions input"]
) -> Float[np.ndarray, "sample feature"]:
    """Features that enter the last weights of one network."""
    _check_fit(net, x)
    program, last = net.program, len(net.program.nodes) - 1
    if not isinstance(program.nodes[last], Draw):
        raise ValueError(
            "`net` has a skip connection around its last layer, which adds to the outputs what is no weight of "
            "theirs. Leave that one out."
        )
    found, _ = fields(program, by_node(program, parameters_of(net, given)), x, last=last - 1)
    return last_entering(program, found, last)


def _check_fit(net: Network, x: np.ndarray) -> None:
    if x.shape[1:] != net.input_shape:
        raise ValueError(
            f"`x` has inputs of shape {x.shape[1:]}, but the network takes {net.input_shape}. Change one of them."
        )
