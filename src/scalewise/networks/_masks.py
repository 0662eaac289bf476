"""Which positions a sample has: numbers of each input, and what becomes of them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalewise.networks._forward import gathered
from scalewise.networks._nodes import Reading
from scalewise.networks._sites import IDENTITY, Taps, Transposed, Window


@dataclass(frozen=True)
class There(Reading):
    """The last feature of every position: 1 where a sample has it, and 0 where it does not."""

    said = "mask"

    def __call__(self, x: Any, xp: Any) -> Any:
        """(sample, *positions, 1)."""
        mask = x[..., -1:]
        if xp is np and not np.isin(mask, (0.0, 1.0)).all():
            raise ValueError(
                "`x` must have a mask as its last feature: 1 at the positions that a sample has, 0 at the others; "
                f"they reach from {mask.min():g} to {mask.max():g}. Mask() reads it."
            )
        if xp is np and not mask.reshape(len(mask), -1).any(axis=1).all():
            sample = int(np.argmin(mask.reshape(len(mask), -1).any(axis=1)))
            raise ValueError(
                f"`x` has a sample without any position (sample {sample}): its mask, the last feature, is 0 at all "
                "of them. Drop it."
            )
        return mask


@dataclass(frozen=True)
class Moved(Reading):
    """Windows that stand within a sample: with all that they see, or by their middle if they are padded.

    Args:
        windows: One for each axis.
        sizes: Positions before.
    """

    windows: tuple[Window, ...]
    sizes: tuple[int, ...]
    said = "mask of windows"

    def __call__(self, x: Any, xp: Any) -> Any:
        """(sample, *places, 1)."""
        sizes = list(self.sizes)
        for axis, window in enumerate(self.windows):
            along = [Window(stride=window.stride)] if window.padding != "valid" else [window]
            windows = [*(IDENTITY,) * axis, *along, *(IDENTITY,) * (len(sizes) - axis - 1)]
            if not windows[axis].is_identity:
                x = gathered(x, windows, sizes, xp)[0].min(axis=-2)
            sizes[axis] = windows[axis].length(sizes[axis])
        return x


@dataclass(frozen=True)
class Written(Reading):
    """Places that transposed windows give a sample: as many for each of its positions as they are apart.

    Args:
        windows: One for each axis.
        sizes: Positions before.
    """

    windows: tuple[Taps, ...]
    sizes: tuple[int, ...]
    said = "mask of transposed windows"

    def __call__(self, x: Any, xp: Any) -> Any:
        """(sample, *places, 1)."""
        for axis, (own, size) in enumerate(zip(self.windows, self.sizes, strict=True), 1):
            if isinstance(own, Transposed):
                stride, places = own.window.stride, np.arange(own.length(size))
                last = np.minimum(places // stride, size - 1)
                first = last
                if own.window.padding == "valid":
                    first = np.maximum(-((own.window.reach - 1 - places) // stride), 0)
                # Between two that do not meet it is there if both are.
                low, high = np.minimum(first, last), np.maximum(first, last)
                ends = xp.take(x, low, axis=axis), xp.take(x, high, axis=axis)
                among = np.zeros((len(places), size), bool)
                for place, (a, b) in enumerate(zip(first, last, strict=True)):
                    among[place, a : b + 1] = True
                row = among.reshape(len(places), size, *(1,) * (x.ndim - 1 - axis))
                seen = (xp.expand_dims(x, axis) * row).max(axis=axis + 1)
                gap = (first > last).reshape(-1, *(1,) * (x.ndim - 1 - axis))
                x = xp.where(gap, ends[0] * ends[1], seen)
        return x


class _Boxes(Reading):
    """Matrices of positions that depend on how long a sample is along each axis."""

    @abstractmethod
    def matrices(self, starts: Any, lengths: Any, axis: int, xp: Any) -> Any:
        """(sample, place, position) along an axis, from (sample, 1, 1) where a sample starts and how long it is."""

    def __call__(self, x: Any, xp: Any) -> Any:
        """(sample, *places, position), positions of all axes in one."""
        box, axes, each = xp.ones_like(x[..., 0]), x.ndim - 2, []
        for axis in range(axes):
            others = tuple(1 + k for k in range(axes) if k != axis)
            along = x[..., 0].max(axis=others) if others else x[..., 0]
            size = along.shape[1]
            starts, lengths = xp.argmax(along, axis=1), along.sum(axis=1)
            places = np.arange(size) - starts[:, None]
            inside = (places >= 0) & (places < lengths[:, None])
            box = box * inside.reshape(-1, *(1,) * axis, size, *(1,) * (axes - axis - 1))
            each.append(self.matrices(starts[:, None, None], lengths[:, None, None], axis, xp))
        if xp is np and not np.array_equal(box, x[..., 0]):
            sample = int(np.argmax((box != x[..., 0]).reshape(len(x), -1).any(axis=1)))
            raise ValueError(
                f"`x` has a sample (sample {sample}) whose positions are not one run along every axis, so nothing "
                "says how long it is, which Resize and circular windows go by. Move its positions together."
            )
        found = each[0]
        for own in each[1:]:
            own = own.reshape(len(own), *(1,) * (found.ndim - 2), own.shape[1], 1, own.shape[2])
            found = found[..., None, :, None] * own
            found = found.reshape(*found.shape[:-2], -1)
        return found.astype(x.dtype)


@dataclass(frozen=True)
class Wrapped(_Boxes):
    """Positions that circular windows see: those of a sample, with the other end beyond each.

    Args:
        windows: One for each axis.
        sizes: Positions before.
    """

    windows: tuple[Window, ...]
    sizes: tuple[int, ...]
    said = "ends joined"

    def matrices(self, starts: Any, lengths: Any, axis: int, xp: Any) -> Any:
        """Matrices in which each place is a position, or none."""
        own, size = self.windows[axis], self.sizes[axis]
        beyond = own.reach - 1 if own.is_circular else 0
        at = np.arange(size + beyond)[:, None] - beyond // 2 - starts
        seen = np.arange(size) - starts
        there = (at >= -beyond) & (at < lengths + beyond) & (seen >= 0) & (seen < lengths)
        return there & (seen == (at % lengths if own.is_circular else at))


@dataclass(frozen=True)
class Resized(_Boxes):
    """Equally many places of every sample, however long it is.

    Args:
        shape: How many along each axis.
        sizes: Positions before.
        method: `"nearest"` or `"linear"`, see `Resize`.
    """

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    method: str
    said = "resized"

    def matrices(self, starts: Any, lengths: Any, axis: int, xp: Any) -> Any:
        """Matrices of weights, in rows."""
        positions = np.arange(self.sizes[axis]) - starts
        there = (positions >= 0) & (positions < lengths)
        return there * resized(positions, lengths, self.shape[axis], self.method, xp)


def resized(positions: Any, lengths: Any, wanted: int, method: str, xp: Any = np) -> Any:
    """Rows of weights, (..., place, position): positions are cells of equal size, seen at their centres.

    Args:
        positions: Which, counted from the first of a sample.
        lengths: How many it has.
        wanted: How many places.
        method: `"nearest"` or `"linear"`.
        xp: NumPy or JAX's.
    """
    places = np.arange(wanted)[:, None]
    if method == "nearest":
        return (positions == (2 * places + 1) * lengths // (2 * wanted)) + 0.0
    centres = (places + 0.5) * lengths / wanted - 0.5
    weights = xp.maximum(0.0, 1 - abs(centres - positions) / xp.maximum(1.0, lengths / wanted))
    weights = weights * ((positions >= 0) & (positions < lengths))
    return weights / weights.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class PresentShare(Reading):
    """Inverse number of positions of a sample, at one site."""

    said = "1 / positions"

    def __call__(self, x: Any, xp: Any) -> Any:
        """(sample, 1, ..., 1)."""
        count = x.sum(axis=tuple(range(1, x.ndim - 1)), keepdims=True)
        return 1.0 / xp.maximum(count, 1.0)


@dataclass(frozen=True)
class Last(Reading):
    """A row with 1 at the last position of a sample, along the only axis."""

    said = "last position"

    def __call__(self, x: Any, xp: Any) -> Any:
        """(sample, 1, position)."""
        mask = x[..., 0]
        behind = xp.cumsum(mask[:, ::-1], axis=1)[:, ::-1]
        return (mask * (behind == 1.0))[:, None, :]
