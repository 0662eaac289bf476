"""`check_transfer` and `tune` for models of JAX: the user's own training on a grid, and a search at the base."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from scalewise._checked import Count, checked
from scalewise.jax._plan import JaxPlan
from scalewise.plan import PlanError
from scalewise.plan.proof import TransferCheck, Tuned
from scalewise.plan.spi import (
    OverLike,
    Seeds,
    Share,
    Start,
    Train,
    Values,
    Widths,
    asked,
    measured_transfer,
    searched,
)


class _JaxProofBench:
    """See `scalewise.plan.proof._bench.Bench`."""

    def model(self, plan: JaxPlan, seed: int) -> Any:
        """A network of the plan's target, drawn by a seed and initialised as planned."""
        return plan.init(plan.drawn(seed))

    def factory(self, plan: JaxPlan) -> Callable[..., Any]:
        """The factory of the model.

        Raises:
            PlanError: If the plan was loaded without.
        """
        if plan.request is None:
            raise PlanError(
                "This plan was loaded from a file, which does not hold the model's factory. Make the plan with "
                "scalewise.jax.plan(init_fn, ...)."
            )
        return plan.request.build

    def theory(self, plan: JaxPlan) -> None:
        """None: the initialisation of the theory is read off modules of PyTorch alone."""
        del plan

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Nothing is drawn from random numbers of the process."""
        yield


@checked(error=PlanError)
def check_transfer(
    plan: JaxPlan,
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
    """Train at several sizes, rates and seeds, and say whether the best rate of the base is the best of all.

    As `scalewise.torch.check_transfer`, which says how optima, drifts and errors are found. The function is
    called as ``train(plan, model, seed=0, lr=3e-3)``, and the model is ``plan.init`` of what the factory draws by
    the seed::

        def train(plan, model, seed, lr):
            tx = plan.optax(optax.adamw(lr))
            ...
            return validation_loss

    Args:
        plan: With its factory, which must take a seed; only its base and what it was told matter, not its target.
        train: The training, as above. A list of losses at equal distances is taken for a curve, whose last tenth is
            averaged; ``[loss at half of the steps, loss at all]`` is one. A loss that is not finite is that of a
            run that diverged: no number stands for it, and its value of the hyperparameter has no mean.
        widths: At least two, in units of the factory, at the smallest of `depths` or the base's depth.
        depths: The same of depths, at the smallest of `widths` or the base's width.
        rates: Learning rates of the base, at least three; powers of 2 are a good choice.
        hyperparameter: Another argument of `train` in place of the learning rate; or a constant of the base, as
            ``"hidden.std"``, which the plan then has.
        values: Its values, in place of `rates`.
        seeds: How many networks at each size and rate, or which.
        tolerance: Octaves of the optimum for each octave of a size that count as staying.
        store: As in `scalewise.sweep`: what is finished is kept there, and the same call goes on behind it.
        client: As in `scalewise.sweep`: where the runs are computed.
        progress: As in `scalewise.sweep`.
        baseline: The loss of a predictor that has learnt nothing, in the units of `train`: a number, or the
            targets, of which it is made (integers of one axis are labels, of two tokens of sequences, in nats;
            other numbers are held against their mean). A base that is not below it by three percent has not learnt.

    Raises:
        PlanError: If sizes or values are too few, the factory takes no seed, or `train` does not return a loss.
        SweepError: If a run raised; the others are finished first.
    """
    name, grid = asked(rates, hyperparameter, values)
    return measured_transfer(
        _JaxProofBench(), plan, train, widths=widths, depths=depths, name=name, values=grid, seeds=seeds,
        tolerance=tolerance, store=store, client=client, progress=progress, baseline=baseline,
    )  # fmt: skip


@checked(error=PlanError)
def tune(
    plan: JaxPlan,
    train: Train,
    *,
    budget: Count,
    start: Start,
    over: OverLike = None,
    seeds: Seeds = 3,
    store: str | os.PathLike[str] | None = None,
    client: Any = None,
    progress: Any = None,
    baseline: Any = None,
) -> Tuned:
    """Tune learning rate, weight decay and constants at the base of a plan, within a budget of runs.

    As `scalewise.torch.tune`, with the function that `check_transfer` takes.

    Args:
        plan: With its factory, which must take a seed. Constants that it has are where the search starts.
        train: Called as ``train(plan, model, seed=0, **settings)`` with every name in `start`.
        budget: How many runs at most.
        start: Arguments of `train` to start from, as ``{"lr": 2**-7}``.
        over: What to tune, in this order: names in `start`, and constants, as ``"hidden.std"``.
        seeds: How many for each candidate, or which.
        store: A folder, or an address of fsspec; the same call goes on behind what is there.
        client: As in `scalewise.sweep`.
        progress: As in `scalewise.sweep`, counting runs.
        baseline: The loss of a predictor that has learnt nothing, in the units of `train`: a number, or the
            targets, of which it is made (integers of one axis are labels, of two tokens of sequences, in nats;
            other numbers are held against their mean). A base that is not below it by three percent has not learnt.

    Raises:
        PlanError: If the budget is too small, a name is not known, `train` does not return a loss, or every
            candidate diverges.
        SweepError: If a run raised.
    """
    return searched(
        _JaxProofBench(), plan, train, start=start, over=over, budget=budget, seeds=seeds, store=store,
        client=client, progress=progress, baseline=baseline,
    )  # fmt: skip
