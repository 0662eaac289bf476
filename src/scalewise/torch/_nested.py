"""The tensors in whatever operations and modules take and return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor, in order.

    Args:
        value: A tensor, or tuples, lists and dictionaries of whatever; other containers as PyTorch knows them.
    """
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_in(part)
    elif not isinstance(value, _PLAIN):
        yield from (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor))


_PLAIN = (int, float, complex, str, bytes, type(None))
