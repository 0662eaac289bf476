"""Large tensors of a model that is built to be looked at: drawn in part, and repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from scalewise.plan import Spread

# So many entries tell a standard deviation to two parts in a thousand. A prime, so that no two rows are equal.
_DIFFERENT = 262_139
_DRAWS = frozenset([torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default])


class RepeatedDraws(TorchDispatchMode):
    """Lets a table of many words cost what it takes to fill it, a tenth of what it takes to draw it."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        whole: Any = args[0] if args else None
        kwargs = kwargs or {}
        large = func in _DRAWS and whole.numel() > _DIFFERENT
        if not large or whole.is_meta or not whole.is_contiguous():
            return func(*args, **kwargs)
        drawn, *rest = whole.view(-1).split(_DIFFERENT)
        func(drawn, *args[1:], **kwargs)
        for part in rest:
            part.copy_(drawn[: len(part)])
        return whole


def told(spread: Spread, entries: int) -> Spread:
    """The spread of so many entries, with the error of those of them that differ."""
    return replace(spread, error=spread.error * max(1.0, entries / _DIFFERENT) ** 0.5)
