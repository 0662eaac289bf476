r"""What the plan says a measurement over widths will find: powers of the width, by tensor.

Sizes are root mean squares over entries. After the first step from a random readout of size $n^{-A}$,
gradients below it are $n^{-A}$; a readout that starts at zero moves first by $n^{-U}$, and what lies
below follows it one step later.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scalewise.plan.roles import Kind, Layer, Role
from scalewise.plan.rules import gradient_exponent
from scalewise.plan.table import Plan, TensorPlan
from scalewise.scaling import readout_exponents

__all__ = ["Predicted", "predicted"]

_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Predicted:
    """Powers of the width.

    Args:
        weight: Of a tensor's entries at initialisation, about their mean.
        update: Of the change of its entries by the first step.
        own_change: Of the change of its module's output that its own update makes.
        change: Of the change of its module's output, all tensors below having moved too.
        output: Of its module's output at initialisation.
    """

    weight: Fraction
    update: Fraction
    own_change: Fraction
    change: Fraction
    output: Fraction


def predicted(plan: Plan, name: str, *, zero_readout: bool = False) -> Predicted:
    """The predicted powers for one tensor and the module it belongs to.

    Args:
        plan: The plan.
        name: Name of the tensor.
        zero_readout: Whether the readout starts at zero and two steps are taken: the first moves the
            readout alone.
    """
    tensor = plan[name]
    own = _own_change(plan, tensor, zero_readout)
    features = [
        _own_change(plan, t, zero_readout)
        for t in plan.tensors
        if t.role in (Role.INPUT, Role.HIDDEN, Role.VECTOR)
    ]
    moved = max(features, default=Fraction(0))
    A, U = readout_exponents(plan.strategy)
    if tensor.layer is Layer.FIRST:
        change, output = own, -plan.strategy.first.p / 2
    elif tensor.role is Role.OUTPUT or (tensor.kind is Kind.BIAS and tensor.role is Role.FIXED):
        # The readout moves, and what it reads moves: the larger of the two is seen.
        size = U if zero_readout else A
        change, output = max(1 - U, 1 - size + moved), _HALF - A
    else:
        change, output = max(own, moved), -plan.strategy.hidden.p / 2
    return Predicted(
        tensor.rule.init.of_width, _update(plan, tensor, zero_readout), own, change, output
    )


def _update(plan: Plan, tensor: TensorPlan, zero_readout: bool) -> Fraction:
    rate = tensor.rule.lr.of_width
    if plan.optimizer != "sgd":
        return rate
    is_output_bias = tensor.kind is Kind.BIAS and tensor.role is Role.FIXED
    if is_output_bias:
        return rate
    gradient = gradient_exponent(plan.strategy, tensor.role, initial=True)
    if zero_readout and tensor.role is not Role.OUTPUT:
        U = readout_exponents(plan.strategy)[1]
        aligned = tensor.role in (Role.FIXED, Role.BOTTLENECK)
        gradient = 1 - U if aligned else -U
    return rate + gradient


def _own_change(plan: Plan, tensor: TensorPlan, zero_readout: bool) -> Fraction:
    summed = tensor.role in (Role.HIDDEN, Role.OUTPUT, Role.BOTTLENECK)
    return _update(plan, tensor, zero_readout) + (1 if summed else 0)
