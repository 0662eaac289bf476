r"""Hermite series: every pair expectation of a smooth activation from one small table per layer.

With $\mathrm{He}_k$ the Hermite polynomials normalised to $\langle\mathrm{He}_k^2\rangle=1$,
$$F(\sqrt{A}\,x)=\sum_k h_k(A)\,\mathrm{He}_k(x),\qquad
  \langle F(z_a)G(z_b)\rangle=\sum_k h_k[F](A)\,h_k[G](B)\,c^k,\qquad c=C/\sqrt{AB}$$
(Mehler). An activation is evaluated on some hundred nodes per input, never on pairs of inputs. What a
truncation at order $n$ leaves out is at most $|c|^n\sqrt{r_ar_b}$, where the remainder
$r_a=\langle F^2\rangle_A-\sum_{k<n}h_k^2$ is known because $\langle F^2\rangle_A$ is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float

__all__ = ["HermiteTable", "PairSeries", "hermite_table", "mehler"]

HALF_RANGE = 13.0  # e^{-x²/4} < 1e-18 there: what He_k times the weight decays by, at any order
MAX_ORDER = 2048
MAX_NODES = 4096
_ROUNDOFF = 4e-15


@dataclass(frozen=True)
class HermiteTable:
    r"""Coefficients $h_k(K_a)$ of one function for many variances.

    Args:
        coefficients: $h_k(K_a)$, by order and input.
        remainder: $\sqrt{\sum_{k\ge n}h_k^2}$ per input: what truncation leaves out, or roundoff.
        converged: Whether the remainder is below the tolerance asked for.
    """

    coefficients: Float[np.ndarray, "order input"]
    remainder: Float[np.ndarray, " input"]
    converged: bool


def _weighted_polynomials(order: int, nodes: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    small = order * nodes <= 1 << 18  # two megabytes: worth keeping
    return (_kept_polynomials if small else _make_polynomials)(order, nodes, shift)


def _make_polynomials(order: int, nodes: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes $x_j$ of a trapezoidal rule, and $w_j\mathrm{He}_k(x_j)$ for $k<$ `order`."""
    step = 2 * HALF_RANGE / nodes
    x = -HALF_RANGE + step * (np.arange(nodes) + shift)
    table = np.empty((order, nodes))
    table[0] = np.exp(-x * x / 2) * (step / math.sqrt(2 * math.pi))
    table[1] = x * table[0]
    for k in range(1, order - 1):
        table[k + 1] = (x * table[k] - math.sqrt(k) * table[k - 1]) / math.sqrt(k + 1)
    return x, table


_kept_polynomials = lru_cache(maxsize=24)(_make_polynomials)


def hermite_table(
    function: Callable[[np.ndarray], np.ndarray],
    K: Float[np.ndarray, " input"],
    *,
    parity: int = 0,
    rtol: float = 1e-7,
    max_order: int = MAX_ORDER,
) -> HermiteTable:
    r"""Hermite coefficients of `function` at each variance, to the order that the tail asks for.

    Order and nodes are found on the smallest, the middle and the largest variance, and the tail test
    is then made on all of them.

    Args:
        function: $F$, elementwise on arrays.
        K: Variances $K_a>0$.
        parity: $+1$ if $F$ is even, $-1$ if odd: half the nodes do.
        rtol: Wanted remainder relative to $\sqrt{\langle F^2\rangle}$. The error of an expectation
            is a product of two remainders, so its square is what counts.
        max_order: Where to stop if the tail does not fall fast enough.

    Returns:
        The table; its `converged` says whether the tail test was passed.
    """
    order, nodes = 32, 64
    pilot = np.quantile(K, (0.0, 0.5, 1.0))
    previous = np.inf
    while True:
        nodes, resolved = _resolving_nodes(function, pilot, order, nodes, parity)
        h, square = _rule(function, pilot, order, nodes, 0.0, parity)
        remainder, passed = _tail(h, square, rtol)
        worst = float(np.max(remainder / np.sqrt(np.maximum(square, np.finfo(float).tiny))))
        hopeless = _extrapolated(previous, worst, order, max_order) > 100 * rtol
        if passed or not resolved or order >= max_order or hopeless:
            break
        order, previous = 2 * order, worst
    h, square = _rule(function, K, order, nodes, 0.0, parity)
    remainder, passed = _tail(h, square, rtol)
    return HermiteTable(h, remainder, passed and resolved)


def _extrapolated(before: float, now: float, order: int, last_order: int) -> float:
    r"""The remainder to expect at the last order, as it falls like $e^{-\alpha\sqrt n}$ or slower."""
    if order < 128 or not 0.0 < now < before < np.inf:
        return 0.0 if order < 128 else now
    rate = math.log(before / now) / (math.sqrt(order) - math.sqrt(order / 2))
    return now * math.exp(-rate * (math.sqrt(last_order) - math.sqrt(order)))


def _tail(h: np.ndarray, square: np.ndarray, rtol: float) -> tuple[np.ndarray, bool]:
    """What the coefficients leave out, per input, and whether it is below the tolerance.

    Parseval sees a remainder only above the root of roundoff; the last coefficients are seen to
    roundoff and, as they fall, bound what follows. Both tests must pass.
    """
    size = np.sqrt(np.maximum(square, np.finfo(float).tiny))
    parseval = np.sqrt(np.maximum(square - np.sum(h * h, axis=0), 0.0))
    last = np.sqrt(np.sum(h[-max(4, len(h) // 8) :] ** 2, axis=0))
    passed = bool(np.all(last <= rtol * size) & np.all(parseval <= max(1e-7, rtol) * size))
    remainder = last if passed else np.maximum(last, parseval)
    return np.maximum(remainder, _ROUNDOFF * size), passed


def _rule(
    function: Callable[[np.ndarray], np.ndarray],
    K: np.ndarray,
    order: int,
    nodes: int,
    shift: float,
    parity: int,
) -> tuple[np.ndarray, np.ndarray]:
    r"""$h_k$ for $k<$ `order` and $\langle F^2\rangle$ by one trapezoidal rule."""
    x, polynomials = _weighted_polynomials(order, nodes, shift)
    if parity:
        half = slice(nodes // 2 if shift else nodes // 2 + 1, None)
        values = function(np.sqrt(K)[:, None] * x[half])
        h = np.zeros((order, len(K)))
        own = slice(int(parity < 0), None, 2)
        h[own] = 2.0 * (polynomials[own, half] @ values.T)
        square = 2.0 * (values * values) @ polynomials[0, half]
        if not shift and parity > 0:
            centre = function(np.zeros(1))[0]
            h[own] += polynomials[own, nodes // 2, None] * centre
            square += polynomials[0, nodes // 2] * centre * centre
        return h, square
    values = function(np.sqrt(K)[:, None] * x)
    return polynomials @ values.T, (values * values) @ polynomials[0]


def _resolving_nodes(
    function: Callable[[np.ndarray], np.ndarray],
    K: np.ndarray,
    order: int,
    nodes: int,
    parity: int,
) -> tuple[int, bool]:
    """How many nodes the trapezoidal rule needs, and whether that many are allowed.

    Such sums converge geometrically for a function analytic in a strip: two interleaved rules of a
    step h agree when their mean, the rule of step h/2, is accurate.
    """
    while True:
        one, square = _rule(function, K, order, nodes, 0.0, parity)
        other, _ = _rule(function, K, order, nodes, 0.5, parity)
        nodes *= 2
        if np.all(np.max(np.abs(one - other), axis=0) <= 1e-10 * np.sqrt(square)):
            return nodes, True
        if nodes >= MAX_NODES:
            return nodes, False


def mehler(
    f: Float[np.ndarray, "order_f pair"],
    g: Float[np.ndarray, "order_g pair"],
    c: Float[np.ndarray, " pair"],
) -> Float[np.ndarray, " pair"]:
    r"""$\sum_kf_kg_kc^k$ by Horner's rule, one column of coefficients per pair."""
    order = min(len(f), len(g))
    total = f[order - 1] * g[order - 1]
    for k in range(order - 2, -1, -1):
        total = total * c + f[k] * g[k]
    return total


class PairSeries:
    r"""Mehler sums for many pairs; each function's table is made once.

    Args:
        A: Variances of $z_a$, one per pair.
        B: Variances of $z_b$.
        C: Covariances.
    """

    def __init__(
        self,
        A: Float[np.ndarray, " pair"],
        B: Float[np.ndarray, " pair"],
        C: Float[np.ndarray, " pair"],
    ) -> None:
        self.variances, inverse = np.unique(np.concatenate([A, B]), return_inverse=True)
        self._left, self._right = inverse[: A.size], inverse[A.size :]
        self._c = np.clip(C / np.sqrt(A * B), -1.0, 1.0)

    def table(
        self, function: Callable[[np.ndarray], np.ndarray], parity: int = 0, rtol: float = 1e-7
    ) -> HermiteTable:
        """Coefficients of a function at every variance that occurs."""
        return hermite_table(function, self.variances, parity=parity, rtol=rtol)

    def derivative(self, table: HermiteTable) -> HermiteTable:
        r"""The table of $F'$ from that of $F$: $h_k[F']=\sqrt{(k+1)/K}\,h_{k+1}[F]$."""
        order = len(table.coefficients)
        factor = np.sqrt(np.arange(1, order))[:, None] / np.sqrt(self.variances)
        remainder = table.remainder * math.sqrt(order) / np.sqrt(self.variances)
        return HermiteTable(table.coefficients[1:] * factor, remainder, table.converged)

    def moment(self, f: HermiteTable, g: HermiteTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""$\langle F(z_a)G(z_b)\rangle$, its error bound, and its natural size.

        The size is $\sqrt{\langle F^2\rangle\langle G^2\rangle}$, what relative errors refer to.
        """
        left, right = self._left, self._right
        value = mehler(f.coefficients[:, left], g.coefficients[:, right], self._c)
        norm_f = np.sqrt(np.sum(f.coefficients**2, axis=0))[left]
        norm_g = np.sqrt(np.sum(g.coefficients**2, axis=0))[right]
        order = min(len(f.coefficients), len(g.coefficients))
        # Orders beyond the shorter table are missing from one factor only.
        rest_f = np.sqrt(np.sum(f.coefficients[order:] ** 2, axis=0))[left] + f.remainder[left]
        rest_g = np.sqrt(np.sum(g.coefficients[order:] ** 2, axis=0))[right] + g.remainder[right]
        size = norm_f * norm_g
        error = np.abs(self._c) ** order * rest_f * rest_g + 1e-15 * size
        return value, error, size
