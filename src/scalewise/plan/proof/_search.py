r"""Constants and settings tuned at the base: one coordinate after the other, by steps that are halved.

Candidates are compared seed by seed, and a small gain is followed: what gains .02 nats at the base gained .07 to
.13 at eight times its width. At the end the winner and the start are trained on seeds that the search has not
seen, and a whole gain that is within its noise there is not kept. Every round of candidates is a sweep of its own,
so that a search that is killed goes on, and one with a larger budget begins with what a smaller one found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from scalewise._checked import Must
from scalewise.plan._base import SUMS_THE_WIDTH
from scalewise.plan._constants import Said, combined
from scalewise.plan._errors import PlanError
from scalewise.plan._roles import Role
from scalewise.plan.proof._baseline import baseline_of
from scalewise.plan.proof._bench import Bench, Planned, seeds_of, split, trained, varied
from scalewise.plan.proof._fresh import Fresh, fresh_seeds
from scalewise.plan.proof._optimum import mean_of
from scalewise.plan.proof._standing import Standing, measured, standing_of
from scalewise.plan.proof._tuned import Trial, Tuned

# What was measured to matter, most first. An embedding is an input; of the two rates only its own is worth a try.
ORDER = ("hidden.std", "output.std", "lr", "weight_decay", "input.lr", "input.std")
STEPS = (2.0, 1.0, 0.5)  # octaves, one pass after the other
# Weights that sum over the width are not drawn larger than so many 1/sqrt(fan-in): in a short run at too small a
# rate ever larger ones look ever better, and only the readout learns. The best that was measured was 1.3.
LARGEST = 4.0

OverLike = Annotated[Iterable[str] | None, Must('a list of names, such as ["hidden.std", "lr"]')]
Changes = dict[str, float]


def searched(
    bench: Bench,
    plan: Planned,
    train: Callable[..., Any],
    *,
    start: Mapping[str, float],
    over: Iterable[str] | None,
    budget: int,
    seeds: int | Iterable[int],
    store: Any = None,
    client: Any = None,
    progress: Any = None,
    baseline: Any = None,
) -> Tuned:
    """Search at the base.

    Args:
        bench: Builds networks.
        plan: Any plan with its factory; constants that it has are where the search starts.
        train: The user's.
        start: Arguments of `train` at the start, `lr` among them.
        over: What to tune, in this order; ``None`` for what there is of `ORDER`.
        budget: How many runs at most.
        seeds: How many for each candidate, or which.
        store: As in `sweep`; a folder for each round.
        client: As in `sweep`.
        progress: As in `sweep`, of runs.
        baseline: As `baseline_of` takes it.
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
        options = {"client": client if engine is None else engine, "progress": False}
        rounds = _Rounds(bench, base, train, numbers, store, options, report.add)
        theory = bench.theory(base)
        compared = 2 if theory is None else 3
        more = fresh_seeds(numbers, budget, compared)
        search = _Search(rounds, dict(start), names, budget - compared * len(more))
        finished = search.run()
        search.refuse_divergence()
        fresh, standing = _judged(rounds, search, dict(start), more, theory, held)
    kept = search.best if fresh is None or fresh.beyond else dict(start)
    settings, constants = _parted(kept)
    return Tuned(
        settings=settings,
        constants=combined(base.table.constants, constants),
        trials=tuple(search.trials),
        spent=rounds.spent,
        budget=budget,
        finished=finished,
        standing=standing,
        fresh=fresh,
    )


def _judged(
    rounds: _Rounds,
    search: _Search,
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
    losses, halves = rounds.train_on(candidates, seeds, rounds.plan, "fresh")
    fresh = Fresh(tuple(seeds), _floats(losses[0]), _floats(losses[-1]))
    k = -1 if fresh.beyond else 0
    drawn: tuple[float, ...] = ()
    if theory is not None and np.isfinite(losses[k]).all():
        # With the settings of the better one; constants are the theory's alone.
        settings, _ = _parted(candidates[k])
        drawn = tuple(rounds.train_on([dict(settings)], seeds, theory, "theory")[0][0])
    return fresh, standing_of(losses[k], halves[k], baseline, drawn)


def _parted(best: Changes) -> tuple[dict[str, float], Said]:
    """Arguments of `train`, and factors of constants."""
    more: Said = {}
    for name, value in best.items():
        if (whose := split(name)) is not None:
            more.setdefault(whose[0], {})[whose[1]] = value
    return {n: v for n, v in best.items() if split(n) is None}, more


def _coordinates(
    plan: Planned, start: Mapping[str, float], over: Iterable[str] | None
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


@dataclass
class _Rounds:
    """Trains candidates, a sweep for each round."""

    bench: Bench
    plan: Planned
    train: Callable[..., Any]
    seeds: list[int]
    store: Any
    options: dict[str, Any]
    report: Callable[[int], None]
    spent: int = 0
    done: int = 0

    def losses(self, candidates: Sequence[Changes]) -> tuple[np.ndarray, np.ndarray]:
        """Losses at the end and at half of the steps, over (candidate, seed); infinite where a run diverged."""
        return self.train_on(candidates, self.seeds, self.plan, "round")

    def train_on(
        self, candidates: Sequence[Changes], seeds: list[int], plan: Any, name: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Losses of candidates on other seeds, or of another plan; kept under a name of their own."""
        from scalewise.sweeps import sweep
        from scalewise.sweeps.spi import fingerprint, within

        labelled = {_label(c): dict(c) for c in candidates}
        cell = partial(
            _cell,
            bench=self.bench,
            plan=plan,
            train=self.train,
            factory=fingerprint(self.bench.factory(self.plan)),
        )
        grid = {"candidate": labelled, "seed": seeds}
        found = sweep(
            cell, grid, store=within(self.store, f"{name}_{self.done:04d}"), **self.options
        )
        self.done += 1
        self.spent += found.loss.size
        self.report(found.loss.size)
        losses, halves = (np.asarray(one.values, float) for one in (found.loss, found.half))
        return np.where(np.isfinite(losses), losses, np.inf), halves

    def cost(self, candidates: int) -> int:
        """Number of runs."""
        return candidates * len(self.seeds)


def _cell(
    candidate: Changes, seed: int, *, bench: Bench, plan: Any, train: Any, factory: str
) -> Any:
    import xarray as xr

    del factory  # tells stores apart
    planned, settings = varied(plan, candidate)
    loss, half = trained(bench, planned, train, seed, settings)
    return xr.Dataset({"loss": loss, "half": half})


def _label(changes: Changes) -> str:
    return ", ".join(f"{n}={v:.12g}" for n, v in changes.items()) or "start"


class _Search:
    """Goes from the best so far to a better one, one coordinate at a time."""

    def __init__(
        self, rounds: _Rounds, start: Changes, names: tuple[str, ...], budget: int
    ) -> None:
        self.best = start
        self.trials: list[Trial] = []
        self._rounds, self._names, self._budget = rounds, names, budget
        self._losses = np.array([])

    def run(self) -> bool:
        """Search until no step is left, or no budget; whether it was the former."""
        (self._losses,), (halves,) = self._rounds.losses([self.best])
        self.trials.append(
            Trial(
                changed="",
                to=math.nan,
                losses=_floats(self._losses),
                halves=measured(halves),
                gain=0.0,
                gain_sem=math.nan,
                kept=True,
            )
        )
        for number, octaves in enumerate(STEPS):
            for name in self._names:
                for tried in self._along(name, octaves, number == 0):
                    if not tried:
                        return False
        return True

    def refuse_divergence(self) -> None:
        """Refuse to tune where no candidate trains.

        Raises:
            PlanError: If of every candidate some run diverged.
        """
        if not np.isfinite(self._losses).all():
            names = ", ".join(f"{n} = {v:g}" for n, v in self.best.items())
            raise PlanError(
                f"Of each of the {len(self.trials)} candidates some run diverged, from the start ({names}) on, so "
                "there is nothing to tune from. Start at a smaller learning rate; if that diverges too, check the "
                "loss and the data."
            )

    def _along(self, name: str, octaves: float, first: bool) -> Iterator[bool]:
        """Step both ways, then on the way that is better for as long as it is; False where the budget ends."""
        now = self.best.get(name, 1.0)
        if not now:  # no factor leads away from none
            return
        ways = [v for v in (now * 2**octaves, now / 2**octaves) if self._sensible(name, v)]
        # No factor leads to none, which is where weight decay was best.
        none = [0.0] if first and name.rpartition(".")[2] == "weight_decay" else []
        before = now
        yield self._step(name, ways + none)
        while (value := self.best.get(name, 1.0)) not in (before, 0.0):
            before, value = value, value * value / before
            if not self._sensible(name, value):
                return
            yield self._step(name, [value])

    def _sensible(self, name: str, value: float) -> bool:
        """False if a value is a standard deviation that is too large; every other value is sensible."""
        whose = split(name)
        if whose is None or whose[1] != "std":
            return True
        now, _ = varied(self._rounds.plan, self.best)
        then, _ = varied(self._rounds.plan, {**self.best, name: value})
        pairs = zip(now.table.tensors, then.table.tensors, strict=True)
        summed = [(a.unit, b.unit) for a, b in pairs if a.role in SUMS_THE_WIDTH]
        return all(b <= max(a, LARGEST) for a, b in summed)

    def _step(self, name: str, values: Sequence[float]) -> bool:
        if self._rounds.spent + self._rounds.cost(len(values)) > self._budget:
            return False
        candidates = [{**self.best, name: v} for v in values]
        found, halves = self._rounds.losses(candidates)
        means = found.mean(axis=1)
        k = int(means.argmin())
        # Not by more than its error: small gains at the base are large ones at the target, and all are held
        # against their noise together, at the end.
        better = bool(means[k] < self._losses.mean())
        for i, (value, losses) in enumerate(zip(values, found, strict=True)):
            gain, sem = _gain(self._losses, losses)
            self.trials.append(
                Trial(
                    changed=name,
                    to=value,
                    losses=_floats(losses),
                    halves=measured(halves[i]),
                    gain=gain,
                    gain_sem=sem,
                    kept=better and i == k,
                )
            )
        if better:
            self.best, self._losses = candidates[k], found[k]
        return True


def _gain(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Difference of losses to others of the same seeds, and its error."""
    if np.isfinite(before).all() and np.isfinite(after).all():
        return mean_of(before - after)
    worse = -math.inf if np.isfinite(before).all() else math.inf
    return (worse if np.isfinite(before).all() or np.isfinite(after).all() else 0.0), math.nan


def _floats(losses: np.ndarray) -> tuple[float, ...]:
    return tuple(map(float, losses))
