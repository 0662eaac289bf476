"""The winner of a search and its start on seeds that the search has not seen: is the gain beyond its noise?

The best of a hundred candidates is lucky by the draw. On fresh seeds it is no longer, and paired with the start on
the same ones it has an error that a search cannot know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from scalewise._readable import readable
from scalewise.plan.proof._optimum import mean_of, sure
from scalewise.plan.proof._standing import LEVEL, pm

FEWEST, MOST = 3, 5  # or as many as the search has


@dataclass(frozen=True)
@readable
class Fresh:
    """Losses of the start and of the winner on the same fresh seeds.

    Args:
        seeds: Which.
        start: Of the start, one for each seed; infinite where a run diverged.
        winner: Of the winner.
    """

    seeds: tuple[int, ...]
    start: tuple[float, ...]
    winner: tuple[float, ...]

    @property
    def gain(self) -> tuple[float, float]:
        """Loss that the winner has saved, seed by seed, and the standard error; infinite where one diverged."""
        before, after = np.array(self.start), np.array(self.winner)
        if np.isfinite(before).all() and np.isfinite(after).all():
            return mean_of(before - after)
        return (math.inf if np.isfinite(after).all() else -math.inf), math.nan

    @property
    def beyond(self) -> bool:
        """True if the gain is beyond its noise; of twenty searches that gained nothing one says that it did."""
        gain, sem = self.gain
        if math.isinf(gain):
            return gain > 0
        return gain > sure(sem, len(self.seeds) - 1, LEVEL)

    @property
    def sentence(self) -> str:
        """A sentence that says whether settings were kept, and which."""
        if self.start == self.winner:
            return "No candidate was better than the start, which is kept."
        gain, sem = self.gain
        which = f"on {len(self.seeds)} fresh seeds"
        if math.isinf(gain):
            if gain > 0:
                return f"The start diverged {which}, the winner did not."
            gone = int((~np.isfinite(self.winner)).sum())
            return (
                f"The winner diverged on {gone} of {len(self.seeds)} fresh seeds, so the start is kept: what the "
                "search found was luck."
            )
        if self.beyond:
            return f"The gain is {gain:.3g}{pm(sem)} {which}, beyond its noise."
        return (
            f"The gain is {gain:.3g}{pm(sem)} {which}, within its noise, so the start is kept: the best of many "
            "candidates is lucky by the draw. More seeds would tell a smaller gain."
        )


def fresh_seeds(used: list[int], budget: int, candidates: int) -> list[int]:
    """Numbers behind those that were used; none where a budget leaves no search beside the fewest.

    Args:
        used: Seeds of the search.
        budget: Runs of all. A third goes to fresh seeds, within the bounds of their number.
        candidates: How many are trained on them.
    """
    many = min(max(FEWEST, budget // 3 // candidates), max(MOST, len(used)))
    if budget - many * candidates < 3 * len(used):
        many = FEWEST if budget - FEWEST * candidates >= 3 * len(used) else 0
    return list(range(max(used) + 1, max(used) + 1 + many))
