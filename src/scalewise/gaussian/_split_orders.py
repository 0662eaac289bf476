r"""Hermite coefficients of a function with kinks, by a rule that is split where it has them.

The coefficients of a function with a kink fall as a power of the order alone, but what pairs of
correlation $c$ take of them falls like $c^k$: two thousand do for all correlations up to .99 or so. What
they leave out is bounded by what they leave out of $\langle F^2\rangle$, as for a smooth function.
$\mathrm{He}_k$ follows from its two predecessors at every node,
$$\sqrt{k+1}\,\mathrm{He}_{k+1}=x\,\mathrm{He}_k-\sqrt k\,\mathrm{He}_{k-1},$$
and where the only kink is at 0 all variances have the same nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Float

from scalewise.gaussian._hermite import LowOrders, pilots
from scalewise.gaussian._panels import normal_panels
from scalewise.gaussian._quadrature import in_deviations

_COARSEST, _FINEST = 2, 6  # levels of the rule
_AGREE = 1e-7  # of two levels: the finer one has the square of that
_NODES = 1 << 16  # numbers at a time
Function = Callable[[np.ndarray], np.ndarray]


def split_orders(
    function: Function,
    slope: Function | None,
    K: Float[np.ndarray, " input"],
    order: int,
    splits: Sequence[float],
) -> LowOrders | None:
    r"""The coefficients below `order` of a function that bends or jumps at `splits`, with its mean square.

    To 1e-13 of $\sqrt{\langle F^2\rangle}$, as are the squares, that of `slope` if it is given; ``None`` where the
    finest rule does not resolve them.
    """
    pilot = pilots(K)
    before = _by_rule(function, slope, pilot, order, splits, _COARSEST)
    for level in range(_COARSEST + 1, _FINEST + 1):
        now = _by_rule(function, slope, pilot, order, splits, level)
        if _agree(before, now):
            return now if pilot is K else _by_rule(function, slope, K, order, splits, level)
        before = now
    return None


def _agree(one: LowOrders, other: LowOrders) -> bool:
    size = np.sqrt(other.square)
    good = np.abs(one.coefficients - other.coefficients).max(axis=0) <= _AGREE * size
    for a, b in ((one.square, other.square), (one.slope_square, other.slope_square)):
        if a is not None and b is not None:
            good = good & (np.abs(a - b) <= _AGREE * b)
    return bool(good.all())


def _by_rule(
    function: Function,
    slope: Function | None,
    K: np.ndarray,
    order: int,
    splits: Sequence[float],
    level: int,
) -> LowOrders:
    h, square = np.empty((order, len(K))), np.empty(len(K))
    slope_square = None if slope is None else np.empty(len(K))
    root, others = np.sqrt(K)[:, None], np.array([0.0, *(t for t in splits if t)])
    shared = None
    if len(others) == 1:
        x, w = normal_panels(np.zeros((1, 1)), level)
        shared = x, w, np.concatenate(list(_weighted(x, w, order)))
    size = max(1, _NODES // normal_panels(np.zeros(len(others)), level)[0].size)
    for first in range(0, len(K), size):
        some = slice(first, first + size)
        if shared is None:
            x, w = normal_panels(in_deviations(others, root[some]), level)
        else:
            x, w, _ = shared
        z = root[some] * x
        values = function(z)
        square[some] = np.sum(w * values * values, axis=-1)
        if slope is not None and slope_square is not None:
            slope_square[some] = np.sum(w * slope(z) ** 2, axis=-1)
        if shared is None:
            for k, weighted in enumerate(_weighted(x, w, order)):
                np.einsum("in,in->i", weighted, values, out=h[k, some])
        else:
            np.matmul(shared[2], values.T, out=h[:, some])
    return LowOrders(h, square, slope_square)


def _weighted(x: np.ndarray, w: np.ndarray, order: int) -> Iterator[np.ndarray]:
    r"""$w\,\mathrm{He}_k(x)$, order by order."""
    before, now = np.zeros_like(w), w
    for k in range(order):
        yield now
        after = x * now
        after -= math.sqrt(k) * before
        after /= math.sqrt(k + 1)
        before, now = now, after
