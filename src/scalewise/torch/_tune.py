"""`tune` for models of PyTorch: settings and constants worth carrying, found at the base alone."""

from __future__ import annotations

import os
from typing import Any

from scalewise._checked import Count, checked
from scalewise.plan import PlanError
from scalewise.plan.proof import Tuned
from scalewise.plan.spi import OverLike, Seeds, Start, Train, searched
from scalewise.torch._plan import TorchPlan
from scalewise.torch._proof import TorchProofBench


@checked(error=PlanError)
def tune(
    plan: TorchPlan,
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

    One coordinate after the other is tried up and down, by four, by two and by the root of two, and followed for
    as long as the mean loss of the same seeds falls, by however little: at the base a constant shows its sign, not
    its size. Then the winner and the start are trained on three to five fresh seeds, or as many as the search has:
    the best of many candidates is lucky by the draw, and a whole gain that is within its noise there keeps the
    start. A model that `critical` reads is trained on these once more as the theory would draw it, with the same
    settings, and a base that this leaves behind is told; so is one that has not learnt beside `baseline`.

    Args:
        plan: With its factory; only its base and what it was told matter, not its target. Constants that it has are
            where the search starts.
        train: As `check_transfer` takes it; called as ``train(plan, model, seed=0, **settings)`` with every name in
            `start`.
        budget: How many runs at most. Every candidate takes one for each seed; 100 candidates are plenty.
        start: Arguments of `train` to start from, as ``{"lr": 2**-7, "weight_decay": 0.1}``.
        over: What to tune, in this order: names in `start`, and constants, as ``"hidden.std"``,
            ``"embedding.lr"`` or ``"*.c_proj.weight.std"``. By default the standard deviations of hidden weights
            and of the readout, the learning rate, the weight decay, then rate and standard deviation of the
            embedding, and what else is in `start`.
        seeds: How many for each candidate, or which.
        store: A folder, or an address of fsspec: every round of candidates is kept there, and the same call goes on
            behind them, also with a larger budget.
        client: As in `scalewise.sweep`: where the runs are computed.
        progress: As in `scalewise.sweep`, counting runs.
        baseline: The loss of a predictor that has learnt nothing, in the units of `train`: a number, or the
            targets, of which it is made (integers of one axis are labels, of two tokens of sequences, in nats;
            other numbers are held against their mean). A base that is not below it by three percent has not learnt.

    Returns:
        `settings` for the training, `constants` for the plan (``plan.with_constants(found.constants)``), every
        trial with its gain and the standard error of that, the gain on fresh seeds, and where the base stands.

    Raises:
        PlanError: If the budget is too small, a name is not known, `train` does not return a loss, or every
            candidate diverges.
        SweepError: If a run raised.

    Example:
        >>> import torch, scalewise as sw
        >>> def build(width):
        ...     return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 1, bias=False))
        >>> def train(plan, model, seed, lr):
        ...     x = torch.randn(16, 4)
        ...     optimizer = torch.optim.SGD(plan.param_groups(model, lr=lr))
        ...     for _ in range(4):
        ...         optimizer.zero_grad()
        ...         loss = (model(x)[:, 0] - x[:, 0]).square().mean()
        ...         loss.backward()
        ...         optimizer.step()
        ...     return loss.item()
        >>> plan = sw.torch.plan(build, base={"width": 8}, target={"width": 32},
        ...     strategy=sw.scaling.mup(), optimizer="sgd")
        >>> found = sw.torch.tune(plan, train, start={"lr": 0.01}, over=["lr"], budget=12, seeds=2)
        >>> found.settings["lr"] > 0.01, found.spent <= 12
        (True, True)
    """
    return searched(
        TorchProofBench(), plan, train, start=start, over=over, budget=budget, seeds=seeds, store=store,
        client=client, progress=progress, baseline=baseline,
    )  # fmt: skip
