r"""Deep networks: expectations of few layers, and those of the layers between by interpolation.

An expectation over a layer depends on its kernel alone, and through a deep network the kernel moves
slowly: towards a fixed point, or like a power of the depth. Along such a stretch of layers the kernel is a
smooth function of $\log\ell$, and so is every expectation. Whether it is, is seen twice: the kernel is known at
every layer, so it is interpolated too and has to come out as it is; and the last two Chebyshev
coefficients of each expectation have to be nothing beside it, or beside its own error. Where either
fails the stretch is halved, and layers in no stretch are evaluated themselves. The last
coefficients go into the errors of what is interpolated. Each expectation goes its own way through the layers,
so that what it is does not depend on which others are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import chebyshev

NODES = 16
SHORTEST = 96  # layers; in fewer, nodes cannot stand as densely at the ends as they should
MOST_INPUTS = 12  # the expectations of all nodes of a stretch are in memory together
EARLIEST = SHORTEST // 3  # no stretch begins among the first layers, which differ most
_LONGEST = 4.0  # a stretch ends at this multiple of the layer where it begins, or later layers tell
_REPRODUCED = 2e-12  # of the size of a kernel
_NEGLIGIBLE = 1e-12  # of the size of an expectation
_ROUNDING = 1e-9  # of it, too, where it is nothing but rounding
_FALLS = 0.1  # two coefficients beside the two before them, as long as the series converges


@dataclass(frozen=True)
class LayerEstimates:
    """An expectation at one layer: estimates along the first axis, and the error of each entry."""

    value: Float[np.ndarray, "_estimate *shape"]  # one estimate, or one per scramble of a sample
    error: Float[np.ndarray, "*shape"]  # beside the spread of the estimates

    @property
    def spread(self) -> Float[np.ndarray, "*_"]:
        """How far the estimates lie from one another."""
        return np.asarray(np.std(self.value, axis=0))


Parts = Mapping[Hashable, LayerEstimates]


@dataclass(frozen=True)
class Stretch:
    r"""Consecutive layers, and nodes among them that stand nearly as Chebyshev's do in $\log\ell$."""

    first: int  # the first layer, counted from 0
    nodes: Int[np.ndarray, " node"]  # the layers that are evaluated
    # Of the nodes for each layer of the stretch; each row adds up to 1.
    weights: Float[np.ndarray, "layer node"]
    # From values at the nodes to the last four Chebyshev coefficients of their polynomial.
    highest: Float[np.ndarray, "coefficient node"]

    @staticmethod
    def of(first: int, length: int, count: int = NODES) -> Stretch:
        """The stretch of so many layers from a given one on, with at most so many nodes."""
        ends = np.log([first + 1.0, first + length])
        chebyshev_points = 0.5 * (1 - np.cos(np.pi * np.arange(count) / (count - 1)))
        wanted = np.exp(ends[0] + (ends[1] - ends[0]) * chebyshev_points)
        nodes = np.unique(np.rint(wanted).astype(int) - 1)
        t = 2 * (np.log(np.arange(first, first + length) + 1.0) - ends[0]) / (ends[1] - ends[0]) - 1
        at = t[nodes - first]
        weights = np.ones((length, nodes.size))
        for j in range(nodes.size):
            for k in range(nodes.size):
                if k != j:
                    weights[:, j] *= (t - at[k]) / (at[j] - at[k])
        inverse = np.linalg.inv(chebyshev.chebvander(at, nodes.size - 1))
        return Stretch(first, nodes, weights, inverse[-4:])

    def between(self, values: Float[np.ndarray, "node ..."]) -> Float[np.ndarray, "layer ..."]:
        """From values at the nodes to those at every layer."""
        return np.tensordot(self.weights, values, 1)

    def reproduces(
        self, values: Float[np.ndarray, "layer ..."], size: Float[np.ndarray, "layer ..."]
    ) -> bool:
        """True if all that is known at every layer of the stretch follows from its nodes, beside its size."""
        gap = np.abs(self.between(values[self.nodes - self.first]) - values)
        return bool(np.all(gap <= _REPRODUCED * size))

    def missed(
        self,
        values: Float[np.ndarray, "node *shape"],
        allowed: Float[np.ndarray, "*shape"],
        *,
        rounding: Float[np.ndarray, "*shape"],
    ) -> Float[np.ndarray, "*shape"] | None:
        """About what interpolation misses, the last two coefficients; ``None`` where it is too much.

        More than `allowed` may be missed, up to `rounding`, if the coefficients fall no further: they are
        rounding errors then, and a shorter stretch has as many. As large ones are in all coefficients.
        """
        found = np.abs(np.tensordot(self.highest, values, 1))
        before, tail = found[0] + found[1], found[2] + found[3]
        noise = (tail <= rounding) & (tail >= _FALLS * before)
        if not np.all((tail <= allowed) | noise):
            return None
        return np.where(noise, math.sqrt(len(values)) * tail, tail)


def lengths(first: int, depth: int) -> Iterator[int]:
    """How long a stretch from a layer on may be, the longest first."""
    length = min(int(_LONGEST * first), depth - first) if first >= EARLIEST else 0
    while length >= SHORTEST:
        yield length
        length //= 2


def pause(layer: int) -> int:
    """After how many layers to try again: trying costs evaluations, and is the more seldom the deeper."""
    return max(SHORTEST // 4, layer // 4)


def along(
    K: Float[np.ndarray, "layer sample sample"], evaluate: Callable[[int], Parts]
) -> Iterator[Parts]:
    """An expectation, in its parts, at the kernel of each layer: evaluated, or interpolated with its error."""
    layer, again = 0, 0
    found: dict[int, Parts] = {}
    while layer < len(K):
        blend = None
        if layer >= again and K.shape[1] <= MOST_INPUTS:
            blend = _longest(K, layer, evaluate, found)
            again = layer + pause(layer)
        length, at = blend or (1, evaluate)
        end = layer + length
        for here in range(layer, end):
            known = found.pop(here, None)
            yield at(here) if known is None else known
        if blend:
            again = end
        layer = end


def _longest(
    K: np.ndarray, first: int, evaluate: Callable[[int], Parts], found: dict[int, Parts]
) -> tuple[int, Callable[[int], Parts]] | None:
    """The longest stretch from a layer on that interpolates, and its parts by layer; ``None`` if there is none."""
    diagonal = np.einsum("laa->la", K)
    size = np.sqrt(diagonal[:, :, None] * diagonal[:, None, :])
    for length in lengths(first, len(K)):
        stretch, here = Stretch.of(first, length), slice(first, first + length)
        if not stretch.reproduces(K[here], size[here]):
            continue
        for node in stretch.nodes.tolist():
            if node not in found:
                found[node] = evaluate(node)
        blend = _blended(stretch, [found[node] for node in stretch.nodes.tolist()])
        if blend is not None:
            return length, blend
    return None


def _blended(stretch: Stretch, nodes: list[Parts]) -> Callable[[int], Parts] | None:
    """The parts of an expectation at any layer of a stretch from those at its nodes, if these are enough."""
    values: dict[Hashable, np.ndarray] = {}
    errors, tails = {}, {}
    for key, one in nodes[0].items():
        here = [node[key] for node in nodes]
        if any(part.value.shape != one.value.shape for part in here):
            return None  # sampled at one, cubed at another
        values[key] = np.stack([part.value for part in here])
        errors[key] = np.stack([part.error for part in here])
        mean = values[key].mean(axis=1)
        spread = np.max([part.spread for part in here], axis=0)
        largest = np.abs(mean).max(axis=0)
        allowed = _NEGLIGIBLE * largest + errors[key].max(axis=0) + spread
        tail = stretch.missed(mean, allowed, rounding=_ROUNDING * largest)
        if tail is None:
            return None
        # What scrambles disagree by is in their spread.
        tails[key] = np.maximum(tail - spread, 0.0)

    def at(layer: int) -> Parts:
        weights = stretch.weights[layer - stretch.first]
        return {
            key: LayerEstimates(
                np.tensordot(weights, value, 1),
                np.tensordot(np.abs(weights), errors[key], 1) + tails[key],
            )
            for key, value in values.items()
        }

    return at
