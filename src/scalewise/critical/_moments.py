r"""Susceptibilities and the expectations they are made of, the limit of small kernels included."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise._arrays import float_array
from scalewise._checked import NotNegative, checked
from scalewise.activations import Activation, activation
from scalewise.gaussian import single_moment

NEGLIGIBLE = 1e-12  # of what is dimensionless: in units of `Activation.scale` and `.size`


@checked
def susceptibilities(
    source: str | Activation | Callable[[Any], Any],
    K: float | int | Float[np.ndarray, "*shape"],
    C_W: NotNegative,
) -> tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]]:
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
        >>> from scalewise.critical import susceptibilities
        >>> parallel, perp = susceptibilities("relu", 3.0, C_W=2.0)
        >>> print(f"{parallel:.6f} {perp:.6f}")
        1.000000 1.000000
    """
    sigma = activation(source)
    variance = float_array("`K`", K)
    if not (np.all(np.isfinite(variance)) and np.all(variance >= 0)):
        raise ValueError(f"`K` is a variance and must be finite and at least 0; got {K}.")
    if not sigma.is_continuous:
        raise ValueError(
            f"{sigma.name!r} jumps, so its perpendicular susceptibility is infinite. "
            "Use an activation that is continuous."
        )
    flat = variance.ravel()
    perp, excess = np.empty_like(flat), np.empty_like(flat)
    zero = flat == 0
    if not zero.all():
        perp[~zero], excess[~zero], _ = moments(sigma, flat[~zero])
    perp[zero], excess[zero] = limits_at_zero(sigma)
    parallel, perp = C_W * (perp + excess), C_W * perp
    good = np.isfinite(parallel) & np.isfinite(perp)
    if not np.all(good):
        raise ValueError(
            f"The susceptibilities of {sigma.name!r} are not finite at K = {flat[~good][0]:g}. "
            "Use a smaller `K`, or a positive one if it is 0."
        )
    return parallel.reshape(variance.shape), perp.reshape(variance.shape)


def moments(sigma: Activation, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""$\langle\sigma'^2\rangle_K$, the excess $g'-\langle\sigma'^2\rangle_K$, and its error."""
    perp = single_moment(sigma, K, (1, 1)).value
    smooth = single_moment(sigma, K, (0, 2))
    excess = smooth.value.copy()
    for kink in sigma.kinks:
        density = np.exp(-(kink.location**2) / (2 * K)) / np.sqrt(2 * np.pi * K)
        excess += jet(sigma, kink.location, 1)[0] * kink.slope_jump * density
    return perp, excess, smooth.error + 1e-16 * perp


def jet(sigma: Activation, location: float, side: int) -> np.ndarray:
    r"""$\sigma,\dots,\sigma'''$ just beside a point."""
    step = 4 * float(np.spacing(abs(location))) if location else 1e-30
    z = np.array([location + side * step])
    return np.array([float(derivative(z)[0]) for derivative in sigma.derivatives])


def value_at_zero(sigma: Activation) -> float:
    value = float(sigma(np.zeros(1))[0])
    return value if abs(value) > NEGLIGIBLE * sigma.size else 0.0


def limits_at_zero(sigma: Activation) -> tuple[float, float]:
    """Limits of `moments` as K falls to 0; the excess is infinite if the part of a kink is."""
    right, left = jet(sigma, 0.0, 1), jet(sigma, 0.0, -1)
    perp = float(right[1] ** 2 + left[1] ** 2) / 2
    value = value_at_zero(sigma)
    if not value:
        return perp, 0.0
    slope_jump = sum(kink.slope_jump for kink in sigma.kinks if kink.location == 0)
    if slope_jump:
        return perp, math.copysign(math.inf, value * slope_jump)
    return perp, value * float(right[2] + left[2]) / 2
