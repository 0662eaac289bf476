"""Entries: every number that a model computes has one, and whatever only moves numbers moves these instead.

An array of entries has the shape of the array that it stands for. Views, slices, paddings and copies are done to it
by the library itself; what an entry is (of which field, at which sample, position and channel) can be read off at
any time, however the array lies.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from scalewise.networks.spi import Matrix, Normalise, Taps
from scalewise.reading._trees import Tree

Entries = np.ndarray  # of int64; 0 stands for the number 0


class UnreadError(ValueError):
    """Something that the grammar of networks does not have."""


class NotSeparableError(Exception):
    """A map of positions that does not act axis by axis: all positions must be one axis."""


@dataclass(frozen=True)
class Link:
    """Numbers made of others: a function of each, then sums of them, then something added.

    Args:
        tree: The function.
        sums: (number, other).
        added: To each number.
    """

    tree: Tree
    sums: Matrix
    added: tuple[float, ...]


@dataclass(frozen=True)
class Input:
    """Numbers of an input, or numbers that are computed from these alone.

    Args:
        offset: Where they begin in a sample that is written in a row.
        size: How many there are in it.
        tokens: Whether they are tokens.
        links: What is computed of them, one after another.
    """

    offset: int
    size: int
    tokens: bool
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Weight:
    """A parameter of the model, by name."""

    name: str


@dataclass(frozen=True)
class Linear:
    """A random layer.

    Args:
        of: The field that it reads.
        windows: One for each axis of positions.
        weights: Entries of a parameter, (channel, tap, channel below).
        biases: Likewise, (channel).
        groups: Into how many the channels fall.
        factor: What the weights are multiplied by.
    """

    of: int
    windows: tuple[Taps, ...]
    weights: Entries
    biases: Entries | None
    groups: int = 1
    factor: float = 1.0


@dataclass(frozen=True)
class Placed:
    """Entries of a parameter at positions and channels: (position, channel)."""

    weights: Entries


@dataclass(frozen=True)
class NumberField:
    """Numbers of positions and channels, the same for all samples and at every width: (position, channel)."""

    numbers: np.ndarray


@dataclass(frozen=True)
class Made:
    """A field that one verb of the builder makes of others."""

    verb: str
    of: tuple[int, ...]
    given: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Function:
    """A function of one field."""

    of: int
    tree: Tree


@dataclass(frozen=True)
class Combined:
    """A sum of fields with factors."""

    terms: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Turned:
    """Channels of a field times numbers of their positions, in another order, added up: as rotary embeddings do.

    Args:
        of: The field.
        terms: Of each term which channel stands at every channel, and the numbers (position, channel).
    """

    of: int
    terms: tuple[tuple[np.ndarray, np.ndarray], ...]


@dataclass(frozen=True)
class Gains:
    """Numbers of positions times numbers of channels, which multiply a field one after the other."""

    of: int
    by: int


@dataclass(frozen=True)
class LogitsOf:
    """Products of queries and keys: positions (head, position), the keys being channels; numbers are added.

    Args:
        queries: The field of these.
        keys: Likewise.
        size: Channels of a head.
        scale: What products are multiplied by.
        added: To each, behind that.
        turns: For queries and keys the matrices of positions by which heads are multiplied.
        norm: Of both in each head.
        group: How many heads after one another have the same key.
    """

    queries: int
    keys: int
    size: int
    scale: float
    added: np.ndarray | None = None
    turns: tuple[Matrix, Matrix] | None = None
    norm: Normalise | None = None
    group: int = 1


@dataclass(frozen=True)
class Shares:
    """Weights of positions that are made of logits: softmax, over the others, which are its channels."""

    logits: LogitsOf


What = (
    Input
    | Weight
    | Linear
    | Placed
    | NumberField
    | Made
    | Function
    | Combined
    | Turned
    | Gains
    | LogitsOf
    | Shares
)


@dataclass
class KnownField:
    """A field.

    Args:
        number: Which.
        start: Its first entry.
        samples: How many, or 1 where it is the same for all.
        positions: Along each axis.
        channels: How many.
        what: How it is made.
        place: The module that makes it.
    """

    number: int
    start: int
    samples: int
    positions: tuple[int, ...]
    channels: int
    what: What
    place: str

    @property
    def places(self) -> int:
        """Positions in all."""
        return math.prod(self.positions)

    @property
    def size(self) -> int:
        """Entries in all."""
        return self.samples * self.places * self.channels

    @property
    def entries(self) -> Entries:
        """(sample, position, channel)."""
        return np.arange(self.start, self.start + self.size).reshape(
            self.samples, self.places, self.channels
        )


def distinct(entries: Entries) -> int:
    """How many of these there are, by counting: entries of one field are near each other."""
    return (
        int(np.count_nonzero(np.bincount((entries - entries.min()).ravel()))) if entries.size else 0
    )


class Decoded(NamedTuple):
    """Meaning of entries, each an array of their shape; -1 where the number is 0."""

    owner: np.ndarray
    sample: np.ndarray
    position: np.ndarray
    channel: np.ndarray


@dataclass
class ModelFields:
    """All fields of a model."""

    known: list[KnownField] = field(default_factory=list)
    place: str = ""
    read: set[int] = field(default_factory=set)  # fields that something has read whole
    _end: int = 1

    def new(
        self, samples: int, positions: tuple[int, ...], channels: int, what: What
    ) -> KnownField:
        """Another field."""
        if isinstance(what, Linear | Made):
            self.read.update((what.of,) if isinstance(what, Linear) else what.of)
        made = KnownField(
            number=len(self.known),
            start=self._end,
            samples=samples,
            positions=positions,
            channels=channels,
            what=what,
            place=self.place,
        )
        self.known.append(made)
        self._end += made.size
        return made

    @property
    def end(self) -> int:
        """The entry behind all that there are."""
        return self._end

    def decoded(self, entries: Entries) -> Decoded:
        """Meaning of entries."""
        starts = np.array([k.start for k in self.known])
        sizes = np.array([(k.samples, k.places, k.channels) for k in self.known])
        owner = np.searchsorted(starts, entries, side="right") - 1
        there = entries > 0
        rest = np.where(there, entries - starts[np.maximum(owner, 0)], 0)
        _, places, channels = sizes[np.maximum(owner, 0)].transpose(-1, *range(entries.ndim))
        found = owner, rest // (places * channels), rest // channels % places, rest % channels
        return Decoded(*(np.where(there, own, -1) for own in found))

    def owners(self, entries: Entries) -> list[KnownField]:
        """The fields that entries belong to, in order."""
        if not entries.size:
            return []
        low, high = (self._owner(int(e)) for e in (entries.min(), entries.max()))
        if low == high:  # most arrays are of one field: no need to look at each entry
            return [self.known[low]] if low >= 0 else []
        there = entries[entries > 0]
        starts = np.array([k.start for k in self.known])
        return [self.known[k] for k in np.unique(np.searchsorted(starts, there, side="right") - 1)]

    def _owner(self, entry: int) -> int:
        """The field of one entry; -1 of 0."""
        starts = [known.start for known in self.known]
        return bisect_right(starts, entry) - 1 if entry > 0 else -1
