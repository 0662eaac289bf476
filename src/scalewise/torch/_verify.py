"""`verify`: train real networks of several widths for a step or two and see how they scale."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from scalewise._extras import installed
from scalewise.plan import PlanError
from scalewise.plan._check import Check, check
from scalewise.plan._fits import as_widths, check_design
from scalewise.plan._measurement import Measurement
from scalewise.torch._measure import Loss, Sizes
from scalewise.torch._plan import TorchPlan
from scalewise.torch._run import Run, Setup, seed_all

__all__ = ["measure", "verify"]

_PATIENCE = 2.0  # seconds of silence before a bar is worth its place


def verify(
    plan: TorchPlan,
    batch: Any,
    loss: Loss,
    *,
    widths: Sequence[int],
    seeds: int = 4,
    lr: float | None = None,
    steps: int | None = None,
    setup: Setup | None = None,
    depth: int | None = None,
    depths: Sequence[int] = (),
    tolerance: float = 0.0625,
    progress: bool = True,
) -> Check:
    """Whether real networks scale with the width as the plan says, and what regime they are in.

    At each width and for each seed the factory's model is built anew, set up and trained for a step; how
    every activation, its change, and every tensor's own part in it go with the width is compared with
    the plan. The verdict comes from the measurement alone.

    A batch of no more samples or tokens than the smallest width keeps corrections of finite width small.
    Dropout and normalisation act as in training, with the same random numbers before and after. The
    random state of the process is left as it was.

    Args:
        plan: A plan with its factory.
        batch: What `loss` is given; the same for every network.
        loss: A function of (model, batch) that returns a scalar tensor.
        widths: At least three, in units of the factory.
        seeds: Networks of each width, at least 2.
        lr: Learning rate at the base. By default one so small that features change by about one percent,
            where the response is linear.
        steps: Optimiser steps; by default 1, or 2 where the readout starts at zero and moves first.
        setup: A function of (plan at that width, fresh model) that initialises the model and returns its
            optimizer, as a training script does; give it to check the script itself. By default
            ``plan.init_`` and the plan's optimizer on ``plan.param_groups`` without weight decay.
        depth: Depth of the networks; by default that of the plan's target.
        depths: At least three depths to measure too, at the smallest width: whether anything grows with the
            depth beyond what is planned, as it does where the multiplier of residual branches is not applied.
        tolerance: How far a power may be from the prediction beyond three standard errors.
        progress: Whether to show a bar on a terminal once this takes longer than two seconds.

    Raises:
        PlanError: If widths or seeds are too few, the loss or the optimizer cannot be used, or nothing in
            the model reads out.
    """
    measured = measure(
        plan, batch, loss, widths=widths, seeds=seeds, lr=lr, steps=steps, setup=setup, depth=depth,
        progress=progress,
    )  # fmt: skip
    found = check(plan.table, measured, tolerance=tolerance)
    if not depths:
        return found
    from scalewise.torch._depth import over_depths

    with _own_random_numbers(), _bar(len(depths) * seeds, progress) as advance:
        deep = over_depths(
            plan, batch, loss, width=min(widths), depths=depths, seeds=seeds, lr=lr, steps=steps,
            setup=setup, tolerance=tolerance, advance=advance,
        )  # fmt: skip
    return replace(found, depth=deep)


def measure(
    plan: TorchPlan,
    batch: Any,
    loss: Loss,
    *,
    widths: Sequence[int],
    seeds: int = 4,
    lr: float | None = None,
    steps: int | None = None,
    setup: Setup | None = None,
    depth: int | None = None,
    progress: bool = True,
) -> Measurement:
    """The measurement of `verify`, without judging it; arguments as there."""
    ascending = as_widths(widths)
    check_design(np.asarray(ascending, dtype=float), seeds)
    if setup is not None and lr is not None:
        raise PlanError("`lr` is for the default optimizer; a `setup` of your own sets its own.")
    if steps is not None and steps < 1:
        raise PlanError(f"`steps` must be at least 1; got {steps}.")
    with _own_random_numbers():
        plans = tuple(plan.at(width=w, depth=depth) for w in ascending)
        run = Run(plans, ascending, batch, loss, setup).prepared(steps)
        if setup is None:
            run = replace(run, lr=run.small_lr() if lr is None else lr)
        found: list[list[Sizes]] = []
        with _bar(len(ascending) * seeds, progress) as advance:
            for i in range(len(ascending)):
                found.append([])
                for seed in range(seeds):
                    found[i].append(run.measure(i, seed, linearity=seed == 0))
                    advance()
    return run.collect(found)


@contextmanager
def _own_random_numbers() -> Iterator[None]:
    """The process's random numbers go on afterwards as if nothing had been drawn."""
    states = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        # Making a plan draws too: a model at the base.
        seed_all(0)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Callable[[], None]]:
    """A bar on a terminal's standard error, once the run has lasted for some time."""
    if not (wanted and sys.stderr.isatty() and installed("rich")):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("verify", BarColumn(), MofNCompleteColumn(), "networks", TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task, begun = bar.add_task("", total=total), time.monotonic()

    def advance() -> None:
        bar.advance(task)
        if time.monotonic() - begun > _PATIENCE:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()
