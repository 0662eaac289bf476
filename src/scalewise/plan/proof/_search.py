r"""Constants and settings tuned at the base: one coordinate after the other, by steps that are halved.

Candidates are compared seed by seed, and a small gain is kept: what gains .02 nats at the base gained .07 to .13
at eight times its width. Every round of candidates is a sweep of its own, so that a search that is killed goes
on, and one with a larger budget begins with what a smaller one found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from scalewise._checked import Must
from scalewise._readable import Rows, readable
from scalewise.plan._base import SUMS_THE_WIDTH
from scalewise.plan._constants import Said, combined
from scalewise.plan._errors import PlanError
from scalewise.plan._roles import Role
from scalewise.plan.proof._bench import Bench, Planned, seeds_of, split, trained, varied
from scalewise.plan.proof._optimum import mean_of

if TYPE_CHECKING:
    import xarray as xr

# What was measured to matter, most first. An embedding is an input; of the two rates only its own is worth a try.
ORDER = ("hidden.std", "output.std", "lr", "weight_decay", "input.lr", "input.std")
STEPS = (2.0, 1.0, 0.5)  # octaves, one pass after the other
# Weights that sum over the width are not drawn larger than so many 1/sqrt(fan-in): in a short run at too small a
# rate ever larger ones look ever better, and only the readout learns. The best that was measured was 1.3.
LARGEST = 4.0

OverLike = Annotated[Iterable[str] | None, Must('a list of names, such as ["hidden.std", "lr"]')]
Changes = dict[str, float]


@dataclass(frozen=True)
@readable
class Trial:
    """One candidate, trained with every seed.

    Args:
        changed: What was changed of the best so far; empty for the start.
        to: Its new value: of a setting itself, of a constant the factor.
        losses: One for each seed.
        gain: By how much its mean loss is below that of the best before it; negative if it lost.
        gain_sem: Standard error of that, seed by seed; NaN of one seed.
        kept: Whether the search went on from it.
    """

    changed: str
    to: float
    losses: tuple[float, ...]
    gain: float
    gain_sem: float
    kept: bool


@dataclass(frozen=True)
@readable
class Tuned:
    """What a search at the base has found.

    Args:
        settings: Arguments of `train` that were tuned or given.
        constants: For `plan`, or `with_constants` of a plan.
        trials: Every candidate in the order of the search.
        spent: How many runs it took.
        budget: How many it had.
        finished: Whether no smaller step was left; otherwise the budget ended it.
    """

    settings: dict[str, float]
    constants: Said
    trials: tuple[Trial, ...] = field(repr=False)
    spent: int
    budget: int
    finished: bool

    @property
    def best(self) -> Trial:
        """The last trial that was kept."""
        return [t for t in self.trials if t.kept][-1]

    @property
    def loss(self) -> tuple[float, float]:
        """Mean loss of the best at the base and its standard error over seeds. The best of many is lucky too."""
        return mean_of(np.array(self.best.losses))

    @property
    def record(self) -> xr.Dataset:
        """Every trial as a Dataset: ``changed``, ``to``, ``gain`` with ``gain_sem``, ``kept``; ``loss`` by seed."""
        import xarray as xr  # here, because its import takes longer than a plan

        told = {
            name: ("trial", [getattr(t, name) for t in self.trials])
            for name in ("changed", "to", "gain", "gain_sem", "kept")
        }
        return xr.Dataset({**told, "loss": (("trial", "seed"), [t.losses for t in self.trials])})

    def _told(self) -> list[str | Rows]:
        loss, sem = self.loss
        found = ", ".join(f"{k} = {v:.4g}" for k, v in self.settings.items())
        end = "" if self.finished else " The budget ended the search before its smallest step."
        first = np.mean(self.trials[0].losses)
        trials: list[tuple[str, ...]] = []
        for t in self.trials[1:]:
            gain = f"{t.gain:+.4g}{_pm(t.gain_sem)}"
            told = gain if np.isfinite(t.losses).all() else "diverged"
            trials.append((t.changed, f"{t.to:.4g}", told, "kept" if t.kept else ""))
        return [
            f"{found}; constants={self.constants}",
            f"Loss at the base {loss:.4g}{_pm(sem)}, at the start {first:.4g}; "
            f"{self.spent} of {self.budget} runs.{end}",
            "",
            Rows(("tried", "at", "gain", ""), trials),
        ]


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
    """
    from scalewise.sweeps._engines import connected  # here, because they take longer than a plan
    from scalewise.sweeps._progress import Reporter

    numbers = seeds_of(seeds)
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
        search = _Search(rounds, dict(start), names, budget)
        finished = search.run()
        search.refuse_divergence()
    settings, constants = _parted(search.best)
    return Tuned(
        settings, combined(base.table.constants, constants), tuple(search.trials), rounds.spent, budget,
        finished,
    )  # fmt: skip


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
    """What is tuned.

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

    def losses(self, candidates: Sequence[Changes]) -> np.ndarray:
        """Over (candidate, seed); infinite where a run diverged."""
        from scalewise.sweeps import sweep
        from scalewise.sweeps._fingerprint import fingerprint
        from scalewise.sweeps._store import within

        labelled = {_label(c): dict(c) for c in candidates}
        cell = partial(
            _cell, bench=self.bench, plan=self.plan, train=self.train,
            factory=fingerprint(self.bench.factory(self.plan)),
        )  # fmt: skip
        grid = {"candidate": labelled, "seed": self.seeds}
        found = sweep(
            cell, grid, store=within(self.store, f"round_{self.done:04d}"), **self.options
        )
        self.done += 1
        self.spent += found.loss.size
        self.report(found.loss.size)
        losses = np.asarray(found.loss.values, float)
        return np.where(np.isfinite(losses), losses, np.inf)

    def cost(self, candidates: int) -> int:
        """How many runs they are."""
        return candidates * len(self.seeds)


def _cell(
    candidate: Changes, seed: int, *, bench: Bench, plan: Any, train: Any, factory: str
) -> Any:
    import xarray as xr

    del factory  # tells stores apart
    planned, settings = varied(plan, candidate)
    return xr.Dataset({"loss": trained(bench, planned, train, seed, settings)})


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
        (self._losses,) = self._rounds.losses([self.best])
        self.trials.append(Trial("", math.nan, tuple(self._losses), 0.0, math.nan, True))
        for number, octaves in enumerate(STEPS):
            for name in self._names:
                for tried in self._along(name, octaves, number == 0):
                    if not tried:
                        return False
        return True

    def refuse_divergence(self) -> None:
        """Nothing is tuned where no candidate trains.

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
        """Both ways, then on the way that is better for as long as it is; False where the budget ends."""
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
        """Whether a standard deviation is not too large; every other value is."""
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
        found = self._rounds.losses(candidates)
        means = found.mean(axis=1)
        k = int(means.argmin())
        # Not by more than its error: small gains at the base are large ones at the target.
        better = bool(means[k] < self._losses.mean())
        for i, (value, losses) in enumerate(zip(values, found, strict=True)):
            gain, sem = _gain(self._losses, losses)
            self.trials.append(
                Trial(name, value, tuple(map(float, losses)), gain, sem, better and i == k)
            )
        if better:
            self.best, self._losses = candidates[k], found[k]
        return True


def _gain(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """How much lower losses are than others of the same seeds, and the error of that."""
    if np.isfinite(before).all() and np.isfinite(after).all():
        return mean_of(before - after)
    worse = -math.inf if np.isfinite(before).all() else math.inf
    return (worse if np.isfinite(before).all() or np.isfinite(after).all() else 0.0), math.nan


def _pm(sem: float) -> str:
    return f" ± {sem:.2g}" if math.isfinite(sem) else ""
