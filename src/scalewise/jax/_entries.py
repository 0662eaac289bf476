"""How the entries of an array are spread, and the same entries with another spread."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from scalewise.plan import PlanError, Spread
from scalewise.plan.spi import rescaling, spread_error, told_mean


def spread(name: str, value: Any) -> Spread:
    """Mean, standard deviation and the latter's relative standard error.

    Args:
        name: For messages.
        value: The array; its entries are taken as independent draws.

    Raises:
        PlanError: If an entry is not finite, or the array has no values because it is being traced.
    """
    if isinstance(value, Tracer):
        raise PlanError(
            f"`{name}` is being traced, and its entries must be seen. Call `init` outside of "
            "`jax.jit`, on the arrays that a compiled function returns."
        )
    entries = jnp.ravel(value) if _elsewhere(value) else np.ravel(np.asarray(value))
    if not entries.size:
        return Spread(0.0, 0.0, 0.0)
    # On the host in double precision; where arrays are large enough to be elsewhere, single is plenty.
    enough = np.float32 if _elsewhere(value) else np.float64
    entries = entries.astype(jnp.promote_types(entries.dtype, enough))
    if not math.isfinite(float(abs(entries).max())):
        raise PlanError(
            f"`{name}` has entries that are not finite numbers right after it was built."
        )
    mean = entries.mean()
    away = abs(entries - mean)
    largest = float(away.max())
    if bool((entries == entries[0]).all()):
        return Spread(float(mean.real), 0.0, 0.0)
    # Of order one before the fourth power is taken.
    away = away / largest
    second, fourth = float((away**2).mean()), float((away**4).mean())
    error = spread_error(fourth / second**2, entries.size)
    return Spread(float(mean.real), largest * math.sqrt(second), error)


def respread(name: str, value: Any, base: Spread, goal: float, *, tuned: bool = False) -> Any:
    """An array with the standard deviation `goal` about its own mean; itself if it has that already.

    Args:
        name: For messages.
        value: The array as its model's code draws it at the target.
        base: The same at the base.
        goal: The standard deviation planned.
        tuned: Whether a constant of the base is part of it; see `rescaling`.

    Raises:
        PlanError: If the entries are all equal at one size and differ at the other.
    """
    own = spread(name, value)
    kind = jnp.result_type(value)
    rounding = float(jnp.finfo(kind).eps) if jnp.issubdtype(kind, jnp.inexact) else 0.0
    factor = rescaling(name, own, base, goal, rounding, tuned=tuned)
    if factor == 1:
        return value
    mean = told_mean(own, value.size)
    if _elsewhere(value):
        return (value * factor + mean * (1 - factor)).astype(value.dtype)
    entries = np.asarray(value)
    new = (
        entries.astype(np.promote_types(entries.dtype, np.float64)) * factor + mean * (1 - factor)
    ).astype(entries.dtype)
    return jax.device_put(new, value.sharding) if isinstance(value, jax.Array) else new


def _elsewhere(value: Any) -> bool:
    """Whether an array is not simply in the memory of this process."""
    if not isinstance(value, jax.Array):
        return False
    return len(value.devices()) > 1 or next(iter(value.devices())).platform != "cpu"
