"""Fully connected layers, numbered and of one activation: what is known of them beyond any network."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from scalewise._checked import Count, Must
from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.activations._catalogue import ActivationLike
from scalewise.critical import Criticality, criticality
from scalewise.networks._architecture import Architecture
from scalewise.networks._builder import Builder
from scalewise.networks._layers import NotNegatives, Positives, Repeated, Widths, per_layer
from scalewise.networks._nodes import HYPERPARAMETERS, Hyperparameters
from scalewise.networks._program import Program

if TYPE_CHECKING:
    from scalewise.networks._mlp import MLP

Kind = TypeVar("Kind", bound="Perceptron")


@dataclass(frozen=True, init=False)
@readable
class Perceptron(Architecture):
    r"""Shape and hyperparameters of fully connected layers at initialisation, whatever connects them.

    Abstract: `MLP` and `ResidualMLP` are the perceptrons.

    Args:
        depth: As of `MLP`, like the others.
        width: Widths of the hidden layers.
        activation: $\sigma$.
        input_dim: $n_0$.
        output_dim: $n_L$.
        C_b: Bias variance of every layer.
        C_W: Rescaled weight variance of every layer.
        lambda_b: Learning-rate factor of the biases of every layer.
        lambda_W: That of the weights.
    """

    depth: int
    width: tuple[int, ...]
    activation: Activation
    input_dim: int
    output_dim: int
    C_b: tuple[float, ...]
    C_W: tuple[float, ...]
    lambda_b: tuple[float, ...]
    lambda_W: tuple[float, ...]

    def __init__(
        self,
        depth: Count,
        width: Widths,
        activation: ActivationLike,
        *,
        input_dim: Count,
        output_dim: Count,
        C_b: NotNegatives = 0.0,
        C_W: Positives = 1.0,
        lambda_b: NotNegatives = 1.0,
        lambda_W: NotNegatives = 1.0,
    ) -> None:
        name, store = type(self).__name__, object.__setattr__
        hidden = per_layer(f"{name}.width", width, depth - 1, what="hidden layers")
        plain = {"depth": depth, "width": hidden, "activation": activation}
        for key, value in {**plain, "input_dim": input_dim, "output_dim": output_dim}.items():
            store(self, key, value)
        store(self, "input_shape", (input_dim,))
        rates = {"C_b": C_b, "C_W": C_W, "lambda_b": lambda_b, "lambda_W": lambda_W}
        for key, value in rates.items():
            store(self, key, Repeated.by(float, per_layer(f"{name}.{key}", value, depth)))

    @property
    @abstractmethod
    def skips(self) -> tuple[float, ...]:
        r"""How much of the layer below each layer adds to itself; 0 without a skip connection."""

    @property
    @abstractmethod
    def branch(self) -> MLP:
        """The network without its skip connections."""

    @property
    def hidden_widths(self) -> tuple[int, ...]:
        r"""$(n_1,\dots,n_{L-1})$."""
        return tuple(self.width)

    @property
    def widths(self) -> tuple[int, ...]:
        r"""$(n_0,n_1,\dots,n_L)$."""
        return (self.input_dim, *self.hidden_widths, self.output_dim)

    @property
    def layers_of_one_site(self) -> tuple[int, ...]:
        """All of them."""
        return tuple(range(1, self.depth + 1))

    @cached_property
    def program(self) -> Program:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The nodes that it computes."""
        own = [self.own(layer) for layer in range(1, self.depth + 1)]
        build = Builder(width=1, usual=own[0])
        z = build.draw(build.source(self.input_shape), self.widths[1], own=own[0])
        for skip, width, numbers in zip(self.skips[1:], self.widths[2:], own[1:], strict=True):
            below, z = z, build.draw(build.apply(z, self.activation), width, own=numbers)
            if skip:
                z = build.add((z, below), (1.0, skip))
        return build.program()

    def own(self, layer: int) -> Hyperparameters:
        """The hyperparameters of a layer, counted from 1."""
        return Hyperparameters(*(getattr(self, name)[layer - 1] for name in HYPERPARAMETERS))

    @property
    def activations(self) -> tuple[Activation, ...]:
        r"""$\sigma$ alone."""
        return (self.activation,)

    @property
    def aspect_ratio(self) -> float:
        r"""$r=L/n$ with $1/n$ the mean of $1/n_\ell$ over the hidden layers; 0 for depth 1."""
        hidden = self.hidden_widths
        return self.depth * sum(1 / n for n in hidden) / len(hidden) if hidden else 0.0

    @property
    def criticality(self) -> Criticality | None:
        """The record of the critical point that all layers are at; ``None`` if they are not."""
        record = criticality(self.activation)
        if record.C_b is None or record.C_W is None:
            return None
        critical = tuple(_beside(self.skips, c) for c in (record.C_b, record.C_W))
        return record if (self.C_b, self.C_W) == critical else None

    def at_criticality(self: Kind) -> Kind:
        r"""The same network with the critical $C_b,C_W$ of its activation, times $1-\gamma^2$ in every layer.

        Returns:
            A copy whose `criticality` is the record that the numbers come from.

        Raises:
            ValueError: If the activation has no critical point, the message says why; or if a $\gamma$ is 1
                or greater, beside which only $C_W=0$ would be critical.

        Source: PDLT (B.19)-(B.21); half-stable points keep their $K^\star$.
        """
        record = criticality(self.activation)
        if record.C_b is None or record.C_W is None:
            raise ValueError(
                f"{self.activation.name!r} has no critical initialisation: {record.reason} "
                "Set C_b and C_W yourself, or choose another activation."
            )
        if max(self.skips) >= 1:
            raise ValueError(
                f"Criticality needs gamma < 1, since C_W is proportional to 1 - gamma^2; got "
                f"{max(self.skips)}. Take a smaller gamma; gamma_star of the aspect ratio gives one."
            )
        C_b, C_W = (_beside(self.skips, c) for c in (record.C_b, record.C_W))
        return replace(self, C_b=C_b, C_W=C_W)

    def at_width(self: Kind, width: Widths) -> Kind:
        """The same network with hidden layers of another `width`."""
        return replace(self, width=width)

    def attributes(self) -> dict[str, object]:
        """What a result must carry to be computed again: plain numbers, text and lists."""
        return {
            "depth": self.depth,
            "hidden_widths": list(self.hidden_widths),
            "activation": self.activation.name,
            "activation_digest": self.activation.digest(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "C_b": list(self.C_b),
            "C_W": list(self.C_W),
            "lambda_b": list(self.lambda_b),
            "lambda_W": list(self.lambda_W),
            **({"gamma": list(self.skips)} if any(self.skips) else {}),
        }

    def _given(self) -> dict[str, Any]:
        """The arguments that make it again: one number where all layers have the same."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        alike = {k: v[0] for k, v in own.items() if isinstance(v, tuple) and len(set(v)) == 1}
        return own | alike | {"activation": self.activation.name}


def _beside(skips: tuple[float, ...], critical: float) -> tuple[float, ...]:
    """The critical variance of every layer, beside what its skip connection carries."""
    return Repeated.by(lambda gamma: critical * (1 - gamma * gamma), skips)


AnyPerceptron = Annotated[
    Perceptron, Must("a network of fully connected layers, such as scalewise.MLP")
]


def check_perceptron(net: Any, *, skips: bool = False) -> None:
    """Refuse what is not a perceptron, and skip connections where they would be passed over in silence."""
    if not isinstance(net, Perceptron):
        raise TypeError(f"`net` must be a network such as scalewise.MLP; got {type(net).__name__}.")
    if any(net.skips) and not skips:
        raise ValueError(
            "`net` has skip connections, and what is asked for is known only without them. "
            "`predict` and `measure` take such a network; here pass an MLP."
        )
