"""What a user gives in place of a module that is not understood: layers of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scalewise.networks.spi import Builder, Hyperparameters, Layer, layer_of
from scalewise.reading._fields import Entries, Made
from scalewise.reading._reader import ModelReader


@dataclass(frozen=True)
class GivenLayers:
    """Layers in place of modules, by name, and the width of the model."""

    layers: Mapping[str, tuple[Layer, ...]] = field(default_factory=dict)
    width: int = 1


def layers_of(given: Mapping[str, Any] | None) -> dict[str, tuple[Layer, ...]]:
    """By name of a module one layer or several, or activations."""
    found = {}
    for name, own in (given or {}).items():
        several = own if isinstance(own, Sequence) and not isinstance(own, str) else (own,)
        found[name] = tuple(layer_of(layer) for layer in several)
    return found


def replaced(
    read: ModelReader,
    name: str,
    layers: tuple[Layer, ...],
    x: Entries,
    shape: tuple[int, ...],
    width: int,
) -> Entries:
    """The entries of what a module returns, as layers make it.

    Args:
        read: What has been read.
        name: The module's.
        layers: In its place.
        x: Entries of what it is called with.
        shape: Of what it returns.
        width: Of the model.

    Raises:
        UnreadError: If the layers give something of another shape.
    """
    known, x = read.settled(x)
    d = read.fields.decoded(x)
    build = Builder(width, Hyperparameters(0.0, 1.0, 1.0, 1.0), name=f"What is given for `{name}`")
    # A random layer comes first, so that what enters is a field as inside a network.
    entering = build.draw(build.source((*known.positions, 1)), known.channels)
    leaving = build.run(layers, entering)
    made = read.fields.new(
        known.samples, leaving.positions, leaving.channels, Made("run", (known.number,), layers)
    )
    axes = {
        kind: [a for a in range(x.ndim) if np.any(own != own.take([0], axis=a))]
        for kind, own in (("sample", d.sample), ("position", d.position), ("channel", d.channel))
    }
    order = axes["sample"] + axes["position"] + axes["channel"]
    sizes = [made.samples] * len(axes["sample"]) + list(made.positions) + [made.channels]
    fits = len(set(order)) == len(order) and len(order) == len(sizes)
    full = [1] * x.ndim
    for a, n in zip(order, sizes, strict=False):
        full[a] = n
    if not fits or tuple(full) != shape:
        raise read.refuse(
            f"returns an array of shape {shape}, and what is given for `{name}` makes {leaving.channels} channels "
            f"at positions {leaving.positions} of {made.samples} samples. Give layers that make the same."
        )
    # The axes of the field, sample, positions and channels, go where they lie in the array.
    return np.moveaxis(made.entries.reshape(sizes), range(len(order)), _ranks(order)).reshape(shape)


def _ranks(values: list[int]) -> list[int]:
    """Numbers of smaller ones, for each of some numbers."""
    return [sum(other < v for other in values) for v in values]
