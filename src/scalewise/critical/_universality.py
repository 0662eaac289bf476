r"""The universality class of a critical point: coefficients, exponents, and what they imply.

With $\Delta K=K-K^\star$ and to leading order
$$\Delta K\mapsto\Delta K+a\,\Delta K^{1+s},\qquad\chi_\parallel=1+(1+s)a\,\Delta K^s,\qquad
  \chi_\perp=1+b\,\Delta K^t,$$
$$\Delta K\simeq\Big(\frac1{(-a)s\ell}\Big)^{1/s},\qquad p_0=\frac1s,\quad p_\parallel=\frac{1+s}s,
  \quad p_\perp=\frac b{as}\ (t=s),\quad p_V=\frac2s-1,\quad p_1=\frac1s-1.$$
$s=1$ is the generic case, $s=2$ has $a_1=0$, half-integer $s$ come from a kink at 0.
"""

from __future__ import annotations

import math

import numpy as np

from scalewise._checked import checked
from scalewise.activations import Activation
from scalewise.critical._moments import NEGLIGIBLE, jet
from scalewise.gaussian import single_moment

Exponents = dict[str, float | None]
_ON_THE_LINE: Exponents = {
    "p_0": 0.0,
    "p_parallel": 0.0,
    "p_perp": 0.0,
    "p_V": -1.0,
    "p_1": None,
}


Class = tuple[str, dict[str, float], Exponents]  # name, coefficients and exponents


@checked
def slope_coefficients(slopes: tuple[float, float]) -> dict[str, float]:
    r"""$A_2$, $A_4$, $\rho$ and $\nu=3A_4/A_2^2-1$ of $\sigma(z)=a_\pm z$.

    Args:
        slopes: $(a_-,a_+)$, not both 0.

    Returns:
        ``A_2``, ``A_4``, ``rho``, ``nu``; exact.

    Source: PDLT (5.61), (5.114), (5.120), (5.163).
    """
    minus, plus = slopes
    largest = max(abs(minus), abs(plus))
    low, high = minus / largest, plus / largest  # ratios do not overflow
    A_2, A_4 = 0.5 * (low**2 + high**2), 0.5 * (low**4 + high**4)
    rho = (high - low) ** 2 / (2 * math.pi * A_2)
    nu = 3 * A_4 / A_2**2 - 1
    return {"A_2": A_2 * largest**2, "A_4": A_4 * largest**4, "rho": rho, "nu": nu}


@checked
def taylor_coefficients(taylor: tuple[float, ...]) -> dict[str, float]:
    r"""$\sigma_1$, $a_1$, $a_2$, $b_1$ of an activation smooth at 0 with $\sigma_0=0$.

    Args:
        taylor: $\sigma_0,\dots,\sigma_5$ with $\sigma_1\ne0$.

    Returns:
        ``sigma_1``, ``a_1``, ``a_2``, ``b_1``; exact.

    Source: PDLT (5.86)-(5.88).
    """
    _, s1, s2, s3, s4, s5 = taylor
    return {
        "sigma_1": s1,
        "a_1": s3 / s1 + 0.75 * (s2 / s1) ** 2,
        "a_2": 0.25 * s5 / s1 + 0.625 * s4 * s2 / s1**2 + 5 / 12 * (s3 / s1) ** 2,
        "b_1": s3 / s1 + (s2 / s1) ** 2,
    }


def on_the_line(sigma: Activation) -> Class:
    r"""Scale-invariant: every coefficient is a mean power of the two slopes."""
    coefficients = slope_coefficients(sigma.slopes or (0.0, 0.0))
    coefficients["vertex_source"] = coefficients["nu"]
    rho = coefficients["rho"]
    # The expansion in the distance of two inputs says p_perp = 0; the angle falls as 3/(rho l).
    return "scale-invariant", coefficients, _ON_THE_LINE | {"p_perp": 2.0 if rho else 0.0}


def drift_at_zero(sigma: Activation, perp: float, K: np.ndarray) -> tuple[float, float]:
    r"""$s$ and $a$ of the first term $aK^{1+s}$ beyond $K$ in $g(K)/\langle\sigma'^2\rangle_0$.

    Odd powers of $\sqrt K$ come from a kink or break at 0. If every known coefficient vanishes $s$
    is 0 and $a$ is the first drift that differs from 0 in the scan.
    """
    terms = _series(sigma, 0) / perp
    for m in range(3, len(terms)):
        if abs(terms[m]) * sigma.scale ** (m - 2) > NEGLIGIBLE:
            return m / 2 - 1, float(terms[m])
    growth = single_moment(sigma, K, (0, 0)).value / (perp * K) - 1
    clear = np.abs(growth) > NEGLIGIBLE
    return 0.0, float(growth[np.argmax(clear)]) if clear.any() else 0.0


def near_zero(sigma: Activation, perp: float, s: float, a: float) -> Class:
    r"""The class $K^\star=0$, for an attracting drift; otherwise only the coefficients."""
    right, left = jet(sigma, 0.0, 1)[1], jet(sigma, 0.0, -1)[1]
    source = 3 * 0.5 * (right**4 + left**4) / perp**2 - 1
    if sigma.taylor is not None:
        coefficients = taylor_coefficients(sigma.taylor)
    else:
        coefficients = {"power": s, "a": a} if s else {}
    # V/K² obeys y' = source - 2y/l for every s, beyond all powers too: a third of the source.
    coefficients |= {"vertex_source": float(source), "nu": float(source) / 3}
    if a > 0:
        return "none", coefficients, {}
    if not a:  # no drift at all: a line of fixed points
        return "scale-invariant", coefficients | {"nu": float(source)}, dict(_ON_THE_LINE)
    if not s:
        return "K*=0", coefficients, {}
    p_perp = _perpendicular_exponent(_series(sigma, 1) / perp, s, a, sigma.scale)
    return "K*=0", coefficients, _power_laws(s, p_perp)


def _power_laws(s: float, p_perp: float | None) -> Exponents:
    return {
        "p_0": 1 / s,
        "p_parallel": (1 + s) / s,
        "p_perp": p_perp,
        "p_V": 2 / s - 1,
        "p_1": 1 / s - 1,
    }


def _perpendicular_exponent(terms: np.ndarray, s: float, a: float, scale: float) -> float | None:
    r"""$p_\perp$ from $\chi_\perp=1+bK^t+\dots$; no power if $t<s$, none needed if $t>s$."""
    for m in range(1, len(terms)):
        if abs(terms[m]) * scale**m > NEGLIGIBLE:
            t = m / 2
            if t == s:
                return float(terms[m]) / (a * s)
            return None if t < s else 0.0
    return 0.0


def _series(sigma: Activation, order: int) -> np.ndarray:
    r"""Coefficients of $K^{m/2}$ in $\langle(\sigma^{(k)})^2\rangle_K$, as far as they are complete."""
    known = None if sigma.taylor is None else np.array(sigma.taylor)
    jets = [jet(sigma, 0.0, side) if known is None else known for side in (1, -1)]
    factorials = np.array([math.factorial(p) for p in range(len(jets[0]) - order)])
    right, left = (np.convolve(j[order:] / factorials, j[order:] / factorials) for j in jets)
    # Since sigma(0) = 0, its square is complete to one order more than sigma itself.
    complete = np.arange(len(jets[0]) + 1 if order == 0 else len(factorials))
    absolute_moments = np.array(
        [2 ** (m / 2) * math.gamma((m + 1) / 2) / math.sqrt(math.pi) for m in complete]
    )
    return 0.5 * (right[complete] + (-1.0) ** complete * left[complete]) * absolute_moments


def beyond_zero(sigma: Activation, K: float, C_W: float) -> tuple[dict[str, float], Exponents]:
    r"""Coefficients and exponents at $K^\star>0$, from expectations without derivatives at kinks.

    $$\tilde a_1=\tfrac12C_Wg''=\frac{C_W}{8K^2}\langle\sigma^2\mathrm{He}_4(z/\sqrt K)\rangle,\qquad
      \tilde b_1=\frac{C_W}{2K^2}\langle\sigma'^2(z^2-K)\rangle$$
    """
    second, quartic, quadratic = (
        float(single_moment(sigma, K, (0, 0), power=m).value) for m in (0, 4, 2)
    )
    a = C_W * (quartic / K**2 - 6 * quadratic / K + 3 * second) / (8 * K**2)
    slopes = float(single_moment(sigma, K, (1, 1)).value)
    b = C_W * (float(single_moment(sigma, K, (1, 1), power=2).value) - K * slopes) / (2 * K**2)
    fourth = float(single_moment(sigma, K, (0, 0, 0, 0)).value)
    source = C_W**2 * (fourth - second**2) / K**2
    coefficients = {"atilde_1": a, "btilde_1": b, "vertex_source": source, "nu": source}
    # K* itself does not fall, so V = (source K*²/5) l, and G1 follows from a V.
    exponents: Exponents = {
        "p_0": 1.0,
        "p_parallel": 2.0,
        "p_perp": b / a if a else None,
        "p_V": -1.0,
        "p_1": -2.0,
    }
    return coefficients, exponents
