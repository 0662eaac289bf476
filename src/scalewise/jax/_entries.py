"""How the entries of an array are spread, and the same entries with another spread."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from scalewise.plan import PlanError, Spread

__all__ = ["respread", "spread"]

# As few as the adapter for PyTorch takes: to take a right spread for a wrong one costs a factor near 1.
_ERRORS = 3.0


def spread(name: str, value: Any) -> Spread:
    r"""Mean, standard deviation and the latter's relative standard error $\sqrt{(k-1+6/N)/4N}$.

    $k$ is the kurtosis of the $N$ entries.

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
    kurtosis = max(fourth / second**2, 1.0)
    # Few entries understate their kurtosis; normal ones by 6/N.
    error = math.sqrt((kurtosis - 1 + 6 / entries.size) / (4 * entries.size))
    return Spread(float(mean.real), largest * math.sqrt(second), error)


def respread(name: str, value: Any, base: Spread, goal: float) -> Any:
    """An array with the standard deviation `goal` about its own mean; itself if it has that already.

    Already means within three standard errors, its own and the base's together.

    Args:
        name: For messages.
        value: The array as its model's code draws it at the target.
        base: The same at the base.
        goal: The standard deviation planned.

    Raises:
        PlanError: If the entries are all equal at one size and differ at the other.
    """
    own = spread(name, value)
    if (own.std == 0) != (base.std == 0):
        what = ("differ", "are all equal") if own.std == 0 else ("are all equal", "differ")
        raise PlanError(
            f"The entries of `{name}` {what[0]} at the base and {what[1]} at the target, so no factor takes "
            "one to the other. Let the factory draw it in the same way at every size."
        )
    if own.std == 0:
        return value
    factor = goal / own.std
    rounding = float(jnp.finfo(value.dtype).eps)
    if abs(1 / factor - 1) <= _ERRORS * math.hypot(own.error, base.error) + rounding:
        return value
    # A mean that the sample does not tell from zero is zero: exact zeros stay zeros.
    drawn = abs(own.mean) <= _ERRORS * own.std / math.sqrt(value.size)
    mean = 0.0 if drawn else own.mean
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
