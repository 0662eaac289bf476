r"""Moments $M_{pq}$ between all labels of a layer, tile by tile: one Hermite table for each derivative.

By Mehler's formula $M_{pq}(s,t)=\sum_kh^{(p)}_k(s)\,h^{(q)}_k(t)\,c_{st}^k$ with the coefficients of
$\sigma^{(p)}$ at the variance of each label. A tile takes as many orders as its largest correlation asks for; a
label with itself has correlation 1 and is known apart. Activations with kinks, whose coefficients never end, go by
`pair_moments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product

import numpy as np
from jaxtyping import Bool, Float

from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.gaussian._geometry import clipped
from scalewise.gaussian._hermite import hermite_table
from scalewise.gaussian._interface import PAIR_ORDERS, pair_moments

Order = tuple[int, int]
Tile = Float[np.ndarray, "row column"]
Moments = dict[Order, Tile]
_TOLERANCE = 1e-10  # of a moment, by the size of its two factors
_ROWS, _COLUMNS = 64, 192  # at a time, which a processor keeps at hand
_DERIVATIVES = 3


@readable
class PairTables:
    r"""Tables of an activation at the variances of labels.

    Args:
        sigma: The activation.
        K: Variances of the labels, preactivation².
    """

    def __init__(self, sigma: Activation, K: Float[np.ndarray, " label"]) -> None:
        self.sigma, self.K = sigma, K
        self._inverse_root = 1.0 / np.sqrt(np.where(K > 0, K, np.inf))
        self._h: list[np.ndarray] = []
        if sigma.is_smooth:
            tables = [
                hermite_table(
                    sigma.derivatives[p],
                    K,
                    parity=sigma.parity * (-1) ** p,
                    rtol=1e-7 if p < 3 else 1e-9,
                )
                for p in range(_DERIVATIVES + 1)
            ]
            if all(table.converged for table in tables):
                self._h = [table.coefficients for table in tables]

    @property
    def is_series(self) -> bool:
        """True if any pair of derivatives up to the fifth is known, and not those of `PAIR_ORDERS` alone."""
        return bool(self._h)

    def _table(self, p: int) -> Float[np.ndarray, "_order label"]:
        r"""Coefficients of $\sigma^{(p)}$, beyond the third by $h_k[F']=\sqrt{(k+1)/K}\,h_{k+1}[F]$."""
        while len(self._h) <= p:
            last = self._h[-1]
            roots = np.sqrt(np.arange(1, len(last)))[:, None] * self._inverse_root
            self._h.append(last[1:] * roots)
            self._tails.append(_tail(self._h[-1]))
        return self._h[p]

    @cached_property
    def _tails(self) -> list[Float[np.ndarray, " _order"]]:
        """Shares of the whole that all orders from one on have at most, by derivative."""
        return list(map(_tail, self._h))

    def at_equal(self, p: int, q: int) -> Float[np.ndarray, " label"]:
        r"""$M_{pq}$ of each label with itself.

        Args:
            p: Order of the derivative of the first factor.
            q: That of the second.
        """
        if self._h:
            h, g = self._table(p), self._table(q)
            count = min(len(h), len(g))
            return np.einsum("ks,ks->s", h[:count], g[:count])
        return self._by_pairs(self.K, self.K, self.K, [(p, q)])[p, q]

    def moments(self, rows: slice, columns: slice, C: Tile, orders: Sequence[Order]) -> Moments:
        r"""$M_{pq}$ of some labels with others.

        Args:
            rows: The first of a pair.
            columns: The second.
            C: Covariances.
            orders: $(p,q)$, each up to 5; where there is no series, of `PAIR_ORDERS`.

        Returns:
            By $(p,q)$; 1e-10 of $\sqrt{\langle\sigma^{(p)2}\rangle\langle\sigma^{(q)2}\rangle}$.
        """
        same = np.arange(*rows.indices(len(self.K)))[:, None] == np.arange(
            *columns.indices(len(self.K))
        )
        if not self._h:
            A, B = np.broadcast_arrays(self.K[rows, None], self.K[columns])
            C = np.where(same, A, clipped(A, B, C))
            found = self._by_pairs(A.ravel(), B.ravel(), C.ravel(), orders)
            return {pq: values.reshape(C.shape) for pq, values in found.items()}
        c = C * self._inverse_root[rows, None] * self._inverse_root[columns]
        np.clip(c, -1.0, 1.0, out=c)
        c[same] = 0.0
        return {pq: self._series(rows, columns, c, pq, same) for pq in orders}

    def _by_pairs(
        self, A: np.ndarray, B: np.ndarray, C: np.ndarray, orders: Sequence[Order]
    ) -> dict[Order, np.ndarray]:
        odd = [pq for pq in orders if self.sigma.parity and sum(pq) % 2]
        some = [pq for pq in orders if pq not in odd]
        assert set(some) <= set(PAIR_ORDERS)
        result = {pq: np.zeros(A.shape) for pq in orders}
        # Of a preactivation that is always 0 a kink there has its left slope; nothing else of it counts.
        apart = (A > 0) & (B > 0) if self.sigma.slopes is not None else np.ones(A.shape, bool)
        if self.sigma.slopes is not None and (1, 1) in result and not apart.all():
            left, mean = self.sigma.slopes[0], 0.5 * sum(self.sigma.slopes)
            one, other = (np.where(K > 0, mean, left) for K in (A, B))
            result[1, 1] = one * other
        if some and apart.any():
            for pq, found in pair_moments(self.sigma, A[apart], B[apart], C[apart], some).items():
                result[pq][apart] = found.value
        return result

    def _series(
        self, rows: slice, columns: slice, c: Tile, pq: Order, same: Bool[np.ndarray, "..."]
    ) -> Tile:
        p, q = pq
        f, g = self._table(p)[:, rows], self._table(q)[:, columns]
        total = np.zeros_like(c)
        if self.sigma.parity and (p + q) % 2:
            return total
        there = self._orders(p, q, float(np.abs(c).max(initial=0.0)))
        for first, start in product(range(0, len(c), _ROWS), range(0, c.shape[1], _COLUMNS)):
            row, column = slice(first, first + _ROWS), slice(start, start + _COLUMNS)
            _horner(f[:, row], g[:, column], c[row, column], there, total[row, column])
        if same.any():
            row, column = np.nonzero(same)
            count = min(len(f), len(g))
            total[row, column] = np.einsum("kn,kn->n", f[:count, row], g[:count, column])
        return total

    def _orders(self, p: int, q: int, c: float) -> range:
        """Orders that a tile needs, of those that a parity leaves."""
        count = min(len(self._h[p]), len(self._h[q]))
        left = self._tails[p][:count] * self._tails[q][:count] * c ** np.arange(count)
        count = max(1, int(np.searchsorted(-left, -_TOLERANCE)))
        if not self.sigma.parity:
            return range(count)
        start = p % 2 if self.sigma.parity > 0 else (p + 1) % 2
        return range(start, max(count, start + 1), 2)


def _tail(h: np.ndarray) -> Float[np.ndarray, " _order"]:
    energy = np.cumsum((h * h)[::-1], axis=0)[::-1]
    whole = np.maximum(energy[0], np.finfo(float).tiny)
    return np.sqrt((energy / whole).max(axis=1))


def _horner(f: np.ndarray, g: np.ndarray, c: Tile, there: range, total: Tile) -> None:
    r"""$\sum_kf_kg_kc^k$ over some orders."""
    power = c * c if there.step == 2 else c
    term, found = np.empty(c.shape), np.zeros(c.shape)
    last = min(len(f), len(g))
    orders = [k for k in there if k < last]
    for k in reversed(orders):
        found *= power
        found += np.multiply(f[k][:, None], g[k], out=term)
    if orders and there.start:
        found *= c
    total[...] = found
