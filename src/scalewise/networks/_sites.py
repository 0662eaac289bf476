r"""What a layer does along an axis of positions: the site matrices $B_\tau$, as slices or entry by entry.

A random layer has independent weights for each tap $\tau$, so
$$\mathcal L A=\frac1k\sum_\tau B_\tau AB_\tau^T;$$
a fixed one is a single matrix, $\frac1k\sum_\tau B_\tau$ for an average. A window is cut out of its axis by
$B_\tau[p,q]=1$ for $q=p\cdot\text{stride}+\tau\cdot\text{dilation}-\text{left}$.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable

Padding = Literal["zero", "circular", "valid"]


_MOST_WRITTEN = 10_000  # entries: some 300 kB of text


class Piece(NamedTuple):
    """Positions of the result, and those of the input that they are taken from, one by one."""

    to: slice
    of: slice


@dataclass(frozen=True)
class Window:
    """A window that moves along one axis.

    Args:
        taps: How many positions it sees.
        stride: By how much it moves.
        dilation: How far apart what it sees is.
        padding: What is beyond the ends: zeros or the other end, with the window centred on every `stride`-th
            position; or nothing, so that a window must fit.
    """

    taps: int = 1
    stride: int = 1
    dilation: int = 1
    padding: Padding = "valid"

    @property
    def reach(self) -> int:
        """Length from the first position it sees to the last one."""
        return (self.taps - 1) * self.dilation + 1

    def length(self, size: int) -> int:
        """Number of places on an axis of `size` positions; 0 or less if it does not fit."""
        if self.padding == "valid":
            return (size - self.reach) // self.stride + 1
        return -(-size // self.stride)

    @property
    def stays(self) -> bool:
        """True if it is centred on every position in turn."""
        return self.is_identity or (self.stride == 1 and self.padding != "valid")

    @property
    def mixes(self) -> bool:
        """True if a place sees several positions."""
        return self.taps > 1

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return str(self.taps)

    @property
    def is_identity(self) -> bool:
        """True if it sees one position, and every one in turn."""
        return self.taps == 1 and self.stride == 1

    @property
    def is_circular(self) -> bool:
        """True if the other end is beyond the ends."""
        return self.padding == "circular"

    def covers(self, size: int) -> bool:
        """True if it sees all of `size` positions once, and has one place."""
        return (self.taps, self.dilation, self.padding) == (size, 1, "valid")

    def pieces(self, size: int) -> tuple[tuple[Piece, ...], ...]:
        """Slices for each tap: what it takes from where, on an axis of `size` positions."""
        return _pieces(self, size)


IDENTITY = Window()


@dataclass(frozen=True)
class Transposed:
    """The transpose of a window: each position is written to the places that the window would see there.

    Args:
        window: The window, which takes what this gives to what this takes.
    """

    window: Window

    is_identity = False

    @property
    def is_circular(self) -> bool:
        """True if the other end is beyond the ends."""
        return self.window.is_circular

    @property
    def taps(self) -> int:
        """Number of positions of the window for which a weight matrix is drawn."""
        return self.window.taps

    def length(self, size: int) -> int:
        """Number of places on an axis of `size` positions."""
        if self.window.padding == "valid":
            return (size - 1) * self.window.stride + self.window.reach
        return size * self.window.stride

    def covers(self, size: int) -> bool:
        """False: as slices it never sees all positions once in one place, which a sum would do for."""
        return False

    def pieces(self, size: int) -> tuple[tuple[Piece, ...], ...]:
        """Slices for each tap: what it takes from where, on an axis of `size` positions."""
        there = self.window.pieces(self.length(size))
        return tuple(tuple(Piece(piece.of, piece.to) for piece in pieces) for pieces in there)


Taps = Window | Transposed


@dataclass(frozen=True)
@readable
class Matrix:
    """A fixed matrix of positions: any single site matrix, for what is not a window.

    Args:
        size: How many positions it takes.
        entries: Row by row, as bytes of float64, so that it is a value.
    """

    size: int
    entries: bytes

    is_identity = False
    mixes = True

    def _given(self) -> dict[str, Any]:
        """Entries as they are shown, as a short fingerprint."""
        return {"size": self.size, "entries": self.fingerprint}

    @property
    def fingerprint(self) -> str:
        """Digest of its entries, which tells two matrices of one size apart."""
        return sha256(self.entries).hexdigest()[:12]

    @property
    def written(self) -> str:
        """Entries as text that `read` reads; the fingerprint alone of more than 10,000 that are not 0."""
        found: dict[str, Any] = self._given()
        rows, columns = np.nonzero(self.array)
        if len(rows) <= _MOST_WRITTEN:
            found |= {"places": len(self.array), "rows": rows.tolist(), "columns": columns.tolist()}
            found["values"] = self.array[rows, columns].tolist()
        return json.dumps(found)

    @classmethod
    def read(cls, text: str) -> Matrix:
        """The matrix that was written as text, with all of its bits.

        Raises:
            ValueError: If the text is of no matrix, or of one that was too large.
        """
        try:
            given = json.loads(text)
            array = np.zeros((given["places"], given["size"]))
            array[given["rows"], given["columns"]] = given["values"]
        except (ValueError, KeyError, TypeError, IndexError):
            raise ValueError(
                "A matrix is read from text such as `attrs['matrices']` of a result has, with all its entries; got "
                f"{text[:60]!r}. Of more than {_MOST_WRITTEN:,} entries a result has the fingerprint alone: keep "
                "the matrix beside it."
            ) from None
        return cls.of(array)

    @property
    def said(self) -> str:
        """The name in a table of the network."""
        return "matrix"

    @cached_property
    def array(self) -> Float[np.ndarray, "place position"]:
        """The matrix itself."""
        return np.frombuffer(self.entries).reshape(-1, self.size)

    @cached_property
    def transposed(self) -> Float[np.ndarray, "position place"]:
        """The transpose, in a row."""
        return np.ascontiguousarray(self.array.T)

    @property
    def is_choice(self) -> bool:
        """True if each place is one of the positions."""
        return bool(
            ((self.array == 1).sum(axis=1) == 1).all()
            and (self.array != 0).sum() == len(self.array)
        )

    @classmethod
    def of(cls, array: np.ndarray) -> Matrix:
        """The value of an array (places, positions)."""
        array = np.ascontiguousarray(array, dtype=float) + 0.0  # one zero, so that equal is equal
        return cls(array.shape[1], array.tobytes())

    def length(self, size: int) -> int:
        """Number of places it gives; 0 if it does not fit `size` positions."""
        return len(self.array) if size == self.size else 0


@cache
def _pieces(window: Window, size: int) -> tuple[tuple[Piece, ...], ...]:
    places, stride = window.length(size), window.stride
    left = 0 if window.padding == "valid" else (window.reach - 1) // 2
    taps = []
    for tap in range(window.taps):
        shift = tap * window.dilation - left
        last = (places - 1) * stride + shift
        turns = range(shift // size, last // size + 1) if window.padding == "circular" else range(1)
        here = []
        for turn in turns:
            first = max(0, math.ceil((turn * size - shift) / stride))
            stop = min(places, (turn * size + size - 1 - shift) // stride + 1)
            if first < stop:
                start = first * stride + shift - turn * size
                end = start + (stop - first - 1) * stride + 1
                here.append(Piece(slice(first, stop), slice(start, end, stride)))
        taps.append(tuple(here))
    return tuple(taps)
