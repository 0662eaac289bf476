"""The table of observables: what `predict` and `measure` both return, and under which name.

Theory and ensembles never import each other; this table is what they share. Every variable of a
result carries the attributes written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from scalewise.activations import Activation

__all__ = ["OBSERVABLES", "Observable", "as_variable", "exists", "select"]

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
        default: Whether it is computed when nothing is named.
        needs: What the activation must be: ``"continuous"``, ``"smooth"`` or ``""``.
        dimension: Powers of kernel and NTK that it scales with, for coefficients whose own entries do
            not say how large they could be; ``None`` for positive semidefinite matrices over the
            halves of their sample indices, whose diagonals do.
        corrects: The observable whose 1/n correction this is; empty for the others.
    """

    name: str
    symbol: str
    equation: str
    order: int
    legs: int
    units: str
    meaning: str
    default: bool = True
    needs: str = ""
    dimension: tuple[int, int] | None = None
    corrects: str = ""

    @property
    def dims(self) -> tuple[str, ...]:
        """Named dimensions of the variable."""
        return ("layer", *SAMPLE_DIMS[: self.legs])


_NTK = "preactivation² / learning rate"


def _statistic(
    name: str,
    symbol: str,
    equation: str,
    legs: int,
    units: str,
    meaning: str,
    needs: str = "continuous",
    *,
    dimension: tuple[int, int],
    corrects: str = "",
) -> Observable:
    """A row for a coefficient of 1/n that is computed only when it is named."""
    return Observable(
        name, symbol, equation, 1, legs, units, meaning, False, needs, dimension, corrects
    )


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
            corrects="kernel",
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
            needs="continuous",
        ),
        _statistic(
            "ntk_nlo",
            "H^{1}",
            "PDLT (8.59), (9.3)",
            2,
            _NTK,
            "The 1/n correction of the mean NTK, times the width of the layer below.",
            dimension=(0, 1),
            corrects="ntk",
        ),
        _statistic(
            "ntk_A",
            "A_(12)(34)",
            "PDLT (8.97)",
            4,
            f"({_NTK})²",
            "Covariance of the NTKs (12) and (34) of two different outputs, times the width below.",
            dimension=(0, 2),
        ),
        _statistic(
            "ntk_B",
            "B_1324",
            "PDLT (8.89)",
            4,
            f"({_NTK})²",
            "Covariance of the off-diagonal NTKs (12) and (34) of two outputs, times the width below.",
            dimension=(0, 2),
        ),
        _statistic(
            "ntk_D",
            "D_1234",
            "PDLT (8.77)",
            4,
            f"preactivation² · {_NTK}",
            "Covariance of the metric (12) with the NTK (34), times the width below.",
            dimension=(1, 1),
        ),
        _statistic(
            "ntk_F",
            "F_1324",
            "PDLT (8.79)",
            4,
            f"preactivation² · {_NTK}",
            "Correlation of two outputs at (12) with their off-diagonal NTK at (34), times the width.",
            dimension=(1, 1),
        ),
        _statistic(
            "dntk_P",
            "P_0123",
            "PDLT (11.49)",
            4,
            f"({_NTK})²",
            "Correlation of an output with its dNTK whose two other legs share an output.",
            dimension=(0, 2),
        ),
        _statistic(
            "dntk_Q",
            "Q_0123",
            "PDLT (11.52)",
            4,
            f"({_NTK})²",
            "Correlation of an output with the dNTK on whose last leg it stands.",
            dimension=(0, 2),
        ),
        _statistic(
            "ddntk_R",
            "R_0123",
            "PDLT (∞.177)",
            4,
            f"({_NTK})³ / preactivation²",
            "Mean of the first ddNTK, legs (01)(23) of equal outputs, times the width below.",
            needs="smooth",
            dimension=(-1, 3),
        ),
        _statistic(
            "ddntk_S",
            "S_1234",
            "PDLT (∞.179)",
            4,
            f"({_NTK})³ / preactivation²",
            "Mean of the second ddNTK, legs (12)(34) of equal outputs, times the width below.",
            needs="smooth",
            dimension=(-1, 3),
        ),
        _statistic(
            "ddntk_T",
            "T_1342",
            "PDLT (∞.180)",
            4,
            f"({_NTK})³ / preactivation²",
            "Mean of the second ddNTK, legs (13)(42) of equal outputs, times the width below.",
            needs="smooth",
            dimension=(-1, 3),
        ),
        _statistic(
            "ddntk_U",
            "U_1423",
            "PDLT (∞.181)",
            4,
            f"({_NTK})³ / preactivation²",
            "Mean of the second ddNTK, legs (14)(23) of equal outputs, times the width below.",
            needs="smooth",
            dimension=(-1, 3),
        ),
    )
}


def select(
    names: Sequence[str] | str | None, activation: Activation | None = None
) -> tuple[str, ...]:
    """The observables asked for, in the order of the table.

    Args:
        names: Names; ``None`` for the default ones, ``"all"`` for the whole table. Neither of the
            two names what does not exist for `activation`; what is named by hand is kept.
        activation: Of the network.

    Raises:
        ValueError: If a name is not in the table; the message lists the known ones.
    """
    if names is None or names == "all":
        rows = [row for row in OBSERVABLES.values() if row.default or names == "all"]
        return tuple(row.name for row in rows if activation is None or exists(row, activation))
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for name in wanted:
        if name not in OBSERVABLES:
            raise ValueError(
                f"`observables` does not know {name!r}; the known ones are "
                f"{', '.join(OBSERVABLES)}, and 'all'."
            )
    if not wanted:
        raise ValueError(f"`observables` is empty; choose from {', '.join(OBSERVABLES)}.")
    return tuple(name for name in OBSERVABLES if name in wanted)


def exists(row: Observable, activation: Activation) -> bool:
    """Whether an observable exists for an activation."""
    if row.needs == "smooth":
        return activation.is_smooth
    return activation.is_continuous if row.needs == "continuous" else True


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
