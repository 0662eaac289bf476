"""Which tensors of a model lie between which, on the way from its input to what it returns.

An operation that brings a tensor of the model to an array puts the tensor behind all that the array was made by;
any other operation passes on what its arrays were made by. What writes what the model returns is told from this
alone: norms, activations and tensors of fixed size may follow the last matrix that sums over the width.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

# Where the rows of a tensor are picked it stands elsewhere than where it multiplies.
LOOKED_UP = "lookup of "
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Passed:
    """Origins of an array.

    Args:
        tensors: The last tensor of the model on each way to it.
        data: Whether it depends on the model's input.
    """

    tensors: frozenset[str] = _NONE
    data: bool = True


@dataclass(frozen=True)
class Paths:
    """One forward pass.

    Args:
        before: For tensors that were brought to an array together, as a matrix and its bias, what made the array.
        returned: The last ones before each array that the model returns.
    """

    before: Mapping[frozenset[str], Collection[str]] = field(default_factory=dict)
    returned: Collection[frozenset[str]] = ()

    def used(self) -> frozenset[str]:
        """Every tensor from which something is reached."""
        return _NONE.union(*self.returned, *self.before, *self.before.values())

    def ending(self, growing: Collection[str]) -> frozenset[str]:
        """Tensors from which what is returned is reached without another one that grows with the width.

        An array that the network goes on to read is a part of it, also where the model returns it, as it does with
        latents in a cache; unless it returns nothing else.

        Args:
            growing: The tensors that do.
        """
        # Past one that grows lies the network whose width is scaled.
        fixed, inside = dict[frozenset[str], Collection[str]](), set[str]()
        for names, made in self.before.items():
            if any(n.removeprefix(LOOKED_UP) in growing for n in names):
                inside.update(made)
            else:
                fixed[names] = made
        inside = _reached(fixed, inside)
        ends = [_reached(fixed, one) for one in self.returned]
        wide = [{n for n in found if n in growing} for found in ends]
        alone = not any(one - inside for one in wide)
        found = _NONE.union(
            *(
                all_
                for all_, one in zip(ends, wide, strict=True)
                if alone or one - inside or not one
            )
        )
        # An embedding that grows has its rows picked elsewhere than where it may read out.
        return frozenset(
            n.removeprefix(LOOKED_UP)
            for n in found
            if not n.startswith(LOOKED_UP) or n.removeprefix(LOOKED_UP) not in growing
        )

    def starting(self, growing: Collection[str]) -> frozenset[str]:
        """Tensors that what the model is given reaches without another one that grows with the width.

        Args:
            growing: The tensors that do.
        """
        behind: set[str] = set()
        while True:
            found = {
                n.removeprefix(LOOKED_UP)
                for names, made in self.before.items()
                if any(m.removeprefix(LOOKED_UP) in behind.union(growing) for m in made)
                for n in names
            }
            if found <= behind:
                return self.used() - behind
            behind |= found


def _reached(before: Mapping[frozenset[str], Collection[str]], start: Collection[str]) -> set[str]:
    """Tensors from which others are reached, and these."""
    found, new = set(start), set(start)
    while new:
        new = {n for names, made in before.items() if names & new for n in made} - found
        found |= new
    return found


class Tracks:
    """Takes note of one forward pass; an adapter tells it every operation."""

    def __init__(self) -> None:
        self._before: dict[frozenset[str], set[str]] = {}

    def weight(self, name: str) -> Passed:
        """A tensor of the model."""
        return Passed(frozenset([name]), data=False)

    def through(
        self, given: Iterable[Passed], *, data: bool = True, lookup: bool = False
    ) -> Passed:
        """The result of an operation.

        Args:
            given: What its arrays were made by.
            data: Whether its result depends on the model's input.
            lookup: Whether it picks rows of a tensor.
        """
        every = list(given)
        own = _NONE.union(*(p.tensors for p in every if not p.data))
        made = _NONE.union(*(p.tensors for p in every if p.data))
        if lookup:
            own = frozenset(LOOKED_UP + name for name in own)
        if not data or not own:
            return Passed(own | made, data)
        self._before.setdefault(own, set()).update(made)
        return Passed(own, data)

    def paths(self, outputs: Iterable[Passed]) -> Paths:
        """All of it.

        Args:
            outputs: What the model returns.
        """
        returned = frozenset(p.tensors for p in outputs)
        return Paths({own: frozenset(made) for own, made in self._before.items()}, returned)
