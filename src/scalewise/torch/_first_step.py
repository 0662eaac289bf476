"""The first steps of an optimizer, seen by letting a double of it move small matrices."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from scalewise.torch._law import kinds_of

_STEPS = 24  # until the second moments of Adam are a fortieth full
_TOO_LARGE = 1.5
_ALIKE = 1e-2


def uncorrected(optimizer: Optimizer) -> tuple[float, float] | None:
    """The first and the largest of the first steps, in learning rates, of an Adam without bias correction.

    It is one if steps do not depend on the size of a gradient that stays the same, and if they begin larger than
    the learning rate and change while the gradient does not. ``None`` of any other.

    Args:
        optimizer: Nothing of it is touched.
    """
    for group in kinds_of(optimizer):
        try:
            one, ten = (_walk(optimizer, group, g) for g in (1e-2, 1e-1))
        except Exception:  # one that asks for a closure, or for its own tensors
            continue
        same = all(abs(a - b) <= _ALIKE * abs(a) for a, b in zip(one, ten, strict=True))
        if same and one[0] > _TOO_LARGE and max(one) > (1 + _ALIKE) * min(one):
            return one[0], max(one)
    return None


def _walk(optimizer: Optimizer, of: Mapping[str, Any], gradient: float) -> list[float]:
    """The size of each step under one gradient, with the learning rate 1."""
    p = torch.nn.Parameter(torch.zeros(2, 2))
    group = {k: v for k, v in of.items() if k not in ("params", "param_names")}
    rate = group["lr"]
    group["lr"] = torch.ones_like(rate) if isinstance(rate, torch.Tensor) else 1.0
    group |= {"weight_decay": 0.0} if "weight_decay" in group else {}
    double = copy.copy(optimizer)
    own = {k: v for k, v in vars(optimizer).items() if k not in vars(double) and k != "step"}
    vars(double).update({k: copy.copy(v) for k, v in own.items()})
    double.param_groups = [copy.deepcopy(group) | {"params": [p]}]
    double.state = defaultdict(dict)
    sizes = []
    for _ in range(_STEPS):
        with torch.no_grad():
            p.zero_()
        p.grad = torch.full((2, 2), gradient)
        double.step()
        sizes.append(float(p.detach().abs().mean()))
    return sizes
