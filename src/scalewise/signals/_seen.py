"""What one pass of a model was seen to do, as numbers: sizes, gradients and shares at its places."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from scalewise._readable import readable

_T = TypeVar("_T")


@dataclass(frozen=True)
@readable
class Drawn:
    """How the random layer of a place is drawn, as far as its entries tell.

    Args:
        fan_in: How many terms each of its outputs sums.
        fan_out: How many of its outputs each of its inputs enters.
        C_W: The variance of a weight times `fan_in`; of an embedding that of an entry.
        lookup: Whether it is an embedding.
        tied: Whether an embedding before it has the same weights.
    """

    fan_in: int
    fan_out: int
    C_W: float
    lookup: bool = False
    tied: bool = False


@dataclass(frozen=True)
@readable
class Joined:
    """A residual sum.

    Args:
        skip: The size of the operand that goes past the branch.
        branch: The size of the branch.
        before: The row of the sum before it on the same stream; ``None`` at the start of one.
        normed: Whether a norm stands between that sum and this one, on the stream itself.
        doubled: Whether what goes past the branch enters twice.
        entry: The row of the random layer where the stream begins, if that was seen.
        inner: Whether a norm stands in the branch, so that its size is not that of the stream.
        factor: The number by which the stream was multiplied since the sum before.
    """

    skip: float
    branch: float
    before: int | None = None
    normed: bool = False
    doubled: bool = False
    entry: int | None = None
    inner: bool = False
    factor: float = 1.0


@dataclass(frozen=True)
@readable
class Units:
    """Shares of the units of a row, by what an activation makes of them.

    Args:
        name: The activation, as `scalewise.activation` calls it.
        dead: The share of units that give next to nothing, and no slope, for every sample at every position.
        saturated: The share of values where a sigmoid or tanh is flat.
        count: Units.
        factor: The number by which what it reads was multiplied on the way.
    """

    name: str
    dead: float | None = None
    saturated: float | None = None
    count: int = 1
    factor: float = 1.0


@dataclass(frozen=True)
@readable
class Looks:
    """How an attention looks at its keys.

    Args:
        largest: The mean largest weight of queries that have four keys or more.
        keys: How many keys they have, on average.
        variance: The variance of logits over the keys of a query.
        head: How many numbers a query has; 0 if that was not seen.
        unscaled: The variance over keys of products of queries and keys, if no number multiplies these.
    """

    largest: float
    keys: float
    variance: float
    head: int = 0
    unscaled: float | None = None


@dataclass(frozen=True)
@readable
class Seen:
    """One place of a model: a random layer, an attention or a residual sum, measured.

    Args:
        place: The module, by its path.
        what: What is computed there, in a word.
        size: The root mean square of what it gives.
        gradient: The norm of the gradient there, for one sample.
        influence: That times the norm of what it gives: how much a relative change there moves the outputs.
        reads: The size of what it reads; ``None`` where that is not a number, such as of tokens.
        silent: The place that gives zeros to it, if all it reads are zeros.
        samples: The correlation of two samples, on average.
        positions: The same of two positions of a sample.
        chain: The row of the first of the random layers between which there is no norm and no sum, and how many
            they are up to here.
        drawn: Of a random layer.
        joined: Of a residual sum.
        units: Of the activation behind it.
        looks: Of an attention.
        normed: Whether a norm reads it.
    """

    place: str
    what: str
    size: float
    gradient: float = 0.0
    influence: float = 0.0
    reads: float | None = None
    silent: str | None = None
    samples: float | None = None
    positions: float | None = None
    chain: tuple[int, int] | None = None
    drawn: Drawn | None = None
    joined: Joined | None = None
    units: Units | None = None
    looks: Looks | None = None
    normed: bool = False


def over_seeds(passes: Sequence[Sequence[Seen]]) -> tuple[list[Seen], list[float]]:
    """Rows of several draws as one, and by how much the logarithm of the gradient differs between them.

    Args:
        passes: Of each draw its rows, the same places in the same order.

    Returns:
        Rows, of which sizes are geometric means and shares means; and a standard deviation for each.
    """
    rows, spreads = [], []
    for own in zip(*passes, strict=True):
        first = own[0]
        joined = (
            None
            if first.joined is None
            else replace(
                first.joined,
                skip=_typical([s.joined.skip for s in own if s.joined]),
                branch=_typical([s.joined.branch for s in own if s.joined]),
            )
        )
        drawn = (
            None
            if first.drawn is None
            else replace(first.drawn, C_W=_mean([s.drawn.C_W for s in own if s.drawn]))
        )
        rows.append(
            replace(
                first,
                size=_typical([s.size for s in own]),
                gradient=_typical([s.gradient for s in own]),
                influence=_typical([s.influence for s in own]),
                reads=None if first.reads is None else _typical([s.reads or 0.0 for s in own]),
                silent=first.silent if all(s.silent is not None for s in own) else None,
                samples=_known_mean(own, lambda s: s.samples),
                positions=_known_mean(own, lambda s: s.positions),
                joined=joined,
                drawn=drawn,
                units=_units([s.units for s in own if s.units]),
                looks=_looks([s.looks for s in own if s.looks]),
            )
        )
        logs = [math.log(s.gradient) for s in own if s.gradient > 0]
        mean = sum(logs) / len(logs) if logs else 0.0
        square = sum((v - mean) ** 2 for v in logs)
        spreads.append(math.sqrt(square / (len(logs) - 1)) if len(logs) > 1 else 0.0)
    return rows, spreads


def _units(given: list[Units]) -> Units | None:
    if not given:
        return None
    return replace(
        given[0],
        dead=_known_mean(given, lambda u: u.dead),
        saturated=_known_mean(given, lambda u: u.saturated),
    )


def _looks(given: list[Looks]) -> Looks | None:
    if not given:
        return None
    own = zip(*[(v.largest, v.keys, v.variance) for v in given], strict=True)
    largest, keys, variance = (_mean(list(values)) for values in own)
    unscaled = _known_mean(given, lambda v: v.unscaled)
    return replace(given[0], largest=largest, keys=keys, variance=variance, unscaled=unscaled)


def _known_mean(own: Sequence[_T], of: Callable[[_T], float | None]) -> float | None:
    values = [v for v in map(of, own) if v is not None]
    return _mean(values) if values else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _typical(values: Sequence[float]) -> float:
    """Their geometric mean; 0 if any is."""
    if min(values) <= 0:
        return 0.0
    return math.exp(_mean([math.log(v) for v in values]))
