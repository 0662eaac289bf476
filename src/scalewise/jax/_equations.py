"""Equations of jax by themselves: what they make of entries, where it is neither a move nor a function of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scalewise.jax._moves import (
    cut_out,
    gathered,
    looked_up,
    overwritten,
    padded,
    rows_of,
    scattered,
    starts,
    zeros_for,
)
from scalewise.jax._sums import added_up, convolution, product, running, totalled, windowed
from scalewise.reading.spi import Entries, ModelReader, Operand, Plain, entrywise


def numbers(own: Operand) -> Operand:
    """Fixed numbers in double precision."""
    return Plain(np.asarray(own.value, dtype=float)) if isinstance(own, Plain) else own


def _power(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    if p["y"] == 2:
        return entrywise(read, "square", given)
    return entrywise(read, "pow", [given[0], Plain(np.array(float(p["y"])))])


def _clamped(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    low, x, high = map(numbers, given)
    return entrywise(read, "clamp", [x, low, high])


def _selected(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    """A choice: by what is fixed, of entries or zeros, a move; else a function."""
    which, *cases = given
    if len(cases) > 2:
        raise read.refuse("chooses between more than two arrays. Choose between two at a time.")
    if isinstance(which, Plain):
        mask = np.asarray(which.value).astype(bool)
        if np.all(mask == mask.flat[0]):
            return cases[int(mask.flat[0])]
        if all(not isinstance(c, Plain) or not np.any(c.value) for c in cases):
            one, two = (zeros_for(read, c) for c in cases)
            return np.where(mask, two, one)
    one, two = map(numbers, cases)
    return entrywise(read, "where", [numbers(which), two, one])


def _joined(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    return np.concatenate([zeros_for(read, o) for o in given], axis=p["dimension"])


def _padded(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    x, value = given
    if not isinstance(value, Plain) or np.any(value.value):
        raise read.refuse("pads with a number that is not 0. Pad with zeros.")
    return padded(zeros_for(read, x), p["padding_config"])


def _gathered(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    x, index = given
    if isinstance(index, Plain):
        return gathered(zeros_for(read, x), index.value, p)
    return looked_up(read, _table(read, x), index, p)


def _table(read: ModelReader, own: Operand) -> Entries:
    if isinstance(own, Plain):
        raise read.refuse(
            "looks up fixed numbers where its inputs say. Let parameters hold the table."
        )
    return own


def _sliced(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    x, *begin = given
    sizes = p["slice_sizes"]
    told = [k for k, o in enumerate(begin) if not isinstance(o, Plain) and o.any()]
    if not told:
        own = zeros_for(read, x)
        return own[
            cut_out(
                own,
                starts(read, [o if isinstance(o, Plain) else Plain(np.zeros(())) for o in begin]),
                sizes,
            )
        ]
    (axis, *more), table = told, _table(read, x)
    rest = [n for k, n in enumerate(table.shape) if k != axis]
    if more or sizes[axis] != 1 or rest != [n for k, n in enumerate(sizes) if k != axis]:
        raise read.refuse(
            "looks up parts of rows where its inputs say. Look up whole rows of a table."
        )
    token = np.asarray(begin[axis]).reshape(1)
    return np.moveaxis(rows_of(read, np.moveaxis(table, axis, 0), token), 0, axis)


def _written(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    x, new, *begin = given
    values = zeros_for(read, new)

    def write(own: Entries) -> Entries:
        own = np.array(own)
        own[cut_out(own, starts(read, begin), values.shape)] = values
        return own

    return overwritten(read, x, write)


def _scattered(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    x, index, new = given
    if not isinstance(index, Plain):
        raise read.refuse(
            "writes where its inputs say. Let the places be the same for all samples."
        )
    at, values = index.value, zeros_for(read, new)
    return overwritten(read, x, lambda own: scattered(own, at, values, p))


def _convolved(read: ModelReader, given: list[Operand], p: Any) -> Operand:
    return convolution(read, given[0], given[1], p)


def _entered(how: str) -> Callable[[ModelReader, list[Operand], Any], Operand]:
    def found(read: ModelReader, given: list[Operand], p: Any) -> Operand:
        return totalled(read, _entries(given), [int(a) for a in p["axes"]], how)

    return found


def _window(how: str) -> Callable[[ModelReader, list[Operand], Any], Operand]:
    def found(read: ModelReader, given: list[Operand], p: Any) -> Operand:
        return windowed(read, _entries(given), p, how)

    return found


def _entries(given: list[Operand]) -> Entries:
    (x,) = given
    assert not isinstance(x, Plain)
    return x


SPECIAL: dict[str, Callable[[ModelReader, list[Operand], Any], Operand]] = {
    "integer_pow": _power,
    "clamp": _clamped,
    "select_n": _selected,
    "concatenate": _joined,
    "pad": _padded,
    "gather": _gathered,
    "dynamic_slice": _sliced,
    "dynamic_update_slice": _written,
    "scatter": _scattered,
    "scatter-add": lambda read, given, p: added_up(read, given[0], given[1], given[2], p),
    "scatter_add": lambda read, given, p: added_up(read, given[0], given[1], given[2], p),
    "dot_general": lambda read, given, p: product(read, given[0], given[1], p),
    "conv_general_dilated": _convolved,
    "reduce_sum": _entered("sum"),
    "reduce_max": _entered("max"),
    "reduce_window_sum": _window("sum"),
    "reduce_window_max": _window("max"),
    "cumsum": lambda read, given, p: running(read, _entries(given), p["axis"], p["reverse"]),
}
