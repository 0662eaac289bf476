r"""What a forward pass multiplies by, followed from operation to operation; no framework, no array.

An adapter watches the operations of one pass and tells each to a `Flow`. What it keeps of an array is which
weights (and products of arrays) it is a sum of, and by what number each has been multiplied since: enough to
know the scale of attention logits, and the multipliers that stand in the model's own code.

An array made by a norm, or by anything that is not linear, has entries of order one. A norm by the root of a
*sum* of squares has entries of order $m^{-1/2}$, and so has an array that is divided by $\sqrt m$: sizes are
carried through squares, sums, roots and quotients.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count

from scalewise.plan._choices import Choices
from scalewise.plan._forward import Attention, Forward, Multiplied
from scalewise.plan._uses import Use
from scalewise.plan._values import STILL, Source, Trail, Value

_CLOSE = 1e-6


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
        self._pairs: dict[Source, tuple[Value, ...]] = {}
        self._edges: list[_Edge] = []
        self._inside: dict[Source, float] = {}
        self._felt: dict[Source, float] = {}
        self._distances: dict[Source, tuple[Value, ...]] = {}
        self._roots: dict[Source, tuple[frozenset[Source], float]] = {}
        self._normed: set[str] = set()
        self._directed: set[str] = set()
        self._squares: dict[Source, Source] = {}
        self._lengths: dict[Source, int] = {}
        self._over: dict[Source, frozenset[int]] = {}
        self._centres: set[str] = set()
        self._choices = Choices()

    def new(self, kind: str = "other", size: float = 1.0) -> Value:
        """The result of an operation that begins something new."""
        return Value({Source(kind, number=next(self._numbers)): size})

    def weight(self, name: str) -> Value:
        """A tensor of the model."""
        return Value({Source("weight", name): 1.0}, data=False)

    def scaled(self, value: Value, factor: float) -> Value:
        """An array times a number."""
        trails = {s: replace(t, factor=t.factor * abs(factor)) for s, t in value.trails.items()}
        return replace(value, parts={s: f * factor for s, f in value.parts.items()}, trails=trails)

    def joined(self, values: Iterable[Value]) -> Value:
        """A sum, or arrays put together."""
        found, parts = list(values), {}
        if len(found) == 1 and found[0].data:
            return found[0]
        for value in found:
            for source, factor in value.parts.items():
                parts[source] = max(parts.get(source, 0.0), factor, key=abs)
        data, made = any(v.data for v in found), any(v.made for v in found)
        trails = self._together([v for v in found if v.data])
        squares = {self._squares.get(s) for s in parts} if data else set()
        if (centre := next((s for s in parts if s in squares), None)) is not None:
            return self._distance(centre, parts[centre], trails)
        apart = found[0].apart if len(found) == 1 else frozenset()
        units = [v.unit for v in found if any(s.name for s in v.parts)]
        return Value(parts, data, made, trails, apart, max(units, default=1.0))

    def _distance(self, centre: Source, factor: float, trails: Mapping[Source, Trail]) -> Value:
        """The distance to a tensor's rows: their product with activations met the sum of their own squares."""
        self._centres.add(centre.name)
        found = self._product(abs(factor) / 2, self._lengths.get(centre, 1), trails)
        self._distances[next(iter(found.parts))] = ()
        return found

    def difference(self, one: Value, two: Value, sizes: Iterable[int]) -> Value:
        """One array less another.

        Args:
            one: The first.
            two: The second.
            sizes: Of the axes along which neither is repeated, as a mean over an axis is along that one.
        """
        found = self.joined([one, two])
        return replace(found, apart=frozenset(sizes)) if found.data else found

    def _together(self, values: list[Value]) -> dict[Source, Trail]:
        """Trails that all these values follow alike; of other sources the size is felt."""
        out: dict[Source, Trail] = {}
        for source in {s for v in values for s in v.trails}:
            trails = [v.trails.get(source, STILL) for v in values]
            most = max(trails, key=lambda t: t.factor)
            if len({t.degree for t in trails}) == 1:
                out[source] = most
            else:
                self._feel({source: max((t for t in trails if t.degree), key=lambda t: t.factor)})
        return out

    def _feel(self, trails: Mapping[Source, Trail]) -> None:
        """Something tells the size of these sources, or compares it with another."""
        for source, t in trails.items():
            scale = t.factor ** (1 / t.degree) if t.degree and t.factor else 0.0
            self._felt[source] = max(self._felt.get(source, 0.0), scale)

    def _times(self, one: Value, two: Value) -> dict[Source, Trail]:
        """Trails that a product of two arrays follows, each as large as the other makes it."""
        out: dict[Source, Trail] = {}
        for source in {*one.trails, *two.trails}:
            a, b = one.trails.get(source, STILL), two.trails.get(source, STILL)
            product = a * b
            other = (two.size if source in one.trails else 1.0) * (
                one.size if source in two.trails else 1.0
            )
            if a.degree and b.degree:
                other = 1.0
            out[source] = replace(product, factor=product.factor * other)
        # The one factor of products over one length cancels in their quotient.
        degrees: dict[int, float] = {}
        for source, t in out.items():
            length = self._made[source][1]
            degrees[length] = degrees.get(length, 0.0) + t.degree
        return {s: t for s, t in out.items() if degrees[self._made[s][1]]}

    def divided(self, value: Value) -> Value:
        """The result of a norm: as an array of its own, whatever the size of what it is given."""
        self._divide(value)
        return self.bent([replace(value, trails={})])

    def looked_up(self, value: Value) -> Value:
        """Rows of a tensor, picked by index."""
        parts = {
            Source("lookup", s.name) if s.kind == "weight" else s: f for s, f in value.parts.items()
        }
        return Value(parts, unit=value.unit)

    def directed(self, weights: Value, norm: Value, power: float) -> Value:
        """A tensor times a `power` of an array, which may be its own norm: then its entries have a known size."""
        for root in (1.0, -1.0):
            if [self._roots.get(s) for s in norm.parts] == [(frozenset(weights.parts), root)]:
                if power != -root:
                    return weights
                self._directed.update(s.name for s in weights.parts)
                return replace(weights, unit=norm.size**-root)
        return weights

    def contracted(
        self,
        one: Value,
        two: Value,
        length: int,
        *,
        batched: bool = False,
        over: Collection[int] = (),
    ) -> Value:
        """A product summed over an axis: a layer, or a product of two arrays.

        Args:
            one: The first.
            two: The second.
            length: Of the axis.
            batched: Whether there is one product for each of several samples or heads.
            over: Of a tensor of the model the axes that are summed over, where they are known.
        """
        if not (one.data or two.data):
            both = self.joined([self.scaled(one, two.size), self.scaled(two, one.size)])
            return replace(both, made=True)
        if (one.data and two.data) or (batched and (one.made or two.made)):
            length = self._choices.terms(self.place, length, (one, two), self._pairs)
            self._opened(one, two)
            return self._product(one.reach * two.reach, length, self._times(one, two))
        given, weights = (one, two) if one.data else (two, one)
        if weights.made:
            return self.bent([given])
        parts = {self._acting(s, over): f for s, f in weights.parts.items()}
        self._lengths |= dict.fromkeys(parts, length)
        for source in parts:
            self._meet(given, source)
        return Value(parts, trails=given.trails)

    def _acting(self, source: Source, over: Collection[int]) -> Source:
        """A tensor that sums over an axis, apart from where it summed over another, as to decode."""
        known = self._over.setdefault(source, frozenset(over))
        return source if not over or known == frozenset(over) else source._replace(kind="again")

    def _product(self, size: float, length: int, trails: Mapping[Source, Trail]) -> Value:
        product = self.new("product", size)
        source = next(iter(product.parts))
        self._made[source], self._born[source] = (self.place, length), size
        return replace(product, trails={**trails, source: Trail(factor=abs(size))})

    def multiplied(self, one: Value, two: Value, *, related: bool = False) -> Value:
        """Two arrays entry by entry; where one of them is a weight the adapter scales instead.

        What multiplies either stays open until it is known whether the pairs are summed, as queries and keys are.

        Args:
            one: The first.
            two: The second.
            related: Whether one is made of the other, as in a norm or a gate: then no sum makes a product of them.
        """
        for a, b in ((one, two), (two, one)):
            if [self._roots.get(s) for s in b.parts] == [(frozenset(a.parts), -1.0)]:
                self._divide(a)
        over = self._over_itself(one, two) or self._over_itself(two, one)
        if over is not None:
            return over
        size = one.told * two.told
        trails = self._times(one, two)
        if related:
            self.bent([replace(one, trails={}), replace(two, trails={})])
            found = replace(self.new(size=size), trails=trails)
            # As an exponential over the sum of all of them.
            self._choices.follows(found, one)
            return found
        pair = self.new("pair", size)
        self._pairs[next(iter(pair.parts))] = (one, two)
        return replace(pair, trails=trails)

    def _opened(self, *values: Value) -> None:
        """Pairs that are used as they are: what multiplied their factors belongs to those."""
        for value in values:
            for source in value.parts:
                self.bent(replace(v, trails={}) for v in self._pairs.pop(source, ()))

    def summed(self, value: Value, *sizes: int) -> Value:
        """A sum over axes of such sizes: of pairs it is a product, of squares it is large.

        Of what is positive of a difference it is a distance.
        """
        kinds, length = {s.kind for s in value.parts}, math.prod(sizes)
        apart = kinds == {"gap"} and value.apart.issuperset(n for n in sizes if n > 1)
        if (kinds == {"pair"} or apart) and len(value.parts) == 1:
            ((source, factor),) = value.parts.items()
            factors = self._pairs.get(source, ())
            whole = math.prod(v.size / (v.told or 1.0) for v in factors)
            length = self._choices.terms(self.place, length, factors, self._pairs)
            found = self._product(factor * whole, length, value.trails)
            if apart:
                self._distances[next(iter(found.parts))] = factors
                self._root(found, value, 1.0)
            return found
        if kinds not in ({"square"}, {"positive"}):
            return value
        terms = self._choices.terms(self.place, length, (value,), self._pairs)
        return self.scaled(value, float(terms))

    def powered(self, value: Value, power: float) -> Value:
        """A power, entry by entry."""
        kind = "gap" if value.apart and power in (1, 2) else "square" if power == 2 else "other"
        if value.parts and all(source.kind == "positive" for source in value.parts):
            kind = "positive"
        trails = {s: t**power for s, t in value.trails.items()}
        found = self.new(kind, value.told**power if value.told else 1.0)
        if kind == "gap":
            self._pairs[next(iter(found.parts))] = (value,) * int(power)
        else:
            self.bent([replace(value, trails={})])
        self._root(found, value, power)
        return replace(found, data=value.data, trails=trails, apart=value.apart)

    def _root(self, found: Value, value: Value, power: float) -> None:
        """Note that an array which was found follows the size of another, to a power."""
        # A variance may be the mean of squares less the square of the mean: powers of one array all the same.
        known = {self._roots.get(s) for s in value.parts}
        same = next(iter(known)) if len(known) == 1 else None
        of, degree = same or (frozenset(value.parts), 1)
        self._roots[next(iter(found.parts))] = (of, degree * power)
        if not value.data and degree * power == 2 and len(of) == 1:
            self._squares[next(iter(found.parts))] = next(iter(of))

    def _divide(self, value: Value) -> None:
        """An array is divided by its own size: that of the tensors which write all of it does not matter."""
        owners = {s.name.rpartition(".")[0] if s.kind == "weight" else None for s in value.parts}
        if len(owners) == 1 and None not in owners:
            self._normed.update(s.name for s in value.parts)

    def _over_itself(self, one: Value, two: Value) -> Value | None:
        """An array times the inverse of the root of its squares, where `two` is that."""
        for source, trail in two.trails.items():
            of = self._distances.get(source, ())
            if trail.degree == -0.5 and any(v.parts.keys() == one.parts.keys() for v in of):
                size = one.size * trail.factor / self._made[source][1] ** 0.5
                return replace(
                    self.bent([replace(one, trails={})]), parts=self.new(size=size).parts
                )
        return None

    def normed(self, value: Value, *sizes: int) -> Value:
        """The root of the sum of squares over axes of such sizes."""
        if value.apart.issuperset(n for n in sizes if n > 1) and value.apart:
            return self.powered(self.summed(self.powered(value, 2.0), *sizes), 0.5)
        self.bent([replace(value, trails={})])
        found = self.new(size=value.told * math.prod(sizes) ** 0.5)
        self._root(found, value, 1.0)
        return replace(found, data=value.data, trails=value.trails)

    def bent(self, values: Iterable[Value], kind: str = "other") -> Value:
        """Result of a non-linear operation; a "positive" one tells large from small, as a softmax does."""
        values, saturating = list(values), kind == "positive"
        for value in values:
            self._meet(value, None)
            self._feel(value.trails)
            for source, factor in value.parts.items():
                if saturating and source.kind == "product":
                    old = self._scales.get(source, 0.0)
                    self._scales[source] = max(old, abs(factor))
        found = replace(self.new(kind), data=any(value.data for value in values))
        if saturating:
            self._choices.keeps_order(found, values)
        return found

    def chosen(self, value: Value) -> None:
        """The largest entries of an array are chosen, whatever its size: of experts by a router, say."""
        for compared in self._choices.compared(value):
            self._divide(compared)

    def ordered(self, value: Value) -> Value:
        """The place of the largest or smallest entry of an array, which its size does not tell."""
        return self.bent([replace(value, trails={})])

    def rows(self, length: int, count: int) -> None:
        """Slices of a tensor are picked by what was chosen: so many of so many."""
        self._choices.sums.append((self.place, length, count))

    def few(self, value: Value, length: int, count: int) -> Value:
        """An array put into one that is zero elsewhere: so many of so many entries along an axis are not."""
        self.bent([replace(value, trails={})])
        positive = all(s.kind == "positive" for s in value.parts)
        found = self.new("positive" if positive else "other", value.told)
        self._choices.few(found, length, count)
        return replace(found, data=value.data, trails=value.trails)

    def capped(self, value: Value) -> Value:
        """A soft bound: not linear, but what enters a softmax afterwards is still the product."""
        products = {s: f for s, f in value.parts.items() if s.kind == "product"}
        found = self.bent([value])
        return self.joined([found, Value(products, value.data)])

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
        found = sorted(self._scales.items(), key=lambda item: item[0].number)
        return [(s, self._made[s][0], scale / (self._born[s] or 1.0)) for s, scale in found]

    def used(self) -> dict[str, frozenset[Use]]:
        """By name of tensor a use that no operation tells alone: distances are taken to its rows."""
        return dict.fromkeys(self._centres, frozenset([Use("added")]))

    def summary(self) -> Forward:
        """The pass as it was seen. A factor between two weights counts for the one that all of its uses share."""
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
        found: dict[str, dict[str, Multiplied]] = {"weight": {}, "lookup": {}, "again": {}}
        for source in {*after, *into, *self._inside}:
            if source.name:
                inside = abs(self._inside.get(source, 1.0)) or 1.0
                total, before = into.get(source, (1.0, 1.0))
                out = abs(known(source)) / inside
                found[source.kind][source.name] = Multiplied(before, inside * total / before, out)
        apart = self._distances.keys()
        felt = {s: scale for s, scale in self._felt.items() if s.kind == "product"}
        attentions = {s: scale for s, scale in self._scales.items() if s not in apart}
        products = {s: scale for s, scale in felt.items() if s not in {*self._scales, *apart}}
        distances = {s: scale for s, scale in felt.items() if s in apart}

        def seen(of: Mapping[Source, float]) -> tuple[Attention, ...]:
            in_turn = sorted(of.items(), key=lambda item: item[0].number)
            return tuple(Attention(*self._made[s], f) for s, f in in_turn)

        return Forward(
            seen(attentions),
            found["weight"],
            found["lookup"],
            products=seen(products),
            distances=seen(distances),
            normed=frozenset(self._normed),
            directed=frozenset(self._directed),
            again=found["again"],
            choices=tuple(dict.fromkeys(self._choices.sums)),
        )
