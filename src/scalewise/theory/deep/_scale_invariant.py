r"""Scale-invariant activations, $\sigma(z)=a_\pm z$: closed forms at every layer, nothing asymptotic.

With $A_2=\frac12(a_+^2+a_-^2)$, $A_4=\frac12(a_+^4+a_-^4)$ every expectation is a power of $K$, and at
$C_W=1/A_2$ the recursions are sums.

Source: PDLT §5.2, §9.2, §11.2.3, §∞.1.3.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.activations import Activation
from scalewise.critical import slope_coefficients

Layers = float | int | Float[np.ndarray, "*_"]


def coefficients(sigma: Activation) -> dict[str, float]:
    r"""$A_2$, $A_4$, $\rho=\frac1\pi\frac{(a_+-a_-)^2}{a_+^2+a_-^2}$ and $\nu=3A_4/A_2^2-1$.

    Source: PDLT (5.61), (5.114), (5.120), (5.163).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.theory.deep._scale_invariant import coefficients
        >>> coefficients(sw.activation("leaky_relu(0.5)"))["nu"]
        3.08
    """
    if sigma.slopes is None or not any(sigma.slopes):
        raise ValueError(
            f"{sigma.name!r} is not of the form a_+ z for z > 0 and a_- z for z < 0, with a slope that "
            "is not 0. Use `asymptotics` to find its class."
        )
    return slope_coefficients(sigma.slopes)


def exponents(sigma: Activation) -> dict[str, float]:
    r"""Critical exponents at criticality, rates uniform over layers.

    ``perp`` is the true exponent of $K_{[2]}$, 2 where the angle falls as $1/\ell$; the expansion in the distance
    of two inputs would say 0, as it does for ``linear``. What vanishes identically ($G^{\{1\}}$, $H^{\{1\}}$,
    $P$) has none.

    Source: PDLT (5.168), (9.53), (11.81), (∞.48).
    """
    bent = coefficients(sigma)["rho"] > 0
    table = {"K": 0.0, "V": -1.0, "Theta": -1.0, "D": -2.0, "F": -2.0, "B": -3.0, "A": -3.0}
    table |= {"Q": -3.0, "parallel": 0.0, "perp": 2.0 if bent else 0.0, "psi": 1.0 if bent else 0.0}
    if sigma.is_smooth:
        table |= {"S": -4.0, "T": -4.0}
    return table


@checked
def critical_forms(
    sigma: Activation,
    layer: Layers,
    *,
    kernel: float,
    lambda_b: float = 1.0,
    lambda_W: float = 1.0,
) -> dict[str, Float[np.ndarray, "*_"]]:
    r"""Every tensor of one input at $C_b=0$, $C_W=1/A_2$, with uniform rates and equal widths.

    With $a=A_4/A_2^2$, $u=\lambda_b$, $w=\lambda_WA_2K$ and $t=u+w$:
    $$\begin{aligned}\Theta&=t\ell,\quad V=(\ell-1)(3a-1)K^2,\quad
    D=\tfrac{\ell(\ell-1)}2[(a-1)u+(4a-2)w]K,\quad F=\tfrac{\ell(\ell-1)}2atK,\\
    B&=\tfrac{\ell(\ell-1)(2\ell-1)}6at^2,\quad
    A=\tfrac{\ell(\ell-1)(2\ell-1)}6[(a-1)(u^2+3uw)+(5a-3)w^2]+\tfrac{\ell(\ell-1)}2(a-1)wt,\\
    Q&=\tfrac{\ell(\ell^2-1)}6atw,\qquad
    S=\tfrac{\ell^2(\ell^2-1)}{12}t^2\frac wK,\quad T=\tfrac{\ell^2(\ell^2-1)}{12}t\frac{w^2}K
    \quad(a_+=a_-),\end{aligned}$$
    and $G^{\{1\}}=H^{\{1\}}=P=0$; for equal slopes $R=U=0$.

    Args:
        sigma: A scale-invariant activation.
        layer: $\ell$.
        kernel: $K=K^\star$, the same in every layer; preactivation².
        lambda_b: The same in every layer; $\tilde\lambda_b/L$ under the equivalence principle.
        lambda_W: The same in every layer.

    Returns:
        By observable, normalised as in `single_input_flow`; exact. $R,S,T,U$ only for equal slopes.

    Raises:
        ValueError: If the activation is not scale-invariant.

    Source: PDLT (5.120), (9.42)-(9.51), (11.74), (11.79), (∞.46)-(∞.48); the exact $A$, of which
    (9.52) is the leading part, is derived.
    """
    c = coefficients(sigma)
    a, A_2 = c["A_4"] / c["A_2"] ** 2, c["A_2"]
    u, w = lambda_b, lambda_W * A_2 * kernel
    t, ell = u + w, np.asarray(layer, dtype=np.float64)
    one = ell * (ell - 1) / 2
    two = ell * (ell - 1) * (2 * ell - 1) / 6
    zero = np.zeros_like(ell)
    forms = {
        "K": np.full_like(ell, kernel),
        "V": (ell - 1) * (3 * a - 1) * kernel**2,
        "G1": zero,
        "Theta": t * ell,
        "H1": zero,
        "D": one * ((a - 1) * u + (4 * a - 2) * w) * kernel,
        "F": one * a * t * kernel,
        "B": two * a * t**2,
        "A": two * ((a - 1) * (u**2 + 3 * u * w) + (5 * a - 3) * w**2) + one * (a - 1) * w * t,
        "P": zero,
        "Q": ell * (ell**2 - 1) / 6 * a * t * w,
    }
    if sigma.is_smooth:
        quartic = ell**2 * (ell**2 - 1) / 12 * t * w / kernel
        forms |= {"R": zero, "S": quartic * t, "T": quartic * w, "U": zero}
    return {name: np.asarray(value) for name, value in forms.items()}


@checked
def semi_critical_forms(
    sigma: Activation,
    layer: Layers,
    *,
    kernel: float,
    C_b: float,
    lambda_b: float = 1.0,
    lambda_W: float = 1.0,
) -> dict[str, Float[np.ndarray, "*_"]]:
    r"""Kernel, vertex and NTK of one input at $C_W=1/A_2$ with $C_b>0$: powers, not exponentials.

    With $m=\ell-1$:
    $$K=K^{(1)}+mC_b,\qquad V=\nu\sum_{k<m}(K^{(1)}+kC_b)^2\simeq\tfrac\nu3C_b^2\ell^3,\qquad
    \Theta=\lambda_b\ell+\lambda_WA_2\Big[(K^{(1)}-C_b)+\sum_{k<m}(K^{(1)}+kC_b)\Big]$$

    Args:
        sigma: A scale-invariant activation.
        layer: $\ell$.
        kernel: $K^{(1)}$.
        C_b: The same in every layer, the first included.
        lambda_b: The same in every layer.
        lambda_W: The same in every layer.

    Returns:
        ``K``, ``V``, ``Theta``; exact. $p_0=-1$, $p_V=-3$, so $V/K^2\simeq\frac\nu3\ell$.

    Raises:
        ValueError: If the activation is not scale-invariant, or $C_b$ is negative or above `kernel`.

    Source: PDLT §5.2; the closed forms are derived.
    """
    c = coefficients(sigma)
    if not 0 <= C_b <= kernel:
        raise ValueError(f"`C_b` must be between 0 and the kernel K1 = {kernel:g}; got {C_b}.")
    m = np.asarray(layer, dtype=np.float64) - 1
    linear = m * kernel + C_b * m * (m - 1) / 2
    square = m * kernel**2 + kernel * C_b * m * (m - 1) + C_b**2 * m * (m - 1) * (2 * m - 1) / 6
    Theta = lambda_b * (m + 1) + lambda_W * c["A_2"] * (kernel - C_b + linear)
    forms = {"K": kernel + m * C_b, "V": c["nu"] * square, "Theta": Theta}
    return {name: np.asarray(value) for name, value in forms.items()}
