"""Two fields brought to the same places, and functions of both there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalewise.reading._fields import (
    Entries,
    Gains,
    Input,
    KnownField,
    Linear,
    Made,
    Placed,
    Turned,
    Weight,
    distinct,
)
from scalewise.reading._reader import ModelReader
from scalewise.reading._trees import X, evaluate


def leading(read: ModelReader, fields: list[tuple[KnownField, Entries]]) -> int:
    """The one of some fields at whose places a function of them stands: the one that has all places."""

    def rank(own: tuple[KnownField, Entries]) -> tuple[bool, bool, int]:
        known, entries = own
        raw = isinstance(read.source(known).what, Weight)
        whole = entries.size == known.size and distinct(entries) == known.size
        return not raw, whole, known.channels

    return max(range(len(fields)), key=lambda k: rank(fields[k]))


def aligned(
    read: ModelReader,
    known: KnownField,
    entries: Entries,
    other: KnownField,
    its: Entries,
    *,
    bias: bool,
) -> KnownField | float:
    """Another field at the places of one; the number that it is, if a parameter is one."""
    source = read.source(other)
    whole = entries.size == known.size and distinct(entries) == known.size
    if (
        isinstance(source.what, Weight)
        and not whole
        and (value := number_of(read, other)) is not None
    ):
        return value
    if not whole:
        raise read.refuse(
            "combines fields of which neither has all places. Let one of them have all."
        )
    order = np.argsort(entries, axis=None)
    grid = np.broadcast_to(its, entries.shape).ravel()[order]
    grid = grid.reshape(known.samples, known.places, known.channels)
    if isinstance(source.what, Weight):
        law = read.laws[source.what.name]
        bias = bias and law.constant == 0 and bool(np.all(grid == grid[:1, :1]))
        if not bias and (value := number_of(read, other)) is not None:
            return value
        return read.placed(other, grid[:1], known.positions)
    if isinstance(source.what, Input) and not isinstance(read.source(known).what, Input):
        raise read.refuse(
            "adds inputs to channels, or multiplies them. Let a linear layer read the inputs first."
        )
    d = read.fields.decoded(grid)
    rows = d.position[0, :, 0]
    channels = np.arange(known.channels) // max(known.channels // other.channels, 1)
    if np.any(d.channel != channels) or np.any(d.position != rows[:, None]):
        raise read.refuse(
            "combines channels of one field with others of another. Combine equal ones."
        )
    if other.samples > 1 and np.any(d.sample != np.arange(known.samples)[:, None, None]):
        raise read.refuse("combines different samples. Samples must be independent of each other.")
    if (
        other.channels != known.channels
        and read.root(other) != read.root(known)
        and len(np.unique(rows)) == len(rows) == other.places
        and other.positions == known.positions
    ):
        return other
    return read.chosen(other, rows, known.positions)


def number_of(read: ModelReader, of: KnownField) -> float | None:
    """The number that a function of a parameter is when training begins; ``None`` if it is drawn, or counts."""
    root, tree = read.tree(of)
    what = read.fields.known[root].what
    assert isinstance(what, Weight)
    law = read.laws[what.name]
    if law.constant is None or read.gains:
        return None
    read.held_constant(what.name)
    return float(np.asarray(evaluate(tree, np.array(law.constant))))


def combined(
    read: ModelReader, name: str, a: KnownField, b: KnownField, like: KnownField
) -> KnownField:
    """A function of two fields of one shape."""
    if name == "add" and Turned in (type(a.what), type(b.what)):
        own, other = read.turned(a), read.turned(b)
        if own is not None and other is not None and own.of == other.of:
            return read.new(like, Turned(own.of, own.terms + other.terms))
    if name == "mul" and Gains in (type(a.what), type(b.what)):
        own, other = (a, b) if isinstance(a.what, Gains) else (b, a)
        assert isinstance(own.what, Gains)
        first, then = read.fields.known[own.what.of], read.fields.known[own.what.by]
        return combined(read, "mul", combined(read, "mul", other, first, like), then, like)
    roots = read.root(a), read.root(b)
    if name == "add" and isinstance(b.what, Linear) and isinstance(a.what, Placed):
        a, b = b, a
    if (
        name == "add"
        and isinstance(a.what, Linear)
        and isinstance(b.what, Placed)
        and a.what.biases is None
    ):
        rows = b.what.weights
        if np.all(rows == rows[:1]) and not read.held(a):
            return read.new(a, replace(a.what, biases=rows[0]))
    if roots[0] is not None and roots[0] == roots[1]:
        (root, one), (_, two) = read.tree(a), read.tree(b)
        return read.function_of(like, root, (name, one, two))
    if name in ("add", "sub"):
        if a.channels != b.channels:
            raise read.refuse(
                "adds a number of each position to channels. Let it have as many channels."
            )
        terms = read.terms(a)
        for k, f in read.terms(b).items():
            terms[k] = terms.get(k, 0.0) + (f if name == "add" else -f)
        return read.sum(like, terms)
    if a.channels != b.channels:
        return _gated(read, name, a, b, like)
    if name == "mul":
        return read.new(like, Made("multiply", (a.number, b.number)))
    if name == "div":
        inverse = read.function(b, ("reciprocal", X))
        return read.new(like, Made("multiply", (a.number, inverse.number)))
    raise read.refuse(f"computes {name!r} of two fields. Sums and products of them are known.")


def _gated(
    read: ModelReader, name: str, a: KnownField, b: KnownField, like: KnownField
) -> KnownField:
    raise read.refuse(
        "multiplies channels by one number for each position, made of other channels. Let it have as many channels."
    )
