"""The grid of a sweep: names, the values each takes, and their labels in the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any

import numpy as np

from scalewise._words import listed, shown
from scalewise.sweeps._fingerprint import fingerprint


@dataclass(frozen=True)
class Grid:
    """Every combination of some values, the last name running fastest.

    Args:
        labels: By name, what stands in the coordinates of the result.
        values: By name, what the cell is given.
    """

    labels: dict[str, list[Any]]
    values: dict[str, list[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each name."""
        return tuple(map(len, self.labels.values()))

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def place(self, cell: int) -> tuple[int, ...]:
        """Place of a cell along each name."""
        return tuple(map(int, np.unravel_index(cell, self.shape)))

    def arguments(self, cell: int) -> dict[str, Any]:
        """Arguments of a cell."""
        return {n: v[i] for (n, v), i in zip(self.values.items(), self.place(cell), strict=True)}

    def at(self, cell: int) -> dict[str, Any]:
        """The labels of a cell."""
        return {n: of[i] for (n, of), i in zip(self.labels.items(), self.place(cell), strict=True)}

    def words(self, cell: int) -> str:
        """A cell as messages name it."""
        return ", ".join(f"{name}={label!r}" for name, label in self.at(cell).items())

    def describe(self) -> dict[str, Any]:
        """The grid as a store keeps it."""
        objects = {n: fingerprint(v) for n, v in self.values.items() if v is not self.labels[n]}
        return {"grid": self.labels, **({"values": objects} if objects else {})}

    @classmethod
    def of(cls, grid: Any) -> Grid:
        """A grid as people write it.

        Raises:
            ValueError: If it is not one.
        """
        if not isinstance(grid, Mapping) or not grid:
            raise ValueError(
                "`grid` must be a dictionary from names to the values they take, such as "
                f"dict(width=[64, 128], seed=range(4)); got {shown(grid)}."
            )
        labels, values = {}, {}
        for name, given in grid.items():
            if not isinstance(name, str) or not name.isidentifier():
                raise ValueError(f"Names in `grid` must be names of arguments; got {name!r}.")
            labels[name], values[name] = _axis(name, given)
        return cls(labels, values)


def _axis(name: str, given: Any) -> tuple[list[Any], list[Any]]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ValueError(
            f"`grid[{name!r}]` must be a list of values, also of a single one: [{shown(given)}]."
        )
    if isinstance(given, Mapping):
        labels, values = [*given], [*given.values()]
    else:
        if getattr(given, "ndim", 1) > 1:
            raise ValueError(
                f"`grid[{name!r}]` must have one axis; got {shown(given)}. Give one name to each axis, or a "
                "dictionary from labels to values."
            )
        values = labels = [v.item() if isinstance(v, np.generic) else v for v in given]
    if not labels:
        raise ValueError(f"`grid[{name!r}]` must have at least one value; got none.")
    labels_of_kinds = {_kind(label) for label in labels}
    if None in labels_of_kinds or len(labels_of_kinds) > 1:
        odd = next((label for label in labels if _kind(label) is None), labels[-1])
        raise ValueError(
            f"`grid[{name!r}]` must be numbers, or texts, or a dictionary from such labels to what the cell "
            f"is given, such as {{'mine': value}}; got {shown(odd)}."
        )
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"`grid[{name!r}]` has the value {twice!r} more than once.")
    return labels, values


def _kind(label: Any) -> str | None:
    if isinstance(label, str):
        return "text"
    if isinstance(label, bool):
        return "truth"
    if isinstance(label, Integral | Real):
        return "number" if math.isfinite(label) else None
    return None


def check_cell(cell: Any, grid: Grid, given: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Compare the arguments that a cell takes with the names of the grid.

    Args:
        cell: The function.
        grid: The grid.
        given: Names that `sweep` can give besides, to a cell that asks for them.

    Returns:
        Those of `given` that the cell asks for.

    Raises:
        ValueError: If it is not a function, does not take a name, or needs one that the grid does not have.
    """
    if not isinstance(cell, Callable):
        raise ValueError(f"`cell` must be a function; got {shown(cell)}.")
    try:
        parameters = signature(cell).parameters
    except (TypeError, ValueError):  # a function of C code
        return ()
    named = {n for n, p in parameters.items() if p.kind not in _WITHOUT_NAME}
    if not any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values()):
        strange = [name for name in grid.labels if name not in named]
        if strange:
            takes = f"takes {listed(sorted(named))}" if named else "takes no argument by name"
            raise ValueError(f"`cell` does not take {listed(strange)} of `grid`; it {takes}.")
    offered = tuple(name for name in given if name in named and name not in grid.labels)
    missing = [
        name
        for name, p in parameters.items()
        if p.default is Parameter.empty
        and p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        and name not in (*grid.labels, *offered)
    ]
    if missing:
        raise ValueError(
            f"`cell` needs {listed(missing)}, which `grid` does not have. Add it, or give it a default."
        )
    return offered


_WITHOUT_NAME = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
