"""The rows of the catalogue with a kink, or with a jump of a higher derivative, somewhere."""

from __future__ import annotations

import numpy as np

from scalewise.activations._activation import Activation, Derivative, Kink
from scalewise.activations._rows import jax_numpy, shown, zero

# Klambauer et al., Self-Normalizing Neural Networks (14): a fixed point of mean 0 and variance 1.
_SELU_SCALE = 1.0507009873554804934
_SELU_ALPHA = 1.6732632423543772848


def _scale_invariant(name: str, minus: float, plus: float) -> Activation:
    def slope(z: np.ndarray) -> np.ndarray:
        return np.where(z > 0, plus, minus)  # at 0 that of the left, as in PyTorch

    return Activation(
        name,
        (lambda z: slope(z) * z, slope, zero, zero),
        jax_numpy(lambda jnp, _: lambda z: jnp.where(z > 0, plus, minus) * z),
        kinks=() if minus == plus else (Kink(0.0, 0.0, plus - minus),),
        slopes=(minus, plus),
        parity=-1 if minus == plus else (1 if minus == -plus else 0),
        taylor=(0.0, plus, 0.0, 0.0, 0.0, 0.0) if minus == plus else None,
        family="scale_invariant",
    )


def linear() -> Activation:
    return _scale_invariant("linear", 1.0, 1.0)


def relu() -> Activation:
    return _scale_invariant("relu", 0.0, 1.0)


def leaky_relu(slope: float) -> Activation:
    return _scale_invariant(shown("leaky_relu", slope), slope, 1.0)


def perceptron() -> Activation:
    return Activation(
        "perceptron",
        (lambda z: np.where(z >= 0, 1.0, 0.0), zero, zero, zero),
        jax_numpy(lambda jnp, _: lambda z: jnp.where(z >= 0, 1.0, 0.0)),
        kinks=(Kink(0.0, 1.0, 0.0),),
        family="perceptron",
    )


def _clipped(name: str, low: float, high: float, slope: float, offset: float) -> Activation:
    """A line of one slope between two kinks and constant beyond them."""

    def inside(z: np.ndarray) -> np.ndarray:
        return np.where((z >= low) & (z < high), slope, 0.0)

    odd = low == -high and offset == 0.0
    return Activation(
        name,
        (lambda z: offset + slope * np.clip(z, low, high), inside, zero, zero),
        jax_numpy(lambda jnp, _: lambda z: offset + slope * jnp.clip(z, low, high)),
        kinks=(Kink(low, 0.0, slope), Kink(high, 0.0, -slope)),
        parity=-1 if odd else 0,
        taylor=(offset, slope, 0.0, 0.0, 0.0, 0.0) if low < 0 else None,
    )


def hardtanh() -> Activation:
    """The identity between -1 and 1."""
    return _clipped("hardtanh", -1.0, 1.0, 1.0, 0.0)


def relu6() -> Activation:
    """ReLU up to 6."""
    return _clipped("relu6", 0.0, 6.0, 1.0, 0.0)


def hardsigmoid() -> Activation:
    """A line through 1/2 that reaches 0 and 1 at -3 and 3."""
    return _clipped("hardsigmoid", -3.0, 3.0, 1 / 6, 0.5)


def hardswish() -> Activation:
    """Swish with a hard sigmoid: z (z + 3) / 6 between -3 and 3."""

    def slope(z: np.ndarray) -> np.ndarray:
        return np.where(z >= 3, 1.0, np.where(z >= -3, (2 * z + 3) / 6, 0.0))

    return Activation(
        "hardswish",
        (
            lambda z: z * np.clip(z / 6 + 0.5, 0.0, 1.0),
            slope,
            lambda z: np.where((z >= -3) & (z < 3), 1 / 3, 0.0),
            zero,
        ),
        jax_numpy(lambda jnp, _: lambda z: z * jnp.clip(z / 6 + 0.5, 0.0, 1.0)),
        kinks=(Kink(-3.0, 0.0, -0.5), Kink(3.0, 0.0, -0.5)),
        taylor=(0.0, 0.5, 1 / 3, 0.0, 0.0, 0.0),
    )


def _exponential(name: str, scale: float, alpha: float, length: float) -> Activation:
    r"""$s z$ for $z>0$, $s\alpha(e^{z/\ell}-1)$ for $z<0$: a kink at 0, or a jump of $\sigma''$."""

    def left(order: int, right: float) -> Derivative:
        size = scale * alpha / length**order

        def derivative(z: np.ndarray) -> np.ndarray:
            return np.where(z >= 0, right, size * np.exp(np.minimum(z, 0.0) / length))

        return derivative

    def value(z: np.ndarray) -> np.ndarray:
        below = alpha * np.expm1(np.minimum(z, 0.0) / length)
        return scale * np.where(z >= 0, z, below)

    jump = scale * (1 - alpha / length)
    return Activation(
        name,
        (value, left(1, scale), left(2, 0.0), left(3, 0.0)),
        jax_numpy(
            lambda jnp, _: (
                lambda z: (
                    scale * jnp.where(z >= 0, z, alpha * jnp.expm1(jnp.minimum(z, 0.0) / length))
                )
            )
        ),
        kinks=(Kink(0.0, 0.0, jump),) if jump else (),
        breaks=() if jump else (0.0,),
    )


def elu(alpha: float) -> Activation:
    r"""$\alpha(e^z-1)$ below 0; a jump of $\sigma''$ at 0, and of $\sigma'$ unless $\alpha=1$."""
    if alpha == 0.0:
        return relu()
    return _exponential("elu" if alpha == 1.0 else shown("elu", alpha), 1.0, alpha, 1.0)


def celu(alpha: float) -> Activation:
    r"""$\alpha(e^{z/\alpha}-1)$ below 0, with a continuous slope."""
    if alpha <= 0:
        raise ValueError(f"The parameter of `celu`, alpha, must be positive; got {alpha:g}.")
    return _exponential("celu" if alpha == 1.0 else shown("celu", alpha), 1.0, alpha, alpha)


def selu() -> Activation:
    """ELU scaled so that a normal distribution is a fixed point."""
    return _exponential("selu", _SELU_SCALE, _SELU_ALPHA, 1.0)


def softsign() -> Activation:
    r"""$z/(1+|z|)$, whose second derivative jumps at 0."""
    return Activation(
        "softsign",
        (
            lambda z: z / (1 + np.abs(z)),
            lambda z: (1 + np.abs(z)) ** -2.0,
            lambda z: -2 * np.where(z >= 0, 1.0, -1.0) * (1 + np.abs(z)) ** -3.0,
            lambda z: 6 * (1 + np.abs(z)) ** -4.0,
        ),
        jax_numpy(lambda jnp, _: lambda z: z / (1 + jnp.abs(z))),
        breaks=(0.0,),
        parity=-1,
    )
