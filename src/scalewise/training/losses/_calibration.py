"""Calibration: how often networks are right, by how sure they are."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from scalewise._checked import Count, checked
from scalewise._labelled import dataset


@checked
def reliability(
    probabilities: Annotated[Any, Float[np.ndarray, "output test"]],
    targets: Annotated[Any, Float[np.ndarray, "test output"]],
    *,
    bins: Count = 10,
) -> xr.Dataset:
    """Compare probabilities of classes with how often they are right.

    Args:
        probabilities: ``class_probability`` of a prediction at one time; of one output, of the class 1.
        targets: Test targets: -1 and 1, or a column for each class with the largest entry in the true one.
        bins: Of equal width, from 0 to 1.

    Returns:
        Over the bins that are not empty ``confidence``, the mean probability of the class that is thought most
        probable, ``accuracy``, the part of the samples that are in it, and ``samples``, how many they are;
        ``calibration_error``, the mean distance of the first two over samples, and ``log_likelihood``, the mean
        logarithm of the probability of the true class.

    Raises:
        ValueError: If shapes disagree or a probability is none.

    Source: PDLT (6.11), (10.38): what such probabilities mean; derived.

    Example:
        >>> from scalewise.training.losses import reliability
        >>> round(reliability([[0.9, 0.2]], [[1.0], [-1.0]]).calibration_error.item(), 12)
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
    by_bin = {"confidence": confidence, "accuracy": accuracy, "samples": count[some]}
    whole = {"calibration_error": error, "log_likelihood": score}
    return dataset({name: ("bin", each) for name, each in by_bin.items()} | whole)
