"""`tune`: settings and constants worth carrying, found at the base alone; in any framework."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np

from scalewise._checked import Count, Must, checked
from scalewise.plan._constants import Said, combined
from scalewise.plan._errors import PlanError
from scalewise.plan._roles import Role
from scalewise.plan._verify import Verified
from scalewise.plan.proof._baseline import baseline_of
from scalewise.plan.proof._fresh import Fresh, fresh_seeds
from scalewise.plan.proof._search import Changes, Search, floats
from scalewise.plan.proof._standing import Standing, standing_of
from scalewise.plan.proof._training import Seeds, Start, Train, seeds_of, split, varied
from scalewise.plan.proof._tuned import Tuned

# What was measured to matter, most first. An embedding is an input; of the two rates only its own is worth a try.
ORDER = ("hidden.std", "output.std", "lr", "weight_decay", "input.lr", "input.std")

OverLike = Annotated[Iterable[str] | None, Must('a list of names, such as ["hidden.std", "lr"]')]


@checked(error=PlanError)
def tune(
    plan: Verified,
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
    from scalewise.sweeps.spi import Reporter, connected

    numbers, held = seeds_of(seeds), baseline_of(baseline)
    if budget < 3 * len(numbers):
        raise PlanError(
            f"`budget` must be enough runs for the start and one step each way, three times the {len(numbers)} "
            f"seeds; got {budget}."
        )
    base = plan.at(**plan.table.base)
    names = _coordinates(base, start, over)
    with connected(client) as engine, Reporter(progress, budget, "runs") as report:
        theory = base._by_theory()
        compared = 2 if theory is None else 3
        more = fresh_seeds(numbers, budget, compared)
        search = Search(
            base,
            train,
            numbers,
            start=dict(start),
            names=names,
            budget=budget - compared * len(more),
            store=store,
            options={"client": client if engine is None else engine, "progress": False},
            report=report.add,
        )
        finished = search.run()
        search.refuse_divergence()
        fresh, standing = _judged(search, dict(start), more, theory, held)
    kept = search.best if fresh is None or fresh.beyond else dict(start)
    settings, constants = _parted(kept)
    return Tuned(
        settings=settings,
        constants=combined(base.table.constants, constants),
        trials=tuple(search.trials),
        spent=search.spent,
        budget=budget,
        finished=finished,
        standing=standing,
        fresh=fresh,
    )


def _judged(
    search: Search,
    start: Changes,
    seeds: list[int],
    theory: Any,
    baseline: float | None,
) -> tuple[Fresh | None, Standing]:
    """The winner beside its start on fresh seeds, and where the better of them stands."""
    if not seeds:
        last = [t for t in search.trials if t.kept][-1]
        return None, standing_of(last.losses, last.halves, baseline)
    candidates = [start] if search.best == start else [start, search.best]
    losses, halves = search.train_on(candidates, seeds, search.plan, "fresh")
    fresh = Fresh(tuple(seeds), floats(losses[0]), floats(losses[-1]))
    k = -1 if fresh.beyond else 0
    drawn: tuple[float, ...] = ()
    if theory is not None and np.isfinite(losses[k]).all():
        # With the settings of the better one; constants are the theory's alone.
        settings, _ = _parted(candidates[k])
        drawn = tuple(search.train_on([dict(settings)], seeds, theory, "theory")[0][0])
    return fresh, standing_of(losses[k], halves[k], baseline, drawn)


def _parted(best: Changes) -> tuple[dict[str, float], Said]:
    """Arguments of `train`, and factors of constants."""
    more: Said = {}
    for name, value in best.items():
        if (whose := split(name)) is not None:
            more.setdefault(whose[0], {})[whose[1]] = value
    return {n: v for n, v in best.items() if split(n) is None}, more


def _coordinates(
    plan: Verified, start: Mapping[str, float], over: Iterable[str] | None
) -> tuple[str, ...]:
    """Names of settings and constants that are tuned.

    Raises:
        PlanError: If a name is neither an argument at the start nor a constant that the plan can have.
    """
    if over is None:
        drawn = {str(t.role) for t in plan.table.tensors if t.base.std > 0}
        there = {f"{r}.std" for r in drawn} | {f"{t.role}.lr" for t in plan.table.tensors}
        given = {n for n in start if start[n] > 0}
        rest = tuple(n for n in start if n in given and n not in ORDER)
        return (*(n for n in ORDER if n in there | given), *rest)
    names = tuple(dict.fromkeys(over))
    for name in names:
        if split(name) is not None:
            varied(plan, {name: 2.0})  # refuses a constant that nothing has
        elif name not in start:
            roles = ", ".join(
                f"'{r}.std'" for r in Role if any(t.role == r for t in plan.table.tensors)
            )
            raise PlanError(
                f"`over` names {name!r}, which is neither an argument of `train` with a value at the start nor a "
                f"constant such as {roles}."
            )
        elif not start[name] > 0:
            raise PlanError(
                f"`over` names {name!r}, which starts at {start[name]:g} and is tuned by factors; start it above 0."
            )
    return names
