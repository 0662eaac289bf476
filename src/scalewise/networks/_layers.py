"""Numbers of the layers: how they are given, and read off a program; and numbers as the theory takes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, Must
from scalewise.activations import Activation
from scalewise.networks._nodes import HYPERPARAMETERS, Draw, Hyperparameters, Pointwise, Sum
from scalewise.networks._program import Program

# One number for all layers, or one for each.
Widths = Annotated[
    Count | Sequence[Count], Must("a whole number of at least 1, or one for each hidden layer")
]
NotNegatives = Annotated[
    float | int | Sequence[float | int],
    Must(
        "a finite number of at least 0, or one for each layer",
        lambda given: all(0 <= v < math.inf for v in _each(given)),
    ),
]
Positives = Annotated[
    float | int | Sequence[float | int],
    Must(
        "a positive finite number, or one for each layer",
        lambda given: all(0 < v < math.inf for v in _each(given)),
    ),
]


# Of any library, and widths that need not be whole: what the verbs of the theory take.
Numbers = Annotated[Any, Float[np.ndarray, "..."]]
Width = Annotated[float | int, Must("a finite number of at least 1", lambda n: 1 <= n < math.inf)]


def _each(given: Any) -> Sequence[float | int]:
    return given if isinstance(given, Sequence) else (given,)


def per_layer(name: str, given: Any, count: int, *, what: str = "layers") -> tuple[Any, ...]:
    """A number for each of `count` layers, from one for all or one for each.

    Raises:
        ValueError: If there are more or fewer; the message calls the argument `name`.
    """
    if not isinstance(given, Sequence):
        return (given,) * count
    if len(given) != count:
        raise ValueError(
            f"`{name}` must be one number for all, or one for each of the {count} {what}; got {len(given)} values."
        )
    return tuple(given)


@dataclass(frozen=True)
class ByLayer:
    r"""Numbers of the random layers of a network.

    Args:
        widths: Channels of the inputs and of every layer, $(n_0,\dots,n_L)$.
        activations: Those that differ, in the order of the layers.
        C_b: Bias variance of every layer.
        C_W: Rescaled weight variance.
        lambda_b: Learning-rate factor of the biases.
        lambda_W: That of the weights.
        skips: How much of the layer below each layer adds to itself, where all layers are fully connected, one on
            another, of one activation and with normal weights; empty for any other network.
    """

    widths: tuple[int, ...]
    activations: tuple[Activation, ...]
    C_b: tuple[float, ...]
    C_W: tuple[float, ...]
    lambda_b: tuple[float, ...]
    lambda_W: tuple[float, ...]
    skips: tuple[float, ...]

    @staticmethod
    def of(program: Program) -> ByLayer:
        """Read off the nodes."""
        own = [program.own(layer) for layer in range(1, program.depth + 1)]
        return ByLayer(
            tuple(program.channels[k] for k in (0, *program.layers)),
            program.activations,
            *(tuple(getattr(one, name) for one in own) for name in HYPERPARAMETERS),
            skips=_skips(program),
        )

    def own(self, layer: int) -> Hyperparameters:
        """The hyperparameters of a layer, counted from 1."""
        return Hyperparameters(*(getattr(self, name)[layer - 1] for name in HYPERPARAMETERS))

    @property
    def said(self) -> str:
        """The call that makes fully connected layers."""
        name = "ResidualMLP" if any(self.skips) else "MLP"
        return f"{name}({', '.join(f'{k}={v!r}' for k, v in self.arguments)})"

    @property
    def arguments(self) -> Iterator[tuple[str, Any]]:
        """Arguments of this call that are not the usual ones."""
        hidden, skips = self.widths[1:-1], self.skips
        yield "depth", len(skips)
        yield "width", _one(hidden) if hidden else 1
        yield "activation", self.activations[0].name if self.activations else "linear"
        if any(skips):
            inner = set(skips[1:-1])
            yield "gamma", inner.pop() if len(inner) == 1 and not skips[-1] else list(skips)
        yield "input_dim", self.widths[0]
        yield "output_dim", self.widths[-1]
        for number, default in zip(HYPERPARAMETERS, (0.0, 1.0, 1.0, 1.0), strict=True):
            if set(values := getattr(self, number)) != {default}:
                yield number, _one(values)


def _one(values: tuple[Any, ...]) -> Any:
    """The number that all layers have, or all numbers."""
    return values[0] if len(set(values)) == 1 else list(values)


def _skips(program: Program) -> tuple[float, ...]:
    """Factors of the layer below in each layer, if it reads the activation of that and nothing else does."""
    nodes, found, z = program.nodes, list[float](), 0
    if len(program.activations) > 1 or program.positions[0]:
        return ()
    for layer, draw in zip(program.layers, program.draws, strict=True):
        made, end = nodes[draw], nodes[layer]
        if not isinstance(made, Draw) or made.again is not None or made.groups > 1:
            return ()
        if not made.own.law.is_normal:
            return ()
        (read,) = made.of
        below, skip = nodes[read], 0.0
        if z and not (isinstance(below, Pointwise) and below.of == (z,)):
            return ()
        if not z and read:
            return ()
        if isinstance(end, Sum):
            factors = dict(zip(end.of, end.factors, strict=True))
            if not z or factors.keys() != {draw, z} or factors[draw] != 1:
                return ()
            skip = factors[z]
        found.append(skip)
        z = layer
    return tuple(found)
