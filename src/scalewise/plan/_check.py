"""A measurement beside its plan: verdict, table, picture, and a word for CI."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import numpy as np

from scalewise._checked import Must, checked
from scalewise._extras import require
from scalewise._readable import Rows, readable
from scalewise.plan._depth import DepthCheck
from scalewise.plan._diagnosis import Culprit, diagnose, expected_regimes
from scalewise.plan._errors import PlanError
from scalewise.plan._fits import Status
from scalewise.plan._measurement import Measurement
from scalewise.plan._report import tell, told
from scalewise.plan._roles import Role
from scalewise.plan._rows import (
    JUDGED,
    Row,
    attention_rows,
    passed_on,
    returned_rows,
    rows_of,
    sizes_of,
    starts_small,
)
from scalewise.plan._table import Plan
from scalewise.plan._verdict import Verdict, judge

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


@dataclass(frozen=True)
@readable
class Check:
    """Scaling of real networks with the width, beside what was planned.

    Args:
        plan: What was planned.
        measured: The sizes that were measured.
        tolerance: How far from the prediction a power may be beyond its error.
        rows: Every quantity of every tensor, predicted and fitted.
        verdict: Stable or not, and the regime: from the measurement alone.
        culprits: What does not scale as planned of itself, tensors or the network as a whole; what only
            follows is not among them. There is one whenever a power or the verdict is not as planned, something
            grows with the depth, or what the verdict rests on was not seen.
        attention: The same rows for attention logits, by the modules that make them.
        returned: The same for what the model returns, where no tensor reads out.
        depth: What was found over depths, if any were asked for.
    """

    plan: Plan
    measured: Measurement
    tolerance: float
    rows: tuple[Row, ...] = field(repr=False)
    verdict: Verdict
    culprits: tuple[Culprit, ...]
    attention: tuple[Row, ...] = field(default=(), repr=False)
    returned: tuple[Row, ...] = field(default=(), repr=False)
    depth: DepthCheck | None = None

    @property
    def ok(self) -> bool:
        """True if nothing grows with width or depth and nothing is to blame: powers and regime are as planned.

        What was not measured is not ok, where the verdict rests on it.
        """
        return self.verdict.stable and not self.culprits

    @cached_property
    def table(self) -> xr.Dataset:
        """The check as a Dataset over tensor and quantity, and sizes over width and seed as well.

        ``predicted`` and ``predicted_least``, ``slope`` with ``slope_sem``, ``curvature`` with ``curvature_sem``,
        ``agrees`` and ``status``, and ``size`` itself. Slopes are NaN where ``status`` is not ``"fitted"``, and
        infinite where it is ``"diverged"``.
        """
        return _table(self)

    def role(self, tensor: str) -> str:
        """Role of a `tensor` where it was measured: a tied one reads out under its name there."""
        return str(Role.OUTPUT if tensor in self.measured.readouts else self.plan[tensor].role)

    @property
    def consequences(self) -> tuple[Row, ...]:
        """Deviations that may follow from a culprit."""
        causes = [c.row for c in self.culprits]
        return tuple(r for r in self.rows if not r.agrees and r not in causes)

    def row(self, tensor: str, quantity: str) -> Row:
        """Row of one `quantity` of one `tensor`.

        Raises:
            PlanError: If there is none of that name.
        """
        known = {(r.tensor, str(r.quantity)): r for r in self.rows}
        if (tensor, str(quantity)) not in known:
            raise PlanError(
                f"This check has no quantity {str(quantity)!r} of `{tensor}`. It has "
                f"{', '.join(repr(str(q)) for q in JUDGED)} of "
                f"{', '.join(f'`{t}`' for t in self.measured.tensors)}."
            )
        return known[tensor, str(quantity)]

    def assert_ok(self) -> None:
        """Pass if every power is as planned and nothing grows with the width; for a test of your own.

        Raises:
            AssertionError: If not: which tensor is off, in what, by which power of the width.
        """
        if not self.ok:
            raise AssertionError(tell(self, brief=True))

    def plot(self) -> Figure:
        """Sizes over the width for each kind of module, with the predicted powers as lines."""
        require("matplotlib", for_="`Check.plot`", extra="report")
        from scalewise.plan._picture import draw

        return draw(self)

    def _told(self) -> list[str | Rows]:
        return told(self)


# Half of what parts the neural-tangent from the maximal-update scaling is the most.
Tolerance = Annotated[
    float | int, Must("a power of the width, above 0 and at most 0.25", lambda t: 0 < t <= 0.25)
]


@checked(error=PlanError)
def check(
    plan: Plan,
    measured: Measurement,
    *,
    tolerance: Tolerance = 0.0625,
    depth: DepthCheck | None = None,
) -> Check:
    """Fit, compare, judge and diagnose a measurement.

    Args:
        plan: What was planned.
        measured: What was measured.
        tolerance: How far a power may be from the prediction beyond three standard errors. The default is
            half of the power 1/8 that parts the last quarter of the family from maximal updates: what
            networks of finite width deviate must stay below it, and anything to be told apart above.
        depth: What was found over depths.

    Raises:
        PlanError: If the tolerance is not a number above 0 and at most 1/4.
    """
    rows = tuple(rows_of(plan, measured, tolerance))
    attention = tuple(attention_rows(plan, measured, tolerance))
    returned = tuple(returned_rows(plan, measured, tolerance))
    off = [r for r in (*attention, *returned) if not r.agrees]
    passed = passed_on(plan, measured)
    sizes = rows if passed is measured else rows_of(plan, passed, tolerance)
    alone = judge((*sizes, *off), passed, tolerance, late=starts_small(plan))
    planned = expected_regimes(plan, tolerance)
    verdict = alone.beside(planned)
    return Check(
        plan=plan,
        measured=measured,
        tolerance=tolerance,
        rows=rows,
        verdict=verdict,
        culprits=diagnose(plan, measured, (*rows, *returned), verdict, planned, attention, depth),
        attention=attention,
        returned=returned,
        depth=depth,
    )


def _table(check: Check) -> xr.Dataset:
    import xarray as xr  # here, because its import takes longer than many a plan

    plan, measured, rows = check.plan, check.measured, check.rows
    shape = (len(measured.tensors), len(JUDGED))

    def grid(values: list[float]) -> tuple[tuple[str, str], np.ndarray]:
        return ("tensor", "quantity"), np.array(values).reshape(shape)

    found = [r.fit.status in (Status.FITTED, Status.DIVERGED) for r in rows]

    def fitted(values: list[float]) -> tuple[tuple[str, str], np.ndarray]:
        return grid([v if ok else math.nan for v, ok in zip(values, found, strict=True)])

    sizes = [sizes_of(plan, measured, n, q) for n in measured.tensors for q in JUDGED]
    cube = np.array(sizes).reshape(*shape, len(measured.widths), measured.seeds)
    return xr.Dataset(
        {
            "predicted": fitted([float(r.predicted) for r in rows]),
            "predicted_least": fitted([float(r.least) for r in rows]),
            "slope": fitted([r.fit.slope for r in rows]),
            "slope_sem": fitted([r.fit.sem for r in rows]),
            "curvature": fitted([r.fit.curvature for r in rows]),
            "curvature_sem": fitted([r.fit.curvature_sem for r in rows]),
            "agrees": (
                ("tensor", "quantity"),
                np.array([r.agrees for r in rows]).reshape(shape),
            ),
            "status": (
                ("tensor", "quantity"),
                np.array([str(r.fit.status) for r in rows]).reshape(shape),
            ),
            "size": (("tensor", "quantity", "width", "seed"), cube),
            "nonlinearity": ("width", measured.nonlinearity),
        },
        coords={
            "tensor": list(measured.tensors),
            "quantity": [str(q) for q in JUDGED],
            "width": measured.widths,
            "module": ("tensor", list(measured.modules)),
            "role": ("tensor", [check.role(n) for n in measured.tensors]),
        },
        attrs={"steps": measured.steps, "tolerance": check.tolerance},
    )
