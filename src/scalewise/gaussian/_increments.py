r"""Increments $\delta_p(z)=\sigma^{(p)}(z)-s_p$, $s_p=\sigma^{(p)}(0)$, and expectations of their products.

A covariance of products of activations is a small difference of means wherever the activation is nearly
constant, as every $\sigma'$ is at small kernels. With $\sigma^{(p)}=s_p+\delta_p$ the constants drop out
before anything is multiplied, and no term of
$$\sigma^{(p)}_a\sigma^{(q)}_b-s_ps_q=s_q\,\delta_p(z_a)+s_p\,\delta_q(z_b)+\delta_p(z_a)\,\delta_q(z_b)$$
is larger than the fluctuations that are asked for. The increment itself is subtracted only where that
costs no digits; nearer to 0 it is $z\int_0^1\sigma^{(p+1)}(zt)\,dt$, by Gauss-Legendre.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian._estimate import Estimate
from scalewise.gaussian._geometry import PairGeometry
from scalewise.gaussian._hermite import HermiteTable, PairSeries
from scalewise.gaussian._polar import polar_moment
from scalewise.gaussian._quadrature import pair_table, single_quadrature

Legs = tuple[int, ...]
_TOLERANCE = 1e-12
_ROUNDOFF = 4e-15
# A tenth of the constant: beyond it a subtraction costs one digit at most.
_NEAR = 0.1
_ARRIVED = 1e-13


class Increment:
    r"""$\delta_p$ as a function, and the constant $s_p$.

    Args:
        sigma: The activation.
        order: $p$.

    Attributes:
        centre: $s_p$; where the derivative jumps at 0, the mean of both sides; 0 for the third, which
            has no derivative at hand that could give its increment.
        near: Below this $|z|$ the increment is an integral, not a difference.
    """

    def __init__(self, sigma: Activation, order: int) -> None:
        self._value = sigma.derivatives[order]
        self._slope = sigma.derivatives[order + 1] if order < 3 else None
        sides = self._value(np.array([-1e-290, 1e-290]))
        self.jumps = 0.0 in sigma.split_points and not np.isclose(*sides, rtol=1e-12, atol=0)
        at_zero = sides if self.jumps else self._value(np.zeros(1))
        self.centre = float(np.mean(at_zero)) if self._slope is not None else 0.0
        self.near = 0.0
        if self.centre and self._slope is not None and not self.jumps:
            self.near = self._reach([abs(k) for k in sigma.split_points if k])

    def __call__(self, z: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        r"""$\delta_p(z)$, to a few roundings of itself."""
        out = self._value(z) - self.centre
        if self.near:
            close = np.abs(z) <= self.near
            if close.any():
                out[close] = self._integral(z[close], 12)
        return out

    def _integral(self, z: np.ndarray, nodes: int) -> np.ndarray:
        assert self._slope is not None
        t, w = _unit_rule(nodes)
        return z * (self._slope(z[:, None] * t) @ w)

    def _reach(self, kinks: Sequence[float]) -> float:
        """Distance from 0 up to which the rule is exact and the increment small, on any scale of the argument."""
        r = np.geomspace(1e-30, 1e30, 601)
        r = r[r < min(kinks, default=np.inf)]
        good = np.ones(r.size, bool)
        with np.errstate(all="ignore"):
            for z in (r, -r):
                direct = self._value(z) - self.centre
                coarse, fine = self._integral(z, 12), self._integral(z, 24)
                # A slope that has lost its digits, or is not the derivative, is not to be trusted.
                good &= np.abs(coarse - fine) <= _ARRIVED * np.abs(fine)
                good &= np.abs(fine - direct) <= _TOLERANCE * abs(self.centre)
                good &= np.abs(direct) <= _NEAR * abs(self.centre)
        first_bad = r.size if good.all() else int(np.argmin(good))
        return float(r[first_bad - 1]) if first_bad else 0.0


@lru_cache(maxsize=8)
def _unit_rule(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(nodes)
    return 0.5 * (1 + x), 0.5 * w


@lru_cache(maxsize=64)
def increment(sigma: Activation, order: int) -> Increment:
    r"""$\delta_p$ of an activation, prepared once.

    Args:
        sigma: The activation.
        order: $p$, from 0 to 3.
    """
    return Increment(sigma, order)


class _IncrementProduct:
    r"""$z\mapsto\prod_i\delta_{p_i}(z)$."""

    def __init__(self, sigma: Activation, legs: Legs) -> None:
        self._factors = [(increment(sigma, p), legs.count(p)) for p in sorted(set(legs))]

    def __call__(self, z: np.ndarray) -> np.ndarray:
        out = np.ones_like(z)
        for factor, count in self._factors:
            value = factor(z)
            for _ in range(count):
                out = out * value
        return out


def increment_means(
    sigma: Activation, K: Float[np.ndarray, " input"], products: Sequence[Legs]
) -> dict[Legs, Estimate]:
    r"""$\langle\prod_i\delta_{p_i}(z)\rangle_K$ of one input, $p_i$ from 0 to 3, almost everywhere."""
    out = {}
    for legs in products:
        value, error = single_quadrature(_IncrementProduct(sigma, legs), K, sigma.split_points)
        out[legs] = Estimate(value, error, "quadrature")
    return out


def pair_increments(
    sigma: Activation,
    A: Float[np.ndarray, " pair"],
    B: Float[np.ndarray, " pair"],
    C: Float[np.ndarray, " pair"],
    products: Sequence[tuple[Legs, Legs]],
) -> dict[tuple[Legs, Legs], Estimate]:
    r"""$\langle\prod_i\delta_{p_i}(z_a)\prod_j\delta_{q_j}(z_b)\rangle$ for a list of products, none of them empty.

    Derivatives almost everywhere. Hermite series, polar form or quadrature, rtol 1e-12 of the root of the mean
    squares.
    """
    still = (A == 0) | (B == 0)
    if still.any():  # a preactivation that is always 0 is independent of every other
        left = increment_means(sigma, A, sorted({p for p, _ in products}))
        right = increment_means(sigma, B, sorted({q for _, q in products}))
        found = {(p, q): left[p].times(right[q]) for p, q in products}
        if not still.all():
            rest = pair_increments(sigma, A[~still], B[~still], C[~still], products)
            for pq, estimate in rest.items():
                found[pq].value[~still], found[pq].error[~still] = estimate.value, estimate.error
        return found
    if sigma.slopes is not None:
        minus, plus = sigma.slopes
        half = 0.5 * (plus - minus)
        found = {}
        for p, q in products:
            value = polar_moment(sigma.slopes, A, B, C, p, q, slope=(-half, half))
            size = polar_moment(sigma.slopes, A, A, A, p, p, slope=(-half, half)) * polar_moment(
                sigma.slopes, B, B, B, q, q, slope=(-half, half)
            )
            found[p, q] = Estimate(value, _ROUNDOFF * np.sqrt(size), "closed")
        return found
    if not sigma.is_smooth:
        return _by_quadrature(sigma, (A, B, C), products)
    series, out, missed = PairSeries(A, B, C), {}, {}
    tables = {
        legs: _table(series, sigma, legs) for legs in {legs for pq in products for legs in pq}
    }
    for p, q in products:
        value, error, size = series.moment(tables[p], tables[q])
        if np.any(error > _TOLERANCE * size):
            # What the shorter table leaves out meets orders of the longer that are not small.
            orders = {legs: len(tables[legs].coefficients) for legs in (p, q)}
            shorter = min(orders, key=orders.__getitem__)
            if orders[shorter] < max(orders.values()):
                tables[shorter] = _table(series, sigma, shorter, least=max(orders.values()))
                value, error, size = series.moment(tables[p], tables[q])
        out[p, q] = Estimate(value, error, "hermite")
        missed[p, q] = error > _TOLERANCE * size
    again = [pq for pq in products if missed[pq].any()]
    if again:
        some = np.logical_or.reduce([missed[pq] for pq in again])
        slow = _by_quadrature(sigma, (A[some], B[some], C[some]), again)
        for pq in again:
            worse = missed[pq][some]
            out[pq].value[missed[pq]] = slow[pq].value[worse]
            out[pq].error[missed[pq]] = slow[pq].error[worse]
    return out


def _table(series: PairSeries, sigma: Activation, legs: Legs, *, least: int = 2) -> HermiteTable:
    parity = sigma.parity ** len(legs) * (-1) ** sum(legs)
    return series.table(_IncrementProduct(sigma, legs), parity, least=least)


def _by_quadrature(
    sigma: Activation,
    pairs: tuple[np.ndarray, np.ndarray, np.ndarray],
    products: Sequence[tuple[Legs, Legs]],
) -> dict[tuple[Legs, Legs], Estimate]:
    """All products of two lists of functions from the same nodes."""
    sides = [sorted({product[i] for product in products}) for i in (0, 1)]
    left, right = ([_IncrementProduct(sigma, legs) for legs in side] for side in sides)
    value, error = pair_table(left, right, PairGeometry.of(*pairs), sigma.split_points)
    out = {}
    for p, q in products:
        place = sides[0].index(p), sides[1].index(q)
        out[p, q] = Estimate(value[place], error[place], "quadrature")
    return out
