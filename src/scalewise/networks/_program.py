r"""A network as a program: nodes in the order in which they are computed, each a field of channels at sites.

$$u_i(s)=b_i+\sum_\tau\sum_jW^\tau_{ij}(B_\tau x_j)(s),\quad W^\tau_{ij}\sim N(0,C_W/kn),\qquad y_i=\sigma(z_i),
  \qquad\textstyle\sum_mf_mx^m_i(s),\qquad(Bx_i)(s),\qquad x_i(s)/\sqrt{\langle x(s)^2\rangle+\epsilon}.$$
Everything that is known of a network is an interpretation of this list; nothing else of the house knows layers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from scalewise.activations import Activation
from scalewise.networks._laws import WeightLaw
from scalewise.networks._nodes import (
    Attend,
    Concat,
    Draw,
    Drop,
    Hyperparameters,
    Node,
    Normalise,
    Pointwise,
    PositionMap,
    Product,
    Stack,
    Sum,
    Weigh,
)


@dataclass(frozen=True)
class Program:
    r"""Nodes, their shapes, and which of them are preactivations.

    Args:
        nodes: In the order in which they are computed.
        positions: Of each node, how many positions it has along each axis.
        channels: Of each node.
        layers: The nodes that are preactivations $z^{(1)},\dots,z^{(L)}$, with all that is added to them.
        draws: The random layers behind these.
        estimated: Nodes whose averages at infinite width are not functions of those that they read: functions of
            what is not Gaussian, and what combines fields that share random numbers.
        modules: Of each node of a model that was read, the module that computes it; empty of other networks.
    """

    nodes: tuple[Node, ...]
    positions: tuple[tuple[int, ...], ...]
    channels: tuple[int, ...]
    layers: tuple[int, ...]
    draws: tuple[int, ...]
    estimated: frozenset[int] = frozenset()
    modules: tuple[str, ...] = field(default=(), compare=False)

    @property
    def depth(self) -> int:
        """Number of random layers."""
        return len(self.layers)

    @property
    def activations(self) -> tuple[Activation, ...]:
        """Different activations, in order."""
        return tuple(
            dict.fromkeys(node.sigma for node in self.nodes if isinstance(node, Pointwise))
        )

    def own(self, layer: int) -> Hyperparameters:
        """The hyperparameters of a layer, counted from 1."""
        node = self.nodes[self.draws[layer - 1]]
        assert isinstance(node, Draw)
        return node.own

    @cached_property
    def laws(self) -> tuple[WeightLaw, ...]:
        """Laws of the weights of every random layer, in order."""
        return tuple(node.own.law for node in self.nodes if isinstance(node, Draw))

    @property
    def is_normal(self) -> bool:
        """True if all weights are normal."""
        return all(law.is_normal for law in self.laws)

    @cached_property
    def last_reader(self) -> tuple[int, ...]:
        """Last reader of each node, one beyond it where links read the node; the node itself if nothing does."""
        last = list(range(len(self.nodes)))
        for here, node in enumerate(self.nodes):
            for other in node.of:
                last[other] = here
        for link in self.links:
            for other in {*link, *itertools.chain(*self.needs(*link) or ())}:
                last[other] = max(last[other], max(link) + 1)
        return tuple(last)

    @cached_property
    def fixed(self) -> frozenset[int]:
        """The inputs, and nodes that are made of them without weights."""
        found: set[int] = set()
        for here, node in enumerate(self.nodes):
            if not isinstance(node, Draw | Drop) and found.issuperset(node.of):
                found.add(here)
        return frozenset(found)

    @cached_property
    def sampled(self) -> frozenset[int]:
        """Nodes of which values of single channels are needed, to average what is estimated."""
        need, before = set(self.estimated), None
        while need != before:
            before = set(need)
            for here in range(len(self.nodes) - 1, -1, -1):
                if here in need and not isinstance(self.nodes[here], Draw | Attend):
                    need.update(self.nodes[here].of)
            need.update(itertools.chain(*self.closure(self._drawn_together(need))[1]))
        return frozenset(need - self.fixed)

    def check_sampled(self) -> None:
        """Refuse what cannot be sampled."""
        read = set(itertools.chain(*self.closure(self.links)[1]))
        for k in self.sampled:
            if not isinstance(self.nodes[k], Draw | Attend):
                read.update(self.nodes[k].of)
        for k in sorted(read):
            if isinstance(self.nodes[k], Attend | Concat):
                raise ValueError(
                    f"Node [{k}] of this network, {self.nodes[k].said}, comes before weights that are used again, "
                    "and what it gives at different places has no covariance that is known. Share weights before "
                    "it, or behind it alone."
                )

    def _drawn_together(self, some: Iterable[int]) -> list[tuple[int, int]]:
        """Pairs of random layers of the same weights among some nodes."""
        draws = [k for k in sorted(some) if isinstance(self.nodes[k], Draw)]
        pairs = itertools.combinations(draws, 2)
        return [pair for pair in pairs if self.weights_of(pair[0]) == self.weights_of(pair[1])]

    def weights_of(self, node: int) -> int:
        """The random layer whose weights a random layer has: itself, or an earlier one."""
        again = getattr(self.nodes[node], "again", None)
        return node if again is None else again

    @cached_property
    def roots(self) -> tuple[frozenset[int], ...]:
        """Weights that the channels of each node are made of, those of the last random layers before it."""
        found: list[frozenset[int]] = []
        for here, node in enumerate(self.nodes):
            below = frozenset[int]().union(*(found[k] for k in node.of))
            found.append(frozenset({self.weights_of(here)}) if isinstance(node, Draw) else below)
        return tuple(found)

    def apart(self, one: int, other: int) -> bool:
        """True if two fields have no weights in common and are not both made of inputs alone."""
        return not self.roots[one] & self.roots[other] and not {one, other} <= self.fixed

    @cached_property
    def links(self) -> tuple[tuple[int, int], ...]:
        """Pairs of different nodes whose covariance is needed, each after those that it is made of."""
        met = self._drawn_together(self.sampled)
        for here, node in enumerate(self.nodes):
            if isinstance(node, Sum | Stack) and here not in self.estimated | self.fixed:
                met += self.bound(node.of)
        return tuple(sorted(self.closure(met)[0], key=lambda link: (link[1], link[0])))

    def bound(self, some: Iterable[int]) -> list[tuple[int, int]]:
        """Pairs of different nodes among some that are not apart."""
        pairs = itertools.combinations(sorted(set(some)), 2)
        return [pair for pair in pairs if not self.apart(*pair)]

    def closure(
        self, links: Iterable[tuple[int, int]]
    ) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """The covariances of different nodes that some are made of; and those of them that have no formula."""
        found: set[tuple[int, int]] = set()
        without: set[tuple[int, int]] = set()
        todo = [(min(link), max(link)) for link in links]
        while todo:
            link = todo.pop()
            if link[0] == link[1] or link in found:
                continue
            found.add(link)
            needs = self.needs(*link)
            if needs is None:
                without.add(link)
            todo += [(min(pair), max(pair)) for pair in needs or ()]
        return found, without

    def needs(self, one: int, other: int) -> list[tuple[int, int]] | None:
        """Pairs of nodes whose covariances determine that of two different nodes; ``None`` if none do."""
        nodes = self.nodes
        a, b = nodes[one], nodes[other]
        if {one, other} <= self.fixed or self.apart(one, other):
            return []
        below = list(zip(a.of, b.of, strict=False))
        if isinstance(a, Draw) and isinstance(b, Draw):
            return below
        if {one, other} & self.estimated:
            return None
        if isinstance(a, Pointwise) and isinstance(b, Pointwise):
            return below if a.sigma == b.sigma else None
        if isinstance(a, PositionMap) and isinstance(b, PositionMap):
            return below
        if isinstance(a, Concat) and isinstance(b, Concat):
            return below if a.shares == b.shares else None
        if isinstance(a, Product) and isinstance(b, Product) and len(a.of) == len(b.of):
            for (u, v), (w, y) in itertools.permutations(below, 2):
                if (self.roots[u] | self.roots[v]) & (self.roots[w] | self.roots[y]):
                    return None
            return below
        for here, there in self.by_lateness(one, other):
            if isinstance(nodes[here], Sum):  # which is linear in what it reads
                return [(k, there) for k in nodes[here].of]
            if isinstance(nodes[here], Normalise | Weigh):
                return [(nodes[here].of[0], there)]
        return None

    @staticmethod
    def by_lateness(one: int, other: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Two nodes, the later one first, and the other way round."""
        first, last = min(one, other), max(one, other)
        return (last, first), (first, last)

    def behind(self, wanted: Iterable[int]) -> list[int]:
        """The nodes that some need, themselves included, in order."""
        need = set(wanted)
        for here in range(max(need, default=-1), -1, -1):
            if here in need:
                need.update(self.nodes[here].of)
        return sorted(need)

    def norms(self, node: int) -> list[int]:
        """The norms that a node depends on, of fields with weights."""
        behind = set(self.behind((node,))) - self.fixed
        return sorted(k for k in behind if isinstance(self.nodes[k], Normalise))

    def parts(self, node: int) -> list[tuple[tuple[int, float], ...]]:
        """Fields that a node adds up, with factors, in groups whose products with each other are 0 on average.

        A random layer is one by itself if no other part is a function of it, but by fresh random layers.
        """
        groups: list[list[tuple[int, float]]] = []
        for part in self._added(node):
            bound = [g for g in groups if any(self._bound(part[0], other) for other, _ in g)]
            groups = [g for g in groups if g not in bound] + [[*itertools.chain(*bound), part]]
        return [tuple(group) for group in sorted(groups)]

    def _bound(self, one: int, other: int) -> bool:
        """True if the product of two fields may have a mean: neither is a random layer fresh to the other."""
        return not any(self.is_fresh(a, self.behind([b])) for a, b in ((one, other), (other, one)))

    def is_fresh(self, node: int, others: Iterable[int]) -> bool:
        """True for a random layer whose weights no other of some nodes has, itself among them."""
        made = self.nodes[node]
        return isinstance(made, Draw) and all(
            self.weights_of(k) != self.weights_of(node)
            for k in others
            if isinstance(self.nodes[k], Draw)
        )

    def averages_out(self, part: tuple[tuple[int, float], ...]) -> bool:
        """True if a part is one random layer, over whose weights averages are Gaussian given what it reads."""
        node = part[0][0]
        return len(part) == 1 and self.is_fresh(node, self.behind(self.nodes[node].of))

    def _added(self, node: int) -> list[tuple[int, float]]:
        made = self.nodes[node]
        if not isinstance(made, Sum):
            return [(node, 1.0)]
        return [
            (part, factor * other)
            for below, factor in zip(made.of, made.factors, strict=True)
            for part, other in self._added(below)
        ]

    def follows_an_activation(self, node: int) -> bool:
        """True if a node makes all it makes from activations, moved or mixed, or from the inputs."""
        made = self.nodes[node]
        if node in self.fixed or isinstance(made, Pointwise):
            return True
        return not isinstance(made, Draw | Sum) and all(map(self.follows_an_activation, made.of))

    def fan_in(self, node: int) -> int:
        """Number of terms that meet in a channel of a random layer."""
        made = self.nodes[node]
        assert isinstance(made, Draw)
        return made.taps * self.channels[made.of[0]] // made.groups

    def places(self, node: int) -> int:
        """Number of sets of weights of a random layer."""
        made = self.nodes[node]
        assert isinstance(made, Draw)
        return 1 if made.shared else math.prod(self.positions[node])

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        count = 0
        for place, node in enumerate(self.nodes):
            if isinstance(node, Draw) and node.again is None:
                count += self.channels[place] * (1 + self.fan_in(place)) * self.places(place)
        return count

    def has_one_site(self, layer: int) -> bool:
        """True if a layer has one site alone."""
        return math.prod(self.positions[self.layers[layer - 1]]) == 1
