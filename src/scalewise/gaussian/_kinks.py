r"""What kinks add to the moments $M_{pq}=\langle\sigma^{(p)}(z_a)\sigma^{(q)}(z_b)\rangle$.

With $r_p$ the $p$-th derivative almost everywhere and $[r]_\kappa$ its jump at $\kappa$,
$$\sigma''=r_2+\sum_\kappa[r_1]\,\delta_\kappa,\quad
\sigma'''=r_3+\sum_\kappa[r_2]\,\delta_\kappa+[r_1]\,\delta_\kappa',\quad
\sigma''''=r_3'+\sum_\kappa[r_2]\,\delta'_\kappa+[r_1]\,\delta''_\kappa,$$
and, with $N=N(\kappa;0,A)$, $\rho=C/A$, $e_q=\langle\sigma^{(q)}(z_b)\,|\,z_a=\kappa\rangle$ (of
which $\partial_\kappa e_q=\rho\,e_{q+1}$),
$$\langle\delta_\kappa\,\sigma_b\rangle=Ne_0,\qquad
\langle\delta_\kappa'\,\sigma_b\rangle=N\big[\tfrac\kappa Ae_0-\rho e_1\big],\qquad
\langle\delta_\kappa''\,\sigma_b\rangle=N\big[\big(\tfrac{\kappa^2}{A^2}-\tfrac1A\big)e_0
-\tfrac{2\kappa}A\rho e_1+\rho^2e_2\big].$$
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian._geometry import PairGeometry
from scalewise.gaussian._panels import conditional_means

__all__ = ["Corner", "corner_terms", "corners_of", "tilted_third"]

_LEVELS = (2, 3)  # the coarser one only serves the error estimate
_ROUNDOFF = 1e-14


@dataclass(frozen=True)
class Corner:
    """Jumps of the first three derivatives at one point."""

    location: float
    slope: float
    curvature: float
    third: float


def corners_of(activation: Activation) -> tuple[Corner, ...]:
    """Measure the jumps at every split point, from values just left and right of it."""
    return tuple(
        Corner(point, *(_jump(activation, p, point) for p in (1, 2, 3)))
        for point in activation.split_points
    )


def _sides(activation: Activation, order: int, point: float) -> tuple[float, float]:
    step = 1e-12 * max(activation.scale, abs(point))
    low, high = activation.derivatives[order](np.array([point - step, point + step]))
    return float(low), float(high)


def _jump(activation: Activation, order: int, point: float) -> float:
    low, high = _sides(activation, order, point)
    # A continuous derivative differs by its slope times the step: that is no jump.
    noise = 1e-10 * max(abs(low), abs(high))
    return high - low if abs(high - low) > noise else 0.0


def tilted_third(activation: Activation) -> Callable[[np.ndarray], np.ndarray]:
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


def corner_terms(
    activation: Activation, corners: Sequence[Corner], pair: PairGeometry, order: tuple[int, int]
) -> tuple[Float[np.ndarray, " pair"], Float[np.ndarray, " pair"]]:
    """The sum of all terms with a delta function on at least one leg, and its estimated error."""
    total, error = np.zeros_like(pair.A), np.zeros_like(pair.A)
    if order == (2, 2):
        # The delta functions of leg b against the regular part of leg a; both against each other.
        for corner in corners:
            other = _LegAtKink(activation, corners, pair.swapped, corner.location)
            term, slip = other.mean(2)
            total = total + corner.slope * other.density * term
            error = error + np.abs(corner.slope) * other.density * slip
    for corner in corners:
        leg = _LegAtKink(activation, corners, pair, corner.location)
        term, slip = _one_corner(corner, leg, order)
        total, error = total + leg.density * term, error + leg.density * slip
    return total, error + _ROUNDOFF * np.abs(total)


def _one_corner(
    corner: Corner, leg: _LegAtKink, order: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of e_0, e_1, e_2 as in the head of this file, over the density N."""
    slope, curvature = corner.slope, corner.curvature
    kappa, A, rho = corner.location, leg.pair.A, leg.pair.C / leg.pair.A
    third = corner.third if corner.location == 0.0 else 0.0  # see `tilted_third`
    coefficients: dict[tuple[int, int], dict[int, np.ndarray | float]] = {
        (2, 0): {0: slope},
        (2, 2): {2: slope},
        (3, 1): {1: curvature + slope * kappa / A, 2: -slope * rho},
        (4, 0): {
            0: third + curvature * kappa / A + slope * (kappa**2 / A - 1) / A,
            1: -curvature * rho - 2 * slope * kappa * rho / A,
            2: slope * rho**2,
        },
    }
    value, error = np.zeros_like(A), np.zeros_like(A)
    for q, coefficient in coefficients.get(order, {}).items():
        if np.any(coefficient):
            mean, slip = leg.mean(q)
            if q == 2:
                mean = mean + leg.delta_of_other_leg()
            value, error = value + coefficient * mean, error + np.abs(coefficient) * slip
    return value, error


class _LegAtKink:
    r"""The law of $z_b$ given $z_a=\kappa$: mean $\rho\kappa$, variance $(AB-C^2)/A$."""

    def __init__(
        self, activation: Activation, corners: Sequence[Corner], pair: PairGeometry, kappa: float
    ):
        self.activation, self.corners, self.pair, self.kappa = activation, corners, pair, kappa
        self.density = np.exp(-0.5 * kappa**2 / pair.A) / np.sqrt(2 * math.pi * pair.A)
        self.centre = pair.C / pair.A * kappa
        self.spread = np.sqrt(pair.determinant / pair.A)

    def mean(self, q: int) -> tuple[np.ndarray, np.ndarray]:
        r"""$\langle r_q(z_b)\,|\,z_a=\kappa\rangle$ and its error."""
        r_q, splits = self.activation.derivatives[q], self.activation.split_points
        coarse, fine = (
            conditional_means([r_q], self.centre, self.spread, splits, level)[0]
            for level in _LEVELS
        )
        # At |c| = 1 the law is a point, which may be a kink: its limit sees half of either side.
        step = np.maximum(1e-15 * np.abs(self.centre), 1e-290)
        both = 0.5 * (r_q(self.centre - step) + r_q(self.centre + step))
        value = np.where(self.pair.coincident, both, fine)
        return value, np.where(self.pair.coincident, 0.0, np.abs(fine - coarse))

    def delta_of_other_leg(self) -> np.ndarray:
        r"""$\sum_{\kappa'}[r_1]_{\kappa'}N(\kappa';\rho\kappa,\tau^2)$, 0 where singular."""
        singular = self.pair.singular
        tau = np.where(singular, 1.0, self.spread)
        total = np.zeros_like(tau)
        for corner in self.corners:
            distance = (corner.location - self.centre) / tau
            total = total + corner.slope * np.exp(-0.5 * distance**2) / (
                math.sqrt(2 * math.pi) * tau
            )
        return np.where(singular, 0.0, total)
