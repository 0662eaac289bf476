"""What adds entries up: products, convolutions, windows and reductions of jax, as reading has them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scalewise.jax._moves import Params, destinations, padded
from scalewise.reading.spi import (
    Entries,
    ModelReader,
    Operand,
    Plain,
    contracted,
    convolved,
    is_weight,
    pooled,
    reduced,
)


def product(read: ModelReader, one: Operand, two: Operand, p: Params) -> Operand:
    """A product summed over some axes of both, with others in common, as `dot_general` has it."""
    (over_one, over_two), (both_one, both_two) = p["dimension_numbers"]
    left = _sides(_shape(one), over_one, both_one)
    right = _sides(_shape(two), over_two, both_two)
    # parameters and numbers stand behind what they multiply
    turn = isinstance(one, Plain) or (
        not isinstance(two, Plain) and is_weight(read, one) and not is_weight(read, two)
    )
    a, b = ((two, right), (one, left)) if turn else ((one, left), (two, right))
    # two fields meet in heads: their rows are one axis
    flat = not isinstance(b[0], Plain) and not is_weight(read, b[0])
    rows = _as_rows(*a, flat=flat)
    columns = _as_columns(*b, free=0 if flat else max(len(a[1].free), 1) - 1)
    found = contracted(read, rows, columns)
    shape = (
        *left.common(_shape(one)),
        *(_shape(a[0])[k] for k in a[1].free),
        *(_shape(b[0])[k] for k in b[1].free),
    )
    common, mine = len(left.both), len(a[1].free)
    order = list(range(len(shape)))
    if turn:
        order = [*order[:common], *order[common + mine :], *order[common : common + mine]]
    if isinstance(found, Plain):
        return Plain(found.value.reshape(shape).transpose(order))
    return found.reshape(shape).transpose(order)


class _Sides:
    """The axes of one side of a product: in common, free, and summed over."""

    def __init__(self, both: Sequence[int], free: Sequence[int], over: Sequence[int]) -> None:
        self.both, self.free, self.over = tuple(both), tuple(free), tuple(over)

    def common(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(shape[k] for k in self.both)


def _shape(own: Operand) -> tuple[int, ...]:
    return own.value.shape if isinstance(own, Plain) else own.shape


def _sides(shape: tuple[int, ...], over: Sequence[int], both: Sequence[int]) -> _Sides:
    return _Sides(both, [k for k in range(len(shape)) if k not in (*over, *both)], over)


def _laid(own: Operand, order: Sequence[int], shape: Sequence[int]) -> Operand:
    if isinstance(own, Plain):
        return Plain(np.asarray(own.value, dtype=float).transpose(order).reshape(shape))
    return own.transpose(order).reshape(shape)


def _as_rows(own: Operand, sides: _Sides, *, flat: bool) -> Operand:
    """(*common, *free, summed)."""
    shape = _shape(own)
    free = [shape[k] for k in sides.free] or [1]
    free = [math.prod(free)] if flat else free
    size = math.prod(shape[k] for k in sides.over)
    return _laid(own, (*sides.both, *sides.free, *sides.over), (*sides.common(shape), *free, size))


def _as_columns(own: Operand, sides: _Sides, *, free: int) -> Operand:
    """(*common, *ones, summed, free)."""
    shape = _shape(own)
    size = math.prod(shape[k] for k in sides.over)
    ones = (1,) * free if sides.both else ()
    whole = (*sides.common(shape), *ones, size, math.prod(shape[k] for k in sides.free))
    return _laid(own, (*sides.both, *sides.over, *sides.free), whole)


def convolution(read: ModelReader, x: Operand, w: Operand, p: Params) -> Operand:
    """A convolution of any layout, also a transposed one."""
    if isinstance(x, Plain) or isinstance(w, Plain) or not is_weight(read, w):
        raise read.refuse(
            "convolves with something other than a parameter. Let parameters be the kernel."
        )
    if p["batch_group_count"] != 1:
        raise read.refuse(
            "has a convolution with groups of samples. Samples must be independent of each other."
        )
    d = p["dimension_numbers"]
    x, w = x.transpose(d.lhs_spec), w.transpose(d.rhs_spec)
    # zeros between what a transposed convolution reads, and what reaches beyond the ends taken away
    between = [(0, 0, 0), (0, 0, 0)]
    ends = []
    for (low, high), n in zip(p["padding"], p["lhs_dilation"], strict=True):
        between.append((min(low, 0), min(high, 0), n - 1))
        ends.append((max(low, 0), max(high, 0)))
    found = convolved(
        read,
        padded(x, between),
        w,
        stride=p["window_strides"],
        pads=ends,
        dilation=p["rhs_dilation"],
        groups=p["feature_group_count"],
    )
    return found.transpose(np.argsort(d.out_spec))


def windowed(read: ModelReader, x: Entries, p: Params, how: str) -> Entries:
    """Sums or largest numbers of windows, of an array of any layout."""
    if any(n != 1 for n in (*p["base_dilation"], *p["window_dilation"])):
        raise read.refuse("has a pool with dilation. Leave that out.")
    channel = read.fields.decoded(x).channel
    sample = read.fields.decoded(x).sample
    size, stride, pads = p["window_dimensions"], p["window_strides"], p["padding"]
    alone = [a for a in range(x.ndim) if size[a] == 1 and stride[a] == 1 and not any(pads[a])]
    channels = [a for a in alone if _changes(channel, a)]
    samples = [a for a in alone if _changes(sample, a) and a not in channels]
    # axes of length 1 are put back behind it
    single = [a for a in alone if x.shape[a] == 1]
    if len(channels) > 1 or len(samples) > 1 or np.any(_moves(channel, size)):
        raise read.refuse("has a pool over channels or samples. Let it be over positions.")
    rest = [a for a in range(x.ndim) if a not in (*channels, *samples, *single)]
    order = [*samples, *channels, *rest, *single]
    shape = [x.shape[own[0]] if own else 1 for own in (samples, channels)]
    inside = x.transpose(order).reshape(*shape, *(x.shape[a] for a in rest))
    found = np.asarray(
        pooled(
            read,
            inside,
            [size[a] for a in rest],
            [stride[a] for a in rest],
            [pads[a] for a in rest],
            how,
        )
    )
    ends = [n for n, own in zip(found.shape[:2], (samples, channels), strict=True) if own]
    whole = [*ends, *found.shape[2:], *(1,) * len(single)]
    return found.reshape(whole).transpose(np.argsort(order))


def _moves(channel: np.ndarray, size: Sequence[int]) -> list[bool]:
    return [_changes(channel, a) for a, n in enumerate(size) if n > 1]


def _changes(own: np.ndarray, axis: int) -> bool:
    return bool(np.any(own != own.take([0], axis=axis)))


def totalled(read: ModelReader, x: Entries, axes: Sequence[int], how: str) -> Operand:
    """Sums or largest numbers along axes, which are left out."""
    axes = [a % x.ndim for a in axes]
    shape = [n for a, n in enumerate(x.shape) if a not in axes]
    if not axes or all(x.shape[a] == 1 for a in axes):
        return x.reshape(shape)
    return np.asarray(reduced(read, x, axes, how)).reshape(shape)


def running(read: ModelReader, x: Entries, axis: int, reverse: bool) -> Operand:
    """Sums of all that come before along an axis."""
    size = x.shape[axis]
    numbers = np.tri(size).T if not reverse else np.tri(size)
    return np.moveaxis(
        np.asarray(contracted(read, np.moveaxis(x, axis, -1), Plain(numbers))), -1, axis
    )


def added_up(
    read: ModelReader, target: Operand, index: Operand, source: Operand, p: Params
) -> Operand:
    """Arrays added up where a fixed index says, as `scatter-add` does it to zeros."""
    if not isinstance(index, Plain):
        raise read.refuse(
            "adds up where its inputs say. Let the places be the same for all samples."
        )
    if not isinstance(target, Plain) or np.any(target.value) or isinstance(source, Plain):
        raise read.refuse("adds to an array in some places alone. Let it begin with zeros.")
    shape = target.value.shape
    where = destinations(shape, np.asarray(index.value), source.shape, p).ravel()
    there = (where >= 0) & (source.ravel() > 0)
    own, where = source.ravel()[there], where[there]
    order = np.argsort(where, kind="stable")
    counts = np.bincount(where, minlength=math.prod(shape))
    if not counts.all():
        raise read.refuse(
            "adds up nothing in some places. Let each of them have something, such as itself."
        )
    # (place, term), with zeros where another place has more terms
    terms = np.zeros((len(counts), counts.max()), dtype=int)
    terms[where[order], np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)] = own[
        order
    ]
    found = contracted(read, terms.reshape(*shape, 1, -1), Plain(np.ones((terms.shape[-1], 1))))
    return np.asarray(found)[..., 0, 0]
