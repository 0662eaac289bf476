"""`check_transfer`: does the optimum of a user's own training stay where it was tuned? In any framework."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from scalewise._checked import checked
from scalewise.plan._axes import heads_of
from scalewise.plan._errors import PlanError
from scalewise.plan._verify import Verified, Widths
from scalewise.plan.proof._baseline import baseline_of
from scalewise.plan.proof._check import TransferCheck, check_losses
from scalewise.plan.proof._drift import GridSize
from scalewise.plan.proof._training import Seeds, Share, Train, Values, seeds_of, trained, varied


@checked(error=PlanError)
def check_transfer(
    plan: Verified,
    train: Train,
    *,
    widths: Widths = (),
    depths: Widths = (),
    rates: Values = None,
    hyperparameter: str = "lr",
    values: Values = None,
    seeds: Seeds = 3,
    tolerance: Share = 0.1,
    store: str | os.PathLike[str] | None = None,
    client: Any = None,
    progress: Any = None,
    baseline: Any = None,
) -> TransferCheck:
    r"""Train at several sizes, rates and seeds, and say whether the best rate of the base is the best of all.

    Every run is the user's own function, called as ``train(plan, model, seed=0, lr=3e-3)`` with the plan for that
    size and a model of it, freshly drawn and initialised as planned; it does what a training script does, and
    returns the loss::

        def train(plan, model, seed, lr):
            optimizer = torch.optim.AdamW(plan.param_groups(model, lr=lr), betas=(0.9, 0.95))
            ...
            return validation_loss

    In JAX the model is ``plan.init`` of what the factory draws by the seed, the factory must take a seed, and the
    optimiser is ``plan.optax(optax.adamw(lr))``. Whatever a run of PyTorch draws comes from random
    numbers that start from the seed, with one thread. The same seeds train at
    every rate, so that what a seed does to all of them cancels in the place of the minimum. The optimum of a size
    is that of a parabola through the mean losses within an octave of the lowest one; its error comes from leaving
    one seed out at a time. Its drift is the slope of a line through the optima, with the error that seeds give,
    or that the scatter about the line gives, if that is larger.

    Args:
        plan: With its factory; only its base and what it was told matter, not its target.
        train: The training, as above. A list of losses at equal distances is taken for a curve, whose last tenth is
            averaged; ``[loss at half of the steps, loss at all]`` is one. A loss that is not finite is that of a
            run that diverged: no number stands for it, and its value of the hyperparameter has no mean.
        widths: At least two, in units of the factory, at the smallest of `depths` or the base's depth.
        depths: The same of depths, at the smallest of `widths` or the base's width.
        rates: Learning rates of the base, at least three; powers of 2 are a good choice.
        hyperparameter: Another argument of `train` in place of the learning rate, as ``"weight_decay"``; or a
            constant of the base, as ``"hidden.std"``, which the plan then has.
        values: Its values, in place of `rates`.
        seeds: How many networks at each size and rate, or which; one gives no error, three are a beginning.
        tolerance: Octaves of the optimum for each octave of a size that count as staying.
        store: As in `scalewise.sweep`: what is finished is kept there, and the same call goes on behind it.
        client: As in `scalewise.sweep`: where the runs are computed.
        progress: As in `scalewise.sweep`.
        baseline: The loss of a predictor that has learnt nothing, in the units of `train`: a number, or the
            targets, of which it is made (integers of one axis are labels, of two tokens of sequences, in nats;
            other numbers are held against their mean). A base that is not below it by three percent has not learnt.

    Returns:
        The verdict in one sentence, the optimum of every size with its standard error in octaves, the drifts,
        what the transferred rate costs beside the retuned one, a table and a picture.

    Raises:
        PlanError: If sizes or values are too few, the factory of JAX takes no seed, or `train` does not return a
            loss.
        SweepError: If a run raised; the others are finished first.

    Example:
        >>> import torch, scalewise as sw
        >>> def build(width):
        ...     return torch.nn.Sequential(
        ...         torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
        >>> def train(plan, model, seed, lr):
        ...     optimizer = torch.optim.SGD(plan.param_groups(model, lr=lr))
        ...     x = torch.randn(16, 4)
        ...     for _ in range(4):
        ...         optimizer.zero_grad()
        ...         loss = (model(x)[:, 0] - x[:, 0]).square().mean()
        ...         loss.backward()
        ...         optimizer.step()
        ...     return loss.item()
        >>> plan = sw.torch.plan(build, base={"width": 8}, target={"width": 32},
        ...     strategy=sw.scaling.mup(), optimizer="sgd")
        >>> found = sw.torch.check_transfer(plan, train, widths=[8, 16], rates=[0.001, 0.002, 0.004], seeds=2)
        >>> print(found.verdict.partition(":")[0])
        The grid of lr does not bracket the optimum
    """
    from scalewise.sweeps import sweep  # here, because its imports take longer than a plan
    from scalewise.sweeps.spi import fingerprint

    name, given = _asked(rates, hyperparameter, values)
    grid, numbers, held = _values(name, given), seeds_of(seeds), baseline_of(baseline)
    sizes = _sizes(plan, widths, depths)
    factory = fingerprint(plan._factory())
    plans = {size.label: plan.at(**{**size.at, **heads_of(plan.table, size.at)}) for size in sizes}
    cell = partial(_cell, train=train, name=name, factory=factory)
    axes = {"size": plans, "value": grid, "seed": numbers}
    found = sweep(cell, axes, store=store, client=client, progress=progress)
    losses, halves = (np.asarray(one.values, float) for one in (found.loss, found.half))
    return check_losses(
        name, grid, sizes, losses, tolerance=tolerance, halves=halves, baseline=held
    )


def _asked(
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


def _cell(size: Any, value: float, seed: int, *, train: Any, name: str, factory: str) -> Any:
    import xarray as xr

    del factory  # tells stores apart
    plan, settings = varied(size, {name: value})
    loss, half = trained(plan, train, seed, settings)
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


def _sizes(plan: Verified, widths: Iterable[int], depths: Iterable[int]) -> list[GridSize]:
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
