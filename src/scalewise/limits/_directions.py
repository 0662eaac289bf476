r"""One side of a matrix that is never drawn: the directions looked at there, and what the other side's became.

Both are rows over the same particles, and every look needs products with both. They lie in one array as two
stacks back to back: directions as they came grow downwards from the middle, images of the other side's directions
upwards. One product then gives all that a look has to know, and one combines it into its result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

_ROUNDING = 64
# NumPy's wrappers cost more than the factorisations of matrices this small.
_LAPACK: Any = get_lapack_funcs(("potrf", "trtri"), dtype=np.float64)
dpotrf, dtrtri = _LAPACK
# A part beside what is known of this square, relative to the vector, is kept by itself; so is every one from this
# amplification on.
_NEAR = {np.dtype(np.float64): (1e-7, 3e4), np.dtype(np.float32): (1e-2, 1e1)}


@dataclass(frozen=True)
class DirectionsSeen:
    """Coordinates of a batch on known and on new directions, and which of its vectors to keep."""

    coordinates: np.ndarray  # of the batch, on old directions and then on new ones
    kept: np.ndarray  # which of the batch make a new direction
    left: np.ndarray  # coordinates of the vectors to keep on old directions
    # Of the factor of what they have beside those: new directions = inverse @ (vectors - left).
    inverse: np.ndarray
    images: np.ndarray  # averages of the vectors to keep with the images that lie on their side
    squares: np.ndarray  # averages of the squares of the vectors to keep


class Side:
    """The stacks of one space, and a factor that makes its directions orthonormal."""

    def __init__(self, width: int, capacity: int, dtype: np.dtype) -> None:
        self.width = width
        self.count = self.images = 0
        # Pages that are never touched cost no memory: generous allocation is free.
        self._stacks = np.empty((2 * capacity, width), dtype)
        self._middle = capacity
        self._inverse = np.zeros((capacity, capacity))
        self._squares = np.zeros(capacity)
        self._near = _NEAR[dtype]
        self._rounding = _ROUNDING * float(np.finfo(dtype).eps)
        self.amplification = 1.0  # of rounding: of unit rows, by the inverse of their factor

    @property
    def nbytes(self) -> int:
        """Bytes of the stacks."""
        return self._stacks.nbytes

    @property
    def inverse(self) -> np.ndarray:
        """Inverse of the Cholesky factor of the Gram matrix of the rows: directions = inverse @ rows."""
        return self._inverse[: self.count, : self.count]

    def averages(self, X: np.ndarray) -> np.ndarray:
        """Averages of rows with the directions as they came."""
        rows = self._stacks[self._middle - self.count : self._middle]
        return self._scaled((rows @ X.T)[::-1])

    def fresh(self, more: int) -> np.ndarray:
        """Make room for so many more images, and count them as used."""
        self._reserve(self.images + more)
        start = self._middle + self.images
        self.images += more
        return self._stacks[start : start + more]

    def combine(self, rows: np.ndarray, images: np.ndarray) -> np.ndarray:
        """Sums of directions as they came, and of the first images."""
        k, dtype = rows.shape[1], self._stacks.dtype
        weights = np.empty((len(rows), k + images.shape[1]), dtype)
        weights[:, :k] = rows[:, ::-1]
        weights[:, k:] = images
        return weights @ self._stacks[self._middle - k : self._middle + images.shape[1]]

    def floor(self, tolerance: float | int) -> float:
        """Smallest square of a part outside what is known, relative to the vector, that is not rounding."""
        return max(tolerance**2, self._rounding * self.amplification)

    def look(self, X: np.ndarray, tolerance: float | int) -> DirectionsSeen | None:
        """See what a batch adds, and place that behind the directions; `append` makes it one of them.

        ``None`` if a square is not finite.
        """
        b, k = len(X), self.count
        along, images = self._products(X, X)
        known, gram = along[:, :k], along[:, k:]
        squares = gram.diagonal()
        if not math.isfinite(squares.sum()):
            return None
        C = known @ self.inverse.T
        rest, floor = gram - C @ C.T, self.floor(tolerance)
        factor, failed = dpotrf(rest, lower=1, clean=1)
        # Squares of what is beside, relative to the vectors: one pass for both thresholds.
        least = 0.0 if failed or not b else (factor.diagonal() ** 2 / squares).min()
        if least > floor:
            new, kept, left = factor, np.arange(b), C
        else:
            new, kept, factor = _outside(rest, floor * squares)
            left, images, squares = C[kept], images[kept], squares[kept]
            self._place(X[kept])
            least = (factor.diagonal() ** 2 / squares).min(initial=math.inf)
        inverse = _inverse(factor)
        near, amplified = self._near
        apart = self.amplification < amplified and least > near
        if apart or not k or not len(kept):
            both = np.concatenate([C, new], axis=1)
            return DirectionsSeen(both, kept, left, inverse, images, squares)
        return self._beside(X, C, kept, inverse)

    def _beside(
        self, X: np.ndarray, C: np.ndarray, kept: np.ndarray, inverse: np.ndarray
    ) -> DirectionsSeen:
        """Keep vectors nearly within what is known without it, lest the factor of all become singular."""
        b, k, dtype = len(kept), self.count, self._stacks.dtype
        rows = X if b == len(X) else X[kept]
        inside = np.ascontiguousarray((C[kept] @ self.inverse)[:, ::-1], dtype)
        beside = rows - inside @ self._stacks[self._middle - k : self._middle]
        beside = inverse.astype(dtype, copy=False) @ beside
        along, images = self._products(beside, np.concatenate([beside, X]))
        left = along[:b, :k] @ self.inverse.T
        factor = np.linalg.cholesky(along[:b, k:] - left @ left.T)
        inverse = _inverse(factor)
        new = (along[b:, k:] - C @ left.T) @ inverse.T
        # No row of a batch lies along a new direction that comes after it.
        last = np.searchsorted(kept, np.arange(len(X)), side="right") - 1
        new[np.arange(b) > last[:, None]] = 0.0
        squares = (left**2).sum(axis=1) + (factor**2).sum(axis=1)
        both = np.concatenate([C, new], axis=1)
        return DirectionsSeen(both, kept, left, inverse, images[:b], squares)

    def append(self, look: DirectionsSeen) -> None:
        """Make directions of what the last look has placed."""
        k, b = self.count, len(look.kept)
        rows = self._inverse[k : k + b]
        np.matmul(-look.inverse, look.left @ self.inverse, out=rows[:, :k])
        rows[:, k : k + b] = look.inverse
        self._squares[k : k + b] = look.squares
        self.count += b
        amplified = (rows[:, : k + b] ** 2 @ self._squares[: k + b]).max()
        self.amplification = max(self.amplification, math.sqrt(amplified))

    def _products(self, new: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Averages of X with the directions and new ones placed behind them, and with the images."""
        self._place(new)
        here = self.count + len(new)
        # Rows of the stacks first: the product runs through the long array in the order of its memory.
        products = self._stacks[self._middle - here : self._middle + self.images] @ X.T
        return self._scaled(products[:here][::-1]), self._scaled(products[here:])

    def _scaled(self, products: np.ndarray) -> np.ndarray:
        return np.multiply(products, 1 / self.width, dtype=np.float64).T

    def _place(self, X: np.ndarray) -> None:
        self._reserve(self.count + len(X))
        top = self._middle - self.count
        self._stacks[top - len(X) : top] = X[::-1]

    def _reserve(self, need: int) -> None:
        capacity = self._middle
        if need <= capacity:
            return
        size, k, j = max(need, 2 * capacity), self.count, self.images
        stacks = np.empty((2 * size, self.width), self._stacks.dtype)
        stacks[size - k : size + j] = self._stacks[capacity - k : capacity + j]
        inverse, squares = np.zeros((size, size)), np.zeros(size)
        inverse[:k, :k] = self.inverse
        squares[:k] = self._squares[:k]
        self._stacks, self._middle = stacks, size
        self._inverse, self._squares = inverse, squares


def _outside(rest: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split a batch beside what is known: its coordinates on new directions, which rows make one, their factor."""
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
