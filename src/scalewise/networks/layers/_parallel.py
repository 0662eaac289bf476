"""Branches beside each other: each reads the same field, and what they give is added, multiplied or joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scalewise._checked import NotNegative, checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks.layers._entrywise import LayerLike
from scalewise.networks.layers._skip import at_point

Join = Literal["sum", "product", "concat", "positions"]


@checked
@dataclass(frozen=True, init=False)
@readable
class Parallel(Layer):
    r"""Branches that read the same field: $\sum_mf_m\,\text{branch}_m(x)$, their product, or all their channels.

    An empty branch gives $x$ itself, so that ``Parallel((), branch)`` is ``Skip(*branch)``. A gate is a product:
    ``Parallel([Dense()], [Dense(), "swish"], join="product")`` is SwiGLU.

    Args:
        branches: Each a sequence of layers. All end with the same positions, and with the same channels but for
            ``"concat"``; for ``"positions"`` those of the first axis may differ.
        factors: $f_m$ of each branch in a sum, at least 0; 1 for ``None``.
        join: ``"sum"``, ``"product"``, ``"concat"`` for all channels beside each other, or ``"positions"`` for all
            positions along the first axis after one another.

    Raises:
        ValueError: If there are fewer than two branches, or not one factor for each; or factors without a sum.

    Source: Dauphin et al., arXiv:1612.08083, Shazeer, arXiv:2002.05202, for gates; kernels and NTKs derived.

    Example:
        >>> import scalewise as sw
        >>> block = sw.Parallel([sw.Conv(3)], [sw.Conv(5)], factors=(0.8, 0.6))
        >>> len(block.branches)
        2
    """

    branches: tuple[tuple[Layer, ...], ...]
    factors: tuple[float, ...]
    join: Join

    def __init__(
        self,
        *branches: Sequence[LayerLike],
        factors: Sequence[NotNegative] | None = None,
        join: Join = "sum",
    ) -> None:
        if len(branches) < 2:
            raise ValueError(
                "`Parallel` needs two branches or more, such as Parallel([Conv(3)], [Conv(5)])."
            )
        if factors is not None and join != "sum":
            raise ValueError(
                f"`factors` are those of a sum, and `join` is {join!r}. Leave them out."
            )
        own = (1.0,) * len(branches) if factors is None else tuple(map(float, factors))
        if len(own) != len(branches):
            raise ValueError(
                f"`factors` of `Parallel` has {len(own)} numbers for {len(branches)} branches. Give one for each."
            )
        object.__setattr__(self, "branches", tuple(map(tuple, branches)))
        object.__setattr__(self, "factors", own)
        object.__setattr__(self, "join", join)

    def at(self, C_b: float, C_W: float) -> Layer:
        """These branches at the critical point; in a sum, their last random layers share what the trunk leaves."""
        if self.join == "product":
            raise ValueError(
                "A product of branches has no critical initialisation that is known. Choose C_b and C_W yourself."
            )
        if self.join != "sum":
            made = [[layer.at(C_b, C_W) for layer in branch] for branch in self.branches]
            return Parallel(*made, join=self.join)
        trunk = sum(f * f for f, own in zip(self.factors, self.branches, strict=True) if not own)
        others = sum(f * f for f, own in zip(self.factors, self.branches, strict=True) if own)
        share = (1 - trunk) / others if others else 0.0
        made = [at_point(own, C_b, C_W, share) if own else () for own in self.branches]
        return Parallel(*made, factors=self.factors)

    def into(self, build: Builder, of: Field) -> Field:
        """The nodes of the branches, one after the other, and what joins them."""
        path, ends = build.path, []
        for number, branch in enumerate(self.branches, 1):
            build.path = (*path, number)
            ends.append(build.run(branch, of))
        build.path = path
        if self.join == "sum":
            return build.add(ends, self.factors)
        joins = {"product": build.multiply, "concat": build.join, "positions": build.stack}
        return joins[self.join](ends)
