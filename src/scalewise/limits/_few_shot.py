"""What every formula about few-shot tasks of linear networks shares."""

from __future__ import annotations

import numpy as np

__all__ = ["augmented", "check_rate", "contrasts", "through_softmax"]


def augmented(x: np.ndarray, alpha: float, M: np.ndarray) -> np.ndarray:
    """The inputs with a last entry alpha, in the precision of M, which must be as wide."""
    if x.shape[-1] + 1 != M.shape[1]:
        raise ValueError(
            f"The inputs of `tasks` must have {M.shape[1] - 1} features for this net; got {x.shape[-1]}."
        )
    X = np.empty((*x.shape[:-1], x.shape[-1] + 1), dtype=M.dtype)
    X[..., :-1] = x
    X[..., -1] = alpha
    return X


def contrasts(k: int) -> np.ndarray:
    """Orthonormal columns that span what adds up to zero over k classes, shape (k, k - 1)."""
    upper = np.tri(k, k - 1, -1) - (k - 1 - np.arange(k - 1)) * np.eye(k, k - 1)
    return upper / np.linalg.norm(upper, axis=0)


def through_softmax(slope: np.ndarray, chi: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """A slope times the Jacobian of chi, the slope of a mean cross-entropy, with respect to the outputs."""
    p = chi * chi.shape[1]
    np.put_along_axis(p, classes[..., None], np.take_along_axis(p, classes[..., None], -1) + 1, -1)
    return p * (slope - (p * slope).sum(-1, keepdims=True)) / chi.shape[1]


def check_rate(name: str, value: float) -> None:
    """Refuse a rate whose square overflows, or that is none."""
    if not 0 <= value <= 1e100:
        raise ValueError(f"`{name}` must be finite and at least 0; got {value}.")
