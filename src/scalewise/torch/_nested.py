"""The tensors in whatever operations and modules take and return."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from scalewise.plan.spi import held_in

_PLAIN = frozenset(
    [
        int,
        float,
        bool,
        str,
        type(None),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    ]
)


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor, in order, of a value of any kind: a container, a dataclass, a distribution, another object."""
    found: list[Tensor] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[Tensor]) -> None:
    # An operation takes tensors, numbers and rows of them, a hundred thousand times in a large model.
    if isinstance(value, Tensor):
        found.append(value)
    elif type(value) in (tuple, list):
        for part in value:
            _gather(part, found)
    elif type(value) is dict:
        for part in value.values():
            _gather(part, found)
    elif type(value) not in _PLAIN:
        found += held_in(value, lambda part: isinstance(part, Tensor), nn.Module)
