"""What a forward pass does with tensors of which no module speaks: evidence that takes the place of a question."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from scalewise.plan._description import ModelDescription, TensorDescription
from scalewise.plan._names import pattern
from scalewise.plan._roles import Kind

Uses = Mapping[str, Collection["Use"]]


@dataclass(frozen=True)
class Use:
    """One way in which an operation used a tensor.

    Args:
        verb: ``"summed"`` over some of its axes against what the network computes, ``"multiplied"`` entry by entry
            with it, ``"added"`` to it or put beside it, ``"picked"`` from by an index; or ``"other"``.
        axes: Which axes are summed over or picked from.
    """

    verb: Literal["summed", "multiplied", "added", "picked", "other"]
    axes: tuple[int, ...] = ()


def explained(model: ModelDescription, uses: Uses) -> ModelDescription:
    """The same model, where uses say what bare tensors do; those of unclear use stay unknown.

    Args:
        model: What modules say.
        uses: By name of tensor, seen at one depth; layers that are not there go by others of the same kind.
    """
    by_kind: dict[str, set[Use]] = {}
    for name, found in uses.items():
        by_kind.setdefault(pattern(name), set()).update(found)

    # A tensor that a module explains under another of its names: what the model does is what that module does.
    spoken = {
        name
        for t in model.tensors
        for name in (t.name, *t.aliases)
        if any(model.aliases[a].kind is not Kind.UNKNOWN for a in t.aliases)
    }

    def one(t: TensorDescription) -> TensorDescription:
        if t.kind is not Kind.UNKNOWN or t.name in spoken:
            return t
        return _told(t, by_kind.get(pattern(t.name), set()))

    aliases = {name: one(t) for name, t in model.aliases.items()}
    return ModelDescription(tuple(map(one, model.tensors)), aliases)


def _told(t: TensorDescription, uses: Collection[Use]) -> TensorDescription:
    verbs = {u.verb for u in uses}
    every = tuple(range(len(t.shape)))
    long = [i for i in every if t.shape[i] > 1]
    if len(verbs) != 1 and not (verbs == {"multiplied", "added"} and len(long) <= 1):
        return t
    axes = {u.axes for u in uses}
    if "multiplied" in verbs or (verbs == {"added"} and len(long) <= 1):
        return replace(t, kind=Kind.GAIN, fan_out=every)
    if verbs == {"added"}:
        # Rows for positions, each as long as what it is added to.
        axes = {tuple(i for i in every if i != every[-1])}
    if verbs == {"other"} or len(axes) != 1:
        return t
    (into,) = axes
    kind = Kind.MATRIX if verbs == {"summed"} else Kind.LOOKUP
    return replace(t, kind=kind, fan_in=into, fan_out=tuple(i for i in every if i not in into))
