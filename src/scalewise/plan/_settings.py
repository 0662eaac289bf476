"""From a plan to optimiser settings: as few groups as possible, each with a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scalewise._readable import readable
from scalewise.plan._roles import Role
from scalewise.plan._table import Plan


@dataclass(frozen=True)
@readable
class SettingsGroup:
    """Tensors that share all their settings.

    Args:
        name: The roles in it, as ``"hidden"`` or ``"input+vector"``; numbered if that is not unique.
        lr: Factor of the learning rate.
        eps: Epsilon, or its factor.
        weight_decay: Weight decay, or its factor.
        tensors: Names, as they were asked for.
        optimizer: Name of what trains them.
        beta1: Factor of one minus the decay rate of the first moment.
        beta2: The same of the second.
    """

    name: str
    lr: float
    eps: float
    weight_decay: float
    tensors: tuple[str, ...]
    optimizer: str
    beta1: float = 1.0
    beta2: float = 1.0


def groups(
    plan: Plan, names: Iterable[str], *, eps: float = 1.0, weight_decay: float = 1.0
) -> list[SettingsGroup]:
    """Sort tensors into groups of equal settings.

    Args:
        plan: The plan.
        names: Names of tensors, with or without the prefixes of wrappers.
        eps: Epsilon at the base; with 1 the groups hold factors.
        weight_decay: The same of the weight decay. A 0 stays 0 and tells no groups apart.

    Returns:
        The groups, in the order in which their first tensors come.

    Raises:
        PlanError: If the plan has no tensor of that name.
    """
    members: dict[tuple[str, ...], tuple[tuple[float, ...], list[str]]] = {}
    for name in names:
        f = plan.factors(name)
        settings = (f.lr, eps * f.eps, weight_decay * f.weight_decay, f.beta1, f.beta2)
        # Roots of different sides round differently, and a group for a rounding is one too many.
        key = (plan[name].optimizer, *(f"{x:.13g}" for x in settings))
        members.setdefault(key, (settings, []))[1].append(name)
    out: list[SettingsGroup] = []
    for (optimizer, *_), ((lr, epsilon, decay, *betas), mine) in members.items():
        roles = {plan[n].role for n in mine}
        name = "+".join(r for r in Role if r in roles)
        taken = sum(g.name.split("#")[0] == name for g in out)
        label = f"{name}#{taken + 1}" if taken else name
        out.append(
            SettingsGroup(
                label, lr, epsilon, decay, tuple(mine), optimizer, beta1=betas[0], beta2=betas[1]
            )
        )
    return out
