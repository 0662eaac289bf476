"""What an adapter saw in a forward pass: attention, and multipliers in the model's own code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from scalewise.plan._paths import Paths
from scalewise.plan._uses import Uses

# Sizes are rounded to multiples; no rule differs from another by less than an eighth.
_NEAR = 0.1


@dataclass(frozen=True)
class Inputs:
    """Arguments that a model is called with."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def given(inputs: Any) -> Inputs | None:
    """Arguments of a model as the user gives them: one thing, a tuple of arguments, or a dict of named ones."""
    if inputs is None or isinstance(inputs, Inputs):
        return inputs
    if isinstance(inputs, Mapping):
        return Inputs((), dict(inputs))
    return Inputs(inputs if isinstance(inputs, tuple) else (inputs,))


def nothing_returned(output: Any) -> str:
    """Sentence for a forward pass that returns nothing that the tensors of the model have made."""
    return (
        f"The forward pass returned {type(output).__name__} and in it no array that the model's tensors have made, "
        "so which of them read out is not known. Let it return arrays, alone or in containers and attributes of "
        "objects, or say with inputs=... what it returns some for."
    )


@dataclass(frozen=True)
class Attention:
    """Products of two arrays that enter a softmax.

    Args:
        place: The module in whose code they are made.
        length: How many terms each product sums: the size of a head.
        scale: What multiplies the product of queries and keys as their layers return them.
    """

    place: str
    length: int
    scale: float


@dataclass(frozen=True)
class Multiplied:
    """Numbers by which the forward pass multiplies around one tensor.

    Args:
        before: What its module is given.
        inside: Within the module.
        after: What the module returns.
    """

    before: float = 1.0
    inside: float = 1.0
    after: float = 1.0

    @property
    def total(self) -> float:
        """Product of these factors."""
        return self.before * self.inside * self.after


@dataclass(frozen=True)
class Forward:
    """One forward pass.

    Args:
        attentions: In the order in which they are made.
        weights: By name of tensor, where it multiplies or is added.
        lookups: By name of tensor, where its rows are picked.
        again: By name of tensor, where it sums over another axis than at first.
        uses: By name of tensor, what operations do with its axes.
        paths: Which tensors lie between which.
        filled: Tensors that multiply with one number in all their entries, other than 1: at another width, where
            they have no values, it may be another.
        products: Further products of two arrays, whose size something else than a softmax tells.
        pieces: By name of tensor the lengths of the arrays that were put together to make what it sums over.
        normed: Tensors whose module writes all that a norm divides by its own size.
        directed: Tensors that the code divides by their own norm.
        distances: Sums over the difference of two arrays, entry by entry, whose size anything tells.
        choices: Where samples go to a few of many, as to experts: the module, how many there are, and how many are
            chosen.
    """

    attentions: tuple[Attention, ...] = ()
    weights: Mapping[str, Multiplied] = field(default_factory=dict)
    lookups: Mapping[str, Multiplied] = field(default_factory=dict)
    uses: Uses = field(default_factory=dict)
    paths: Paths = field(default_factory=Paths)
    filled: frozenset[str] = frozenset()
    products: tuple[Attention, ...] = ()
    distances: tuple[Attention, ...] = ()
    normed: frozenset[str] = frozenset()
    directed: frozenset[str] = frozenset()
    again: Mapping[str, Multiplied] = field(default_factory=dict)
    choices: tuple[tuple[str, int, int], ...] = ()
    pieces: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Passes:
    """The forward pass of one model at two widths.

    Args:
        narrow: At one.
        wide: At the other.
        ratio: The other over the first; not 1.
    """

    narrow: Forward
    wide: Forward
    ratio: Fraction


@dataclass(frozen=True)
class Gauge:
    """Powers of the width by which the forward pass multiplies around one tensor."""

    before: Fraction = Fraction(0)
    inside: Fraction = Fraction(0)
    after: Fraction = Fraction(0)

    @property
    def total(self) -> Fraction:
        """Sum of these powers."""
        return self.before + self.inside + self.after


@dataclass(frozen=True)
class Heads:
    """One attention at two widths.

    Args:
        place: The module.
        length: Size of a head at the narrower width, and at the other.
        scale: Power by which its scale goes: of the size of a head where heads grow, else of the width.
    """

    place: str
    length: tuple[int, int]
    scale: Fraction

    @property
    def grow(self) -> bool:
        """True if heads grow with the width."""
        return self.length[0] != self.length[1]


def power(one: float, two: float, ratio: float) -> Fraction:
    """The power of a ratio by which one number goes to another; a quarter where it is near one."""
    if one == two or ratio == 1 or one <= 0 or two <= 0:
        return Fraction(0)
    found = math.log(two / one) / math.log(ratio)
    near = Fraction(round(4 * found), 4)
    return near if abs(found - near) < _NEAR else Fraction(round(100 * found), 100)


def attentions(passes: Passes) -> list[Heads]:
    """Every attention at two widths, one of each size for each place; none where the two passes differ in steps."""
    return _of_both(passes.narrow.attentions, passes.wide.attentions, passes.ratio)


def products(passes: Passes) -> list[Heads]:
    """Other products of two activations, as `attentions` gives them: only those whose length grows."""
    both = _of_both(passes.narrow.products, passes.wide.products, passes.ratio)
    return [h for h in both if h.grow]


def distances(passes: Passes) -> list[Heads]:
    """Distances between activations, as `attentions` gives them: only those whose length grows."""
    both = _of_both(passes.narrow.distances, passes.wide.distances, passes.ratio)
    return [h for h in both if h.grow]


def _of_both(one: Sequence[Attention], two: Sequence[Attention], ratio: Fraction) -> list[Heads]:
    out: dict[tuple[str, int, int], Heads] = {}
    if len(one) != len(two):
        return []
    for a, b in zip(one, two, strict=True):
        grown = b.length / a.length if a.length != b.length else float(ratio)
        scale = power(a.scale, b.scale, grown)
        out.setdefault((a.place, a.length, b.length), Heads(a.place, (a.length, b.length), scale))
    return list(out.values())


def gauges(passes: Passes) -> tuple[dict[str, Gauge], dict[str, Gauge]]:
    """Powers of the width by name of tensor, of those that have one: where it multiplies, and is looked up."""
    one, two = passes.narrow, passes.wide
    pairs = ((one.weights, two.weights), (one.lookups, two.lookups))
    weights, lookups = (_gauges(a, b, passes.ratio) for a, b in pairs)
    return weights, lookups


def _gauges(
    narrow: Mapping[str, Multiplied], wide: Mapping[str, Multiplied], ratio: Fraction
) -> dict[str, Gauge]:
    out = {}
    for name in narrow.keys() & wide.keys():
        a, b = narrow[name], wide[name]
        pairs = ((a.before, b.before), (a.inside, b.inside), (a.after, b.after))
        found = Gauge(*(power(x, y, float(ratio)) for x, y in pairs))
        # A power that others undo is still in what the module is given, or returns.
        if found != Gauge():
            out[name] = found
    return out
