"""What a plan says of its base: constants that were tuned there, and weights that start too small.

A plan carries what it finds at the base. A factory that draws all weights with one standard deviation gets nearer
to 1/sqrt(fan-in) with every doubling of the width for nothing; under a plan it stays where it is at the base.
"""

from __future__ import annotations

from scalewise.plan._names import pattern
from scalewise.plan._roles import Role
from scalewise.plan._spread import ERRORS
from scalewise.plan._table import Plan, TensorPlan

# Of 1/sqrt(fan-in): PyTorch's own linear layers start at 0.58, and what was measured to cost starts below 0.33.
_SMALL = 0.5
SUMS_THE_WIDTH = (Role.HIDDEN, Role.OUTPUT, Role.BOTTLENECK)
_NAMED = 3
_MEASURED = (
    "In a small GPT planned from width 32, where everything is drawn at 0.02 (0.11 of 1/sqrt(fan-in)), this cost "
    "0.067 nats at width 256 beside the same network retuned without a plan; drawn at 1/sqrt(fan-in) it cost "
    "0.000 ± 0.013, and with constants tuned at the base the plan was better by 0.107 ± 0.005. Let the factory "
    "draw at about 1/sqrt(fan-in), or tune `constants` at the base."
)


def about_the_base(plan: Plan) -> list[str]:
    """Sentences on the base of a plan, for the text below its table."""
    out = []
    if plan.constants:
        said = [
            f"{key} {setting} x {factor:.4g}"
            for key, factors in plan.constants.items()
            for setting, factor in factors.items()
        ]
        out.append(
            f"Constants tuned at the base, the same at every size: {', '.join(said)}. `init std` has them; the "
            "factors of lr and decay above do not."
        )
    small = small_at_base(plan)
    if small:
        units = [t.unit for t in small]
        kinds = list(dict.fromkeys(f"`{pattern(t.name)}` ({t.role})" for t in small))
        more = f" and {len(kinds) - _NAMED} more" if len(kinds) > _NAMED else ""
        span = f"{min(units):.2g}"
        if max(units) > 1.1 * min(units):
            span += f" to {max(units):.2g}"
        start = "starts" if len(kinds) == 1 else "start"
        names = ", ".join(kinds[:_NAMED])
        out.append(
            f"At the base {names}{more} {start} at {span} of 1/sqrt(fan-in), and the plan keeps that at every "
            f"width. {_MEASURED}"
        )
    return out


def small_at_base(plan: Plan) -> list[TensorPlan]:
    """Weights that sum over the width and start surely below half of 1/sqrt(fan-in) at the base."""
    return [
        t
        for t in plan.tensors
        if t.role in SUMS_THE_WIDTH and 0 < t.unit * (1 + ERRORS * t.base.error) < _SMALL
    ]
