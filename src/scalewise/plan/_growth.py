"""How the two sides of a tensor grow with the width: what makes powers of the fan-in powers of the width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scalewise.plan._powers import Powers
from scalewise.plan._roles import Role
from scalewise.plan._table import Plan, TensorPlan

_ONE, _ZERO = Fraction(1), Fraction(0)
_WHOLE = 0.01  # a power so near to a quarter is meant as one
_QUARTERS, _PLAIN = 4, 16


@dataclass(frozen=True)
class Growth:
    """Powers of the width.

    Args:
        fan_in: Of the number of terms a tensor sums over: 1 for most, 2 for a bilinear one, and another
            number where sizes are rounded.
        fan_out: Of the number of units it writes to.
    """

    fan_in: Fraction = _ONE
    fan_out: Fraction = _ONE


def growth_between(plan: Plan, tensor: TensorPlan) -> Growth:
    """Growth from base to target; by the role alone where both have one width."""
    if plan.width == 1:
        fixed = tensor.role in (Role.OUTPUT, Role.BOTTLENECK, Role.FIXED)
        return Growth(fan_out=_ZERO if fixed else _ONE)
    doubling = math.log(plan.width)
    return Growth(*(_rational(math.log(side) / doubling) for side in _sides(tensor)))


def growth_over(plans: Sequence[Plan], name: str) -> Growth:
    """Over the targets of several plans with one base, as a slope is fitted over their widths."""
    x = np.log([float(p.width) for p in plans])
    x -= x.mean()
    logs = np.log(np.array([_sides(p[name]) for p in plans], dtype=float))
    return Growth(*(_rational(power) for power in (x @ logs / (x @ x)).tolist()))


def of_width(powers: Powers, growth: Growth) -> Fraction:
    """The power of the width that powers of fan-in and width are together."""
    return powers.fan_in * growth.fan_in + powers.fan_out * growth.fan_out + powers.width


def written(power: Fraction | float) -> str:
    """A power as a fraction if it is a plain one, else with two digits.

    Example:
        >>> from fractions import Fraction
        >>> from scalewise.plan._growth import written
        >>> written(Fraction(-1, 2)), written(Fraction(-433, 1000))
        ('-1/2', '-0.43')
    """
    if isinstance(power, Fraction) and power.denominator <= _PLAIN:
        return str(power)
    return f"{float(power):.2f}"


def _sides(tensor: TensorPlan) -> tuple[Fraction, Fraction]:
    """Target over base of the fan-in, and of the units that a step looks at together."""
    return tensor.fan_in, tensor.together


def _rational(power: float) -> Fraction:
    near = Fraction(round(_QUARTERS * power), _QUARTERS)
    return near if abs(float(near) - power) < _WHOLE else Fraction(round(1000 * power), 1000)
