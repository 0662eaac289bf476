"""Outcomes at one accuracy of expectations after the other, until what is left is little."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np

from scalewise.gaussian import at_least_usual
from scalewise.training.tiles._rules import Accuracy

_RATIO = 0.2  # of what one accuracy may leave out to what the one before may
FINER = tuple(Accuracy(2e-5 * _RATIO**k, 1e-2 * _RATIO**k, 1e-2 * _RATIO**k) for k in range(10))
# For many samples, of which series leave out the most.
MANY = tuple(Accuracy(1e-5 * _RATIO**k, 1e-2 * _RATIO**k, 2e-3 * _RATIO**k) for k in range(9))
ACCURACIES = FINER[:3]
ENOUGH = 0.01  # of an outcome, root mean square
_SLOWEST = 0.75  # of a step to the one before, where steps become smaller at all
_SAFETY = 2.0  # for what is left behind a step, and for tests that were not looked at
_ALONE = 1.5  # of a step that may be small by chance
_LEAST = 3.0  # of what an accuracy may leave out
_PATIENCE = 1.0  # minutes, beyond which a user is told how long it takes

Name = TypeVar("Name", bound=Hashable)
Outcomes = dict[str, np.ndarray]


def refined(
    found: Callable[[Accuracy], dict[Name, np.ndarray]],
    fits: Callable[[Accuracy], bool] = lambda _: True,
    wanted: Collection[Name] | None = None,
    *,
    enough: float = ENOUGH,
    levels: Sequence[Accuracy] | None = None,
    rounding: Mapping[Name, np.ndarray] | None = None,
) -> tuple[dict[Name, np.ndarray], dict[Name, np.ndarray]]:
    """Outcomes and their errors.

    An error is twice what may be left after the last step from one accuracy to the next, seen from how much smaller
    steps become. A step may be small by chance, so it counts for no less than those before it let expect, and an
    error is no less than what the accuracy may leave out.

    Args:
        found: Outcomes by name at an accuracy.
        fits: Whether a third accuracy, or one behind, can be had.
        wanted: Names of those that are to be known well; ``None`` for all.
        enough: How well: their errors, relative, root mean squares.
        levels: Accuracies from the coarsest; the first three if ``None``.
        rounding: Steps that are no larger say nothing, as of what training leaves nothing of.
    """
    levels = ACCURACIES if levels is None else levels
    values = found(levels[0])
    errors, sizes = dict[Name, np.ndarray](), defaultdict[Name, list[float]](list)
    for place, accuracy in enumerate(levels[1:], 1):
        if place > 1 and not fits(accuracy):
            break
        before, values = values, found(accuracy)
        steps = {name: np.asarray(np.abs(v - before[name])) for name, v in values.items()}
        for name, step in steps.items():
            sizes[name].append(_size(step))
        least = _LEAST * accuracy.across
        for name, value in values.items():
            left_open = _SAFETY * _seen(sizes[name]) * at_least_usual(value, steps[name])
            errors[name] = np.asarray(np.maximum(left_open, least * _size(value)))
        asked = {k: v for k, v in values.items() if wanted is None or k in wanted}
        still = {k for k, v in (rounding or {}).items() if _size(steps[k]) <= _size(v)}
        if all(k in still or _size(errors[k]) <= enough * _size(v) for k, v in asked.items()):
            break
    return values, errors


def compared(
    whole: Callable[[Accuracy], Outcomes],
    few: Callable[[Accuracy], Outcomes],
    part: Callable[[Outcomes], Outcomes],
    wanted: Collection[str],
    *,
    enough: float,
    levels: Sequence[Accuracy],
    rounding: float = 0.0,
) -> tuple[Outcomes, Outcomes]:
    """Outcomes and their errors at the first accuracy that is enough, or at the last but one.

    An error is twice the distance of a few tests from what the next accuracy says of them, relative to it, root
    mean squares. It may be small by chance, so it is no less than what that accuracy may leave out, nor than
    rounding. Where these are all tests, outcomes are those of the next accuracy.

    Args:
        whole: Outcomes of all tests by name, at an accuracy.
        few: Those of some of the tests, with all training samples; the same function if these are all.
        part: What of outcomes of all tests belongs to these.
        wanted: Names of those that are to be known well.
        enough: How well: their errors, relative.
        levels: Accuracies from the coarsest.
        rounding: What it leaves, relative.
    """
    values = whole(levels[0])
    here, at, after = part(values), levels[0], few(levels[1])
    least = max(rounding, levels[1].across)
    for own, finer in pairwise(levels[1:]):
        shares = _distances(here, after)
        if all(max(shares[name], least) <= enough for name in wanted):
            break
        here, at, after = after, own, few(finer)
        least = max(rounding, finer.across)
    if few == whole:
        values = after
    elif at is not levels[0]:
        values = whole(at)
    return values, {
        name: np.asarray(max(share, least) * np.maximum(np.abs(values[name]), _size(values[name])))
        for name, share in _distances(here, after).items()
    }


def _distances(coarse: Outcomes, fine: Outcomes) -> dict[str, float]:
    """Stated errors, relative."""
    return {
        name: _SAFETY * _size(value - coarse[name]) / (_size(value) or 1.0)
        for name, value in fine.items()
    }


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
        warnings.warn(
            f"Order 1/n of {count} training samples takes about {whole:.2g} minutes of one core. {coarse}{less}",
            stacklevel=6,
        )


def _seen(steps: Sequence[float]) -> float:
    """The part of the last step that is left if the next ones become smaller as the ones before did."""
    expected = list(accumulate(steps, lambda before, now: max(now, _RATIO * before)))
    if len(steps) == 1 or not steps[-1] or not expected[-2]:
        return _ALONE
    ratio = min(expected[-1] / expected[-2], _SLOWEST)
    return ratio / (1 - ratio) * expected[-1] / steps[-1]


def _size(values: np.ndarray | np.floating) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0
