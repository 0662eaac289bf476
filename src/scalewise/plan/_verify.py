"""`verify`: train real networks of several widths for a step or two and see how they scale; in any framework."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

import numpy as np

from scalewise._checked import Count, Must, Positive, checked
from scalewise._extras import installed
from scalewise._readable import Rows, readable
from scalewise.plan._adapter import Adapter, Bench
from scalewise.plan._axes import heads_of
from scalewise.plan._check import Check
from scalewise.plan._checking import Tolerance, check
from scalewise.plan._constants import ConstantsLike, with_constants
from scalewise.plan._depth import DepthCheck, check_depths
from scalewise.plan._errors import PlanError
from scalewise.plan._fits import check_design
from scalewise.plan._measurement import Measurement
from scalewise.plan._over_depths import seen_over_depths
from scalewise.plan._run import Run, prepared
from scalewise.plan._sizes import Sizes
from scalewise.plan._table import Plan
from scalewise.plan._text import told
from scalewise.plan._transfer import Transfer, transfer

Widths = Annotated[Iterable[Count], Must("whole numbers in a list, such as [64, 128, 256]")]
_Own = TypeVar("_Own", bound="Verified")  # not Self: annotations of methods are checked one by one
_PATIENCE = 2.0  # seconds of silence before a bar is worth its place


@dataclass(frozen=True)
@readable
class Verified(Adapter):
    """A plan of any framework, whose claims real networks can be held against.

    Args:
        table: The settings of every tensor.
    """

    table: Plan

    def _told(self) -> list[str | Rows]:
        return told(self.table)

    @checked(error=PlanError)
    def with_constants(self: _Own, constants: ConstantsLike) -> _Own:
        """This plan with other constants of the base, in place of those that it has.

        Args:
            constants: As `plan` takes them; ``None`` for none.

        Raises:
            PlanError: If a key fits no tensor, or a value is not a factor.
        """
        return replace(self, table=with_constants(self.table, constants))

    def transfer(
        self, *, lr: Any, weight_decay: Any = None, eps: Any = None, betas: Any = None
    ) -> Transfer:
        """`lr`, `weight_decay`, `eps` and `betas` of the base at the target; see `scalewise.plan.transfer`."""
        return transfer(self.table, lr=lr, weight_decay=weight_decay, eps=eps, betas=betas)

    @checked(error=PlanError)
    def verify(
        self,
        batch: Any,
        loss: Callable[[Any, Any], Any],
        *,
        widths: Widths,
        seeds: Count = 4,
        lr: Positive | None = None,
        steps: Count | None = None,
        setup: Callable[[Any, Any], Any] | None = None,
        depth: Positive | None = None,
        depths: Iterable[Count] = (),
        tolerance: Tolerance = 0.0625,
        progress: bool = True,
    ) -> Check:
        """Measure whether real networks scale with the width as the plan says, and what regime they are in.

        At each width and for each seed the factory's model is built anew, set up and trained for a step; how
        every activation, its change, and every tensor's own part in it go with the width is compared with
        the plan. The verdict comes from the measurement alone.

        A batch of no more samples or tokens than the smallest width keeps corrections of finite width small.
        Dropout and normalisation act as in training, with the same random numbers before and after. The
        random state of the process is left as it was.

        Args:
            batch: What `loss` is given; the same for every network.
            loss: A function of (model, batch) that returns one number that can be differentiated.
            widths: At least three, in units of the factory; heads that grow along from base to target do here too.
            seeds: Networks of each width, at least 2. In JAX the factory must take the seed as an argument: see
                `seed` of `scalewise.jax.plan`.
            lr: Learning rate at the base. By default one so small that features change by about one percent,
                where the response is linear.
            steps: Optimiser steps; by default 1, or 2 where the readout starts at zero and moves first.
            setup: A function of (plan at that width, fresh model) that does what a training script does before it
                trains; give it to check the script itself. In PyTorch it initialises the model and returns its
                optimizer, in JAX it returns the initialised model and an optimiser of optax. By default what the
                plan itself does, without weight decay.
            depth: Depth of the networks; by default that of the plan's target.
            depths: At least three depths to measure too, at the smallest width: whether anything grows with the
                depth beyond what is planned, as it does where the multiplier of residual branches is not applied.
            tolerance: How far a power may be from the prediction beyond three standard errors.
            progress: Whether to show a bar on a terminal once this takes longer than two seconds.

        Returns:
            The verdict, and the power of every size of every tensor with its standard error beside the planned one.

        Raises:
            PlanError: If widths or seeds are too few, all seeds give one network, or the loss or the optimizer
                cannot be used.
        """
        if setup is not None and lr is not None:
            raise PlanError(
                "`lr` is for the default optimizer; a `setup` of your own sets its own."
            )
        ascending, depths = tuple(sorted(widths)), tuple(sorted(depths))
        check_design(np.asarray(ascending, dtype=float), seeds)
        bench, rest = self._bench(batch, loss, setup), (seeds, lr and float(lr), steps, progress)
        with self._undisturbed():
            sizes = _over_widths(self, bench, ascending, depth, *rest)
            deep = None
            if depths:
                deep = _over_depths(self, bench, ascending[0], depths, tolerance, *rest)
        return check(self.table, sizes, tolerance=tolerance, depth=deep)


def _over_widths(
    plan: Verified,
    bench: Bench,
    widths: tuple[int, ...],
    depth: float | int | None,
    seeds: int,
    lr: float | None,
    steps: int | None,
    progress: bool,
) -> Measurement:
    plans = tuple(_at(plan, w, depth) for w in widths)
    run = prepared(bench, plans, widths, steps).with_rate(lr)
    return measured(run, seeds, progress)


def measured(run: Run, seeds: int, progress: bool, verb: str = "verify") -> Measurement:
    """All networks of a run, with a bar on a terminal."""
    found: list[list[Sizes]] = []
    with _bar(len(run.widths) * seeds, progress, verb) as advance:
        for i in range(len(run.widths)):
            found.append([])
            for seed in range(seeds):
                found[i].append(run.measure(i, seed))
                advance()
    return run.collect(found)


def _over_depths(
    plan: Verified,
    bench: Bench,
    width: int,
    ascending: tuple[int, ...],
    tolerance: float,
    seeds: int,
    lr: float | None,
    steps: int | None,
    progress: bool,
) -> DepthCheck:
    table = plan.table
    if table.depth_name not in table.target:
        raise PlanError(
            f"`depths` was given, but the plan has no depth {table.depth_name!r}: plan with one, in `base` "
            "and in `target`."
        )
    if len(ascending) < 3:
        raise PlanError(f"`depths` must hold at least three different depths; got {ascending}.")
    check_design(np.asarray(ascending, dtype=float), seeds)
    plans = tuple(_at(plan, width, d) for d in ascending)
    ends = prepared(bench, (plans[0], plans[-1]), (width, width), steps).with_rate(lr)
    with _bar(len(ascending) * seeds, progress) as advance:
        sizes = seen_over_depths(ends, plans, seeds, advance)
    return check_depths(table, ascending, sizes, tolerance)


def _at(plan: Verified, width: int, depth: float | int | None) -> Verified:
    table = plan.table
    sizes: dict[str, Any] = {table.width_name: width}
    if depth is not None:
        sizes[table.depth_name] = depth
    return plan.at(**sizes | heads_of(table, sizes))


@contextmanager
def _bar(total: int, wanted: bool, verb: str = "verify") -> Iterator[Callable[[], None]]:
    """A bar on a terminal's standard error, once the run has lasted for some time."""
    if not (wanted and sys.stderr.isatty() and installed("rich")):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (verb, BarColumn(), MofNCompleteColumn(), "networks", TimeRemainingColumn())
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
