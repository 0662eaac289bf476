"""What a sample of entries tells of the law they were drawn from, and the factor to another size of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scalewise.plan._errors import PlanError
from scalewise.plan._table import Spread

# Standard errors within which a spread is taken for what it should be. Narrow, for to take a right one
# for a wrong one costs nothing but a factor near 1.
ERRORS = 3.0


def spread_error(kurtosis: float, entries: int) -> float:
    r"""Relative standard error of the standard deviation of independent entries.

    $$\sqrt{\frac{\kappa-1+6/N}{4N}},\qquad\kappa=\mu_4/\sigma^4,$$
    for any law; few entries understate their kurtosis, normal ones by $6/N$.

    Args:
        kurtosis: $\kappa$ of the entries.
        entries: $N$, how many there are.
    """
    return math.sqrt((max(kurtosis, 1.0) - 1 + 6 / entries) / (4 * entries))


def pooled(spreads: Sequence[Spread]) -> Spread:
    """The spread of several tensors drawn from one law, and how well all their entries tell it."""
    std = math.sqrt(math.fsum(s.std**2 for s in spreads) / len(spreads))
    error = math.sqrt(math.fsum(s.error**2 for s in spreads)) / len(spreads)
    return Spread(math.fsum(s.mean for s in spreads) / len(spreads), std, error)


def rescaling(
    name: str, own: Spread, base: Spread, goal: float, rounding: float, *, tuned: bool = False
) -> float:
    """The factor that brings entries to a spread; 1 if they have it, within what samples can tell.

    Args:
        name: The tensor's, for messages.
        own: Its entries as they are.
        base: Its entries at the base.
        goal: The standard deviation planned.
        rounding: Relative rounding error of its numbers.
        tuned: Whether a constant of the base is part of `goal`. It may be closer to 1 than a sample tells, so then
            only entries that have that very spread, as after a first call, are left as they are.

    Raises:
        PlanError: If the entries are all equal at one size and differ at the other.
    """
    if (base.std == 0) != (own.std == 0):
        drawn, constant = ("here", "at the base") if base.std == 0 else ("at the base", "here")
        raise PlanError(
            f"Every entry of `{name}` is the same {constant}, but they are drawn at random {drawn}, so "
            "there is no size to carry over. Let the factory initialise it in the same way at every width."
        )
    if own.std == 0:
        return 1.0
    factor = goal / own.std
    error = 0.0 if tuned else math.hypot(own.error, base.error)
    return 1.0 if abs(1 / factor - 1) <= ERRORS * error + rounding else factor


def told_mean(own: Spread, entries: int) -> float:
    """The mean about which to scale: zero if the sample does not tell it from zero, so zeros stay zeros."""
    return 0.0 if abs(own.mean) <= ERRORS * own.std / math.sqrt(entries) else own.mean
