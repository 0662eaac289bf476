"""Outcomes at one accuracy of expectations after the other, until what is left is little."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import TypeVar

import numpy as np

from scalewise._warn import warn
from scalewise.gaussian.spi import at_least_usual
from scalewise.training.tiles._rules import Accuracy

_RATIO = 0.2  # of what one accuracy may leave out to what the one before may
FINER = tuple(Accuracy(3.5e-6 * _RATIO**k, 4e-3 * _RATIO**k, 2.5e-3 * _RATIO**k) for k in range(10))
ACCURACIES = FINER[:3]
_FINEST = FINER[3]  # for few samples
ENOUGH = 0.01  # of an outcome, root mean square
_SLOWEST = 0.75  # of a step to the one before, where steps become smaller at all
_SAFETY = 2.0  # for what is left of other samples
_ALONE = 1.5  # of a step that may be small by chance, where no other samples are asked
_LEAST = 3.0  # of what an accuracy may leave out
_PATIENCE = 1.0  # minutes, beyond which a user is told how long it takes

Name = TypeVar("Name", bound=Hashable)


def refined(
    found: Callable[[Accuracy], dict[Name, np.ndarray]],
    fits: Callable[[Accuracy], bool] = lambda _: True,
    few: Callable[[Accuracy], dict[Name, np.ndarray]] | None = None,
    wanted: Collection[Name] | None = None,
    *,
    enough: float = ENOUGH,
    levels: Sequence[Accuracy] | None = None,
    rounding: Mapping[Name, np.ndarray] | None = None,
    least: float = 0.0,
) -> tuple[dict[Name, np.ndarray], dict[Name, np.ndarray]]:
    """Outcomes and their errors.

    An error is twice what may be left after the last step from one accuracy to the next: a share of the step that
    is found where a finer accuracy is cheap, and otherwise seen from how much smaller steps become. A step may be
    small by chance, so it counts for no less than those before it let expect, and an error is no less than what the
    accuracy may leave out. Of a step that is larger than the outcome all may be left.

    Args:
        found: Callable[[Accuracy], dict[Name, np.ndarray]] by name at an accuracy.
        fits: Whether a third accuracy, or one behind, can be had.
        few: The same of few of the samples, by which the share is found; without them it is more than all.
        wanted: Names of those that are to be known well; ``None`` for all.
        enough: How well: their errors, relative, root mean squares.
        levels: Accuracies from the coarsest; those that hundreds of samples can have if ``None``.
        rounding: Steps that are no larger say nothing, as of what training leaves nothing of.
        least: Of an outcome, root mean square, what no accuracy of expectations leaves less open than.
    """
    levels = ACCURACIES if levels is None else levels
    left = None if few is None else _shares(few)
    values = found(levels[0])
    errors, sizes = dict[Name, np.ndarray](), defaultdict[Name, list[float]](list)
    for place, accuracy in enumerate(levels[1:], 1):
        if place > 1 and not fits(accuracy):
            break
        before, values = values, found(accuracy)
        steps = {name: np.asarray(np.abs(v - before[name])) for name, v in values.items()}
        for name, step in steps.items():
            sizes[name].append(_size(step))
        known = left(levels[place - 1], accuracy) if left else None
        share = {
            k: (_seen(sizes[k]) if known is None else known) * _chance(sizes[k]) for k in values
        }
        floor = max(least, _LEAST * accuracy.across)
        for name, value in values.items():
            # Of a step that is larger than the outcome no share is known.
            part = share[name] if sizes[name][-1] <= _size(value) else max(share[name], 1.0)
            left_open = _SAFETY * part * at_least_usual(value, steps[name])
            errors[name] = np.asarray(np.maximum(left_open, floor * _size(value)))
        asked = {k: v for k, v in values.items() if wanted is None or k in wanted}
        still = {k for k, v in (rounding or {}).items() if _size(steps[k]) <= _size(v)}
        if all(k in still or _size(errors[k]) <= enough * _size(v) for k, v in asked.items()):
            break
    return values, errors


def levels_until(enough: float) -> Sequence[Accuracy]:
    """The accuracies that `refined` goes through at least, among all, until errors may be that small."""
    reached = (k for k, x in enumerate(FINER) if k and _LEAST * x.across <= enough)
    return FINER[: 1 + next(reached, len(FINER) - 1)]


def tell_of_time(seconds: Sequence[float], count: int, less: str) -> None:
    """A warning before the first of some accuracies if they try somebody's patience.

    Args:
        seconds: About, that each takes of one core.
        count: Of training samples.
        less: A sentence that says what takes less.
    """
    whole, two = sum(seconds) / 60, sum(seconds[:2]) / 60
    if whole > _PATIENCE:
        coarse = f"`accuracy=0.1` takes {two:.2g} of them at most. " if len(seconds) > 2 else ""
        warn(
            f"Order 1/n of {count} training samples takes about {whole:.2g} minutes of one core. {coarse}{less}",
        )


def _seen(steps: Sequence[float]) -> float:
    """The part of the last step that is left if the next ones become smaller as the ones before did."""
    expected = _expected(steps)
    if len(steps) == 1 or not steps[-1] or not expected[-2]:
        return _ALONE
    ratio = min(expected[-1] / expected[-2], _SLOWEST)
    return ratio / (1 - ratio)


def _chance(steps: Sequence[float]) -> float:
    """How many times smaller than those before it let expect the last step is, by chance."""
    return _expected(steps)[-1] / steps[-1] if steps[-1] else 1.0


def _expected(steps: Sequence[float]) -> list[float]:
    return list(accumulate(steps, lambda before, now: max(now, _RATIO * before)))


def _shares(
    found: Callable[[Accuracy], dict[Name, np.ndarray]],
) -> Callable[[Accuracy, Accuracy], float]:
    """The share of the step to an accuracy that it leaves: most over outcomes; no less than it is made for."""
    at = cache(found)

    def left(coarse: Accuracy, fine: Accuracy) -> float:
        before, after = at(coarse), at(fine)
        finer = max(FINER.index(fine) + 1, FINER.index(_FINEST))
        shares = [
            _size(known - after[name]) / step
            for name, known in at(FINER[min(finer, len(FINER) - 1)]).items()
            if known.ndim and (step := _size(after[name] - before[name])) > 0
        ]
        return max(fine.nodes / coarse.nodes, min(1.0, max(shares, default=1.0)))

    return left


def _size(values: np.ndarray | np.floating) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0
