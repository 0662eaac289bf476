"""The search for critical points: the scan, the roots, and the choice among them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from scalewise._checked import checked
from scalewise.activations import Activation, activation
from scalewise.critical._moments import (
    NEGLIGIBLE,
    limits_at_zero,
    moments,
    susceptibilities,
    value_at_zero,
)
from scalewise.critical._record import Criticality, CriticalPoint, FixedPoint
from scalewise.critical._universality import (
    beyond_zero,
    drift_at_zero,
    near_zero,
    on_the_line,
)
from scalewise.gaussian import single_moment

_DECADES = range(-6, 6)
_TO_A_DECADE = 20
_TUNED = 1e-10  # below this |a| K* is not distinguished from 0
_DRIFT = 3e-13  # relative to K, what quadrature may do to a drift that is 0


@checked
def criticality(source: str | Activation | Callable[[Any], Any]) -> Criticality:
    r"""Critical $C_b$ and $C_W$ of an activation: $\chi_\parallel(K^\star)=\chi_\perp(K^\star)=1$.

    A candidate $K^\star$ solves $\chi_\perp/\chi_\parallel=1$, that is
    $\langle\sigma\sigma''\rangle_{K^\star}=0$, and then
    $$C_W=\frac1{\langle\sigma'\sigma'\rangle_{K^\star}},\qquad
    C_b=K^\star-\frac{\langle\sigma\sigma\rangle_{K^\star}}{\langle\sigma'\sigma'\rangle_{K^\star}}.$$
    Candidates are $K^\star\to0$ and every root in a scan of $K$ from 1e-6 to 1e6 squared scales of the
    activation (its `scale`, found from the function), twenty points to a decade, which ends earlier
    where expectations overflow or oscillate too fast. One with $C_b<0$
    is rejected. Of several, a stable one is taken before a half-stable one, and then the smallest
    $K^\star$; an unstable one is never taken.

    Args:
        source: Name, callable or `Activation`.

    Returns:
        The record: the point, with `C_b`, `C_W`, `K_star` to 12 significant digits; its
        universality class, coefficients (to 9 digits) and exponents; every candidate; and the other
        fixed points of the kernel at the same $(C_b,C_W)$.

    Raises:
        ValueError: If the name is unknown or the callable is refused by `activation`.

    Source: PDLT (5.55)-(5.56), (5.67), (5.71)-(5.73), (5.83)-(5.90), (5.101)-(5.105). The
    susceptibilities of an activation with kinks include their delta functions. The printed eight
    digits of SWISH and GELU do not suffice: at them the half-stable point is gone, or split in two.
    The other fixed points printed in footnotes 20 and 21, 14.5 and 3.2, are 14.5931 and 3.03498.

    Example:
        >>> import scalewise as sw
        >>> point = sw.criticality("tanh")
        >>> point.C_b, point.C_W, point.K_star
        (0.0, 1.0, 0.0)
        >>> print(f"{sw.criticality('gelu').K_star:.12g}")
        3.56155281281
    """
    return _found(activation(source))


@lru_cache(maxsize=128)
def _found(sigma: Activation) -> Criticality:
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
                return _chosen(sigma, point, candidates, scan)
    return _none(sigma, _why_none(scan, candidates), candidates)


class _Scan(NamedTuple):
    """Results of `moments` at increasing K."""

    K: np.ndarray
    perp: np.ndarray
    excess: np.ndarray
    error: np.ndarray


def _scan(sigma: Activation) -> _Scan:
    """The scan, decade by decade, as far as the expectations are known."""
    decades: list[_Scan] = []
    for power in _DECADES:
        K = np.logspace(power, power + 1, _TO_A_DECADE + 1)[bool(decades) :] * sigma.scale**2
        try:
            decades.append(_Scan(K, *moments(sigma, K)))
        except ValueError:
            # Too large a K for exp or sin; but at the smallest the message is about the function.
            if not decades:
                raise
            break
    return _Scan(*(np.concatenate(columns) for columns in zip(*decades, strict=True)))


def _scale_invariant(sigma: Activation) -> Criticality:
    minus, plus = sigma.slopes or (0.0, 0.0)
    A_2 = 0.5 * (minus * minus + plus * plus)
    if not 1e-300 < A_2 < math.inf:
        return _none(sigma, f"its mean squared slope A_2 = {A_2:g} has no usable inverse.")
    note = (
        f"Scale-invariant with mean squared slope A_2 = {A_2:.6g}: C_b = 0 and C_W = 1/A_2 make a "
        "line of fixed points, every K is a K*, PDLT (5.67)."
    )
    point = CriticalPoint(None, 0.0, 1 / A_2, "line", note, *on_the_line(sigma))
    return _chosen(sigma, point, (point,))


def _at_zero(sigma: Activation, K: np.ndarray) -> tuple[CriticalPoint, ...]:
    r"""The candidate $K^\star\to0$, if both susceptibilities can be 1 there."""
    perp, excess = limits_at_zero(sigma)
    value = value_at_zero(sigma)
    if math.sqrt(perp) * sigma.scale <= NEGLIGIBLE * sigma.size or abs(excess) > NEGLIGIBLE * perp:
        return ()
    if value:
        C_b = -(value * value) / perp
        note = f"K* = 0 would need C_b = -(sigma(0)/sigma'(0))^2 = {C_b:.6g}, which is negative."
        return (CriticalPoint(0.0, C_b, 1 / perp, "none", note),)
    s, slope = drift_at_zero(sigma, perp, K)
    power = s and 1 + s
    stability = "unstable" if slope > 0 else "stable"
    behaviour = "K grows away from it" if slope > 0 else "K falls to it" if slope else "K stays"
    sign = "-" if slope < 0 else "+"
    size = f"{abs(slope):.6g} ".removeprefix("1 ")
    term = f"{sign} {size}K^{power:g} + ..." if power else f"{sign} less than any power"
    note = (
        f"K* = 0 with C_b = 0 and C_W = 1/<sigma'^2>_0 = {1 / perp:.6g} is {stability} "
        f"({behaviour}), for C_W<sigma^2>_K = K {term}, PDLT (5.83)-(5.90)."
    )
    kind = near_zero(sigma, perp, s, slope)
    above = slope < 0 if slope else None
    return (CriticalPoint(0.0, 0.0, 1 / perp, stability, note, *kind, attracts_from_above=above),)


def _beyond_zero(sigma: Activation, scan: _Scan) -> tuple[CriticalPoint, ...]:
    r"""Every $K^\star>0$ in the scan: sign changes of $\langle\sigma\sigma''\rangle_K$, refined."""
    # What is below its own error has no sign: an excess that is 0 throughout has no roots.
    clear = np.abs(scan.excess) > 10 * scan.error + 1e-14 * scan.perp
    K, sign = scan.K[clear], np.sign(scan.excess[clear])
    return tuple(_point(sigma, K[k], K[k + 1]) for k in range(len(K) - 1) if sign[k] != sign[k + 1])


def _point(sigma: Activation, low: float, high: float) -> CriticalPoint:
    def excess(K: float) -> float:
        return float(moments(sigma, np.array([K]))[1][0])

    K: Any = brentq(excess, low, high, xtol=1e-16 * high, rtol=np.float64(1e-15))
    perp = float(single_moment(sigma, K, (1, 1)).value)
    C_W = 1 / perp
    C_b = K - float(single_moment(sigma, K, (0, 0)).value) / perp
    note = f"K* = {K:.13g} is a root of <sigma sigma''>_K, PDLT (5.71)-(5.73)"
    if C_b < 0:
        return CriticalPoint(K, C_b, C_W, "none", f"{note}, but C_b = {C_b:.6g} is negative.")
    coefficients, exponents = beyond_zero(sigma, K, C_W)
    below, above = _sides(sigma, K, C_W, coefficients["atilde_1"])
    stability = "stable" if below and above else "half-stable" if below or above else "unstable"
    words = {True: "attracts", False: "repels"}
    note = f"{note}; {stability}: it {words[below]} from below and {words[above]} from above."
    half = stability == "half-stable"
    return CriticalPoint(
        K_star=K,
        C_b=C_b,
        C_W=C_W,
        stability=stability,
        note=note,
        universality="none" if stability == "unstable" else stability,
        coefficients=coefficients,
        exponents=exponents if half else {},
        attracts_from_below=below,
        attracts_from_above=above,
    )


def _sides(sigma: Activation, K: float, C_W: float, a: float) -> tuple[bool, bool]:
    r"""Two flags: whether $K^\star$ attracts from below and from above; the drift is $\tilde a_1\Delta K^2$."""
    if abs(a) * K > _TUNED:
        return a > 0, a < 0
    # The drift vanishes with its slope chi_parallel - 1: a side attracts if that is negative there.
    below, above = susceptibilities(sigma, K * np.array([1 - 1e-3, 1 + 1e-3]), C_W)[0] < 1
    return bool(below), bool(above)


def _other_fixed_points(
    sigma: Activation, point: CriticalPoint, scan: _Scan
) -> tuple[FixedPoint, ...]:
    r"""Every simple root of the drift $C_b+C_Wg(K)-K$; at $K^\star$ it has a double one."""

    def drift(K: float | np.ndarray) -> Any:
        return point.C_b + point.C_W * single_moment(sigma, K, (0, 0)).value - K

    assert point.K_star is not None
    away = np.logspace(-3, -0.5, 11)
    K = np.sort(np.concatenate([scan.K, point.K_star * (1 - away), point.K_star * (1 + away)]))
    K = K[(K >= scan.K[0]) & (np.abs(K - point.K_star) > 1e-4 * point.K_star)]
    values = drift(K)
    clear = np.abs(values) > _DRIFT * K
    K, sign = K[clear], np.sign(values[clear])
    roots: list[Any] = [
        brentq(drift, K[k], K[k + 1], xtol=1e-16 * K[k], rtol=np.float64(1e-15))
        for k in range(len(K) - 1)
        # At K* itself the sign of the drift may change too: where it attracts from both sides.
        if sign[k] != sign[k + 1] and not K[k] < point.K_star < K[k + 1]
    ]
    chi = [susceptibilities(sigma, root, point.C_W) for root in roots]
    return tuple(
        FixedPoint(float(root), float(parallel), float(perp))
        for root, (parallel, perp) in zip(roots, chi, strict=True)
    )


def _chosen(
    sigma: Activation,
    point: CriticalPoint,
    candidates: tuple[CriticalPoint, ...],
    scan: _Scan | None = None,
) -> Criticality:
    at = sigma.scale**2 if point.K_star is None else point.K_star
    parallel, perp = (float(chi) for chi in susceptibilities(sigma, at, point.C_W))
    return Criticality(
        activation=sigma,
        C_b=point.C_b,
        C_W=point.C_W,
        K_star=point.K_star,
        chi_parallel=parallel,
        chi_perp=perp,
        found=point.note,
        reason="",
        candidates=candidates,
        point=point,
        trivial_fixed_points=() if scan is None else _other_fixed_points(sigma, point, scan),
    )


def _none(
    sigma: Activation, reason: str, candidates: tuple[CriticalPoint, ...] = ()
) -> Criticality:
    return Criticality(
        activation=sigma,
        C_b=None,
        C_W=None,
        K_star=None,
        chi_parallel=None,
        chi_perp=None,
        found="",
        reason=reason,
        candidates=candidates,
    )


def _why_none(scan: _Scan, candidates: tuple[CriticalPoint, ...]) -> str:
    if candidates:
        return " ".join(point.note for point in candidates)
    if not np.any(scan.perp):
        return "The activation is constant, so chi_perp is 0 whatever C_W is: it lets no signal through."
    side = "above" if np.sum(np.sign(scan.excess)) > 0 else "below"
    return (
        f"chi_parallel is {side} chi_perp for every K from {scan.K[0]:.3g} to {scan.K[-1]:.3g}, so "
        "both are never 1 together."
    )
