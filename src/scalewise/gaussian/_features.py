r"""Features of pairs of inputs on nodes: what a rule has to tell of their covariances.

The two factors of a side make the features $\phi$, beside their best approximation $Cu$ by the monomials
$u=(1,z_a,z_az_b-K_{ab})$, as `_four` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian._increments import increment
from scalewise.gaussian._joint import JointRule
from scalewise.gaussian._two_inputs import Family

Orders = tuple[int, int]
Moments = Callable[[int, int], np.ndarray]
Samples = Float[np.ndarray, "sample sample"]
_BLOCK = 1 << 11  # nodes at a time: the features of eight inputs then stay in cache


class PairFeatures:
    r"""The features that two of the four factors make, and their best approximation by monomials.

    Args:
        K: The kernel.
        labels: Inputs on which the two factors stand.
        means: By orders, those of the features.
        moments: $M_{pq}$ as a matrix over samples; ``None`` for the monomial 1 alone.
        linear: Whether the monomials $z_a$ are of use: parity makes them useless.
    """

    def __init__(
        self,
        K: Samples,
        labels: np.ndarray,
        means: Mapping[Orders, Samples],
        moments: Moments | None,
        *,
        linear: bool,
    ) -> None:
        own = labels if moments is not None else labels[:0]
        self.first, self.second, self.place = _pairs(own, ordered=False)
        self.mean = K[self.first, self.second][:, None]
        self.lines = own if linear else own[:0]
        self.where = np.zeros(len(K), dtype=np.intp)
        self.where[labels] = np.arange(len(labels))
        # By orders the first and the second input of each feature, and the place of every pair of inputs.
        self.pairs = {pq: _pairs(labels, ordered=pq[0] != pq[1]) for pq in means}
        # By orders the coefficients C of the monomials.
        self.best = {pq: self._best(pq, mean, moments) for pq, mean in means.items()}

    @property
    def count(self) -> int:
        """Number of monomials."""
        return 1 + len(self.lines) + self.first.size

    def covariance(
        self, K: np.ndarray, other: PairFeatures
    ) -> Float[np.ndarray, "monomial monomial_1"]:
        """Covariances of its monomials with those of another."""
        a, b, c, d = self.first, self.second, other.first, other.second
        low, its = 1 + len(self.lines), 1 + len(other.lines)
        found = np.zeros((self.count, other.count))
        found[1:low, 1:its] = K[np.ix_(self.lines, other.lines)]
        found[low:, its:] = K[np.ix_(a, c)] * K[np.ix_(b, d)] + K[np.ix_(a, d)] * K[np.ix_(b, c)]
        return found

    def fill(self, rows: Float[np.ndarray, "monomial node"], z: np.ndarray) -> None:
        """Write the monomials at the nodes."""
        rows[0] = 1.0
        rows[1 : 1 + len(self.lines)] = z[self.lines]
        forms = rows[1 + len(self.lines) :]
        np.multiply(z[self.first], z[self.second], out=forms)
        forms -= self.mean

    def _best(
        self, orders: Orders, mean: Samples, moments: Moments | None
    ) -> Float[np.ndarray, "pair monomial"]:
        r"""$C_\phi$: by Price's theorem its entries are moments of higher derivatives."""
        p, q = orders
        a, b, _ = self.pairs[orders]
        row = np.arange(a.size)
        C = np.zeros((a.size, self.count))
        C[:, 0] = mean[a, b]
        if moments is None:
            return C
        i, j = self.where[a], self.where[b]
        if len(self.lines):
            C[row, 1 + i] += moments(p + 1, q)[a, b]
            C[row, 1 + j] += moments(p, q + 1)[a, b]
        forms = 1 + len(self.lines)
        C[row, forms + self.place[i, i]] += 0.5 * moments(p + 2, q)[a, b]
        C[row, forms + self.place[i, j]] += moments(p + 1, q + 1)[a, b]
        C[row, forms + self.place[j, j]] += 0.5 * moments(p, q + 2)[a, b]
        return C


def on_nodes(
    sigma: Activation,
    rule: JointRule,
    families: Sequence[Family],
    sides: tuple[PairFeatures, PairFeatures],
    covariance: np.ndarray,
) -> dict[Family, tuple[np.ndarray, np.ndarray]]:
    """The covariances from each node set of a rule, and their natural size."""
    out: dict[Family, tuple[list[np.ndarray], np.ndarray]] = {
        f: ([], np.zeros(())) for f in families
    }
    one, other = sides
    for nodes, weights in rule.nodes():
        gram, sizes = _gram(sigma, nodes, weights, sides)
        for family, (found, size) in out.items():
            p, q = family[:2], family[2:]
            value = (
                gram[p, q]
                - one.best[p] @ gram[None, q]
                - gram[p, None] @ other.best[q].T
                + one.best[p] @ (gram[None, None] + covariance) @ other.best[q].T
            )
            rows, columns = one.pairs[p][2], other.pairs[q][2]
            found.append(value[rows[:, :, None, None], columns])
            here = sizes[0][p][rows][:, :, None, None] * sizes[1][q][columns]
            out[family] = found, np.maximum(size, here)
    return {f: (np.stack(found), size) for f, (found, size) in out.items()}


def _gram(
    sigma: Activation,
    nodes: np.ndarray,
    weights: np.ndarray,
    sides: tuple[PairFeatures, PairFeatures],
) -> tuple[
    dict[tuple[Orders | None, Orders | None], np.ndarray], list[dict[Orders | None, np.ndarray]]
]:
    """Means over the nodes of products of the two sides, and the root mean square of each feature.

    By the orders of features; monomials have ``None``.
    """
    orders = {p for side in sides for pq in side.pairs for p in pq}
    increments = {p: increment(sigma, p) for p in orders}
    count = min(_BLOCK, nodes.shape[1])
    stacks = [_stack(side, count) for side in sides]
    total = np.zeros((len(stacks[0][0]), len(stacks[1][0])))
    squares = [np.zeros(len(rows)) for rows, _ in stacks]
    for start in range(0, nodes.shape[1], count):
        z = np.ascontiguousarray(nodes[:, start : start + count])
        w = weights[start : start + count]
        d = {p: delta(z) for p, delta in increments.items()}
        for side, (rows, place), square in zip(sides, stacks, squares, strict=True):
            for key, where in place.items():
                target = rows[where, : z.shape[1]]
                if key is None:
                    side.fill(target, z)
                else:
                    (p, q), (a, b, _) = key, side.pairs[key]
                    np.multiply(d[p][a], d[q][b], out=target)
                    if increments[q].centre:
                        target += increments[q].centre * d[p][a]
                    if increments[p].centre:
                        target += increments[p].centre * d[q][b]
            part = rows[:, : z.shape[1]]
            square += np.einsum("rm,rm,m->r", part, part, w)
        left, right = (rows[:, : z.shape[1]] for rows, _ in stacks)
        right *= w
        total += left @ right.T
    gram = {
        (p, q): total[rows, columns]
        for p, rows in stacks[0][1].items()
        for q, columns in stacks[1][1].items()
    }
    sizes = [
        {key: np.sqrt(square[where]) for key, where in place.items()}
        for (_, place), square in zip(stacks, squares, strict=True)
    ]
    return gram, sizes


def _stack(side: PairFeatures, count: int) -> tuple[np.ndarray, dict[Orders | None, slice]]:
    """An array for the features of one side and its monomials at `count` nodes, and the rows of each."""
    sizes: list[tuple[Orders | None, int]] = [(key, own[0].size) for key, own in side.pairs.items()]
    sizes.append((None, side.count))
    place, rows = {}, 0
    for key, size in sizes:
        place[key] = slice(rows, rows + size)
        rows += size
    return np.empty((rows, count)), place


def _pairs(labels: np.ndarray, *, ordered: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and second input of each pair, and the place of every pair of them."""
    count = len(labels)
    if ordered:
        a, b = np.indices((count, count)).reshape(2, -1)
        return labels[a], labels[b], np.arange(count * count).reshape(count, count)
    a, b = np.triu_indices(count)
    place = np.empty((count, count), dtype=np.intp)
    place[a, b] = place[b, a] = np.arange(a.size)
    return labels[a], labels[b], place
