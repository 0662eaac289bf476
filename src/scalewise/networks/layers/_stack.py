"""Fully connected layers, one on another, from their numbers."""

from __future__ import annotations

from typing import NamedTuple

from scalewise.networks._builder import Layer
from scalewise.networks._layers import ByLayer
from scalewise.networks._nodes import HYPERPARAMETERS, Hyperparameters
from scalewise.networks.layers._activate import Activate
from scalewise.networks.layers._dense import Dense
from scalewise.networks.layers._skip import Skip


class Stacked(NamedTuple):
    """Layers of a network, and what they do not say themselves.

    Args:
        layers: Which.
        width: Channels of layers that do not say how many, those of the first; if hidden ones differ, all say it.
        usual: Hyperparameters of layers that do not say theirs: those of the first.
    """

    layers: tuple[Layer, ...]
    width: int
    usual: Hyperparameters

    @staticmethod
    def of(known: ByLayer) -> Stacked:
        """Layers that say only what differs from the first; equal ones are the same object.

        Args:
            known: The numbers, with `skips`.
        """
        depth, usual = len(known.skips), known.own(1)
        width = known.widths[1] if depth > 1 else 1
        alike_wide = len(set(known.widths[1:-1])) < 2
        alike = [getattr(usual, name) for name in HYPERPARAMETERS]
        made: dict[tuple[object, ...], Layer] = {}
        sigma = Activate(known.activations[0]) if known.activations else None
        layers = list[Layer]()
        columns = zip(*(getattr(known, name) for name in HYPERPARAMETERS), strict=True)
        rows = zip(known.widths[1:], known.skips, columns, strict=True)
        for layer, (channels, skip, own) in enumerate(rows, 1):
            said = None if alike_wide and layer < depth else channels
            numbers = dict(zip(HYPERPARAMETERS, map(_if_other, own, alike), strict=True))
            key = (skip, said, *numbers.values())
            if key not in made:
                dense = Dense(said, **numbers)
                made[key] = Skip(sigma, dense, factor=skip) if skip else dense
            if not skip and layers and sigma is not None:
                layers.append(sigma)
            layers.append(made[key])
        return Stacked(tuple(layers), width, usual)


def _if_other(own: float, usual: float) -> float | None:
    return None if own == usual else own
