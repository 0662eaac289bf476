r"""Designing residual networks: what is critical, how fast they grow noisy, and which $\gamma$ a depth wants.

At criticality $V^{(L)}/nG^2\simeq\nu(\gamma)L/n$. With
$c(\rho)=\mathrm{Cov}[\sigma^2(u),\sigma^2(v)]/\langle\sigma^2\rangle^2$ for two unit Gaussians of
correlation $\rho$, and every layer's noise remembered by a factor $\gamma$ a layer,
$$\nu(\gamma)=(1-\gamma^2)^2\Big[c(1)+2\sum_{\Delta\ge1}c(\gamma^\Delta)\Big]
  =(1-\gamma^2)^2\sum_pc_p\,\frac{1+\gamma^p}{1-\gamma^p},\qquad c(\rho)=\sum_pc_p\rho^p,$$
for scale-invariant activations, and a third of it for the class $K^\star=0$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln

from scalewise._checked import Count, FiniteNumber, Must, NotNegative, Positive, checked
from scalewise.activations import Activation, activation
from scalewise.critical import Criticality, criticality, susceptibilities
from scalewise.gaussian import pair_moment, single_moment
from scalewise.theory.information._aspect_ratio import optimal_aspect_ratio, vertex_growth

Skip = Annotated[float | int, Must("a number from 0 to 1", lambda gamma: 0 <= gamma <= 1)]
Source = str | Activation | Callable[[Any], Any]
_TERMS = 20_000  # the coefficients of z|z| fall as p^(-7/2)


@checked
def residual_susceptibilities(
    source: Source,
    K: float | int | Float[np.ndarray, "*shape"],
    C_W: NotNegative,
    gamma: FiniteNumber,
) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
    r"""The susceptibilities of a residual network: those of its branch plus $\gamma^2$.

    Args:
        source: Name, callable or `Activation`.
        K: Kernel of one input, preactivation².
        C_W: Rescaled weight variance of the branch.
        gamma: $\gamma$.

    Returns:
        $(\chi_\parallel,\chi_\perp)$, shaped like `K`, dimensionless.

    Raises:
        ValueError: As for `scalewise.critical.susceptibilities`.

    Source: PDLT (B.15), (B.16).

    Example:
        >>> from scalewise.theory.residual import residual_susceptibilities
        >>> print("{:.6f} {:.6f}".format(*residual_susceptibilities("relu", 3.0, 0.5, 0.75**0.5)))
        1.000000 1.000000
    """
    parallel, perp = susceptibilities(source, K, C_W)
    return np.asarray(parallel + gamma**2), np.asarray(perp + gamma**2)


@checked
def residual_growth(source: Source, gamma: Skip) -> float:
    r"""$\nu(\gamma)$ in $V^{(L)}/nG^2\simeq\nu L/n$ for a critical residual network.

    The memory of $\sigma^2$ splits into powers of $z$: of a scale-invariant activation the even part
    is $A_2z^2$, remembered as $\gamma^2$; the odd part, proportional to $z|z|$, is remembered as
    $\gamma,\gamma^3,\dots$. For $K^\star=0$ and smooth activations $\sigma^2\to\sigma_1^2z^2$ and
    $\nu=\frac23(1-\gamma^4)$.

    Args:
        source: Name, callable or `Activation`, with a critical initialisation.
        gamma: $\gamma$, from 0 to 1; at most 0.999 for a half-stable activation.

    Returns:
        $\nu(\gamma)$, dimensionless; rtol 1e-9.

    Raises:
        ValueError: If $\gamma$ is outside its range or the activation has no critical point.

    Source: derived. PDLT (B.29) keeps $p=2$ alone of the memory, see `printed_residual_growth`;
    (B.35), and (B.29) for even and linear activations, agree with ours.

    Example:
        >>> from scalewise.theory.residual import residual_growth
        >>> print(f"{residual_growth('tanh', 0.5**0.5):.6f} {residual_growth('relu', 0.5**0.5):.6f}")
        0.500000 5.442478
    """
    return _growth(_critical(source), gamma)


def _growth(record: Criticality, gamma: float) -> float:
    nu_0 = record.coefficients["vertex_source"]
    if record.universality in ("half-stable", "stable"):
        return _growth_at(record, gamma)
    odd = 0.0
    if nu_0 > 2 and gamma < 1:
        k = np.arange(_TERMS)
        p = np.append(1, 2 * k + 3)
        # <z|z| He_p>^2/p! = (8/pi) ((2k-1)!!)^2/(2k+3)! for p = 2k + 3, and 8/pi for p = 1.
        double = 2 * (gammaln(2 * k + 1) - k * math.log(2) - gammaln(k + 1))
        c = 8 / math.pi * np.append(1.0, np.exp(double - gammaln(2 * k + 4)))
        odd = (nu_0 - 2) / 3 * float(np.sum(c * (1 + gamma**p) / (1 - gamma**p)))
    total = 2 * (1 - gamma**4) + (1 - gamma**2) ** 2 * odd
    return total / 3 if record.universality == "K*=0" else total


@checked
def printed_residual_growth(source: Source, gamma: Skip) -> float:
    r"""$\nu(\gamma)$ as PDLT prints it: only the part of $\sigma^2$ quadratic in $z$ is remembered.

    $$\nu(\gamma)=(1-\gamma^2)\big[(1-\gamma^2)\nu_0+4\gamma^2\big],\qquad
      \text{a third of it with }\nu_0=2\text{ for }K^\star=0$$

    Args:
        source: Name, callable or `Activation`, with a critical initialisation.
        gamma: $\gamma$, from 0 to 1.

    Returns:
        The printed $\nu(\gamma)$; too small for ReLU (2.25 instead of 5.44 at $\gamma^2=\frac12$).

    Raises:
        ValueError: As `residual_growth`.

    Source: PDLT (B.29), (B.35).

    Example:
        >>> from scalewise.theory.residual import printed_residual_growth
        >>> print(f"{printed_residual_growth('relu', 0.5**0.5):.6f}")
        2.250000
    """
    record, left = _critical(source), 1 - gamma**2
    total = left * (left * record.coefficients["vertex_source"] + 4 * gamma**2)
    return total / 3 if record.universality == "K*=0" else total


@checked
def residual_aspect_ratio(source: Source, gamma: Skip, output_dim: Count) -> float:
    r"""The optimal aspect ratio of a residual network.

    $$r^\star(\gamma)=\frac4{20+3n_L}\,\frac1{\nu(\gamma)}$$

    Args:
        source: Name, callable or `Activation`.
        gamma: $\gamma$, from 0 and below 1.
        output_dim: $n_L$.

    Returns:
        $r^\star$, dimensionless.

    Raises:
        ValueError: As `residual_growth`; at $\gamma=1$ there is no bound.

    Source: PDLT (B.36), with the $\nu(\gamma)$ of `residual_growth`.

    Example:
        >>> from scalewise.theory.residual import residual_aspect_ratio
        >>> print(f"{residual_aspect_ratio('tanh', 0.5**0.5, 10):.4f}")
        0.1600
    """
    return optimal_aspect_ratio(residual_growth(source, gamma), output_dim / 2, output_dim / 2)


@checked
def gamma_star(source: Source, r: Positive, output_dim: Count) -> float:
    r"""The $\gamma$ at which an aspect ratio is the optimal one.

    Args:
        source: Name, callable or `Activation`, not half-stable.
        r: $r=L/n$, positive.
        output_dim: $n_L$.

    Returns:
        $\gamma^\star$, the root of $\nu(\gamma)=4/(20+3n_L)r$; 0 if $r\le r^\star(0)$, where no
        skip connection helps. rtol 1e-12.

    Raises:
        ValueError: If `r` is not positive and finite, or the activation is half-stable or has no
            critical point.

    Source: PDLT (B.36), (B.37), with the $\nu(\gamma)$ of `residual_growth`. For ReLU it first rises
    with $\gamma$, to 6.53 at 0.45; the root is on the falling side.

    Example:
        >>> from scalewise.theory.residual import gamma_star, residual_aspect_ratio
        >>> print(f"{gamma_star('tanh', 2 * residual_aspect_ratio('tanh', 0.0, 10), 10) ** 4:.6f}")
        0.500000
    """
    sigma = activation(source)
    target = optimal_aspect_ratio(r, output_dim / 2, output_dim / 2)
    if criticality(sigma).universality == "half-stable":
        raise ValueError(
            f"{sigma.name!r} is half-stable; its growth is known up to gamma = 0.999 only. Read "
            "gamma off residual_growth."
        )
    record = criticality(sigma)
    if target >= _growth(record, 0.0):
        return 0.0
    search: Any = minimize_scalar(
        lambda g: -_growth(record, float(g)), bounds=(0.0, 0.9), method="bounded"
    )

    def excess(gamma: float) -> float:
        return _growth(record, gamma) - target

    root: Any = brentq(excess, float(search.x), 1.0, xtol=1e-15, rtol=np.float64(1e-14))
    return float(root)


@checked
def printed_gamma_star(source: Source, r: Positive, output_dim: Count) -> float:
    r"""The $\gamma$ at which an aspect ratio is optimal by PDLT's $\nu(\gamma)$, in closed form.

    With $c=\nu_0$, $q=r^\star(0)/r$ and $x=\gamma^{\star2}$: $(1-x)[c+(4-c)x]=cq$. So
    $\gamma^{\star4}=1-q$ for $c=2$, $\gamma^{\star2}=3-\sqrt{4+5q}$ for ReLU.

    Args:
        source: Name, callable or `Activation`.
        r: $r=L/n$, positive.
        output_dim: $n_L$.

    Returns:
        The printed $\gamma^\star$; 0 if $r\le r^\star(0)$.

    Raises:
        ValueError: As `gamma_star`.

    Source: PDLT (B.36), solved.

    Example:
        >>> from scalewise.theory.residual import printed_gamma_star
        >>> print(f"{printed_gamma_star('relu', 0.032, 10) ** 2:.7f}")
        0.4504902
    """
    sigma = activation(source)
    q = optimal_aspect_ratio(r, output_dim / 2, output_dim / 2) / vertex_growth(sigma)
    if q >= 1:
        return 0.0
    c = criticality(sigma).coefficients["vertex_source"]
    root = math.sqrt((2 * c - 4) ** 2 + 4 * (4 - c) * c * (1 - q))
    return math.sqrt(2 * c * (1 - q) / (2 * c - 4 + root))


def _critical(source: Source) -> Criticality:
    vertex_growth(source)  # refuses what has no critical point
    return criticality(source)


def _growth_at(record: Criticality, gamma: float) -> float:
    """The sum over the memory at a critical point with K* > 0."""
    if gamma > 0.999:
        raise ValueError(
            f"The growth of {record.activation.name!r} is summed layer by layer, up to gamma = "
            f"0.999; got {gamma}."
        )
    K = record.K_star
    assert K is not None
    if gamma == 0:
        return record.coefficients["vertex_source"]
    lags = 1 + math.ceil(38 / -math.log(gamma))
    rho = gamma ** np.arange(1, lags)
    mean = float(single_moment(record.activation, K, (0, 0)).value)
    product = pair_moment(record.activation, K, K, K * rho, (0, 0), (0, 0)).value
    memory = 2 * float(np.sum(product - mean**2)) * (record.C_W or 0.0) ** 2 / K**2
    return (1 - gamma**2) ** 2 * (record.coefficients["vertex_source"] + memory)
