r"""Weights that sum over numbers of the width and over others beside them, as `cat([h, x])` before a layer.

Such a weight is two: $W[h;x]=W_hh+W_xx$ with $n$ and $c$ columns. The sum over $h$ takes the rule of its role with
$F=\nu$, and not the ratio of $n+c$. The sum over $x$ has no power of the width at all: its columns start as they do
at the base, like those of a layer that reads inputs. Drawn like the others they would add $(c/n)^{1/2}$ of what
$h$ adds, and a wide network would not see $x$.

One tensor has one learning rate, and that is $W_h$'s: under a larger one $W_h$ would move too far. So $W_x$ learns
by the power of $F$ more slowly than a layer of its own would, and in the limit not at all. It starts where the base
starts, and what is trained below and above goes on; who wants it to learn at its own rate gives it a layer, which
computes the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from scalewise.plan._decide import Decision
from scalewise.plan._names import pattern
from scalewise.plan._roles import Role
from scalewise.plan._rules import exponents_of
from scalewise.plan._table import Plan, TensorPlan

# An axis, and the stretch of it that does not grow.
Stretch = tuple[int, int, int]
Pieces = Mapping[str, tuple[int, ...]]
_SUMMED = (Role.HIDDEN, Role.OUTPUT, Role.BOTTLENECK)


def put_together(parts: Iterable[tuple[Sequence[int], int]]) -> tuple[int, ...]:
    """The lengths of what an array is put together from, along one axis.

    Args:
        parts: Of each array the lengths of what it was put together from itself, and its own.
    """
    return tuple(n for own, size in parts for n in (own if sum(own) == size else [size]))


def beside_the_width(
    d: Decision, narrow: Pieces, wide: Pieces, shape: Sequence[int], ratio: Fraction
) -> tuple[Stretch, ...]:
    """The stretches of what a weight sums over that do not grow, at the target.

    Args:
        d: The weight at the narrower width.
        narrow: The lengths of what is put together there, by name of weight.
        wide: The same at another width.
        shape: The weight's at the target.
        ratio: Target over that width.
    """
    t = d.tensor
    one, two = narrow.get(t.name, ()), wide.get(t.name, ())
    axis = next((i for i in d.fan_in if t.shape[i] == sum(one)), None)
    if d.role not in _SUMMED or axis is None or len(one) != len(two):
        return ()
    fixed = [a == b for a, b in zip(one, two, strict=True)]
    out, place = [], 0
    for length, stays in zip(one, fixed, strict=True):
        size = length if stays else math.floor(length * ratio)
        out += [(axis, place, place + size)] * stays
        place += size
    return tuple(out) if any(fixed) and not all(fixed) and place == shape[axis] else ()


def fixed_columns(stretches: Sequence[Stretch]) -> int:
    """Number of all fixed columns."""
    return sum(stop - start for _, start, stop in stretches)


def grown(array: Any, stretches: Sequence[Stretch]) -> Any:
    """The part of a weight that goes with the width; all of it where nothing else is there."""
    if not stretches:
        return array
    axis = stretches[0][0]
    apart = {i for _, start, stop in stretches for i in range(start, stop)}
    kept = [i for i in range(array.shape[axis]) if i not in apart]
    return array[(*(slice(None),) * axis, kept)]


def grown_inputs(array: Any, stretches: Sequence[Stretch]) -> Any:
    """Numbers that a weight is given along the last axis, but only those that grow; all if that is another axis."""
    last = max((stop for _, _, stop in stretches), default=0)
    if not array.ndim or array.shape[-1] < last:
        return array
    return grown(array, [(array.ndim - 1, start, stop) for _, start, stop in stretches])


def between(stretches: Sequence[Stretch], shape: Sequence[int]) -> list[Stretch]:
    """The other stretches of the axis, which grow."""
    axis, ends = stretches[0][0], [(0, 0), *((i, j) for _, i, j in stretches)]
    ends.append((shape[axis], shape[axis]))
    return [(axis, a[1], b[0]) for a, b in itertools.pairwise(ends) if a[1] < b[0]]


def std_beside(plan: Plan, tensor: TensorPlan) -> float:
    """The standard deviation of the columns that do not grow: that of the base, whatever the role is."""
    p, _, _ = exponents_of(plan.strategy, tensor.role, tensor.layer)
    if tensor.normed and tensor.role is Role.BOTTLENECK:
        p = plan.strategy.hidden.p
    init = tensor.rule.init
    own = replace(init, fan_in=Fraction(0), width=init.width + p / 2)
    return tensor.base.std * tensor.constants.std * own.factor(plan.ratios(tensor))


def about_parts(plan: Plan) -> list[str]:
    """Sentences on such weights, for the text below a plan's table."""
    found = {pattern(t.name): fixed_columns(t.fixed) for t in plan.tensors if t.fixed}
    return [
        f"`{name}` sums over the width and, beside it, over {columns} of a fixed number: the weights of these "
        "start as at the base and learn at the rate of the others, more slowly the larger the width. If what they "
        "read matters, give it a layer of its own and add the two: that computes the same."
        for name, columns in found.items()
    ]
