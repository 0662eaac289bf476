"""Constants tuned at the base: which tensors they are for, and a plan that carries them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from scalewise._checked import Must
from scalewise._words import listed, shown
from scalewise.plan._errors import PlanError
from scalewise.plan._names import matching, pattern
from scalewise.plan._roles import Kind, Role
from scalewise.plan._table import Constants, Plan, TensorPlan

SETTINGS = ("std", "lr", "weight_decay")
_ALIKE = 1e-3  # of a factor

ConstantsLike = Annotated[
    Mapping[str, Any] | None,
    Must(
        "a dictionary of constants by role, or by the name of a tensor or a module, such as "
        '{"output": 4, "embedding": {"std": 2, "lr": 0.5}}'
    ),
]

Said = dict[str, dict[str, float]]


def with_constants(plan: Plan, constants: Mapping[str, Any] | None) -> Plan:
    """A copy of the plan with these constants of the base.

    A key is a role (``"hidden"``, ``"output"``, ...), the name of a tensor or a pattern with stars, or the name
    of a module, which stands for its weights. A value is a factor of the standard deviation, or a dictionary of
    factors: ``std``, ``lr`` and ``weight_decay``. What several keys say of one tensor is multiplied.

    Args:
        plan: Any plan; constants that it has are replaced.
        constants: As the user says them; ``None`` for none.

    Raises:
        PlanError: If a key fits nothing, or a value is not a factor.

    Example:
        >>> import torch, scalewise as sw
        >>> plan = sw.torch.plan(
        ...     lambda width: torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 2)),
        ...     base={"width": 64}, target={"width": 256}, strategy=sw.scaling.mup(),
        ...     constants={"output": {"std": 2, "lr": 0.5}})
        >>> plan.factors("1.weight").lr, plan.table.powers("1.weight").lr
        (0.125, 0.25)
    """
    said = {key: _factors(key, value) for key, value in (constants or {}).items()}
    found = {t.name: Constants() for t in plan.tensors}
    for key, factors in said.items():
        rows = _chosen(plan, key)
        if factors.get("std", 1.0) != 1:
            _refuse_undrawn(key, rows)
        for row in rows:
            now = vars(found[row.name])
            found[row.name] = Constants(**{s: now[s] * factors.get(s, 1.0) for s in SETTINGS})
    tensors = tuple(replace(t, constants=found[t.name]) for t in plan.tensors)
    return replace(plan, tensors=tensors, constants=said, names={})


def combined(constants: Mapping[str, Any] | None, more: Mapping[str, Mapping[str, float]]) -> Said:
    """Constants times further ones, by key; factors of 1 are left out."""
    out = {key: dict(_factors(key, value)) for key, value in (constants or {}).items()}
    for key, factors in more.items():
        for setting, factor in factors.items():
            mine = out.setdefault(key, {})
            mine[setting] = mine.get(setting, 1.0) * factor
    kept = {key: {s: f for s, f in factors.items() if f != 1} for key, factors in out.items()}
    return {key: factors for key, factors in kept.items() if factors}


def _factors(key: str, value: Any) -> dict[str, float]:
    given = value if isinstance(value, Mapping) else {"std": value}
    for setting, factor in given.items():
        if setting not in SETTINGS:
            raise PlanError(
                f"`constants[{key!r}]` has factors of {listed([*map(repr, SETTINGS)])}; got {shown(setting)}."
            )
        least = "not negative" if setting == "weight_decay" else "positive"
        number = isinstance(factor, int | float) and not isinstance(factor, bool)
        fits = (
            number
            and math.isfinite(factor)
            and (factor > 0 or (least != "positive" and not factor))
        )
        if not fits:
            raise PlanError(
                f"`constants[{key!r}]` must be a finite factor, {least}, of {setting!r}; got {shown(factor)}."
            )
    return {str(s): float(f) for s, f in given.items()}


def _chosen(plan: Plan, key: str) -> list[TensorPlan]:
    """The tensors that a key stands for.

    Raises:
        PlanError: If there is none, or the key is a role and the name of something else.
    """
    names = {n for t in plan.tensors for n in (t.name, *t.aliases)}
    by_name = {plan[n].name for n in matching(key, names)}
    if not by_name:
        owners = set(matching(key, {t.owner for t in plan.tensors}))
        mine = [t for t in plan.tensors if t.owner in owners]
        weights = [t.name for t in mine if t.kind is not Kind.BIAS]
        by_name = set(weights or [t.name for t in mine])
    by_role = {t.name for t in plan.tensors if t.role == key}
    if by_name and by_role and by_name != by_role:
        raise PlanError(
            f"`constants` has {key!r}, which is a role and the name of a module. For the module say "
            f"{min(by_name)!r}."
        )
    if not by_name | by_role:
        roles = [repr(str(r)) for r in Role if any(t.role == r for t in plan.tensors)]
        raise PlanError(
            f"`constants` has {key!r}, which fits no tensor and no module. Roles are {', '.join(roles)}; names are "
            f"`{plan.tensors[0].name}`, ..., `{plan.tensors[-1].name}`."
        )
    return [t for t in plan.tensors if t.name in by_name | by_role]


def _refuse_undrawn(key: str, rows: list[TensorPlan]) -> None:
    if all(t.base.std == 0 for t in rows):
        raise PlanError(
            f"`constants` multiplies the standard deviation of {key!r}, but every entry of `{rows[0].name}` is the "
            "same as the factory leaves it. Let the factory draw it, or leave the constant out."
        )


def stds_of_kinds(factors: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Factors of standard deviations by names whose numbers are stars, so that further layers have them as well.

    Args:
        factors: By name of tensor, of all layers of some depth.

    Raises:
        PlanError: If names that differ by a number alone have different factors.

    Example:
        >>> from scalewise.plan._constants import stds_of_kinds
        >>> stds_of_kinds({"blocks.0.up": 2.0, "blocks.1.up": 2.0, "head": 0.5})
        {'blocks.*.up': {'std': 2.0}, 'head': {'std': 0.5}}
    """
    kinds: dict[str, dict[str, float]] = {}
    for name, factor in factors.items():
        kinds.setdefault(pattern(name), {})[name] = factor
    for alike in kinds.values():
        least, most = min(alike, key=alike.__getitem__), max(alike, key=alike.__getitem__)
        if alike[most] > alike[least] * (1 + _ALIKE):
            raise PlanError(
                f"`{least}` and `{most}` are to be drawn differently, and their names differ by a number alone, so "
                "the plan does not know which of them a further layer is like. Keep the depth of the base, or give "
                "layers of different kinds names of their own."
            )
    return {kind: {"std": sum(alike.values()) / len(alike)} for kind, alike in kinds.items()}
