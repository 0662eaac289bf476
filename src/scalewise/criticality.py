r"""Critical initialisation of an activation: which $C_b,C_W$ neither amplify nor damp signals.

The method is chosen from what is known of the function, never from its name: scale invariance gives
a line of fixed points; the expansion at 0 decides about $K^\star\to0$; roots of one function of $K$
give every $K^\star>0$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from scalewise.activations import Activation, activation
from scalewise.gaussian import single_moment

__all__ = ["CriticalPoint", "Criticality", "criticality", "susceptibilities"]

_DECADES = range(-6, 6)
_TO_A_DECADE = 20
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class CriticalPoint:
    r"""One pair $(C_b,C_W)$ at which both susceptibilities are 1, accepted or not.

    Args:
        K_star: The fixed point $K^\star$, preactivation²; ``None`` on a line of fixed points.
        C_b: Bias variance; negative where the point is no initialisation.
        C_W: Rescaled weight variance, dimensionless.
        stability: ``"line"``, ``"stable"``, ``"half-stable"``, ``"unstable"``, or ``"none"`` where
            $C_b<0$.
        note: How it was found and what speaks for or against it.
    """

    K_star: float | None
    C_b: float
    C_W: float
    stability: str
    note: str


@dataclass(frozen=True)
class Criticality:
    r"""The critical initialisation of an activation, or why there is none.

    Args:
        activation: The activation.
        C_b: Critical bias variance; ``None`` where there is no critical point.
        C_W: Critical rescaled weight variance; ``None`` where there is no critical point.
        K_star: Fixed point of the kernel; ``None`` where there is none, and on the line of fixed
            points of a scale-invariant activation, where every $K$ is one.
        chi_parallel: $\chi_\parallel(K^\star)$ as evaluated, not as demanded.
        chi_perp: $\chi_\perp(K^\star)$ as evaluated.
        found: How the point was found, a sentence; empty where there is none.
        reason: Why there is none, a sentence; empty where there is one.
        candidates: Every point with $\chi_\parallel=\chi_\perp=1$, the rejected ones included.
    """

    activation: Activation
    C_b: float | None
    C_W: float | None
    K_star: float | None
    chi_parallel: float | None
    chi_perp: float | None
    found: str
    reason: str
    candidates: tuple[CriticalPoint, ...]

    def attributes(self) -> dict[str, object]:
        """The record as plain numbers, text and lists, for JSON."""
        names = ("C_b", "C_W", "K_star", "chi_parallel", "chi_perp", "found", "reason")
        return {
            "activation": self.activation.name,
            **{name: getattr(self, name) for name in names},
            "candidates": [vars(point).copy() for point in self.candidates],
        }

    def __str__(self) -> str:
        if self.C_b is None:
            lines = [f"{self.activation.name} has no critical initialisation: {self.reason}"]
        else:
            K_star = "every K" if self.K_star is None else f"{self.K_star:.13g}"
            lines = [
                f"{self.activation.name}: C_b = {self.C_b:.13g}, C_W = {self.C_W:.13g}",
                f"  K* = {K_star}, chi_parallel = {self.chi_parallel:.12f}, "
                f"chi_perp = {self.chi_perp:.12f}",
                f"  {self.found}",
            ]
        for point in self.candidates:
            if point.note not in (self.found + self.reason):
                lines.append(
                    f"  not chosen: C_b = {point.C_b:.13g}, C_W = {point.C_W:.13g}: {point.note}"
                )
        return "\n".join(lines)


def criticality(source: str | Activation | Callable[[Any], Any]) -> Criticality:
    r"""Critical $C_b$ and $C_W$ of an activation: $\chi_\parallel(K^\star)=\chi_\perp(K^\star)=1$.

    A candidate $K^\star$ solves $\chi_\perp/\chi_\parallel=1$, that is
    $\langle\sigma\sigma''\rangle_{K^\star}=0$, and then
    $$C_W=\frac1{\langle\sigma'\sigma'\rangle_{K^\star}},\qquad
    C_b=K^\star-\frac{\langle\sigma\sigma\rangle_{K^\star}}{\langle\sigma'\sigma'\rangle_{K^\star}}.$$
    Candidates are $K^\star\to0$ and every root in a scan of $K$ from 1e-6 to 1e6, twenty points to
    a decade, which ends earlier where expectations overflow or oscillate too fast. One with $C_b<0$
    is rejected. Of several, a stable one is taken before a half-stable one, and then the smallest
    $K^\star$; an unstable one is never taken.

    Args:
        source: Name, callable or `Activation`.

    Returns:
        The record; `C_b`, `C_W`, `K_star` to 12 significant digits.

    Raises:
        ValueError: If the name is unknown or the callable is refused by `activation`.

    Source: PDLT (5.55)-(5.56), (5.67), (5.71)-(5.73), (5.83)-(5.90), (5.101)-(5.105). The
    susceptibilities of an activation with kinks include their delta functions. The printed eight
    digits of SWISH and GELU do not suffice: at them the half-stable point is gone, or split in two.

    Example:
        >>> import scalewise as sw
        >>> point = sw.criticality("tanh")
        >>> point.C_b, point.C_W, point.K_star
        (0.0, 1.0, 0.0)
        >>> print(f"{sw.criticality('gelu').K_star:.12g}")
        3.56155281281
    """
    sigma = activation(source)
    if sigma.slopes is not None:
        return _scale_invariant(sigma)
    jumps = [kink.location for kink in sigma.kinks if kink.jump]
    if jumps:
        where = ", ".join(f"{location:g}" for location in jumps)
        return _none(sigma, f"it jumps at z = {where}, so chi_perp is infinite for every K.")
    scan = _scan(sigma)
    candidates = (*_at_zero(sigma, scan.K), *_beyond_zero(sigma, scan))
    for stability in ("stable", "half-stable"):
        for point in candidates:
            if point.stability == stability:
                return _chosen(sigma, point, candidates)
    return _none(sigma, _why_none(scan, candidates), candidates)


def susceptibilities(
    source: str | Activation | Callable[[Any], Any],
    K: float | Float[np.ndarray, ...],
    C_W: float,
) -> tuple[Float[np.ndarray, ...], Float[np.ndarray, ...]]:
    r"""The parallel and the perpendicular susceptibility of the kernel recursion.

    $$\chi_\parallel(K)=C_W\frac{d}{dK}\langle\sigma\sigma\rangle_K
    =C_W\big[\langle\sigma'\sigma'\rangle_K+\langle\sigma\sigma''\rangle_K\big],\qquad
    \chi_\perp(K)=C_W\langle\sigma'\sigma'\rangle_K$$

    Args:
        source: Name, callable or `Activation`.
        K: Kernel of one input, any shape, at least 0; preactivation². At 0 the limit from above.
        C_W: Rescaled weight variance.

    Returns:
        $(\chi_\parallel,\chi_\perp)$, shaped like `K`, dimensionless; to 1e-13 of $\chi_\perp$.

    Raises:
        ValueError: If `K` or `C_W` is negative or not finite, if the activation jumps, or if a
            susceptibility is not finite: it overflows, or K = 0 and there is a kink at 0 where the
            activation is not 0.

    Source: PDLT (5.50), (5.51), (5.53). A kink at $\kappa$ adds $\sigma(\kappa)\,\Delta\sigma'\,
    p(\kappa)$ to $\langle\sigma\sigma''\rangle$, with $p$ the density of $N(0,K)$.

    Example:
        >>> from scalewise.criticality import susceptibilities
        >>> parallel, perp = susceptibilities("relu", 3.0, C_W=2.0)
        >>> print(f"{parallel:.6f} {perp:.6f}")
        1.000000 1.000000
    """
    sigma = activation(source)
    variance = np.asarray(K, dtype=np.float64)
    if not (np.all(np.isfinite(variance)) and np.all(variance >= 0)):
        raise ValueError(f"`K` is a variance and must be finite and at least 0; got {K}.")
    if not (math.isfinite(C_W) and C_W >= 0):
        raise ValueError(f"`C_W` is a variance and must be finite and at least 0; got {C_W}.")
    if not sigma.is_continuous:
        raise ValueError(
            f"{sigma.name!r} jumps, so its perpendicular susceptibility is infinite. "
            "Use an activation that is continuous."
        )
    flat = variance.ravel()
    perp, excess = np.empty_like(flat), np.empty_like(flat)
    zero = flat == 0
    if not zero.all():
        perp[~zero], excess[~zero], _ = _moments(sigma, flat[~zero])
    perp[zero], excess[zero] = _limits_at_zero(sigma)
    parallel, perp = C_W * (perp + excess), C_W * perp
    good = np.isfinite(parallel) & np.isfinite(perp)
    if not np.all(good):
        raise ValueError(
            f"The susceptibilities of {sigma.name!r} are not finite at K = {flat[~good][0]:g}. "
            "Use a smaller `K`, or a positive one if it is 0."
        )
    return parallel.reshape(variance.shape), perp.reshape(variance.shape)


class _Scan(NamedTuple):
    """Results of `_moments` at increasing K."""

    K: np.ndarray
    perp: np.ndarray
    excess: np.ndarray
    error: np.ndarray


def _scan(sigma: Activation) -> _Scan:
    """The scan, decade by decade, as far as the expectations are known."""
    decades: list[_Scan] = []
    for power in _DECADES:
        K = np.logspace(power, power + 1, _TO_A_DECADE + 1)[bool(decades) :]
        try:
            decades.append(_Scan(K, *_moments(sigma, K)))
        except ValueError:
            # Too large a K for exp or sin; but at the smallest the message is about the function.
            if not decades:
                raise
            break
    return _Scan(*(np.concatenate(columns) for columns in zip(*decades, strict=True)))


def _moments(sigma: Activation, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""$\langle\sigma'^2\rangle_K$, the excess $g'-\langle\sigma'^2\rangle_K$, and its error."""
    perp = single_moment(sigma, K, (1, 1)).value
    smooth = single_moment(sigma, K, (0, 2))
    excess = smooth.value.copy()
    for kink in sigma.kinks:
        density = np.exp(-(kink.location**2) / (2 * K)) / np.sqrt(2 * np.pi * K)
        excess += _jet(sigma, kink.location, 1)[0] * kink.slope_jump * density
    return perp, excess, smooth.error + 1e-16 * perp


def _jet(sigma: Activation, location: float, side: int) -> np.ndarray:
    r"""$\sigma,\dots,\sigma'''$ just beside a point."""
    step = 4 * float(np.spacing(abs(location))) if location else 1e-30
    z = np.array([location + side * step])
    return np.array([float(derivative(z)[0]) for derivative in sigma.derivatives])


def _value_at_zero(sigma: Activation) -> float:
    value = float(sigma(np.zeros(1))[0])
    return value if abs(value) > _NEGLIGIBLE else 0.0


def _limits_at_zero(sigma: Activation) -> tuple[float, float]:
    """What `_moments` tends to as K falls to 0; the excess is infinite if the part of a kink is."""
    right, left = _jet(sigma, 0.0, 1), _jet(sigma, 0.0, -1)
    perp = float(right[1] ** 2 + left[1] ** 2) / 2
    value = _value_at_zero(sigma)
    if not value:
        return perp, 0.0
    slope_jump = sum(kink.slope_jump for kink in sigma.kinks if kink.location == 0)
    if slope_jump:
        return perp, math.copysign(math.inf, value * slope_jump)
    return perp, value * float(right[2] + left[2]) / 2


def _scale_invariant(sigma: Activation) -> Criticality:
    minus, plus = sigma.slopes or (0.0, 0.0)
    A_2 = 0.5 * (minus * minus + plus * plus)
    if not 1e-300 < A_2 < math.inf:
        return _none(sigma, f"its mean squared slope A_2 = {A_2:g} has no usable inverse.")
    note = (
        f"Scale-invariant with mean squared slope A_2 = {A_2:.6g}: C_b = 0 and C_W = 1/A_2 make a "
        "line of fixed points, every K is a K*, PDLT (5.67)."
    )
    point = CriticalPoint(None, 0.0, 1 / A_2, "line", note)
    return _chosen(sigma, point, (point,))


def _at_zero(sigma: Activation, K: np.ndarray) -> tuple[CriticalPoint, ...]:
    r"""The candidate $K^\star\to0$, if both susceptibilities can be 1 there."""
    perp, excess = _limits_at_zero(sigma)
    value = _value_at_zero(sigma)
    if math.sqrt(perp) <= _NEGLIGIBLE or abs(excess) > _NEGLIGIBLE * perp:
        return ()
    if value:
        C_b = -(value * value) / perp
        note = f"K* = 0 would need C_b = -(sigma(0)/sigma'(0))^2 = {C_b:.6g}, which is negative."
        return (CriticalPoint(0.0, C_b, 1 / perp, "none", note),)
    power, slope = _drift_at_zero(sigma, perp, K)
    stability = "unstable" if slope > 0 else "stable"
    behaviour = "K grows away from it" if slope > 0 else "K falls to it" if slope else "K stays"
    sign = "-" if slope < 0 else "+"
    size = f"{abs(slope):.6g} ".removeprefix("1 ")
    term = f"{sign} {size}K^{power:g} + ..." if power else f"{sign} less than any power"
    note = (
        f"K* = 0 with C_b = 0 and C_W = 1/<sigma'^2>_0 = {1 / perp:.6g} is {stability} "
        f"({behaviour}), for C_W<sigma^2>_K = K {term}, PDLT (5.83)-(5.90)."
    )
    return (CriticalPoint(0.0, 0.0, 1 / perp, stability, note),)


def _drift_at_zero(sigma: Activation, perp: float, K: np.ndarray) -> tuple[float, float]:
    r"""Power and coefficient of the first term beyond $K$ in $g(K)/\langle\sigma'^2\rangle_0$.

    Odd powers of $\sqrt K$ come from a kink or break at 0. If every known coefficient vanishes the
    power is 0 and the number is the first that differs from 0 in the scan.
    """
    known = None if sigma.taylor is None else np.array(sigma.taylor)
    jets = [_jet(sigma, 0.0, side) if known is None else known for side in (1, -1)]
    factorials = np.array([math.factorial(p) for p in range(len(jets[0]))])
    right, left = (np.convolve(jet / factorials, jet / factorials) for jet in jets)
    # Orders up to len(jet) of the square are complete, since sigma(0) = 0.
    for m in range(3, len(jets[0]) + 1):
        absolute_moment = 2 ** (m / 2) * math.gamma((m + 1) / 2) / math.sqrt(math.pi)
        slope = 0.5 * (right[m] + (-1) ** m * left[m]) * absolute_moment / perp
        if abs(slope) > _NEGLIGIBLE:
            return m / 2, float(slope)
    growth = single_moment(sigma, K, (0, 0)).value / (perp * K) - 1
    clear = np.abs(growth) > _NEGLIGIBLE
    return 0.0, float(growth[np.argmax(clear)]) if clear.any() else 0.0


def _beyond_zero(sigma: Activation, scan: _Scan) -> tuple[CriticalPoint, ...]:
    r"""Every $K^\star>0$ in the scan: sign changes of $\langle\sigma\sigma''\rangle_K$, refined."""
    # What is below its own error has no sign: an excess that is 0 throughout has no roots.
    clear = np.abs(scan.excess) > 10 * scan.error + 1e-14 * scan.perp
    K, sign = scan.K[clear], np.sign(scan.excess[clear])
    return tuple(_point(sigma, K[k], K[k + 1]) for k in range(len(K) - 1) if sign[k] != sign[k + 1])


def _point(sigma: Activation, low: float, high: float) -> CriticalPoint:
    def excess(K: float) -> float:
        return float(_moments(sigma, np.array([K]))[1][0])

    K: Any = brentq(excess, low, high, xtol=1e-16 * high, rtol=np.float64(1e-15))
    perp = float(single_moment(sigma, K, (1, 1)).value)
    C_W = 1 / perp
    C_b = K - float(single_moment(sigma, K, (0, 0)).value) / perp
    note = f"K* = {K:.13g} is a root of <sigma sigma''>_K, PDLT (5.71)-(5.73)"
    if C_b < 0:
        return CriticalPoint(K, C_b, C_W, "none", f"{note}, but C_b = {C_b:.6g} is negative.")
    # The drift C_b + C_W g(K) - K vanishes at K* with its slope chi_parallel - 1: a side attracts
    # if chi_parallel is below 1 there.
    below, above = susceptibilities(sigma, K * np.array([1 - 1e-3, 1 + 1e-3]), C_W)[0] < 1
    stability = "stable" if below and above else "half-stable" if below or above else "unstable"
    words = {True: "attracts", False: "repels"}
    note = f"{note}; {stability}: it {words[bool(below)]} from below and {words[bool(above)]} "
    return CriticalPoint(K, C_b, C_W, stability, note + "from above.")


def _chosen(
    sigma: Activation, point: CriticalPoint, candidates: tuple[CriticalPoint, ...]
) -> Criticality:
    at = 1.0 if point.K_star is None else point.K_star
    parallel, perp = (float(chi) for chi in susceptibilities(sigma, at, point.C_W))
    return Criticality(
        sigma, point.C_b, point.C_W, point.K_star, parallel, perp, point.note, "", candidates
    )


def _none(
    sigma: Activation, reason: str, candidates: tuple[CriticalPoint, ...] = ()
) -> Criticality:
    return Criticality(sigma, None, None, None, None, None, "", reason, candidates)


def _why_none(scan: _Scan, candidates: tuple[CriticalPoint, ...]) -> str:
    if candidates:
        return " ".join(point.note for point in candidates)
    side = "above" if np.sum(np.sign(scan.excess)) > 0 else "below"
    return (
        f"chi_parallel is {side} chi_perp for every K from {scan.K[0]:.3g} to {scan.K[-1]:.3g}, so "
        "both are never 1 together."
    )
