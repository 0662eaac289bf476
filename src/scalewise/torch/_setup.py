"""What a plan itself does to a model before a verification trains it."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from torch import nn
from torch.optim import Optimizer

from scalewise.plan import Place, Plan, PlanError
from scalewise.plan.spi import ADJUSTMENTS
from scalewise.torch._groups import OPTIMIZERS


class Together:
    """Optimizers that take each step together.

    Args:
        parts: They.
    """

    def __init__(self, *parts: Optimizer) -> None:
        self.parts = parts

    def zero_grad(self) -> None:
        """Forget the gradients of all."""
        for one in self.parts:
            one.zero_grad()

    def step(self) -> None:
        """One step of each."""
        for one in self.parts:
            one.step()


def own_optimizer(plan: Any, model: nn.Module, lr: float) -> Any:
    """The optimizer of a `TorchPlan` for a model that is prepared, without weight decay.

    Raises:
        PlanError: If PyTorch has no such optimizer.
    """
    table = plan.table
    lacking = [name for name in table.laws if name not in OPTIMIZERS]
    if lacking:
        raise PlanError(
            f"PyTorch has no optimizer {lacking[0]!r}, so `verify` needs a `setup` that initialises the model "
            "with plan.init_ and returns the optimizer, made of plan.param_groups."
        )
    if len(table.laws) == 1:
        groups = plan.param_groups(model, lr=lr, weight_decay=0.0)
        return OPTIMIZERS[table.optimizer](groups)
    # Both are to move entries alike at the base.
    own = plan.param_groups(
        model, lr=lr * _entries(table), weight_decay=0.0, rest={"lr": lr, "weight_decay": 0.0}
    )
    return Together(*(OPTIMIZERS[g[0]["optimizer"]](g) for g in own if g))


def prepare(plan: Any, model: nn.Module) -> nn.Module:
    """A fresh model, initialised in place as a `TorchPlan` has it, and scaled where hooks can scale."""
    table, said = plan.table, plan.options.multiplied
    plan.init_(model)
    if any(m.place is not Place.BRANCH for m in table.multipliers if m.name not in said):
        plan.scale_(model, applied=[Place.BRANCH] if table.multiplies(Place.BRANCH) else [])
    return model


def _entries(plan: Plan) -> float:
    """The learning rate with which the first optimizer moves entries by one at the base."""
    mine = [t for t in plan.tensors if t.optimizer == plan.optimizer]
    norms = [math.prod(t.base_shape) ** float(t.law.norm.fan_in) for t in mine]
    factor = ADJUSTMENTS[plan.adjust]
    return median(
        n / factor(*t.base_shape) if t.spectral else n for n, t in zip(norms, mine, strict=True)
    )
