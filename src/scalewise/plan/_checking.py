"""`check`: a measurement is fitted, compared with its plan, judged, and what is off is diagnosed."""

from __future__ import annotations

from typing import Annotated

from scalewise._checked import Must, checked
from scalewise.plan._check import Check
from scalewise.plan._depth import DepthCheck
from scalewise.plan._diagnosis import diagnose, expected_regimes
from scalewise.plan._errors import PlanError
from scalewise.plan._measurement import Measurement
from scalewise.plan._rows import attention_rows, passed_on, returned_rows, rows_of, starts_small
from scalewise.plan._table import Plan
from scalewise.plan._verdict import judge

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
