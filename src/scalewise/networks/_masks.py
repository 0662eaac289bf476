"""Which positions a sample has: numbers of each input, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scalewise.networks._forward import gathered
from scalewise.networks._nodes import Reading
from scalewise.networks._sites import IDENTITY, Window


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
    """Where windows stand that a sample has: with all that they see, or by their middle if they are padded.

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
class Share(Reading):
    """One over the number of positions of a sample, at one site."""

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
