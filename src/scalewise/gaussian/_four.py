r"""Expectations of four factors, $\langle\sigma^{(p)}_a\sigma^{(q)}_b\sigma^{(r)}_c\sigma^{(s)}_d\rangle_K$.

Two of the four factors make a pair feature $\phi$. Its best approximation $Cu$ by the monomials
$u=(1,z_a,z_az_b-K_{ab})$ is known from pair moments, and so is $\langle uu^T\rangle$; what the nodes have to tell
is only the covariance of the rests,
$$\langle\phi\psi^T\rangle=\overline{(\phi-C_\phi u)(\psi-C_\psi u)^T}+C_\phi\langle uu^T\rangle C_\psi^T,$$
where the first term comes out of one matrix product of features and monomials. Entries with at most two
distinct inputs are replaced by what they are to 1e-10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian._interface import single_moment
from scalewise.gaussian._joint import JointRule
from scalewise.gaussian._products import pair_products

__all__ = ["four_point_products"]

Family = tuple[int, int, int, int]
Orders = tuple[int, int]
Moments = Callable[[int, int], np.ndarray]
_MAX_QUADRATURE_INPUTS = 12  # nested quadrature costs a millisecond a pair; samples take over
_BLOCK = 1 << 11  # nodes at a time: the features of eight inputs then stay in cache


def four_point_products(
    sigma: Activation,
    K: Float[np.ndarray, "sample sample"],
    rule: JointRule,
    families: Sequence[Family],
    moments: Moments | None,
) -> dict[Family, Float[np.ndarray, "estimate sample sample sample sample"]]:
    r"""All entries of a few families of four-point expectations.

    Args:
        sigma: The activation; derivatives are taken almost everywhere.
        K: The kernel.
        rule: Nodes for $N(0,K)$.
        families: Orders $(p,q,r,s)$; the first two and the last two make the features.
        moments: $M_{pq}$ as a matrix over samples for $p+q\le6$, or ``None`` where they do not exist:
            then nothing is split off.

    Returns:
        For each family one array per estimate of the rule, to be combined by it.
    """
    count = len(K)
    out = {f: np.zeros((rule.estimates, *(count,) * 4)) for f in families}
    if count > 2:
        _sample(sigma, K, rule, out, moments)
    cheap = sigma.is_smooth or sigma.is_scale_invariant
    if cheap or count <= _MAX_QUADRATURE_INPUTS:
        _two_inputs(sigma, K, out)
    return out


def _sample(
    sigma: Activation,
    K: np.ndarray,
    rule: JointRule,
    out: dict[Family, np.ndarray],
    moments: Moments | None,
) -> None:
    pairs = {pq: _pairs(len(K), ordered=pq[0] != pq[1]) for f in out for pq in (f[:2], f[2:])}
    left: list[Orders] = sorted({(f[0], f[1]) for f in out})
    right: list[Orders] = sorted({(f[2], f[3]) for f in out})
    monomials = None if moments is None else _Monomials(K, linear=sigma.parity == 0)
    best = {pq: monomials.best(pq, pairs[pq], moments) for pq in pairs} if monomials else {}
    for slot, (nodes, weights) in enumerate(rule.nodes()):
        gram = _gram(sigma, nodes, weights, (left, right), pairs, monomials)
        for family, target in out.items():
            p, q = family[:2], family[2:]
            value = gram[p, q]
            if monomials is not None:
                cross = gram[None, None] + monomials.covariance
                value = (
                    value
                    - best[p] @ gram[None, q]
                    - gram[p, None] @ best[q].T
                    + best[p] @ cross @ best[q].T
                )
            rows, columns = pairs[p][2], pairs[q][2]
            target[slot] = value[rows[:, :, None, None], columns]


def _pairs(count: int, *, ordered: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and second sample of each pair, and the place of every pair of samples."""
    if ordered:
        a, b = np.indices((count, count)).reshape(2, -1)
        return a, b, np.arange(count * count).reshape(count, count)
    a, b = np.triu_indices(count)
    place = np.empty((count, count), dtype=np.intp)
    place[a, b] = place[b, a] = np.arange(a.size)
    return a, b, place


class _Monomials:
    r"""$u=(1,z_a,z_az_b-K_{ab})$; without the middle part where parity makes it useless.

    Args:
        K: The kernel.
        linear: Whether $z_a$ is among them.
    """

    def __init__(self, K: np.ndarray, *, linear: bool) -> None:
        count = len(K)
        self.first, self.second, self.place = _pairs(count, ordered=False)
        self.mean = K[self.first, self.second][:, None]
        self.lines = count if linear else 0
        a, b = self.first, self.second
        wick = K[np.ix_(a, a)] * K[np.ix_(b, b)] + K[np.ix_(a, b)] * K[np.ix_(b, a)]
        forms = 1 + self.lines
        self.covariance = np.zeros((forms + a.size, forms + a.size))
        self.covariance[0, 0] = 1.0
        self.covariance[1:forms, 1:forms] = K[: self.lines, : self.lines]
        self.covariance[forms:, forms:] = wick

    def fill(self, rows: Float[np.ndarray, "monomial node"], z: np.ndarray) -> None:
        """Write the monomials at the nodes."""
        rows[0] = 1.0
        rows[1 : 1 + self.lines] = z[: self.lines]
        forms = rows[1 + self.lines :]
        np.multiply(z[self.first], z[self.second], out=forms)
        forms -= self.mean

    def best(
        self, orders: tuple[int, int], pairs: tuple[np.ndarray, ...], moments: Moments | None
    ) -> Float[np.ndarray, "pair monomial"]:
        r"""$C_\phi$: by Price's theorem its entries are moments of higher derivatives."""
        assert moments is not None
        p, q = orders
        a, b, _ = pairs
        row = np.arange(a.size)
        C = np.zeros((a.size, len(self.covariance)))
        C[:, 0] = moments(p, q)[a, b]
        if self.lines:
            C[row, 1 + a] += moments(p + 1, q)[a, b]
            C[row, 1 + b] += moments(p, q + 1)[a, b]
        forms = 1 + self.lines
        C[row, forms + self.place[a, a]] += 0.5 * moments(p + 2, q)[a, b]
        C[row, forms + self.place[a, b]] += moments(p + 1, q + 1)[a, b]
        C[row, forms + self.place[b, b]] += 0.5 * moments(p, q + 2)[a, b]
        return C


def _gram(
    sigma: Activation,
    nodes: np.ndarray,
    weights: np.ndarray,
    sides: tuple[list[Orders], list[Orders]],
    pairs: dict[Orders, tuple[np.ndarray, np.ndarray, np.ndarray]],
    monomials: _Monomials | None,
) -> dict[tuple[Orders | None, Orders | None], np.ndarray]:
    """Means of products over the nodes: features of the two sides, and monomials (``None``)."""
    highest = max(max(pq) for pq in pairs)
    count = min(_BLOCK, nodes.shape[1])
    stacks = [_stack(side, pairs, monomials, count) for side in sides]
    total = np.zeros((len(stacks[0][0]), len(stacks[1][0])))
    for start in range(0, nodes.shape[1], count):
        z = np.ascontiguousarray(nodes[:, start : start + count])
        s = [sigma.derivative(z, p) for p in range(highest + 1)]
        for rows, place in stacks:
            for key, where in place.items():
                target = rows[where, : z.shape[1]]
                if key is not None:
                    a, b, _ = pairs[key]
                    np.multiply(s[key[0]][a], s[key[1]][b], out=target)
                elif monomials is not None:
                    monomials.fill(target, z)
        left, right = (rows[:, : z.shape[1]] for rows, _ in stacks)
        right *= weights[start : start + count]
        total += left @ right.T
    return {
        (p, q): total[rows, columns]
        for p, rows in stacks[0][1].items()
        for q, columns in stacks[1][1].items()
    }


def _stack(
    side: list[Orders],
    pairs: dict[Orders, tuple[np.ndarray, np.ndarray, np.ndarray]],
    monomials: _Monomials | None,
    count: int,
) -> tuple[np.ndarray, dict[Orders | None, slice]]:
    """Room for the features of one side, and monomials, at `count` nodes; and what stands where."""
    sizes: list[tuple[Orders | None, int]] = [(key, pairs[key][0].size) for key in side]
    if monomials is not None:
        sizes.append((None, len(monomials.covariance)))
    place, rows = {}, 0
    for key, size in sizes:
        place[key] = slice(rows, rows + size)
        rows += size
    return np.empty((rows, count)), place


def _two_inputs(sigma: Activation, K: np.ndarray, out: dict[Family, np.ndarray]) -> None:
    """Entries with one or two distinct inputs, from integrals over one or two dimensions."""
    count = len(K)
    diagonal = np.diagonal(K)
    same = np.arange(count)
    a, b = np.triu_indices(count, 1)
    # Bit i of a pattern says that leg i stands on the second of the two inputs.
    split = {
        (family, pattern): (
            tuple(sorted(p for i, p in enumerate(family) if not pattern >> i & 1)),
            tuple(sorted(p for i, p in enumerate(family) if pattern >> i & 1)),
        )
        for family in out
        for pattern in range(1, 15)
    }
    known = {}
    if a.size:
        limit = np.sqrt(diagonal[a] * diagonal[b])
        C = np.clip(K[a, b], -limit, limit)
        wanted = sorted(set(split.values()))
        known = pair_products(sigma, diagonal[a], diagonal[b], C, wanted)
    for family, target in out.items():
        target[:, same, same, same, same] = single_moment(sigma, diagonal, family).value
        for pattern in range(1, 15) if a.size else ():
            legs = tuple(b if pattern >> i & 1 else a for i in range(4))
            target[(slice(None), *legs)] = known[split[family, pattern]].value
