r"""Pair expectations of scale-invariant activations by angle alone.

In polar coordinates $z_a=\sqrt A\,r\cos\theta$, $z_b=\sqrt B\,r\cos(\theta-\psi)$ a product of powers of
$\sigma$ and $\sigma'$ is homogeneous in $r$, and between the four kink rays a trigonometric polynomial
in $\theta$, which a Gauss-Legendre rule integrates exactly.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def polar_moment(
    slopes: tuple[float, float],
    A: Float[np.ndarray, " pair"],
    B: Float[np.ndarray, " pair"],
    C: Float[np.ndarray, " pair"],
    orders_a: tuple[int, ...],
    orders_b: tuple[int, ...],
    *,
    slope: tuple[float, float] | None = None,
) -> Float[np.ndarray, " pair"]:
    r"""$\langle\prod\sigma^{(p_i)}(z_a)\prod\sigma^{(q_j)}(z_b)\rangle$ for $\sigma(z)=a_\pm z$, exact.

    Up to 16 legs, of orders 0 or 1 (almost everywhere, higher ones vanish); `slope` is what a derivative is on
    either side of 0, if not $a_\pm$: less its mean, say.
    """
    if max(*orders_a, *orders_b) > 1:
        return np.zeros_like(A)
    p, q = orders_a.count(0), orders_b.count(0)
    c = C / (np.sqrt(A) * np.sqrt(B))
    psi = np.arccos(np.where(np.abs(c) > 1.0 - 2e-15, np.sign(c), c))
    total, derivative = np.zeros_like(A), slopes if slope is None else slope
    # The rays where z_a or z_b changes sign, in order; the last sector closes the circle.
    rays = [-math.pi / 2, psi - math.pi / 2, math.pi / 2, psi + math.pi / 2, 3 * math.pi / 2]
    signs = [(1, -1), (1, 1), (-1, 1), (-1, -1)]
    for (sign_a, sign_b), low, high in zip(signs, rays[:-1], rays[1:], strict=True):
        factor = _powers(slopes, derivative, sign_a, orders_a)
        factor *= _powers(slopes, derivative, sign_b, orders_b)
        half = np.asarray(0.5 * (high - low))[..., None]
        theta = 0.5 * np.asarray(low + high)[..., None] + half * _NODES
        wave = np.cos(theta) ** p * np.cos(theta - psi[:, None]) ** q
        total += factor * np.sum(half * _WEIGHTS * wave, axis=-1)
    # <r^d> for a plane Gaussian is 2^{d/2} Gamma(1 + d/2).
    radial = 2 ** ((p + q) / 2) * math.gamma(1 + (p + q) / 2)
    return radial * A ** (p / 2) * B ** (q / 2) * total / (2 * math.pi)


def _powers(
    slopes: tuple[float, float], derivative: tuple[float, float], sign: int, orders: tuple[int, ...]
) -> float:
    """The constant factors of one leg's values and slopes on one side of 0."""
    side = int(sign > 0)
    return slopes[side] ** orders.count(0) * derivative[side] ** orders.count(1)
