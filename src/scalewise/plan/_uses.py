"""What a forward pass does with tensors of which no module speaks: evidence that takes the place of a question."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
        axes: Which axes are summed over or picked from; of a product with another tensor, which of that.
        of: Where rows were picked before, the axes that an index ran over.
        by: Of a product with another tensor of the model, which that is.
    """

    verb: Literal["summed", "multiplied", "added", "picked", "other"]
    axes: tuple[int, ...] = ()
    of: tuple[int, ...] = ()
    by: str = ""


def by_tensor(found: Iterable[tuple[str, Use]]) -> dict[str, frozenset[Use]]:
    """By name of tensor all ways in which it was used.

    Args:
        found: Names and uses, in any order.
    """
    out: dict[str, set[Use]] = {}
    for name, use in found:
        out.setdefault(name, set()).add(use)
    return {name: frozenset(uses) for name, uses in out.items()}


def explained(model: ModelDescription, uses: Uses) -> ModelDescription:
    """The model once uses say what bare tensors do, and what others do beside what their modules say.

    Bare tensors of unclear use stay unknown.

    Args:
        model: What modules say.
        uses: By name of tensor, seen at one depth; layers that are not there go by others of the same kind.
    """
    by_kind: dict[str, set[Use]] = {}
    for name, found in uses.items():
        by_kind.setdefault(pattern(name), set()).update(found)

    def of(t: TensorDescription) -> set[Use]:
        """Its own uses if it was seen: layers of a row have one pattern, whatever they are."""
        own = [set(uses[name]) for name in (t.name, *t.aliases) if name in uses]
        found = set().union(*own) if own else by_kind.get(pattern(t.name), set())
        return {_read(u, t) for u in found}

    places = model.named() | model.aliases

    def _read(use: Use, t: TensorDescription) -> Use:
        """Rows that a matrix of a module reads are put into the stream, as embeddings are."""
        by = places.get(use.by)
        read = by is not None and by.kind is Kind.MATRIX and by.fan_in == use.axes
        return Use("added") if read and t.kind is Kind.UNKNOWN else use

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
        return _told(t, of(t))

    told = ModelDescription(
        tuple(map(one, model.tensors)), {name: one(t) for name, t in model.aliases.items()}
    )
    again = {t.name: other for t in told.tensors if (other := _beside(t, told, of(t))) is not None}
    return replace(told, again=again)


def _beside(
    t: TensorDescription, model: ModelDescription, uses: Collection[Use]
) -> TensorDescription | None:
    """The other matrix that a tensor is, where the code sums over axes that no module sums over."""
    if t.kind not in (Kind.MATRIX, Kind.LOOKUP):
        return None
    # Rows that were picked are activations, and a sum over those is not a product with a matrix.
    found = {u.axes for u in uses if u.verb == "summed" and not u.of}
    places = [t, *(model.aliases[a] for a in t.aliases)]
    own = {axis for p in places if p.kind is Kind.MATRIX for axis in p.fan_in}
    other = [axes for axes in found if axes and not own & set(axes)]
    if len(other) != 1:
        return None
    (into,) = other
    out = tuple(i for i in range(len(t.shape)) if i not in into)
    return replace(t, kind=Kind.MATRIX, fan_in=into, fan_out=out, owner=t.name, aliases=())


def _both_ways(uses: Collection[Use]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The two sides of a matrix that the code sums over one after the other, as an encoder and its transpose.

    The tensor then stands in two places and is a module to neither, so it counts as its own owner.
    """
    sides = sorted({u.axes for u in uses})
    plain = all(u.verb == "summed" and u.axes and not u.of for u in uses)
    if not plain or len(sides) != 2 or set(sides[0]) & set(sides[1]):
        return None
    return sides[0], sides[1]


def _told(t: TensorDescription, uses: Collection[Use]) -> TensorDescription:
    # Rows that were picked are activations, whatever they are summed over; matrices of experts are not.
    rows = len(t.shape) < 3
    uses = {Use("picked", u.of) if u.of and rows else u for u in uses}
    verbs = {u.verb for u in uses}
    if verbs == {"added", "picked"}:
        # Rows of a codebook, which activations are compared with before one of them is picked.
        verbs, uses = {"picked"}, [u for u in uses if u.verb == "picked"]
    every = tuple(range(len(t.shape)))
    long = [i for i in every if t.shape[i] > 1]
    if len(verbs) != 1 and not (verbs == {"multiplied", "added"} and len(long) <= 1):
        return t
    axes = {u.axes for u in uses}
    if (two := _both_ways(uses)) is not None:
        return replace(t, kind=Kind.MATRIX, fan_in=two[0], fan_out=two[1], owner=t.name)
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
