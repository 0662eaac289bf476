"""Which law an optimizer of PyTorch follows, found by letting a double of it take steps on small matrices."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from typing import Any

import torch
from torch.optim import Optimizer

from scalewise.plan import PlanError

__all__ = ["followed", "refuse_another_law"]

_SMALL, _GREAT, _STEPS = 1e-3, 1e7, 12
_NEAR = 0.15  # how far a degree may be from a whole number


def followed(optimizer: Optimizer) -> str | None:
    """The law: ``"sgd"``, ``"adam"``, ``"adamw"``, or ``"either"`` of the latter where no weight decays.

    ``None`` if it is none of them or cannot be tried.

    Nothing of the optimizer itself is touched. Its updates are looked at: how they go with the gradient, with
    the weights, and whether an entry depends on others.

    Args:
        optimizer: With groups of the plan or any others.
    """
    try:
        small, great = (_degree(optimizer, g) for g in (_SMALL, _GREAT))
        if abs(great) > _NEAR and abs(small - 1) > _NEAR:
            return None
        corner = torch.tensor([[0.0, 0.0], [0.0, 1e3]])
        alone, beside = (_steps(optimizer, _SMALL * (1 + c)) for c in (0 * corner, corner))
        if not torch.isclose(alone[0, 0], beside[0, 0], rtol=1e-2):
            return None
        if abs(great - 1) <= _NEAR:
            return "sgd"
        decays = [_steps(optimizer, 0.0, weight=w) for w in (0.0, _GREAT, 2 * _GREAT)]
        one, two = (float((d - decays[0]).abs().max()) for d in decays[1:])
        # Without decay both are the same; added to a gradient that is normalised, it does not grow.
        return "either" if not one else "adamw" if two > 1.5 * one else "adam"
    except Exception:
        # Closures, sparse gradients, shapes of one's own: nothing is known of it.
        return None


def refuse_another_law(planned: str, optimizer: Optimizer) -> None:
    """Refuse an optimizer that moves otherwise than a plan says.

    Raises:
        PlanError: With the law that it follows, or that it follows none of those that a plan has rules for.
    """
    law, name = followed(optimizer), type(optimizer).__name__
    if law is None:
        raise PlanError(
            f"The plan is for {planned!r}, and {name} moves neither by the gradient of each entry nor by a fixed "
            "step of each: it normalises whole tensors, asks for a closure, or cannot be tried. The plan's "
            "learning rates are not for it."
        )
    if law == planned or (law == "either" and planned != "sgd"):
        return
    suits = '"adamw" or "adam"' if law == "either" else f'"{law}"'
    raise PlanError(
        f"The plan is for {planned!r}, but the optimizer is a {name}, which follows another law. Plan with "
        f"optimizer={suits}."
    )


def _degree(optimizer: Optimizer, gradient: float) -> float:
    one, ten = (float(_steps(optimizer, g).abs().max()) for g in (gradient, 10 * gradient))
    return math.log10(ten / one) if one and ten else math.nan


def _steps(optimizer: Optimizer, gradient: Any, *, weight: float = 0.0) -> torch.Tensor:
    """The change of a 2 x 2 matrix by the later of a few steps under one gradient."""
    p = torch.nn.Parameter(torch.full((2, 2), weight))
    without = ("params", "param_names")
    group = {k: v for k, v in optimizer.param_groups[0].items() if k not in without}
    rate = group["lr"]
    # A warm-up may start at zero.
    group["lr"] = torch.ones_like(rate) if isinstance(rate, torch.Tensor) else 1.0
    double = copy.copy(optimizer)
    double.param_groups = [copy.deepcopy(group) | {"params": [p]}]
    double.state = defaultdict(dict)
    total = torch.zeros(2, 2)
    for step in range(_STEPS):
        with torch.no_grad():
            p.fill_(weight)
        p.grad = torch.zeros(2, 2) + gradient
        double.step()
        if step >= _STEPS // 2:
            total += p.detach() - weight
    return total
