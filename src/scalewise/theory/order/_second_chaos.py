r"""Covariances of quadratic forms of Gaussian labels, exactly: what two read-outs have in common at second order.

A form $q=\sum g_{st}(z_sz_t-K_{st})$ with parts across two inputs and in each of them has with another one
$$\mathrm{Cov}[q,q']=\langle g',T+T^T\rangle,\qquad T=KgK,$$
which is read off at the blocks of $g'$; and because $\langle g'_{cd},K_{ca}g_{ab}K_{bd}\rangle$ is
$\langle K_{ca}g_{ab},g'_{cd}K_{db}\rangle$ no product of matrices knows four inputs. Of forms in a field and a
tangent, or in two tangents, $T=Kg\Theta$ and $T=\Theta g\Theta$, and $T$ alone counts. Linear parts have
$\ell^TK\ell'$.

With $b$ the latest of the four inputs, all tensors are products of the same factors $Kg$, $\Theta g$, $g'K$,
$g'\Theta$ on labels of no later inputs, which are made once, some labels at a time.

Source: Isserlis' theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from scalewise.theory.order._forms import Form
from scalewise.theory.order._of_pairs import OfPairs

Square = Float[np.ndarray, "label label"]
ByInput = Float[np.ndarray, "_input _label _seen"]
Parts = Float[np.ndarray, "input input *_label"]
Seen = Float[np.ndarray, "_first _input *_label"]
_ROOM = 1 << 21  # numbers of a factor that are made at a time
_TOGETHER = 8  # later inputs
# A factor is forms, of the metric or of the NTK, between a covariance, of fields or of tangents.
_K, _THETA = 0, 1
Factor = tuple[int, int]
Product = tuple[Factor, Factor]
Alone = tuple[Factor, int]
Row = tuple[str, int, Factor, Factor]
# Letter, kind of rows, covariance and forms, forms and covariance. In a second kind the pairs of D are of the NTK,
# and those of F begin with their later input: then all factors are turned over.
_ROWS: tuple[Row, ...] = (
    ("V", 0, (_K, 0), (0, _K)),
    ("D", 0, (_K, 0), (1, _K)),
    ("D", 1, (_K, 1), (0, _K)),
    ("A", 0, (_K, 1), (1, _K)),
    ("F", 0, (_K, 0), (0, _THETA)),
    ("F", 1, (_THETA, 0), (0, _K)),
    ("B", 0, (_THETA, 0), (0, _THETA)),
)


@dataclass
class Forms:
    """The forms of all read-outs.

    Args:
        across: Parts across two inputs, (second input, label, label of the second input): block a, b is that of
            their read-out, and of b, a the same turned over.
        own: Parts of one input alone: of the first one of two, symmetric in its labels or diagonal.
        linear: Linear parts likewise; ``None`` if there is no such part.
    """

    across: ByInput
    own: Parts
    linear: Parts | None = None

    @staticmethod
    def empty(inputs: int, size: int, *, thin: bool, linear: bool, dtype: type) -> Forms:
        """Forms of no read-outs yet."""
        pairs, labels = (inputs, inputs), (size,) if thin else (size, size)
        return Forms(
            np.zeros((inputs, inputs * size, size), dtype),
            np.zeros((*pairs, *labels), dtype),
            np.zeros((*pairs, size), dtype) if linear else None,
        )

    def set(self, a: int, form: Form, linear: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Forms of an input with itself and all later ones."""
        size, own = self.size, slice(a * self.size, (a + 1) * self.size)
        later = form.across.reshape(size, -1, size)
        self.across[a:, own] = later.swapaxes(0, 1)
        self.across[a, a * size :] = form.across.T
        self.own[a:, a], self.own[a, a:] = form.own.second, form.own.first
        if self.linear is not None and linear is not None:
            self.linear[a:, a], self.linear[a, a:] = linear[1], linear[0]

    @property
    def inputs(self) -> int:
        """How many."""
        return len(self.across)

    @property
    def size(self) -> int:
        """Labels of an input."""
        return self.across.shape[2]


def by_input(K: Square, inputs: int, dtype: type) -> ByInput:
    """The columns of one input after those of another, each at hand."""
    return np.array(K.reshape(len(K), inputs, -1).swapaxes(0, 1), dtype, order="C")


@dataclass
class Chaos:
    """Covariances of all read-outs of one layer through one population.

    Args:
        kinds: Forms of the metric, and of the NTK if they are wanted.
        columns: K of all labels, input by input, and Theta if it is wanted.
        share: A factor of all covariances.
        roots: Of K, and of Theta, if these have fewer columns than an input has labels.
    """

    kinds: tuple[Forms, ...]
    columns: tuple[ByInput, ...]
    share: float
    roots: tuple[Float[np.ndarray, "label _column"], ...] = ()
    _seen_by_roots: dict[tuple[int, int, int], np.ndarray] = field(default_factory=dict)
    _squares: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def add_to(self, stored: dict[str, OfPairs], layer: int) -> None:
        """Add covariances to tensors at one layer.

        Args:
            stored: By letter.
            layer: Its place among those that are kept.
        """
        rows = [row for row in _ROWS if row[0] in stored]
        alone = dict.fromkeys(key for key in map(_seen_in, rows) if key is not None)
        standing: dict[Alone, tuple[dict[int, Seen], dict[int, Seen]]] = {}
        for b in range(len(self.columns[0])):
            if b % _TOGETHER == 0:
                several = range(b, min(b + _TOGETHER, len(self.columns[0])))
                standing = {key: self._standing(several, key) for key in alone}
            found, seen = (self._of_roots if self.roots else self._of)(b, rows)
            told = {
                key: (2 * v + standing[key][0][b], standing[key][1].get(b))
                for key, v in seen.items()
            }
            for row in rows:
                letter, kind, left, right = row
                self._put(stored[letter].rows(layer, b, kind), stored[letter], found[left, right])
                if (key := _seen_in(row)) is not None:
                    self._add(stored[letter], layer, b, row, told[key])

    def _put(self, to: np.ndarray, tensor: OfPairs, R: np.ndarray) -> None:
        """Parts across both inputs with each other."""
        until = tensor.until(R.shape[1] - 1)
        first, second = tensor.first[:until], tensor.second[:until]
        if tensor.ordered:
            # Of pairs that begin with b all is turned over, and b itself is among those that end in it.
            over = len(to) < len(R)
            to += self.share * (R[: len(to), second, first] if over else R[:, first, second])
        else:
            to += self.share * (R[:, first, second] + R[:, second, first])

    def _add(
        self, tensor: OfPairs, layer: int, b: int, row: Row, parts: tuple[Seen, Seen | None]
    ) -> None:
        """Parts of one input alone with all others, and linear ones with each other."""
        (_, kind, _, (other, _)), (through, linear) = row, parts
        of = self.kinds[other]
        told = _told(of.own, through)
        if linear is not None and of.linear is not None:
            told += _told(of.linear, linear)
        first, second = tensor.first, tensor.second
        values = self.share * told[: b if tensor.ordered and kind else b + 1, second, first]
        if not tensor.ordered:
            values += self.share * told[:, first, second]
        tensor.add(layer, b, values, kind)

    def _of(
        self, b: int, rows: Sequence[Row]
    ) -> tuple[dict[Product, np.ndarray], dict[Alone, Seen]]:
        r"""$\langle g'_{cd},K_{ca}g_{ab}K_{bd}\rangle$ by $a$, $c$, $d$; single inputs see $Kg_{ab}K$."""
        inputs, size, count = self.kinds[0].inputs, self.kinds[0].size, b + 1
        kind = self.columns[0].dtype
        found = {row[2:]: np.empty((count,) * 3, kind) for row in rows}
        shape = count, *self.kinds[0].own.shape[1:]
        seen = {key: np.empty(shape, kind) for key in map(_seen_in, rows) if key is not None}
        step = max(1, _ROOM // (count * size**2))
        for start in range(0, inputs if seen else count, step):
            some = slice(start, min(start + step, inputs))
            labels = slice(some.start * size, some.stop * size)
            left = {key: self._left(key, b, labels) for key in {one for one, _ in found}}
            for (one, other), values in seen.items():
                values[:, some] = _seen(left[one], self.columns[other][b, labels], size, shape[2:])
            if start < count:
                near = slice(start, min(some.stop, count))
                labels = slice(near.start * size, near.stop * size)
                right = {key: self._right(key, b, labels) for key in {one for _, one in found}}
                for (one, other), values in found.items():
                    across = left[one][:, : labels.stop - labels.start]
                    values[:, near] = _crossed(across, right[other])
        return found, seen

    def _of_roots(
        self, b: int, rows: Sequence[Row]
    ) -> tuple[dict[Product, np.ndarray], dict[Alone, Seen]]:
        r"""Both by roots, $K_{ca}=X_cX_a^T$: products of $X_a^Tg_{ab}X_b$ alone."""
        count = b + 1
        found, seen = dict[Product, np.ndarray](), dict[Alone, Seen]()
        for row in rows:
            (one, kind), (other_kind, other) = row[2:]
            left = self._between_roots(one, kind, other)[:count, b]
            right = self._between_roots(one, other_kind, other)[:count, :count]
            R = left.reshape(count, -1) @ right.reshape(count**2, -1).T
            found[row[2:]] = R.reshape((count,) * 3)
            if (key := _seen_in(row)) is not None and key not in seen:
                seen[key] = self._seen_of_roots(left, one, other)
        return found, seen

    def _seen_of_roots(self, left: np.ndarray, one: int, other: int) -> Seen:
        """Forms between two roots as single inputs see them."""
        size, own = self.kinds[0].size, self.kinds[0].own.shape[2:]
        X, Y = self.roots[one], self.roots[other]
        if len(own) > 1:
            return np.concatenate([_seen(X @ h[None], Y, size, own) for h in left])
        if (one, other) not in self._squares:
            self._squares[one, other] = (X[:, :, None] * Y[:, None]).reshape(len(X), -1)
        return (left.reshape(len(left), -1) @ self._squares[one, other].T).reshape(
            len(left), -1, size
        )

    def _between_roots(
        self, one: int, kind: int, other: int
    ) -> Float[np.ndarray, "input input _column _column2"]:
        """Parts across two inputs, between roots of two covariances."""
        if (one, kind, other) not in self._seen_by_roots:
            forms = self.kinds[kind]
            left, right = (
                self.roots[k].reshape(forms.inputs, forms.size, -1) for k in (one, other)
            )
            blocks = (
                left.swapaxes(1, 2)
                @ forms.across[b].reshape(forms.inputs, forms.size, -1)
                @ right[b]
                for b in range(forms.inputs)
            )
            self._seen_by_roots[one, kind, other] = np.stack(list(blocks), axis=1)
        return self._seen_by_roots[one, kind, other]

    def _left(self, factor: Factor, b: int, labels: slice) -> ByInput:
        """Covariances of some labels times parts across all inputs up to `b` and this."""
        C, forms = self.columns[factor[0]], self.kinds[factor[1]]
        blocks = forms.across[b, : (b + 1) * forms.size].reshape(b + 1, forms.size, -1)
        return C[: b + 1, labels] @ blocks

    def _right(self, factor: Factor, b: int, labels: slice) -> ByInput:
        """Parts across inputs of some labels and all up to `b`, times covariances of the latter and this."""
        forms, C = self.kinds[factor[0]], self.columns[factor[1]]
        blocks = C[b, : (b + 1) * forms.size].reshape(b + 1, forms.size, -1)
        return forms.across[: b + 1, labels] @ blocks

    def _standing(self, several: range, key: Alone) -> tuple[dict[int, Seen], dict[int, Seen]]:
        """Half of what parts of one input alone add to what is seen of some later inputs; of linear parts half."""
        (one, kind), other = key
        forms, ordered = self.kinds[kind], one != other
        C, D, E = self.columns[one], self.columns[other], self.columns[max(one, other)]
        of_b = not (ordered and one == _THETA)  # then the second input is an earlier one
        alone, linear = dict[int, Seen](), dict[int, Seen]()
        for b in several if of_b else ():
            alone[b] = _around(C[b], D[b], forms.own[b, : b + 1])
            if forms.linear is not None:
                linear[b] = _through(E[b], forms.linear[b, : b + 1])
        for a in range(several.stop) if not (ordered and of_b) else ():
            later = range(max(a, several.start), several.stop)
            parts = [(alone, _around(C[a], D[a], forms.own[a, later.start : later.stop]))]
            if forms.linear is not None:
                values = _through(E[a], forms.linear[a, later.start : later.stop])
                parts.append((linear, values))
            for found, values in parts:
                for b, value in zip(later, values, strict=True):
                    whole = found.setdefault(b, np.zeros((b + 1, *value.shape), value.dtype))
                    whole[a] += value
        if ordered:
            alone = {b: 2 * values for b, values in alone.items()}
        return alone, {b: 0.5 * values for b, values in linear.items()}


def _seen_in(row: Row) -> Alone | None:
    """The factors that parts of one input alone see; ``None`` of two tangents, which have no such parts."""
    letter, _, left, right = row
    return None if letter == "B" else (left, right[1])


def _crossed(left: ByInput, right: ByInput) -> Float[np.ndarray, "_first _input _input2"]:
    r"""$\langle g'_{cd},K_{ca}g_{ab}K_{bd}\rangle$ at one $b$, by $a$, $c$ and $d$."""
    between = right.shape[1] // right.shape[2]
    one = left.reshape(len(left), between, -1).swapaxes(0, 1)
    other = right.reshape(len(right), between, -1).transpose(1, 2, 0)
    return (one @ other).swapaxes(0, 1)


def _seen(
    left: ByInput, right: Float[np.ndarray, "_label _own"], size: int, own: tuple[int, ...]
) -> Seen:
    """Products of two matrices at labels of one input each, on the diagonal or in blocks."""
    if len(own) == 1:
        return np.einsum("aup,up->au", left, right).reshape(len(left), -1, size)
    blocks = left.reshape(len(left), -1, size, left.shape[2])
    return blocks @ right.reshape(-1, size, right.shape[1]).swapaxes(1, 2)


def _around(C: np.ndarray, D: np.ndarray, own: np.ndarray) -> Seen:
    """Parts of one input alone between covariances of it with all labels, (part, input, label of it, ...)."""
    size = C.shape[1]
    if own.ndim == 2:
        return _through(C * D, own)
    left, right = (part.reshape(-1, size, size) for part in (C, D))
    return left @ own[:, None] @ right.swapaxes(1, 2)


def _through(C: np.ndarray, linear: np.ndarray) -> Seen:
    """Linear parts through covariances of their input with all labels, (part, input, label of it)."""
    return (linear @ C.T).reshape(len(linear), -1, C.shape[1])


def _told(own: Parts, seen: Seen) -> Float[np.ndarray, "_first input input"]:
    """Values of parts of one input alone, (of what is seen, that input, the other input of its read-out)."""
    one = own.reshape(*own.shape[:2], -1)
    other = seen.reshape(*seen.shape[:2], -1).transpose(1, 2, 0)
    return (one @ other).transpose(2, 0, 1)
