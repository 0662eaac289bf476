"""Matrix products of entries: with parameters, with numbers, and of two fields with each other."""

from __future__ import annotations

import numpy as np

from scalewise.reading._attending import attended, logits_of, shares_of
from scalewise.reading._entrywise import Operand, Plain
from scalewise.reading._fields import (
    Entries,
)
from scalewise.reading._linear import is_weight, linear
from scalewise.reading._reader import ModelReader
from scalewise.reading._sums import mixed


def contracted(read: ModelReader, one: Operand, two: Operand) -> Operand:
    """Matrix products (..., row, k) by (..., k, column)."""
    for own in (one, two):
        if isinstance(own, Plain) and not own.value.any():
            shape = [o.value.shape if isinstance(o, Plain) else o.shape for o in (one, two)]
            lead = np.broadcast_shapes(shape[0][:-2], shape[1][:-2])
            return Plain(np.zeros((*lead, shape[0][-2], shape[1][-1])))
    if isinstance(one, Plain) and isinstance(two, Plain):
        return Plain(one.value @ two.value)
    if isinstance(one, Plain):
        found = mixed(read, np.swapaxes(two, -1, -2), np.swapaxes(one.value, -1, -2))  # pyright: ignore
        return np.swapaxes(found, -1, -2)
    if isinstance(two, Plain):
        return mixed(read, one, two.value)
    if not one.any() or not two.any():
        lead = np.broadcast_shapes(one.shape[:-2], two.shape[:-2])
        return np.zeros((*lead, one.shape[-2], two.shape[-1]), dtype=int)
    kinds = [is_weight(read, own) for own in (one, two)]
    if all(kinds):
        raise read.refuse("multiplies two parameters with each other. Let a field come in between.")
    if kinds[0]:
        found = linear(read, np.swapaxes(two, -1, -2), np.swapaxes(one, -1, -2))
        return np.swapaxes(found, -1, -2)
    if kinds[1]:
        return linear(read, one, two)
    return _fields(read, one, two)


def _fields(read: ModelReader, one: Entries, two: Entries) -> Operand:
    """Products of two fields: logits of an attention, or what it makes of its values."""
    if (found := shares_of(read, one)) is not None:
        return attended(read, *found, two)
    if (found := shares_of(read, two)) is not None:
        known, p = found
        own = attended(read, known, np.swapaxes(p, -1, -2), np.swapaxes(one, -1, -2))
        return np.swapaxes(own, -1, -2)
    return logits_of(read, one, np.swapaxes(two, -1, -2))
