r"""Covariances of quadratic forms of Gaussian labels, exactly: what two read-outs have in common at second order.

A form $q=\sum g_{st}(z_sz_t-K_{st})$ with parts across two inputs and in each of them has with another one
$$\mathrm{Cov}[q,q']=\langle g',T+T^T\rangle,\qquad T=KgK,$$
which is read off at the blocks of $g'$; of forms in a field and a tangent, or in two tangents, $T=Kg\Theta$ and
$T=\Theta g\Theta$, and $T$ alone counts. Linear parts have $\ell^TK\ell'$.

Source: Isserlis' theorem.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """Inputs of all read-outs, $a\\le b$."""
    return np.triu_indices(inputs)


def symmetric(one: Forms, other: Forms, K: Square) -> Pairs:
    """Covariances of read-outs that have no order, each of one kind with each of another."""
    first, second = pairs(one.inputs)
    folded = np.where(first == second, 2.0, 1.0)
    same = one is other
    found, beside = np.empty((len(first), len(first))), np.empty((len(first), len(first)))
    turned = beside if same else np.empty_like(beside)
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        T = _around(K, one.block(a, b), K, a, b)
        R = _by_blocks(T, other.across, one.inputs)
        found[row] = folded * R[first, second] + np.where(first == second, 0.0, R[second, first])
        beside[row] = 2 * _against(other.own, _own_blocks(other.own, T, one.inputs), first, second)
    if not same:
        for row, (a, b) in enumerate(zip(first, second, strict=True)):
            T = _around(K, other.block(a, b), K, a, b)
            turned[row] = 2 * _against(one.own, _own_blocks(one.own, T, one.inputs), first, second)
    found += beside + turned.T
    found += 2 * _of_own(one.own, other.own, K, K, first, second)
    if one.linear is not None and other.linear is not None:
        found += _linear(one.linear, other.linear, K, first, second)
    return found


def ordered(forms: Forms, left: Square, right: Square, *, own: bool) -> Float[np.ndarray, "..."]:
    """Covariances of read-outs with an order, (input, input, input, input).

    Args:
        forms: Of the metric.
        left: Covariances of what stands on the first input.
        right: And on the second.
        own: Whether there are parts of the second input alone, twice those of the metric, and linear ones.
    """
    N, (first, second) = forms.inputs, pairs(forms.inputs)
    found, beside = (np.zeros((N, N, N, N)) for _ in range(2))
    for a in range(N):
        for b in range(N):
            T = _around(left, forms.block(a, b), right, a, b)
            found[a, b] = _by_blocks(T, forms.across, N)
            if own:
                blocks = 2 * _own_blocks(forms.own, T, N)
                beside[a, b] = _of_second(forms.own, blocks, first, second)
    if not own:
        return found
    found += beside + beside.transpose(2, 3, 0, 1)
    for a in range(N):
        for b in range(N):
            one = _own_of(forms.own, a, b, N)
            blocks = 4 * _blocks_of_own(one, left, right, b, N)
            found[a, b] += _of_second(forms.own, blocks, first, second)
            if forms.linear is not None:
                moved = right[:, _at(b, forms.size)] @ _own_of(forms.linear, a, b, N)
                found[a, b] += _of_second(forms.linear, moved.reshape(N, -1), first, second)
    return found


def _at(a: int, size: int) -> slice:
    return slice(a * size, (a + 1) * size)


def _around(left: Square, block: np.ndarray, right: Square, a: int, b: int) -> Square:
    size = len(block)
    return (left[:, _at(a, size)] @ block) @ right[_at(b, size)]


def _by_blocks(T: Square, across: Square, inputs: int) -> Float[np.ndarray, "input input"]:
    """The sums of a product over pairs of inputs."""
    size = len(T) // inputs
    found = np.empty((inputs, inputs))
    for c in range(inputs):
        product = T[_at(c, size)] * across[_at(c, size)]
        found[c] = product.reshape(size, inputs, size).sum(axis=(0, 2))
    return found


def _own_blocks(own: Own, T: Square, inputs: int) -> np.ndarray:
    """What parts of one input alone see of a matrix."""
    if isinstance(own, Diagonals):
        return np.diagonal(T).reshape(inputs, -1)
    size = len(T) // inputs
    return np.array([T[_at(c, size), _at(c, size)] for c in range(inputs)])


def _against(own: Own, blocks: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Sums of a product with the parts of all read-outs."""
    axes = tuple(range(1, own.first.ndim))
    return (own.first * blocks[first]).sum(axis=axes) + (own.second * blocks[second]).sum(axis=axes)


def _of_second(
    own: Own, blocks: np.ndarray, first: np.ndarray, second: np.ndarray
) -> Float[np.ndarray, "input input"]:
    """The same of read-outs with an order: of their second input alone, which is the first one of the other order."""
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


def _blocks_of_own(one: np.ndarray, left: Square, right: Square, a: int, inputs: int) -> np.ndarray:
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
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        blocks = _blocks_of_own(one.first[row], left, right, a, inputs)
        blocks = blocks + _blocks_of_own(one.second[row], left, right, b, inputs)
        found[row] = _against(other, blocks, first, second)
    return found


def _linear(one: Own, other: Own, K: Square, first: np.ndarray, second: np.ndarray) -> Pairs:
    size, inputs = one.first.shape[1], int(second.max()) + 1
    found = np.empty((len(first), len(first)))
    for row, (a, b) in enumerate(zip(first, second, strict=True)):
        moved = K[:, _at(a, size)] @ one.first[row] + K[:, _at(b, size)] @ one.second[row]
        found[row] = _against(other, moved.reshape(inputs, -1), first, second)
    return found
