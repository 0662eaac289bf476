"""Tensors with four samples, each number that symmetry leaves kept once, and read where they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int
from xarray.backends import BackendArray
from xarray.core import indexing

Block = Float[np.ndarray, "_row _column"]
_ORDERED, _ALIKE = "FB", "VAFB"  # pairs of samples with an order, and pairs that may be exchanged


class OfPairs(BackendArray):
    """A tensor at some layers, (layer, sample, sample, sample, sample), as matrices over pairs of samples.

    Args:
        letter: The tensor.
        layers: How many.
        samples: How many.
        dtype: Of the numbers that are kept; what is read is float64.
    """

    def __init__(self, letter: str, layers: int, samples: int, dtype: type = np.float64) -> None:
        self.shape = (layers, *(samples,) * 4)
        self.dtype = np.dtype(np.float64)
        self.alike = letter in _ALIKE
        self.numbers: Int[np.ndarray, "sample sample"] = np.arange(samples**2).reshape(samples, -1)
        if letter not in _ORDERED:
            first, second = np.triu_indices(samples)
            self.numbers[first, second] = self.numbers[second, first] = np.arange(len(first))
        self.rows = int(self.numbers.max()) + 1
        size = self.rows * (self.rows + 1) // 2 if self.alike else self.rows**2
        self.stored = np.zeros((layers, size), dtype)

    def first(self, row: int) -> int:
        """The first column of a row that is kept."""
        return row if self.alike else 0

    def put(self, layer: int, start: int, block: Block) -> None:
        """Rows of pairs from one on, with their columns from the first that is kept of this."""
        begin = self.first(start)
        for row, values in enumerate(block, start):
            at, kept = self._place(row, self.first(row)), values[self.first(row) - begin :]
            self.stored[layer, at : at + len(kept)] = kept

    def _place(self, row: Any, column: Any) -> Any:
        if self.alike:
            row, column = np.minimum(row, column), np.maximum(row, column)
            return row * self.rows - row * (row - 1) // 2 + column - row
        return row * self.rows + column

    def at(self, layer: Any, a: Any, b: Any, c: Any, d: Any) -> np.ndarray:
        """Entries, broadcast like numbers of any array."""
        place = self._place(self.numbers[a, b], self.numbers[c, d])
        return self.stored[layer, place].astype(np.float64)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._outer)

    def _outer(self, key: tuple[Any, ...]) -> np.ndarray:
        """Some of each axis; a number takes its axis away."""
        layers, a, *rest = (
            np.atleast_1d(np.arange(size)[k]) for size, k in zip(self.shape, key, strict=True)
        )
        out = np.empty(tuple(map(len, (layers, a, *rest))))
        grid = np.ix_(*rest)
        for place, layer in enumerate(layers):
            for row, one in enumerate(a):
                out[place, row] = self.at(layer, one, *grid)
        gone = tuple(
            axis for axis, k in enumerate(key) if np.ndim(k) == 0 and not isinstance(k, slice)
        )
        return out.squeeze(gone)

    def __array__(self, dtype: Any = None, /, *, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._outer((slice(None),) * 5), dtype)
