"""A network of any layers: a value that becomes a program."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from scalewise._checked import Count, Must, NotNegative, Positive, checked
from scalewise._readable import Rows, readable
from scalewise.critical import Criticality, criticality
from scalewise.networks._architecture import Architecture
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._laws import LawLike, law_of
from scalewise.networks._nodes import Draw, Hyperparameters
from scalewise.networks._program import Program
from scalewise.networks.layers._activate import LayerLike

Shape = Annotated[
    Count | Sequence[Count],
    Must("a number of features, or positions along each axis and then channels, such as (8, 8, 3)"),
]


@checked
@dataclass(frozen=True, init=False)
@readable
class Network(Architecture):
    r"""A network at initialisation, made of layers.

    The last layer is `Dense`, the read-out, and says how many outputs it has. Weights of a random layer of $n$
    channels and $k$ taps below it have variance $C_W/kn$ and are normal unless `law` says otherwise, their learning
    rates are $\lambda_W/kn$.

    A network is a value, equal to any other of the same layers and numbers.

    Args:
        layers: Layers, or activations: names, functions or `Activation`.
        input_shape: Features of an input; with positions their number along each axis, then the channels.
        width: Channels of every random layer that does not say how many.
        C_b: Bias variance of every layer that does not say its own; at least 0.
        C_W: Rescaled weight variance; positive.
        lambda_b: Learning-rate factor of the biases; at least 0.
        lambda_W: Learning-rate factor of the weights; at least 0.
        law: Of the weights of every layer that does not say its own: ``"normal"``, ``"uniform"`` as PyTorch draws
            them, ``"truncated normal"`` (at two standard deviations) as JAX's libraries do, ``"rademacher"`` for
            signs, or a `scalewise.networks.WeightLaw`. All have the same infinitely wide limit and the same
            fluctuations; means shift at order $1/n$. Biases are normal.

    Raises:
        ValueError: If a layer does not fit what the layers before it give; the message says which, and what they
            give. Or if the last layer is not a read-out of some outputs at one site.

    Source: PDLT (2.5), (2.19)-(2.20), (8.6), with site matrices.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.Network(
        ...     sw.Conv(3), "relu", sw.Conv(3), "relu", sw.GlobalAvgPool(), sw.Dense(1),
        ...     input_shape=(4, 4, 1), width=64, C_W=2.0,
        ... )
        >>> sw.predict(net, np.ones((1, 4, 4, 1))).kernel.values.round(3).ravel()
        array([0.701])
    """  # fmt: skip

    layers: tuple[Layer, ...]
    input_shape: tuple[int, ...]
    width: int
    C_b: float
    C_W: float
    lambda_b: float
    lambda_W: float
    law: LawLike

    def __init__(
        self,
        *layers: LayerLike,
        input_shape: Shape,
        width: Count,
        C_b: NotNegative = 0.0,
        C_W: Positive = 1.0,
        lambda_b: NotNegative = 1.0,
        lambda_W: NotNegative = 1.0,
        law: LawLike = "normal",
    ) -> None:
        shape = (input_shape,) if isinstance(input_shape, int) else tuple(input_shape)
        own = {"layers": layers, "input_shape": shape, "width": width, "law": law}
        rates = {"C_b": C_b, "C_W": C_W, "lambda_b": lambda_b, "lambda_W": lambda_W}
        for key, value in {**own, **{k: float(v) for k, v in rates.items()}}.items():
            object.__setattr__(self, key, value)
        program = _built(self)
        _check_readout(layers, program)
        worked_out = {
            "program": program,
            "depth": program.depth,
            "output_dim": program.channels[-1],
        }
        for key, value in worked_out.items():
            object.__setattr__(self, key, value)

    @property
    def widths(self) -> tuple[int, ...]:
        r"""Channels of the inputs and of every random layer."""
        return tuple(self.program.channels[k] for k in (0, *self.program.layers))

    def replace(self, **changes: Any) -> Network:
        """The same network but for some arguments.

        Args:
            changes: New values by name; `layers` is a sequence of all layers.

        Example:
            >>> import scalewise as sw
            >>> net = sw.Network(sw.Dense(), "tanh", sw.Dense(1), input_shape=3, width=8)
            >>> net.replace(C_W=1.5).C_W
            1.5
        """
        given = {name: getattr(self, name) for name in self.__dataclass_fields__} | changes
        return Network(*given.pop("layers"), **given)

    def at_width(self, width: Count) -> Network:
        """The same network, `width` channels in every layer that does not say how many."""
        return self.replace(width=width)

    @property
    def criticality(self) -> Criticality | None:
        """The record of the critical point that all layers are at; ``None`` if they are not."""
        try:
            there = self.at_criticality() == self
        except ValueError:
            return None
        return criticality(self.activations[0]) if there else None

    def at_criticality(self) -> Network:
        r"""The same network with the critical $C_b,C_W$ of its activation in every random layer.

        A branch of a sum has them times what the trunk leaves of the variance, $1-\gamma^2$. Signals then keep
        their size through any number of layers, away from the zeros that a convolution sees beyond the ends and but
        for pools, which average over positions that differ.

        Returns:
            A copy whose `criticality` is the record that the numbers come from.

        Raises:
            ValueError: If there are several activations, or none, or theirs has no critical point; or a layer has
                none, as norms, which set the size of signals by themselves.

        Source: PDLT (5.67)-(5.70), (B.19)-(B.21); for convolutions Xiao et al., arXiv:1806.05393.

        Example:
            >>> import scalewise as sw
            >>> layers = (sw.Conv(3), "relu", sw.Skip(sw.Conv(3), "relu", sw.Conv(3), factor=0.6), "relu")
            >>> net = sw.Network(*layers, sw.Flatten(), sw.Dense(1), input_shape=(8, 1), width=64)
            >>> round(net.at_criticality().layers[2].branch[2].C_W, 2)
            1.28
        """
        if len(self.activations) != 1:
            names = ", ".join(repr(sigma.name) for sigma in self.activations) or "none"
            raise ValueError(
                f"Criticality is that of one activation, and this network has {names}. Choose C_b and C_W yourself."
            )
        record = criticality(self.activations[0])
        if record.C_b is None or record.C_W is None:
            raise ValueError(
                f"{self.activations[0].name!r} has no critical initialisation: {record.reason} "
                "Set C_b and C_W yourself, or choose another activation."
            )
        layers = [layer.at(record.C_b, record.C_W) for layer in self.layers]
        program = self.program
        for place, node in enumerate(program.nodes):
            if isinstance(node, Draw) and not program.follows_an_activation(node.of[0]):
                raise ValueError(
                    f"Node [{place}] of this network is a random layer that follows another one or a sum without "
                    "an activation in between, and criticality is that of an activation. Put one there, or choose "
                    "C_b and C_W yourself."
                )
        return self.replace(layers=layers)

    def attributes(self) -> dict[str, object]:
        """What a result must carry to be computed again: plain numbers, text and lists."""
        return {
            "layers": [repr(layer) for layer in self.layers],
            "activation": " ".join(sigma.name for sigma in self.activations),
            "activation_digest": " ".join(sigma.digest() for sigma in self.activations),
            "input_shape": list(self.input_shape),
            "input_dim": self.input_shape[-1],
            "width": self.width,
            "hidden_widths": list(self.widths[1:-1]),
            "depth": self.depth,
            "output_dim": self.output_dim,
            "C_b": self.C_b,
            "C_W": self.C_W,
            "lambda_b": self.lambda_b,
            "lambda_W": self.lambda_W,
            **({} if self.program.is_normal else {"law": [law.name for law in self.program.laws]}),
        }

    def _told(self) -> Iterator[str | Rows]:
        """One row for each layer of the program."""
        program = self.program
        yield (
            f"Network of depth {self.depth}: {_shaped(self.input_shape)} to {self.output_dim} "
            f"output{'s' if self.output_dim > 1 else ''}, {self.parameters:,} parameters"
        )
        cells = []
        for place, node in enumerate(program.nodes):
            sites = program.positions[place]
            row = [f"[{place}] {node.said}", _shaped(sites) or "1", str(program.channels[place])]
            if isinstance(node, Draw):
                own = node.own
                numbers = (program.fan_in(place), own.C_b, own.C_W, own.lambda_b, own.lambda_W)
                row += [f"{number:g}" for number in numbers]
            cells.append(tuple(row + [""] * (8 - len(row))))
        head = ("node", "sites", "channels", "fan-in", "C_b", "C_W", "lambda_b", "lambda_W")
        yield Rows(head, cells, numbers=True)


def _shaped(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))


def _built(net: Network) -> Program:
    """The nodes of the layers, one after the other."""
    if not net.layers:
        raise ValueError("`Network` needs layers, such as Network(Dense(), 'tanh', Dense(1), ...).")
    usual = Hyperparameters(net.C_b, net.C_W, net.lambda_b, net.lambda_W, law_of(net.law))
    build = Builder(net.width, usual)
    build.run(net.layers, build.source(net.input_shape))
    program = build.program()
    program.check_sampled()
    return program


def _check_readout(layers: Sequence[Layer], program: Program) -> None:
    """Refuse a network that does not end with outputs."""
    last = layers[-1]
    if not isinstance(program.nodes[-1], Draw) or not getattr(last, "channels", None):
        raise ValueError(
            f"The last layer of a network is its read-out, Dense with its number of outputs; got {last!r}. End "
            "with Dense(1), for instance."
        )
    if math.prod(program.positions[-1]) != 1:
        raise ValueError(
            f"The outputs of a network stand at one site, and here there are {_shaped(program.positions[-1])}. Put "
            "GlobalAvgPool() or Flatten() before the last layer."
        )
