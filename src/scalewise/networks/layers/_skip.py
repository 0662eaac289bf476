"""A skip connection: what layers make of a field, added to it."""

from __future__ import annotations

from dataclasses import dataclass

from scalewise._checked import NotNegative, checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Field, Layer
from scalewise.networks.layers._activate import LayerLike


@checked
@dataclass(frozen=True, init=False)
@readable
class Skip(Layer):
    r"""$\gamma x+\text{branch}(x)$.

    Args:
        branch: Layers, at the end of which stand as many channels and positions as before the first.
        factor: $\gamma$, at least 0.

    Source: PDLT (B.3).

    Example:
        >>> import scalewise as sw
        >>> block = sw.Skip("relu", sw.Conv(3), "relu", sw.Conv(3), factor=0.6)
        >>> len(block.branch)
        4
    """

    branch: tuple[Layer, ...]
    factor: float

    def __init__(self, *branch: LayerLike, factor: NotNegative = 1.0) -> None:
        if not branch:
            raise ValueError(
                "`Skip` needs the layers of its branch, such as Skip('relu', Dense())."
            )
        object.__setattr__(self, "branch", branch)
        object.__setattr__(self, "factor", float(factor))

    def into(self, build: Builder, of: Field) -> Field:
        """The nodes of the branch, and a sum."""
        added = build.run(self.branch, of)
        return build.add((of, added), (self.factor, 1.0)) if self.factor else added
