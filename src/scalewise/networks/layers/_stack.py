"""Fully connected layers, one on another, from their numbers."""

from __future__ import annotations

from scalewise.networks._builder import Layer
from scalewise.networks._layers import ByLayer
from scalewise.networks._nodes import HYPERPARAMETERS, Hyperparameters
from scalewise.networks.layers._dense import Dense
from scalewise.networks.layers._entrywise import Activate
from scalewise.networks.layers._skip import Skip


def stacked(known: ByLayer) -> tuple[tuple[Layer, ...], int, Hyperparameters]:
    """Layers that say only what differs from the first; equal ones are the same object.

    Args:
        known: The numbers, with `skips`.

    Returns:
        The layers; the channels of those that do not say how many, the first's, for all say it if hidden ones
        differ; and the hyperparameters of those that do not say theirs, again the first's.
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
        differing = (None if a == b else a for a, b in zip(own, alike, strict=True))
        numbers = dict(zip(HYPERPARAMETERS, differing, strict=True))
        key = (skip, said, *numbers.values())
        if key not in made:
            dense = Dense(said, **numbers)
            made[key] = Skip(sigma, dense, factor=skip) if skip else dense
        if not skip and layers and sigma is not None:
            layers.append(sigma)
        layers.append(made[key])
    return tuple(layers), width, usual
