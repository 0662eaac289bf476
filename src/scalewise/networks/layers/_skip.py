"""A skip connection: what layers make of a field, added to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise._checked import NotNegative, checked
from scalewise._readable import readable
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks.layers._dense import Random
from scalewise.networks.layers._entrywise import LayerLike


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

    def at(self, C_b: float, C_W: float) -> Layer:
        """The last random layer of the branch gives what the factor has taken."""
        return Skip(*at_point(self.branch, C_b, C_W, 1 - self.factor**2), factor=self.factor)

    def into(self, build: Builder, of: Field) -> Field:
        """The nodes of the branch, and a sum."""
        added = build.run(self.branch, of)
        return build.add((of, added), (self.factor, 1.0)) if self.factor else added


def at_point(layers: Sequence[Layer], C_b: float, C_W: float, share: float) -> tuple[Layer, ...]:
    """Layers of a branch at a critical point, the last random one with a share of its variances."""
    if share <= 0:
        raise ValueError(
            "Skip connections that keep all of their trunk have no critical initialisation: whatever a branch adds "
            "makes signals grow. Give them a factor below 1, such as Skip('relu', Dense(), factor=0.7), or a norm."
        )
    found = [layer.at(C_b, C_W) for layer in layers]
    if not isinstance(layers[-1], Random):
        raise ValueError(
            f"A branch that ends with {layers[-1]!r} has no critical initialisation that is known. End it with a "
            "random layer such as Dense, or choose C_b and C_W yourself."
        )
    return *found[:-1], layers[-1].at(C_b, C_W, share)
