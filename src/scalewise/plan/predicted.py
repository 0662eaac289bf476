r"""What the plan says a measurement over widths will find: powers of the width, by tensor.

Sizes are root mean squares over entries. After the first step from a random readout of size $n^{-A}$,
gradients below it are $n^{-A}$; a readout that starts at zero moves first by $n^{-U}$, and what lies
below follows it one step later.

What several tensors add to one output is a sum of powers. Its local power lies between the least and the
largest of them, and tends to the largest; the prediction is that one, with the others beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from scalewise.plan.roles import Layer, Role
from scalewise.plan.rules import gradient_exponent
from scalewise.plan.table import Plan, TensorPlan
from scalewise.scaling import readout_exponents

__all__ = ["Predicted", "of_features", "of_readout", "predicted", "reads_out"]

_ONE, _HALF, _ZERO = Fraction(1), Fraction(1, 2), Fraction(0)


@dataclass(frozen=True)
class Predicted:
    """Powers of the width.

    Args:
        weight: Of a tensor's entries at initialisation, about their mean.
        update: Of the change of its entries by the first step.
        own_change: Of the change of its module's output that its own update makes.
        change: Of the change of its module's output, all tensors below having moved too.
        output: Of its module's output at initialisation.
        gradient: Of the gradient of its entries at the first step.
        rate: Of its learning rate.
        parts: Of all that the change of its module's output is a sum of.
    """

    weight: Fraction
    update: Fraction
    own_change: Fraction
    change: Fraction
    output: Fraction
    gradient: Fraction
    rate: Fraction
    parts: tuple[Fraction, ...]


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
    # What the model's own code multiplies after the module has returned is not in what it returns.
    after = _after(plan, tensor)
    mine = [_own_change(plan, t, zero_readout) for t in _module(plan, tensor)]
    if reads_out(plan, tensor):
        parts, output = of_readout(plan, zero_readout=zero_readout)
        parts = [*parts, *mine]
    elif tensor.layer is Layer.FIRST:
        parts, output = mine, -plan.strategy.first.p / 2
    else:
        parts, output = [*mine, *of_features(plan, zero_readout)], -plan.strategy.hidden.p / 2
    return Predicted(
        weight=tensor.rule.init.of_width,
        update=_update(plan, tensor, zero_readout),
        own_change=own - after,
        change=max(parts) - after,
        output=output - after,
        gradient=_gradient(plan, tensor, zero_readout),
        rate=tensor.rule.lr.of_width,
        parts=tuple(sorted({p - after for p in parts})),
    )


def of_readout(plan: Plan, *, zero_readout: bool = False) -> tuple[list[Fraction], Fraction]:
    r"""What moves the logits, and their size at initialisation without a bias, $n^{1/2-A}$.

    The readout moves, $n^{1-U}$, and what it reads moves, which it passes on at $n^{1-A}$ where the two are
    aligned and at $n^{1/2-A}$ where they are not: the largest is seen, in a narrow network some of each.
    """
    A, U = readout_exponents(plan.strategy)
    size = U if zero_readout else A
    moves = of_features(plan, zero_readout)
    passed = [share - size + p for p in moves for share in (_ONE, _HALF)]
    return [1 - U, *passed], _HALF - A


def reads_out(plan: Plan, tensor: TensorPlan) -> bool:
    """Whether a tensor writes to the network's output: a readout or its bias."""
    with_readout = any(t.role is Role.OUTPUT for t in _module(plan, tensor))
    return tensor.role is Role.OUTPUT or (tensor.role is Role.FIXED and with_readout)


def _module(plan: Plan, tensor: TensorPlan) -> list[TensorPlan]:
    """All tensors of the module of one."""
    return [t for t in plan.tensors if t.owner == tensor.owner]


def of_features(plan: Plan, zero_readout: bool) -> list[Fraction]:
    """Powers of what moves the features that the readout reads, one for each tensor below it."""
    movers = (Role.INPUT, Role.HIDDEN, Role.VECTOR)
    return [_own_change(plan, t, zero_readout) for t in plan.tensors if t.role in movers]


def _after(plan: Plan, tensor: TensorPlan) -> Fraction:
    return max((t.gauge.after for t in _module(plan, tensor)), key=abs)


def _gradient(plan: Plan, tensor: TensorPlan, zero_readout: bool) -> Fraction:
    forward = tensor.gauge.total
    if reads_out(plan, tensor):
        return forward
    if zero_readout:
        U = readout_exponents(plan.strategy)[1]
        aligned = tensor.role in (Role.FIXED, Role.BOTTLENECK)
        return forward + (1 - U if aligned else -U)
    return forward + gradient_exponent(plan.strategy, tensor.role, initial=True)


def _update(plan: Plan, tensor: TensorPlan, zero_readout: bool) -> Fraction:
    # Adam and kin move each entry by the learning rate, whatever the gradient.
    gradient = _gradient(plan, tensor, zero_readout) if plan.optimizer == "sgd" else _ZERO
    return tensor.rule.lr.of_width + gradient


def _own_change(plan: Plan, tensor: TensorPlan, zero_readout: bool) -> Fraction:
    summed = tensor.role in (Role.HIDDEN, Role.OUTPUT, Role.BOTTLENECK)
    own = _update(plan, tensor, zero_readout) + (1 if summed else 0)
    return own + tensor.gauge.total
