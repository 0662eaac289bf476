"""Calibration: how often networks are right, by how sure they are."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, checked
from scalewise._readable import readable


@readable
class Reliability(NamedTuple):
    """Test samples in bins of confidence, the probability of the class that is thought most probable.

    Args:
        confidence: Mean of each bin that is not empty.
        accuracy: The part of its samples that are in the class.
        samples: How many they are.
        error: The mean distance of the two over samples: expected calibration error.
        log_likelihood: The mean logarithm of the probability of the true class.
    """

    confidence: Float[np.ndarray, " bin"]
    accuracy: Float[np.ndarray, " bin"]
    samples: Float[np.ndarray, " bin"]
    error: float
    log_likelihood: float


@checked
def reliability(
    probabilities: Annotated[Any, Float[np.ndarray, "output test"]],
    targets: Annotated[Any, Float[np.ndarray, "test output"]],
    *,
    bins: Count = 10,
) -> Reliability:
    """Compare probabilities of classes with how often they are right.

    Args:
        probabilities: ``class_probability`` of a prediction at one time; of one output, of the class 1.
        targets: Test targets: -1 and 1, or a column for each class with the largest entry in the true one.
        bins: Of equal width, from 0 to 1.

    Raises:
        ValueError: If shapes disagree or a probability is none.

    Source: PDLT (6.11), (10.38): what such probabilities mean; derived.

    Example:
        >>> from scalewise.training.losses import reliability
        >>> round(reliability([[0.9, 0.2]], [[1.0], [-1.0]]).error, 12)
        0.15
    """
    p, y = probabilities.T, targets
    if p.shape != y.shape or p.min() < 0 or p.max() > 1:
        raise ValueError(
            f"`probabilities` must be (output, test), between 0 and 1, for targets of shape {y.shape}; got shape "
            f"{probabilities.shape} and values from {p.min():g} to {p.max():g}."
        )
    if p.shape[1] == 1:
        p, y = np.column_stack([1 - p, p]), np.column_stack([-y, y])
    guess, true = p.argmax(axis=1), y.argmax(axis=1)
    sure = p.max(axis=1)
    place = np.minimum((sure * bins).astype(int), bins - 1)
    count = np.bincount(place, minlength=bins).astype(float)
    some = count > 0
    confidence = np.bincount(place, sure, bins)[some] / count[some]
    accuracy = np.bincount(place, guess == true, bins)[some] / count[some]
    error = float((count[some] * np.abs(confidence - accuracy)).sum() / len(p))
    with np.errstate(divide="ignore"):
        score = float(np.log(p[np.arange(len(p)), true]).mean())
    return Reliability(confidence, accuracy, count[some], error, score)
