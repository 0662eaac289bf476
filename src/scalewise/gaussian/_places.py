"""Places of the labels of pairs: inputs row by column or in turn, at equal positions or at each with each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from scalewise._readable import readable


class KnownSide(NamedTuple):
    """Places where a label meets itself in a tile, and which label it is."""

    at: tuple[np.ndarray, ...]
    labels: Int[np.ndarray, "..."]


@readable
class Other(NamedTuple):
    """Second labels that are not those of the first: of another field.

    Args:
        positions: How many positions an input has along each axis there; all are crossed.
        first: Which of the labels, of both fields one after the other, are those of the first.
        second: Which are those of the second.
    """

    positions: tuple[int, ...]
    first: slice
    second: slice


@dataclass(frozen=True)
@readable
class Places:
    """The labels of a tile of pairs. A label is an input, or an input at a position of one or more axes.

    The axes of a tile are the first inputs and the second ones, or both in turn; then the positions of the first
    labels, and for each axis that is crossed those of the second ones.

    Args:
        rows: Which inputs are the first of a pair: a slice, or places where they go in turn.
        columns: Which are the second, likewise.
        positions: How many positions an input has along each axis.
        crossed: For each axis whether positions are paired each with each, and not each with itself.
        shifts: For each axis that is not crossed by how much the second position is further on than the first,
            the other end following the last; nowhere if empty.
        other: The field of the second labels, if it is another one.
    """

    rows: slice | Int[np.ndarray, " pair"]
    columns: slice | Int[np.ndarray, " pair"]
    positions: tuple[int, ...] = ()
    crossed: tuple[bool, ...] = ()
    shifts: tuple[int, ...] = ()
    other: Other | None = None

    @property
    def beyond(self) -> tuple[int, ...]:
        """Number of positions of a second input along each axis."""
        return self.other.positions if self.other else self.positions

    @property
    def by_rows(self) -> bool:
        """True if inputs are paired row by column."""
        return isinstance(self.rows, slice)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of a tile."""
        pairs = zip(self.beyond, self.crossed, strict=True)
        sites = (*self.positions, *(size for size, each in pairs if each))
        if isinstance(self.rows, slice) and isinstance(self.columns, slice):
            return (*(s.stop - s.start for s in (self.rows, self.columns)), *sites)
        return (len(self.rows), *sites)  # pyright: ignore[reportArgumentType]

    @property
    def matrix(self) -> tuple[int, int] | None:
        """The shape of a tile as a matrix of first and second labels, if it is one."""
        if not self.positions:
            return (self.shape[0], self.shape[1]) if self.by_rows else None
        if not all(self.crossed) or math.prod(self.shape[: 1 + self.by_rows]) > 1:
            return None
        return math.prod(self.positions), math.prod(self.beyond)

    def left(self, values: np.ndarray) -> np.ndarray:
        """Values of the first labels of a tile, as they meet the second ones.

        Args:
            values: Of all labels, on the last axis.
        """
        values = values[..., self.other.first] if self.other else values
        if not self.positions:
            own = values[..., self.rows]
            return own[..., None] if self.by_rows else own
        own = _of(values, self.rows, self.positions)
        if self.by_rows:
            own = own.reshape(*own.shape[: values.ndim], 1, *own.shape[values.ndim :])
        return own.reshape(*own.shape, *(1,) * sum(self.crossed))

    def right(self, values: np.ndarray) -> np.ndarray:
        """Values of the second labels, likewise.

        Args:
            values: Of all labels, on the last axis.
        """
        values = values[..., self.other.second] if self.other else values
        if not self.positions:
            return values[..., self.columns]
        lead = values.ndim
        if all(self.crossed):
            own = _of(values, self.columns, self.beyond)
            inputs = (1,) * self.by_rows + (own.shape[lead - 1],)
            shape = *own.shape[: lead - 1], *inputs, *(1,) * len(self.positions), *self.beyond
            return own.reshape(shape)
        own = self.shifted(_of(values, self.columns, self.beyond), lead)
        if not any(self.crossed):
            shape = (*own.shape[: lead - 1], 1, *own.shape[lead - 1 :])
            return own.reshape(shape) if self.by_rows else own
        each = [lead + k for k, crossed in enumerate(self.crossed) if crossed]
        own = np.moveaxis(own, each, range(own.ndim - len(each), own.ndim))
        own = np.expand_dims(own, each)
        return np.expand_dims(own, lead - 1) if self.by_rows else own

    def shifted(self, values: np.ndarray, first: int) -> np.ndarray:
        """Values of second positions, as they meet the first.

        Args:
            values: By position.
            first: Their first axis of positions.
        """
        by = {
            first + axis: -shift
            for axis, (shift, size) in enumerate(zip(self.shifts, self.positions, strict=False))
            if shift % size
        }
        return np.roll(values, tuple(by.values()), tuple(by)) if by else values

    @cached_property
    def known(self) -> KnownSide | None:
        """Places where labels meet themselves; ``None`` if nowhere."""
        if self.other or any(s % n for s, n in zip(self.shifts, self.positions, strict=False)):
            return None
        if isinstance(self.rows, slice) and isinstance(self.columns, slice):
            a, b = self.rows, self.columns
            same = np.arange(max(a.start, b.start), min(a.stop, b.stop))
            first, second = same - a.start, (same - b.start,)
        else:
            rows = np.asarray(self.rows)
            first, second = np.flatnonzero(rows == self.columns), ()
            same = rows[first]
        if not same.size:
            return None
        if not self.positions:
            return KnownSide((first, *second), same)
        if not any(self.crossed):
            sites = math.prod(self.positions)
            labels = same[:, None] * sites + np.arange(sites)
            return KnownSide((first, *second), labels.reshape(-1, *self.positions))
        grids = np.ix_(first, *map(np.arange, self.positions))
        inputs = same.reshape(grids[0].shape)
        other = tuple(places.reshape(grids[0].shape) for places in second)
        beyond = (grid for grid, each in zip(grids[1:], self.crossed, strict=True) if each)
        count = int(same.max()) + 1
        labels = np.ravel_multi_index(
            np.broadcast_arrays(inputs, *grids[1:]), (count, *self.positions)
        )
        return KnownSide((grids[0], *other, *grids[1:], *beyond), labels)


def _of(values: np.ndarray, inputs: slice | np.ndarray, positions: tuple[int, ...]) -> np.ndarray:
    """(..., input, *positions), of some inputs."""
    apart = values.reshape(*values.shape[:-1], -1, *positions)
    return apart[(..., inputs, *(slice(None),) * len(positions))]
