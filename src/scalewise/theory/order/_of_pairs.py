"""Tensors with four samples, each number that symmetry leaves kept once, and read where they are asked for.

Pairs of samples are counted by the later sample, so that those among the first few samples come first. A pair is
kept beside all pairs whose later sample is no later than its own: the rest is the same by an exchange of pairs.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from xarray.backends import BackendArray
from xarray.core import indexing

Block = Float[np.ndarray, "_row _column"]
_ORDERED, _ALIKE = "FB", "VAFB"  # pairs of samples with an order, and pairs that may be exchanged


class OfPairs(BackendArray):
    """A tensor at some layers, (layer, sample, sample, sample, sample), as rows of pairs of samples.

    Args:
        letter: The tensor.
        layers: How many.
        samples: How many.
        dtype: Of the numbers that are kept; what is read is float64.
    """

    def __init__(self, letter: str, layers: int, samples: int, dtype: type = np.float64) -> None:
        self.shape = (layers, *(samples,) * 4)
        self.dtype = np.dtype(np.float64)
        self.letter = letter
        self.ordered, self.alike = letter in _ORDERED, letter in _ALIKE
        self.turns = letter == "B"  # both pairs may be turned over
        self.first, self.second = pairs_by_later(samples, ordered=self.ordered)
        self.numbers: Int[np.ndarray, "sample sample"] = np.empty((samples, samples), int)
        count = np.arange(len(self.first))
        if not self.ordered:
            self.numbers[self.second, self.first] = count
        self.numbers[self.first, self.second] = count
        self._later = np.maximum.outer(np.arange(samples), np.arange(samples))
        widths = self.until(self._later[self.first, self.second])
        if self.turns:  # a row serves both orders of its pair
            widths = np.where(self.first > self.second, 0, widths)
        ends = np.cumsum(widths)
        starts = (ends - widths)[self.numbers]
        self._starts = np.where(self._turned, starts.T, starts)
        # Of two pairs with one later sample the first by number is read as the row, so that an exchange is exact.
        key = np.where(self._turned, self.numbers.T, self.numbers)
        self._rank = self._later * (samples**2 + 1) - key
        sides = 1 if self.alike else 2
        self._side = int(ends[-1])
        self.stored = np.zeros((layers, sides * self._side), dtype)

    def until(self, later: Any) -> Any:
        """How many pairs have no later sample than one of the samples."""
        return (later + 1) ** 2 if self.ordered else (later + 1) * (later + 2) // 2

    @property
    def _turned(self) -> np.ndarray:
        order = np.arange(self.shape[1])
        return (order[:, None] > order) & self.turns

    def rows(self, layer: int, later: int, kind: int = 0) -> Block:
        """The rows of pairs with one later sample, by the other sample: to be written to.

        Args:
            layer: Which.
            later: The later sample.
            kind: Second pairs if 1; of a tensor that has none pairs that begin with the later sample, without
                the sample itself.
        """
        over = self.ordered and kind == 1
        at, width = (later, 0) if over else (0, later), self.until(later)
        start = (0 if self.alike else kind * self._side) + self._starts[at]
        count = later if over else later + 1
        return self.stored[layer, start : start + count * width].reshape(count, width)

    def add(
        self, layer: int, later: int, values: Float[np.ndarray, "_row _pair"], kind: int = 0
    ) -> None:
        """Add to the entries of the pairs of `rows` with all pairs, both ways: to a pair with itself twice.

        Args:
            layer: Which.
            later: The later sample.
            values: By the number of the other pair.
            kind: Of the rows.
        """
        rows = self.rows(layer, later, kind)
        rows += values[:, : rows.shape[1]]
        rest = slice(self.until(later - 1), None)
        over = self.ordered and kind == 1
        first = self.numbers[(later, 0) if over else (0, later)]
        begin = 0 if self.alike else (1 - kind) * self._side
        starts = begin + self._starts[self.first[rest], self.second[rest]] + first
        places = starts[:, None] + np.arange(len(values))
        self.stored[layer, places] += values[:, rest].T

    def at(self, layer: Any, a: Any, b: Any, c: Any, d: Any) -> np.ndarray:
        """Entries, broadcast like numbers of any array."""
        swapped = self._rank[a, b] < self._rank[c, d]
        one, other = self._place(a, b, c, d), self._place(c, d, a, b)
        place = np.where(swapped, other + (0 if self.alike else self._side), one)
        return self.stored[layer, place].astype(np.float64)

    def _place(self, a: Any, b: Any, c: Any, d: Any) -> np.ndarray:
        column = self.numbers[c, d]
        if self.turns:
            column = np.where(self._turned[a, b], self.numbers.T[c, d], column)
        return self._starts[a, b] + column

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._outer)

    def _outer(self, key: tuple[Any, ...]) -> np.ndarray:
        """Some of each axis; a number takes its axis away."""
        layers, a, b, *rest = (
            np.atleast_1d(np.arange(size)[k]) for size, k in zip(self.shape, key, strict=True)
        )
        out = np.empty(tuple(map(len, (layers, a, b, *rest))))
        grid = np.ix_(*rest)
        for place in product(*map(range, out.shape[:3])):  # a processor keeps two axes at hand
            layer, first, second = (of[k] for of, k in zip((layers, a, b), place, strict=True))
            out[place] = self.at(layer, first, second, *grid)
        gone = tuple(
            axis for axis, k in enumerate(key) if np.ndim(k) == 0 and not isinstance(k, slice)
        )
        return out.squeeze(gone)

    def __array__(self, dtype: Any = None, /, *, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._outer((slice(None),) * 5), dtype)


def pairs_by_later(samples: int, *, ordered: bool) -> tuple[np.ndarray, np.ndarray]:
    """First and second samples of all pairs, pairs among the first few samples first.

    Args:
        samples: How many.
        ordered: Whether a pair and the same turned over are two; else the first sample is not the later one.
    """
    second, first = np.tril_indices(samples)
    if not ordered:
        return first, second
    parts = []
    for later in range(samples):
        upto = np.arange(later + 1)
        same = np.full_like(upto, later)
        parts.append([np.append(upto, same[:-1]), np.append(same, upto[:-1])])
    first, second = (np.concatenate(side) for side in zip(*parts, strict=True))
    return first, second
