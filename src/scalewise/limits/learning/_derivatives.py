r"""How features and outputs begin to move where features are learned: one step on one sample, order by order.

With $\chi_0=1$, $r=0$ and unit variances, the step of rate $\eta$ leaves in hidden layer $\ell$
$$Z^\ell_1=\hat Z^\ell_1+\eta\beta^\ell\dot Z^\ell_0\phi'(Z^\ell_0),\qquad
  \beta^\ell=-\vartheta_\ell\gamma^{\ell-1}+\beta^{\ell-1}\gamma^{\ell-1}_{11},\qquad\beta^0=0,\quad\gamma^0=|\xi|^2,$$
$$\lambda^\ell=\mathbb E\phi(Z^\ell_1)^2,\quad\gamma^\ell=\mathbb E\phi(Z^\ell_0)\phi(Z^\ell_1),\quad
  \gamma_{11}^\ell=\mathbb E\phi'(Z^\ell_0)\phi'(Z^\ell_1),$$
where $(\hat Z_1^\ell,Z_0^\ell)$ has the covariance of $\lambda^{\ell-1},\gamma^{\ell-1},\lambda^{\ell-1}(0)$ and
$\dot Z_0^\ell$ is an independent Gaussian of variance $\prod_{j>\ell}\mathbb E\phi'(Z_0^j)^2$. First derivatives
at $\eta=0$ vanish, so the second ones say how learning begins: $\partial^3f_1\ne0$ is the proof that features are
learned.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any

import numpy as np
import xarray as xr
from scipy.special import erf

from scalewise._checked import FiniteNumber, Positive, at_least, checked
from scalewise._extras import require
from scalewise._labelled import dataset
from scalewise.activations import Activation
from scalewise.activations.spi import ActivationLike
from scalewise.gaussian import single_moment
from scalewise.scaling import ABC, Strategy, classify, readout_exponents

_NODES = 96
_REACH = 8.5  # standard deviations; what is outside is below rounding
_LAYERS = ("beta", "gamma", "lambda_", "gamma_11", "preactivation")


@checked
def sigma_gelu(sigma: Positive) -> Activation:
    r"""The relu averaged over Gaussian noise: a smooth activation for which learning can be proved.

    $$\phi_\sigma(x)=\tfrac12x\,\mathrm{erf}(x/\sigma)+\tfrac\sigma{2\sqrt\pi}e^{-x^2/\sigma^2}+\tfrac x2
      =\mathbb E\,\mathrm{relu}\big(x+\tfrac\sigma{\sqrt2}Z\big)$$

    Args:
        sigma: $\sigma$, positive; in units of the preactivation.

    Returns:
        An `Activation` with three derivatives, exact. It is not the activation known as gelu, $x\Phi(x)$.

    Source: TP4 Definition N.1; the average derived.

    Example:
        >>> from scalewise.limits.learning import sigma_gelu
        >>> round(float(sigma_gelu(0.7)(0.3)), 10)
        0.3826648845
    """
    s, root = float(sigma), math.sqrt(math.pi)

    def bell(z: np.ndarray) -> np.ndarray:
        return np.exp(-((z / s) ** 2)) / root

    def traceable() -> Any:
        require("jax", for_="An activation as a function of JAX", extra="jax")
        import jax.numpy as jnp
        from jax.scipy.special import erf as traced_erf

        return lambda z: (
            0.5 * z * (traced_erf(z / s) + 1) + 0.5 * s / root * jnp.exp(-((z / s) ** 2))
        )

    return Activation(
        f"sigma_gelu({s:g})",
        (
            lambda z: 0.5 * z * (erf(z / s) + 1) + 0.5 * s * bell(z),
            lambda z: 0.5 * (erf(z / s) + 1),
            lambda z: bell(z) / s,
            lambda z: -2 * z / s**3 * bell(z),
        ),
        traceable,
        taylor=(0.5 * s / root, 0.5, 1 / (s * root), 0.0, -2 / (s**3 * root), 0.0),
    )


@checked
def one_step(
    strategy: Strategy | ABC,
    phi: ActivationLike,
    *,
    square: Positive,
    eta: FiniteNumber,
    nodes: Annotated[int, at_least(8)] = _NODES,
) -> xr.Dataset:
    r"""One step on one sample at any rate, by quadrature in three dimensions.

    $$\mathring f_1=-\eta[U=1]\,\gamma^L(\eta)+\eta[A=1]\,\beta^L(\eta)\gamma_{11}^L(\eta)$$

    Args:
        strategy: Stable with $r=0$, for $L+1$ layers of weights.
        phi: A smooth activation: name, callable or `Activation`.
        square: $|\xi|^2$, positive.
        eta: $\eta$, of either sign, finite; $\chi_0=1$.
        nodes: Evenly spaced nodes in each direction, at least 8.

    Returns:
        A Dataset: over the hidden layers ``beta``, by how much a layer is moved along its gradient, ``gamma`` and
        ``lambda_``, features after times features before and after, ``gamma_11``, slopes likewise, and
        ``preactivation``, $\mathbb E(Z_1^\ell)^2$; ``f_1``, the output of the sample after the step. The error
        falls exponentially with `nodes`, to 1e-10 at variances of order one.

    Raises:
        ValueError: If features do not move ($r>0$), the strategy is unstable, the activation is not smooth, or a
            number is out of range.

    Source: TP4 N.36, N.45, N.48; the flags of layers above the first learning one, and the Gaussian
        $\dot Z_0=Z^{dx_0}$ for the printed $Z^{dh_0}$, corrected.

    Example:
        >>> from scalewise.limits import learning
        >>> from scalewise.scaling import mup
        >>> # One sample of target 1 has chi = -1: the step of rate -1.
        >>> round(learning.one_step(mup(depth=2), "tanh", square=1.0, eta=-1.0).f_1.item(), 7)
        0.7081912
    """
    (thetas, readout, features), sigma = _moving(strategy), _smooth(phi)
    start, back = _at_start(sigma, float(square), len(thetas))
    # Evenly spaced: near a pole, tanh has them, this converges where Gauss's nodes stall.
    x = np.linspace(-_REACH, _REACH, nodes)
    w = np.exp(-(x**2) / 2)
    w /= w.sum()
    a, b, c = x[:, None, None], x[None, :, None], x[None, None, :]
    weight = w[:, None, None] * w[None, :, None] * w
    found: list[tuple[float, ...]] = []
    beta = gamma_11 = 0.0
    lam = gamma = float(square)
    for theta, before, dx in zip(thetas, start, back, strict=True):
        beta = -theta * gamma + beta * gamma_11
        z0 = math.sqrt(before) * a
        mean = gamma / math.sqrt(before)
        hat = mean * a + math.sqrt(max(lam - mean**2, 0.0)) * b
        slope = sigma.derivative(z0, 1)
        z1 = hat + eta * beta * math.sqrt(dx) * c * slope
        after = sigma.derivative(z1, 0)
        gamma_11 = float((weight * slope * sigma.derivative(z1, 1)).sum())
        gamma = float((weight * sigma.derivative(z0, 0) * after).sum())
        lam = float((weight * after**2).sum())
        found.append((beta, gamma, lam, gamma_11, float((weight * z1**2).sum())))
    f_1 = eta * (features * beta * gamma_11 - readout * gamma)
    return _over_layers(found, f_1=f_1)


@checked
def derivatives(strategy: Strategy | ABC, phi: ActivationLike, *, square: Positive) -> xr.Dataset:
    r"""Second derivatives of one step with respect to the rate at 0, and the first and third of the output.

    With $C=(\beta^\ell)^2\,\mathbb E(\dot Z_0^\ell)^2$ and all Gaussian means at $Z_0^\ell$,
    $$\begin{aligned}
    \partial^2\lambda^\ell&=C\,\mathbb E(\phi^2)''\phi'^2+\tfrac12\mathbb E(\phi^2)''\,\partial^2\lambda^{\ell-1},\\
    \partial^2\gamma^\ell&=C\,\mathbb E\phi\phi''\phi'^2+\tfrac12\mathbb E\phi\phi''\,\partial^2\lambda^{\ell-1}
      +\mathbb E\phi'^2\,\partial^2\gamma^{\ell-1},\\
    \partial^2\gamma_{11}^\ell&=C\,\mathbb E\phi'''\phi'^3+\tfrac12\mathbb E\phi'\phi'''\,\partial^2\lambda^{\ell-1}
      +\mathbb E\phi''^2\,\partial^2\gamma^{\ell-1},\\
    \partial^2\mathbb E(Z_1^\ell)^2&=2C\,\mathbb E\phi'^2+\partial^2\lambda^{\ell-1},\\
    \partial^2\beta^\ell&=-\vartheta_\ell\partial^2\gamma^{\ell-1}+\beta^{\ell-1}\partial^2\gamma_{11}^{\ell-1}
      +\gamma_{11}^{\ell-1}\partial^2\beta^{\ell-1},\\
    \partial^3f_1&=3\big(-[U=1]\,\partial^2\gamma^L+[A=1](\beta^L\partial^2\gamma^L_{11}
      +\gamma_{11}^L\partial^2\beta^L)\big).\end{aligned}$$

    Args:
        strategy: Stable with $r=0$.
        phi: A smooth activation.
        square: $|\xi|^2$, positive.

    Returns:
        A Dataset: the second derivatives of what `one_step` has over the hidden layers, by the same names, and of
        the output the first and the third, ``f_1`` and ``f_1_third``; the second is 0, and in every kernel regime
        the third is too. Quadrature, rtol 1e-12.

    Raises:
        ValueError: As for `one_step`.

    Source: TP4 N.40-N.48. Printed otherwise: a factor 2 in $C$; $\mathbb E\phi'^2$ on the other term of N.42; the
        third derivative without 3 and with $-\gamma^{L-1}$ for $\beta^L$; $\beta^\ell$ without $\vartheta_\ell$.

    Example:
        >>> from scalewise.limits import learning
        >>> from scalewise.scaling import mup
        >>> round(learning.derivatives(mup(depth=3), "tanh", square=0.81).f_1_third.item(), 5)
        2.11409
    """
    (thetas, readout, features), sigma = _moving(strategy), _smooth(phi)
    start, back = _at_start(sigma, float(square), len(thetas))
    found: list[tuple[float, ...]] = []
    beta = gamma_11 = d_beta = d_gamma = d_lambda = d_gamma_11 = 0.0
    gamma = float(square)
    for theta, before, dx in zip(thetas, start, back, strict=True):
        d_beta = -theta * d_gamma + beta * d_gamma_11 + gamma_11 * d_beta
        beta = -theta * gamma + beta * gamma_11
        C = beta**2 * dx
        m = partial(_mean, sigma, before)
        below, gamma = d_lambda, m(0, 0)
        gamma_11 = m(1, 1)
        d_preactivation = 2 * C * gamma_11 + below
        d_lambda = 2 * C * (m(1, 1, 1, 1) + m(0, 2, 1, 1)) + (gamma_11 + m(0, 2)) * below
        d_gamma_11 = C * m(3, 1, 1, 1) + 0.5 * m(1, 3) * below + m(2, 2) * d_gamma
        d_gamma = C * m(0, 2, 1, 1) + 0.5 * m(0, 2) * below + gamma_11 * d_gamma
        found.append((d_beta, d_gamma, d_lambda, d_gamma_11, d_preactivation))
    first = features * beta * gamma_11 - readout * gamma
    moved = beta * d_gamma_11 + gamma_11 * d_beta
    third = 3 * (features * moved - readout * d_gamma)
    return _over_layers(found, f_1=first, f_1_third=third)


def _over_layers(found: list[tuple[float, ...]], **outputs: float) -> xr.Dataset:
    layers = zip(_LAYERS, np.array(found).T, strict=True)
    return dataset({name: ("layer", values) for name, values in layers} | outputs)


def _moving(strategy: Strategy | ABC) -> tuple[list[float], float, float]:
    r"""Flags $\vartheta_\ell$ of layers that learn at the first step, and $[U=1]$ and $[A=1]$."""
    plain = strategy.to_strategy() if isinstance(strategy, ABC) else strategy
    found = classify(plain)
    if not found.stable or found.r != 0:
        raise ValueError(
            f"The derivatives of learning need a stable strategy whose features move, r = 0; {plain} is "
            f"classified as {found.regime}. {found.reasons[-1]} For the kernel regime see `limit_kernel`."
        )
    A, U = readout_exponents(plain)
    # Where the last weights start too small to carry a gradient back, nothing moves at the first step.
    return [float(r == 0 and A <= U) for r in found.r_l], float(U == 1), float(A == 1)


def _mean(sigma: Activation, variance: float, *orders: int) -> float:
    """The Gaussian mean of a product of derivatives."""
    return float(single_moment(sigma, variance, orders).value)


def _at_start(sigma: Activation, square: float, layers: int) -> tuple[list[float], list[float]]:
    r"""Variances of $Z_0^\ell$ and of $\dot Z_0^\ell$."""
    variances, slopes = [square], []
    for _ in range(layers):
        m = partial(_mean, sigma, variances[-1])
        variances.append(m(0, 0))
        slopes.append(m(1, 1))
    return variances[:-1], [math.prod(slopes[k:], start=1.0) for k in range(1, layers + 1)]


def _smooth(sigma: Activation) -> Activation:
    if not sigma.is_smooth:
        raise ValueError(
            f"The derivatives of learning need three derivatives of the activation; {sigma.name!r} has a kink or "
            "a break. Take a smooth one, such as sigma_gelu of a small sigma for relu."
        )
    return sigma
