r"""Quadratic forms of the labels of two inputs: what one read-out is made of, for one input and all later ones.

A read-out of inputs $a$ and $b$ reacts to averages of products by a form with three parts, one that takes a label
of each input and one for each of them alone,
$$q=\sum_{s\in a,t\in b}G_{st}x_sx'_t+\sum_{ss'\in a}D_{ss'}x_sx'_{s'}+\sum_{tt'\in b}D'_{tt'}x_tx'_{t'}.$$
Those of an input alone begin as diagonals, because variances move averages, and stay so unless a layer sees several
labels at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from scalewise.theory.order._layout import Spreading, Strip

Diagonal = Float[np.ndarray, "_other _label"]
Rows = Float[np.ndarray, "_unit _label"]
OwnMoments = Callable[[int, tuple[int, int]], np.ndarray]  # of one input with itself


@dataclass(frozen=True)
class Own(ABC):
    """Parts of the first and of the second input alone, of each read-out.

    Args:
        first: By read-out.
        second: Likewise.
    """

    first: np.ndarray
    second: np.ndarray

    @staticmethod
    def nothing(count: int, size: int, *, thin: bool) -> Own:
        """No part, of some read-outs and labels of an input."""
        shape = (count, size) if thin else (count, size, size)
        kind = Diagonals if thin else Squares
        return kind(np.zeros(shape), np.zeros(shape))

    def plus(self, other: Own) -> Own:
        """The sum."""
        return type(self)(self.first + other.first, self.second + other.second)

    def times(self, factor: float) -> Own:
        """A multiple."""
        return type(self)(factor * self.first, factor * self.second)

    @abstractmethod
    def with_diagonals(self, first: Diagonal, second: Diagonal) -> Own:
        """With more on both diagonals."""

    @abstractmethod
    def back(self, through: Spreading, a: int) -> Own:
        """Carried back through the maps of a layer."""

    @abstractmethod
    def answered(self, a: int, moments: OwnMoments) -> Own:
        r"""How $\langle\sigma\sigma\rangle$ of an input alone answers to its covariances."""

    @abstractmethod
    def slopes(self, a: int, moments: OwnMoments) -> tuple[Diagonal, Diagonal]:
        """The linear part."""

    @abstractmethod
    def placed(self, at: Int[np.ndarray, " _read"], size: int) -> Own:
        """Among more labels."""

    @abstractmethod
    def on_first(self, left: Rows, right: Rows) -> Float[np.ndarray, "_unit _other"]:
        """Values on the labels of the first input."""

    @abstractmethod
    def on_second(self, left: Rows, right: Rows) -> Float[np.ndarray, "_unit _other"]:
        """Values on the labels of all second inputs."""


class Diagonals(Own):
    """Where no layer sees several labels at once: (read-out, label)."""

    def with_diagonals(self, first: Diagonal, second: Diagonal) -> Own:
        return Diagonals(self.first + first, self.second + second)

    def back(self, through: Spreading, a: int) -> Own:
        if through.is_plain:
            return self
        one = through.of_input(through.squares, a) @ self.first.T
        last = through.inputs - 1
        other = through.of_input(through.squares, a, last) @ self.second.ravel()
        return Diagonals(one.T, other.reshape(len(self.second), -1))

    def answered(self, a: int, moments: OwnMoments) -> Own:
        own = [moments(b, (1, 1)) + moments(b, (2, 0)) for b in range(a, a + len(self.second))]
        return Diagonals(self.first * own[0], self.second * np.array(own))

    def slopes(self, a: int, moments: OwnMoments) -> tuple[Diagonal, Diagonal]:
        own = [2 * moments(b, (1, 0)) for b in range(a, a + len(self.second))]
        return self.first * own[0], self.second * np.array(own)

    def placed(self, at: Int[np.ndarray, " _read"], size: int) -> Own:
        found = Own.nothing(len(self.first), size, thin=True)
        found.first[:, at], found.second[:, at] = self.first, self.second
        return found

    def on_first(self, left: Rows, right: Rows) -> Float[np.ndarray, "_unit _other"]:
        return (left * right) @ self.first.T.astype(left.dtype, copy=False)

    def on_second(self, left: Rows, right: Rows) -> Float[np.ndarray, "_unit _other"]:
        both = (left * right).reshape(len(left), *self.second.shape)
        return on_second_labels(both, self.second)


class Squares(Own):
    """Where layers see several: (read-out, label, label), symmetric."""

    def with_diagonals(self, first: Diagonal, second: Diagonal) -> Own:
        found = Squares(self.first.copy(), self.second.copy())
        for values, added in ((found.first, first), (found.second, second)):
            np.einsum("bpp->bp", values)[...] += added
        return found

    def back(self, through: Spreading, a: int) -> Own:
        if through.is_plain:
            return self
        size = through.sizes[1]
        first, second = (np.zeros((len(self.first), size, size)) for _ in range(2))
        for one in through.maps:
            B = [through.of_input(one, b).toarray() for b in range(a, through.inputs)]
            first += B[0].T @ self.first @ B[0]
            for place, (values, own) in enumerate(zip(self.second, B, strict=True)):
                second[place] += own.T @ values @ own
        return Squares(first, second)

    def answered(self, a: int, moments: OwnMoments) -> Own:
        inputs = range(a, a + len(self.second))
        M = {pq: np.array([moments(b, pq) for b in inputs]) for pq in ((1, 1), (2, 0))}
        found = Squares(self.first * M[1, 1][0], self.second * M[1, 1])
        return found.with_diagonals(
            (self.first * M[2, 0][0]).sum(axis=2), (self.second * M[2, 0]).sum(axis=2)
        )

    def slopes(self, a: int, moments: OwnMoments) -> tuple[Diagonal, Diagonal]:
        own = [2 * moments(b, (1, 0)) for b in range(a, a + len(self.second))]
        return (self.first * own[0]).sum(axis=2), (self.second * np.array(own)).sum(axis=2)

    def placed(self, at: Int[np.ndarray, " _read"], size: int) -> Own:
        found = Own.nothing(len(self.first), size, thin=False)
        found.first[:, at[:, None], at], found.second[:, at[:, None], at] = self.first, self.second
        return found

    def on_first(self, left: Rows, right: Rows) -> Float[np.ndarray, "_unit _other"]:
        moved = np.tensordot(left, self.first.astype(left.dtype, copy=False), (1, 1))
        return np.einsum("mbp,mp->mb", moved, right)

    def on_second(self, left: Rows, right: Rows) -> Float[np.ndarray, "_unit _other"]:
        apart = (len(left), *self.second.shape[:2])
        moved = left.reshape(apart).swapaxes(0, 1) @ self.second.astype(left.dtype, copy=False)
        return np.einsum("bmp,mbp->mb", moved, right.reshape(apart))


@dataclass(frozen=True)
class Form:
    """The forms of one input with itself and all later ones.

    Args:
        across: (label of the first input, labels of all second ones).
        own: Of each input alone.
    """

    across: Strip
    own: Own

    def plus(self, other: Form) -> Form:
        """The sum."""
        return Form(self.across + other.across, self.own.plus(other.own))

    def times(self, factor: float) -> Form:
        """A multiple."""
        return Form(factor * self.across, self.own.times(factor))

    def back(self, through: Spreading, a: int) -> Form:
        """Carried back through the maps of a layer."""
        return Form(through.back(self.across, a), self.own.back(through, a))

    def placed(self, at: Int[np.ndarray, " _read"], size: int) -> Form:
        """Among more labels."""
        rows, columns = self.across.shape
        count = columns // rows
        if rows == size:
            return self
        across = np.zeros((size, count, size))
        across[at[:, None], :, at] = self.across.reshape(rows, count, rows).transpose(0, 2, 1)
        return Form(across.reshape(size, -1), self.own.placed(at, size))


def on_second_labels(
    values: Float[np.ndarray, "_unit _other _label"], slopes: Diagonal
) -> Float[np.ndarray, "_unit _other"]:
    """Linear forms of the labels of each second input."""
    slopes = slopes.astype(values.dtype, copy=False)
    return (values.swapaxes(0, 1) @ slopes[:, :, None])[:, :, 0].T


def summed(values: Strip) -> tuple[Diagonal, Diagonal]:
    """A strip summed over the labels of the second inputs, and over those of the first."""
    rows, columns = values.shape
    apart = values.reshape(rows, columns // rows, rows)
    return apart.sum(axis=2).T, apart.sum(axis=0)
