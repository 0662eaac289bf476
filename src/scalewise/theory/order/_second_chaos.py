r"""Covariances of quadratic forms of Gaussian labels, exactly: what two read-outs have in common at second order.

A form $q=\sum g_{st}(z_sz_t-K_{st})$ with parts across two inputs and in each of them has with another one
$$\mathrm{Cov}[q,q']=\langle g',T+T^T\rangle,\qquad T=KgK,$$
which is read off at the blocks of $g'$; of forms in a field and a tangent, or in two tangents, $T=Kg\Theta$ and
$T=\Theta g\Theta$, and $T$ alone counts. Linear parts have $\ell^TK\ell'$.

Source: Isserlis' theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np
from jaxtyping import Float

from scalewise.theory.order._forms import Diagonals, Form, Own

Square = Float[np.ndarray, "label label"]
Pairs = Float[np.ndarray, "pair pair"]


@dataclass
class Forms:
    """The forms of all read-outs.

    Args:
        inputs: How many.
        across: On all labels, the block of inputs a, b that of their read-out, and the same turned over.
        own: Of each input alone, read-out by read-out.
        linear: Likewise, of the first and of the second input; ``None`` if there is no such part.
    """

    inputs: int
    across: Square
    own: Own
    linear: Own | None = None

    @staticmethod
    def empty(inputs: int, size: int, *, thin: bool, linear: bool) -> Forms:
        """Of no read-outs yet."""
        count = inputs * (inputs + 1) // 2
        return Forms(
            inputs,
            np.zeros((inputs * size, inputs * size)),
            Own.nothing(count, size, thin=thin),
            Own.nothing(count, size, thin=True) if linear else None,
        )

    def set(self, a: int, form: Form, linear: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Those of an input with itself and all later ones."""
        size, start = len(form.across), a * len(form.across)
        self.across[start : start + size, start:] = form.across
        self.across[start:, start : start + size] = form.across.T
        rows = strip_of(self.inputs, a)
        self.own.first[rows], self.own.second[rows] = form.own.first, form.own.second
        if self.linear is not None and linear is not None:
            self.linear.first[rows], self.linear.second[rows] = linear

    @property
    def size(self) -> int:
        """Labels of an input."""
        return len(self.across) // self.inputs

    def block(self, a: int, b: int) -> np.ndarray:
        """The part across two inputs, in either order."""
        size = self.size
        return self.across[a * size : (a + 1) * size, b * size : (b + 1) * size]


def strip_of(inputs: int, a: int) -> slice:
    """Where the read-outs of an input with itself and all later ones stand among all."""
    start = a * inputs - a * (a - 1) // 2
    return slice(start, start + inputs - a)


def pairs(inputs: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Inputs of all read-outs, $a\le b$."""
    return np.triu_indices(inputs)


def symmetric(kinds: Sequence[Forms], K: Square) -> dict[tuple[int, int], Pairs]:
    """Covariances of read-outs that have no order, by their kinds: of each with itself and with all later ones.

    Args:
        kinds: The forms of each.
        K: Covariances of the labels.
    """
    inputs, size = kinds[0].inputs, kinds[0].size
    first, second = pairs(inputs)
    shape, numbers = (len(first), len(first)), range(len(kinds))
    found = {key: np.zeros(shape) for key in combinations_with_replacement(numbers, 2)}
    beside = {key: np.zeros(shape) for key in product(numbers, repeat=2)}
    for row, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        later, start = strip_of(inputs, a).start, a * size
        at = first[later:] - a, second[later:] - a
        for k, one in enumerate(kinds):
            half = K[:, _at(a, size)] @ one.block(a, b)
            # Pairs of earlier inputs have met this one already.
            T = half[start:] @ K[_at(b, size), start:]
            for m, other in enumerate(kinds):
                R = _by_blocks(T, other.across[start:, start:], inputs - a)
                values = (R + R.T)[at]
                if k <= m:
                    found[k, m][row, later:] = values
                if m <= k:
                    found[m, k][later:, row] = values
                seen = _seen(other.own, half, K[_at(b, size)], inputs)
                beside[k, m][row] = 2 * _against(other.own, seen, first, second)
    for (k, m), values in found.items():
        one, other = kinds[k], kinds[m]
        values += beside[k, m] + beside[m, k].T
        values += 2 * _of_own(one.own, other.own, K, K, first, second)
        if one.linear is not None and other.linear is not None:
            values += _linear(one.linear, other.linear, K, first, second)
    return found


def ordered(forms: Forms, left: Square, right: Square, *, own: bool) -> np.ndarray:
    """Covariances of read-outs with an order.

    Args:
        forms: Of the metric.
        left: Covariances of what stands on the first input.
        right: And on the second.
        own: Whether there are parts of the second input alone, twice those of the metric, and linear ones.
    """
    N, size, (first, second) = forms.inputs, forms.size, pairs(forms.inputs)
    found, beside = (np.zeros((N, N, N, N)) for _ in range(2))
    for a, b in product(range(N), repeat=2):
        start = a * size
        half = left[:, _at(a, size)] @ forms.block(a, b)
        T = half[start:] @ right[_at(b, size)]
        values = _by_blocks(T, forms.across[start:], N)
        found[a, b, a:] = values
        found[a:, :, a, b] = values
        if own:
            seen = _seen(forms.own, half, right[_at(b, size)], N)
            beside[a, b] = 2 * _of_second(forms.own, seen, first, second)
    if not own:
        return found
    found += beside + beside.transpose(2, 3, 0, 1)
    for a, b in product(range(N), repeat=2):
        one = _own_of(forms.own, a, b, N)
        found[a, b] += 4 * _of_second(forms.own, _of_one(one, left, right, b, N), first, second)
        if forms.linear is not None:
            moved = right[:, _at(b, size)] @ _own_of(forms.linear, a, b, N)
            found[a, b] += _of_second(forms.linear, moved.reshape(N, -1), first, second)
    return found


def _at(a: int, size: int) -> slice:
    return slice(a * size, (a + 1) * size)


def _by_blocks(T: np.ndarray, across: np.ndarray, inputs: int) -> Float[np.ndarray, "_row _input"]:
    """The sums of a product over pairs of inputs."""
    size = T.shape[1] // inputs
    found = np.empty((len(T) // size, inputs))
    for c in range(len(found)):
        values = T[_at(c, size)] * across[_at(c, size)]
        found[c] = values.sum(axis=0).reshape(inputs, size).sum(axis=1)
    return found


def _seen(own: Own, half: np.ndarray, right: np.ndarray, inputs: int) -> np.ndarray:
    """What parts of one input alone see of a product of two matrices."""
    if isinstance(own, Diagonals):
        return np.einsum("up,pu->u", half, right).reshape(inputs, -1)
    size = len(right)
    return half.reshape(inputs, size, size) @ right.reshape(size, inputs, size).swapaxes(0, 1)


def _against(own: Own, blocks: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Sums of a product with the parts of all read-outs."""
    axes = tuple(range(1, own.first.ndim))
    return (own.first * blocks[first]).sum(axis=axes) + (own.second * blocks[second]).sum(axis=axes)


def _of_second(
    own: Own, blocks: np.ndarray, first: np.ndarray, second: np.ndarray
) -> Float[np.ndarray, "_input _input2"]:
    """The same of read-outs with an order: of their second input alone, which the other order has as its first."""
    axes = tuple(range(1, own.first.ndim))
    found = np.empty((len(blocks), len(blocks)))
    found[second, first] = (own.first * blocks[first]).sum(axis=axes)
    found[first, second] = (own.second * blocks[second]).sum(axis=axes)
    return found


def _own_of(own: Own, a: int, b: int, inputs: int) -> np.ndarray:
    """The part of the second input alone of a read-out with an order."""
    low, high = min(a, b), max(a, b)
    place = strip_of(inputs, low).start + high - low
    return own.second[place] if a <= b else own.first[place]


def _of_one(one: np.ndarray, left: Square, right: Square, a: int, inputs: int) -> np.ndarray:
    """What parts of one input alone see of those of another one."""
    at = _at(a, one.shape[-1])
    if one.ndim == 1:
        return ((left[:, at] * right[:, at]) @ one).reshape(inputs, -1)
    size = len(one)
    L, R = (C[:, at].reshape(inputs, size, size) for C in (left, right))
    return L @ one @ R.swapaxes(1, 2)


def _of_own(
    one: Own, other: Own, left: Square, right: Square, first: np.ndarray, second: np.ndarray
) -> Pairs:
    """Of parts of one input alone with each other."""
    inputs = int(second.max()) + 1
    found = np.empty((len(first), len(first)))
    for row, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        blocks = _of_one(one.first[row], left, right, a, inputs)
        blocks = blocks + _of_one(one.second[row], left, right, b, inputs)
        found[row] = _against(other, blocks, first, second)
    return found


def _linear(one: Own, other: Own, K: Square, first: np.ndarray, second: np.ndarray) -> Pairs:
    size, inputs = one.first.shape[1], int(second.max()) + 1
    found = np.empty((len(first), len(first)))
    for row, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        moved = K[:, _at(a, size)] @ one.first[row] + K[:, _at(b, size)] @ one.second[row]
        found[row] = _against(other, moved.reshape(inputs, -1), first, second)
    return found
