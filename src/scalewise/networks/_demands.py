"""What a network must be to be built, changed or brought to criticality, and sentences where it is not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from scalewise.activations import Activation
from scalewise.critical import Criticality, criticality
from scalewise.networks._builder import Layer
from scalewise.networks._nodes import Draw
from scalewise.networks._program import Program
from scalewise.networks._written import shaped
from scalewise.networks.layers._skip import Skip


def need_readout(layers: Sequence[Layer], program: Program) -> None:
    """Refuse a network that does not end with outputs at one site."""
    last = layers[-1]
    if program.modules:  # a model that was read returns what it returns
        return
    while isinstance(last, Skip):
        last = last.branch[-1]
    if not isinstance(program.nodes[program.draws[-1]], Draw) or not getattr(
        last, "channels", None
    ):
        raise ValueError(
            f"The last layer of a network is its read-out, Dense with its number of outputs; got {last!r}. End "
            "with Dense(1), for instance."
        )
    if math.prod(program.positions[-1]) != 1:
        raise ValueError(
            f"The outputs of a network stand at one site, and here there are {shaped(program.positions[-1])}. Put "
            "GlobalAvgPool() or Flatten() before the last layer."
        )


def need_heard(name: str, usual: float, own: Sequence[float]) -> None:
    """Refuse a new value of a hyperparameter that every layer overrules with its own."""
    if all(one != usual for one in own):
        raise ValueError(
            f"Every random layer of this network says its own {name}, so another one of the network changes "
            "nothing. Give it in `layers`."
        )


def critical_point(activations: Sequence[Activation]) -> tuple[float, float]:
    """Critical $C_b$ and $C_W$ of a network of these activations, of which there must be one."""
    if len(activations) != 1:
        names = ", ".join(repr(sigma.name) for sigma in activations) or "none"
        raise ValueError(
            f"Criticality is that of one activation, and this network has {names}. Choose C_b and C_W yourself."
        )
    record = criticality(activations[0])
    if record.C_b is None or record.C_W is None:
        raise ValueError(
            f"{activations[0].name!r} has no critical initialisation: {record.reason} "
            "Set C_b and C_W yourself, or choose another activation."
        )
    return record.C_b, record.C_W


def need_activations_between(program: Program) -> None:
    """Refuse a random layer that reads another one, to which no criticality applies."""
    for place, node in enumerate(program.nodes):
        if isinstance(node, Draw) and not program.follows_an_activation(node.of[0]):
            raise ValueError(
                f"Node [{place}] of this network is a random layer that follows another one or a sum without "
                "an activation in between, and criticality is that of an activation. Put one there, or choose "
                "C_b and C_W yourself."
            )


def need_criticality(record: Criticality, behind: Iterable[tuple[float, float]]) -> None:
    """Refuse $(C_b, C_W)$ of layers behind the first that are not those of the record."""
    C_b, C_W = record.C_b, record.C_W
    for layer, here in enumerate(behind, 2):
        if C_b is None or C_W is None or not np.allclose(here, (C_b, C_W), rtol=1e-9, atol=0):
            raise ValueError(
                f"The learning rates of the class {record.universality!r} are those at criticality, "
                f"C_b = {C_b} and C_W = {C_W}, but layer {layer} has {here}. Call "
                "at_criticality() first, or give `kernel`, the kernel of a typical input in the "
                "first layer."
            )
