r"""A network as a program: nodes in the order in which they are computed, each a field of channels at sites.

$$u_i(s)=b_i+\sum_\tau\sum_jW^\tau_{ij}(B_\tau x_j)(s),\quad W^\tau_{ij}\sim N(0,C_W/kn),\qquad y_i=\sigma(z_i),
  \qquad\textstyle\sum_mf_mx^m_i(s),\qquad(Bx_i)(s),\qquad x_i(s)/\sqrt{\langle x(s)^2\rangle+\epsilon}.$$
Everything that is known of a network is an interpretation of this list; nothing else of the house knows layers.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from scalewise.activations import Activation
from scalewise.networks._sites import Matrix, Taps, Window


@dataclass(frozen=True)
class Hyperparameters:
    """Variances and learning-rate factors of one random layer."""

    C_b: float
    C_W: float
    lambda_b: float
    lambda_W: float


HYPERPARAMETERS = tuple(Hyperparameters.__dataclass_fields__)


@dataclass(frozen=True)
class Source:
    """The inputs; every other node reads others, by their numbers."""

    @property
    def of(self) -> tuple[int, ...]:
        """Nothing."""
        return ()

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        return "inputs"


@dataclass(frozen=True)
class Draw:
    """A random layer: independent weights for each tap of the windows, one for each axis of positions.

    Args:
        of: What it reads.
        windows: One for each axis of positions.
        own: Variances and learning-rate factors.
        groups: Into how many the channels of both sides fall; those of one read those of the same.
        shared: Whether all places have the same weights and biases, and not each its own.
    """

    of: tuple[int, ...]
    windows: tuple[Taps, ...]
    own: Hyperparameters
    groups: int = 1
    shared: bool = True

    @property
    def taps(self) -> int:
        """How many positions a weight matrix is drawn for."""
        return math.prod(window.taps for window in self.windows)

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        taps = " x ".join(str(window.taps) for window in self.windows)
        said = f"random, {taps} taps" if self.taps > 1 else "random"
        said += f", {self.groups} groups" if self.groups > 1 else ""
        return said if self.shared else f"{said}, each place"


@dataclass(frozen=True)
class Pointwise:
    """An activation, channel by channel and site by site."""

    of: tuple[int, ...]
    sigma: Activation

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        return self.sigma.name


@dataclass(frozen=True)
class Sum:
    """A sum of fields that share no random numbers, with factors."""

    of: tuple[int, ...]
    factors: tuple[float, ...]

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        parts = zip(self.factors, self.of, strict=True)
        return "sum of " + ", ".join(f"{'' if f == 1 else f'{f:g} '}[{k}]" for f, k in parts)


@dataclass(frozen=True)
class Spread:
    """A fixed linear map of positions times a factor: axis by axis the sum over taps of a window, or a matrix."""

    of: tuple[int, ...]
    along: tuple[Window | Matrix, ...]
    factor: float

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        kind = "aggregate" if any(isinstance(own, Matrix) for own in self.along) else "pool"
        return f"{kind}, " + " x ".join(own.said for own in self.along)


class Reading(ABC):
    """What a node makes of inputs, as a value: a frozen dataclass with this method."""

    said: str  # what a table of the network calls it

    @abstractmethod
    def __call__(self, x: Any, xp: Any) -> Any:
        """(sample, *positions, feature) from inputs, with NumPy or JAX's.

        Args:
            x: Inputs, or what was made of them.
            xp: The library.
        """


@dataclass(frozen=True)
class Read:
    """Any function of the inputs, sample by sample."""

    of: tuple[int, ...]
    make: Reading

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        return self.make.said


@dataclass(frozen=True)
class Mix:
    """Positions of a field, mixed by a matrix that the inputs give: its rows are a field, its columns features."""

    of: tuple[int, ...]
    said: ClassVar[str] = "mixed by inputs"


@dataclass(frozen=True)
class Dropout:
    """Numbers that are 0 by chance, independently at every sample, position and channel, or divided by `keep`."""

    of: tuple[int, ...]
    keep: float

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        return f"dropout, {self.keep:g} kept"


@dataclass(frozen=True)
class Product:
    """A product of fields, channel by channel and site by site."""

    of: tuple[int, ...]

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        return "product of " + ", ".join(f"[{k}]" for k in self.of)


@dataclass(frozen=True)
class Concat:
    """The channels of some fields beside each other, and what share of them each field has."""

    of: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        return "channels of " + ", ".join(f"[{k}]" for k in self.of)


@dataclass(frozen=True)
class Max:
    """The largest number that a window sees, channel by channel; beyond the ends there is none."""

    of: tuple[int, ...]
    windows: tuple[Window, ...]

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        return "maximum, " + " x ".join(window.said for window in self.windows)


@dataclass(frozen=True)
class Attend:
    r"""Averages of values over positions: $\sum_tp(s,t)v(t)$ in each head, $p=\sigma(q(s)\cdot k(t)/d^\alpha)$.

    Args:
        of: Queries, keys and values.
        size: $d$, the channels of a head.
        grows: Whether heads grow with the width, and not their number.
        power: $\alpha$.
        causal: Whether a position sees none behind it.
        sigma: An activation, or ``None`` for softmax over $t$.
    """

    of: tuple[int, ...]
    size: int
    grows: bool
    power: float
    causal: bool
    sigma: Activation | None = None

    @property
    def tied(self) -> bool:
        """Whether queries are keys."""
        return self.of[0] == self.of[1]

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        keys = "tied" if self.tied else "free"
        return f"attention, heads of {self.size}, {keys} keys"


@dataclass(frozen=True)
class Norm:
    """Division by the root mean square over channels.

    Args:
        of: What it reads.
        eps: Added to the mean square.
        centred: Whether the mean is subtracted first.
        joint: Whether both are over all positions, too, and not site by site.
        groups: Into how many the channels fall, each with its own.
    """

    of: tuple[int, ...]
    eps: float
    centred: bool
    joint: bool = False
    groups: int = 1

    @property
    def said(self) -> str:
        """What a table of the network calls it."""
        said = "layer norm" if self.centred else "RMS norm"
        said = f"norm of {self.groups} groups" if self.groups > 1 else said
        return f"{said}, all positions" if self.joint else said


Node = (
    Source | Draw | Pointwise | Sum | Spread | Norm | Product | Concat | Max | Attend | Read | Mix
    | Dropout
)  # fmt: skip


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
    """

    nodes: tuple[Node, ...]
    positions: tuple[tuple[int, ...], ...]
    channels: tuple[int, ...]
    layers: tuple[int, ...]
    draws: tuple[int, ...]
    estimated: frozenset[int] = frozenset()

    @property
    def depth(self) -> int:
        """Random layers."""
        return len(self.layers)

    @property
    def activations(self) -> tuple[Activation, ...]:
        """Those that differ."""
        return tuple(
            dict.fromkeys(node.sigma for node in self.nodes if isinstance(node, Pointwise))
        )

    def own(self, layer: int) -> Hyperparameters:
        """The hyperparameters of a layer, counted from 1."""
        node = self.nodes[self.draws[layer - 1]]
        assert isinstance(node, Draw)
        return node.own

    @cached_property
    def last_reader(self) -> tuple[int, ...]:
        """Of each node the last one that reads it; the node itself if none does."""
        last = list(range(len(self.nodes)))
        for here, node in enumerate(self.nodes):
            for other in node.of:
                last[other] = here
        return tuple(last)

    @cached_property
    def fixed(self) -> frozenset[int]:
        """The inputs, and nodes that are made of them without weights."""
        found: set[int] = set()
        for here, node in enumerate(self.nodes):
            if not isinstance(node, Draw | Dropout) and found.issuperset(node.of):
                found.add(here)
        return frozenset(found)

    @cached_property
    def sampled(self) -> frozenset[int]:
        """Nodes of which values of single channels are needed, to average what is estimated."""
        need = set(self.estimated)
        for here in range(len(self.nodes) - 1, -1, -1):
            if here in need and not isinstance(self.nodes[here], Draw | Attend):
                need.update(self.nodes[here].of)
        return frozenset(need)

    def behind(self, wanted: Iterable[int]) -> list[int]:
        """The nodes that some need, themselves included, in order."""
        need = set(wanted)
        for here in range(max(need, default=-1), -1, -1):
            if here in need:
                need.update(self.nodes[here].of)
        return sorted(need)

    def parts(self, node: int) -> list[tuple[tuple[int, float], ...]]:
        """What a node adds up, with factors, in groups whose products with each other are 0 on average.

        A random layer is one by itself if no other part is a function of it, but by fresh random layers.
        """
        groups: list[list[tuple[int, float]]] = []
        for part in self._added(node):
            bound = [g for g in groups if any(self._bound(part[0], other) for other, _ in g)]
            groups = [g for g in groups if g not in bound] + [[*itertools.chain(*bound), part]]
        return [tuple(group) for group in sorted(groups)]

    def _bound(self, one: int, other: int) -> bool:
        """Whether the product of two fields may have a mean: neither is a random layer that the other knows not."""
        return not any(
            isinstance(self.nodes[a], Draw) and a not in self.behind([b])
            for a, b in ((one, other), (other, one))
        )

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
        """Whether what a node makes is all of activations, moved or mixed, or of the inputs."""
        made = self.nodes[node]
        if node in self.fixed or isinstance(made, Pointwise):
            return True
        return not isinstance(made, Draw | Sum) and all(map(self.follows_an_activation, made.of))

    def fan_in(self, node: int) -> int:
        """How many numbers meet in a channel of a random layer."""
        made = self.nodes[node]
        assert isinstance(made, Draw)
        return made.taps * self.channels[made.of[0]] // made.groups

    def places(self, node: int) -> int:
        """How many sets of weights a random layer has."""
        made = self.nodes[node]
        assert isinstance(made, Draw)
        return 1 if made.shared else math.prod(self.positions[node])

    def has_one_site(self, layer: int) -> bool:
        """Whether a layer has one site alone."""
        return math.prod(self.positions[self.layers[layer - 1]]) == 1
