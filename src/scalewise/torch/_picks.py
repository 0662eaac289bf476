"""Which arrays of a pass are indices of chosen entries, masks made of them, or nothing but zeros.

None of these holds anything that the model's tensors have made, so no source stands for them.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

# What chooses the largest entries.
CHOOSES = frozenset(["topk", "argmax"])
_ZEROS = frozenset(["zeros", "new_zeros", "zeros_like"])
# What puts entries into an array at indices.
SCATTERS = frozenset(["scatter", "scatter_add"])
_MOVES = frozenset(
    """view _unsafe_view reshape _reshape_alias t transpose permute expand unsqueeze squeeze slice select split
    split_with_sizes unbind chunk clone _to_copy detach alias contiguous movedim""".split()  # noqa: SIM905
)
_PRODUCTS = frozenset(["mul", "div", "mm", "bmm", "mv", "dot"])


class Picks:
    """Takes note of such arrays; a trace tells it every operation."""

    def __init__(self) -> None:
        # Every tensor is kept: a number of one that is gone would be given to another.
        self._indices: dict[int, tuple[Tensor, int]] = {}
        self._masks: dict[int, tuple[Tensor, tuple[int, int]]] = {}
        self._zeros: dict[int, Tensor] = {}

    def mask(self, tensor: Any) -> tuple[int, int] | None:
        """The numbers of entries along an axis, and of those that are not zero; ``None`` for what is not a mask."""
        found = self._masks.get(id(tensor))
        return None if found is None else found[1]

    def index(self, tensors: Any) -> int:
        """How many of the chosen an index tells, of several the first; 0 where none is made by a choice."""
        found = (self._indices.get(id(t), (None, 0))[1] for t in tensors)
        return next((count for count in found if count), 0)

    def zero(self, tensor: Any) -> bool:
        """True if an array holds zeros alone."""
        return id(tensor) in self._zeros

    def see(self, name: str, args: tuple[Any, ...], out: Any, *, in_place: bool) -> None:
        """One operation.

        Args:
            name: Of it.
            args: What it is given.
            out: What it returns.
            in_place: Whether that is its first argument.
        """
        first: Any = args[0] if args else None
        if name in CHOOSES:
            index = out[1] if name == "topk" else out
            self._indices[id(index)] = (index, args[1] if name == "topk" else 1)
        elif name in SCATTERS and id(args[2]) in self._indices:
            count, many = self._indices[id(args[2])][1], out.shape[args[1]]
            if in_place:
                self._zeros.pop(id(first), None)
            self._masks[id(out)] = (out, (many, count))
        elif name == "eq" and id(first) in self._indices and out.shape != first.shape:
            # Compared with all that could have been chosen.
            self._masks[id(out)] = (out, (out.shape[-1], self._indices[id(first)][1]))
        elif name in _ZEROS:
            self._zeros[id(out)] = out
        elif name in _MOVES:
            self._moved(first, out)
        elif name == "sum" and (few := self.mask(first)) and _of_chosen(first, args[1:], few):
            # A mask for each of the chosen: now one for all.
            self._masks[id(out)] = (out, few)
        elif name in _PRODUCTS and any(map(self.zero, args)):
            self._zeros[id(out)] = out
        elif name == "mul" and (few := self.mask(first) or self.mask(args[1])):
            self._masks[id(out)] = (out, few)
        elif in_place and isinstance(first, Tensor):
            # What is written to is zero no more, nor is what it is a part of.
            for written in (first, first._base):
                self._zeros.pop(id(written), None)

    def _moved(self, tensor: Any, out: Any) -> None:
        for made in out if isinstance(out, list | tuple) else [out]:
            if id(tensor) in self._indices:
                self._indices[id(made)] = (made, self._indices[id(tensor)][1])
            if id(tensor) in self._masks:
                self._masks[id(made)] = (made, self._masks[id(tensor)][1])
            if id(tensor) in self._zeros:
                self._zeros[id(made)] = made


def _of_chosen(mask: Any, said: tuple[Any, ...], few: tuple[int, int]) -> bool:
    """True if a sum runs over as many entries as were chosen."""
    axes = said[0] if said and said[0] else range(mask.ndim)
    return math.prod(mask.shape[i] for i in axes) == few[1] != few[0]
