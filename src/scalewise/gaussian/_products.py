r"""Many expectations over the same pairs of inputs, and derivatives beyond the fourth.

What `pair_moment` and `pair_moments` do for one product of activations, done for a list of them with one
Hermite table per factor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalewise.activations import Activation
from scalewise.gaussian._estimate import Estimate
from scalewise.gaussian._hermite import HermiteTable, PairSeries
from scalewise.gaussian._interface import pair_moment, product

__all__ = ["high_moments", "pair_products"]

Orders = tuple[int, ...]
_TOLERANCE = 1e-12
_DOUBT = 1e-5


def pair_products(
    sigma: Activation,
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray,
    products: Sequence[tuple[Orders, Orders]],
) -> dict[tuple[Orders, Orders], Estimate]:
    r"""$\langle\prod_i\sigma^{(p_i)}(z_a)\prod_j\sigma^{(q_j)}(z_b)\rangle$ for a list of products.

    Args:
        sigma: The activation.
        A: Variances of $z_a$, one per pair.
        B: Variances of $z_b$.
        C: Covariances.
        products: For each expectation $(p_1,\dots)$ and $(q_1,\dots)$, orders from 0 to 3.

    Returns:
        For each product what `pair_moment` gives, rtol 1e-10; derivatives almost everywhere.

    Raises:
        ValueError: As `pair_moment` does.
    """
    if not sigma.is_smooth or sigma.slopes is not None or sigma.family == "exp":
        return {(p, q): pair_moment(sigma, A, B, C, p, q) for p, q in products}
    series = PairSeries(A, B, C)
    tables: dict[Orders, HermiteTable] = {}
    out = {}
    for p, q in products:
        for legs in {p, q} - tables.keys():
            parity = sigma.parity ** len(legs) * (-1) ** sum(legs)
            tables[legs] = series.table(product(sigma, legs), parity)
        value, error, size = series.moment(tables[p], tables[q])
        missed = error > _TOLERANCE * size
        if missed.any():
            slow = pair_moment(sigma, A[missed], B[missed], C[missed], p, q)
            value[missed], error[missed] = slow.value, slow.error
        out[p, q] = Estimate(value, error, "hermite")
    return out


def high_moments(
    sigma: Activation,
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray,
    orders: Sequence[tuple[int, int]],
) -> dict[tuple[int, int], Estimate]:
    r"""$M_{pq}=\langle\sigma^{(p)}(z_a)\sigma^{(q)}(z_b)\rangle$ with $p+q\le6$.

    Smooth activations: Hermite tables, $h_k[F']=\sqrt{(k+1)/K}\,h_{k+1}[F]$ beyond the third
    derivative. Scale-invariant ones: $M_{51}$, $M_{42}$, $M_{33}$ as derivatives of
    $\langle\sigma'_a\sigma'_b\rangle$, a function of the angle alone; the finite part, 0, at $|c|=1$.

    Args:
        sigma: The activation, smooth or scale-invariant.
        A: Variances of $z_a$, one per pair.
        B: Variances of $z_b$.
        C: Covariances.
        orders: Pairs $(p,q)$.

    Returns:
        For each order the value and its estimated error; rtol 1e-8.

    Raises:
        ValueError: If the activation is neither smooth nor scale-invariant, or a series does not
            converge.
    """
    if sigma.slopes is not None:
        return _angle_moments(sigma.slopes, A, B, C, orders)
    if not sigma.is_smooth:
        raise ValueError(
            f"Moments of derivatives beyond the fourth do not exist for {sigma.name!r}, which has "
            "kinks. Choose an activation without."
        )
    series = PairSeries(A, B, C)
    tables: dict[int, HermiteTable] = {}
    for p in sorted({n for pq in orders for n in pq} | {3}):
        while p > 3 and p not in tables:
            top = max(tables)
            tables[top + 1] = series.derivative(tables[top])
        if p <= 3:
            parity = sigma.parity * (-1) ** p
            tables[p] = series.table(sigma.derivatives[p], parity, rtol=1e-11 if p == 3 else 1e-8)
    out = {}
    for p, q in orders:
        value, error, size = series.moment(tables[p], tables[q])
        if np.any(error > _DOUBT * np.maximum(size, np.finfo(float).tiny)):
            raise ValueError(
                f"The moments of derivatives {p} and {q} of {sigma.name!r} do not converge. Make C_b, "
                "C_W or the inputs smaller, or leave out the observables that need them."
            )
        out[p, q] = Estimate(value, error, "hermite")
    return out


def _angle_moments(
    slopes: tuple[float, float],
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray,
    orders: Sequence[tuple[int, int]],
) -> dict[tuple[int, int], Estimate]:
    root = np.sqrt(A * B)
    c = np.clip(C / root, -1.0, 1.0)
    sine2 = 1.0 - c * c
    apart = sine2 > 1e-14
    safe = np.where(apart, sine2, 1.0)
    weight = np.where(apart, (slopes[0] - slopes[1]) ** 2 / (2 * np.pi), 0.0)
    first, second = weight / np.sqrt(safe), weight * c / safe**1.5
    known = {
        (3, 3): second / (A * B),
        (5, 1): (second * c * c + 3 * first * c) / (A * A),
        (1, 5): (second * c * c + 3 * first * c) / (B * B),
        (4, 2): -(second * c + first) / (A * root),
        (2, 4): -(second * c + first) / (B * root),
    }
    out = {}
    for pq in orders:
        if pq not in known:
            raise ValueError(f"A scale-invariant activation has no moment of orders {pq}.")
        out[pq] = Estimate(known[pq], 1e-13 * np.abs(known[pq]), "closed")
    return out
