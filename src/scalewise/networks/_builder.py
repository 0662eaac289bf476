"""How layers become a program: the verbs that they call, and what is known of each field meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scalewise.activations import Activation
from scalewise.networks._program import (
    Draw,
    Hyperparameters,
    Node,
    Norm,
    Pointwise,
    Program,
    Source,
    Spread,
    Sum,
)
from scalewise.networks._sites import IDENTITY, Matrix, Taps, Window


@dataclass(frozen=True)
class Field:
    """A field while a network is built.

    Args:
        node: Its number in the program.
        positions: Along each axis.
        channels: How many.
        draws: The random layers that its channels are made of; none of the inputs.
        gaussian: Whether its channels are jointly Gaussian over sites at infinite width.
        centred: Whether their mean is 0.
        flat: Whether the next random layer has weights of its own for each position.
    """

    node: int
    positions: tuple[int, ...]
    channels: int
    draws: frozenset[int] = frozenset()
    gaussian: bool = False
    centred: bool = False
    flat: bool = False


class Layer(ABC):
    """What a network is made of: it becomes nodes of a program, by the verbs of `Builder`."""

    @abstractmethod
    def into(self, build: Builder, of: Field) -> Field:
        """Continue the program behind a field.

        Args:
            build: The program as far as it goes.
            of: The field that enters the layer.

        Returns:
            The field that leaves it.
        """


@dataclass
class Builder:
    """A program as far as it goes.

    Args:
        width: Channels of layers that do not say how many.
        usual: Hyperparameters of layers that do not say theirs.
        path: Where the layer that is being built stands: its number, and its number in that one.
        name: What messages call it.
    """

    width: int
    usual: Hyperparameters
    path: tuple[int, ...] = ()
    name: str = "The network"
    nodes: list[Node] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    layers: dict[int, int] = field(default_factory=dict)

    def source(self, shape: tuple[int, ...]) -> Field:
        """The inputs."""
        return self._add(Source(), Field(0, shape[:-1], shape[-1]))

    def draw(
        self,
        of: Field,
        channels: int | None = None,
        windows: tuple[Taps, ...] | None = None,
        own: Hyperparameters | None = None,
    ) -> Field:
        """A random layer; of one position after another without `windows`."""
        if of.flat:
            if windows is not None:
                raise ValueError(
                    f"{self.name} needs positions, and Flatten has made channels of them. Put it before Flatten."
                )
            windows = tuple(Window(taps=size) for size in of.positions)
        elif windows is None:
            windows = (IDENTITY,) * len(of.positions)
        node, positions = len(self.nodes), self._moved(of, windows)
        made = Field(node, positions, channels or self.width, frozenset({node}), True, True)
        self.layers[node] = node
        return self._add(Draw((of.node,), windows, own or self.usual), made)

    def apply(self, of: Field, sigma: Activation) -> Field:
        """An activation."""
        if not of.gaussian:
            what = (
                "what is not Gaussian, a skip connection that begins behind an activation for instance. Begin it "
                "before the activation, Skip('relu', Conv(3)), or put"
                if of.draws
                else "the inputs. Put"
            )
            raise ValueError(
                f"{self.name} acts on {what} a random layer such as Dense in between: expectations of an "
                "activation are known on sums of random layers."
            )
        return self._add(
            Pointwise((of.node,), sigma), replace(of, gaussian=False, centred=sigma.parity < 0)
        )

    def add(self, fields: tuple[Field, ...], factors: tuple[float, ...]) -> Field:
        """A sum of fields."""
        first = fields[0]
        for other in fields[1:]:
            mine, its = ((f.channels, f.positions) for f in (first, other))
            if mine != its:
                raise ValueError(
                    f"{self.name} adds {mine[0]} channels at {_sites(mine[1])} to {its[0]} channels at "
                    f"{_sites(its[1])}. Give both sides the same channels and positions."
                )
        if any(not f.draws for f in fields):
            raise ValueError(
                f"{self.name} adds the inputs to other channels, which are not of their kind. Put a random layer "
                "such as Dense before it."
            )
        draws = [f.draws for f in fields]
        if len(frozenset().union(*draws)) < sum(map(len, draws)):
            raise ValueError(
                f"{self.name} adds fields that are made of the same random numbers. Put a random layer such as "
                "Dense at the end of one of its sides."
            )
        if sum(not f.centred for f in fields) > 1:
            raise ValueError(
                f"{self.name} adds two fields whose means are not 0. Put a random layer such as Dense at the end "
                "of one of its sides."
            )
        made = replace(
            first,
            draws=frozenset().union(*draws),
            gaussian=all(f.gaussian for f in fields),
            centred=all(f.centred for f in fields),
        )
        node = len(self.nodes)
        # The newest random layer is a preactivation only with all that is added to it.
        newest = max(self.layers)
        if any(f.node == self.layers[newest] for f in fields):
            self.layers[newest] = node
        return self._add(Sum(tuple(f.node for f in fields), factors), made)

    def spread(self, of: Field, along: tuple[Window | Matrix, ...], factor: float) -> Field:
        """A fixed linear map of positions."""
        if of.flat:
            raise ValueError(
                f"{self.name} needs positions, and Flatten has made channels of them. Put it before Flatten."
            )
        made = replace(of, positions=self._moved(of, along))
        return self._add(Spread((of.node,), along, factor), made)

    def norm(self, of: Field, eps: float, *, centred: bool) -> Field:
        """Division by the root mean square over channels."""
        if of.flat:
            raise ValueError(
                f"{self.name} takes the channels of one position, and Flatten has made channels of all positions. "
                "Put it before Flatten."
            )
        if of.channels < 2:
            raise ValueError(
                f"{self.name} needs at least 2 channels, and there is one, of which a sign would be left. Give the "
                "layer before it more channels."
            )
        if centred and not of.centred:
            raise ValueError(
                f"{self.name} subtracts the mean over channels, which is 0 of random layers but is not known "
                "of the inputs or behind an activation. Put it before the activation, or use RMSNorm."
            )
        return self._add(Norm((of.node,), eps, centred), of)

    def run(self, layers: Sequence[Layer], of: Field) -> Field:
        """Some layers, one after the other."""
        outside = self.path, self.name
        for number, layer in enumerate(layers, 1):
            self.path = (*outside[0], number)
            self.name = f"Layer {'.'.join(map(str, self.path))}, {layer!r},"
            of = layer.into(self, of)
        self.path, self.name = outside
        return of

    def program(self) -> Program:
        """All of it."""
        return Program(
            tuple(self.nodes),
            tuple(f.positions for f in self.fields),
            tuple(f.channels for f in self.fields),
            tuple(self.layers.values()),
            tuple(self.layers),
        )

    def _moved(self, of: Field, along: tuple[Taps | Matrix, ...]) -> tuple[int, ...]:
        positions = tuple(own.length(size) for own, size in zip(along, of.positions, strict=True))
        if any(size < 1 for size in positions):
            raise ValueError(
                f"{self.name} does not fit into {_sites(of.positions)}. Make its window smaller, pad it, or shrink "
                "the positions less before it."
            )
        return positions

    def _add(self, node: Node, made: Field) -> Field:
        made = replace(made, node=len(self.nodes))
        self.nodes.append(node)
        self.fields.append(made)
        return made


def _sites(positions: tuple[int, ...]) -> str:
    if not positions:
        return "one site"
    return " x ".join(map(str, positions)) + (" positions" if positions != (1,) else " position")
