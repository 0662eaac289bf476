"""Functions of entries that stand at the same place, of one field, of several, and of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalewise.reading._aligned import aligned, combined, leading, number_of
from scalewise.reading._fields import (
    Combined,
    Entries,
    Gains,
    Input,
    KnownField,
    Linear,
    LogitsOf,
    NumberField,
    Shares,
    Turned,
    Weight,
)
from scalewise.reading._logits import of_logits
from scalewise.reading._reader import ModelReader
from scalewise.reading._trees import Tree, X, evaluate, number, one_number


@dataclass(frozen=True)
class Plain:
    """Numbers that neither inputs nor parameters change."""

    value: np.ndarray


Operand = Any  # entries, or `Plain`


def entrywise(read: ModelReader, name: str, operands: Sequence[Operand]) -> Operand:
    """The entries of a function of others.

    Args:
        read: What has been read.
        name: Of the function, as trees have it.
        operands: Arrays of entries or numbers, which are broadcast.
    """
    shape = np.broadcast_shapes(
        *(o.value.shape if isinstance(o, Plain) else o.shape for o in operands)
    )
    given: list[Any] = [_operand(read, o, shape) for o in operands]
    fields = [k for k, o in enumerate(given) if not isinstance(o, Plain)]
    if not fields:
        raise read.refuse("computes with zeros alone. Leave that out of the model.")
    if name in ("mul", "div") and any(
        isinstance(o, Plain) and not o.value.any() for o in given[: 2 if name == "mul" else 1]
    ):
        return np.zeros(shape, dtype=int)
    if name in ("add", "sub") and isinstance(given[1], Plain) and not given[1].value.any():
        return given[0]
    if name == "add" and isinstance(given[0], Plain) and not given[0].value.any():
        return given[1]
    if len(fields) == 1:
        return _alone(read, name, given, fields[0], shape)
    if len(given) > 2:
        return _several(read, name, given, fields)
    one, two = given
    assert not isinstance(one, Plain)
    assert not isinstance(two, Plain)
    return _both(read, name, one, two)


def _operand(read: ModelReader, own: Operand, shape: tuple[int, ...]) -> Operand:
    if isinstance(own, Plain):
        return Plain(np.broadcast_to(own.value, shape)) if own.value.ndim else own
    if not own.any():
        return Plain(np.zeros(()))
    return np.broadcast_to(own, shape)


def _alone(read: ModelReader, name: str, given: list, at: int, shape: tuple[int, ...]) -> Operand:
    """A function of one field and of numbers."""
    owners = read.fields.owners(given[at])
    known, entries = (owners[0], given[at]) if len(owners) == 1 else read.settled_once(given[at])
    if isinstance(known.what, LogitsOf) and name in ("add", "sub", "mul", "div", "where"):
        values = [o.value for k, o in enumerate(given) if k != at]
        return of_logits(read, name, at, values, (known, entries))
    if isinstance(known.what, Shares):
        if name == "mul" or name == "div":
            other = one_number(given[1 - at].value)
            if other == 1:
                return entries
        raise read.refuse(
            "changes the weights of an attention behind its softmax. Leave them as they are."
        )
    numbers = [None if k == at else one_number(o.value) for k, o in enumerate(given)]
    varied = [k for k, n in enumerate(numbers) if n is None and k != at]
    zeros = not entries.all()
    if zeros and (
        varied
        or evaluate((name, *(number(0.0) if n is None else number(n) for n in numbers)), 0.0) != 0
    ):
        raise read.refuse(
            "computes with a field and zeros beside it. Pad behind an activation, or before a linear layer."
        )
    if varied:
        return _with_numbers(read, name, given, at, known, entries)
    tree = (name, *(X if n is None else number(n) for n in numbers))
    made = applied(read, known, name, tree, numbers, at)
    moved = entries - known.start + made.start
    return np.where(entries > 0, moved, 0) if zeros else moved


def applied(read, known, name, tree, numbers, at) -> KnownField:
    """A function of one field; a sum is multiplied term by term."""
    factor = None
    if name == "neg":
        factor = -1.0
    elif name == "mul":
        factor = numbers[1 - at]
    elif name == "div" and at == 0:
        factor = 1 / numbers[1]
    if factor is not None:
        if factor == 1:
            return known
        if isinstance(known.what, Turned):
            terms = tuple((order, factor * by) for order, by in known.what.terms)
            return read.new(known, Turned(known.what.of, terms))
        if isinstance(known.what, Combined) and not read.held(known):
            return read.new(known, Combined(tuple((k, factor * f) for k, f in known.what.terms)))
        if read.root(known) == known.number and not isinstance(known.what, Input):
            return read.new(known, Combined(((known.number, factor),)))
    return read.function(known, tree)


def _with_numbers(
    read: ModelReader, name: str, given: list, at: int, known: KnownField, entries: Entries
) -> Entries:
    """A field times numbers of its positions."""
    value = np.broadcast_to(given[1 - at].value, entries.shape) if len(given) == 2 else np.zeros(())
    if isinstance(read.source(known).what, Input) and (
        name in ("add", "mul") or (name in ("sub", "div") and at == 0)
    ):
        return _of_inputs(read, name, known, entries, value)
    if name == "add" or (name == "sub" and at == 0):
        return _added(read, given[at], value if name == "add" else -value)
    if name not in ("mul", "div") or len(given) > 2 or (name == "div" and at == 1):
        raise read.refuse(
            f"computes {name!r} of a field and of numbers that differ from place to place. Numbers of positions "
            "may multiply it."
        )
    known, entries = read.settled(given[at])
    d = read.fields.decoded(entries)
    numbers = np.zeros((known.samples, known.places, known.channels))
    numbers[d.sample, d.position, d.channel] = value if name == "mul" else 1 / value
    if np.any(numbers != numbers[:1, :, :1]):
        own = read.turned(known)
        if own is None or np.any(numbers != numbers[:1]):
            raise read.refuse(
                "multiplies channels by numbers that differ, and channels of one kind have no order. Let "
                "parameters do that."
            )
        terms = tuple((order, by * numbers[0]) for order, by in own.terms)
        made = read.new(known, Turned(own.of, terms))
        return entries - known.start + made.start
    made = read.moved(known, np.diag(numbers[0, :, 0]), known.positions)
    return entries - known.start + made.start


def _of_inputs(
    read: ModelReader, name: str, known: KnownField, entries: Entries, value: np.ndarray
) -> Entries:
    """Numbers of the inputs times others, or with others added."""
    d = read.fields.decoded(entries)
    numbers = np.full((known.samples, known.channels), np.nan)
    numbers[d.sample, d.channel] = {
        "add": value,
        "sub": -value,
        "mul": value,
        "div": 1 / np.where(value, value, 1),
    }[name]
    first = np.nan_to_num(numbers[0])
    if np.any(np.nan_to_num(numbers) != first) or np.any(
        numbers[d.sample, d.channel] != first[d.channel]
    ):
        raise read.refuse(
            "computes with other numbers for other samples. Give the model all that it reads as inputs."
        )
    adds = name in ("add", "sub")
    sums = np.eye(known.channels) if adds else np.diag(first)
    made = read.computed(known, sums, first if adds else np.zeros(known.channels))
    return entries - known.start + made.start


def _added(read: ModelReader, entries: Entries, value: np.ndarray) -> Operand:
    """A field with numbers of positions and channels added."""
    known, entries = read.settled(entries)
    d = read.fields.decoded(entries)
    numbers = np.zeros((known.samples, known.places, known.channels))
    numbers[d.sample, d.position, d.channel] = value
    if np.any(numbers != numbers[:1]):
        raise read.refuse(
            "adds other numbers for other samples. Give the model all that it reads as inputs."
        )
    beside = read.fields.new(1, known.positions, known.channels, NumberField(numbers[0]))
    made = combined(read, "add", known, beside, known)
    return entries - known.start + made.start


def _both(read: ModelReader, name: str, one: Entries, two: Entries) -> Operand:
    """A function of two fields, at the places of the one that has all of them."""
    fields = [read.settled_once(own) for own in (one, two)]
    lead = leading(read, fields)
    known, entries = fields[lead]
    if name == "mul" and known.channels == 1 and _counts(read, fields[1 - lead][0]):
        return _as_gains(read, known, entries, *fields[1 - lead])
    adds_up = name == "add" and isinstance(known.what, Linear) and known.what.biases is None
    other = aligned(read, known, entries, *fields[1 - lead], bias=adds_up)
    if not isinstance(other, KnownField):
        given: list = [entries, Plain(np.array(other))]
        return entrywise(read, name, given if lead == 0 else given[::-1])
    one_, two_ = (known, other) if lead == 0 else (other, known)
    made = combined(read, name, one_, two_, known)
    return entries - known.start + made.start


def _counts(read: ModelReader, of: KnownField) -> bool:
    """True if a field is a parameter that counts as one."""
    return isinstance(read.source(of).what, Weight) and number_of(read, of) is None


def _as_gains(
    read: ModelReader, known: KnownField, entries: Entries, by: KnownField, its: Entries
) -> Entries:
    """Numbers of positions times a parameter of channels, before there is what both multiply."""
    shape = np.broadcast_shapes(entries.shape, its.shape)
    entries, its = np.broadcast_to(entries, shape), np.broadcast_to(its, shape)
    own, channel = np.unique(its, return_inverse=True)
    d, channel = read.fields.decoded(entries), channel.reshape(shape)
    grid = np.zeros((1, known.places, len(own)), dtype=int)
    grid[0, d.position, channel] = its
    gains = read.placed(by, grid, known.positions)
    made = read.fields.new(
        known.samples, known.positions, len(own), Gains(known.number, gains.number)
    )
    return made.start + (d.sample * made.places + d.position) * made.channels + channel


def _several(read: ModelReader, name: str, given: list, fields: list[int]) -> Operand:
    """A function of several functions of one field, and of numbers."""
    own = {k: read.settled_once(given[k]) for k in fields}
    lead = fields[leading(read, list(own.values()))]
    known, entries = own[lead]
    trees: list[Tree] = []
    roots = set()
    for k, operand in enumerate(given):
        if isinstance(operand, Plain):
            value = one_number(operand.value)
            other: KnownField | float | None = value
        else:
            other = known if k == lead else aligned(read, known, entries, *own[k], bias=False)
        if other is None:
            raise read.refuse(
                f"computes {name!r} of fields and of numbers that differ from place to place."
            )
        if isinstance(other, KnownField):
            root, tree = read.tree(other)
            roots.add(root)
            trees.append(tree)
        else:
            trees.append(number(other))
    if len(roots) != 1:
        raise read.refuse(f"computes {name!r} of several fields. Write it with sums and products.")
    made = read.function_of(known, roots.pop(), (name, *trees))
    return entries - known.start + made.start
