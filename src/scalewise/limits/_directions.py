r"""Directions of one space that have been looked at: rows as they came, and a factor to make them orthonormal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

__all__ = ["Rows", "Side"]

_ROUNDING = 64
# NumPy's wrappers cost more than the factorisations of matrices this small.
_LAPACK: Any = get_lapack_funcs(("potrf", "trtri"), dtype=np.float64)
dpotrf, dtrtri = _LAPACK
# A part beside what is known of this square, relative to the vector, is kept by itself; so is every one from this
# amplification on.
_NEAR = {np.dtype(np.float64): (1e-6, 1e3), np.dtype(np.float32): (1e-2, 1e1)}


@dataclass(frozen=True)
class Rows:
    """Vectors to keep, their coordinates on the directions so far, and the factor of what is left."""

    vectors: np.ndarray
    coordinates: np.ndarray
    factor: np.ndarray
    inverse: np.ndarray


class Side:
    """What has been looked at on one side: rows as they came, their noise on the other side, a factor.

    Args:
        width: Of the space the rows live in.
        other: Width of the space their images live in.
        capacity: Rows to allocate at first.
        dtype: Of both.
    """

    def __init__(self, width: int, other: int, capacity: int, dtype: np.dtype) -> None:
        self.width = width
        self.count = 0
        # Pages that are never touched cost no memory: generous allocation is free.
        self._rows = np.empty((capacity, width), dtype)
        self._noise = np.empty((capacity, other), dtype)
        self._inverse = np.zeros((capacity, capacity))
        self._lengths = np.zeros(0)
        self.amplification = 1.0  # of rounding: of unit rows, by the inverse of their factor

    @property
    def rows(self) -> np.ndarray:
        return self._rows[: self.count]

    @property
    def noise(self) -> np.ndarray:
        return self._noise[: self.count]

    @property
    def inverse(self) -> np.ndarray:
        """Of the Cholesky factor of the Gram matrix of the rows: directions = inverse @ rows."""
        return self._inverse[: self.count, : self.count]

    def reserve(self, more: int) -> np.ndarray:
        """Room for the noise of so many rows more."""
        need, capacity = self.count + more, len(self._rows)
        if need > capacity:
            size = max(need, 2 * capacity)
            for name in ("_rows", "_noise"):
                old = getattr(self, name)
                new = np.empty((size, old.shape[1]), old.dtype)
                new[: self.count] = old[: self.count]
                setattr(self, name, new)
            inverse = np.zeros((size, size))
            inverse[: self.count, : self.count] = self.inverse
            self._inverse = inverse
        return self._noise[self.count : need]

    def floor(self, tolerance: float | int) -> float:
        """Smallest square of a part outside what is known, relative to the vector, that is no rounding."""
        return max(
            tolerance**2, _ROUNDING * float(np.finfo(self._rows.dtype).eps) * self.amplification
        )

    def look(
        self, X: np.ndarray, tolerance: float | int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Rows]:
        """Coordinates of a batch on old and on new directions, which of it makes a new one, and rows to keep."""
        scale = 1 / self.width
        known = X @ self.rows.T * scale if self.count else np.zeros((len(X), 0))
        C = known @ self.inverse.T
        gram = X @ X.T * scale
        new, kept, factor = _outside(gram, C, self.floor(tolerance))
        inverse = _inverse(factor)
        every = len(kept) == len(X)
        rows = Rows(X if every else X[kept], C if every else C[kept], factor, inverse)
        if not len(kept) or not self.count:
            return C, new, kept, rows
        near, amplified = _NEAR[X.dtype]
        if (
            self.amplification < amplified
            and (factor.diagonal() ** 2 > near * gram.diagonal()[kept]).all()
        ):
            return C, new, kept, rows
        # Nearly within what is known: keep what lies beside it, lest the factor of all rows become singular.
        inside = (rows.coordinates @ self.inverse).astype(X.dtype, copy=False)
        beside = rows.vectors - inside @ self.rows
        beside = inverse.astype(X.dtype, copy=False) @ beside
        left = beside @ self.rows.T * scale @ self.inverse.T
        rest = beside @ beside.T * scale - left @ left.T
        factor = np.linalg.cholesky(rest)
        rows = Rows(beside, left, factor, _inverse(factor))
        new = (X @ beside.T * scale - C @ left.T) @ rows.inverse.T
        return (
            C,
            np.where(np.arange(len(kept)) <= _last(kept, len(X))[:, None], new, 0.0),
            kept,
            rows,
        )

    def append(self, rows: Rows) -> None:
        """Keep rows."""
        k, b = self.count, len(rows.vectors)
        lengths = np.sqrt((rows.coordinates**2).sum(axis=1) + (rows.factor**2).sum(axis=1))
        self._lengths = np.concatenate([self._lengths[:k], lengths])
        inverse = rows.inverse
        self._rows[k : k + b] = rows.vectors
        self._inverse[k : k + b, :k] = -inverse @ (rows.coordinates @ self.inverse)
        self._inverse[k : k + b, k : k + b] = inverse
        self.count += b
        scaled = self._inverse[k : k + b, : k + b] * self._lengths
        amplified = np.einsum("ij,ij->i", scaled, scaled).max()
        self.amplification = max(self.amplification, math.sqrt(amplified))


def _outside(
    gram: np.ndarray, C: np.ndarray, least: float | int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split a batch beside what is known: its coordinates on new directions, which rows make one, their factor."""
    gram = gram.astype(np.float64, copy=False)
    rest = gram - C @ C.T
    floor = least * np.diagonal(gram)
    factor, failed = dpotrf(rest, lower=1, clean=1)
    if not failed and (np.diagonal(factor) ** 2 > floor).all():
        return factor, np.arange(len(rest)), factor
    new = np.zeros_like(rest)
    kept: list[int] = []
    for a in range(len(rest)):
        # A row of a Cholesky factorisation that skips what adds nothing.
        for column, other in enumerate(kept):
            new[a, column] = (rest[a, other] - new[a, :column] @ new[other, :column]) / new[
                other, column
            ]
        left = rest[a, a] - new[a, : len(kept)] @ new[a, : len(kept)]
        if left > floor[a]:
            new[a, len(kept)] = math.sqrt(left)
            kept.append(a)
    new = new[:, : len(kept)]
    return new, np.array(kept, dtype=np.intp), new[kept]


def _inverse(factor: np.ndarray) -> np.ndarray:
    return dtrtri(factor, lower=1)[0] if len(factor) else factor


def _last(kept: np.ndarray, count: int) -> np.ndarray:
    """Index of the last new direction that each row of a batch may lie along: those of itself and before."""
    return np.searchsorted(kept, np.arange(count), side="right") - 1
