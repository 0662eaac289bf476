r"""One layer's map $K_{ab}\mapsto(\langle\sigma_a\sigma_b\rangle,\langle\sigma'_a\sigma'_b\rangle)$ on many pairs.

The hot path of the package. A map is made once per layer from the diagonal $K_{aa}$; it is then applied
to tiles of pairs small enough to stay in cache, in place, without temporaries. Nothing here evaluates
an activation on a pair.
"""

from __future__ import annotations

import abc
import math

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import get_blas_funcs

from scalewise.activations import Activation
from scalewise.gaussian._closed import closed_pair_moments
from scalewise.gaussian._geometry import clipped
from scalewise.gaussian._hermite import LowOrders, hermite_table, low_orders
from scalewise.gaussian._increments import increment
from scalewise.gaussian._interface import pair_moments, single_moment

_SERIES_TOLERANCE = 1e-12
# Orders that are tried before all of them: the first for correlations of a half or so.
_FEW = (48, 128)
(_rank_one_update,) = get_blas_funcs(("ger",), dtype=np.float64)
_COINCIDENT = 1.0 - 2e-15  # arccos turns the roundoff of a correlation of 1 into its square root

# Of some inputs with others, row by column, or of pairs one after the other.
Tile = Float[np.ndarray, "*tile"]
Places = slice | Int[np.ndarray, " pair"]


class Workspace:
    """`arrays` scratch arrays of `size` numbers for tiles, allocated once; `take(shape)` hands out views."""

    def __init__(self, arrays: int, size: int) -> None:
        self._flat = np.empty((arrays, size))

    def take(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """One view of the given `shape` per scratch array."""
        return [flat[: math.prod(shape)].reshape(shape) for flat in self._flat]


class KernelMap(abc.ABC):
    r"""The two pair moments that the kernel and the NTK need, for the inputs of one layer.

    Args:
        K: $K_{aa}$ of each input; preactivation². It is 0 only where the activation is smooth there.

    Attributes:
        diagonal: $\langle\sigma_a^2\rangle$ for each input.
        diagonal_slope: $\langle\sigma_a'^2\rangle$ for each input.
    """

    scratch = 5

    def __init__(
        self,
        K: Float[np.ndarray, " input"],
        diagonal: Float[np.ndarray, " input"],
        diagonal_slope: Float[np.ndarray, " input"] | None,
    ) -> None:
        self.K = K
        self.diagonal = diagonal
        self.diagonal_slope = diagonal_slope

    @abc.abstractmethod
    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        r"""Replace `C` by $\langle\sigma_a\sigma_b\rangle$; fill `slope` with $\langle\sigma'_a\sigma'_b\rangle$.

        Args:
            rows: Which inputs are $a$; slices for a tile of two dimensions, places for one of one dimension.
            columns: Which inputs are $b$.
            C: $K_{ab}$ on entry, the first moment on return. Of inputs with themselves, slices that are alike, it
                is symmetric.
            slope: Where to put the second moment; ``None`` if it is not wanted.
            work: Scratch arrays of the tile's shape.
        """


def _facing(values: np.ndarray, C: Tile) -> np.ndarray:
    """What belongs to the first inputs of a tile, as it meets what belongs to the second ones."""
    return values if C.ndim == 1 else values[:, None]


def kernel_map(sigma: Activation, K: Float[np.ndarray, " input"], *, slope: bool) -> KernelMap:
    """The fastest accurate map for an activation: in-place closed form, series, or general.

    The first moment is the same, to the last bit, whether the second is asked for or not.

    Args:
        sigma: The activation.
        K: Variances of the inputs at this layer.
        slope: Whether the second moment will be asked for.
    """
    family = _TILED.get(sigma.family or "")
    if family is not None:
        return family(sigma, K)
    if sigma.family is None and sigma.is_smooth:
        low = _orders_below(_FEW[0], sigma, K, slope=True)
        if low is not None:
            return HermiteMap(sigma, K, low)
    return GeneralMap(sigma, K, slope=slope)


def _orders_below(order: int, sigma: Activation, K: np.ndarray, *, slope: bool) -> LowOrders | None:
    r"""`low_orders` of $\sigma$, by way of $\sigma-\sigma(0)$.

    At small $K$ a coefficient beyond the first is as small as $\sqrt K$, and the slope is made of it: next
    to a constant it would be lost in rounding.
    """
    delta, derivative = increment(sigma, 0), sigma.derivatives[1] if slope else None
    low = low_orders(delta, derivative, K, order, parity=sigma.parity)
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
    all orders is made, and where there is none, the tile goes the general way.
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
        self._further = [*_FEW[1:], None]
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
        """How many terms do; one more than there are, if those do not."""
        if cmax == 0.0:
            return min(2, len(self._h))
        tail = np.cumsum((self._weight * cmax**self._power)[::-1])[::-1]
        return max(2, int(np.searchsorted(-tail, -_SERIES_TOLERANCE)))

    def _learn_more(self) -> None:
        """The next few orders, or all of them, or that there are none."""
        sigma, order = self._sigma, self._further.pop(0)
        if order is not None:
            low = _orders_below(order, sigma, self.K, slope=False)
            if low is not None:
                self._take(low.coefficients)
            return
        delta = increment(sigma, 0)
        table = hermite_table(delta, self.K, parity=sigma.parity)
        if table.converged:
            table.coefficients[0] += delta.centre
            self._take(table.coefficients)
            self._weight[-1] = 0.0
        else:
            self._general = GeneralMap(sigma, self.K, slope=True)

    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        c, u, p, q, term = work
        np.multiply(C, _facing(self._inverse_root[rows], C), out=c)
        c *= self._inverse_root[columns]
        cmax = max(float(c.max()), -float(c.min()))
        if cmax > 1.0:
            np.clip(c, -1.0, 1.0, out=c)
        terms = self._terms(min(cmax, 1.0))
        while terms > len(self._h) and self._further:
            self._learn_more()
            terms = self._terms(min(cmax, 1.0))
        if terms > len(self._h) and self._general is not None:
            self._general.apply(rows, columns, C, slope, work)
            return
        terms = min(terms, len(self._h))
        if self._stride == 2:
            np.multiply(c, c, out=u)
        else:
            u = c
        left, right = self._h[terms - 1, rows], self._h[terms - 1, columns]
        np.multiply(_facing(left, C), right, out=p)
        q.fill(0.0)
        for k in range(terms - 2, -1, -1):
            if slope is not None:
                q *= u
                q += p
            p *= u
            left, right = self._h[k, rows], self._h[k, columns]
            if C.ndim == 1:
                p += np.multiply(left, right, out=term)
            else:
                # p += left right^T in one pass and in place; BLAS counts along columns, hence p.T.
                _rank_one_update(1.0, right, left, a=p.T, overwrite_a=1)
        self._finish(c, p, q, C, slope)
        if slope is not None:
            slope *= _facing(self._inverse_root[rows], C)
            slope *= self._inverse_root[columns]

    def _finish(
        self, c: np.ndarray, p: np.ndarray, q: np.ndarray, C: np.ndarray, slope: np.ndarray | None
    ) -> None:
        """From the polynomial p(u) and its derivative q(u) to the moment and its c-derivative."""
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
    parts = np.vstack([parts, np.maximum(whole - parts.sum(axis=0), 0.0)])
    # A constant has no slope, and 0 none of both.
    return np.max(parts / np.maximum(whole, np.finfo(float).tiny), axis=1)


class ScaleInvariantMap(KernelMap):
    r"""$\sqrt{K_aK_b}\,[A_2c+\beta(\sin\psi-\psi c)]$ and $A_2-\beta\psi$, $c=\cos\psi$: PDLT (5.159)-(5.161)."""

    def __init__(self, sigma: Activation, K: np.ndarray) -> None:
        minus, plus = sigma.slopes or (1.0, 1.0)
        self._A2 = 0.5 * (plus * plus + minus * minus)
        self._beta = (plus - minus) ** 2 / (2 * math.pi)
        super().__init__(K, self._A2 * K, np.full_like(K, self._A2))
        self._root = np.sqrt(K)

    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        if self._beta == 0.0:
            C *= self._A2
            if slope is not None:
                slope.fill(self._A2)
            return
        c, psi, sine, *_ = work
        np.multiply(C, _facing(1.0 / self._root[rows], C), out=c)
        c *= 1.0 / self._root[columns]
        if c.max() > _COINCIDENT:
            c[c > _COINCIDENT] = 1.0
        if c.min() < -_COINCIDENT:
            c[c < -_COINCIDENT] = -1.0
        np.arccos(c, out=psi)
        np.multiply(c, c, out=sine)
        np.subtract(1.0, sine, out=sine)
        np.sqrt(sine, out=sine)
        sine *= self._beta
        psi *= -self._beta
        psi += self._A2
        if slope is not None:
            slope[...] = psi
        c *= psi
        c += sine
        c *= _facing(self._root[rows], C)
        np.multiply(c, self._root[columns], out=C)


class ErfMap(KernelMap):
    r"""$\frac2\pi\arcsin u$ and $\frac4\pi\Delta^{-1/2}$, $u=2C/\sqrt{(1+2A)(1+2B)}$."""

    def __init__(self, sigma: Activation, K: np.ndarray) -> None:
        super().__init__(
            K, 2 / math.pi * np.arctan2(2 * K, np.sqrt(1 + 4 * K)), 4 / math.pi / np.sqrt(1 + 4 * K)
        )
        self._inverse_root = 1.0 / np.sqrt(1 + 2 * K)

    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        u, square, *_ = work
        np.multiply(C, _facing(2 * self._inverse_root[rows], C), out=u)
        u *= self._inverse_root[columns]
        if slope is not None:
            np.multiply(u, u, out=square)
            np.subtract(1.0, square, out=square)
            np.sqrt(square, out=square)
            np.divide(_facing(4 / math.pi * self._inverse_root[rows], C), square, out=slope)
            slope *= self._inverse_root[columns]
        np.arcsin(u, out=C)
        C *= 2 / math.pi


class GeluMap(KernelMap):
    r"""GELU in closed form, no activation evaluated.

    With $\alpha=1/(1+A)$, $\beta=1/(1+B)$, $u=C\sqrt{\alpha\beta}$, $\Delta=(1-u^2)/\alpha\beta$:
    $$M_{00}=CP+\frac{E}{2\pi\sqrt\Delta},\quad M_{11}=P+\frac{C}{2\pi\sqrt\Delta}
      \Big(2\alpha+2\beta-1+\frac E\Delta\Big),\quad P=\tfrac14+\tfrac1{2\pi}\arcsin u,\quad
      E=AB+C^2(\alpha+\beta-1).$$
    """

    def __init__(self, sigma: Activation, K: np.ndarray) -> None:
        moments = closed_pair_moments(sigma, K, K, K, ((0, 0), (1, 1)))
        assert moments is not None
        super().__init__(K, moments[0, 0], moments[1, 1])
        self._alpha = 1.0 / (1.0 + K)
        self._root_alpha = np.sqrt(self._alpha)

    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        u, density, E, gamma, P = work
        np.multiply(C, _facing(self._root_alpha[rows], C), out=u)
        u *= self._root_alpha[columns]
        np.multiply(u, u, out=density)
        np.subtract(1.0, density, out=density)
        np.sqrt(density, out=density)
        np.divide(_facing(self._root_alpha[rows] / (2 * math.pi), C), density, out=density)
        density *= self._root_alpha[columns]  # 1/(2 pi sqrt(Delta))
        np.add(_facing(self._alpha[rows] - 1.0, C), self._alpha[columns], out=gamma)
        np.multiply(C, C, out=E)
        E *= gamma
        np.multiply(_facing(self.K[rows], C), self.K[columns], out=P)
        E += P
        np.arcsin(u, out=P)
        P *= 1 / (2 * math.pi)
        P += 0.25
        E *= density  # E / (2 pi sqrt(Delta))
        if slope is not None:
            # E is now E/(2 pi sqrt(Delta)), so E density (2 pi)² is E/Delta.
            np.multiply(E, density, out=slope)
            slope *= 4 * math.pi**2
            gamma *= 2.0
            gamma += 1.0
            slope += gamma
            slope *= density
            slope *= C
            slope += P
        C *= P
        C += E


class GeneralMap(KernelMap):
    """Any activation, through `pair_moments`: allocates, and may fall back to quadrature."""

    def __init__(self, sigma: Activation, K: np.ndarray, *, slope: bool) -> None:
        self._sigma = sigma
        first = single_moment(sigma, K, (0, 0)).value
        second = single_moment(sigma, K, (1, 1)).value if slope else None
        super().__init__(K, first, second)

    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        A, B = np.broadcast_arrays(_facing(self.K[rows], C), self.K[columns])
        C[...] = clipped(A, B, C)
        # Of a tile with itself one half is the other, and the diagonal is known.
        mirrored = C.ndim == 2 and rows == columns
        here = (
            np.triu_indices(len(C), 1)
            if mirrored
            else tuple(np.indices(C.shape).reshape(C.ndim, -1))
        )
        wanted = [(C, (0, 0))] if slope is None else [(C, (0, 0)), (slope, (1, 1))]
        if here[0].size:
            abc = A[here], B[here], C[here]
            for target, pq in wanted:
                # One by one: together, what one of them needs would change the other's rounding.
                target[here] = pair_moments(self._sigma, *abc, (pq,))[pq].value
                if mirrored:
                    target[here[::-1]] = target[here]
        if mirrored:
            np.fill_diagonal(C, self.diagonal[rows])
            if slope is not None and self.diagonal_slope is not None:
                np.fill_diagonal(slope, self.diagonal_slope[rows])


_TILED: dict[str, type[ScaleInvariantMap] | type[ErfMap] | type[GeluMap]] = {
    "scale_invariant": ScaleInvariantMap,
    "erf": ErfMap,
    "gelu": GeluMap,
}
