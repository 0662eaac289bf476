"""Experts: tensors that another number of them adds, and what must be asked where that number is no size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scalewise.plan._axes import Compared, compared
from scalewise.plan._description import ModelDescription
from scalewise.plan._forward import Forward, Passes
from scalewise.plan._names import pattern
from scalewise.plan._probed import Probe
from scalewise.plan._questions import Question
from scalewise.plan._request import Request

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


def experts_asked(probe: Probe, request: Request) -> list[Question]:
    """Questions about experts that must be answered before a plan can be made.

    Each of $E$ experts sees one part in $E$ of the samples, which changes its gradient and no shape shows: so
    their number is a size of its own, for which there is a rule (`scalewise.plan._axes`). A sum over $k$ chosen
    ones, each multiplied by $1/k$, starts at $k^{-1/2}$ and moves at order one, and no rule is known for it.

    Args:
        probe: The model at the sizes to compare.
        request: What the user asks for.
    """
    if request.strategy.plain_biases:
        return []
    return [] if probe.passes is None else _of_width(probe.passes, request)[:1]


def _of_width(passes: Passes, request: Request) -> list[Question]:
    base, width = request.base, request.width
    other = float(passes.ratio * base[width])
    asked = _more_chosen(passes.narrow, passes.wide, f"from {width} = {base[width]} to {other:g}")
    for (place, one, _), (_, two, _) in zip(
        passes.narrow.choices, passes.wide.choices, strict=False
    ):
        if one != two:
            text = (
                f"In {_named(place)} each sample goes to a few of {one} experts at {width} = {base[width]} and "
                f"of {two} at {other:g}: each expert of the wider network sees fewer of the samples, which is no "
                "matter of the width. Let the factory take their number as an argument and give it in `base` and "
                f'`target`, such as base={{"{width}": {base[width]}, "experts": {one}}}.'
            )
            return [*asked, Question(text)]
    return asked


def _more_chosen(one: Forward, two: Forward, where: str) -> list[Question]:
    for (place, _, few), (_, _, more) in zip(one.choices, two.choices, strict=False):
        if few != more:
            text = (
                f"In {_named(place)} a sample goes to {few} experts, and to {more} {where}. A sum over more "
                "experts starts smaller and moves no less, and no rule for it is known: choose as many at every "
                "size."
            )
            return [Question(text)]
    return []


def _named(place: str) -> str:
    return f"`{place}`" if place else "the model"
