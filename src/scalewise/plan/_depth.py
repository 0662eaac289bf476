r"""How real networks of one width scale with the depth, beside what was planned.

With branches multiplied by $L^{-\alpha}$, a stream that $L$ branches add to starts at $L^{\max(0,1/2-\alpha)}$ at
most, and the rates of a plan let all its blocks together move it at order one. A multiplier that nobody
applies shows as a change of $L^{\alpha(1+h)}$ under a law of degree $h$: one power from the branch, and
$h$ from the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable
from scalewise.plan._fits import Fit, Status, power_law
from scalewise.plan._measurement import Quantity
from scalewise.plan._table import Plan

# The place of what reads out, whose name may count the layers before it.
READOUT = "(readout)"
# That of the model, where products of its features take the place of a readout.
WHOLE = ""

_HALF, _ZERO = Fraction(1, 2), Fraction(0)
_SIZES = (Quantity.OUTPUT, Quantity.FEATURES)


@dataclass(frozen=True)
@readable
class DepthRow:
    """Row of one size at a place that comes after all blocks, over depths.

    Args:
        place: Name of the module.
        quantity: `output` and `change` of what it returns, `features` and `features_change` of what it is given.
        most: The largest power of the depth that is planned.
        fit: What was measured.
        tolerance: How far above the slope may be.
    """

    place: str
    quantity: Quantity
    most: Fraction
    fit: Fit
    tolerance: float

    @property
    def excess(self) -> float:
        """Power above what is planned."""
        if self.fit.status is Status.DIVERGED:
            return np.inf
        return max(self.fit.slope - float(self.most), 0.0)

    @property
    def agrees(self) -> bool:
        """True if the quantity was seen and is within tolerance and error of the plan or below, or tends to it."""
        if self.fit.status is Status.ABSENT:
            return False
        near = self.excess <= self.tolerance + self.fit.error
        return near or self.fit.tends_to(float(self.most), self.tolerance)


@dataclass(frozen=True)
@readable
class DepthCheck:
    r"""Scaling of networks with the depth.

    Args:
        depths: As the factory was called with, ascending.
        rows: Every size, in the order of the forward pass at the greatest depth; those of what reads out also
            where they were not seen at every depth.
        residual: $\alpha$ as planned.
        degree: The largest with which a step of the blocks goes as the gradient.
    """

    depths: tuple[int, ...]
    rows: tuple[DepthRow, ...]
    residual: Fraction
    degree: Fraction

    @property
    def ok(self) -> bool:
        """True if what reads out was seen, and nothing grows with the depth beyond what is planned."""
        return bool(self.rows) and all(r.agrees for r in self.rows)

    @property
    def worst(self) -> DepthRow | None:
        """Row that grows most beyond the plan, changes before sizes; if none does, one that was not seen."""
        off = [r for r in self.rows if not r.agrees]
        seen = [r for r in off if r.fit.status is not Status.ABSENT]
        return max(seen or off, key=lambda r: (r.quantity not in _SIZES, r.excess), default=None)

    def __str__(self) -> str:
        r = self.worst
        if r is None:
            return "Nothing grows with the depth beyond what is planned."
        where = f"`{r.place}`" if r.place else "the model"
        what = {
            Quantity.OUTPUT: f"what {where} returns at initialisation",
            Quantity.CHANGE: f"the change of what {where} returns",
            Quantity.FEATURES: f"what {where} is given at initialisation",
            Quantity.FEATURES_CHANGE: f"the change of what {where} is given",
        }[r.quantity]
        if r.fit.status is Status.ABSENT:
            return (
                f"Over depths {', '.join(map(str, self.depths))}, {what} was not seen at each of them, so whether "
                "it grows was not measured. Let a module of its own read out at every depth."
            )
        found = f"{r.fit.slope:+.2f} ± {r.fit.sem:.2f}"
        told = (
            f"Over depths {', '.join(map(str, self.depths))}, {what} goes as depth^({found}); planned is at most "
            f"depth^({r.most})."
        )
        if not self.residual or r.quantity in _SIZES:
            return (
                f"{told} Branches of a residual network that no multiplier scales add up so: plan with "
                "residual=1/2 or 1, and let the forward pass or the weights that end each branch carry it."
            )
        actual = float(self.residual) - r.excess / float(1 + self.degree)
        return (
            f"{told} That is so if branches are multiplied by depth^({-actual:+.2f}), where the plan has "
            f"depth^({-self.residual}): apply plan.multipliers['residual'], as plan.scale_ does, or name the "
            "tensors that end each branch with branch_outputs=[...]."
        )


def check_depths(
    plan: Plan,
    depths: tuple[int, ...],
    sizes: Mapping[tuple[str, Quantity], Float[np.ndarray, "depth seed"]],
    tolerance: float,
) -> DepthCheck:
    """Fit and compare what was measured at several depths.

    Args:
        plan: What was planned.
        depths: Ascending.
        sizes: For each module that comes after all blocks, and each quantity, the sizes.
        tolerance: How far a power may be above the plan beyond three standard errors.
    """
    alpha = plan.residual
    rows = []
    for (place, quantity), found in sizes.items():
        most = max(_HALF - alpha, _ZERO) if quantity in _SIZES else _ZERO
        fit = power_law(np.asarray(depths, dtype=float), found)
        rows.append(DepthRow(place, quantity, most, fit, tolerance))
    return DepthCheck(depths, tuple(rows), alpha, max(t.law.degree for t in plan.tensors))
