"""Factors of the forward pass that a plan cannot put into initialisations and learning rates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from scalewise._readable import readable


class Place(StrEnum):
    """Place of a multiplier. Except at a readout, where the module gives its name, this is its name too."""

    READOUT = "readout"  # a module that reads out with a tensor that is drawn for another place
    BRANCH = "residual"  # what residual branches return
    ATTENTION = "attention"  # products of queries and keys before a softmax
    PRODUCT = "product"  # other products of two activations
    DISTANCE = "distance"  # sums over the difference of two activations, entry by entry

    @property
    def between_activations(self) -> bool:
        """True for a place at what two activations make together, which no module and no tensor shows."""
        return self in (Place.ATTENTION, Place.PRODUCT, Place.DISTANCE)

    @property
    def may_read_out(self) -> bool:
        """True for a place that may stand at the output instead of a readout; attention is inside a network."""
        return self in (Place.PRODUCT, Place.DISTANCE)


@dataclass(frozen=True)
@readable
class Multiplier:
    """A factor that no initialisation and no learning rate can stand for.

    Args:
        name: ``"attention"``, ``"product"``, ``"distance"``, ``"residual"``, or the name of the module whose input
            it multiplies.
        factor: Its value at the target; 1 at the base, and where the model's own code applies it.
        where: What to multiply, as a sentence.
        place: What it stands at.
        left: Where it is left as it is, as asked, the power of the width (of a head that grows) by which what it
            multiplies may then grow; else ``None``.
    """

    name: str
    factor: float
    where: str
    place: Place
    left: Fraction | None = None
