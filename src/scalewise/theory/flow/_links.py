r"""Covariances between different fields of a network, where random layers share weights.

The channels of random layers of the same weights are jointly Gaussian at infinite width, others independent:
$$\langle u_au_b'\rangle=C_b+C_W\mathcal L\langle x_ax_b'\rangle,\qquad
  T_{ab}=\lambda_b+\lambda_W\mathcal L\langle x_ax_b'\rangle+C_W\mathcal LT(x_a,x_b').$$
All other rules are those of one field, with the variances of either side. Products of what a change of a weight
does directly and what it does through the fields below are of order $1/\sqrt n$, and nothing here.

Source: derived, by conditioning the rows of a Gaussian matrix on what it is multiplied by; Yang, arXiv:1910.12478.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from scalewise.gaussian.spi import KernelMap, Places, kernel_map
from scalewise.networks.spi import (
    Concat,
    Draw,
    Normalise,
    Pointwise,
    PositionMap,
    Product,
    Sum,
    Weigh,
)
from scalewise.theory.flow._maps import NormMap, Side
from scalewise.theory.flow._means import Mean
from scalewise.theory.flow._room import Pair
from scalewise.theory.flow._rules import Links, Rules
from scalewise.theory.flow._units import DrawnUnits


def linked(
    rules: Rules,
    one: int,
    other: int,
    kept: Mapping[int, Pair],
    links: Links,
    at: Places,
    units: DrawnUnits,
) -> Pair | None:
    """The covariance of a field at the first labels of a tile with a different one at the second; ``None`` for 0.

    Args:
        rules: Of single fields.
        one: The first field.
        other: The second one.
        kept: Covariances of single fields.
        links: Those of different fields that are known so far, likewise.
        at: The tile.
        units: Single channels, for what has no formula.
    """
    program = rules.program
    a, b = program.nodes[one], program.nodes[other]

    def found(k: int, m: int) -> Pair | None:
        return kept[k] if k == m else links[k, m]

    if {one, other} <= program.fixed:
        out = rules.arrays.take(at.shape)
        return Pair(rules.gram(rules.fixed[one], rules.fixed[other], at, out), None)
    if program.apart(one, other):
        return rules.outer(one, other, at, rules.arrays.take(at.shape))
    if program.needs(one, other) is None:
        return rules.laid(Pair(*units.averages(one, other, ntk=rules.ntk)), at)
    if isinstance(a, Draw) and isinstance(b, Draw):
        below = found(a.of[0], b.of[0])
        if below is None:
            size = rules.places(a.of[0], at.rows, at.columns, b.of[0]).shape
            return rules.drawn(a, Pair(rules.zeros(size), None), True, at)
        return rules.drawn(a, below, False, at)
    if isinstance(a, Pointwise) and isinstance(b, Pointwise):
        return _mapped(rules, one, other, found(a.of[0], b.of[0]), at)
    if isinstance(a, PositionMap) and isinstance(b, PositionMap):
        below = found(a.of[0], b.of[0])
        if below is None:
            return None
        moved = rules.moved(a.along, below, False, a.of[0], at, other=b.along)
        return moved.scaled(a.factor * b.factor)
    if isinstance(a, Product) and isinstance(b, Product):
        parts = [found(*pair) for pair in zip(a.of, b.of, strict=True)]
        present = [pair for pair in parts if pair is not None]
        if len(present) < len(parts):
            return None
        return rules.multiplied(present, [False] * len(present))
    if isinstance(a, Concat) and isinstance(b, Concat):
        return _summed(rules, a.shares, [found(*pair) for pair in zip(a.of, b.of, strict=True)])
    linear = (here for here, _ in program.by_lateness(one, other))
    here = next(k for k in linear if isinstance(program.nodes[k], Normalise | Sum | Weigh))
    node = program.nodes[here]
    if isinstance(node, Weigh):
        below = found(node.of[0], other) if here == one else found(one, node.of[0])
        return _weighed(rules, node, below, at, left=here == one)
    if isinstance(node, Normalise):
        below = found(node.of[0], other) if here == one else found(one, node.of[0])
        mean = rules.mean(other if here == one else one)
        return _normed(rules, here, mean, below, at, left=here == one)
    parts = [found(k, other) if here == one else found(one, k) for k in node.of]
    assert isinstance(node, Sum)
    return _summed(rules, node.factors, parts)


def _mapped(rules: Rules, one: int, other: int, below: Pair | None, at: Places) -> Pair:
    """One activation of two fields: its map on the labels of both."""
    pair = min(one, other), max(one, other)
    node = rules.program.nodes[one]
    assert isinstance(node, Pointwise)
    if pair not in rules.maps_of_two:
        K = np.concatenate([rules.maps[k].K for k in pair])
        rules.maps_of_two[pair] = kernel_map(node.sigma, K, slope=rules.ntk)
    own: KernelMap = rules.maps_of_two[pair]
    C = rules.zeros(at.shape) if below is None else rules.copied(below.C)
    slope = None if below is None or below.T is None else rules.arrays.take(C.shape)
    own.apply(at, C, slope, rules.arrays.work(C.shape))
    if slope is not None and below is not None:
        slope *= below.T
    return Pair(C, slope)


def _normed(
    rules: Rules, here: int, mean: Mean, below: Pair | None, at: Places, *, left: bool
) -> Pair | None:
    """A norm of one of the two, when the other has some mean."""
    own = rules.maps[here]
    assert isinstance(own, NormMap)
    if below is None:
        return None
    found = below.each(rules.copied)
    mine, its = _sides(at)
    own.apply_to_one(*((mine, its) if left else (its, mine)), *found, mean)
    return found


def _weighed(
    rules: Rules, node: Weigh, below: Pair | None, at: Places, *, left: bool
) -> Pair | None:
    """A number for each position, on one side."""
    if below is None:
        return None
    own = _sides(at)[0 if left else 1](rules.fixed[node.of[1]].ravel())
    return below.each(lambda tile: rules.copied(tile * own))


def _sides(at: Places) -> tuple[Side, Side]:
    """Numbers of the labels of the first field as they stand in a tile; and of those of the second."""
    first = replace(at, other=None)
    return first.left, replace(first, positions=at.beyond).right


def _summed(rules: Rules, factors: tuple[float, ...], parts: list[Pair | None]) -> Pair | None:
    """A sum, of those that are not 0."""
    present = [(f, pair) for f, pair in zip(factors, parts, strict=True) if pair is not None]
    if not present:
        return None
    C = rules.zeros(present[0][1].C.shape)
    T = rules.zeros(C.shape) if any(pair.T is not None for _, pair in present) else None
    for f, pair in present:
        C += f * pair.C
        if T is not None and pair.T is not None:
            T += f * pair.T
    return Pair(C, T)
