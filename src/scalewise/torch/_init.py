"""Initialisation: each tensor keeps the law its own code drew it from, at the planned size."""

from __future__ import annotations

import torch
from torch import nn

from scalewise.plan import Plan, TensorPlan
from scalewise.plan.spi import between, rescaling, std_beside, told_mean
from scalewise.torch._check import of_the_plan
from scalewise.torch._moments import moments, real

_SINGLE = 32  # bits
# Entries, the mean about which they are scaled, and the factor.
Scaled = tuple[torch.Tensor, float, float]


def initialise(plan: Plan, model: nn.Module) -> None:
    """Bring the spread of every tensor to what is planned, in place.

    Nothing is drawn: deviations from the mean are multiplied by one factor a tensor, and by none where
    the spread is already what it should be, within what a sample of its size can tell. So the second
    call changes nothing, and at the base no call does but for tensors with a constant.
    """
    parameters = of_the_plan(plan, model)
    todo: list[Scaled] = []
    for tensor in plan.tensors:
        if tensor.of or not plan.respreads(tensor):
            continue
        found = _scaled(plan, tensor, parameters[tensor.name])
        # A weight of so much the size has so much the length.
        lengths = [parameters[t.name] for t in plan.tensors if t.of == tensor.name]
        todo += [*found, *((p, 0.0, factor) for p in lengths for _, _, factor in found)]
    with torch.no_grad():
        for parameter, mean, factor in todo:
            entries = real(parameter)
            # Formats of eight bits have no arithmetic of their own.
            wide = entries.float() if torch.finfo(entries.dtype).bits < _SINGLE else entries
            entries.copy_(wide * factor + mean * (1 - factor) if mean else wide * factor)


def _scaled(plan: Plan, tensor: TensorPlan, parameter: torch.Tensor) -> list[Scaled]:
    """A tensor's part that is scaled: all of it, or what grows and what does not by factors of their own."""
    parts = [(parameter, [parameter], plan.std(tensor.name))]
    if tensor.fixed:
        stays = [parameter.narrow(a, i, j - i) for a, i, j in tensor.fixed]
        grows = [parameter.narrow(a, i, j - i) for a, i, j in between(tensor.fixed, tensor.shape)]
        axis, goals = tensor.fixed[0][0], (plan.std(tensor.name), std_beside(plan, tensor))
        parts = [
            (torch.cat(views, axis), views, goal)
            for views, goal in zip((grows, stays), goals, strict=True)
        ]
    out: list[Scaled] = []
    for whole, views, goal in parts:
        own, rounding = moments(whole, tensor.name), torch.finfo(parameter.dtype).eps
        factor = rescaling(
            tensor.name, own, tensor.base, goal, rounding, tuned=tensor.constants.std != 1
        )
        if factor != 1:
            mean = told_mean(own, whole.numel())
            out += [(view, mean, factor) for view in views]
    return out
