r"""Many expectations over the same pairs of inputs, and derivatives beyond the fourth.

What `pair_moment` and `pair_moments` do for one product of activations, done for a list of them with one
Hermite table per factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from scalewise.activations import Activation
from scalewise.gaussian._constant import with_constants
from scalewise.gaussian._estimate import Estimate
from scalewise.gaussian._hermite import HermiteTable, PairSeries
from scalewise.gaussian._interface import pair_moment, product
from scalewise.gaussian._kinked_moments import kinked_pair_moments
from scalewise.gaussian._quadrature import pair_quadrature

Orders = tuple[int, ...]
_TOLERANCE = 1e-12
_DOUBT = 1e-6
_WINDOW = 6.0  # in scales of the activation: where its third derivative is tried
# Central differences on eleven points: weights of the points to the right, and of the centre.
_WEIGHTS = {
    1: (5 / 6, -5 / 21, 5 / 84, -5 / 504, 1 / 1260),
    2: (5 / 3, -5 / 21, 5 / 126, -5 / 1008, 1 / 3150),
}
_CENTRE = {2: -5269 / 1800}


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
    constant = bool(np.any(A == 0) or np.any(B == 0))
    if constant or not sigma.is_smooth or sigma.slopes is not None or sigma.family == "exp":
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
    r"""$M_{pq}=\langle\sigma^{(p)}(z_a)\sigma^{(q)}(z_b)\rangle$ with $p,q\le5$.

    Smooth activations: derivatives beyond the third by central differences. Scale-invariant ones:
    $M_{51}$, $M_{42}$, $M_{33}$ as derivatives of $\langle\sigma'_a\sigma'_b\rangle$, a function of the
    angle alone; the finite part, 0, at $|c|=1$.

    Args:
        sigma: The activation, smooth or scale-invariant.
        A: Variances of $z_a$, one per pair.
        B: Variances of $z_b$.
        C: Covariances.
        orders: Pairs $(p,q)$.

    Returns:
        For each order the value and its estimated error; rtol 1e-9.

    Raises:
        ValueError: If the activation is neither smooth nor scale-invariant, or varies too fast for
            differences.
    """
    return with_constants(sigma, (A, B, C), orders, partial(_varying, sigma, orders))


def _varying(
    sigma: Activation,
    orders: Sequence[tuple[int, int]],
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray,
) -> dict[tuple[int, int], Estimate]:
    """`high_moments` of pairs of positive variances."""
    if sigma.slopes is not None:
        return _angle_moments(sigma.slopes, A, B, C, orders)
    if not sigma.is_smooth:
        values, errors = kinked_pair_moments(sigma, A, B, C, orders)
        return {pq: Estimate(values[pq], errors[pq], "quadrature") for pq in orders}
    series = PairSeries(A, B, C)
    functions = {p: _derivative(sigma, p) for p in {n for pq in orders for n in pq}}
    tables = {p: series.table(f, sigma.parity * (-1) ** p) for p, f in functions.items()}
    out = {}
    for p, q in orders:
        value, error, size = series.moment(tables[p], tables[q])
        missed = error > _TOLERANCE * size
        if missed.any():
            f, g = functions[p], functions[q]
            a, b, c = A[missed], B[missed], C[missed]
            value[missed], error[missed] = pair_quadrature(f, g, a, b, c, ())
        out[p, q] = Estimate(value, error, "hermite+quadrature" if missed.any() else "hermite")
    return out


def _derivative(sigma: Activation, order: int) -> Callable[[np.ndarray], np.ndarray]:
    r"""$\sigma^{(p)}$; beyond the third by central differences of the third."""
    if order <= 3:
        return sigma.derivatives[order]
    fine, coarse = (
        partial(_difference, sigma.derivatives[3], order - 3, h * sigma.scale) for h in (0.01, 0.02)
    )
    z = _WINDOW * sigma.scale * np.linspace(-1.0, 1.0, 257)
    exact = coarse(z)
    natural = np.max(np.abs(sigma.derivatives[3](z))) / sigma.scale ** (order - 3)
    size = max(float(np.max(np.abs(exact))), float(natural), np.finfo(float).tiny)
    doubt = np.max(np.abs(fine(z) - exact)) / size
    if doubt > _DOUBT:
        raise ValueError(
            f"Derivative {order} of {sigma.name!r} cannot be had from its third: the activation varies "
            f"too fast (relative error {doubt:.1g}). Rescale it, or leave out the observables that "
            "need it."
        )
    return coarse


def _difference(
    function: Callable[[np.ndarray], np.ndarray], order: int, step: float, z: np.ndarray
) -> np.ndarray:
    """First or second derivative from eleven points, exact to the tenth power of the step."""
    total = _CENTRE[order] * function(z) if order == 2 else np.zeros_like(z)
    for k, weight in enumerate(_WEIGHTS[order], 1):
        total = total + weight * (function(z + k * step) + (-1) ** order * function(z - k * step))
    return total / step**order


def _angle_moments(
    slopes: tuple[float, float],
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray,
    orders: Sequence[tuple[int, int]],
) -> dict[tuple[int, int], Estimate]:
    root = np.sqrt(A) * np.sqrt(B)
    c = np.clip(C / root, -1.0, 1.0)
    sine2 = 1.0 - c * c
    apart = sine2 > 1e-14
    safe = np.where(apart, sine2, 1.0)
    weight = np.where(apart, (slopes[0] - slopes[1]) ** 2 / (2 * np.pi), 0.0)
    first, second = weight / np.sqrt(safe), weight * c / safe**1.5
    known = {
        (3, 3): second / A / B,
        (5, 1): (second * c * c + 3 * first * c) / A / A,
        (1, 5): (second * c * c + 3 * first * c) / B / B,
        (4, 2): -(second * c + first) / A / root,
        (2, 4): -(second * c + first) / B / root,
    }
    out = {}
    for pq in orders:
        if pq not in known:
            raise ValueError(f"A scale-invariant activation has no moment of orders {pq}.")
        out[pq] = Estimate(known[pq], 1e-13 * np.abs(known[pq]), "closed")
    return out
