r"""One layer's map $K_{ab}\mapsto(\langle\sigma_a\sigma_b\rangle,\langle\sigma'_a\sigma'_b\rangle)$ on many pairs.

The hot path of the package. A map is made once per layer from the diagonal $K_{aa}$; it is then applied
to tiles of pairs small enough to stay in cache, in place, without temporaries. Nothing here evaluates
an activation on a pair.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import get_blas_funcs

from scalewise.activations import Activation
from scalewise.gaussian._geometry import clipped
from scalewise.gaussian._hermite import LowOrders, hermite_table, low_orders
from scalewise.gaussian._in_place import TILED, KernelMap, Tile
from scalewise.gaussian._increments import increment
from scalewise.gaussian._interface import pair_moments, single_moment
from scalewise.gaussian._places import Places
from scalewise.gaussian._split_orders import split_orders

_SERIES_TOLERANCE = 1e-12
# Orders that are tried before all of them: the first for correlations of a half or so.
_FEW = (48, 128)
_MANY = (512, 2048)  # of an activation with kinks, whose coefficients never end
_TINY = np.finfo(float).tiny
(_rank_one_update,) = get_blas_funcs(("ger",), dtype=np.float64)


def kernel_map(sigma: Activation, K: Float[np.ndarray, " input"], *, slope: bool) -> KernelMap:
    """The fastest accurate map for an activation: in-place closed form, series, or general.

    The first moment is the same, to the last bit, whether the second is asked for or not.

    Args:
        sigma: The activation.
        K: Variances of the inputs at this layer.
        slope: Whether the second moment will be asked for.
    """
    family = TILED.get(sigma.family or "")
    if family is not None:
        return family(sigma, K)
    if sigma.family is None:
        low = _orders_below(_FEW[0], sigma, K, slope=sigma.is_continuous)
        if low is not None:
            return HermiteMap(sigma, K, low)
    return GeneralMap(sigma, K, slope=slope)


def _orders_below(order: int, sigma: Activation, K: np.ndarray, *, slope: bool) -> LowOrders | None:
    r"""`low_orders` of $\sigma$, by way of $\sigma-\sigma(0)$.

    At small $K$ a coefficient beyond the first is as small as $\sqrt K$, and the slope is made of it: next
    to a constant it would be lost in rounding.
    """
    delta, derivative = increment(sigma, 0), sigma.derivatives[1] if slope else None
    low = (
        low_orders(delta, derivative, K, order, parity=sigma.parity)
        if sigma.is_smooth
        else split_orders(delta, derivative, K, order, sigma.split_points)
    )
    if low is None or delta.centre == 0.0:
        return low
    square = low.square + delta.centre * (delta.centre + 2 * low.coefficients[0])
    low.coefficients[0] += delta.centre
    return LowOrders(low.coefficients, square, low.slope_square)


class HermiteMap(KernelMap):
    r"""$\sum_kh_k(K_a)h_k(K_b)c^k$ and its derivative, one Horner sum for both.

    Odd and even functions have half the coefficients: the sum runs over powers of $c^2$. The order
    is cut for every tile by the largest $|c|$ that occurs in it. What the orders known so far leave
    out of it is bounded by what they leave out of the diagonal; where that is too much, the table of
    all orders is made, and where there is none, as of an activation with kinks, the pairs whose
    correlation is too close to 1 go the general way.
    """

    def __init__(self, sigma: Activation, K: np.ndarray, low: LowOrders) -> None:
        super().__init__(K, low.square, low.slope_square)
        self._sigma = sigma
        self._start, self._stride = (int(sigma.parity < 0), 2) if sigma.parity else (0, 1)
        # Of a preactivation that is always 0 the tangent at 0 is all there is, on any scale.
        self._still = K == 0.0
        self._line = [
            [float(sigma.derivatives[p](np.zeros(1))[0]) * sigma.scale**p] for p in (0, 1)
        ]
        self._units = np.where(self._still, sigma.scale**2, K)
        self._inverse_root = 1.0 / np.sqrt(self._units)
        self._further = [*_FEW[1:], *(() if sigma.is_smooth else _MANY), None]
        self._general: GeneralMap | None = None
        self._take(low.coefficients)

    def _take(self, coefficients: np.ndarray) -> None:
        if self._still.any():
            coefficients[:, self._still] = 0.0
            coefficients[:2, self._still] = self._line
        self._h = np.ascontiguousarray(coefficients[self._start :: self._stride])
        own = self._start + self._stride * np.arange(len(self._h) + 1)
        # What each order contributes at most, relative to the natural size of the two moments, and
        # last what all that follow contribute.
        square = self._h * self._h
        self._weight = _shares(square, self.diagonal)
        if self.diagonal_slope is not None:
            slopes = _shares(own[:-1, None] * square, self.diagonal_slope * self._units)
            self._weight = np.maximum(self._weight, slopes)
        self._power = np.maximum(own - 1.0 - self._start, 0.0)

    def _terms(self, cmax: float) -> int:
        """Number of terms that do; one more than there are, if those do not."""
        if cmax == 0.0:
            return min(2, len(self._h))
        tail = np.cumsum((self._weight * cmax**self._power)[::-1])[::-1]
        return max(2, int(np.searchsorted(-tail, -_SERIES_TOLERANCE)))

    def _learn_more(self) -> None:
        """Take the next few orders of the series, or all of them, or find that there are none."""
        sigma, order = self._sigma, self._further.pop(0)
        if order is not None:
            low = _orders_below(order, sigma, self.K, slope=False)
            if low is not None:
                self._take(low.coefficients)
            return
        if not sigma.is_smooth:
            self._general = GeneralMap(sigma, self.K, slope=sigma.is_continuous)
            return
        delta = increment(sigma, 0)
        table = hermite_table(delta, self.K, parity=sigma.parity)
        if table.converged:
            table.coefficients[0] += delta.centre
            self._take(table.coefficients)
            self._weight[-1] = 0.0
        else:
            self._general = GeneralMap(sigma, self.K, slope=True)

    def _fill(self, at: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]) -> None:
        c, u, p, q, term = work
        np.multiply(C, at.left(self._inverse_root), out=c)
        c *= at.right(self._inverse_root)
        cmax = max(float(c.max()), -float(c.min()))
        if cmax > 1.0:
            np.clip(c, -1.0, 1.0, out=c)
        terms = self._terms(min(cmax, 1.0))
        while terms > len(self._h) and self._further:
            self._learn_more()
            terms = self._terms(min(cmax, 1.0))
        far, direct = None, (C, slope)
        if terms > len(self._h) and self._general is not None:
            far = self._beyond(c)
            direct = C.copy(), None if slope is None else np.zeros_like(C)
            self._general.fill(at, *direct, far)
        terms = min(terms, len(self._h))
        if self._stride == 2:
            np.multiply(c, c, out=u)
        else:
            u = c
        left, right = at.left(self._h[:terms]), at.right(self._h[:terms])
        np.multiply(left[-1], right[-1], out=p)
        q.fill(0.0)
        matrix = p.reshape(at.matrix).T if at.matrix else None
        for k in range(terms - 2, -1, -1):
            if slope is not None:
                q *= u
                q += p
            p *= u
            if matrix is None:
                p += np.multiply(left[k], right[k], out=term)
            else:
                # p += left right^T in one pass and in place; BLAS counts along columns, hence the transpose.
                _rank_one_update(1.0, right[k].ravel(), left[k].ravel(), a=matrix, overwrite_a=1)
        self._finish(c, p, q, C, slope)
        if slope is not None:
            slope *= at.left(self._inverse_root)
            slope *= at.right(self._inverse_root)
        if far is not None:
            for target, values in zip((C, slope), direct, strict=True):
                if target is not None and values is not None:
                    target[far] = values[far]

    def _beyond(self, c: Tile) -> Bool[np.ndarray, "*tile"]:
        """Mask of the correlations that are so close to 1 that the orders there are do not do, by bisection."""
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._terms(middle) <= len(self._h) else (low, middle)
        return np.abs(c) > low

    def _finish(
        self, c: np.ndarray, p: np.ndarray, q: np.ndarray, C: np.ndarray, slope: np.ndarray | None
    ) -> None:
        """Turn the polynomial p(u) and its derivative q(u) into the moment and its c-derivative."""
        if self._stride == 1:
            C[...] = p
            if slope is not None:
                slope[...] = q
            return
        if slope is not None:
            np.multiply(q, c, out=slope)
            slope *= 2.0  # d p(c²)/dc
            if self._start == 1:
                slope *= c
                slope += p
        if self._start == 1:
            np.multiply(p, c, out=C)
        else:
            C[...] = p


def _shares(parts: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The largest share of each row of parts in the whole over the inputs, and what all leave of it."""
    # A constant has no slope, and 0 none of both.
    inverse = 1.0 / np.maximum(whole, _TINY)
    rest = max(float(((whole - parts.sum(axis=0)) * inverse).max()), 0.0)
    return np.append((parts * inverse).max(axis=1), rest)


class GeneralMap(KernelMap):
    """Any activation, through `pair_moments`: allocates, and may fall back to quadrature."""

    def __init__(self, sigma: Activation, K: np.ndarray, *, slope: bool) -> None:
        self._sigma = sigma
        first = single_moment(sigma, K, (0, 0)).value
        second = single_moment(sigma, K, (1, 1)).value if slope else None
        super().__init__(K, first, second)

    def _fill(self, at: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]) -> None:
        self.fill(at, C, slope, np.ones(C.shape, dtype=bool))

    def fill(
        self, at: Places, C: Tile, slope: Tile | None, which: Bool[np.ndarray, "*tile"]
    ) -> None:
        """Fill in some pairs alone; those that a tile has both ways round are computed once."""
        shape = at.matrix or C.shape
        A, B, first, second = (
            np.broadcast_to(value, C.shape).reshape(shape)
            for value in (
                *(side(self.K) for side in (at.left, at.right)),
                *(side(np.arange(len(self.K))) for side in (at.left, at.right)),
            )
        )
        need = which.reshape(shape) & (first != second)
        C = C.reshape(shape)  # the same numbers
        C[...] = clipped(A, B, C)
        block = _met_twice(first[:, 0], second[0]) if at.matrix else None
        turned = np.zeros((0, 0), dtype=bool)
        if block is not None:
            both = need[block] | need[block].T
            need[block], turned = np.triu(both), np.tril(both)
        abc = A[need], B[need], C[need]
        for target, diagonal, pq in (
            (C, self.diagonal, (0, 0)),
            (None if slope is None else slope.reshape(shape), self.diagonal_slope, (1, 1)),
        ):
            if target is None or diagonal is None:
                continue
            if abc[0].size:
                # One by one: together, what one of them needs would change the other's rounding.
                target[need] = pair_moments(self._sigma, *abc, (pq,))[pq].value
            if block is not None:
                target[block] = np.where(turned, target[block].T, target[block])


def _met_twice(
    rows: Int[np.ndarray, " row"], columns: Int[np.ndarray, " column"]
) -> tuple[np.ndarray, ...]:
    """Places where a tile of neighbouring labels has pairs both ways round: a square, by rows and columns."""
    both = np.arange(max(rows[0], columns[0]), min(rows[-1], columns[-1]) + 1)
    return np.ix_(both - rows[0], both - columns[0])
