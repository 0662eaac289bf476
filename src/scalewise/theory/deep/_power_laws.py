r"""Kernels that fall to zero by any power: every observable of one input to leading order in the depth.

With $C_b=0$, $C_W=1/A_2$, and to leading order in $K\to0$
$$K'=K+aK^{1+s},\qquad\chi_\parallel=1+(1+s)aK^s,\qquad\chi_\perp=1+bK^s,\qquad p=\frac b{as},$$
where $A_m=\frac12(\sigma'(0^+)^m+\sigma'(0^-)^m)$. An activation smooth at 0 has $s=1$, or $s=2$ where $a_1=0$. A
kink at 0, of the function or of its slope, adds odd powers of $\sqrt K$: $s=\frac12$ unless
$\sigma'(0^+)\sigma''(0^+)=\sigma'(0^-)\sigma''(0^-)$. At $s=\frac12$ always $b=a$, so $p=2$.

With unequal slopes the fluctuations of $\sigma^2$ and $\sigma'^2$ are those of a scale-invariant activation,
$\kappa=A_4/A_2^2>1$: $C_W^2\mathrm{Var}[\sigma^2]=(3\kappa-1)K^2$,
$C_W^2\mathrm{Cov}[\sigma^2,\sigma'^2]=(\kappa-1)K$, $C_W^2\mathrm{Var}[\sigma'^2]=\kappa-1$. What else is needed
follows from the susceptibilities:
$$2h=\chi_\perp'=-\frac{sp}{\ell K},\qquad C_Wg''=-\frac{1+s}{\ell K},\qquad
  C_W\langle\sigma\sigma''\rangle=\chi_\parallel-\chi_\perp=-\frac{1+1/s-p}\ell,\qquad
  C_W\langle\sigma'''\sigma'\rangle=2h-C_W\langle\sigma''^2\rangle.$$

Source: PDLT §5.3.3, §5.4.2, §9.3, §11.2.3, §∞.1.2 for $s=1$, $\kappa=1$; the others are derived in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class PowerLaw:
    """Numbers that decide the deep forms of a kernel that falls to 0 as a power of the depth."""

    s: float  # the power: $K'=K+aK^{1+s}$
    a: float  # its coefficient, negative
    p: float  # $p_\perp=b/as$; infinite where $\chi_\perp-1$ falls more slowly than $1/\ell$
    A_2: float  # $\frac12(\sigma'(0^+)^2+\sigma'(0^-)^2)$
    kappa: float = 1.0  # $\kappa=A_4/A_2^2$, 1 for equal slopes
    # $(e,m)$ in $C_W\langle\sigma''^2\rangle=eK^m$ for a smooth activation, ``None`` for one with a
    # kink, for which $R$ to $U$ do not exist.
    curvature: tuple[float, int] | None = None

    @staticmethod
    def of(c: Mapping[str, float]) -> PowerLaw:
        """From `scalewise.theory.deep._vanishing_kernel.coefficients`."""
        if "power" in c:
            kappa = c["A_4"] / c["A_2"] ** 2
            return PowerLaw(c["power"], c["a"], c["p_perp"], c["A_2"], kappa)
        A_2 = c["sigma_1"] ** 2
        if c["a_1"] == 0:
            quartic = 0.75 * c["sigma_4"] ** 2 / A_2
            curvature = (quartic, 2) if quartic else (20 / 3 * c["a_2"] ** 2, 3)
            return PowerLaw(2.0, c["a_2"], c["p_perp"], A_2, curvature=curvature)
        odd = c["b_1"] == c["a_1"]
        curvature = (c["a_1"] ** 2, 1) if odd else (4 * (c["b_1"] - c["a_1"]), 0)
        return PowerLaw(1.0, c["a_1"], c["p_perp"], A_2, curvature=curvature)


def exponents(law: PowerLaw) -> dict[str, float]:
    r"""Critical exponents $p_{\mathcal O}$, rates as in `forms`.

    With an infinite $p_\perp$ those of $K$, $V$, $G^{\{1\}}$ and of distances along the input only. $U$ is
    suppressed by a power of $\ell$ for an odd activation.

    Source: PDLT (5.92)-(5.99), (5.127), (5.134), (9.70), (9.72), (9.81)-(9.86), (11.98)-(11.101),
    (∞.30)-(∞.33); $R$ to $U$ and $H^{\{1\}}$ for $p_\perp\ne1$, $a_1=0$ and a kink at 0: derived.
    """
    s, p = law.s, law.p
    table = {"K": 1 / s, "V": 2 / s - 1, "G1": 1 / s - 1, "parallel": (1 + s) / s}
    if not np.isfinite(p):
        return table
    table |= {"perp": p, "Theta": p - 1, "H1": p - 2}
    table |= dict.fromkeys(("D", "F"), p - 2 + 1 / s)
    table |= dict.fromkeys(("A", "B", "P", "Q"), 2 * p - 3)
    if law.curvature is None:
        return table
    _, m = law.curvature
    return table | dict.fromkeys(("R", "S", "T"), 3 * p - 4 - 1 / s) | {"U": 3 * p - 4 + m / s}


def forms(
    law: PowerLaw, layer: np.ndarray, *, lambda_b: float, lambda_W: float, depth: float = 1.0
) -> dict[str, np.ndarray]:
    r"""The leading form of every observable of one input, equal widths.

    Rates $\lambda_b^{(\ell)}=\tilde\lambda_b\ell^{-p}L^{p-1}$ and
    $\lambda_W^{(\ell)}=\tilde\lambda_W\ell^{1/s-p}L^{p-1}$: every layer contributes the same to the NTK;
    $w=\tilde\lambda_WA_2K\ell^{1/s}$, $X=\tilde\lambda_b+w$, $d=spX-w$, $q=4-p+1/s$,
    $\epsilon=\lim\ell KC_W\langle\sigma''^2\rangle$:
    $$\begin{aligned}
    K&=(-as\ell)^{-1/s},\quad V=\nu\ell K^2,\quad\nu=\kappa-\tfrac13,\quad G^{\{1\}}=-\tfrac{1+s}4\nu\ell K,\quad
    \Theta=X\ell^{1-p},\\
    D&=\tfrac13[(\kappa-1)X-\nu d]\,\ell^{2-p}K,\quad F=\frac{\kappa X}q\ell^{2-p}K,\quad
    B=\tfrac13\kappa X^2\ell^{3-2p},\\
    A&=\tfrac13\Big[(\kappa-1)X^2-\tfrac23d\big((\kappa-1)X-\nu d\big)\Big]\ell^{3-2p},\\
    H^{\{1\}}&=\tfrac12\Big[-\tfrac{sp}3\big((\kappa-1)X-\nu d\big)-\frac{2sp\kappa}qX+\tfrac{1+s}4\nu d
      -\tfrac{s(s-1)}2p\nu X\Big]\ell^{2-p},\\
    P&=-\frac{1+1/s-p}{3q}\kappa X^2\ell^{3-2p},\quad Q=-\frac{\kappa}{q^2}Xd\,\ell^{3-2p},\\
    S&=\frac{X^2}{3q}(w+\epsilon X)\frac{\ell^{4-3p}}K,\quad T=\frac{2Xd^2}{q^3}\frac{\ell^{4-3p}}K,\quad
    R=\frac{X^2}q\Big[-\frac{sp+\epsilon}qX-\frac{1+1/s-p}{3q}(w+\epsilon X)\Big]\frac{\ell^{4-3p}}K,\\
    U&=\frac{eX^3}{4-p-m/s}\,\ell^{4-3p}K^m,\end{aligned}$$
    and a factor $L^{p-1}$ for every NTK in the dimension of the tensor.

    A `depth` of 1 leaves the factors $L$ out. Named as in `single_input_flow`; $R$ to $U$ for a smooth activation
    only, and with an infinite $p_\perp$ what needs no NTK. Corrections are of relative order $\log\ell/\ell$ for
    $s=1$, and $\ell^{-1/2}$ for $s=2$ or with a kink.

    Source: PDLT (9.65)-(9.86), (9.95), (5.134), (11.98)-(11.102), (∞.30)-(∞.33); $H^{\{1\}}$, $R$ to $U$
    for $p\ne1$, $a_1=0$ and kinks are derived.
    """
    s, p, kappa, ell = law.s, law.p, law.kappa, layer
    K = (-law.a * s * ell) ** (-1 / s)
    nu = kappa - 1 / 3
    found = {
        "K": K,
        "V": nu * ell * K**2,
        "G1": -(1 + s) / 4 * nu * ell * K,
        "chi_parallel": 1 - (1 + s) / (s * ell),
    }
    if not np.isfinite(p):
        return arrays(found)
    w = lambda_W * law.A_2 * (-law.a * s) ** (-1 / s)
    X = lambda_b + w
    d, q, bent = s * p * X - w, 4 - p + 1 / s, 1 + 1 / s - p
    one = (ell / depth) ** (1 - p)  # of every NTK
    spread = (kappa - 1) * X
    D, F, B = (spread - nu * d) / 3, kappa * X / q, kappa * X**2 / 3
    P, Q = -bent * B / q, -d * F / q
    mean = -s * p * (D + 2 * F) + (1 + s) / 4 * nu * d - s * (s - 1) / 2 * p * nu * X
    found |= {
        "chi_perp": 1 - p / ell,
        "Theta": X * one,
        "D": D * one * ell * K,
        "F": F * one * ell * K,
        "B": B * one**2 * ell,
        "A": (spread * X - 2 * d * D) / 3 * one**2 * ell,
        "H1": 0.5 * mean * one * ell,
        "P": P * one**2 * ell,
        "Q": Q * one**2 * ell,
    }
    if law.curvature is None:
        return arrays(found)
    e, m = law.curvature
    epsilon = e / (-law.a * s) if m + 1 == s else 0.0
    M, third = w + epsilon * X, -(s * p + epsilon) * X
    cube = one**3 * ell / K
    found |= {
        "R": (third * (B + P) + M * P) / q * cube,
        "S": M * B / q * cube,
        "T": -2 * d * Q / q * cube,
        "U": e * X**3 / (4 - p - m / s) * one**3 * ell * K**m,
    }
    return arrays(found)


def arrays(found: dict[str, Any]) -> dict[str, np.ndarray]:
    """NumPy turns arrays without dimensions into scalars; back again."""
    return {name: np.asarray(value) for name, value in found.items()}
