r"""Activations whose kernel falls to zero: leading forms of every observable, and more of K, V if smooth.

With $\sigma=\sum_p\sigma_pz^p/p!$, $\sigma_0=0$, $C_b=0$, $C_W=1/\sigma_1^2$:
$$K'=K+a_1K^2+a_2K^3,\qquad\chi_\parallel=1+2a_1K,\qquad\chi_\perp=1+b_1K,\qquad p_\perp=b_1/a_1,$$
$$a_1=\frac{\sigma_3}{\sigma_1}+\frac34\Big(\frac{\sigma_2}{\sigma_1}\Big)^2,\quad
b_1=\frac{\sigma_3}{\sigma_1}+\Big(\frac{\sigma_2}{\sigma_1}\Big)^2,\quad
a_2=\frac14\frac{\sigma_5}{\sigma_1}+\frac58\frac{\sigma_4\sigma_2}{\sigma_1^2}
+\frac5{12}\Big(\frac{\sigma_3}{\sigma_1}\Big)^2.$$

Source: PDLT §5.3.3, §5.4.2, §9.3, §11.2.3, §∞.1.2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from scalewise._checked import checked
from scalewise.activations import Activation
from scalewise.critical import Criticality, taylor_coefficients
from scalewise.theory.deep import _power_laws as power_laws
from scalewise.theory.deep._scale_invariant import Layers

_ZERO = 1e-12
Series = dict[str, Float[np.ndarray, "..."]]


def coefficients(sigma: Activation) -> dict[str, float]:
    r"""``sigma_1``, ``sigma_4``, ``a_1``, ``a_2``, ``b_1``, ``p_perp``, ``nu`` $=\frac23$ of a smooth activation.

    With $a_1=0$, ``p_perp`` is $\frac12$ if $\sigma_2=0$ and infinite otherwise: then $\chi_\perp-1\simeq b_1K\sim
    \ell^{-1/2}$, and distances grow faster than any power.

    Source: PDLT (5.86)-(5.88), (5.131); $a_1=0$ is derived.
    """
    if sigma.taylor is None:
        raise ValueError(
            f"{sigma.name!r} has a kink at 0 and no Taylor coefficients there. Use "
            "`kinked_coefficients`, or `asymptotics`, which chooses."
        )
    s0, s1, s2, s3, s4, _ = sigma.taylor
    unit = sigma.scale
    size = max(abs(s) * unit**p for p, s in enumerate(sigma.taylor))
    if abs(s0) > _ZERO * size or abs(s1) * unit <= _ZERO * size:
        raise ValueError(
            f"The class K* = 0 needs sigma(0) = 0 and sigma'(0) not 0; {sigma.name!r} has {s0:g} and "
            f"{s1:g}."
        )
    x2, x3 = s2 / s1, s3 / s1
    s4 = s4 if abs(s4) * unit**4 > _ZERO * size else 0.0
    c = taylor_coefficients(sigma.taylor)
    a_1, a_2, b_1 = c["a_1"], c["a_2"], c["b_1"]
    tuned = abs(a_1) <= _ZERO * (abs(x3) + x2**2) or a_1 == 0
    if (a_1 > 0 and not tuned) or (tuned and a_2 * unit**4 >= -_ZERO):
        raise ValueError(
            f"Kernels of {sigma.name!r} do not fall to K* = 0 by a known power: a_1 = {a_1:g}, "
            f"a_2 = {a_2:g}, and a_1 < 0, or a_1 = 0 and a_2 < 0, is needed."
        )
    if tuned:
        a_1, p_perp = 0.0, 0.5 if x2 == 0 else float("inf")
    else:
        p_perp = b_1 / a_1
    return {
        "sigma_1": s1,
        "sigma_4": s4,
        "a_1": a_1,
        "a_2": a_2,
        "b_1": b_1,
        "p_perp": p_perp,
        "nu": 2 / 3,
    }


def kinked_coefficients(point: Criticality) -> dict[str, float]:
    r"""``power``, ``a``, ``p_perp``, ``A_2``, ``A_4`` and ``nu`` $=A_4/A_2^2-\frac13$, with a kink at 0.

    It may be one of the function or of its slope; $C_Wg=K+aK^{1+s}$ with $s$ = ``power``.

    Source: derived; see `scalewise.theory.power_laws`.
    """
    c, p_perp = point.coefficients, point.exponents.get("p_perp")
    if "power" not in c or p_perp is None or point.C_W is None:
        raise ValueError(
            f"{point.activation.name!r} has a kink at 0, and its expansion to K^2 does not decide how "
            "fast kernels fall to K* = 0. Iterate `single_input_flow` and use `fit_scaling`."
        )
    A_2, kappa = 1 / point.C_W, (c["vertex_source"] + 1) / 3
    return {
        "power": c["power"],
        "a": c["a"],
        "p_perp": p_perp,
        "A_2": A_2,
        "A_4": kappa * A_2**2,
        "nu": c["nu"],
    }


def series(c: Mapping[str, float], layer: Layers, ell_0: float) -> Series:
    r"""$K$ and $V$ to the order where the input first enters, through one constant $\ell_0$; $a_1<0$.

    With $\Lambda=\log(\ell/\ell_0)$ and $q=a_2-a_1^2$:
    $$K=\frac1{(-a_1)\ell}-\frac q{a_1^3}\frac\Lambda{\ell^2}
      -\frac{q^2}{a_1^5}\frac{\Lambda^2-\Lambda}{\ell^3}+O(\ell^{-3}),\qquad
    V=\frac2{3a_1^2}\frac1\ell+\frac{2q}{3a_1^4}\frac\Lambda{\ell^2}
      +\frac{5a_2+a_1(82a_1-90b_1)}{3a_1^4}\frac1{\ell^2}$$

    Source: PDLT (5.94), (5.124), (5.127).
    """
    a, b, q = _refuse_tuned(c), c["b_1"], c["a_2"] - c["a_1"] ** 2
    ell = np.asarray(layer, dtype=np.float64)
    log = np.log(ell / ell_0)
    K = 1 / (-a * ell) - q / a**3 * log / ell**2 - q**2 / a**5 * (log**2 - log) / ell**3
    plain = (5 * c["a_2"] + a * (82 * a - 90 * b)) / (3 * a**4)
    V = 2 / (3 * a**2 * ell) + 2 * q / (3 * a**4) * log / ell**2 + plain / ell**2
    return power_laws.arrays({"K": K, "V": V})


def input_scale(c: Mapping[str, float], layer: int | float, kernel: float) -> float:
    r"""$\ell_0$ of an input from its kernel at one deep layer, to $O(\log^2\ell/\ell)$; $a_1<0$.

    Source: PDLT (5.92), solved for $\ell_0$.
    """
    a, q = _refuse_tuned(c), c["a_2"] - c["a_1"] ** 2
    if q == 0:
        raise ValueError("With a_2 = a_1² the scale l_0 does not enter at this order.")
    excess = (kernel - 1 / (-a * layer)) * -(a**3) / q * layer**2  # log(l/l_0), first order
    for _ in range(50):  # the second order, by iteration: it is smaller by log(l)/l
        excess_2 = q / a**2 * (excess**2 - excess) / layer
        excess = (kernel - 1 / (-a * layer)) * -(a**3) / q * layer**2 - excess_2
    return float(layer * np.exp(-excess))


@checked
def perturbation_series(c: Mapping[str, float], layer: Layers, ell_0: float) -> Series:
    r"""How the distance of two nearby inputs falls, up to the constants $\delta_\parallel,\delta^2$.

    $$\frac{\delta K_{[1]}}{\delta_\parallel}=\ell^{-2}\Big[1+\frac{2q}{a_1^2}\frac\Lambda\ell\Big],
    \qquad\frac{\delta\delta K_{[2]}}{\delta^2}
    =\ell^{-p_\perp}\Big[1+\frac{b_1q}{a_1^3}\frac\Lambda\ell\Big]$$

    Args:
        c: From `coefficients`, $a_1<0$.
        layer: $\ell$.
        ell_0: $\ell_0$, from `input_scale`.

    Returns:
        ``dK1`` and ``ddK2`` over their constants; corrections $O(1/\ell)$.

    Raises:
        ValueError: If $a_1=0$.

    Source: PDLT (5.97), (5.99).
    """
    a, q = _refuse_tuned(c), c["a_2"] - c["a_1"] ** 2
    ell = np.asarray(layer, dtype=np.float64)
    log = np.log(ell / ell_0)
    parallel = (1 + 2 * q / a**2 * log / ell) / ell**2
    perp = (1 + c["b_1"] * q / a**3 * log / ell) * ell ** -c["p_perp"]
    return power_laws.arrays({"dK1": parallel, "ddK2": perp})


@checked
def distance_forms(
    c: Mapping[str, float], depth: int | float, *, lambda_b: float = 1.0, lambda_W: float = 1.0
) -> dict[str, float]:
    r"""The NTK of two nearby inputs of equal norm at the output, per $\delta^2$ of their kernel.

    With $\delta\delta K_{[2]}^{(\ell)}=\delta^2\ell^{-p}$, $X,M$ as in the leading forms and rates by the
    equivalence principle,
    $$\frac{\delta\delta\Theta_{[2]}^{(L)}}{\delta^2}=\frac{M}{2-p}L^{1-p},\qquad
      \frac{\text{robustness}}{\delta^2}=-\frac2{2-p}\frac MXL^{1-p}.$$

    Args:
        c: From `coefficients`, $a_1<0$.
        depth: $L$.
        lambda_b: $\tilde\lambda_b$.
        lambda_W: $\tilde\lambda_W$.

    Returns:
        ``ddTheta2`` and ``robustness``, each over $\delta^2$. Of order one in $L$ only for $p_\perp=1$.

    Raises:
        ValueError: If $a_1=0$.

    Source: PDLT (10.77)-(10.78).
    """
    a, p = _refuse_tuned(c), c["p_perp"]
    weight = lambda_W * c["sigma_1"] ** 2
    X = lambda_b + weight / -a
    M = weight + 4 * (c["b_1"] - a) * X
    power = depth ** (1 - p)
    return {"ddTheta2": M / (2 - p) * power, "robustness": -2 / (2 - p) * M / X * power}


@checked
def uniform_rate_forms(
    c: Mapping[str, float], depth: int | float, *, lambda_b: float = 1.0, lambda_W: float = 1.0
) -> dict[str, float]:
    r"""Deep forms for an odd activation with the same rates in every layer: robustness is lost.

    $$\Theta_{00}=\tfrac12\lambda_bL,\qquad\frac{\delta\delta\Theta_{[2]}}{\delta^2}
      =\lambda_W\sigma_1^2+\tfrac12(-a_1)\lambda_b,\qquad\frac{\text{robustness}}{\delta^2}
      =-\Big[\frac{4\lambda_W\sigma_1^2}{\lambda_b}+2(-a_1)\Big]\frac1L$$

    Args:
        c: From `coefficients`, odd ($b_1=a_1<0$).
        depth: $L$.
        lambda_b: The same in every layer, positive.
        lambda_W: The same in every layer.

    Returns:
        ``Theta``, ``ddTheta2`` and ``robustness``, the latter two over $\delta^2$.

    Raises:
        ValueError: If $b_1\ne a_1$, $a_1=0$, or $\lambda_b$ is not positive.

    Source: PDLT (10.79); (10.80)-(10.81) with the term $\langle\sigma''^2\rangle\Theta_{00}$, which
    is of the same order and is missing in print.
    """
    a = _refuse_tuned(c)
    if c["b_1"] != a or lambda_b <= 0:
        raise ValueError(
            "Uniform rates have simple forms for b_1 = a_1 (odd activations) and lambda_b > 0 only; "
            f"got a_1 = {a:g}, b_1 = {c['b_1']:g}, lambda_b = {lambda_b:g}."
        )
    Theta, distance = lambda_b * depth / 2, lambda_W * c["sigma_1"] ** 2 - a * lambda_b / 2
    return {"Theta": Theta, "ddTheta2": distance, "robustness": -2 * distance / Theta}


@checked
def tuned_metric(c: Mapping[str, float]) -> dict[str, float]:
    r"""The $1/n$ part of $C_W$ that makes $G^{\{1\}}/K$ marginal, and what $G^{\{1\}}$ becomes.

    $$c_b^{\{1\}}=0,\qquad c_W^{\{1\}}=\frac2{3\sigma_1^2},\qquad
      \ell\,G^{\{1\}}\to\frac{84a_1^2-90a_1b_1-a_2}{3a_1^3}$$

    Args:
        c: From `coefficients`, $a_1<0$.

    Returns:
        ``C_W_nlo`` and ``ell_G1``, the limit of $\ell G^{\{1\}}$.

    Raises:
        ValueError: If $a_1=0$.

    Source: PDLT (5.142); (5.143) with a corrected coefficient: for tanh it is 89/72, not 13/12.
    """
    a, b = _refuse_tuned(c), c["b_1"]
    limit = (84 * a**2 - 90 * a * b - c["a_2"]) / (3 * a**3)
    return {"C_W_nlo": 2 / (3 * c["sigma_1"] ** 2), "ell_G1": limit}


def _refuse_tuned(c: Mapping[str, float]) -> float:
    if "a_1" not in c:
        raise ValueError(
            "This expansion needs Taylor coefficients at 0; the activation has a kink there. Use "
            "`leading_forms`."
        )
    if c["a_1"] == 0:
        raise ValueError(
            "This expansion needs a_1 < 0; here a_1 = 0 and kernels fall as 1/sqrt(l)."
        )
    return c["a_1"]
