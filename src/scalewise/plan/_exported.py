r"""A plan as rows for other people's trainers: exact patterns of names, each with all settings of an optimizer.

A trainer that finds its parameters by patterns reads all that fit, or the first that fits. Neither may matter, so
a pattern here fits the names of its own row and no other name of the plan. Numbers of blocks become ``\d+`` (or
``*``) where every block of that kind is in the row, and are written out where not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from scalewise._readable import Rows, readable
from scalewise.plan._multiplier import Place
from scalewise.plan._names import pattern
from scalewise.plan._table import Plan

# What activation checkpointing and compilation put around a whole model and around blocks.
_WRAPPED = r"(?:_\w+_mod(?:ule)?\.)*"
_NUMBER = r"\d+"
_IN_MEGATRON = ("", "module.", "module.module.")


@dataclass(frozen=True)
@readable
class Exported:
    """Settings of a plan that a trainer can be given, and sentences on those that it cannot.

    Iterating it gives the groups.

    Args:
        groups: Plain dictionaries, for the trainer's own classes.
        left: A sentence for each thing that they cannot hold, with what to do.
    """

    groups: tuple[dict[str, Any], ...]
    left: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def _told(self) -> list[str | Rows]:
        keys = list(dict.fromkeys(k for g in self.groups for k in g))
        cells = [tuple(_cell(g.get(k, "")) for k in keys) for g in self.groups]
        return [Rows(tuple(keys), cells), *self.left]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_cell(v)}" for k, v in value.items())
    if isinstance(value, list | tuple) and not all(isinstance(v, int | float | str) for v in value):
        return f"{len(value)} tensors"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def with_aliases(plan: Plan, names: Iterable[str]) -> list[str]:
    """Names with the other names of tied tensors, by which a trainer may know them."""
    return [n for name in names for n in (plan[name].name, *plan[name].aliases)]


def regex(plan: Plan, names: Iterable[str]) -> str:
    """A regular expression that fits these tensors, wrapped or not, and no others of the plan.

    Args:
        plan: The plan.
        names: Names of tensors.
    """
    parts = [_expression(kind) if whole else re.escape(kind) for kind, whole in _kinds(plan, names)]
    body = parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"
    return f"^{_WRAPPED}{body}$"


def _expression(kind: str) -> str:
    out = ""
    for part in kind.split("."):
        dot = "" if not out else r"\." + _WRAPPED if out.endswith(_NUMBER) else r"\."
        out += dot + (_NUMBER if part == "*" else re.escape(part))
    return out


def globs(plan: Plan, names: Iterable[str]) -> tuple[str, ...]:
    """Patterns of `fnmatch` that fit these tensors and no others of the plan, with Megatron's prefixes.

    Args:
        plan: The plan.
        names: Names of tensors.
    """
    mine = set(with_aliases(plan, names))
    out: list[str] = []
    for kind, whole in _kinds(plan, names):
        # A star goes across dots, too.
        fits = {n for n in plan.names if fnmatchcase(n, kind)}
        if whole and fits <= mine:
            out.append(kind)
        elif whole:
            out += [_literal(n) for n in sorted(mine) if pattern(n) == kind]
        else:
            out.append(_literal(kind))
    return tuple(before + p for p in out for before in _IN_MEGATRON)


def _literal(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def _kinds(plan: Plan, names: Iterable[str]) -> list[tuple[str, bool]]:
    """Names up to numbers of blocks where all of that kind are here, and single names where not."""
    mine = with_aliases(plan, names)
    here, whole = set(mine), {}
    for n in plan.names:
        kind = pattern(n)
        whole[kind] = whole.get(kind, True) and n in here
    out: dict[tuple[str, bool], None] = {}
    for n in mine:
        kind = pattern(n)
        several = whole[kind] and kind != n
        out[(kind, True) if several else (n, False)] = None
    return list(out)


def left_to_draw(plan: Plan, trainer: str, when: str) -> tuple[str, ...]:
    """A sentence on the initialisation, which settings of an optimizer do not hold.

    Args:
        plan: The plan.
        trainer: What the trainer is called.
        when: When it has drawn its weights.
    """
    factors = {t.name: plan.factors(t.name).init for t in plan.tensors}
    far = max(factors, key=lambda n: abs(factors[n] - 1))
    if factors[far] == 1:
        return ()
    return (
        f"Groups hold no initialisation: call plan.init_(model) {when}. Without it {trainer} draws `{far}` "
        f"{1 / factors[far]:.4g} times as large as planned.",
    )


def unapplied(plan: Plan, multiplied: Iterable[str]) -> str:
    """A sentence on the first multiplier of the forward pass that nobody is said to apply; empty without one."""
    for m in plan.multipliers:
        if m.factor != 1 and m.name not in set(multiplied):
            call = (
                'plan.scale_(model, branches=["blocks.*.mlp"])'
                if m.place is Place.BRANCH
                else "plan.scale_(model)"
            )
            return (
                f"Settings of an optimizer cannot hold the multiplier {m.name!r} ({m.factor:.6g}): {m.where} If "
                f'the model\'s own code multiplies there, plan with multiplied=["{m.name}"]; if not, call {call} '
                "and give the exporter that model: model=model."
            )
    return ""
