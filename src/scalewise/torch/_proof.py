"""`check_transfer` for models of PyTorch: does the optimum of a user's own training stay where it was tuned?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from scalewise._checked import checked
from scalewise.plan import PlanError
from scalewise.plan.proof import TransferCheck
from scalewise.plan.spi import Seeds, Share, Train, Values, Widths, asked, measured_transfer, taken
from scalewise.torch._plan import TorchPlan, critical_base
from scalewise.torch._setup import prepare
from scalewise.torch._verify import own_random_numbers, seed_all


class TorchProofBench:
    """See `scalewise.plan.proof._bench.Bench`."""

    def model(self, plan: TorchPlan, seed: int) -> nn.Module:
        """A network of the plan's target, drawn by a seed, initialised and scaled as planned."""
        seed_all(seed)
        build = self.factory(plan)
        model = build(**taken(build, plan.table.target))
        prepare(plan, model)
        return model

    def factory(self, plan: TorchPlan) -> Callable[..., nn.Module]:
        """The factory of the model.

        Raises:
            PlanError: If the plan was loaded without.
        """
        if plan.build is None:
            raise PlanError("This plan was loaded without its factory: load(path, build=...).")
        return plan.build

    def theory(self, plan: TorchPlan) -> TorchPlan | None:
        """This plan drawn by the theory; ``None`` without `inputs`, or where the model is not read."""
        if plan.build is None or plan.options.inputs is None:
            return None
        try:
            with own_random_numbers():
                constants = critical_base(
                    plan.build, plan.table.base, plan.table.width_name, plan.options.inputs
                ).constants
        except PlanError:
            return None
        return plan.with_constants(constants)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """The process's random numbers start the same inside, and go on afterwards as if nothing had been drawn."""
        with own_random_numbers():
            yield


@checked(error=PlanError)
def check_transfer(
    plan: TorchPlan,
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

    Whatever it draws comes from random numbers that start from the seed, with one thread. The same seeds train at
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
        PlanError: If sizes or values are too few, or `train` does not return a loss.
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
    name, grid = asked(rates, hyperparameter, values)
    return measured_transfer(
        TorchProofBench(), plan, train, widths=widths, depths=depths, name=name, values=grid, seeds=seeds,
        tolerance=tolerance, store=store, client=client, progress=progress, baseline=baseline,
    )  # fmt: skip
