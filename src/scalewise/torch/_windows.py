"""What operations of PyTorch make of windows and rows of entries: convolutions, pools and sums by an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from scalewise.reading.spi import (
    Entries,
    ModelReader,
    Operand,
    Plain,
    contracted,
    convolved,
    pooled,
)


def convolution(read: ModelReader, own: Entries, weights: Entries, w: Tensor, args: Any) -> Operand:
    """A convolution, without its biases.

    Args:
        read: What has been read.
        own: Entries of what enters.
        weights: Those of the kernel.
        w: The kernel.
        args: From its stride on.
    """
    stride, pads, dilation, transposed, extra, groups = args
    axes = w.ndim - 2
    ends = [(p, p) for p in pads]
    if transposed:
        if groups > 1:
            raise read.refuse("has a transposed convolution of several groups. Use one group.")
        own, ends = _spread_out(
            own,
            stride,
            [d * (k - 1) - p for d, k, p in zip(dilation, w.shape[2:], pads, strict=True)],
            extra,
        )
        weights = np.flip(np.swapaxes(weights, 0, 1), axis=tuple(range(2, 2 + axes)))
        stride = [1] * axes
    return convolved(read, own, weights, stride=stride, pads=ends, dilation=dilation, groups=groups)


def pool(read: ModelReader, name: str, x: Entries, given: list[Any]) -> Operand:
    """A pool of windows of one size, with what it is given beside its entries."""
    axes = int(name[name.index("pool") + 4])
    taps = given[0]
    stride = given[1] if len(given) > 1 and given[1] else taps
    pads = given[2] if len(given) > 2 else [0]
    taps, stride, pads = (list(a) * (axes if len(a) == 1 else 1) for a in (taps, stride, pads))
    how = "max" if name.startswith("max") else "mean"
    if how == "max" and len(given) > 3 and any(d != 1 for d in given[3]):
        raise read.refuse("has a pool with dilation. Leave that out.")
    if (
        len(given) > 3
        and how == "mean"
        and (given[3] or (len(given) > 4 and not given[4] and any(pads)))
    ):
        raise read.refuse("has a pool that counts less at its ends. Pad with zeros that count.")
    return pooled(read, x, taps, stride, [(p, p) for p in pads], how)


def adaptive(read: ModelReader, x: Entries, shape: Sequence[int]) -> Operand:
    """A pool to a number of places."""
    sizes = x.shape[-len(shape) :]
    if any(n % m for n, m in zip(sizes, shape, strict=True)):
        raise read.refuse(
            "has a pool of windows of several sizes. Let the size be a multiple of the pool's."
        )
    taps = [n // m for n, m in zip(sizes, shape, strict=True)]
    return pooled(read, x, taps, taps, [(0, 0)] * len(taps), "mean")


def scattered(read: ModelReader, name: str, source: Entries, args: Any, kwargs: Any) -> Operand:
    """Sums of rows by a fixed index."""
    target, axis, index = args[:3]
    if name == "scatter_reduce" and args[4] not in ("sum", "mean"):
        raise read.refuse("takes the largest of neighbours. Use sums or means.")
    axis %= target.ndim
    rows = index
    if index.ndim > 1:
        rows = index.movedim(axis, 0).reshape(index.shape[axis], -1)
        if bool((rows != rows[:, :1]).any()):
            raise read.refuse(
                "adds rows up otherwise for each channel. Let the places be the same for all."
            )
        rows = rows[:, 0]
    size = target.shape[axis]
    numbers = (rows.numpy()[:, None] == np.arange(size)).astype(float)
    if name == "scatter_reduce" and args[4] == "mean":
        count = numbers.sum(axis=0) + (1 if kwargs.get("include_self", True) else 0)
        numbers = numbers / np.maximum(count, 1)
    moved = np.moveaxis(source, axis, -1)
    found = contracted(read, moved, Plain(numbers))
    return np.moveaxis(np.asarray(found), -1, axis)


def _spread_out(
    x: Entries, stride: Sequence[int], pads: Sequence[int], extra: Sequence[int]
) -> tuple[Entries, list[tuple[int, int]]]:
    """Entries with zeros between them, as a transposed convolution reads them."""
    sizes = [(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
    wide = np.zeros((*x.shape[:2], *sizes), dtype=int)
    wide[(slice(None), slice(None), *(slice(None, None, s) for s in stride))] = x
    return wide, [(p, p + e) for p, e in zip(pads, extra, strict=True)]
