"""The nodes that programs are made of: what they read, by number, and what a table calls them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from scalewise.activations import Activation
from scalewise.networks._laws import NORMAL, WeightLaw
from scalewise.networks._sites import Matrix, Taps, Window


@dataclass(frozen=True)
class Hyperparameters:
    """Variances and learning-rate factors of one random layer, and the law of its weights."""

    C_b: float
    C_W: float
    lambda_b: float
    lambda_W: float
    law: WeightLaw = NORMAL


HYPERPARAMETERS = ("C_b", "C_W", "lambda_b", "lambda_W")


@dataclass(frozen=True)
class InputNode:
    """The inputs; every other node reads others, by their numbers."""

    @property
    def of(self) -> tuple[int, ...]:
        """The nodes it reads: none."""
        return ()

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return "inputs"


@dataclass(frozen=True)
class Draw:
    """A random layer: independent weights for each tap of the windows, one for each axis of positions.

    Args:
        of: What it reads.
        windows: One for each axis of positions.
        own: Variances, learning-rate factors and the law of the weights.
        groups: Into how many the channels of both sides fall; those of one read those of the same.
        shared: Whether all places have the same weights and biases, and not each its own.
        again: The random layer whose weights and biases it has; ``None`` for its own.
    """

    of: tuple[int, ...]
    windows: tuple[Taps, ...]
    own: Hyperparameters
    groups: int = 1
    shared: bool = True
    again: int | None = None

    @property
    def taps(self) -> int:
        """Number of positions that a weight matrix is drawn for."""
        return math.prod(window.taps for window in self.windows)

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        taps = " x ".join(str(window.taps) for window in self.windows)
        said = f"random, {taps} taps" if self.taps > 1 else "random"
        said += "" if self.own.law.is_normal else f", {self.own.law.name}"
        said += f", {self.groups} groups" if self.groups > 1 else ""
        said = said if self.shared else f"{said}, each place"
        return said if self.again is None else f"{said}, weights of [{self.again}]"


@dataclass(frozen=True)
class Pointwise:
    """An activation, channel by channel and site by site."""

    of: tuple[int, ...]
    sigma: Activation

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return self.sigma.name


@dataclass(frozen=True)
class Sum:
    """A sum of fields, with factors."""

    of: tuple[int, ...]
    factors: tuple[float, ...]

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        parts = zip(self.factors, self.of, strict=True)
        return "sum of " + ", ".join(f"{'' if f == 1 else f'{f:g} '}[{k}]" for f, k in parts)


@dataclass(frozen=True)
class PositionMap:
    """A fixed linear map of positions times a factor: axis by axis the sum over taps of a window, or a matrix."""

    of: tuple[int, ...]
    along: tuple[Window | Matrix, ...]
    factor: float

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        kind = "aggregate" if any(isinstance(own, Matrix) for own in self.along) else "pool"
        return f"{kind}, " + " x ".join(own.said for own in self.along)


@dataclass(frozen=True)
class Read:
    """Any function of the inputs, sample by sample.

    Args:
        of: The node with the inputs, or with what was made of them.
        make: (sample, *positions, feature) from inputs, NumPy or JAX's, and what is given; a function of a module.
        given: Further arguments of the function.
        said: The name in a table of the network.
    """

    of: tuple[int, ...]
    make: Callable[..., Any]
    given: tuple[Any, ...]
    said: str

    def __call__(self, x: Any, xp: Any) -> Any:
        """(sample, *positions, feature)."""
        return self.make(x, xp, *self.given)


@dataclass(frozen=True)
class Mix:
    """Positions of a field, mixed by a matrix that the inputs give: its rows are a field, its columns features."""

    of: tuple[int, ...]
    said: ClassVar[str] = "mixed by inputs"


@dataclass(frozen=True)
class Weigh:
    """A field times a number for each position of each input, which is a field without weights."""

    of: tuple[int, ...]

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return f"times [{self.of[1]}]"


@dataclass(frozen=True)
class Drop:
    """Numbers that are 0 by chance, independently at every sample, position and channel, or divided by `keep`."""

    of: tuple[int, ...]
    keep: float

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return f"dropout, {self.keep:g} kept"


@dataclass(frozen=True)
class Product:
    """A product of fields, channel by channel and site by site."""

    of: tuple[int, ...]

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return "product of " + ", ".join(f"[{k}]" for k in self.of)


@dataclass(frozen=True)
class Concat:
    """The channels of some fields beside each other, and what share of them each field has."""

    of: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return "channels of " + ", ".join(f"[{k}]" for k in self.of)


@dataclass(frozen=True)
class Stack:
    """The positions of some fields after one another along an axis."""

    of: tuple[int, ...]
    axis: int

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return "positions of " + ", ".join(f"[{k}]" for k in self.of)


@dataclass(frozen=True)
class Max:
    """The largest number that a window sees, channel by channel; beyond the ends there is none.

    Args:
        of: What is seen; and, if not all of it counts, a field without weights that is 1 where it does.
        windows: One for each axis.
    """

    of: tuple[int, ...]
    windows: tuple[Window, ...]

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return "maximum, " + " x ".join(window.said for window in self.windows)


@dataclass(frozen=True)
class Normalise:
    """Division by the root mean square over channels.

    Args:
        of: What it reads; and, if not all positions count, a field without weights that is 1 at those that do.
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
        """The name in a table of the network."""
        said = "layer norm" if self.centred else "RMS norm"
        said = f"norm of {self.groups} groups" if self.groups > 1 else said
        return f"{said}, all positions" if self.joint else said


@dataclass(frozen=True)
class Attend:
    r"""Averages of values over positions: $\sum_tp(s,t)v(t)$ in each head, $p=\sigma(q(s)\cdot k(t)/d^\alpha)$.

    Args:
        of: Queries, keys and values; and, if not all are seen, a field without weights that is 1 at keys that are.
        size: $d$, the channels of a head.
        grows: Whether heads grow with the width, and not their number.
        power: $\alpha$.
        causal: Whether a position sees none behind it.
        sigma: An activation, or ``None`` for softmax over $t$.
        norm: Of the channels of every query and every key in each head, which reads nothing by itself.
        turns: For queries and for keys a matrix of each position, row by row, by which a head's channels are
            multiplied, behind the norm: rotary embeddings.
        group: How many heads after one another have the same key and value.
        bias: Matrices (position, other) that are added to logits: one for all heads, or several for heads in turn.
    """

    of: tuple[int, ...]
    size: int
    grows: bool
    power: float
    causal: bool
    sigma: Activation | None = None
    norm: Normalise | None = None
    turns: tuple[Matrix, Matrix] | None = None
    group: int = 1
    bias: tuple[Matrix, ...] = ()

    @property
    def is_plain(self) -> bool:
        """True if logits are products of queries and keys as they are."""
        return self.norm is None and self.turns is None

    @property
    def together(self) -> int:
        """Number of heads after one another that are drawn together, and alike for each such number of them."""
        return math.lcm(self.group, max(1, len(self.bias)))

    @property
    def tied(self) -> bool:
        """True if queries are keys."""
        return self.of[0] == self.of[1]

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        keys = "tied" if self.tied else "free"
        said = f"attention, heads of {self.size}, {keys} keys{', normed' if self.norm else ''}"
        said = said if self.turns is None else f"{said}, rotary"
        said = said if self.group == 1 else f"{said}, {self.group} heads a key"
        return f"{said}, biased" if self.bias else said


Node = (
    InputNode
    | Draw
    | Pointwise
    | Sum
    | PositionMap
    | Normalise
    | Product
    | Concat
    | Stack
    | Max
    | Attend
    | Read
    | Mix
    | Weigh
    | Drop
)
