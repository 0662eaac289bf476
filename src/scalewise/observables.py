"""The table of observables: what `predict` and `measure` both return, and under which name.

Theory and ensembles never import each other; this table is what they share. Every variable of a
result carries the attributes written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

__all__ = ["OBSERVABLES", "Observable", "as_variable", "select"]

SAMPLE_DIMS = ("sample", "sample_1", "sample_2", "sample_3")


@dataclass(frozen=True)
class Observable:
    """One row of the table.

    Args:
        name: The variable's name in a Dataset.
        symbol: As in the source.
        equation: Where it is defined or computed.
        order: Power of 1/n of the term: 0 leading, 1 for a coefficient of 1/n.
        legs: How many sample indices it has.
        units: In powers of the preactivation.
        meaning: One sentence.
    """

    name: str
    symbol: str
    equation: str
    order: int
    legs: int
    units: str
    meaning: str

    @property
    def dims(self) -> tuple[str, ...]:
        """Named dimensions of the variable."""
        return ("layer", *SAMPLE_DIMS[: self.legs])


OBSERVABLES: dict[str, Observable] = {
    row.name: row
    for row in (
        Observable(
            "kernel",
            "K",
            "PDLT (4.118)",
            0,
            2,
            "preactivation²",
            "Covariance of the preactivations of one neuron over two samples.",
        ),
        Observable(
            "metric_nlo",
            "G^{1}",
            "PDLT (4.115)",
            1,
            2,
            "preactivation²",
            "The 1/n correction of that covariance, times the width of the layer below.",
        ),
        Observable(
            "four_point_vertex",
            "V",
            "PDLT (4.119)",
            1,
            4,
            "preactivation⁴",
            "Covariance of the metric's fluctuations, times the width of the layer below.",
        ),
        Observable(
            "ntk",
            "Theta",
            "PDLT (8.63)",
            0,
            2,
            "preactivation² / learning rate",
            "Mean neural tangent kernel of one output.",
        ),
    )
}


def select(names: Sequence[str] | str | None) -> tuple[str, ...]:
    """The observables asked for, in the order of the table; all of them for ``None``.

    Raises:
        ValueError: If a name is not in the table; the message lists the known ones.
    """
    if names is None:
        return tuple(OBSERVABLES)
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in OBSERVABLES:
            raise ValueError(
                f"`observables` does not know {name!r}; the known ones are "
                f"{', '.join(OBSERVABLES)}."
            )
    if not wanted:
        raise ValueError(f"`observables` is empty; choose from {', '.join(OBSERVABLES)}.")
    return tuple(name for name in OBSERVABLES if name in wanted)


def as_variable(name: str, values: np.ndarray, **attrs: object) -> xr.Variable:
    """An array as the labelled variable of an observable, with the attributes of its row."""
    row = OBSERVABLES[name]
    return xr.Variable(
        row.dims,
        values,
        {
            "symbol": row.symbol,
            "equation": row.equation,
            "order": row.order,
            "units": row.units,
            "long_name": row.meaning,
            **attrs,
        },
    )
