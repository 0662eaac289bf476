"""The smooth rows of the catalogue: derivatives in closed form that keep their digits in both tails."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from scalewise.activations._activation import Activation, Derivative
from scalewise.activations._piecewise import linear
from scalewise.activations._rows import jax_nn, jax_numpy, shown, zero

_SQRT_2PI = math.sqrt(2 * math.pi)
_SQRT_8_PI = math.sqrt(8 / math.pi)
_CUBIC = 0.044715  # of the tanh form of GELU
_QUICK = 1.702
# Beyond it every derivative of the gates below has underflowed, and cubes would overflow.
_FAR = 1e3


def _sech2(z: np.ndarray) -> np.ndarray:
    # 1 - tanh² would lose every digit beyond |z| = 18.
    e = np.exp(-2 * np.abs(z))
    return 4 * e / (1 + e) ** 2


def tanh() -> Activation:
    def third(z: np.ndarray) -> np.ndarray:
        t = np.tanh(z)
        return _sech2(z) * (6 * t * t - 2)

    return Activation(
        "tanh",
        (np.tanh, _sech2, lambda z: -2 * np.tanh(z) * _sech2(z), third),
        jax_numpy(lambda jnp, _: jnp.tanh),
        parity=-1,
        taylor=(0.0, 1.0, 0.0, -2.0, 0.0, 16.0),
    )


def sin() -> Activation:
    return Activation(
        "sin",
        (np.sin, np.cos, lambda z: -np.sin(z), lambda z: -np.cos(z)),
        jax_numpy(lambda jnp, _: jnp.sin),
        parity=-1,
        taylor=(0.0, 1.0, 0.0, -1.0, 0.0, 1.0),
        family="sin",
    )


def _sigmoid_jet(z: np.ndarray, order: int) -> np.ndarray:
    s = special.expit(z)
    if order == 0:
        return s
    first = s * special.expit(-z)
    if order == 1:
        return first
    if order == 2:
        return -first * np.tanh(z / 2)  # 1 - 2s, without cancellation near 0
    return first * (1 - 6 * first)


def sigmoid() -> Activation:
    return Activation(
        "sigmoid",
        tuple(lambda z, k=k: _sigmoid_jet(z, k) for k in range(4)),  # pyright: ignore[reportArgumentType]
        jax_nn("sigmoid"),
        taylor=(0.5, 0.25, 0.0, -0.125, 0.0, 0.25),
    )


def softplus(beta: float) -> Activation:
    r"""$\beta^{-1}\log(1+e^{\beta z})$."""
    if beta <= 0:
        raise ValueError(f"The parameter of `softplus`, beta, must be positive; got {beta:g}.")
    return Activation(
        "softplus" if beta == 1.0 else shown("softplus", beta),
        (
            lambda z: np.logaddexp(0.0, beta * z) / beta,
            lambda z: _sigmoid_jet(beta * z, 0),
            lambda z: beta * _sigmoid_jet(beta * z, 1),
            lambda z: beta * beta * _sigmoid_jet(beta * z, 2),
        ),
        jax_numpy(lambda jnp, _: lambda z: jnp.logaddexp(beta * z, 0.0) / beta),
        taylor=(math.log(2) / beta, 0.5, 0.25 * beta, 0.0, -0.125 * beta**3, 0.0),
    )


def softplus_shifted() -> Activation:
    r"""$\log(1+e^z)-\log2=\frac z2+\log\cosh\frac z2$, which vanishes at 0."""

    def value(z: np.ndarray) -> np.ndarray:
        near = np.clip(z, -2.0, 2.0)
        small = near / 2 + np.log1p(2 * np.sinh(near / 4) ** 2)
        return np.where(np.abs(z) < 2, small, np.logaddexp(0.0, z) - math.log(2))

    return Activation(
        "softplus_shifted",
        (value, *softplus(1.0).derivatives[1:]),
        jax_numpy(lambda jnp, _: lambda z: jnp.logaddexp(z, 0.0) - math.log(2)),
        taylor=(0.0, 0.5, 0.25, 0.0, -0.125, 0.0),
    )


def logsigmoid() -> Activation:
    r"""$-\log(1+e^{-z})$."""
    return Activation(
        "logsigmoid",
        (
            lambda z: -np.logaddexp(0.0, -z),
            lambda z: _sigmoid_jet(-z, 0),
            lambda z: -_sigmoid_jet(z, 1),
            lambda z: -_sigmoid_jet(z, 2),
        ),
        jax_numpy(lambda jnp, _: lambda z: -jnp.logaddexp(-z, 0.0)),
        taylor=(-math.log(2), 0.5, -0.25, 0.0, 0.125, 0.0),
    )


def gelu() -> Activation:
    def density(u: np.ndarray) -> np.ndarray:
        return np.exp(-u * u / 2) / _SQRT_2PI

    def first(z: np.ndarray) -> np.ndarray:
        u = np.clip(z, -_FAR, _FAR)
        return special.ndtr(u) + u * density(u)

    def second(z: np.ndarray) -> np.ndarray:
        u = np.clip(z, -_FAR, _FAR)
        return (2 - u * u) * density(u)

    def third(z: np.ndarray) -> np.ndarray:
        u = np.clip(z, -_FAR, _FAR)
        return u * (u * u - 4) * density(u)

    b = math.sqrt(2 / math.pi)
    return Activation(
        "gelu",
        (lambda z: z * special.ndtr(z), first, second, third),
        jax_numpy(lambda jnp, jax: lambda z: jax.nn.gelu(z, approximate=False)),
        taylor=(0.0, 0.5, b, 0.0, -2 * b, 0.0),
        family="gelu",
    )


def swish() -> Activation:
    def jet(order: int) -> Derivative:
        # (z s)^(k) = z s^(k) + k s^(k-1)
        return lambda z: z * _sigmoid_jet(z, order) + order * _sigmoid_jet(z, order - 1)

    return Activation(
        "swish",
        (lambda z: z * _sigmoid_jet(z, 0), jet(1), jet(2), jet(3)),
        jax_nn("silu"),
        taylor=(0.0, 0.5, 0.5, 0.0, -0.5, 0.0),
    )


def _gated(
    name: str,
    gate: Callable[[np.ndarray], tuple[Any, Any, Any, Any]],
    traceable: Callable[[], Callable[[Any], Any]],
    taylor: tuple[float, ...],
) -> Activation:
    r"""$z\,s(v(z))$ with the sigmoid $s$ and a gate $v$, given with its three derivatives."""

    def value(z: np.ndarray) -> np.ndarray:
        return z * special.expit(gate(z)[0])

    def first(z: np.ndarray) -> np.ndarray:
        v, v1, _, _ = gate(z)
        return special.expit(v) + z * _sigmoid_jet(v, 1) * v1

    def second(z: np.ndarray) -> np.ndarray:
        v, v1, v2, _ = gate(z)
        s1, s2 = _sigmoid_jet(v, 1), _sigmoid_jet(v, 2)
        return 2 * s1 * v1 + z * (s2 * v1 * v1 + s1 * v2)

    def third(z: np.ndarray) -> np.ndarray:
        v, v1, v2, v3 = gate(z)
        s1, s2, s3 = (_sigmoid_jet(v, order) for order in (1, 2, 3))
        curvature = s2 * v1 * v1 + s1 * v2
        return 3 * curvature + z * (s3 * v1**3 + 3 * s2 * v1 * v2 + s1 * v3)

    return Activation(name, (value, first, second, third), traceable, taylor=taylor)


def gelu_tanh() -> Activation:
    r"""GELU with $\tanh$ in place of erf: $z\,s\big(\sqrt{8/\pi}\,(z+0.044715z^3)\big)$."""
    c, a = _SQRT_8_PI, _CUBIC

    def gate(z: np.ndarray) -> tuple[Any, Any, Any, Any]:
        u = np.clip(z, -_FAR, _FAR)
        return c * (u + a * u**3), c * (1 + 3 * a * u * u), 6 * c * a * u, 6 * c * a

    return _gated(
        "gelu_tanh",
        gate,
        jax_numpy(lambda jnp, jax: lambda z: z * jax.nn.sigmoid(c * (z + a * z**3))),
        (0.0, 0.5, c / 2, 0.0, 6 * c * a - c**3 / 2, 0.0),
    )


def quick_gelu() -> Activation:
    """GELU with a sigmoid in place of erf: z s(1.702 z)."""
    b = _QUICK
    return _gated(
        "quick_gelu",
        lambda z: (b * z, b, 0.0, 0.0),
        jax_numpy(lambda jnp, jax: lambda z: z * jax.nn.sigmoid(b * z)),
        (0.0, 0.5, b / 2, 0.0, -(b**3) / 2, 0.0),
    )


def mish() -> Activation:
    r"""$z\tanh\log(1+e^z)=z\,s(v)$ with $v=z+\log(1+e^z/2)$."""

    def gate(z: np.ndarray) -> tuple[Any, Any, Any, Any]:
        u = z - math.log(2)
        return (
            z + np.logaddexp(0.0, u),
            1 + special.expit(u),
            _sigmoid_jet(u, 1),
            _sigmoid_jet(u, 2),
        )

    return _gated(
        "mish",
        gate,
        jax_nn("mish"),
        (0.0, 3 / 5, 16 / 25, -12 / 125, -688 / 625, -28 / 625),
    )


def tanhshrink() -> Activation:
    r"""$z-\tanh z$."""

    def value(z: np.ndarray) -> np.ndarray:
        # tanh z = z / (1 + q) with Lambert's fraction q = z²/(3 + z²/(5 + …)): no difference of equals.
        square = np.clip(z, -1.0, 1.0) ** 2
        q = np.zeros_like(square)
        for odd in range(23, 1, -2):
            q = square / (odd + q)
        return np.where(np.abs(z) < 1, z * q / (1 + q), z - np.tanh(z))

    return Activation(
        "tanhshrink",
        (
            value,
            lambda z: np.tanh(z) ** 2,
            lambda z: 2 * np.tanh(z) * _sech2(z),
            lambda z: _sech2(z) * (2 - 6 * np.tanh(z) ** 2),
        ),
        jax_numpy(lambda jnp, _: lambda z: z - jnp.tanh(z)),
        parity=-1,
        taylor=(0.0, 0.0, 0.0, 2.0, 0.0, -16.0),
    )


def erf() -> Activation:
    b = 2 / math.sqrt(math.pi)

    def jet(polynomial: Derivative) -> Derivative:
        def derivative(z: np.ndarray) -> np.ndarray:
            u = np.clip(z, -_FAR, _FAR)
            return polynomial(u) * np.exp(-u * u)

        return derivative

    return Activation(
        "erf",
        (
            special.erf,
            jet(lambda u: np.full_like(u, b)),
            jet(lambda u: -2 * b * u),
            jet(lambda u: b * (4 * u * u - 2)),
        ),
        jax_numpy(lambda _, jax: jax.scipy.special.erf),
        parity=-1,
        taylor=(0.0, b, 0.0, -2 * b, 0.0, 12 * b),
        family="erf",
    )


def exp() -> Activation:
    return Activation(
        "exp",
        (np.exp, np.exp, np.exp, np.exp),
        jax_numpy(lambda jnp, _: jnp.exp),
        taylor=(1.0,) * 6,
        family="exp",
    )


def monomial(power: float) -> Activation:
    p = int(power)
    if p != power or p < 1:
        raise ValueError(
            f"The power of `monomial` must be a whole number of at least 1; got {power}."
        )
    if p == 1:
        return linear()

    def jet(order: int) -> Derivative:
        if order > p:
            return zero
        return lambda z: math.perm(p, order) * z ** (p - order)

    return Activation(
        "quadratic" if p == 2 else f"monomial({p})",
        (jet(0), jet(1), jet(2), jet(3)),
        jax_numpy(lambda jnp, _: lambda z: z**p),
        parity=1 if p % 2 == 0 else -1,
        taylor=tuple(float(math.factorial(p)) if k == p else 0.0 for k in range(6)),
        family="monomial",
        parameter=float(p),
    )
