"""Fixed points to which repeated blocks lead, and derivatives there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_CYCLES = 400
_ROUNDING = 1e-12  # below it steps say nothing of where they lead
_WIDTH = 0.2  # of log K, the widest of the differences

Row = Float[np.ndarray, " number"]


def settled(
    step: Callable[[Row], Row],
    start: Row,
    tolerance: float,
    *,
    longest: float | Row = 0.25,
    most: float | Row = 1e5,
    far: Callable[[Row], bool] = lambda u: False,
) -> tuple[Row, bool]:
    """Repeat a map until it stands still: two steps, then a jump to where a geometric series would end.

    Slow powers of the depth end likewise: each jump does away with a fixed share of what is left. Only fixed points
    that attract are found.

    Args:
        step: The map.
        start: Where to begin.
        tolerance: Of each number.
        longest: Jump of each number.
        most: By how much a jump of each number is longer than the last step; rounding may ask for any length.
        far: Whether there is no need to go on.

    Returns:
        Where it ends, and whether that is a fixed point.
    """
    u = np.asarray(start, dtype=float)
    for _ in range(_CYCLES):
        first = step(u)
        second = step(first)
        before, after = first - u, second - first
        moved, size = float(np.abs(after).max()), float(before @ before)
        ratio = float(after @ before) / size if size else 0.0
        if moved <= max(tolerance * min(1.0, 1 - ratio), _ROUNDING):
            return second, True
        # What gathers speed will go far.
        times = max(ratio, 0.0) / (1 - ratio) if ratio < 1 else np.finfo(float).max
        u = second + np.clip(np.minimum(times, most) * after, -np.asarray(longest), longest)
        if far(u):
            return u, False
    return u, False


def slope(function: Callable[[float], np.ndarray], K: float, levels: int = 4) -> np.ndarray:
    """The derivative of a function of a size, by differences extrapolated to 0; at 0 the limit from above.

    To 1e-11 of the function for K > 0, of which an average over Gaussian numbers is an analytic function, kinks or
    not; at 0 to 1e-9, or 1e-5 where there is a kink.
    """
    if K == 0.0:
        at_zero = function(0.0)
        step = 1e-10 if not np.any(at_zero) else 1e-6
        one, half = function(step), function(step / 2)
        return (4 * half - one - 3 * at_zero) / step
    table: list[np.ndarray] = []
    for k in range(levels):
        h = _WIDTH / 2**k
        row = [(function(K * np.exp(h)) - function(K * np.exp(-h))) / (2 * h * K)]
        for m, before in enumerate(table, 1):
            row.append(row[-1] + (row[-1] - before) / (4**m - 1))
        table = row
    return table[-1]
