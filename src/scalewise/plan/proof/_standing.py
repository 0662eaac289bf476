r"""Where a base stands: what it is better than, how it got there, and whether the theory would have got it further.

What is carried is carried from a base. One that is still where it began has no optimum worth carrying: its best
rate is that of the first few steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalewise._readable import readable
from scalewise.plan.proof._optimum import mean_of, sure

# A base that is less than this part below its baseline has not learnt. On letters of a text a small GPT that was
# on its plateau ended between 1 % below and 2 % above the table of the last letter, tuned ones 6 % below.
SMALL = 0.03
# The theory's initialisation is named where it ends lower, beyond its error, by more than this part of the
# baseline, or of the loss without one.
FURTHER = 0.03
LEVEL = 0.95  # that of Student's t for errors to one side: one word of twenty at the limit is wrong
# Learning whose larger part came in the second half of the steps has only begun.
_BEGUN = 0.5
_WAYS = (
    "before anything is carried from it, take a wider base or more steps, draw it by the theory "
    '(plan(..., init="critical", inputs=...)), or begin with a task that it learns at once'
)


@dataclass(frozen=True)
@readable
class Standing:
    r"""The losses of a base, beside what costs no learning.

    Args:
        losses: At the end, one for each seed.
        halves: After half of the steps; empty where `train` returned no curve.
        baseline: The loss of a predictor that has learnt nothing; ``None`` where it was not given.
        theory: At the end, of the same base drawn by the theory with the same settings and seeds; empty where that
            was not trained.
    """

    losses: tuple[float, ...]
    halves: tuple[float, ...] = ()
    baseline: float | None = None
    theory: tuple[float, ...] = ()

    @property
    def loss(self) -> tuple[float, float]:
        """Mean at the end and its standard error over seeds."""
        return mean_of(np.array(self.losses))

    @property
    def share(self) -> tuple[float, float] | None:
        r"""$1-L/L_0$ with $L_0$ of the baseline, and its standard error; ``None`` without one. Dimensionless."""
        if self.baseline is None:
            return None
        return mean_of(1 - np.array(self.losses) / self.baseline)

    @property
    def progress(self) -> tuple[float, float] | None:
        """Fall of the loss between half and all of the steps, and its error; ``None`` without a curve."""
        if not self.halves:
            return None
        return mean_of(np.array(self.halves) - np.array(self.losses))

    @property
    def further(self) -> tuple[float, float] | None:
        """Distance by which the theory's initialisation ends lower, seed by seed, and the standard error."""
        if not self.theory:
            return None
        return mean_of(np.array(self.losses) - np.array(self.theory))

    @property
    def learnt(self) -> bool | None:
        """True if the base has learnt; ``None`` where that was not measured, or errors do not tell."""
        if not np.isfinite(self.losses).all() or self._behind:
            return False
        return self._level

    @property
    def sentence(self) -> str:
        """Advice where the base has not learnt, or errors do not tell; empty where there is nothing to say."""
        if not np.isfinite(self.losses).all():
            gone = int((~np.isfinite(self.losses)).sum())
            return (
                f"Of the runs of the base {gone} of {len(self.losses)} diverged, so it stands nowhere: take a "
                "smaller learning rate."
            )
        where, share = "", self.share
        if share is not None:
            where = (
                f"its loss {self.loss[0]:.4g}{pm(self.loss[1])} is {_below(share[0])} {self.baseline:.4g}, which "
                "costs no learning"
            )
        if share is not None and self._level is False:
            return f"The base has not learnt: {where}{self._moved()}{self._beside()}; {_WAYS}."
        if self._behind:
            return f"The base has not learnt what one of its size can{self._beside()}; {_WAYS}."
        if share is not None and self._level is None:
            return (
                f"Whether the base has learnt these seeds do not tell: {where}, and the error of that is "
                f"{share[1]:.1%}; take more seeds, or more steps."
            )
        return ""

    @property
    def unmeasured(self) -> str:
        """Sentence about what was not measured; empty where all was."""
        lacks = []
        if self.baseline is None:
            lacks.append("no `baseline` was given to hold its loss against")
        if not self.halves:
            lacks.append(
                "`train` returned no curve, such as [loss at half of the steps, loss at all]"
            )
        return f"Of the base not all was measured: {' and '.join(lacks)}." if lacks else ""

    def _moved(self) -> str:
        """The second half of the steps in words."""
        if self.progress is None or self.baseline is None:
            return ", and how it got there was not measured"
        fell, sem = self.progress
        learnt = self.baseline - self.loss[0]
        much = fell > max(self._error(sem), _BEGUN * learnt)
        begun = "has only begun: it " if much else ""
        return f", and it {begun}fell by {fell:.2g}{pm(sem)} in the second half of its steps"

    def _beside(self) -> str:
        """Words on how much further the theory's initialisation is; empty where it is not."""
        if not self._behind or self.further is None:
            return ""
        less, sem = self.further
        return (
            f": with the same settings and seeds the theory's initialisation ends {less:.3g}{pm(sem)} lower, at "
            f"{np.mean(self.theory):.4g}"
        )

    @property
    def _level(self) -> bool | None:
        """True if the loss is surely far enough below the baseline, False if surely not; ``None`` if neither."""
        if self.share is None:
            return None
        share, sem = self.share
        return None if abs(share - SMALL) <= self._error(sem) else share > SMALL

    @property
    def _behind(self) -> bool:
        """True if the theory's initialisation is further by more than its error and a small part of the whole."""
        if self.further is None or not np.isfinite(self.theory).all():
            return False
        less, sem = self.further
        whole = abs(self.loss[0]) if self.baseline is None else self.baseline
        return less - self._error(sem) > FURTHER * whole

    def _error(self, sem: float) -> float:
        """One-sided error of a mean over these seeds; zero for one seed, which has no error."""
        return sure(sem, len(self.losses) - 1, LEVEL) if len(self.losses) > 1 else 0.0

    def _told(self) -> list[str]:
        mean, sem = self.loss
        parts = [f"Loss of the base {mean:.4g}{pm(sem)}"]
        if self.share is not None:
            parts.append(f"{_below(self.share[0])} the baseline's {self.baseline:.4g}")
        if self.progress is not None:
            fell, error = self.progress
            parts.append(f"{fell:.3g}{pm(error)} of it gained in the second half of the steps")
        if self.further is not None:
            less, error = self.further
            way = "lower" if less >= 0 else "higher"
            parts.append(f"{abs(less):.3g}{pm(error)} {way} by the theory's initialisation")
        lines = [", ".join(parts) + "."]
        return lines + [line for line in (self.sentence, self.unmeasured) if line]


def standing_of(
    losses: Iterable[Any], halves: Iterable[Any], baseline: float | None, theory: Iterable[Any] = ()
) -> Standing:
    """Standing of a base, from arrays."""
    return Standing(
        tuple(map(float, losses)), measured(halves), baseline, tuple(map(float, theory))
    )


def measured(halves: Iterable[Any]) -> tuple[float, ...]:
    """Losses at half of the steps; none where one of them was not measured."""
    known = tuple(map(float, halves))
    return known if all(map(math.isfinite, known)) else ()


def pm(sem: float) -> str:
    """An error as it is written behind a number; nothing where there is none."""
    return f" ± {sem:.2g}" if math.isfinite(sem) else ""


def _below(share: float) -> str:
    return f"{share:.1%} below" if share >= 0 else f"{-share:.1%} above"
