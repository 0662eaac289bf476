"""Experts that are modules of their own: tensors that another number of them adds or takes away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scalewise.plan._axes import Compared, compared
from scalewise.plan._description import ModelDescription
from scalewise.plan._names import pattern

AXIS = "experts"


def with_mates(model: ModelDescription, like: ModelDescription) -> ModelDescription:
    """A model with the tensors of one that has more or fewer experts: each as another of its kind is.

    Args:
        model: What is known of the tensors.
        like: The model that has the names.
    """
    own = model.named()
    kinds = {pattern(t.name): t for t in reversed(model.tensors)}
    found = []
    for t in like.tensors:
        mate = own.get(t.name, kinds.get(pattern(t.name)))
        if mate is not None:
            found.append(replace(mate, name=t.name, owner=t.owner, aliases=t.aliases))
    return replace(model, tensors=tuple(found), aliases=like.aliases)


def more_of(one: ModelDescription, two: ModelDescription) -> frozenset[str]:
    """The tensors of which one model has more than another, all of a kind alike.

    Args:
        one: A model.
        two: The same with another number of experts.
    """
    many, other = (Counter(pattern(t.name) for t in m.tensors) for m in (one, two))
    return frozenset(
        t.name for t in one.tensors if 0 < other[pattern(t.name)] != many[pattern(t.name)]
    )


def at_targets_number(
    base: Mapping[str, Any], target: Mapping[str, Any], width: str, depth: str | None
) -> Compared:
    """The sizes to compare, all with the target's number of experts, so that every model has the same tensors.

    Args:
        base: All sizes at the base.
        target: All sizes at the target.
        width: Name of the width.
        depth: Name of the depth; ``None`` if there is none.
    """
    sizes = compared({**base, AXIS: target[AXIS]}, target, width, depth)
    others = {**sizes.others, AXIS: {**sizes.narrow, AXIS: base[AXIS]}}
    return replace(sizes, others=others)
