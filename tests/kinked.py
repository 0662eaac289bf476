"""Activations that several tests share, most of them with kinks, and one expectation."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import jax
import numpy as np

from scalewise.activations import Activation, activation
from scalewise.gaussian import single_moment


def g(source, K) -> float:
    return float(single_moment(source, K, (0, 0)).value)


@cache
def elu() -> Activation:
    return activation(jax.nn.elu, kinks=(0.0,))


@cache
def hard_tanh() -> Activation:
    return activation(jax.nn.hard_tanh, kinks=(-1.0, 1.0))


@cache
def selu() -> Activation:
    return activation(jax.nn.selu, kinks=(0.0,))


def polynomial(coefficients, share=0.0) -> Activation:
    """sum c_p z^p + share tanh z, in NumPy: nothing to trace."""
    c = np.zeros(6)
    c[: len(coefficients)] = coefficients
    base = activation("tanh")

    def derivative(order):
        p = np.polynomial.Polynomial(c).deriv(order) if order else np.polynomial.Polynomial(c)
        return lambda z: p(z) + share * base.derivatives[order](z)

    taylor = [math.factorial(k) * c[k] + share * base.taylor[k] for k in range(6)]
    return dataclasses.replace(
        base,
        name="mixture",
        derivatives=tuple(derivative(k) for k in range(4)),
        parity=0,
        taylor=tuple(map(float, taylor)),
    )


def skewed() -> Activation:
    """tanh z + sin^2 z / 2: a_1 = -5/4, b_1 = -1."""
    base = activation("tanh")
    extra = (
        lambda z: 0.5 * np.sin(z) ** 2,
        lambda z: 0.5 * np.sin(2 * z),
        lambda z: np.cos(2 * z),
        lambda z: -2 * np.sin(2 * z),
    )
    return dataclasses.replace(
        base,
        name="skewed",
        derivatives=tuple(
            lambda z, d=d, e=e: d(z) + e(z) for d, e in zip(base.derivatives, extra, strict=True)
        ),
        parity=0,
        taylor=(0.0, 1.0, 1.0, -2.0, -4.0, 16.0),
    )


def bent() -> Activation:
    """ELU in NumPy: smooth slopes 1 and 1, second derivatives 0 and 1 at 0."""
    base = activation("tanh")

    return dataclasses.replace(
        base,
        name="bent",
        derivatives=(
            lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
            lambda z: np.where(z > 0, 1.0, np.exp(np.minimum(z, 0))),
            *[lambda z: np.where(z > 0, 0.0, np.exp(np.minimum(z, 0)))] * 2,
        ),
        breaks=(0.0,),
        parity=0,
        taylor=None,
    )
