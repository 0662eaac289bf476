"""How the entries of an array are spread, and the same entries with another spread."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from scalewise.plan import Plan, PlanError, Spread, TensorPlan
from scalewise.plan.spi import rescaling, spread_error, std_beside, told_mean


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
    own, factor = _factor(name, value, base, goal, tuned=tuned)
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


def relength(plan: Plan, length: Any, of: TensorPlan, direction: Any) -> Any:
    """Lengths that go with their direction: a weight of so much the size has so much the length.

    Args:
        plan: The plan.
        length: The lengths.
        of: The row of the direction that they multiply.
        direction: That, as its model's code draws it at the target.
    """
    tuned = of.constants.std != 1
    _, factor = _factor(of.name, direction, of.base, plan.std(of.name), tuned=tuned)
    return length if factor == 1 else (length * factor).astype(length.dtype)


def _factor(
    name: str, value: Any, base: Spread, goal: float, *, tuned: bool
) -> tuple[Spread, float]:
    """The spread of an array, and what brings it to the one that is planned."""
    own, kind = spread(name, value), jnp.result_type(value)
    rounding = float(jnp.finfo(kind).eps) if jnp.issubdtype(kind, jnp.inexact) else 0.0
    return own, rescaling(name, own, base, goal, rounding, tuned=tuned)


def respread_parts(plan: Plan, row: TensorPlan, name: str, value: Any) -> Any:
    """A weight of which columns do not go with the width, and start by a rule of their own.

    Args:
        plan: The plan.
        row: The weight's.
        name: For messages.
        value: The array as its model's code draws it at the target.

    Raises:
        PlanError: As in `respread`.
    """
    axis, tuned = row.fixed[0][0], row.constants.std != 1
    stays = [i for _, start, stop in row.fixed for i in range(start, stop)]
    grows = sorted({*range(row.shape[axis])} - {*stays})
    goals = (std_beside(plan, row), plan.std(row.name))
    parts = [
        respread(name, value.take(np.array(which), axis), row.base, goal, tuned=tuned)
        for which, goal in zip((stays, grows), goals, strict=True)
    ]
    together = np.concatenate if isinstance(value, np.ndarray) else jnp.concatenate
    return together(parts, axis).take(np.argsort([*stays, *grows]), axis)


def _elsewhere(value: Any) -> bool:
    """True if an array is not simply in the memory of this process."""
    if not isinstance(value, jax.Array):
        return False
    return len(value.devices()) > 1 or next(iter(value.devices())).platform != "cpu"
