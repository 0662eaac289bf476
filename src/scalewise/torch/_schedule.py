"""Whether a schedule keeps the ratios of learning rates that a plan rests on: measured on a copy."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from typing import Any

import torch
from torch.optim import Optimizer

from scalewise.plan import Plan, PlanError
from scalewise.torch._law import refuse_another_law

# Ratios may differ by rounding; below a thousandth of the largest rate they matter no more.
_ROUNDING, _SMALL = 1e-3, 1e-3
_NOUNS = {"lr": "the learning rate", "eps": "epsilon", "weight_decay": "the weight decay"}


def check(plan: Plan, optimizer: Optimizer, scheduler: Any, steps: int) -> None:
    """Run a copy of the scheduler on a copy of the learning rates, and compare the groups' ratios.

    Args:
        plan: The plan.
        optimizer: Made with the plan's groups.
        scheduler: Anything with `step` that sets the learning rates of this optimizer.
        steps: How many steps to run.

    Raises:
        PlanError: If ratios change, or the optimizer has other groups, or another law, than planned.
    """
    _of_the_plan(plan, optimizer)
    if getattr(scheduler, "optimizer", optimizer) is not optimizer:
        raise PlanError(
            f"The {type(scheduler).__name__} belongs to another optimizer than the one given with it."
        )
    planned = [g["base_lr"] * g["lr_factor"] for g in optimizer.param_groups]
    rates = _run(scheduler, optimizer, steps)
    largest, first, worst = 0.0, -1, (1.0 + _ROUNDING, -1)
    for step, now in enumerate(rates):
        shares = _shares(now, planned)
        largest = max(largest, *shares)
        # From one share to another, both of some size: the factor by which the ratio is wrong.
        wrong = max(shares) / max(min(shares), _SMALL * largest) if max(shares) else 1.0
        if wrong > 1 + _ROUNDING and max(shares) > _SMALL * largest:
            first = step if first < 0 else first
            worst = max(worst, (wrong, -step))
    if first >= 0:
        at = -worst[1]
        raise PlanError(_flattened(_name(scheduler), first, at, rates[at], planned, optimizer))


def _run(scheduler: Any, optimizer: Optimizer, steps: int) -> list[list[float]]:
    """The groups' learning rates, now and after each step, until the schedule ends."""
    double = _double(optimizer)
    twin = _copied(scheduler, {id(optimizer): double})
    # A schedule that waits for progress gets none: a constant measure of success.
    parameters = inspect.signature(twin.step).parameters.values()
    needed = [1.0 for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    rates = [[float(g["lr"]) for g in double.param_groups]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(steps):
            try:
                twin.step(*needed)
            except Exception:
                # Schedules of fixed length refuse to go on when they are over.
                if step == 0:
                    raise
                break
            rates.append([float(g["lr"]) for g in double.param_groups])
    return rates


def _shares(now: list[float], planned: list[float]) -> list[float]:
    """Learning rates in units of the planned ones; groups that do not learn share the others' fate."""
    shares = [a / b if b else math.nan for a, b in zip(now, planned, strict=True)]
    known = [x for x in shares if math.isfinite(x)]
    return [x if math.isfinite(x) else max(known, default=0.0) for x in shares]


def _of_the_plan(plan: Plan, optimizer: Optimizer) -> None:
    groups = optimizer.param_groups
    refuse_another_law(plan, optimizer)
    if not all("lr_factor" in g and "base_lr" in g for g in groups):
        raise PlanError(
            "The optimizer has groups that are not the plan's, so their learning rates are not scaled. "
            "Make it with plan.param_groups(model, ...)."
        )
    for key in ("lr", "eps", "weight_decay"):
        _not_overridden(optimizer, key)


def _not_overridden(optimizer: Optimizer, key: str) -> None:
    """Refuse a setting that the optimizer was given and no group uses, since each has its own."""
    given = optimizer.defaults.get(key)
    signature = inspect.signature(type(optimizer)).parameters
    usual = signature[key].default if key in signature else None
    base = f"base_{key}"  # what the plan's groups were made with
    used = sorted({g[base] for g in optimizer.param_groups if base in g})
    if not isinstance(given, int | float | torch.Tensor) or given == usual or not used:
        return
    if all(not math.isclose(float(given), value) for value in used):
        raise PlanError(
            f"The optimizer was given {key}={float(given):g}, which no group uses: they were made with "
            f"{', '.join(f'{key}={value:g}' for value in used)}. Give {_NOUNS[key]} to "
            f"plan.param_groups(model, {key}=...)."
        )


def _double(optimizer: Optimizer) -> Optimizer:
    """An optimizer with the same settings and no parameters to speak of."""
    groups = [
        {k: copy.deepcopy(v) for k, v in g.items() if k not in ("params", "param_names")}
        | {"params": [torch.zeros(())]}
        for g in optimizer.param_groups
    ]
    double = torch.optim.SGD(groups, lr=0.0)
    double.defaults = dict(optimizer.defaults)
    return double


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy in which the double stands for the optimizer, and schedulers in lists are copied too."""
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, list | tuple):
        return type(value)(_copied(v, memo) for v in value)
    if hasattr(value, "step") and hasattr(value, "__dict__"):
        twin = object.__new__(type(value))
        memo[id(value)] = twin
        vars(twin).update({k: _copied(v, memo) for k, v in vars(value).items()})
        return twin
    return copy.deepcopy(value, memo)


def _name(scheduler: Any) -> str:
    """The scheduler's class, with those it is made of."""
    parts = getattr(scheduler, "_schedulers", None)
    own = type(scheduler).__name__
    return f"{own} of {', '.join(_name(s) for s in parts)}" if parts else own


def _flattened(
    name: str, first: int, at: int, now: list[float], planned: list[float], optimizer: Optimizer
) -> str:
    shares = _shares(now, planned)
    low, high = shares.index(min(shares)), shares.index(max(shares))
    one, two = (optimizer.param_groups[i].get("name", f"group {i}") for i in (high, low))
    before, after = planned[high] / planned[low], now[high] / now[low] if now[low] else math.inf
    return (
        f"{name} changes the ratios between groups, from step {first} on: at step {at} the learning rate "
        f"of {one!r} is {after:.4g} times that of {two!r}, and the plan says {before:.4g}. A bound or a "
        "peak that is the same for all groups does that. Give one for each group (a list, made from each "
        "group's lr), leave it 0, or use a schedule that multiplies, such as LambdaLR."
    )
