"""What has been read of a model so far, and entries as fields of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scalewise.networks import WeightLaw
from scalewise.networks.spi import Matrix
from scalewise.reading._beside import beside, reordered
from scalewise.reading._fields import (
    Combined,
    Entries,
    Function,
    Input,
    KnownField,
    Linear,
    Link,
    Made,
    ModelFields,
    NumberField,
    Placed,
    Turned,
    UnreadError,
    Weight,
    What,
    distinct,
)
from scalewise.reading._grids import FieldGrid
from scalewise.reading._moves import along
from scalewise.reading._steps import gathered_entries
from scalewise.reading._trees import Tree, X, averages, inside, norm_in, number, slope


@dataclass(frozen=True)
class ParameterLaw:
    """How a parameter is drawn.

    Args:
        variance: Of its entries, about their mean.
        mean: Of them.
        law: Up to their variance.
        rate: Its learning rate, over that of all.
    """

    variance: float
    mean: float
    law: WeightLaw
    rate: float = 1.0

    @property
    def constant(self) -> float | None:
        """The number that all entries are; ``None`` if they are drawn."""
        return self.mean if self.variance == 0 else None


@dataclass
class ModelReader:
    """A model as far as it was read.

    Args:
        laws: How every parameter is drawn, by name.
        flat: Whether all positions are one axis, as they must be where something moves them otherwise.
        gains: Whether parameters that begin as one number, such as the gains of norms, count for what they learn.
        fields: Everything that it computes.
        notes: What was taken for something else.
        constant: Parameters that begin as one number, and do not count.
    """

    laws: Mapping[str, ParameterLaw]
    flat: bool = False
    gains: bool = False
    fields: ModelFields = field(default_factory=ModelFields)
    notes: dict[str, None] = field(default_factory=dict)
    constant: dict[str, None] = field(default_factory=dict)
    _moved: dict[tuple[int, bytes, tuple[int, ...]], KnownField] = field(default_factory=dict)
    _cut: dict[tuple[int, int, int], KnownField] = field(default_factory=dict)
    _held: dict[int, int] = field(default_factory=dict)
    _tables: dict[int, tuple[KnownField, np.ndarray]] = field(default_factory=dict)

    def weight(self, name: str, shape: tuple[int, ...]) -> Entries:
        """The entries of a parameter."""
        made = self.fields.new(1, (), math.prod(shape), Weight(name))
        return made.entries.reshape(shape)

    def enter(self, shape: tuple[int, ...], offset: int, *, tokens: bool, samples: bool) -> Entries:
        """The entries of an input.

        Args:
            shape: Its shape.
            offset: Where its numbers begin in a sample that is written in a row.
            tokens: Whether they are tokens.
            samples: Whether its first axis is that of the samples.
        """
        count = shape[0] if samples else 1
        size = math.prod(shape) // count
        made = self.fields.new(count, (), size, Input(offset, size, tokens))
        return made.entries.reshape(shape)

    def new(
        self, like: KnownField, what: What, *, positions: tuple[int, ...] | None = None
    ) -> KnownField:
        """A field of the samples, positions and channels of another."""
        own = like.positions if positions is None else positions
        return self.fields.new(like.samples, own, like.channels, what)

    def refuse(self, sentence: str) -> UnreadError:
        """An error that names the place."""
        place = f"The model's `{self.fields.place}`" if self.fields.place else "The model"
        return UnreadError(f"{place} {sentence}")

    # What a field is a function of.

    def held(self, known: KnownField) -> bool:
        """True if a sum of fields is a field of its own, because something has read it."""
        what = known.what
        summed = (
            isinstance(what, Combined) and len(what.terms) > 1 and known.number in self.fields.read
        )
        return summed or known.number in self._held

    def hold(self, known: KnownField) -> None:
        """Let a field be one that others are functions of, and not a function itself."""
        self._held[known.number] = known.number

    def root(self, known: KnownField) -> int | None:
        """The field that a field is a function of; ``None`` of a sum that nothing has read."""
        what = known.what
        if self.held(known):
            return known.number
        if isinstance(what, Function):
            return what.of
        if isinstance(what, Combined):
            return what.terms[0][0] if len(what.terms) == 1 else None
        return known.number

    def tree(self, known: KnownField) -> tuple[int, Tree]:
        """The field, with the function; a sum becomes a field of its own."""
        what = known.what
        if self.held(known):
            return known.number, X
        if isinstance(what, Function):
            return what.of, what.tree
        if isinstance(what, Combined):
            if len(what.terms) == 1:
                ((of, factor),) = what.terms
                return of, ("mul", X, number(factor))
            self.hold(known)
        return known.number, X

    def terms(self, known: KnownField) -> dict[int, float]:
        """A field as a sum of others."""
        what = known.what
        if not self.held(known):
            if isinstance(what, Combined):
                return dict(what.terms)
            if isinstance(what, Function) and (factor := slope(what.tree)) is not None:
                return {what.of: factor}
        return {known.number: 1.0}

    def function(self, known: KnownField, tree: Tree) -> KnownField:
        """A function of a field; a norm below it is a field of its own."""
        of, own = self.tree(known)
        if averages(own) and known.channels > 1 and norm_in(own) is not None:
            self.hold(known)
            of, own = known.number, X
        return self.new(known, Function(of, inside(tree, own)))

    def function_of(self, like: KnownField, root: int, tree: Tree) -> KnownField:
        """A function of a field, of its shape or one number for each position."""
        return self.new(like, Function(root, tree))

    def held_constant(self, name: str) -> None:
        """Note a parameter whose entries are all equal when training begins."""
        self.constant.setdefault(name)

    def turned(self, known: KnownField) -> Turned | None:
        """A field as one whose channels are multiplied and reordered; ``None`` if it is not one."""
        if isinstance(known.what, Turned):
            return known.what
        terms = self.terms(known)
        if len(terms) > 1:
            return None
        ((of, factor),) = terms.items()
        if self.fields.known[of].channels != known.channels:
            return None
        numbers = np.full((known.places, known.channels), factor)
        return Turned(of, ((np.arange(known.channels), numbers),))

    def sum(self, like: KnownField, terms: Mapping[int, float]) -> KnownField:
        """A sum of fields."""
        left = tuple((k, f) for k, f in terms.items() if f)
        if not left:
            raise self.refuse(
                "takes a field from itself, and nothing is left. Leave that out of the model."
            )
        if len(left) == 1 and left[0][1] == 1:
            return self.fields.known[left[0][0]]
        return self.new(like, Combined(left))

    def of_weights(self, entries: Sequence[Entries]) -> bool:
        """True if all entries are those of parameters."""
        owners = [k for own in entries for k in self.fields.owners(own)]
        return all(isinstance(self.source(k).what, Weight) for k in owners)

    def computed(self, of: KnownField, sums: np.ndarray, added: np.ndarray) -> KnownField:
        """Numbers made of those of an input: sums (number, other) of them, and something added to each."""
        root, tree = self.tree(of)
        source = self.fields.known[root]
        what = source.what
        assert isinstance(what, Input)
        link = Link(tree, Matrix.of(sums), tuple(added.tolist()))
        made = replace(what, links=(*what.links, link))
        return self.fields.new(source.samples, (), len(sums), made)

    # Entries as a field.

    def settled(self, entries: Entries) -> tuple[KnownField, Entries]:
        """Entries that all belong to one field, each of its entries once: that field, and the entries."""
        owners = self.fields.owners(entries)
        if not owners:
            raise self.refuse("reads zeros alone. Leave that out of the model.")
        first = owners[0]
        whole = entries.size == first.size and entries.min() > 0
        if len(owners) == 1 and whole and distinct(entries) == first.size:
            return first, entries
        if len(owners) == 1 and whole is False and (found := self._part(first, entries)):
            return found
        grid = FieldGrid.of(self.fields, entries, self.flat)
        made = self.taken(first, grid) if len(owners) == 1 else beside(self, grid)
        return made, grid.entries(made)

    def settled_once(self, entries: Entries) -> tuple[KnownField, Entries]:
        """Entries of one field, some of them perhaps more than once, as where they are broadcast."""
        owners = self.fields.owners(entries)
        if len(owners) == 1 and entries.min() > 0:
            if isinstance(self.source(owners[0]).what, Input | Weight):
                return owners[0], entries
            if distinct(entries) == owners[0].size:
                return owners[0], entries
        shown = tuple(0 if s == 0 else slice(None) for s in entries.strides)
        made, own = self.settled(entries[shown])
        full = np.expand_dims(own, tuple(a for a, s in enumerate(entries.strides) if s == 0))
        return made, np.broadcast_to(full, entries.shape)

    def taken(self, of: KnownField, grid: FieldGrid) -> KnownField:
        """Some positions, or some channels, of one field."""
        if self.root(of) is not None and isinstance(self.source(of).what, Input | Weight):
            return self.placed(of, grid.ids, grid.positions)
        if isinstance(of.what, Turned) and (made := reordered(self, grid)) is not None:
            return made
        d = self.fields.decoded(grid.ids)
        channels, rows = d.channel.max(axis=(0, 1)), d.position.max(axis=(0, 2))
        there = d.owner >= 0
        fits = (d.channel == channels) & (d.position == rows[:, None])
        if not np.all(fits | ~there) or np.any(there.any(axis=(0, 2)) & ~there.all(axis=(0, 2))):
            raise self.refuse("takes other channels at other places. Take the same everywhere.")
        low, high = int(channels[0]), int(channels[-1]) + 1
        if not np.array_equal(channels, np.arange(low, high)):
            raise self.refuse(
                f"takes channels {channels[:4].tolist()} and so on of {of.channels}, and channels of one kind have "
                "no order. Take some that follow one another."
            )
        if high - low < of.channels:
            of = self.cut(of, low, high)
        return self.chosen(of, rows, grid.positions)

    def _part(self, of: KnownField, entries: Entries) -> tuple[KnownField, Entries] | None:
        """Some channels at all positions, however they lie; ``None`` if it is something else."""
        if isinstance(self.source(of).what, Input | Weight) or entries.min() <= 0:
            return None
        d = self.fields.decoded(entries)
        low, high = int(d.channel.min()), int(d.channel.max()) + 1
        count = of.samples * of.places * (high - low)
        if entries.size != count or distinct(entries) != count or high - low == of.channels:
            return None
        made = self.cut(of, low, high)
        rows = d.sample * of.places + d.position
        return made, made.start + rows * made.channels + d.channel - low

    def source(self, known: KnownField) -> KnownField:
        """The field that a field is a function of."""
        root = self.root(known)
        return known if root is None else self.fields.known[root]

    def placed(self, of: KnownField, ids: Entries, positions: tuple[int, ...]) -> KnownField:
        """Entries (sample, position, channel) of an input, or of a parameter, as a field."""
        root, tree = self.tree(of)
        source, d = self.fields.known[root], self.fields.decoded(ids)
        index = np.where(ids > 0, d.channel, -1)
        if isinstance(source.what, Input):
            if np.any(index != index[:1]):
                raise self.refuse(
                    "reads other numbers of other samples. Give samples an axis of their own."
                )
            flat = tuple(index[0].ravel().tolist())
            features = index.shape[-1]
            given = source.what, flat, (*positions, features), tree
            read = gathered_entries, given, "entries of inputs", positions, features
            made = Made("read", (-1,), read)
            return self.fields.new(source.samples, positions, index.shape[-1], made)
        factor = slope(tree)
        if factor is None or np.any(index[0] < 0) or np.any(index != index[:1]):
            raise self.refuse(
                "computes weights from weights. Let it use them as they are, times a number."
            )
        raw = source.start + index[0]
        made = self.fields.new(1, positions, index.shape[-1], Placed(raw))
        return made if factor == 1 else self.new(made, Combined(((made.number, factor),)))

    def chosen(self, of: KnownField, rows: np.ndarray, positions: tuple[int, ...]) -> KnownField:
        """Positions of a field, in any order; -1 where there is 0."""
        return self.moved(of, (rows[:, None] == np.arange(of.places)).astype(float), positions)

    def moved(self, of: KnownField, table: np.ndarray, positions: tuple[int, ...]) -> KnownField:
        """A fixed map of positions, (place, position)."""
        if positions == of.positions and np.array_equal(table, np.eye(of.places)):
            return of
        of, first = self._tables.get(of.number, (of, None))
        table = table if first is None else table @ first
        key = (of.number, table.tobytes(), positions)
        if key not in self._moved:
            shape, own = along(table, positions, of.positions)
            made = self.new(of, Made("spread", (of.number,), (own, 1.0)), positions=shape)
            self._moved[key] = made
            self._tables[made.number] = of, table
        return self._moved[key]

    def row(self, of: KnownField, row: np.ndarray) -> KnownField:
        """A sum over positions (1, position); if it can be, before a linear layer that reads each alone."""
        base, table = self._tables.get(of.number, (of, np.eye(of.places)))
        row, what = row @ table, base.what
        one = (1,) * len(base.positions)
        if isinstance(what, Combined) and not self.held(base):
            terms = ((self.row(self.fields.known[k], row).number, f) for k, f in what.terms)
            return self.fields.new(base.samples, one, base.channels, Combined(tuple(terms)))
        if not isinstance(what, Linear) or not all(own.is_identity for own in what.windows):
            return self.moved(base, row, one)
        below = self.moved(self.fields.known[what.of], row, one)
        total = float(row.sum())
        biases = what.biases if np.isclose(total, 1, rtol=1e-12) else None
        made = self.new(base, replace(what, of=below.number, biases=biases), positions=one)
        made.place = base.place
        if what.biases is None or biases is not None:
            return made
        beside = self.fields.new(1, one, base.channels, Placed(what.biases[None]))
        return self.new(made, Combined(((beside.number, total), (made.number, 1.0))))

    def cut(self, of: KnownField, low: int, high: int) -> KnownField:
        """Some channels of a field that is made of random layers channel by channel: the same of these layers."""
        key = (of.number, low, high)
        if key in self._cut:
            return self._cut[key]
        what = of.what

        def part(k: int) -> int:
            return self.cut(self.fields.known[k], low, high).number

        if isinstance(what, Linear) and what.groups == 1:
            biases = what.biases if what.biases is None else what.biases[low:high]
            own: What = replace(what, weights=what.weights[low:high], biases=biases)
        elif isinstance(what, Combined):
            own = Combined(tuple((part(k), f) for k, f in what.terms))
        elif isinstance(what, Function) and not averages(what.tree):
            own = Function(part(what.of), what.tree)
        elif isinstance(what, Placed):
            own = Placed(what.weights[:, low:high])
        elif isinstance(what, NumberField):
            own = NumberField(what.numbers[:, low:high])
        elif isinstance(what, Made) and what.verb in ("multiply", "spread", "stack"):
            own = replace(what, of=tuple(map(part, what.of)))
        else:
            raise self.refuse(
                f"takes channels {low} to {high - 1} of {of.channels} behind something that joins channels. Take "
                "them behind a linear layer, or behind functions of its channels one by one."
            )
        self._cut[key] = self.fields.new(of.samples, of.positions, high - low, own)
        self._cut[key].place = of.place
        return self._cut[key]
