"""The tensors in whatever operations and modules take and return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from scalewise.plan.spi import held_in


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor, in order, of a value of any kind: a container, a dataclass, a distribution, another object."""
    if isinstance(value, Tensor):
        yield value
    else:
        yield from held_in(value, lambda part: isinstance(part, Tensor), nn.Module)
