r"""Which channels of a network are one unit: what is drawn together, once for each $i=1,\dots,n_p$.

Random layers whose channels meet by their number, in a sum or a product, in a head or by common weights, write to
one population; a unit is a channel of each of them, or the channels of a head. Populations are independent.
Where heads share a key and a value, or have matrices of their own that are added to logits, a unit is as many heads
as are drawn together: $g$ of them have $gd$ channels of queries, and $d$ of keys and of values.

Source: derived.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from scalewise.networks.spi import Attend, Concat, Draw, Drop, Program

Kinds = tuple[
    tuple[int, float], ...
]  # random layers whose channels stand side by side, with shares


class Part(NamedTuple):
    """Channels of one population.

    Args:
        population: Which.
        share: Of all channels of the field.
        inner: How many of them a unit has.
    """

    population: int
    share: float
    inner: int


@dataclass(frozen=True)
class Populations:
    """Named by one of their random layers.

    Args:
        units: $n_p$ of each.
        inner: How many channels of each random layer that is drawn a unit has.
        drawn: The random layers of which units are drawn, with their populations.
        parts: Of each node that is not fixed what its channels are.
    """

    units: dict[int, int]
    inner: dict[int, int]
    drawn: dict[int, int]
    parts: dict[int, tuple[Part, ...]]


@dataclass
class _Joining:
    """Populations as far as they are known."""

    program: Program
    first: dict[int, int] = field(default_factory=dict)
    inner: dict[int, int] = field(default_factory=dict)
    parts: dict[int, Kinds] = field(default_factory=dict)
    sharing: list[tuple[int, int]] = field(default_factory=list)

    def of(self, draw: int) -> int:
        """The first of the random layers whose channels meet those of one."""
        while self.first[draw] != draw:
            draw = self.first[draw]
        return draw

    def join(self, here: int, others: list[int]) -> Kinds:
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

    def heads(self, here: int, node: Attend, moving: list[int]) -> Kinds:
        """Attention: queries and what is made meet by their channels, keys and values by those of groups."""
        size = node.size * node.together
        if node.group == 1:
            found = self.join(here, moving)
            for kind, _ in () if node.grows else found:
                self.of_size(here, kind, size)
            return found
        found, seen = self.parts[node.of[0]], self.join(here, list(dict.fromkeys(node.of[1:3])))
        if len(found) > 1 or len(seen) > 1:
            raise ValueError(
                f"Node [{here}] of this network, {self.program.nodes[here].said}, has queries, keys or values of "
                "several kinds, which stand beside each other. Order 1/n is not known of it: make each by one "
                "random layer such as Dense."
            )
        asked, shared = (next(iter(own))[0] for own in (found, seen))
        self.of_size(here, asked, size)
        self.of_size(here, shared, size // node.group)
        self.sharing.append((asked, shared))
        return found

    def together(self) -> dict[int, int]:
        """The population of each random layer."""
        found = {k: self.of(k) for k in self.first}
        for one, other in self.sharing:
            pair = sorted((found[one], found[other]))
            found = {k: pair[0] if p == pair[1] else p for k, p in found.items()}
        return found

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
        elif isinstance(node, Drop):
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
            heads = isinstance(node, Attend)
            found.parts[here] = (
                found.heads(here, node, moving) if heads else found.join(here, moving)
            )
    for uses in same.values():
        _tie(found, uses)
    read = set(itertools.chain(*(program.nodes[k].of for k in behind)))
    read |= {k for k in wanted if not program.averages_out(((k, 1.0),))}
    return _finished(found, [k for k in behind if k in found.first and k in read])


def _finished(found: _Joining, drawn: list[int]) -> Populations:
    together = found.together()
    inner = {k: found.inner[found.of(k)] for k in found.first}
    parts = {
        k: tuple(Part(together[d], share, inner[d]) for d, share in own)
        for k, own in found.parts.items()
    }
    units: dict[int, int] = {}
    for k in drawn:
        count = found.program.channels[k] // inner[k]
        if units.setdefault(together[k], count) != count:
            raise ValueError(
                f"Node [{k}] of this network has channels for {count} units, and what meets it for "
                f"{units[together[k]]}; order 1/n is not known of it. Give all heads one size and one group."
            )
    return Populations(units, {k: inner[k] for k in drawn}, {k: together[k] for k in drawn}, parts)


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
