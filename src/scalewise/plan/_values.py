"""What is known of an array in a forward pass: what it is a sum of, and the sizes that it follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Source(NamedTuple):
    """Origin of a part of an array.

    Args:
        kind: ``"weight"`` (what a tensor writes), ``"lookup"`` (rows of one), ``"again"`` (what it
            writes where it sums over another axis), ``"product"`` of two arrays summed
            over an axis, ``"pair"`` of two arrays entry by entry, ``"square"``, ``"gap"`` (what is positive of a
            difference of two arrays), ``"positive"``, or ``"other"``.
        name: The tensor's, if it is one.
        number: Tells sources without a name apart.
    """

    kind: str
    name: str = ""
    number: int = 0


@dataclass(frozen=True)
class Trail:
    """Relation of an array to a source: it is this number times a power of the source's size.

    Args:
        degree: The power; none at all after a norm.
        factor: The number.
    """

    degree: float = 1.0
    factor: float = 1.0

    def __mul__(self, other: Trail) -> Trail:
        return Trail(self.degree + other.degree, self.factor * other.factor)

    def __pow__(self, power: float) -> Trail:
        return Trail(self.degree * power, self.factor**power if self.factor else 1.0)


STILL = Trail(0.0)


@dataclass(frozen=True)
class Value:
    """An array of a forward pass, as far as it is known.

    Args:
        parts: What it is a sum of, and what each has been multiplied by.
        data: Whether it depends on the model's input, or on weights alone.
        made: Whether weights were multiplied with each other to make it: learnt queries, or a merged weight.
        trails: The products whose size it follows, until something tells large from small.
        apart: Where it is the difference of two arrays, the sizes of the axes that both of them have.
        unit: The size of what tensors of the model write here, where each was divided by its own norm.
    """

    parts: Mapping[Source, float] = field(default_factory=dict)
    data: bool = True
    made: bool = False
    trails: Mapping[Source, Trail] = field(default_factory=dict)
    apart: frozenset[int] = frozenset()
    unit: float = 1.0

    @property
    def size(self) -> float:
        """The size of its entries, if those of all its sources are of order one."""
        own = self.unit
        parts = (
            abs(f) * (own if s.name else 1.0) for s, f in self.parts.items() if s.kind != "product"
        )
        return max(parts, default=1.0)

    @property
    def reach(self) -> float:
        """The size of its entries with the numbers by which products were multiplied."""
        return max((abs(f) for f in self.parts.values()), default=1.0)

    @property
    def told(self) -> float:
        """The size of its entries once the tensors of the model stand for what multiplies them."""
        parts = (
            self.unit if s.name else abs(f) for s, f in self.parts.items() if s.kind != "product"
        )
        return max(parts, default=1.0)
