"""Initialisation: each tensor keeps the law its own code drew it from, at the planned size."""

from __future__ import annotations

import math

import torch
from torch import nn

from scalewise.plan import Plan, PlanError, Spread, TensorPlan
from scalewise.torch._check import of_the_plan
from scalewise.torch._moments import moments, real

__all__ = ["initialise"]

# Standard errors of a standard deviation within which it is taken for what it should be. Narrow, for to
# take a right one for a wrong one costs nothing but a factor near 1.
_AGREE = 3.0


def initialise(plan: Plan, model: nn.Module) -> None:
    """Bring the spread of every tensor to what is planned, in place.

    Nothing is drawn: deviations from the mean are multiplied by one factor a tensor, and by none where
    the spread is already what it should be, within what a sample of its size can tell. So the second
    call changes nothing, and at the base no call does.
    """
    parameters = of_the_plan(plan, model)
    if plan.base == plan.target:
        return
    todo: list[tuple[torch.Tensor, float, float]] = []
    for tensor in plan.tensors:
        parameter = parameters[tensor.name]
        own = moments(parameter, tensor.name)
        factor = _factor(plan, tensor, own, torch.finfo(parameter.dtype).eps)
        if factor != 1:
            # A mean that the sample does not tell from zero is zero: exact zeros stay zeros.
            drawn = abs(own.mean) <= _AGREE * own.std / math.sqrt(parameter.numel())
            todo.append((parameter, 0.0 if drawn else own.mean, factor))
    with torch.no_grad():
        for parameter, mean, factor in todo:
            entries = real(parameter)
            entries.mul_(factor)
            if mean:
                entries.add_(mean * (1 - factor))


def _factor(plan: Plan, tensor: TensorPlan, own: Spread, rounding: float) -> float:
    base, name = tensor.base, tensor.name
    if (base.std == 0) != (own.std == 0):
        drawn, constant = ("here", "at the base") if base.std == 0 else ("at the base", "here")
        raise PlanError(
            f"Every entry of `{name}` is the same {constant}, but they are drawn at random {drawn}, so "
            "there is no size to carry over. Let the factory initialise it in the same way at every width."
        )
    if own.std == 0:
        return 1.0
    factor = plan.std(name) / own.std
    error = math.hypot(own.error, base.error)
    return 1.0 if abs(1 / factor - 1) <= _AGREE * error + rounding else factor
