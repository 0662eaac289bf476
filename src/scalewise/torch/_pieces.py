"""Which arrays were put beside each other to make what a weight sums over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from scalewise.plan.spi import put_together

# What may change its last axis, or sum over it, and would take a length for another.
_ENDS = frozenset(
    """mm bmm mv dot addmm baddbmm addmv addbmm convolution embedding sum mean slice select split narrow
    split_with_sizes unbind gather index""".split()  # noqa: SIM905
)


class Pieces:
    """Lengths of the arrays that were put together along an axis, through every operation that keeps it."""

    def __init__(self) -> None:
        # The pass keeps every tensor that is known here.
        self._lengths: dict[int, tuple[int, ...]] = {}
        self._read: dict[str, tuple[int, ...]] = {}

    def see(self, operation: str, args: tuple[Any, ...], given: Iterable[Tensor], out: Any) -> None:
        """Take note of one operation.

        Args:
            operation: Its name.
            args: What it was given.
            given: The tensors in that.
            out: What it returned.
        """
        if not isinstance(out, Tensor) or operation in _ENDS:
            return
        if operation == "cat":
            together, *rest = args
            axis = rest[0] if rest else 0
            # An empty cache has no axes yet.
            parts = [t for t in together if t.ndim == out.ndim]
            self._lengths[id(out)] = put_together(
                (self._lengths.get(id(t), ()), t.size(axis)) for t in parts
            )
            return
        for one in given:
            own = self._lengths.get(id(one))
            if own is not None and sum(own) in out.shape:
                self._lengths.setdefault(id(out), own)

    def summed(self, name: str, given: Tensor, length: int) -> None:
        """A weight summed over an array along an axis of that length."""
        own = self._lengths.get(id(given), ())
        if sum(own) == length:
            self._read[name] = own

    def read(self) -> Mapping[str, tuple[int, ...]]:
        """By name of weight the lengths of what it sums over, where it was put together."""
        return dict(self._read)
