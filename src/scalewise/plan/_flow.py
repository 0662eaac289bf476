r"""What a forward pass multiplies by, followed from operation to operation; no framework, no array.

An adapter watches the operations of one pass and tells each to a `Flow`. What it keeps of an array is which
weights (and products of arrays) it is a sum of, and by what number each has been multiplied since: enough to
know the scale of attention logits, and the multipliers that stand in the model's own code.

An array made by a norm, or by anything that is not linear, has entries of order one. A norm by the root of a
*sum* of squares has entries of order $m^{-1/2}$, and so has an array that is divided by $\sqrt m$: sizes are
carried through squares, sums, roots and quotients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from scalewise.plan._forward import Attention, Forward, Multiplied

_CLOSE = 1e-6


@dataclass(frozen=True)
class Source:
    """Where a part of an array comes from.

    Args:
        kind: ``"weight"`` (what a tensor writes), ``"lookup"`` (rows of one), ``"product"`` of two arrays summed
            over an axis, ``"pair"`` of two arrays entry by entry, ``"square"``, or ``"other"``.
        name: The tensor's, if it is one.
        index: Tells sources without a name apart.
    """

    kind: str
    name: str = ""
    index: int = 0


@dataclass(frozen=True)
class Value:
    """What is known of an array.

    Args:
        parts: What it is a sum of, and what each has been multiplied by.
        data: Whether it depends on the model's input, or on weights alone.
        made: Whether weights were multiplied with each other to make it: learnt queries, or a merged weight.
    """

    parts: Mapping[Source, float] = field(default_factory=dict)
    data: bool = True
    made: bool = False

    @property
    def size(self) -> float:
        """The size of its entries, if those of all its sources are of order one."""
        parts = (abs(f) for s, f in self.parts.items() if s.kind != "product")
        return max(parts, default=1.0)

    @property
    def told(self) -> float:
        """The same once the tensors of the model stand for what multiplies them."""
        parts = (1.0 if s.name else abs(f) for s, f in self.parts.items() if s.kind != "product")
        return max(parts, default=1.0)


@dataclass(frozen=True)
class _Edge:
    """A source met an operation: a weight that is linear in it, or anything else (no `into`)."""

    call: int
    source: Source
    factor: float
    into: Source | None
    before: float  # the part of the factor that was there when the module was called


class Flow:
    """One forward pass as it is watched.

    Args:
        place: Name of the module whose code runs; the adapter keeps it.
        entries: For each module that is running what it was given.
    """

    def __init__(self) -> None:
        self.place = ""
        self.entries: dict[str, Value] = {}
        self._numbers = count(1)
        self._made: dict[Source, tuple[str, int]] = {}
        self._born: dict[Source, float] = {}
        self._scales: dict[Source, float] = {}
        self._pairs: dict[Source, tuple[Value, Value]] = {}
        self._edges: list[_Edge] = []
        self._inside: dict[Source, float] = {}

    def new(self, kind: str = "other", size: float = 1.0) -> Value:
        """The result of an operation that begins something new."""
        return Value({Source(kind, index=next(self._numbers)): size})

    def weight(self, name: str) -> Value:
        """A tensor of the model."""
        return Value({Source("weight", name): 1.0}, data=False)

    def scaled(self, value: Value, factor: float) -> Value:
        """An array times a number."""
        return replace(value, parts={s: f * factor for s, f in value.parts.items()})

    def joined(self, values: Iterable[Value]) -> Value:
        """A sum, or arrays put together."""
        found, parts = list(values), {}
        for value in found:
            for source, factor in value.parts.items():
                parts[source] = max(parts.get(source, 0.0), factor, key=abs)
        return Value(parts, any(v.data for v in found), any(v.made for v in found))

    def looked_up(self, value: Value) -> Value:
        """Rows of a tensor, picked by index."""
        parts = {
            Source("lookup", s.name) if s.kind == "weight" else s: f for s, f in value.parts.items()
        }
        return Value(parts)

    def contracted(self, one: Value, two: Value, length: int, *, batched: bool = False) -> Value:
        """A product summed over an axis: a layer, or a product of two arrays.

        Args:
            one: The first.
            two: The second.
            length: Of the axis.
            batched: Whether there is one product for each of several samples or heads.
        """
        if not (one.data or two.data):
            both = self.joined([self.scaled(one, two.size), self.scaled(two, one.size)])
            return replace(both, made=True)
        if (one.data and two.data) or (batched and (one.made or two.made)):
            self._opened(one, two)
            return self._product(one.size * two.size, length)
        given, weights = (one, two) if one.data else (two, one)
        if weights.made:
            return self.bent([given])
        for source in weights.parts:
            self._meet(given, source)
        return Value(dict(weights.parts))

    def _product(self, size: float, length: int) -> Value:
        product = self.new("product", size)
        source = next(iter(product.parts))
        self._made[source], self._born[source] = (self.place, length), size
        return product

    def multiplied(self, one: Value, two: Value, *, related: bool = False) -> Value:
        """Two arrays entry by entry; where one of them is a weight the adapter scales instead.

        What multiplies either stays open until it is known whether the pairs are summed, as queries and keys are.

        Args:
            one: The first.
            two: The second.
            related: Whether one is made of the other, as in a norm or a gate: then no sum makes a product of them.
        """
        size = one.told * two.told
        if related:
            self.bent([one, two])
            return self.new(size=size)
        pair = self.new("pair", size)
        self._pairs[next(iter(pair.parts))] = (one, two)
        return pair

    def _opened(self, *values: Value) -> None:
        """Pairs that are used as they are: what multiplied their factors belongs to those."""
        for value in values:
            for source in value.parts:
                self.bent(self._pairs.pop(source, ()))

    def summed(self, value: Value, length: int) -> Value:
        """A sum over axes of the array: of pairs it is a product, of squares it is large."""
        kinds = {s.kind for s in value.parts}
        if kinds == {"pair"} and len(value.parts) == 1:
            ((source, factor),) = value.parts.items()
            one, two = self._pairs.get(source, (value, Value()))
            whole = one.size * two.size / (one.told * two.told or 1.0)
            return self._product(factor * whole if source in self._pairs else value.size, length)
        return self.scaled(value, float(length)) if kinds == {"square"} else value

    def powered(self, value: Value, power: float) -> Value:
        """A power, entry by entry."""
        self.bent([value])
        kind = "square" if power == 2 else "other"
        return replace(self.new(kind, value.told**power if value.told else 1.0), data=value.data)

    def normed(self, value: Value, length: int) -> Value:
        """The root of the sum of squares over axes."""
        self.bent([value])
        return replace(self.new(size=value.told * length**0.5), data=value.data)

    def bent(self, values: Iterable[Value], *, saturating: bool = False) -> Value:
        """Anything that is not linear; `saturating` if it tells large from small, as a softmax does."""
        data = False
        for value in values:
            data = data or value.data
            self._meet(value, None)
            for source, factor in value.parts.items():
                if saturating and source.kind == "product":
                    old = self._scales.get(source, 0.0)
                    self._scales[source] = max(old, abs(factor))
        return replace(self.new(), data=data)

    def capped(self, value: Value) -> Value:
        """A soft bound: not linear, but what enters a softmax afterwards is still the product."""
        products = {s: f for s, f in value.parts.items() if s.kind == "product"}
        return self.joined([self.bent([value]), Value(products, value.data)])

    def left(self, module: str, value: Value) -> None:
        """A module returned: what its own tensors were multiplied by inside it."""
        for source, factor in value.parts.items():
            if source.name.rpartition(".")[0] == module and source.name:
                self._inside[source] = factor

    def _meet(self, value: Value, into: Source | None) -> None:
        self._opened(value)
        call, given = next(self._numbers), self.entries.get(self.place, Value())
        for source, factor in value.parts.items():
            if source.kind != "product":
                before = given.parts.get(source, 1.0)
                self._edges.append(_Edge(call, source, factor, into, before))

    def saturated(self) -> list[tuple[Source, str, float]]:
        """Products that entered a softmax: where they were made, and what multiplied them on the way there."""
        found = sorted(self._scales.items(), key=_order)
        return [(s, self._made[s][0], scale / (self._born[s] or 1.0)) for s, scale in found]

    def summary(self) -> Forward:
        """What was found. A factor between two weights counts for the one that all of its uses share."""
        after: dict[Source, float] = {}
        for e in self._edges:
            if e.into is None and e.source.name:
                after[e.source] = max(after.get(e.source, 0.0), e.factor, key=abs)

        def known(source: Source) -> float:
            # What a tensor was multiplied by when its module returned, unless more was seen of it.
            return after.get(source) or self._inside.get(source) or 1.0

        into: dict[Source, tuple[float, float]] = {}
        calls: dict[int, list[_Edge]] = {}
        for e in self._edges:
            if e.into is not None:
                calls.setdefault(e.call, []).append(e)
        for edges in calls.values():
            ratios = [e.factor / known(e.source) for e in edges]
            common = max(ratios, key=abs)
            target = edges[0].into
            assert target is not None
            if all(abs(r - common) <= _CLOSE * abs(common) for r in ratios):
                before = edges[0].before / known(edges[0].source)
                into[target] = max(into.get(target, (0.0, 0.0)), (abs(common), abs(before)))
                continue
            for e in edges:
                after[e.source] = max(after.get(e.source, 0.0), e.factor, key=abs)
        found: dict[str, dict[str, Multiplied]] = {"weight": {}, "lookup": {}}
        for source in {*after, *into, *self._inside}:
            if source.name:
                inside = abs(self._inside.get(source, 1.0)) or 1.0
                total, before = into.get(source, (1.0, 1.0))
                out = abs(known(source)) / inside
                found[source.kind][source.name] = Multiplied(before, inside * total / before, out)
        attentions = tuple(
            Attention(*self._made[s], scale)
            for s, scale in sorted(self._scales.items(), key=_order)
        )
        return Forward(attentions, found["weight"], found["lookup"])


def _order(item: tuple[Source, float]) -> int:
    return item[0].index
