r"""Which channels of a network are one unit: what is drawn together, once for each $i=1,\dots,n_p$.

Random layers whose channels meet by their number, in a sum or a product, in a head or by common weights, write to
one population; a unit is a channel of each of them, or the channels of a head. Populations are independent.

Source: derived.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import lru_cache

from scalewise.networks._nodes import Attend, Concat, Draw, Dropout
from scalewise.networks._program import Program

Parts = tuple[
    tuple[int, float], ...
]  # populations whose channels stand beside each other, with shares


@dataclass(frozen=True)
class Populations:
    """Named by one of their random layers.

    Args:
        units: $n_p$ of each.
        inner: How many channels a unit has.
        drawn: The random layers of which units are drawn, with their populations.
        parts: Of each node that is not fixed what its channels are.
    """

    units: dict[int, int]
    inner: dict[int, int]
    drawn: dict[int, int]
    parts: dict[int, Parts]


@dataclass
class _Joining:
    """Populations as far as they are known."""

    program: Program
    first: dict[int, int] = field(default_factory=dict)
    inner: dict[int, int] = field(default_factory=dict)
    parts: dict[int, Parts] = field(default_factory=dict)

    def of(self, draw: int) -> int:
        """The population of a random layer."""
        while self.first[draw] != draw:
            draw = self.first[draw]
        return draw

    def join(self, here: int, others: list[int]) -> Parts:
        """Fields whose channels meet by their number."""
        several = [self.parts[k] for k in others]
        if len({tuple(share for _, share in parts) for parts in several}) > 1:
            raise ValueError(
                f"Node [{here}] of this network, {self.program.nodes[here].said}, adds or multiplies channels of "
                "several kinds, which stand beside each other, and others. Order 1/n is not known of it: put a "
                "random layer such as Dense behind what is joined."
            )
        for parts in several[1:]:
            for (one, _), (other, _) in zip(several[0], parts, strict=True):
                self._unite(here, one, other)
        return several[0]

    def _unite(self, here: int, one: int, other: int) -> None:
        one, other = self.of(one), self.of(other)
        self.first[max(one, other)] = min(one, other)
        self.of_size(here, one, self.inner[other])
        self.of_size(here, other, self.inner[one])

    def of_size(self, here: int, draw: int, size: int) -> None:
        """Units have so many channels, unless they are known to have more."""
        known = self.inner[self.of(draw)]
        if 1 not in (known, size) and known != size:
            raise ValueError(
                f"Node [{here}] of this network, {self.program.nodes[here].said}, brings heads of {known} and of "
                f"{size} channels together, of which order 1/n is not known. Give all heads one size."
            )
        self.inner[self.of(draw)] = max(known, size)


@lru_cache(maxsize=64)
def populations(program: Program, wanted: tuple[int, ...]) -> Populations:
    """The populations behind some nodes.

    Args:
        program: The nodes.
        wanted: Those that are read.
    """
    behind = program.behind(wanted)
    found, same = _Joining(program), dict[int, list[int]]()
    for here in behind:
        node = program.nodes[here]
        moving = [k for k in dict.fromkeys(node.of) if k in found.parts]
        if isinstance(node, Draw):
            found.first[here], found.inner[here] = here, 1
            found.parts[here] = ((here, 1.0),)
            same.setdefault(program.weights_of(here), []).append(here)
        elif here in program.fixed:
            continue
        elif isinstance(node, Dropout):
            raise ValueError(
                f"Node [{here}] of this network is Dropout, of which order 1/n is not known."
            )
        elif isinstance(node, Concat):
            found.parts[here] = tuple(
                (draw, share * other)
                for k, share in zip(node.of, node.shares, strict=True)
                for draw, other in found.parts[k]
            )
        else:
            found.parts[here] = found.join(here, moving)
            if isinstance(node, Attend) and not node.grows:
                found.of_size(here, node.of[0], node.size)
    for uses in same.values():
        _tie(found, uses)
    read = set(itertools.chain(*(program.nodes[k].of for k in behind)))
    read |= {k for k in wanted if not program.averages_out(((k, 1.0),))}
    drawn = {k: found.of(k) for k in behind if k in found.first and k in read}
    parts = {k: tuple((found.of(d), s) for d, s in own) for k, own in found.parts.items()}
    inner = {p: found.inner[p] for p in drawn.values()}
    return Populations({p: program.channels[p] // inner[p] for p in inner}, inner, drawn, parts)


def _tie(found: _Joining, uses: list[int]) -> None:
    """Random layers of the same weights: their channels meet, and those that they read."""
    below = [found.program.nodes[k].of[0] for k in uses]
    moving = [k for k in below if k in found.parts]
    if moving and len(moving) < len(below):
        raise ValueError(
            f"Node [{uses[-1]}] of this network has weights that take the inputs elsewhere, and channels of other "
            "layers here; order 1/n is not known of it. Use weights again where others than the inputs enter."
        )
    found.join(uses[-1], uses)
    if moving:
        found.join(uses[-1], moving)
