"""The table of observables: what `predict` and `measure` both return, and under which name.

Theory and ensembles never import each other; this table is what they share. Every variable of a
result carries the attributes written here. A row also says for which activations its observable does
not exist: that is the only place where this is decided. Which rows a call computes is decided in
`scalewise.selection`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xarray as xr

from scalewise.activations import Activation

__all__ = ["OBSERVABLES", "Observable", "as_variable", "exists"]

SAMPLE_DIMS = ("sample", "sample_1", "sample_2", "sample_3")
Obstacle = Callable[[Activation], str]


def _none(sigma: Activation) -> str:
    return ""


def _jump(sigma: Activation) -> str:
    """What has a derivative in it."""
    if sigma.is_continuous:
        return ""
    places = ", ".join(f"{kink.location:g}" for kink in sigma.kinks if kink.jump)
    return f"the activation jumps at z = {places}, and its derivative is a delta function there"


def _kink(sigma: Activation) -> str:
    """What needs three derivatives."""
    places = ", ".join(f"{z:g}" for z in sigma.split_points)
    return _jump(sigma) or (
        ""
        if sigma.is_smooth
        else f"it takes three derivatives, and the activation has a kink at z = {places}"
    )


def _kink_of_a_curve(sigma: Activation) -> str:
    """What multiplies the second derivative by others."""
    bent = any(kink.slope_jump for kink in sigma.kinks) and not sigma.is_piecewise_linear
    return _jump(sigma) or (
        "the second derivative is a delta function beside a curved part" if bent else ""
    )


def _no_recursion(sigma: Activation) -> str:
    """What nobody has derived of a network whose neurons remember themselves."""
    return "with skip connections there is no recursion for it"


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
        obstacle: Why it does not exist for an activation, a clause; an empty text if it exists.
        sampled: Whether it takes expectations of all pairs of pairs of inputs, which are costly.
        dimension: Powers of kernel and NTK that it scales with, for coefficients whose own entries do
            not say how large they could be; ``None`` for positive semidefinite matrices over the
            halves of their sample indices, whose diagonals do.
        corrects: The observable whose 1/n correction this is; empty for the others.
        with_skips: Why it is not known of a network with skip connections, likewise.
    """

    name: str
    symbol: str
    equation: str
    order: int
    legs: int
    units: str
    meaning: str
    default: bool = True
    obstacle: Obstacle = _none
    dimension: tuple[int, int] | None = None
    sampled: bool = False
    corrects: str = ""
    with_skips: Obstacle = _no_recursion

    def obstacle_of(self, activation: Activation, *, skips: bool) -> str:
        """Why it cannot be had of a network, a clause; an empty text if it can."""
        return self.obstacle(activation) or (self.with_skips(activation) if skips else "")

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
    obstacle: Obstacle = _jump,
    *,
    dimension: tuple[int, int],
    corrects: str = "",
) -> Observable:
    """A row for a coefficient of 1/n that is computed only when it is named."""
    return Observable(
        name,
        symbol,
        equation,
        1,
        legs,
        units,
        meaning,
        False,
        obstacle,
        dimension,
        sampled=True,
        corrects=corrects,
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
            with_skips=_none,
        ),
        Observable(
            "metric_nlo",
            "G^{1}",
            "PDLT (4.115)",
            1,
            2,
            "preactivation²",
            "The 1/n correction of that covariance, times the width of the layer below.",
            sampled=True,
            corrects="kernel",
            with_skips=_jump,
        ),
        Observable(
            "four_point_vertex",
            "V",
            "PDLT (4.119)",
            1,
            4,
            "preactivation⁴",
            "Covariance of the metric's fluctuations, times the width of the layer below.",
            sampled=True,
            with_skips=_none,
        ),
        Observable(
            "ntk",
            "Theta",
            "PDLT (8.63)",
            0,
            2,
            "preactivation² / learning rate",
            "Mean neural tangent kernel of one output.",
            obstacle=_jump,
            with_skips=_none,
        ),
        _statistic(
            "ntk_nlo",
            "H^{1}",
            "PDLT (8.59), (9.3)",
            2,
            _NTK,
            "The 1/n correction of the mean NTK, times the width of the layer below.",
            obstacle=_jump,
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
            obstacle=_kink_of_a_curve,
            dimension=(0, 2),
        ),
        _statistic(
            "dntk_Q",
            "Q_0123",
            "PDLT (11.52)",
            4,
            f"({_NTK})²",
            "Correlation of an output with the dNTK on whose last leg it stands.",
            obstacle=_kink_of_a_curve,
            dimension=(0, 2),
        ),
        _statistic(
            "ddntk_R",
            "R_0123",
            "PDLT (∞.177)",
            4,
            f"({_NTK})³ / preactivation²",
            "Mean of the first ddNTK, legs (01)(23) of equal outputs, times the width below.",
            obstacle=_kink,
            dimension=(-1, 3),
        ),
        _statistic(
            "ddntk_S",
            "S_1234",
            "PDLT (∞.179)",
            4,
            f"({_NTK})³ / preactivation²",
            "Mean of the second ddNTK, legs (12)(34) of equal outputs, times the width below.",
            obstacle=_kink,
            dimension=(-1, 3),
        ),
        _statistic(
            "ddntk_T",
            "T_1342",
            "PDLT (∞.180)",
            4,
            f"({_NTK})³ / preactivation²",
            "Mean of the second ddNTK, legs (13)(42) of equal outputs, times the width below.",
            obstacle=_kink,
            dimension=(-1, 3),
        ),
        _statistic(
            "ddntk_U",
            "U_1423",
            "PDLT (∞.181)",
            4,
            f"({_NTK})³ / preactivation²",
            "Mean of the second ddNTK, legs (14)(23) of equal outputs, times the width below.",
            obstacle=_kink,
            dimension=(-1, 3),
        ),
    )
}


def exists(row: Observable, activation: Activation) -> bool:
    """Whether an observable exists for an activation."""
    return not row.obstacle(activation)


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
