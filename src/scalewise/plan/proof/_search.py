r"""Constants and settings tuned at the base: one coordinate after the other, by steps that are halved.

Candidates are compared seed by seed, and a small gain is followed: what gains .02 nats at the base gained .07 to
.13 at eight times its width. At the end the winner and the start are trained on seeds that the search has not
seen, and a whole gain that is within its noise there is not kept. Every round of candidates is a sweep of its own,
so that a search that is killed goes on, and one with a larger budget begins with what a smaller one found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from scalewise.plan._base import SUMS_THE_WIDTH
from scalewise.plan._errors import PlanError
from scalewise.plan._verify import Verified
from scalewise.plan.proof._optimum import mean_of
from scalewise.plan.proof._standing import measured
from scalewise.plan.proof._training import split, trained, varied
from scalewise.plan.proof._tuned import Trial

STEPS = (2.0, 1.0, 0.5)  # octaves, one pass after the other
# Weights that sum over the width are not drawn larger than so many 1/sqrt(fan-in): in a short run at too small a
# rate ever larger ones look ever better, and only the readout learns. The best that was measured was 1.3.
LARGEST = 4.0

Changes = dict[str, float]


def _cell(candidate: Changes, seed: int, *, plan: Any, train: Any, factory: str) -> Any:
    import xarray as xr

    del factory  # tells stores apart
    planned, settings = varied(plan, candidate)
    loss, half = trained(planned, train, seed, settings)
    return xr.Dataset({"loss": loss, "half": half})


def _label(changes: Changes) -> str:
    return ", ".join(f"{n}={v:.12g}" for n, v in changes.items()) or "start"


class Search:
    """Goes from the best so far to a better one, one coordinate at a time; every round of candidates is a sweep.

    Args:
        plan: The plan at its base.
        train: The user's training.
        seeds: Of every candidate.
        start: Settings and constants to start from.
        names: Of what is tuned, in order.
        budget: Runs that the search may take.
        store: As in `sweep`; a folder for each round.
        options: Of `sweep` besides.
        report: Called with the number of runs that were done.
    """

    def __init__(
        self,
        plan: Verified,
        train: Callable[..., Any],
        seeds: list[int],
        *,
        start: Changes,
        names: tuple[str, ...],
        budget: int,
        store: Any,
        options: dict[str, Any],
        report: Callable[[int], None],
    ) -> None:
        self.plan, self.train, self.seeds = plan, train, seeds
        self.best, self.spent = start, 0
        self.trials: list[Trial] = []
        self._names, self._budget, self._losses = names, budget, np.array([])
        self._store, self._options, self._report, self._done = store, options, report, 0

    def _round(self, candidates: Sequence[Changes]) -> tuple[np.ndarray, np.ndarray]:
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
            plan=plan,
            train=self.train,
            factory=fingerprint(self.plan._factory()),
        )
        grid = {"candidate": labelled, "seed": seeds}
        found = sweep(
            cell, grid, store=within(self._store, f"{name}_{self._done:04d}"), **self._options
        )
        self._done += 1
        self.spent += found.loss.size
        self._report(found.loss.size)
        losses, halves = (np.asarray(one.values, float) for one in (found.loss, found.half))
        return np.where(np.isfinite(losses), losses, np.inf), halves

    def run(self) -> bool:
        """Search until no step is left, or no budget; whether it was the former."""
        (self._losses,), (halves,) = self._round([self.best])
        self.trials.append(
            Trial(
                changed="",
                to=math.nan,
                losses=floats(self._losses),
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
        now, _ = varied(self.plan, self.best)
        then, _ = varied(self.plan, {**self.best, name: value})
        pairs = zip(now.table.tensors, then.table.tensors, strict=True)
        summed = [(a.unit, b.unit) for a, b in pairs if a.role in SUMS_THE_WIDTH]
        return all(b <= max(a, LARGEST) for a, b in summed)

    def _step(self, name: str, values: Sequence[float]) -> bool:
        if self.spent + len(values) * len(self.seeds) > self._budget:
            return False
        candidates = [{**self.best, name: v} for v in values]
        found, halves = self._round(candidates)
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
                    losses=floats(losses),
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


def floats(losses: np.ndarray) -> tuple[float, ...]:
    return tuple(map(float, losses))
