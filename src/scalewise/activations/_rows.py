"""Helpers that rows of the catalogue share: JAX on demand, and parameters as a name shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scalewise._extras import require

_FOR = "An activation as a function of JAX"


def zero(z: np.ndarray) -> np.ndarray:
    """A derivative that vanishes."""
    return np.zeros_like(z)


def shown(name: str, parameter: float) -> str:
    """The name with its parameter, every digit of it: a name must identify the function."""
    short = f"{parameter:g}"
    return f"{name}({short if float(short) == parameter else repr(float(parameter))})"


def jax_nn(name: str) -> Callable[[], Callable[[Any], Any]]:
    """A function of ``jax.nn``, imported when it is needed."""

    def traceable() -> Callable[[Any], Any]:
        require("jax", for_=_FOR, extra="jax")
        import jax

        return getattr(jax.nn, name)

    return traceable


def jax_numpy(build: Callable[[Any, Any], Callable[[Any], Any]]) -> Callable[[], Any]:
    """A function built from ``jax.numpy`` and ``jax`` when it is needed."""

    def traceable() -> Callable[[Any], Any]:
        require("jax", for_=_FOR, extra="jax")
        import jax
        import jax.numpy as jnp

        return build(jnp, jax)

    return traceable
