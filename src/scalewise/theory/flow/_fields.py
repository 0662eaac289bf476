"""A tile of pairs through the nodes of a network: its covariances at infinite width, one node after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np

from scalewise.gaussian.spi import Places
from scalewise.networks.spi import (
    Attend,
    Concat,
    Draw,
    Drop,
    Mix,
    Normalise,
    Pointwise,
    PositionMap,
    Product,
    Stack,
    Sum,
    Weigh,
)
from scalewise.theory.flow._attention import Mixing, drawn_heads
from scalewise.theory.flow._labels import Inputs, blocks
from scalewise.theory.flow._links import linked
from scalewise.theory.flow._room import Pair, Room
from scalewise.theory.flow._rules import Links, Rules
from scalewise.theory.flow._units import DrawnUnits

_NOTHING = (np.empty((0, 0)), None)


class Fields(Rules):
    """The rules, and what leads a tile through them."""

    @cached_property
    def _links_at(self) -> dict[int, list[tuple[int, int]]]:
        """Pairs of nodes whose covariances are needed, by the later of them."""
        found: dict[int, list[tuple[int, int]]] = {}
        for link in self.program.links:
            found.setdefault(max(link), []).append(link)
        return found

    @cached_property
    def _links_until(self) -> dict[int, list[tuple[int, int]]]:
        """Linked pairs by the last node that needs them; those of channels that are drawn stay."""
        program = self.program
        until = {link: max(link) for link in program.links}
        for link in program.links:
            for one, other in program.needs(*link) or ():
                need = min(one, other), max(one, other)
                if need in until:
                    until[need] = max(until[need], max(link))
        for here, node in enumerate(program.nodes):
            if isinstance(node, Sum | Stack) and here not in program.estimated | program.fixed:
                until |= dict.fromkeys(program.bound(node.of), here)
        found: dict[int, list[tuple[int, int]]] = {}
        for link, here in until.items() if not program.sampled else ():
            found.setdefault(here, []).append(link)
        return found

    def along(
        self,
        rows: Inputs,
        columns: Inputs,
        last: int,
        given: dict[int, Pair] | None = None,
        only: frozenset[int] | None = None,
    ) -> Iterator[tuple[int, Pair]]:
        """Take a tile of inputs through the nodes up to `last`, and yield each while it is there.

        Some may be given, and some left out: then it is through those of `only`.
        """
        program = self.program
        shapes = [self.places(here, rows, columns) for here in range(last + 1)]
        size = max(math.prod(at.shape) for at in self.tile[3].values())
        if self.room is None or self.room.size < size:
            self.room = Room(size)
        units = DrawnUnits(program, len(self.x), self.scramble, self.fixed)
        kept = dict(given or {})
        links: Links = {}
        for here in range(last + 1):
            if only is not None and here not in only:
                continue
            node = program.nodes[here]
            # What a node reads twice is nobody's to write over.
            spare = [program.last_reader[k] == here and node.of.count(k) == 1 for k in node.of]
            found = self._found(here, kept, spare, shapes, links, units)
            sampled = here in program.sampled and here not in program.estimated
            kept[here] = found
            if sampled and not isinstance(node, Draw):
                units.add(here)
            for pair in self._links_at.get(here, ()):
                for one, other in (pair, pair[::-1]):
                    at = self.places(one, rows, columns, other)
                    links[one, other] = linked(self, one, other, kept, links, at, units)
            if sampled and isinstance(node, Draw):
                self._add_drawn(units, here, found, links, shapes)
            for one, other in self._links_until.get(here, ()):
                for link in ((one, other), (other, one)):
                    self.arrays.give(*links.pop(link) or ())
            for k, free in zip(node.of, spare, strict=True):
                if free:
                    kept.pop(k, None)
                    units.forget(k)
            yield here, found
        for pair in (*kept.values(), *links.values()):
            self.arrays.give(*pair or ())

    def _found(
        self,
        here: int,
        kept: dict[int, Pair],
        spare: list[bool],
        shapes: list[Places],
        links: Links,
        units: DrawnUnits,
    ) -> Pair:
        """The covariances of a node."""
        program, at = self.program, shapes[here]
        node = program.nodes[here]
        below = [kept[k] for k in node.of]
        if here in program.fixed:
            x = self.fixed[here]
            return Pair(self.gram(x, x, at, self.arrays.take(at.shape)), None)
        if isinstance(node, Attend | Mix | Stack) or here in program.estimated:
            if here in program.estimated and not isinstance(node, Attend):
                found = self._estimated(units, here, at)
            elif isinstance(node, Mix):
                found = self.mixed(self.given(node.of[1]), below[0], at)
            elif isinstance(node, Attend):
                found = self._attended(node, below, here, shapes)
            else:
                assert isinstance(node, Stack)
                found = self.stacked(node, below, at, links)
            for k, free in dict(zip(node.of, spare, strict=True)).items():
                self.arrays.give(*kept[k] if free else ())
            return found
        if isinstance(node, Draw):
            return self.drawn(node, below[0], spare[0], at)
        if isinstance(node, Pointwise | Normalise):
            return self.mapped(node, below[0], spare[0], here, at)
        if isinstance(node, Product):
            return self.multiplied(below, spare)
        if isinstance(node, Weigh):
            return self.weighed(self.fixed[node.of[1]], below[0], spare[0], at)
        if isinstance(node, Drop):
            return self.dropped(node, below[0], spare[0], at)
        if isinstance(node, Sum | Concat):
            return self.summed(node, below, spare, at, links)
        assert isinstance(node, PositionMap)
        return self.spread(node, below[0], spare[0], at)

    def _add_drawn(
        self, units: DrawnUnits, here: int, found: Pair, links: Links, shapes: list[Places]
    ) -> None:
        """A random layer whose channels are drawn, given those of the same weights."""
        others = {}
        for k in units.together(here):
            link = links[here, k]
            at = self.places(here, shapes[here].rows, shapes[here].columns, k)
            others[k] = Pair(*_NOTHING) if link is None else self.matrices(link, at)
        units.draw(here, self.matrices(found, shapes[here]), others)

    def _estimated(self, units: DrawnUnits, here: int, at: Places) -> Pair:
        """Averages over channels that are drawn, at all labels at once."""
        units.add(here)
        self.means[here] = units.mean(here)
        return self.laid(Pair(*units.averages(here, here, ntk=self.ntk)), at)

    def _attended(self, node: Attend, below: list[Pair], here: int, shapes: list[Places]) -> Pair:
        """Averages over positions, with weights that do not fluctuate, or of heads that are drawn."""
        at = shapes[here]
        if not node.grows:
            tiles = (
                pair.each(partial(blocks, at=shapes[k]))
                for k, pair in zip(node.of[:3], below, strict=False)
            )
            Cs, Ts = zip(*tiles, strict=True)
            mask = self._mask(node)
            tangents, seed = Ts if self.ntk else None, (self.scramble, here)
            found = drawn_heads(node, Cs, tangents, seed, mask, self.heads)
            self.means[here] = None
            return Pair(*found).each(partial(self.laid_out, at=at))
        if here not in self.maps:
            own = blocks(below[0].C, shapes[node.of[0]])
            own = np.einsum("aapq->apq", own) if at.by_rows else own
            if not node.tied:
                places = [math.prod(self.program.positions[k]) for k in node.of[:2]]
                own = np.zeros((len(own), *places))
            self.maps[here] = self.map_at(here, own)
        weights = self.maps[here]
        assert isinstance(weights, Mixing)
        return self.mixed(weights, below[2], at)

    def _mask(self, node: Attend) -> np.ndarray | None:
        """The mask of the keys, (input, position)."""
        return self.fixed[node.of[3]].reshape(len(self.x), -1) if len(node.of) > 3 else None
