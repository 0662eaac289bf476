r"""Covariances of quadratic forms of Gaussian labels, exactly: what two read-outs have in common at second order.

A form $q=\sum g_{st}(z_sz_t-K_{st})$ with parts across two inputs and in each of them has with another one
$$\mathrm{Cov}[q,q']=\langle g',T+T^T\rangle,\qquad T=KgK,$$
which is read off at the blocks of $g'$; and because $\langle g'_{cd},K_{ca}g_{ab}K_{bd}\rangle$ is
$\langle K_{ca}g_{ab},g'_{cd}K_{db}\rangle$ no product of matrices knows four inputs. Of forms in a field and a
tangent, or in two tangents, $T=Kg\Theta$ and $T=\Theta g\Theta$, and $T$ alone counts. Linear parts have
$\ell^TK\ell'$.

Source: Isserlis' theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

import numpy as np
from jaxtyping import Float
from scipy import sparse

from scalewise.theory.order._forms import Diagonals, Form, Own, on_labels
from scalewise.theory.order._layout import shape_of

Square = Float[np.ndarray, "label label"]
Pairs = Float[np.ndarray, "pair pair"]
ByInput = Float[np.ndarray, "_input _label _seen"]
_ROWS = 1 << 10  # forms at a time


@dataclass
class Forms:
    """The forms of all read-outs.

    Args:
        across: Parts across two inputs, (second input, label, label of the second input): block a, b is that of
            their read-out, and of b, a the same turned over.
        own: Of each input alone, read-out by read-out.
        linear: Likewise, of the first and of the second input; ``None`` if there is no such part.
    """

    across: ByInput
    own: Own
    linear: Own | None = None

    @staticmethod
    def empty(inputs: int, size: int, *, thin: bool, linear: bool) -> Forms:
        """Of no read-outs yet."""
        count = inputs * (inputs + 1) // 2
        return Forms(
            np.zeros((inputs, inputs * size, size)),
            Own.nothing(count, size, thin=thin),
            Own.nothing(count, size, thin=True) if linear else None,
        )

    def set(self, a: int, form: Form, linear: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Those of an input with itself and all later ones."""
        size, own = self.size, _at(a, self.size)
        later = form.across.reshape(size, -1, size)
        self.across[a:, own] = later.swapaxes(0, 1)
        self.across[a, a * size :] = form.across.T
        rows = strip_of(self.inputs, a)
        self.own.first[rows], self.own.second[rows] = form.own.first, form.own.second
        if self.linear is not None and linear is not None:
            self.linear.first[rows], self.linear.second[rows] = linear

    @property
    def inputs(self) -> int:
        """How many."""
        return len(self.across)

    @property
    def size(self) -> int:
        """Labels of an input."""
        return self.across.shape[2]

    def halves(self, left: ByInput, b: int, count: int, room: ByInput) -> ByInput:
        """Covariances times the part across the first inputs, so many of them, and another one."""
        for a in range(count):
            np.matmul(left[a], self.across[b, _at(a, self.size)], out=room[a])
        return room[:count]

    def against(self, right: Square, b: int, room: ByInput) -> ByInput:
        """Parts across all inputs and each other one up to `b`, times covariances of the latter with this."""
        for d in range(b + 1):
            block = right[_at(d, self.size), _at(b, self.size)]
            np.matmul(self.across[d], np.ascontiguousarray(block), out=room[d])
        return room[: b + 1]

    def rooms(self) -> tuple[ByInput, ByInput]:
        """For both, to be used again: the system fetches new pages slowly."""
        return np.empty_like(self.across), np.empty_like(self.across)


def by_input(K: Square, inputs: int) -> ByInput:
    """The columns of one input after those of another, each at hand."""
    return np.ascontiguousarray(K.reshape(len(K), inputs, -1).swapaxes(0, 1))


def _ending_at(inputs: int, b: int) -> np.ndarray:
    """Where the read-outs of an input with itself and all earlier ones stand among all."""
    return np.array([strip_of(inputs, a).start + b - a for a in range(b + 1)])


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
    inputs = kinds[0].inputs
    first, second = pairs(inputs)
    shape, numbers = (len(first), len(first)), range(len(kinds))
    wanted = list(combinations_with_replacement(numbers, 2))
    found = {key: np.zeros(shape) for key in wanted}
    beside = {key: np.zeros(shape) for key in product(numbers, repeat=2)}
    columns, rooms = by_input(K, inputs), [kind.rooms() for kind in kinds]
    alone = [kind.own.on_labels(first, second, inputs) for kind in kinds]
    for b in range(inputs):
        rows = _ending_at(inputs, b)
        until = np.concatenate([_ending_at(inputs, d) for d in range(b + 1)])
        others = first[until], second[until]
        both = list(zip(kinds, rooms, strict=True))
        halves = [kind.halves(columns, b, b + 1, room[0]) for kind, room in both]
        turned = [kind.against(K, b, room[1]) for kind, room in both]
        for k, m in beside:
            # A covariance is the same turned over: of the read-outs of earlier inputs nothing is made twice.
            R = _crossed(
                halves[k][:, : (b + 1) * kinds[k].size], turned[m][:, : (b + 1) * kinds[m].size]
            )
            both_ways = R[:, *others] + R[:, *others[::-1]]
            if (k, m) in found:
                found[k, m][rows[:, None], until] = both_ways
            if (m, k) in found:
                found[m, k][until[:, None], rows] = both_ways.T
            seen = _seen(kinds[m].own, halves[k], K[_at(b, kinds[m].size)], inputs)
            beside[k, m][rows] = 2 * (alone[m] @ seen.T).T
    for (k, m), values in found.items():
        values += beside[k, m] + beside[m, k].T
        values += 2 * _of_own(kinds[k].own, (alone[k], alone[m]), K, (first, second))
        one, other = kinds[k].linear, kinds[m].linear
        if one is not None and other is not None:
            left, right = (part.on_labels(first, second, inputs) for part in (one, other))
            values += _between(left, right, K)
    return found


def ordered(forms: Forms, left: Square, right: Square, *, own: bool) -> np.ndarray:
    """Covariances of read-outs with an order, (pair of inputs, pair of inputs).

    Args:
        forms: Of the metric.
        left: Covariances of what stands on the first input.
        right: And on the second.
        own: Whether there are parts of the second input alone, twice those of the metric, and linear ones.
    """
    N = forms.inputs
    found = np.zeros((N,) * 4)
    alone = _by_order(forms.own, N) if own else None
    columns, rooms = by_input(left, N), forms.rooms()
    for b in range(N):
        halves = forms.halves(columns, b, N, rooms[0])
        R = _crossed(halves, forms.against(right, b, rooms[1]))
        found[:, b, :, : b + 1] += R
        found[:, :b, :, b] += R[:, :, :b].transpose(1, 2, 0)
        if alone is not None:
            seen = _seen(forms.own, halves, right[_at(b, forms.size)], N)
            beside = 2 * (alone @ seen.T).T.reshape(N, N, N)
            found[:, b] += beside
            found[:, :, :, b] += beside.transpose(1, 2, 0)
    flat = found.reshape(N * N, -1)
    if alone is None:
        return flat
    if forms.linear is not None:
        linear = _by_order(forms.linear, N)
        _between(linear, linear, right, flat)
    if isinstance(forms.own, Diagonals):
        _between(4 * alone, alone, left * right, flat)
        return flat
    for a, b in product(range(N), repeat=2):
        blocks = _of_one(_own_of(forms.own, a, b, N), left, right, b, N)
        flat[a * N + b] += 4 * (alone @ blocks)
    return flat


def _at(a: int, size: int) -> slice:
    return slice(a * size, (a + 1) * size)


def _crossed(halves: ByInput, turned: ByInput) -> Float[np.ndarray, "_first _input _input2"]:
    r"""$\langle g'_{cd},K_{ca}g_{ab}K_{bd}\rangle$ at one $b$, by $a$, $c$ and $d$."""
    between = turned.shape[1] // turned.shape[2]
    one = halves.reshape(len(halves), between, -1).swapaxes(0, 1)
    other = turned.reshape(len(turned), between, -1).transpose(1, 2, 0)
    return (one @ other).swapaxes(0, 1)


def _seen(own: Own, halves: np.ndarray, right: np.ndarray, inputs: int) -> np.ndarray:
    """What parts of one input alone see of products of two matrices, (first input, label)."""
    if isinstance(own, Diagonals):
        return np.einsum("aup,pu->au", halves, right)
    size = len(right)
    blocks = halves.reshape(len(halves), inputs, size, size)
    return (blocks @ right.reshape(size, inputs, size).swapaxes(0, 1)).reshape(len(halves), -1)


def _by_order(own: Own, inputs: int) -> sparse.csr_array:
    """Parts of the second input alone of read-outs with an order, on labels."""
    parts = [(_own_of(own, a, b, inputs), b) for a, b in product(range(inputs), repeat=2)]
    values = np.array([part.ravel() for part, _ in parts])
    return on_labels(values, np.array([b for _, b in parts]), inputs)


def _own_of(own: Own, a: int, b: int, inputs: int) -> np.ndarray:
    """The part of the second input alone of a read-out with an order."""
    low, high = min(a, b), max(a, b)
    place = strip_of(inputs, low).start + high - low
    return own.second[place] if a <= b else own.first[place]


def _of_one(one: np.ndarray, left: Square, right: Square, a: int, inputs: int) -> np.ndarray:
    """What parts of one input alone see of those of another one."""
    at, size = _at(a, len(one)), len(one)
    L, R = (C[:, at].reshape(inputs, size, size) for C in (left, right))
    return (L @ one @ R.swapaxes(1, 2)).ravel()


def _of_own(
    one: Own,
    alone: tuple[sparse.csr_array, sparse.csr_array],
    K: Square,
    at: tuple[np.ndarray, np.ndarray],
) -> Pairs:
    """Of parts of one input alone with each other."""
    if isinstance(one, Diagonals):
        return _between(*alone, K * K)
    inputs = int(at[1].max()) + 1
    found = np.empty((len(at[0]), len(at[0])))
    for row, (a, b) in enumerate(zip(*(side.tolist() for side in at), strict=True)):
        blocks = _of_one(one.first[row], K, K, a, inputs)
        found[row] = alone[1] @ (blocks + _of_one(one.second[row], K, K, b, inputs))
    return found


def _between(
    one: sparse.csr_array, other: sparse.csr_array, K: Square, to: Pairs | None = None
) -> Pairs:
    """Linear forms of labels, each with each, added to what is given."""
    found = np.zeros((shape_of(one)[0], shape_of(other)[0])) if to is None else to
    for start in range(0, len(found), _ROWS):
        rows = slice(start, start + _ROWS)
        found[rows] += (other @ (one[rows] @ K).T).T
    return found
