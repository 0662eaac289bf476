"""The one optional wrapper: multipliers that no initialisation or learning rate can stand for, as hooks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from scalewise.plan import Place, Plan, PlanError
from scalewise.plan.spi import matching
from scalewise.torch._check import modules_of, of_the_plan


@dataclass(frozen=True)
class ScaledInput:
    """A hook that multiplies what enters a module."""

    factor: float

    def __call__(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (args[0] * self.factor, *args[1:]), kwargs
        first = next(k for k, v in kwargs.items() if isinstance(v, torch.Tensor))
        return args, kwargs | {first: kwargs[first] * self.factor}


@dataclass(frozen=True)
class ScaledOutput:
    """A hook that multiplies what a module returns, or the first tensor of it."""

    factor: float

    def __call__(self, _: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        if isinstance(output, tuple):
            return (output[0] * self.factor, *output[1:])
        return output * self.factor


def apply_multipliers(
    plan: Plan,
    model: nn.Module,
    branches: Collection[str],
    applied: Collection[str],
    multiplied: Collection[str] = (),
) -> None:
    """Register the hooks, none where a factor is 1 or a module has its hook already.

    Args:
        plan: The plan.
        model: A model of the target's size.
        branches: Patterns of the modules whose output is a residual branch.
        applied: Names of the multipliers that the model applies itself.
        multiplied: The same, as it was said when the plan was made.

    Raises:
        PlanError: If a multiplier is left that nobody applies, a name fits nothing, or nothing is left to scale.
    """
    of_the_plan(plan, model)
    modules = modules_of(plan, model)
    factors = {m.name: m.factor for m in plan.multipliers}
    if unknown := sorted(set(applied) - factors.keys()):
        raise PlanError(
            f"`applied` names {unknown[0]!r}, but the plan has "
            f"{', '.join(map(repr, factors)) or 'no multiplier'}."
        )
    own = [n for n in factors if n in multiplied and n in modules]
    if own and not factors.keys() - set(multiplied) - set(applied):
        raise PlanError(
            f"The plan was made with multiplied={own!r}, so the model's own forward pass multiplies there and "
            "no hook is needed. If it does not, leave the name out of `multiplied`, and scale_ applies it."
        )
    todo: list[tuple[nn.Module, str, ScaledInput | ScaledOutput]] = []
    for m in plan.multipliers:
        name, factor = m.name, m.factor
        if factor == 1 or name in applied or name in multiplied:
            continue
        if m.place is Place.BRANCH:
            ends = _branches(branches, modules)
            todo += [(modules[n], n, ScaledOutput(factor)) for n in ends]
        elif m.place is Place.READOUT and name in modules:
            todo.append((modules[name], name, ScaledInput(factor)))
        else:
            raise PlanError(
                f"The multiplier {name!r} ({factor:.6g}) stands inside a module's own code, where no hook "
                f'reaches. Apply it there, and say so with applied=["{name}"].'
            )
    for module, name, hook in todo:
        if not _has(module, name, hook):
            _register(module, hook)


def refuse_unscaled(plan: Plan, model: nn.Module, multiplied: Collection[str]) -> None:
    """Refuse a model to which nobody applies a multiplier of the plan, such as one that was just loaded.

    Args:
        plan: The plan.
        model: A model of the target's size, wrapped or not.
        multiplied: Names of the multipliers that its own code applies.

    Raises:
        PlanError: With the first one that is missing.
    """
    modules = modules_of(plan, model)
    for m in plan.multipliers:
        if m.factor == 1 or m.name in multiplied:
            continue
        branch = m.place is Place.BRANCH
        places = list(modules.values()) if branch else []
        if m.place is Place.READOUT and m.name in modules:
            places = [modules[m.name]]
        kind = ScaledOutput if branch else ScaledInput
        if not any(type(h) is kind for module in places for h in _hooks(module)):
            call = (
                'plan.scale_(model, branches=["blocks.*.mlp"])' if branch else "plan.scale_(model)"
            )
            raise PlanError(
                f"Nothing multiplies by {m.factor:.6g} where the plan has the multiplier {m.name!r}: {m.where} "
                f"Call {call} first, also after loading a checkpoint, which holds no hooks; or, if the model's "
                f'own code multiplies there, plan with multiplied=["{m.name}"].'
            )


def _branches(patterns: Collection[str], modules: dict[str, nn.Module]) -> list[str]:
    if not patterns:
        raise PlanError(
            "The plan has a residual multiplier, and which modules are branches is not known. Name them, "
            'as branches=["blocks.*.mlp"], or say that the model multiplies them itself: '
            'applied=["residual"].'
        )
    out: list[str] = []
    for wanted in patterns:
        found = matching(wanted, modules)
        if not found:
            raise PlanError(f"`branches` names {wanted!r}, which fits no module.")
        out += [n for n in found if n not in out]
    return out


def _has(module: nn.Module, name: str, hook: ScaledInput | ScaledOutput) -> bool:
    """True if a module is scaled already, and by the same factor."""
    mine = [h for h in _hooks(module) if type(h) is type(hook)]
    if mine and mine != [hook]:
        raise PlanError(
            f"`{name}` is multiplied already, by another factor than {hook.factor:.6g}. Build the model "
            "anew for this plan."
        )
    return bool(mine)


def _hooks(module: nn.Module) -> list[Any]:
    return [*module._forward_pre_hooks.values(), *module._forward_hooks.values()]


def _register(module: nn.Module, hook: ScaledInput | ScaledOutput) -> None:
    if isinstance(hook, ScaledInput):
        module.register_forward_pre_hook(hook, with_kwargs=True)
    else:
        module.register_forward_hook(hook)
