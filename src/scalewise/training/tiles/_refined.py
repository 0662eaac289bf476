"""Outcomes at one accuracy of expectations after the other, until what is left is little."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

import numpy as np

from scalewise.gaussian import at_least_usual
from scalewise.training._asked import Arrays
from scalewise.training.tiles._rules import Accuracy

_RATIO = 0.2  # of what one accuracy may leave out to what the one before may
ACCURACIES = tuple(Accuracy(1e-4 * _RATIO**k, 1e-2 * _RATIO**k, 1e-2 * _RATIO**k) for k in range(3))
_FINEST = Accuracy(1e-4 * _RATIO**3, 1e-2 * _RATIO**3, 1e-2 * _RATIO**3)  # for few samples
_ENOUGH = 0.01  # of an outcome, root mean square
_SAFETY = 2.0  # for what is left of other samples
_ALONE = 1.5  # of a step that may be small by chance, where no other samples are asked
_LEAST = 3.0  # of what an accuracy may leave out

Outcomes = Callable[[Accuracy], Arrays]


def refined(
    found: Outcomes,
    fits: Callable[[Accuracy], bool] = lambda _: True,
    few: Outcomes | None = None,
    wanted: Collection[str] | None = None,
) -> tuple[Arrays, Arrays]:
    """Outcomes and their errors.

    An error is twice what may be left after the last step from one accuracy to the next: a share of the step that
    is found where a finer accuracy is cheap. A step may be small by chance, so an error is no less than what the
    accuracy may leave out.

    Args:
        found: Outcomes by name at an accuracy.
        fits: Whether a third accuracy, or one behind, can be had.
        few: The same of few of the samples, by which the share is found; without them it is more than all.
        wanted: Names of those that are to be known well; ``None`` for all.
    """
    left = _shares(few) if few is not None else lambda _: _ALONE
    values, errors = found(ACCURACIES[0]), {}
    for place, accuracy in enumerate(ACCURACIES[1:], 1):
        if place > 1 and not fits(accuracy):
            break
        before, values = values, found(accuracy)
        share = _SAFETY * left(place)
        steps = {name: np.asarray(np.abs(v - before[name])) for name, v in values.items()}
        errors = {
            name: np.maximum(
                share * at_least_usual(value, steps[name]), _LEAST * accuracy.across * _size(value)
            )
            for name, value in values.items()
        }
        asked = {k: v for k, v in values.items() if wanted is None or k in wanted}
        if all(_size(errors[name]) <= _ENOUGH * _size(value) for name, value in asked.items()):
            break
    return values, errors


def _shares(found: Outcomes) -> Callable[[int], float]:
    """What an accuracy leaves of the step to it, by its place: most over outcomes; no less than it is made for."""
    at = cache(found)

    def left(place: int) -> float:
        before, after = (at(accuracy) for accuracy in ACCURACIES[place - 1 : place + 1])
        shares = [
            _size(known - after[name]) / step
            for name, known in at(_FINEST).items()
            if known.ndim and (step := _size(after[name] - before[name])) > 0
        ]
        return max(_RATIO, min(1.0, max(shares, default=1.0)))

    return left


def _size(values: np.ndarray | np.floating) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0
