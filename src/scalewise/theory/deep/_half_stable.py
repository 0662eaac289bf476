r"""Half-stable fixed points: every observable of one input, to leading order in the depth.

From the side that attracts, $\Delta K=K-K^\star=1/(-\tilde a_1)\ell$ with $\tilde a_1=\frac12C_Wg''$, so
$$\chi_\parallel=1-\frac2\ell,\qquad\chi_\perp=1-\frac p\ell,\quad p=\frac{\tilde b_1}{\tilde a_1},\qquad
  2h=\chi_\perp'\to\tilde b_1=C_Wp',$$
and every other expectation stays what it is at $K^\star$. The kernel fluctuates by $V\sim\ell$ in a direction that
is marginal, and through $\tilde b_1$ that moves the NTK: $D$, $A$ and $H^{\{1\}}$ outgrow $\ell/n$.

Source: derived, as PDLT §5.4, §9.3, §11.2.3 and §∞.1.2, from the recursions of `single_input`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scalewise.activations import Activation
from scalewise.theory._tables._line_moments import line_moments, moment_names

_FLAT = 1e-10


@dataclass(frozen=True)
class HalfStable:
    """Expectations at the fixed point, all that the deep forms depend on."""

    K_star: float  # $K^\star$, preactivation²
    C_W: float  # the critical one
    a: float  # $\tilde a_1=\frac12C_Wg''$, 1/preactivation²
    b: float  # $\tilde b_1=C_Wp'$, likewise
    # By the names of `line_moments`, those with $\sigma''$ almost everywhere.
    moments: dict[str, float]
    smooth: bool  # whether the activation has no kink

    @property
    def p(self) -> float:
        r"""$p_\perp=\tilde b_1/\tilde a_1$."""
        return self.b / self.a

    @property
    def vertex_source(self) -> float:
        r"""$C_W^2\mathrm{Var}[\sigma^2]/K^{\star2}$."""
        return self.C_W**2 * self.moments["vss"] / self.K_star**2


def half_stable(sigma: Activation, K_star: float, C_W: float) -> HalfStable:
    """An activation at its half-stable point, to 1e-9.

    Source: PDLT (5.102).
    """
    values = line_moments(sigma, np.array([K_star]))[0]
    moments = {
        name: float(value[0]) for name, value in zip(moment_names(sigma), values, strict=True)
    }
    a, b = 0.5 * C_W * moments["g2"], C_W * moments["p1"]
    if abs(a) * K_star <= _FLAT:
        raise ValueError(
            f"Kernels of {sigma.name!r} stay at or fall to K* = {K_star:.6g} by a power that the curvature "
            "atilde_1 = 0 does not decide. Iterate `single_input_flow` and use `fit_scaling`."
        )
    return HalfStable(K_star, C_W, a, b, moments, sigma.is_smooth)


def exponents(point: HalfStable) -> dict[str, float]:
    r"""Critical exponents of what has a universal leading form, rates as in `forms`; ``"K"`` of $K-K^\star$."""
    p = point.p
    table = {"K": 1.0, "V": -1.0, "G1": -2.0, "parallel": 2.0, "perp": p, "Theta": p - 1}
    table |= {"D": p - 3, "B": 2 * p - 3, "A": 2 * p - 5, "H1": p - 4}
    return table | {name: power for name, power in _conditional(point).items() if power is not None}


def _conditional(point: HalfStable) -> dict[str, float | None]:
    """Exponents of what is driven from above; ``None`` where the memory of the start falls more slowly."""
    p, smooth = point.p, point.smooth
    driven = {
        "F": (p - 2, 6.0),
        "P": (2 * p - 3, 5.0) if smooth else (2 * p - 4, 6.0),
        "Q": (2 * p - 4, 6.0),
    }
    if smooth:
        driven |= {"R": (3 * p - 5, 5.0), "S": (3 * p - 5, 5.0)}
        driven |= {"T": (3 * p - 6, 6.0), "U": (3 * p - 4, 4.0)}
    return {name: power if p < limit else None for name, (power, limit) in driven.items()}


def forms(
    point: HalfStable, layer: np.ndarray, *, lambda_b: float, lambda_W: float, depth: float = 1.0
) -> dict[str, np.ndarray]:
    r"""The leading form of every observable of one input, equal widths.

    Rates $\lambda_b^{(\ell)}=\tilde\lambda_b\ell^{-p}L^{p-1}$ and
    $\lambda_W^{(\ell)}=\tilde\lambda_W\ell^{-p}L^{p-1}$: every layer contributes the same to the NTK; at $K^\star$
    $X=\tilde\lambda_b+\tilde\lambda_W\langle\sigma^2\rangle$, $v=\frac15C_W^2\mathrm{Var}[\sigma^2]$,
    $a=\tilde a_1$, $b=\tilde b_1$:
    $$\begin{aligned}
    K&=K^\star-\frac1{a\ell},\quad V=v\ell,\quad G^{\{1\}}=\tfrac14av\,\ell^2,\quad\Theta=X\ell^{1-p},\quad
    D=\tfrac15bvX\ell^{3-p},\\
    A&=\tfrac2{25}b^2vX^2\ell^{5-2p},\quad H^{\{1\}}=\tfrac14bvX\big(\tfrac15b+\tfrac14a\big)\ell^{4-p},\quad
    B=\tfrac13\beta X^2\ell^{3-2p},\quad\beta=C_W^2\langle\sigma'^4\rangle,\\
    F&=\frac{C_W^2\langle\sigma^2\sigma'^2\rangle X}{6-p}\ell^{2-p},\quad
    P=\frac{C_W^2\langle\sigma\sigma'^2\sigma''\rangle-\frac{2-p}3\beta}{5-p}X^2\ell^{3-2p},\quad
    Q=\frac{b\,C_W^2\langle\sigma^2\sigma'^2\rangle}{(6-p)^2}X^2\ell^{4-2p},\\
    R&=\frac{C_WX}{5-p}\big[\langle\sigma'\sigma'''\rangle(\hat B+\hat P)
      +\langle\sigma''^2\rangle\hat P\big]\,\ell^{5-3p},\quad
    S=\frac{C_W\langle\sigma''^2\rangle\beta X^3}{3(5-p)}\,\ell^{5-3p},\\
    T&=\frac{2b\,X\hat Q}{6-p}\,\ell^{6-3p},\quad
    U=\frac{C_W^2\langle\sigma''^2\sigma'^2\rangle X^3}{4-p}\,\ell^{4-3p},\end{aligned}$$
    hats for amplitudes, and a factor $L^{p-1}$ for every NTK in the dimension of the tensor. With kinks
    $\langle\sigma\sigma''\rangle$ is not 0 if taken almost everywhere, as $P$ takes it, and then
    $P=C_W\langle\sigma\sigma''\rangle\hat B\,\ell^{4-2p}/(6-p)$; $Q$ has $C_W\langle z\sigma'\sigma''\rangle/K$, so
    taken, in place of $b$.

    Right at $\ell\gg\max(1,|p|)/|a|K^\star$; a `depth` of 1 leaves the factors $L$ out. Named as in
    `single_input_flow`. Where a denominator is not positive the start of the network is remembered longer, its
    amplitude differs from input to input, and the observable is left out; with kinks so are $R$ to $U$, which do
    not exist.
    """
    a, b, p, ell, m = point.a, point.b, point.p, layer, point.moments
    X = lambda_b + lambda_W * m["g"]
    v = point.vertex_source * point.K_star**2 / 5
    D, B, metric = b * v * X / 5, point.C_W**2 * m["p4"] * X**2 / 3, a * v / 4
    one = (ell / depth) ** (1 - p)
    found = {
        "K": point.K_star - 1 / (a * ell),
        "V": v * ell,
        "G1": metric * ell**2,
        "chi_parallel": 1 - 2 / ell,
        "chi_perp": 1 - p / ell,
        "Theta": X * one,
        "D": D * one * ell**2,
        "B": B * one**2 * ell,
        "A": 2 * b * X * D / 5 * one**2 * ell**3,
        "H1": b * (D + X * metric) / 4 * one * ell**3,
    }
    degrees = {"F": 1, "P": 2, "Q": 2, "R": 3, "S": 3, "T": 3, "U": 3}
    powers, amplitudes = _conditional(point), _amplitudes(point, X, B)
    for name, power in powers.items():
        if power is not None:
            n = degrees[name]
            found[name] = amplitudes[name] * one**n * ell ** (n * (p - 1) - power)
    return {name: np.asarray(value) for name, value in found.items()}


def _amplitudes(point: HalfStable, X: float, B: float) -> dict[str, float]:
    """Amplitudes of a kernel that is driven from above; not a number for any other."""
    p, C, b, m = point.p, point.C_W, point.b, point.moments
    over = {limit: 1 / (limit - p) if p < limit else np.nan for limit in (4, 5, 6)}
    F = C**2 * m["m22"] * X * over[6]
    if not point.smooth:
        Q = C * m["z12"] * X * F * over[6]
        return {"F": F, "P": C * m["s02"] * B * over[6], "Q": Q}
    P = (C**2 * m["s0112"] * X**2 + (p - 2) * B) * over[5]
    Q = b * X * F * over[6]
    return {
        "F": F,
        "P": P,
        "Q": Q,
        "R": (C * m["s13"] * X * (B + P) + C * m["s22"] * X * P) * over[5],
        "S": C * m["s22"] * X * B * over[5],
        "T": 2 * b * X * Q * over[6],
        "U": C**2 * m["s1122"] * X**3 * over[4],
    }
