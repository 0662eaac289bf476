r"""Polynomials in the couplings of two neurons, truncated: everything that is multiplied in a cavity.

An array whose first two axes are the powers of $\kappa$ and $\kappa'$ stands for
$\sum_{pq}c_{pq}\kappa^p\kappa'^q$; the other axes are whatever the coefficients have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Float

Series = Float[np.ndarray, "_power _power_1 ..."]
_STEP = (
    0.02  # of the grid in kappa: what is beyond it is below 1e-6, what rounding leaves below 1e-8
)


def constant(values: np.ndarray, orders: tuple[int, int]) -> Series:
    """A series with no power in it."""
    found = np.zeros((orders[0] + 1, orders[1] + 1, *values.shape))
    found[0, 0] = values
    return found


def shifted(series: Series, axis: int) -> Series:
    """The series times one of the couplings."""
    found = np.zeros_like(series)
    if axis:
        found[:, 1:] = series[:, :-1]
    else:
        found[1:] = series[:-1]
    return found


def product(
    left: Series,
    right: Series,
    multiply: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.multiply,
) -> Series:
    """The product of two series whose coefficients are multiplied by a bilinear function.

    Args:
        left: A series.
        right: Another with the same powers.
        multiply: From a coefficient of `left` and an array of coefficients of `right` to as many products.
    """
    P, Q = left.shape[:2]
    found = multiply(left[0, 0], right).copy()
    for p in range(P):
        for q in range(Q):
            if (p or q) and left[p, q].any():
                found[p:, q:] += multiply(left[p, q], right[: P - p, : Q - q])
    return found


def taylor(derivatives: list[np.ndarray], step: Series) -> Series:
    r"""$\sum_kf^{(k)}d^k/k!$, for a series $d$ without a constant.

    Args:
        derivatives: $f,f',\dots$, where the constant was.
        step: $d$.
    """
    P, Q = step.shape[:2]
    found = constant(derivatives[0], (P - 1, Q - 1))
    power, size = step, 1.0
    for k, derivative in enumerate(derivatives[1:], 1):
        size /= k
        found += size * derivative * power
        if k + 1 < len(derivatives):
            power = product(step, power)
    return found


def composed(function: Callable[[np.ndarray], np.ndarray], series: Series) -> Series:
    """The series of a function of a series, from its values on a grid of small couplings.

    A polynomial goes through them that has more powers than are kept, so that whoever knows a loss only by its
    gradient need not know its derivatives.

    Args:
        function: Takes arrays of any number of leading axes.
        series: What it is taken of.
    """
    (here, back), (here_1, back_1) = (_grid(order - 1) for order in series.shape[:2])
    values = np.tensordot(here_1, np.tensordot(here, series, axes=(1, 0)), axes=(1, 1))
    found = function(values)  # (node', node, ...)
    return np.tensordot(back, np.tensordot(back_1, found, axes=(1, 0)), axes=(1, 1))


@cache
def _grid(order: int) -> tuple[np.ndarray, np.ndarray]:
    """From coefficients to values on a grid, and back to the same number of coefficients."""
    nodes = np.arange(-order, order + 1) if order else np.zeros(1)
    whole = np.vander(nodes, 2 * order + 1, increasing=True)
    scale = _STEP ** np.arange(order + 1)
    return whole[:, : order + 1] * scale, np.linalg.inv(whole)[: order + 1] / scale[:, None]
