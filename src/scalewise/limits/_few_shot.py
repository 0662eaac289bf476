"""What every formula about few-shot tasks of linear networks shares."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from scalewise._checked import Must

# A rate whose square does not overflow.
Rate = Annotated[float | int, Must("a number from 0 to 1e100", lambda v: 0 <= v <= 1e100)]


def augmented(x: np.ndarray, alpha: float, M: np.ndarray) -> np.ndarray:
    """The inputs with a last entry alpha, in the precision of M, which must be as wide."""
    if x.shape[-1] + 1 != M.shape[1]:
        raise ValueError(
            f"The inputs of `tasks` must have {M.shape[1] - 1} features for this net; got {x.shape[-1]}."
        )
    X = np.empty((*x.shape[:-1], x.shape[-1] + 1), dtype=M.dtype)
    with np.errstate(over="ignore"):  # in single precision; what follows refuses what is not finite
        X[..., :-1] = x
    X[..., -1] = alpha
    return X


def contrasts(k: int) -> np.ndarray:
    """Orthonormal columns that span what adds up to zero over k classes, shape (k, k - 1)."""
    upper = np.tri(k, k - 1, -1) - (k - 1 - np.arange(k - 1)) * np.eye(k, k - 1)
    return upper / np.linalg.norm(upper, axis=0)


def softmax_loss(f: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """The mean cross-entropy over the samples of each task, and its slope, whatever the numbers."""
    if y.shape != f.shape[:-1]:
        raise ValueError(f"`y` must hold one class per row, shape {f.shape[:-1]}; got {y.shape}.")
    if y.size and not 0 <= y.min() <= y.max() < f.shape[-1]:
        raise ValueError(
            f"`y` must hold classes from 0 to {f.shape[-1] - 1}; got {y.min()} to {y.max()}."
        )
    centred = f - f.max(-1, keepdims=True)
    p = np.exp(centred)
    total = p.sum(-1, keepdims=True)
    p /= total
    chosen = np.take_along_axis(centred, y[..., None], -1) - np.log(total)
    np.put_along_axis(p, y[..., None], np.take_along_axis(p, y[..., None], -1) - 1, -1)
    return -chosen[..., 0].mean(-1), p / f.shape[-2]


def through_softmax(slope: np.ndarray, chi: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """A slope times the Jacobian of chi, the slope of a mean cross-entropy, with respect to the outputs."""
    p = chi * chi.shape[1]
    np.put_along_axis(p, classes[..., None], np.take_along_axis(p, classes[..., None], -1) + 1, -1)
    return p * (slope - (p * slope).sum(-1, keepdims=True)) / chi.shape[1]
