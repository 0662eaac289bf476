r"""How single units follow the tangents that they are given: $y^a_s=\sum_kJ^k_sz^{k,a}_{\sigma(s)}$.

A *given* tangent is that of a random layer, or of what is linear in random layers: it is Gaussian, with a
covariance that is the same for all units. Behind functions of channels each label $s$ follows given tangents $k$
at places $\sigma(s)$, channel by channel, with slopes $J$; through windows with one slope for each tap.

Source: derived; the chain rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import (
    Attend,
    Concat,
    Draw,
    Matrix,
    Max,
    Mix,
    Normalise,
    Pointwise,
    PositionMap,
    Product,
    Stack,
    Sum,
    Taps,
    Weigh,
    among,
)
from scalewise.networks.spi_jax import traced
from scalewise.theory.flow._units import seen_by_taps
from scalewise.theory.order._particles import Particles

Sites = tuple[
    int, ...
]  # for each position the place of a given tangent that it follows; -1 for none
Slopes = dict[tuple[int, Sites], Any]  # by given node and places, as wide as the field


class UnitSlopes:
    """Slopes of all fields of a program.

    Args:
        made: The program.
    """

    def __init__(self, made: Particles) -> None:
        self.made = made
        self.found: dict[int, Slopes] = {}

    def of(self, node: int) -> Slopes:
        """Those of a field."""
        if node not in self.found:
            self.found[node] = self._of(node)
        return self.found[node]

    def is_given(self, node: int) -> bool:
        """True if a tangent is linear in those of random layers, with factors that all units share."""
        made, fixed = self.made.program.nodes[node], self.made.program.fixed
        if isinstance(made, Draw):
            return True
        linear = isinstance(made, Sum | PositionMap | Normalise | Weigh | Mix | Stack)
        linear = linear or (isinstance(made, Attend) and made.grows)
        moving = [k for k in made.of if k not in fixed]
        moving = moving[-1:] if isinstance(made, Attend) else moving
        return linear and all(map(self.is_given, moving))

    def _of(self, here: int) -> Slopes:
        program = self.made.program
        node, field = program.nodes[here], self.made.fields[here]
        if here in program.fixed:
            return {}
        if self.is_given(here):
            places = range(int(np.prod(program.positions[here], dtype=int)))
            return {(here, tuple(places)): jnp.ones((*field.shape[:-1], 1))}
        below = [self.made.fields[k] for k in node.of]
        slopes, sizes = [self.of(k) for k in node.of], program.positions[node.of[0]]
        if isinstance(node, Pointwise):
            return _summed([(_slope(node, below[0]), slopes[0])])
        if isinstance(node, Normalise):
            return _summed([(self.made.factors[here], slopes[0])])
        if isinstance(node, Sum):
            return _summed(list(zip(node.factors, slopes, strict=True)))
        if isinstance(node, Weigh):
            return _summed([(below[1], slopes[0])])
        if isinstance(node, Product):
            return _summed([(_product(below, k), own) for k, own in enumerate(slopes)])
        if isinstance(node, Max):
            seen, there = among(node, below, sizes, jnp)
            largest = jnp.where(there, seen, -jnp.inf).argmax(axis=-2)
            return _moved(slopes[0], node.windows, sizes, largest)
        if isinstance(node, PositionMap):
            return _summed([(node.factor, _moved(slopes[0], node.along, sizes))])
        if isinstance(node, Stack):
            return _stacked(node, below, field.shape, slopes)
        if isinstance(node, Concat):
            return _beside(below, slopes)
        raise ValueError(
            f"Node [{here}] of this network, {node.said}, follows an activation or is followed by one without a "
            "random layer between them, and order 1/n of the NTK is not known of it. Put a layer such as Dense "
            "between them."
        )


def _slope(node: Pointwise, x: Any) -> Any:
    return jax.jvp(traced(node.sigma), (x,), (jnp.ones_like(x),))[1]


def _product(fields: Sequence[Any], without: int) -> Any:
    found: Any = 1.0
    for k, field in enumerate(fields):
        found = found if k == without else found * field
    return found


def _summed(parts: Sequence[tuple[Any, Slopes]]) -> Slopes:
    found: Slopes = {}
    for factor, own in parts:
        for key, J in own.items():
            found[key] = found[key] + factor * J if key in found else factor * J
    return found


def _moved(
    slopes: Slopes, along: Sequence[Taps | Matrix], sizes: Sequence[int], largest: Any = None
) -> Slopes:
    """Labels as each tap sees them; the place of the largest, if only this counts."""
    at, weights = seen_by_taps(along, sizes)
    places = [own.length(size) for own, size in zip(along, sizes, strict=True)]
    parts = []
    for (k, sites), J in slopes.items():
        whole = J.reshape(len(J), -1, J.shape[-1])
        for tap, (seen, factor) in enumerate(zip(at.T, weights.T, strict=True)):
            now = np.where(seen < 0, -1, np.asarray(sites)[np.maximum(seen, 0)])
            moved = whole[:, np.maximum(seen, 0)] * (factor * (now >= 0))[:, None]
            moved = moved.reshape(len(J), *places, -1)
            share = 1.0 if largest is None else largest == tap
            parts.append((1.0, {(k, tuple(now.tolist())): moved * share}))
    return _summed(parts)


def _stacked(
    node: Stack, below: Sequence[Any], shape: Sequence[int], slopes: Sequence[Slopes]
) -> Slopes:
    """Each part in its places, and nothing elsewhere."""
    parts, start, axis = [], 0, 1 + node.axis
    for x, own in zip(below, slopes, strict=True):
        size = x.shape[axis]
        place = (slice(None),) * axis + (slice(start, start + size),)
        for (k, sites), J in own.items():
            moved = jnp.zeros((*shape[:-1], J.shape[-1])).at[place].set(J)
            there = np.full(shape[1:-1], -1)
            there[place[1:]] = np.reshape(sites, x.shape[1:-1])
            parts.append((1.0, {(k, tuple(there.ravel().tolist())): moved}))
        start += size
    return _summed(parts)


def _beside(below: Sequence[Any], slopes: Sequence[Slopes]) -> Slopes:
    """Each part in its channels, and nothing elsewhere."""
    parts, start, channels = [], 0, sum(x.shape[-1] for x in below)
    for x, own in zip(below, slopes, strict=True):
        size = x.shape[-1]
        for key, J in own.items():
            wide = jnp.zeros((*x.shape[:-1], channels))
            parts.append((1.0, {key: wide.at[..., start : start + size].set(J)}))
        start += size
    return _summed(parts)
