"""Pooling: averages, sums and maxima over the positions of a window."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks._masks import inverse_count
from scalewise.networks._sites import Padding, Window
from scalewise.networks.layers._dense import Sizes, per_axis


@checked
@dataclass(frozen=True)
@readable
class AvgPool(Layer):
    r"""The average over a window of positions; zeros beyond the ends count.

    Args:
        window: Positions along every axis, one number or one for each axis.
        stride: By how much the window moves; as long as it is for ``None``.
        padding: As of `Conv`.

    Example:
        >>> import scalewise as sw
        >>> sw.AvgPool(2)
        AvgPool(window=2)
    """

    window: Sizes
    stride: Sizes | None = None
    padding: Padding = "valid"

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return _pooled(self, build, of, average=True)


@checked
@dataclass(frozen=True)
@readable
class SumPool(Layer):
    r"""The sum over a window of positions.

    Args:
        window: Positions along every axis, one number or one for each axis.
        stride: By how much the window moves; as long as it is for ``None``.
        padding: As of `Conv`.

    Example:
        >>> import scalewise as sw
        >>> sw.SumPool((2, 4), stride=2)
        SumPool(window=(2, 4), stride=2)
    """

    window: Sizes
    stride: Sizes | None = None
    padding: Padding = "valid"

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return _pooled(self, build, of, average=False)


@checked
@dataclass(frozen=True)
@readable
class MaxPool(Layer):
    r"""The largest number in a window of positions, channel by channel; beyond the ends there is none.

    Averages of it have no formula: `predict` draws values of single channels, and states the error.

    Args:
        window: Positions along every axis, one number or one for each axis.
        stride: By how much the window moves; as long as it is for ``None``.
        padding: As of `Conv`.

    Example:
        >>> import scalewise as sw
        >>> sw.MaxPool(3, stride=2, padding="zero")
        MaxPool(window=3, stride=2, padding='zero')
    """

    window: Sizes
    stride: Sizes | None = None
    padding: Padding = "valid"

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return build.largest(of, _windows(self, build, of))


@checked
@dataclass(frozen=True)
@readable
class GlobalAvgPool(Layer):
    """The average over all positions that a sample has.

    Example:
        >>> import scalewise as sw
        >>> sw.GlobalAvgPool()
        GlobalAvgPool()
    """

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return _whole(build, of, average=True)


@checked
@dataclass(frozen=True)
@readable
class GlobalSumPool(Layer):
    """The sum over all positions.

    Example:
        >>> import scalewise as sw
        >>> sw.GlobalSumPool()
        GlobalSumPool()
    """

    def into(self, build: Builder, of: Field) -> Field:
        """Add one node."""
        return _whole(build, of, average=False)


def _whole(build: Builder, of: Field, *, average: bool) -> Field:
    per_axis(build, of, 1)
    windows = tuple(Window(taps=size) for size in of.positions)
    factor = 1 / math.prod(of.positions) if average and of.mask is None else 1.0
    made = replace(build.spread(of, windows, factor), mask=None)
    if of.mask is None or not average:
        return made
    ones = (1,) * len(of.positions)
    share = build.read(build.fields[of.mask], inverse_count, 1, ones, said="1 / positions")
    return build.weigh(made, share)


def _pooled(layer: AvgPool | SumPool, build: Builder, of: Field, *, average: bool) -> Field:
    windows = _windows(layer, build, of)
    taps = math.prod(window.taps for window in windows)
    return build.spread(of, windows, 1 / taps if average else 1.0)


def _windows(layer: AvgPool | SumPool | MaxPool, build: Builder, of: Field) -> tuple[Window, ...]:
    sizes = per_axis(build, of, layer.window)
    strides = sizes if layer.stride is None else per_axis(build, of, layer.stride)
    return tuple(
        Window(size, stride, padding=layer.padding)
        for size, stride in zip(sizes, strides, strict=True)
    )
