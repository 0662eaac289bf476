"""Initialisation: each tensor keeps the law its own code drew it from, at the planned size."""

from __future__ import annotations

import torch
from torch import nn

from scalewise.plan import Plan
from scalewise.plan._spread import rescaling, told_mean
from scalewise.torch._check import of_the_plan
from scalewise.torch._moments import moments, real

_SINGLE = 32  # bits


def initialise(plan: Plan, model: nn.Module) -> None:
    """Bring the spread of every tensor to what is planned, in place.

    Nothing is drawn: deviations from the mean are multiplied by one factor a tensor, and by none where
    the spread is already what it should be, within what a sample of its size can tell. So the second
    call changes nothing, and at the base no call does but for tensors with a constant.
    """
    parameters = of_the_plan(plan, model)
    todo: list[tuple[torch.Tensor, float, float]] = []
    for tensor in plan.tensors:
        if tensor.of or not plan.respreads(tensor):
            continue
        parameter = parameters[tensor.name]
        own = moments(parameter, tensor.name)
        rounding = torch.finfo(parameter.dtype).eps
        factor = rescaling(
            tensor.name, own, tensor.base, plan.std(tensor.name), rounding,
            tuned=tensor.constants.std != 1,
        )  # fmt: skip
        if factor != 1:
            todo.append((parameter, told_mean(own, parameter.numel()), factor))
            # A weight of so much the size has so much the length.
            todo += [(parameters[t.name], 0.0, factor) for t in plan.tensors if t.of == tensor.name]
    with torch.no_grad():
        for parameter, mean, factor in todo:
            entries = real(parameter)
            # Formats of eight bits have no arithmetic of their own.
            wide = entries.float() if torch.finfo(entries.dtype).bits < _SINGLE else entries
            entries.copy_(wide * factor + mean * (1 - factor) if mean else wide * factor)
