"""Training at the base and at a larger width, with the rates of one plan: losses and their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from scalewise.torch import TorchPlan

Loss = Callable[[Any, Any], Tensor]
Setup = Callable[[TorchPlan, nn.Module], torch.optim.Optimizer]


@dataclass(frozen=True)
class Trained:
    """Mean losses of a few steps, over seeds, at a width.

    Args:
        loss: Their mean.
        error: Its standard error.
    """

    loss: float
    error: float


def as_planned(lr: float) -> Setup:
    """The plan's own initialisation and groups, for AdamW without decay."""

    def setup(plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        groups: Any = plan.param_groups(model, lr=lr, weight_decay=0.0)
        return torch.optim.AdamW(groups)

    return setup


def trained(
    plan: TorchPlan,
    width: int | dict[str, int],
    batch: Any,
    loss: Loss,
    setup: Setup,
    *,
    steps: int,
    seeds: int,
) -> Trained:
    """The loss averaged over the second half of some steps.

    Args:
        plan: Of any target.
        width: To train at; all sizes that change, where there are others.
        batch: What the loss is given at each step.
        loss: A function of (model, batch).
        setup: Initialises a model and makes its optimizer.
        steps: Of the optimizer.
        seeds: Networks.
    """
    sizes = width if isinstance(width, dict) else {"width": width}
    plan, found = plan.at(**sizes), []
    assert plan.build is not None
    for seed in range(seeds):
        torch.manual_seed(seed)
        model = plan.build(**sizes)
        optimizer, losses = setup(plan, model), []
        for _ in range(steps):
            optimizer.zero_grad()
            value = loss(model, batch)
            value.backward()
            optimizer.step()
            losses.append(float(value.detach()))
        late = losses[steps // 2 :]
        found.append(sum(late) / len(late))
    every = torch.tensor(found, dtype=torch.float64)
    return Trained(float(every.mean()), float(every.std() / seeds**0.5))
