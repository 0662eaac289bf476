"""The built-in activations, and the verb that turns a name or a callable into an `Activation`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from scalewise.activations._activation import Activation, Derivative, Kink

__all__ = ["BUILTIN_NAMES", "activation"]

_Derivatives = tuple[Derivative, Derivative, Derivative, Derivative]
_SQRT_2PI = math.sqrt(2 * math.pi)


def _zero(z: np.ndarray) -> np.ndarray:
    return np.zeros_like(z)


def _sech2(z: np.ndarray) -> np.ndarray:
    # 1 - tanh² would lose every digit beyond |z| = 18.
    e = np.exp(-2 * np.abs(z))
    return 4 * e / (1 + e) ** 2


def _jax_nn(name: str) -> Callable[[], Callable[[Any], Any]]:
    def traceable() -> Callable[[Any], Any]:
        import jax

        return getattr(jax.nn, name)

    return traceable


def _jax_numpy(build: Callable[[Any, Any], Callable[[Any], Any]]) -> Callable[[], Any]:
    def traceable() -> Callable[[Any], Any]:
        import jax
        import jax.numpy as jnp

        return build(jnp, jax)

    return traceable


def _scale_invariant(name: str, minus: float, plus: float) -> Activation:
    def slope(z: np.ndarray) -> np.ndarray:
        return np.where(z >= 0, plus, minus)

    return Activation(
        name,
        (lambda z: slope(z) * z, slope, _zero, _zero),
        _jax_numpy(lambda jnp, _: lambda z: jnp.where(z >= 0, plus, minus) * z),
        kinks=() if minus == plus else (Kink(0.0, 0.0, plus - minus),),
        slopes=(minus, plus),
        parity=-1 if minus == plus else (1 if minus == -plus else 0),
        taylor=(0.0, plus, 0.0, 0.0, 0.0, 0.0) if minus == plus else None,
        family="scale_invariant",
    )


def _linear() -> Activation:
    return _scale_invariant("linear", 1.0, 1.0)


def _relu() -> Activation:
    return _scale_invariant("relu", 0.0, 1.0)


def _leaky_relu(slope: float = 0.01) -> Activation:
    return _scale_invariant(f"leaky_relu({slope:g})", slope, 1.0)


def _tanh() -> Activation:
    def third(z: np.ndarray) -> np.ndarray:
        t = np.tanh(z)
        return _sech2(z) * (6 * t * t - 2)

    return Activation(
        "tanh",
        (np.tanh, _sech2, lambda z: -2 * np.tanh(z) * _sech2(z), third),
        _jax_numpy(lambda jnp, _: jnp.tanh),
        parity=-1,
        taylor=(0.0, 1.0, 0.0, -2.0, 0.0, 16.0),
    )


def _sin() -> Activation:
    return Activation(
        "sin",
        (np.sin, np.cos, lambda z: -np.sin(z), lambda z: -np.cos(z)),
        _jax_numpy(lambda jnp, _: jnp.sin),
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


def _sigmoid() -> Activation:
    return Activation(
        "sigmoid",
        tuple(lambda z, k=k: _sigmoid_jet(z, k) for k in range(4)),  # pyright: ignore[reportArgumentType]
        _jax_nn("sigmoid"),
        taylor=(0.5, 0.25, 0.0, -0.125, 0.0, 0.25),
    )


def _softplus(shift: float = 0.0, name: str = "softplus") -> Activation:
    def value(z: np.ndarray) -> np.ndarray:
        if shift != math.log(2):
            return np.logaddexp(0.0, z) - shift
        # log(1 + e^z) - log 2 would have no digits near 0.
        return np.maximum(z, 0.0) + np.log1p(0.5 * np.expm1(-np.abs(z)))

    return Activation(
        name,
        (
            value,
            lambda z: _sigmoid_jet(z, 0),
            lambda z: _sigmoid_jet(z, 1),
            lambda z: _sigmoid_jet(z, 2),
        ),
        _jax_numpy(lambda jnp, _: lambda z: jnp.logaddexp(z, 0.0) - shift),
        taylor=(math.log(2) - shift, 0.5, 0.25, 0.0, -0.125, 0.0),
    )


def _softplus_shifted() -> Activation:
    return _softplus(math.log(2), "softplus_shifted")


def _gelu() -> Activation:
    def density(z: np.ndarray) -> np.ndarray:
        return np.exp(-z * z / 2) / _SQRT_2PI

    def value(z: np.ndarray) -> np.ndarray:
        return z * special.ndtr(z)

    b = math.sqrt(2 / math.pi)
    return Activation(
        "gelu",
        (
            value,
            lambda z: special.ndtr(z) + z * density(z),
            lambda z: (2 - z * z) * density(z),
            lambda z: z * (z * z - 4) * density(z),
        ),
        _jax_numpy(lambda jnp, jax: lambda z: jax.nn.gelu(z, approximate=False)),
        taylor=(0.0, 0.5, b, 0.0, -2 * b, 0.0),
        family="gelu",
    )


def _swish() -> Activation:
    def jet(order: int) -> Derivative:
        # (z s)^(k) = z s^(k) + k s^(k-1)
        return lambda z: z * _sigmoid_jet(z, order) + order * _sigmoid_jet(z, order - 1)

    return Activation(
        "swish",
        (lambda z: z * _sigmoid_jet(z, 0), jet(1), jet(2), jet(3)),
        _jax_nn("silu"),
        taylor=(0.0, 0.5, 0.5, 0.0, -0.5, 0.0),
    )


def _erf() -> Activation:
    b = 2 / math.sqrt(math.pi)
    return Activation(
        "erf",
        (
            special.erf,
            lambda z: b * np.exp(-z * z),
            lambda z: -2 * b * z * np.exp(-z * z),
            lambda z: b * (4 * z * z - 2) * np.exp(-z * z),
        ),
        _jax_numpy(lambda _, jax: jax.scipy.special.erf),
        parity=-1,
        taylor=(0.0, b, 0.0, -2 * b, 0.0, 12 * b),
        family="erf",
    )


def _exp() -> Activation:
    return Activation(
        "exp",
        (np.exp, np.exp, np.exp, np.exp),
        _jax_numpy(lambda jnp, _: jnp.exp),
        taylor=(1.0,) * 6,
        family="exp",
    )


def _perceptron() -> Activation:
    return Activation(
        "perceptron",
        (lambda z: np.where(z >= 0, 1.0, 0.0), _zero, _zero, _zero),
        _jax_numpy(lambda jnp, _: lambda z: jnp.where(z >= 0, 1.0, 0.0)),
        kinks=(Kink(0.0, 1.0, 0.0),),
        family="perceptron",
    )


def _monomial(power: float = 2) -> Activation:
    p = int(power)
    if p != power or p < 1:
        raise ValueError(
            f"The power of `monomial` must be a whole number of at least 1; got {power}."
        )
    if p == 1:
        return _linear()

    def jet(order: int) -> Derivative:
        if order > p:
            return _zero
        return lambda z: math.perm(p, order) * z ** (p - order)

    return Activation(
        "quadratic" if p == 2 else f"monomial({p})",
        (jet(0), jet(1), jet(2), jet(3)),
        _jax_numpy(lambda jnp, _: lambda z: z**p),
        parity=1 if p % 2 == 0 else -1,
        taylor=tuple(float(math.factorial(p)) if k == p else 0.0 for k in range(6)),
        family="monomial",
        parameter=float(p),
    )


_CATALOGUE: dict[str, Callable[..., Activation]] = {
    "linear": _linear,
    "relu": _relu,
    "leaky_relu": _leaky_relu,
    "tanh": _tanh,
    "sin": _sin,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "softplus_shifted": _softplus_shifted,
    "gelu": _gelu,
    "swish": _swish,
    "erf": _erf,
    "monomial": _monomial,
    "quadratic": _monomial,
    "perceptron": _perceptron,
    "exp": _exp,
}
_PARAMETRIC = {"leaky_relu", "monomial"}
BUILTIN_NAMES: tuple[str, ...] = tuple(_CATALOGUE)


def activation(
    source: str | Activation | Callable[[Any], Any],
    *,
    kinks: Sequence[float] = (),
    name: str | None = None,
) -> Activation:
    r"""An activation function by name, or from any JAX-traceable callable.

    Args:
        source: A name (``"tanh"``), a name with its parameter (``"leaky_relu(0.1)"``,
            ``"monomial(3)"``), an `Activation` (returned as it is), or a callable that maps an array
            to an array of the same shape, entry by entry, and that JAX can trace.
        kinks: For a callable: where it or one of its first three derivatives jumps. An undeclared
            kink is refused, with its place named, because every quadrature rule across it would be
            quietly wrong.
        name: For a callable: what to call it; its ``__name__`` otherwise.

    Returns:
        The activation with its derivatives to third order.

    Raises:
        ValueError: If the name is unknown, or the callable changes the shape, returns a number that
            is not finite, or has a kink that was not declared.
        TypeError: If `source` is none of the above.

    Example:
        >>> import scalewise as sw
        >>> sw.activation("tanh").taylor
        (0.0, 1.0, 0.0, -2.0, 0.0, 16.0)
        >>> sw.activation("leaky_relu(0.1)").slopes
        (0.1, 1.0)
    """
    if isinstance(source, Activation):
        return source
    if isinstance(source, str):
        return _by_name(source)
    if callable(source):
        from scalewise.activations._callable import from_callable

        return from_callable(source, tuple(float(k) for k in kinks), name)
    raise TypeError(
        "`activation` takes a name, a JAX-traceable callable or an Activation; "
        f"got {type(source).__name__}."
    )


@lru_cache(maxsize=64)  # the same object each time, so that JAX compiles its networks once
def _by_name(text: str) -> Activation:
    match = re.fullmatch(r"\s*([a-z_]+)\s*(?:\(\s*([-+.\deE]+)\s*\))?\s*", text)
    key = match.group(1) if match else None
    if match is None or key not in _CATALOGUE:
        raise ValueError(
            f"No activation is called {text!r}; the built-in ones are {', '.join(BUILTIN_NAMES)}. "
            "For your own, pass a JAX-traceable callable."
        )
    if match.group(2) is None:
        return _CATALOGUE[key]()
    if key not in _PARAMETRIC:
        raise ValueError(f"The activation {key!r} takes no parameter; got {text!r}. Write {key!r}.")
    try:
        value = float(match.group(2))
    except ValueError:
        raise ValueError(f"The parameter in {text!r} is not a number.") from None
    if not math.isfinite(value):
        raise ValueError(f"The parameter in {text!r} must be finite.")
    return _CATALOGUE[key](value)
