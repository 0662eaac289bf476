r"""Moments of a pair of which one preactivation does not vary: a zero input below a layer without bias.

With $A=0$ nothing is left of $z_a$ but the derivatives of $\sigma$ at 0, and
$$M_{pq}=\sigma^{(p)}(0)\,\langle\sigma^{(q)}(z_b)\rangle_B,\qquad
  \langle\sigma^{(q)}\rangle_B=B^{-k/2}\langle\mathrm{He}_k(z/\sqrt B)\,\sigma^{(q-k)}\rangle_B$$
for any $k\le q$: so many derivatives are traded that no delta function is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.polynomial import hermite_e

from scalewise.activations import Activation
from scalewise.gaussian._estimate import Estimate
from scalewise.gaussian._quadrature import single_quadrature

_ROUNDOFF = 4e-15
_STEP = 0.01  # in scales of the activation


def refuse_jump_at_zero(sigma: Activation) -> None:
    """Refuse a preactivation that is exactly 0 where the activation or a derivative of it jumps."""
    if 0.0 in sigma.split_points:
        raise ValueError(
            "`A` and `B` must be positive: a preactivation of variance 0 was given, and "
            f"{sigma.name!r} or a derivative of it jumps at 0."
        )


def with_constants(
    sigma: Activation,
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray],
    orders: Sequence[tuple[int, int]],
    varying: Callable[[np.ndarray, np.ndarray, np.ndarray], dict[tuple[int, int], Estimate]],
) -> dict[tuple[int, int], Estimate]:
    r"""$M_{pq}$ of many pairs, in some of which a preactivation is always 0; `varying` gives those of the others.

    The activation is smooth at 0, if there are such pairs; no order is above 5. Derivatives in the sense of
    distributions.
    """
    still = (pairs[0] == 0) | (pairs[1] == 0)
    if not still.any():
        return varying(*pairs)
    A, B = pairs[0][still], pairs[1][still]
    left = {p: _mean(sigma, A, p) for p in {p for p, _ in orders}}
    right = {q: _mean(sigma, B, q) for q in {q for _, q in orders}}
    moving = ~still
    rest = varying(*(k[moving] for k in pairs)) if moving.any() else {}
    out = {}
    for p, q in orders:
        value, error = np.empty((2, still.size))
        (f, f_error), (g, g_error) = left[p], right[q]
        value[still] = f * g
        error[still] = np.abs(f) * g_error + np.abs(g) * f_error
        if rest:
            value[moving], error[moving] = rest[p, q].value, rest[p, q].error
        out[p, q] = Estimate(value, error, rest[p, q].engine if rest else "constant")
    return out


def _mean(sigma: Activation, K: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    r"""$\langle\sigma^{(q)}\rangle_K$ in the sense of distributions, for variances that may be 0."""
    value = np.full_like(K, _at_zero(sigma, order))
    error = _ROUNDOFF * np.abs(value)
    varies = K > 0
    if varies.any():
        variance = K[varies]
        kept = min(order, 3 if sigma.is_smooth else int(sigma.is_continuous))
        k = order - kept
        total, doubt = np.zeros_like(variance), np.zeros_like(variance)
        for power, factor in enumerate(hermite_e.herme2poly([0.0] * k + [1.0])):
            if factor:
                found, slip = single_quadrature(
                    lambda z, power=power: z**power * sigma.derivatives[kept](z),
                    variance,
                    sigma.split_points,
                )
                unit = factor / variance ** (0.5 * (power + k))
                total, doubt = total + unit * found, doubt + np.abs(unit) * slip
        value[varies], error[varies] = total, doubt
    return value, error


def _at_zero(sigma: Activation, order: int) -> float:
    r"""$\sigma^{(q)}(0)$; the fourth and fifth, where they are not known, by differences."""
    if order <= 3:
        return float(sigma.derivatives[order](np.zeros(1))[0])
    if sigma.taylor is not None:
        return float(sigma.taylor[order])
    h = _STEP * sigma.scale
    z = h * np.arange(-3, 4)
    weights = {4: (-1, 9, -45, 0, 45, -9, 1), 5: (2, -27, 270, -490, 270, -27, 2)}[order]
    scale = {4: 60 * h, 5: 180 * h * h}[order]
    return float(np.dot(weights, sigma.derivatives[3](z)) / scale)
