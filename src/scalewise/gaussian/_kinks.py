r"""The parts that kinks and jumps add to the moments $M_{pq}=\langle\sigma^{(p)}(z_a)\sigma^{(q)}(z_b)\rangle$.

With $r_p$ the $p$-th derivative almost everywhere and $[r]_\kappa$ its jump at $\kappa$,
$$\sigma^{(p)}=r_p+\sum_\kappa\sum_{j<p}[r_j]_\kappa\,\delta_\kappa^{(p-1-j)},$$
and with $N=N(\kappa;0,A)$, $\rho=C/A$ and $e(\mu)=\langle g(z_b)\rangle$ for $z_b\sim N(\mu,\tau^2)$,
$\tau^2=B-C^2/A$, the law of $z_b$ given $z_a=\kappa$, where $\mu=\rho\kappa$,
$$\langle\delta_\kappa^{(m)}(z_a)\,g(z_b)\rangle=N\sum_i\binom mi(-\rho)^i\,
  \frac{\mathrm{He}_{m-i}(\kappa/\sqrt A)}{A^{(m-i)/2}}\,e^{(i)}(\mu).$$
Each $e^{(i)}$ is the mean of a derivative of $g$, where delta functions leave densities: with
$x=(\kappa'-\mu)/\tau$ one of order $m$ leaves $\mathrm{He}_m(x)\,\varphi(x)/\tau^{m+1}$. Beyond the third
derivative of $\sigma$ it is a mean with a weight, $\langle g\,\mathrm{He}_k(y)\rangle/\tau^k$.

At $|c|=1$ such densities diverge like odd powers of $1/\tau$; they are left out (the finite part). Their
coefficient in every recursion of a continuous activation vanishes faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from scalewise.activations import Activation
from scalewise.gaussian._geometry import PairGeometry
from scalewise.gaussian._panels import conditional_means

_LEVELS = (2, 3)  # the coarser one only serves the error estimate
_ROUNDOFF = 1e-14
# What a kernel is known to; 1 - c² is known to this over itself.
_KERNEL = 1e-14
_STENCIL = 8
Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Corner:
    """Jumps of the activation and of its first three derivatives at one point."""

    location: float
    jumps: tuple[float, float, float, float]


def corners_of(activation: Activation) -> tuple[Corner, ...]:
    """The declared jumps at every split point, those of derivatives from values on either side."""
    declared = {kink.location: kink.jump for kink in activation.kinks}

    def jumps(point: float) -> tuple[float, float, float, float]:
        one, two, three = (_jump(activation, p, point) for p in (1, 2, 3))
        return declared.get(point, 0.0), one, two, three

    return tuple(Corner(point, jumps(point)) for point in activation.split_points)


def _sides(activation: Activation, order: int, point: float) -> tuple[float, float]:
    step = 1e-12 * max(activation.scale, abs(point))
    low, high = activation.derivatives[order](np.array([point - step, point + step]))
    return float(low), float(high)


def _jump(activation: Activation, order: int, point: float) -> float:
    low, high = _sides(activation, order, point)
    # A continuous derivative differs by its slope times the step: that is not a jump.
    noise = 1e-10 * max(abs(low), abs(high))
    return high - low if abs(high - low) > noise else 0.0


def tilted_third(activation: Activation) -> Function:
    r"""$r(z)=r_3(z)-r_3(0^\pm)$: the third derivative less its values on either side of 0.

    Stein's identity $\langle r_3'h\rangle=\langle r_3(zh/A-h')\rangle$ loses digits at small $A$ to
    the part of $r_3$ that is constant near 0. That part is taken out first: its derivative is
    $[r_3]_0\,\delta_0$, which is among the corner terms.
    """
    r3 = activation.derivatives[3]
    if 0.0 in activation.split_points:
        minus, plus = _sides(activation, 3, 0.0)
    else:
        minus = plus = float(r3(np.zeros(1))[0])
    return lambda z: r3(z) - np.where(z < 0, minus, plus)


class LegAtKink:
    r"""The law of $z_b$ given $z_a=\kappa$, and means of functions and of their derivatives under it."""

    def __init__(
        self, activation: Activation, corners: Sequence[Corner], pair: PairGeometry, kappa: float
    ) -> None:
        self.activation, self.corners, self.pair, self.kappa = activation, corners, pair, kappa
        self.density = np.exp(-0.5 * kappa**2 / pair.A) / np.sqrt(2 * math.pi * pair.A)
        self.centre = pair.C / pair.A * kappa
        self.spread = np.sqrt(pair.determinant / pair.A)
        self._known: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def delta(
        self, m: int, means: Callable[[int], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""$\langle\delta_\kappa^{(m)}(z_a)\,g(z_b)\rangle$ and its error, `means` giving $e^{(i)}$."""
        A, rho = self.pair.A, self.pair.C / self.pair.A
        value, error = np.zeros_like(A), np.zeros_like(A)
        for i in range(m + 1):
            hermite = special.eval_hermitenorm(m - i, self.kappa / np.sqrt(A))
            factor = math.comb(m, i) * (-rho) ** i * hermite / A ** (0.5 * (m - i))
            mean, slip = means(i)
            value = value + factor * mean
            error = error + np.abs(factor) * slip
        return self.density * value, self.density * error

    def derivative(self, p: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        r"""$\langle D^nr_p(z_b)\rangle$ as a distribution, $D^n\sigma$ for $p=0$, and its error."""
        if (p, n) not in self._known:
            last = min(p + n, 3)
            value, error = self.weighted(self.activation.derivatives[last], p + n - last)
            for corner in self.corners:
                for j in range(p, last):
                    if corner.jumps[j]:
                        term, slip = self._density(corner.location, p + n - 1 - j)
                        value = value + corner.jumps[j] * term
                        error = error + np.abs(corner.jumps[j]) * slip
            self._known[p, n] = value, error
        return self._known[p, n]

    def weighted(self, function: Function, k: int) -> tuple[np.ndarray, np.ndarray]:
        r"""$\partial_\mu^k\langle f(z_b)\rangle=\langle f\,\mathrm{He}_k(y)\rangle/\tau^k$ and its error."""
        if k:
            return self._weighted(function, k)
        splits = self.activation.split_points
        coarse, fine = (
            conditional_means([function], self.centre, self.spread, splits, level)[0]
            for level in _LEVELS
        )
        # At |c| = 1 the law is a point, which may be a kink: its limit sees half of either side.
        step = np.maximum(1e-15 * np.abs(self.centre), 1e-290)
        both = 0.5 * (function(self.centre - step) + function(self.centre + step))
        value = np.where(self.pair.coincident, both, fine)
        return value, np.where(self.pair.coincident, 0.0, np.abs(fine - coarse))

    def _weighted(self, function: Function, k: int) -> tuple[np.ndarray, np.ndarray]:
        singular, splits = self.pair.singular, self.activation.split_points
        value, error = np.zeros_like(self.centre), np.zeros_like(self.centre)
        for place in np.flatnonzero(~singular):
            mu, tau = self.centre[place], self.spread[place]

            def weight(z: np.ndarray, mu: float = mu, tau: float = tau) -> np.ndarray:
                return function(z) * special.eval_hermitenorm(k, (z - mu) / tau)

            law = np.array([mu]), np.array([tau])
            coarse, fine = (conditional_means([weight], *law, splits, lv)[0, 0] for lv in _LEVELS)
            size = conditional_means([lambda z: np.abs(weight(z))], *law, splits, _LEVELS[0])[0, 0]
            value[place] = fine / tau**k
            error[place] = (np.abs(fine - coarse) + _ROUNDOFF * size) / tau**k
        for place in map(int, np.flatnonzero(singular)):
            value[place], error[place] = self._at_a_point(function, k, place)
        return value, error

    def _at_a_point(self, function: Function, k: int, place: int) -> tuple[float, float]:
        """The mean of the derivatives on either side, each from points on its own side."""
        mu = float(self.centre[place])
        apart = [abs(kink - mu) for kink in self.activation.split_points]
        far = min((d for d in apart if d > 1e-9 * max(1.0, abs(mu))), default=np.inf)
        widest = min(float(np.sqrt(self.pair.B[place])), far / _STENCIL)
        total = slips = 0.0
        for side in (-1, 1):
            best, slip = 0.0, np.inf
            for h in widest * 0.5 ** np.arange(1, 16):
                one, other = (_one_sided(function, mu, side * s, k) for s in (h, 0.5 * h))
                if abs(one - other) < slip:
                    best, slip = other, abs(one - other)
            # The least of fifteen changes is smaller than the error that it stands for.
            total, slips = total + 0.5 * best, slips + 50 * slip
        return total, slips

    def _density(self, kink: float, m: int) -> tuple[np.ndarray, np.ndarray]:
        r"""$\langle\delta^{(m)}_{\kappa'}(z_b)\rangle$, 0 where singular, and its error from rounding."""
        singular = self.pair.singular
        tau = np.where(singular, 1.0, self.spread)
        x = (kink - self.centre) / tau
        normal = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        value = special.eval_hermitenorm(m, x) * normal / tau ** (m + 1)
        sine2 = np.where(singular, 1.0, self.pair.sine**2)
        size = (1 + np.abs(x)) ** (m + 2) * normal / tau ** (m + 1)
        return np.where(singular, 0.0, value), np.where(singular, 0.0, _KERNEL / sine2 * size)


def _one_sided(function: Function, mu: float, h: float, k: int) -> float:
    """A derivative of order k from points at mu + h, mu + 2h, ….

    Not from mu itself, where the other side may answer.
    """
    steps = np.arange(1, _STENCIL + 1)
    return float(_one_sided_weights(k) @ function(mu + h * steps)) / h**k


@lru_cache(maxsize=4)
def _one_sided_weights(k: int) -> np.ndarray:
    powers = np.vander(np.arange(1.0, _STENCIL + 1), increasing=True).T
    return np.linalg.solve(powers, math.factorial(k) * np.eye(_STENCIL)[k])
