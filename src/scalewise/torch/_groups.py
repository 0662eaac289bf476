"""Parameter groups: plain dictionaries for any optimizer that reads them, as few as there can be."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from scalewise.plan import Plan, PlanError, groups
from scalewise.plan._names import bare, matching
from scalewise.torch._check import of_the_plan

__all__ = ["OPTIMIZERS", "parameter_groups"]

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}
_OWN = ("params", "name", "base_lr", "base_eps", "base_weight_decay", "lr_factor")


def parameter_groups(
    plan: Plan, model: nn.Module, groups: Iterable[Mapping[str, Any]], defaults: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """One dictionary for every set of parameters with the same settings.

    Args:
        plan: The plan.
        model: A model of the target's size, wrapped or not; its frozen parameters are left out.
        groups: The user's own groups, each with settings of its own.
        defaults: Settings of all others.

    Raises:
        PlanError: If a setting is none, or the groups overlap or name what is not there.
    """
    named = {n: p for n, p in of_the_plan(plan, model).items() if p.requires_grad}
    if not named:
        raise PlanError(
            "Every parameter of the model is frozen (requires_grad=False), so there is nothing to train."
        )
    once = {id(p): n for n, p in reversed(named.items())}
    rest = list(reversed(once.values()))
    out: list[dict[str, Any]] = []
    taken: set[str] = set()
    for number, group in enumerate(groups):
        settings = {k: v for k, v in group.items() if k != "params"}
        mine = _selected(group, number, plan, model, once)
        if twice := taken & mine:
            raise PlanError(f"Two of the `groups` hold `{min(twice)}`; each parameter goes in one.")
        taken |= mine
        label = str(settings.pop("name", f"group {number}"))
        out += _split(plan, named, [n for n in rest if n in mine], dict(defaults) | settings, label)
    return out + _split(plan, named, [n for n in rest if n not in taken], defaults, "")


def _selected(
    group: Mapping[str, Any], number: int, plan: Plan, model: nn.Module, once: Mapping[int, str]
) -> set[str]:
    """Names of the parameters that one of the user's groups holds."""
    if "params" not in group:
        raise PlanError(f'`groups[{number}]` has no "params": parameters, names or patterns.')
    wanted = group["params"]
    items = [wanted] if isinstance(wanted, str | torch.Tensor) else list(wanted)
    everywhere = {id(p) for p in model.parameters()}
    out: set[str] = set()
    for item in items:
        found = item[1] if isinstance(item, tuple) else item
        if isinstance(found, torch.Tensor):
            if id(found) not in everywhere:
                raise PlanError(
                    f"`groups[{number}]` holds a tensor of shape {tuple(found.shape)} that is not a parameter "
                    "of the model."
                )
            out |= {once[id(found)]} if id(found) in once else set()
            continue
        hits = matching(bare(str(found), plan.names), plan.names)
        if not hits:
            raise PlanError(
                f"`groups[{number}]` names {found!r}, which fits no parameter of the model."
            )
        rows = {plan[n].name for n in hits}
        out |= {n for n in once.values() if plan[n].name in rows}
    return out


def _split(
    plan: Plan,
    named: Mapping[str, nn.Parameter],
    names: list[str],
    given: Mapping[str, Any],
    label: str,
) -> list[dict[str, Any]]:
    settings = _complete(plan, given)
    lr, eps, decay = settings["lr"], settings.get("eps"), settings["weight_decay"]
    out = []
    for g in groups(plan, names, eps=1.0 if eps is None else float(eps), weight_decay=float(decay)):
        group: dict[str, Any] = {"params": [named[n] for n in g.tensors]}
        # A tensor is shared by whoever is handed it: each group gets one of its own.
        group["lr"] = lr.detach().clone() * g.lr if isinstance(lr, torch.Tensor) else lr * g.lr
        if eps is not None:
            group["eps"] = g.eps
        group["weight_decay"] = g.weight_decay
        group["name"] = f"{label}: {g.name}" if label else g.name
        # What check_schedule compares with: schedulers overwrite everything else they find.
        group |= {"base_lr": float(lr), "lr_factor": g.lr, "base_weight_decay": float(decay)}
        group |= {} if eps is None else {"base_eps": float(eps)}
        out.append(group | {k: v for k, v in settings.items() if k not in group})
    return out


def _complete(plan: Plan, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with PyTorch's own defaults where the user says nothing."""
    odd = [k for k in given if k in _OWN]
    if odd:
        raise PlanError(f"`{odd[0]}` is set by the plan and cannot be given.")
    wanted = ["lr", "weight_decay"] if plan.optimizer == "sgd" else ["lr", "eps", "weight_decay"]
    settings = {k: v for k, v in given.items() if v is not None}
    if "eps" in settings and "eps" not in wanted:
        raise PlanError(
            "Gradient descent has no `eps`; leave it out, or plan for 'adam' or 'adamw'."
        )
    if isinstance(settings.get("eps"), tuple | list):
        raise PlanError(
            f"`eps` must be one number; got {settings['eps']!r}. A pair is Adafactor's, which multiplies each "
            f"step by the size of its tensor; the plan's rules for {plan.optimizer!r} are not those of such "
            "an optimizer."
        )
    if "lr" not in settings:
        # An optimizer's own `lr` argument does not reach groups that have one: nothing may stand in for it.
        raise PlanError(
            "`lr` is the learning rate tuned at the base and must be given to plan.param_groups; got None."
        )
    parameters = inspect.signature(OPTIMIZERS[plan.optimizer]).parameters
    for key in wanted:
        value = settings.setdefault(key, parameters[key].default)
        if not (math.isfinite(number := _number(value)) and number >= 0):
            raise PlanError(f"`{key}` must be a finite number, not negative; got {value!r}.")
    return settings


def _number(value: Any) -> float:
    """The value of a setting, NaN if it is not a number."""
    single = isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex()
    if isinstance(value, bool) or not (single or isinstance(value, numbers.Real)):
        return math.nan
    return float(value)
