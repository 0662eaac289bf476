"""What the verbs read of any network: its program, and what its results are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, TypeVar

from scalewise._checked import Must
from scalewise.activations import Activation
from scalewise.networks._nodes import Draw, Hyperparameters
from scalewise.networks._program import Program

Kind = TypeVar("Kind", bound="Architecture")


class Architecture(ABC):
    """A network at initialisation, whatever it is made of: a value with a program.

    Abstract: `Network`, `MLP` and `ResidualMLP` are the networks.
    """

    input_shape: tuple[int, ...]  # positions along each axis, then channels
    output_dim: int
    depth: int  # random layers
    program: Program  # the nodes that it computes

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        r"""Channels of the inputs and of every random layer, $(n_0,n_1,\dots,n_L)$."""

    @abstractmethod
    def at_width(self: Kind, width: int) -> Kind:
        """The same network of another width."""

    @abstractmethod
    def attributes(self) -> dict[str, object]:
        """What a result must carry to be computed again: plain numbers, text and lists."""

    def own(self, layer: int) -> Hyperparameters:
        """The hyperparameters of a layer, counted from 1."""
        return self.program.own(layer)

    @property
    def layers_of_one_site(self) -> tuple[int, ...]:
        """The layers, counted from 1, that have no positions: what `predict` and `measure` tell of unasked."""
        return tuple(k for k in range(1, self.depth + 1) if self.program.has_one_site(k))

    @property
    def activations(self) -> tuple[Activation, ...]:
        """Those that differ, in the order of the layers."""
        return self.program.activations

    @property
    def parameters(self) -> int:
        r"""How many weights and biases there are."""
        program, count = self.program, 0
        for place, node in enumerate(program.nodes):
            if isinstance(node, Draw) and node.again is None:
                own = program.channels[place] * (1 + program.fan_in(place))
                count += own * program.places(place)
        return count


AnyNetwork = Annotated[Architecture, Must("a network such as scalewise.MLP or scalewise.Network")]
