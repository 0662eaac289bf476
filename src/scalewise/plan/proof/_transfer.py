"""The user's own training on a grid of sizes, values and seeds: what `check_transfer` does in every framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from scalewise.plan._axes import heads_of
from scalewise.plan._errors import PlanError
from scalewise.plan.proof._baseline import baseline_of
from scalewise.plan.proof._bench import Bench, Planned, seeds_of, trained, varied
from scalewise.plan.proof._check import GridSize, TransferCheck, check_losses


def measured_transfer(
    bench: Bench,
    plan: Planned,
    train: Callable[..., Any],
    *,
    widths: Iterable[int],
    depths: Iterable[int],
    name: str,
    values: Iterable[float | int],
    seeds: int | Iterable[int],
    tolerance: float,
    baseline: Any = None,
    **options: Any,
) -> TransferCheck:
    """Train on the grid and judge the losses.

    Args:
        bench: Builds networks.
        plan: Any plan with its factory; its own target does not matter.
        train: The user's.
        widths: At least two, or none where depths are given.
        depths: The same of depths.
        name: Of the hyperparameter.
        values: Of the base.
        seeds: How many, or which.
        tolerance: Octaves per octave that count as staying.
        baseline: As `baseline_of` takes it.
        options: Of `sweep`: store, client, progress.
    """
    from scalewise.sweeps import sweep  # here, because its imports take longer than a plan
    from scalewise.sweeps.spi import fingerprint

    grid, numbers, held = _values(name, values), seeds_of(seeds), baseline_of(baseline)
    sizes = _sizes(plan, widths, depths)
    factory = fingerprint(bench.factory(plan))
    plans = {size.label: plan.at(**{**size.at, **heads_of(plan.table, size.at)}) for size in sizes}
    cell = partial(_cell, bench=bench, train=train, name=name, factory=factory)
    found = sweep(cell, {"size": plans, "value": grid, "seed": numbers}, **options)
    losses, halves = (np.asarray(one.values, float) for one in (found.loss, found.half))
    return check_losses(
        name, grid, sizes, losses, tolerance=tolerance, halves=halves, baseline=held
    )


def asked(
    rates: Iterable[float | int] | None, hyperparameter: str, values: Iterable[float | int] | None
) -> tuple[str, list[float | int]]:
    """Name of the hyperparameter that is varied, and its values.

    Raises:
        PlanError: If there are none, or those of two.
    """
    if rates is not None and values is not None:
        raise PlanError("Give `rates`, or `values` of another hyperparameter, not both.")
    if rates is not None and hyperparameter != "lr":
        raise PlanError(
            f"`rates` are learning rates; give the values of {hyperparameter!r} as `values`."
        )
    given = values if rates is None else rates
    if given is None:
        raise PlanError(
            f"`{'rates' if hyperparameter == 'lr' else 'values'}` must hold at least three values of "
            f"{hyperparameter!r}; got None."
        )
    return hyperparameter, list(given)


def _cell(
    size: Any, value: float, seed: int, *, bench: Bench, train: Any, name: str, factory: str
) -> Any:
    import xarray as xr

    del factory  # tells stores apart
    plan, settings = varied(size, {name: value})
    loss, half = trained(bench, plan, train, seed, settings)
    return xr.Dataset({"loss": loss, "half": half})


def _values(name: str, given: Iterable[float | int]) -> list[float]:
    """Values of a grid in order.

    Raises:
        PlanError: If they are too few for an optimum, or not positive.
    """
    values = sorted({float(v) for v in given})
    if len(values) < 3 or values[0] <= 0 or not math.isfinite(values[-1]):
        raise PlanError(
            f"The values of {name!r} must be at least three different positive numbers, since an optimum lies "
            f"between two of them and is fitted in powers of 2; got "
            f"{', '.join(f'{v:g}' for v in values) or 'none'}."
        )
    return values


def _sizes(plan: Planned, widths: Iterable[int], depths: Iterable[int]) -> list[GridSize]:
    """The sizes of a grid, the smallest first; each axis varies at the smallest of the other, or at the base's.

    Raises:
        PlanError: If an axis has fewer than two, or the plan has no depth.
    """
    table = plan.table
    width, depth = table.width_name, table.depth_name
    along = {width: sorted(set(widths)), depth: sorted(set(depths))}
    for axis, argument in ((width, "widths"), (depth, "depths")):
        if len(along[axis]) == 1:
            raise PlanError(f"`{argument}` must hold at least two; got {along[axis]}.")
    if not any(along.values()):
        raise PlanError("`widths` must hold at least two, such as [64, 128, 256]; got none.")
    if along[depth] and depth not in table.base:
        raise PlanError(
            f"`depths` was given, but the plan has no depth {depth!r}: plan with one, in `base` and in `target`."
        )
    first: dict[str, Any] = {
        axis: (along[axis] or [table.base[axis]])[0]
        for axis in (width, depth)
        if axis in table.base
    }
    every: dict[str, GridSize] = {}
    for axis in first:
        for value in along[axis] or [first[axis]]:
            at = first | {axis: value}
            label = ", ".join(f"{a}={v}" for a, v in at.items())
            every.setdefault(label, GridSize(label, at))
    return list(every.values())
