"""Networks of which one hidden layer is so wide that it does not count."""

from __future__ import annotations

from dataclasses import replace

from scalewise.networks import Network
from scalewise.networks.spi import Random

_INFINITE = 2**30  # times as wide


def shared_channels(net: Network) -> str:
    """Why hidden layers of a network have no widths of their own, a clause; empty if they do."""
    if net.is_plain or len(_places(net)) == net.depth:
        return ""
    return "layers in branches, or of shared weights, have their channels in common with others"


def without(net: Network, layer: int) -> Network:
    """The network with a hidden layer so wide that it does not count.

    Args:
        net: The network, whose `shared_channels` say nothing.
        layer: Which, counted from 1.
    """
    wide = net.widths[layer] * _INFINITE
    if net.is_plain:
        width = list(net.hidden_widths)
        width[layer - 1] = wide
        return net.at_width(width)
    layers = list(net.layers)
    place = _places(net)[layer - 1]
    layers[place] = replace(layers[place], channels=wide)  # pyright: ignore[reportArgumentType]
    return net.replace(layers=layers)


def _places(net: Network) -> list[int]:
    """Where random layers stand among the layers, those in others left out."""
    return [place for place, layer in enumerate(net.layers) if isinstance(layer, Random)]
