r"""Curves in the plane of $(C_W,C_b)$ on which one susceptibility is 1 at the fixed point of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import checked
from scalewise.activations import Activation, activation
from scalewise.critical._moments import susceptibilities
from scalewise.gaussian import single_moment

Source = str | Activation | Callable[[Any], Any]
Curve = Float[np.ndarray, "..."]


@checked
def perpendicular_locus(source: Source, K: float | Curve) -> tuple[Curve, Curve]:
    r"""The curve $\chi_\perp(K^\star)=1$, with the fixed point $K^\star$ as its parameter.

    $$C_W=\frac1{\langle\sigma'\sigma'\rangle_{K}},\qquad C_b=K-C_W\langle\sigma\sigma\rangle_K$$

    Args:
        source: Name, callable or `Activation`; continuous.
        K: Fixed points of the kernel, any shape, at least 0; preactivation². At 0 the limit.

    Returns:
        $(C_W,C_b)$ shaped like `K`; negative $C_b$ are kept. Quadrature, rtol 1e-12.

    Raises:
        ValueError: If a `K` is negative or not finite, the activation jumps, or $\chi_\perp$ is 0.

    Source: PDLT (5.71), (5.72), figure 5.1 left (solid).

    Example:
        >>> from scalewise.critical import perpendicular_locus
        >>> C_W, C_b = perpendicular_locus("tanh", 1.0)
        >>> print(f"{C_W:.7f} {C_b:.8f}")
        2.1533026 0.15096463
    """
    sigma, variance = activation(source), float_array("`K`", K)
    return _curve(sigma, variance, susceptibilities(sigma, variance, 1.0)[1], "chi_perp")


@checked
def parallel_locus(source: Source, K: float | Curve) -> tuple[Curve, Curve]:
    r"""The curve $\chi_\parallel(K^\star)=1$, with the fixed point $K^\star$ as its parameter.

    $$C_W=\frac1{g'(K)},\qquad C_b=K-C_Wg(K),\qquad g(K)=\langle\sigma\sigma\rangle_K$$
    Where it meets `perpendicular_locus` at $C_b\ge0$ the activation is critical. For a concave $g$,
    as that of tanh, $C_b<0$ all along the curve.

    Args:
        source: Name, callable or `Activation`; continuous.
        K: Fixed points of the kernel, any shape, at least 0; preactivation². At 0 the limit.

    Returns:
        $(C_W,C_b)$ shaped like `K`; negative $C_b$ are kept. Quadrature, rtol 1e-12 of
        $\chi_\perp/\chi_\parallel$.

    Raises:
        ValueError: As for `perpendicular_locus`; also where $g'\le0$.

    Source: PDLT (5.50), (5.56), figure 5.1 left (dashed).

    Example:
        >>> from scalewise.critical import parallel_locus
        >>> C_W, C_b = parallel_locus("tanh", 1.0)
        >>> print(f"{C_W:.5f} {C_b:.7f}")
        5.50062 -1.1688642
    """
    sigma, variance = activation(source), float_array("`K`", K)
    return _curve(sigma, variance, susceptibilities(sigma, variance, 1.0)[0], "chi_parallel")


@checked
def susceptibility_ratio(source: Source, K: float | Curve) -> Curve:
    r"""The ratio that must be 1 at a critical point, whatever $C_b$ and $C_W$.

    $$\frac{\chi_\perp}{\chi_\parallel}
    =\frac{2K^2\langle\sigma'\sigma'\rangle_K}{\langle\sigma\sigma(z^2-K)\rangle_K}$$

    Args:
        source: Name, callable or `Activation`; continuous.
        K: Kernels, any shape, at least 0; preactivation². At 0 the limit.

    Returns:
        The ratio, shaped like `K`, dimensionless; to 1e-13 of $(\chi_\perp/\chi_\parallel)^2$.

    Raises:
        ValueError: If a `K` is negative or not finite, the activation jumps, or $\chi_\parallel=0$.

    Source: PDLT (5.73), figures 5.1 right, 5.2 and 5.3.

    Example:
        >>> from scalewise.critical import susceptibility_ratio
        >>> print(f"{susceptibility_ratio('erf', 0.5):.9f}")
        2.000000000
    """
    sigma = activation(source)
    parallel, perp = susceptibilities(sigma, K, 1.0)
    if np.any(parallel == 0):
        raise ValueError(
            f"chi_parallel of {sigma.name!r} is 0 for some `K`, so the ratio does not exist there. "
            "Leave those `K` out."
        )
    return np.asarray(perp / parallel)


def _curve(
    sigma: Activation, K: np.ndarray, slope: np.ndarray, name: str
) -> tuple[np.ndarray, np.ndarray]:
    if np.any(slope <= 0):
        raise ValueError(
            f"{name} of {sigma.name!r} is not positive at K = {K[slope <= 0].flat[0]:g}, so no C_W "
            "makes it 1. Leave that `K` out."
        )
    C_W = 1.0 / slope
    return np.asarray(C_W), np.asarray(K - C_W * single_moment(sigma, K, (0, 0)).value)
