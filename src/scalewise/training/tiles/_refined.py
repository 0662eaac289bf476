"""Outcomes at one accuracy of expectations after the other, until what still moves is little."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scalewise.gaussian import at_least_usual
from scalewise.training._asked import Arrays
from scalewise.training.tiles._conditioned import Accuracy

_RATIO = 0.2  # of what one accuracy may leave out to what the one before may
ACCURACIES = tuple(Accuracy(2e-4 * _RATIO**k, 2e-2 * _RATIO**k, 2e-2 * _RATIO**k) for k in range(3))
_ENOUGH = 0.03  # of an outcome, root mean square: what is left is a fraction of it
_SAFETY = 2.0  # for steps that do not become smaller


def refined(
    found: Callable[[Accuracy], Arrays], fits: Callable[[Accuracy], bool] = lambda _: True
) -> tuple[Arrays, Arrays]:
    """Outcomes and their errors.

    An error is twice the last step: each accuracy leaves out a fraction of the one before.

    Args:
        found: Outcomes by name at an accuracy.
        fits: Whether a third accuracy, or one behind, can be had.
    """
    values, errors = found(ACCURACIES[0]), {}
    for place, accuracy in enumerate(ACCURACIES[1:]):
        if place and not fits(accuracy):
            break
        before, values = values, found(accuracy)
        errors = {
            name: _SAFETY * at_least_usual(value, np.asarray(np.abs(value - before[name])))
            for name, value in values.items()
        }
        if all(_size(errors[name]) <= _ENOUGH * _size(value) for name, value in values.items()):
            break
    return values, errors


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0
