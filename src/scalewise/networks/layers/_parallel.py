"""Branches beside each other: each reads the same field, and what they give is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise._checked import NotNegative, checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Field, Layer
from scalewise.networks.layers._activate import LayerLike


@checked
@dataclass(frozen=True, init=False)
@readable
class Parallel(Layer):
    r"""$\sum_mf_m\,\text{branch}_m(x)$.

    An empty branch gives $x$ itself, so that ``Parallel((), branch)`` is ``Skip(*branch)``.

    Args:
        branches: Each a sequence of layers; all end with the same channels and positions.
        factors: $f_m$ of each branch, at least 0; 1 for ``None``.

    Raises:
        ValueError: If there are fewer than two branches, or not one factor for each.

    Example:
        >>> import scalewise as sw
        >>> block = sw.Parallel([sw.Conv(3)], [sw.Conv(5)], factors=(0.8, 0.6))
        >>> len(block.branches)
        2
    """

    branches: tuple[tuple[Layer, ...], ...]
    factors: tuple[float, ...]

    def __init__(
        self, *branches: Sequence[LayerLike], factors: Sequence[NotNegative] | None = None
    ) -> None:
        if len(branches) < 2:
            raise ValueError(
                "`Parallel` needs two branches or more, such as Parallel([Conv(3)], [Conv(5)])."
            )
        own = (1.0,) * len(branches) if factors is None else tuple(map(float, factors))
        if len(own) != len(branches):
            raise ValueError(
                f"`factors` of `Parallel` has {len(own)} numbers for {len(branches)} branches. Give one for each."
            )
        object.__setattr__(self, "branches", tuple(map(tuple, branches)))
        object.__setattr__(self, "factors", own)

    def into(self, build: Builder, of: Field) -> Field:
        """The nodes of the branches, one after the other, and a sum."""
        path, ends = build.path, []
        for number, branch in enumerate(self.branches, 1):
            build.path = (*path, number)
            ends.append(build.run(branch, of))
        build.path = path
        return build.add(tuple(ends), self.factors)
