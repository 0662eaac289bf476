"""Terms that a finite width adds to a posterior, and the outcomes that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.training._asked import Arrays, Asked
from scalewise.training._generalisation import class_error_nlo
from scalewise.training.posterior._point import Point

PARTS = ("evidence", "metric_fluctuation", "metric_nlo")
_PAIRS = (("ij", "kl"), ("ik", "jl"), ("il", "jk"))


@dataclass(frozen=True)
class Added:
    r"""Coefficients of 1/n, n the width of the last hidden layer, with an axis of estimates in front.

    Args:
        mean: Of outputs on test samples, in `PARTS`.
        within: Covariance that each output has by itself, or its diagonal.
        between: Covariance that outputs have with one another too, between test samples or of each alone.
        noise: $\langle DSD^T\rangle$ on its diagonal.
        skew: $\langle c\,Du_i\rangle$, if it is wanted.
        square: $\langle c^2\rangle$, likewise.
        evidence: Of the logarithm.
    """

    mean: Float[np.ndarray, "_estimate part output test"]
    within: Float[np.ndarray, "_estimate ..."]
    between: Float[np.ndarray, "_estimate ..."]
    noise: Float[np.ndarray, "_estimate test"]
    skew: Float[np.ndarray, "_estimate output test"] | None
    square: Float[np.ndarray, "_estimate test"] | None
    evidence: Float[np.ndarray, " _estimate"]


def outcomes(asked: Asked, at: Point, layers: Sequence[Added]) -> Arrays:
    """Those on outputs, from what the width of each hidden layer adds."""
    by_part = np.sum([of.mean for of in layers], axis=0)
    mean = by_part.sum(axis=1)
    found = {
        "output_mean_nlo": mean,
        "output_mean_nlo_by_part": by_part,
        "output_mean_nlo_by_layer": np.stack([of.mean.sum(axis=1) for of in layers], axis=1),
        "log_evidence_nlo": np.sum([of.evidence for of in layers], axis=0),
    }
    within = np.sum([of.within for of in layers], axis=0)
    between = np.sum([of.between for of in layers], axis=0)
    eye = np.eye(at.u.shape[1])[:, :, None]
    if at.whole:
        found["output_covariance_nlo"] = between + eye[..., None] * within[:, None, None]
        within, between = (np.einsum("...bb->...b", part) for part in (within, between))
    own = between + eye * within[:, None, None]
    variance = np.einsum("eiib->eib", own)
    shared = np.einsum("eiib->eib", between)
    found["variance_nlo"] = variance
    if asked.task.test_targets is not None and len(asked.tests):
        leading = at.mean - asked.task.test_targets
        found["test_loss_nlo"] = (leading.T * mean + 0.5 * variance).sum(axis=1)
        if layers[0].skew is not None:
            found["test_error_nlo"] = _test_error(asked, at, layers, mean, own)
    if variance.size:
        noise = np.sum([of.noise for of in layers], axis=0)
        # A test input that repeats a training input has no variance to compare with.
        share = (noise + shared.max(axis=1)) / np.where(at.variance > 0, at.variance, np.inf)
        found["learning_parameter"] = share.max(axis=1)
    return found


def _test_error(
    asked: Asked, at: Point, layers: Sequence[Added], mean: np.ndarray, own: np.ndarray
) -> np.ndarray:
    """By all four cumulants of a mixture of Gaussians."""
    wanted, eye = asked.task.test_targets, np.eye(at.u.shape[1])
    assert wanted is not None
    skew, square = (
        np.sum([getattr(of, name) for of in layers], axis=0) for name in ("skew", "square")
    )
    placed = [np.einsum(f"e{i}b,{j}{k}->eijkb", skew, eye) for i, j, k in ("ijk", "jik", "kij")]
    third = np.sum(placed, axis=0)
    pairs = np.sum([np.einsum(f"{a},{b}->ijkl", eye, eye) for a, b in _PAIRS], axis=0)
    fourth = np.einsum("ijkl,eb->eijklb", pairs, square)
    return np.array(
        [
            class_error_nlo(at.mean.T, at.variance, wanted.T, cumulants)
            for cumulants in zip(mean, own, third, fourth, strict=True)
        ]
    )
