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

import numpy as np
from jaxtyping import Float, Int

HALF_RANGE = 13.0  # e^{-x²/4} < 1e-18 there: what He_k times the weight decays by, at any order
_ORDERS = (32, 64, 128, 256, 512, 1024, 2048)
MAX_NODES = 4096
_ROUNDOFF = 4e-15
_PAIRS = 1 << 12  # whose sums are made together, in the processor's own memory


@dataclass(frozen=True)
class HermiteTable:
    r"""Coefficients $h_k(K_a)$ of one function for many variances."""

    coefficients: Float[np.ndarray, "order input"]  # $h_k(K_a)$, by order and input
    # $\sqrt{\sum_{k\ge n}h_k^2}$ per input: what truncation leaves out, or roundoff.
    remainder: Float[np.ndarray, " input"]
    converged: bool  # whether the remainder is below the tolerance asked for
    # Whether the coefficients themselves are known: a function that bends on a scale much smaller
    # than $\sqrt{K_a}$ falls between the nodes.
    resolved: bool = True


@dataclass(frozen=True)
class LowOrders:
    """The first coefficients, and the whole of which they are a part."""

    coefficients: Float[np.ndarray, "order input"]  # $h_k(K_a)$, by order and input
    square: Float[np.ndarray, " input"]  # $\langle F^2\rangle$ per input
    # $\langle F'^2\rangle$ per input; ``None`` if it was not asked for.
    slope_square: Float[np.ndarray, " input"] | None


def _weighted_polynomials(order: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes $x_j$ of a trapezoidal rule, and $w_j\mathrm{He}_k(x_j)$ for $k<$ `order`."""
    x, table = _TABLES.get(nodes, (None, None))
    if x is None or table is None:
        step = 2 * HALF_RANGE / nodes
        x = -HALF_RANGE + step * np.arange(nodes)
        weight = np.exp(-x * x / 2) * (step / math.sqrt(2 * math.pi))
        table = np.stack([weight, x * weight])
    if len(table) < order:
        known, table = table, np.empty((order, nodes))
        table[: len(known)] = known
        for k in range(len(known) - 1, order - 1):
            table[k + 1] = (x * table[k] - math.sqrt(k) * table[k - 1]) / math.sqrt(k + 1)
        if table.size <= _KEPT:
            _TABLES[nodes] = x, table
    return x, table[:order]


# Grown as higher orders are asked for; some tens of megabytes at most, as there are six numbers of nodes.
_TABLES: dict[int, tuple[np.ndarray, np.ndarray]] = {}
_KEPT = 1 << 21
_PART = 1 << 14  # numbers at a time: of larger temporaries the system fetches every page anew


def hermite_table(
    function: Callable[[np.ndarray], np.ndarray],
    K: Float[np.ndarray, " input"],
    *,
    parity: int = 0,
    rtol: float = 1e-7,
    least: int = 2,
) -> HermiteTable:
    r"""Hermite coefficients of `function` at each variance, to the order that the tail asks for, at least `least`.

    Order and nodes are found on the smallest, the middle and the largest variance, and the tail test
    is then made on all of them. The wanted remainder is `rtol` of $\sqrt{\langle F^2\rangle}$: the error of an
    expectation is a product of two remainders, so its square is what counts. A parity of $\pm1$ halves the nodes.
    """
    pilot = np.quantile(K, (0.0, 0.5, 1.0))
    nodes, before, needed, left_out = 128, (0, np.inf), 0, np.inf
    order, converged, resolved = _ORDERS[0], False, False
    for order in (order for order in _ORDERS if order >= min(least, _ORDERS[-1])):
        nodes, resolved = _resolving_nodes(function, pilot, order, nodes, parity)
        tail = _relative_tail(*_rule(function, pilot, order, nodes, parity))
        # The last coefficients are seen to roundoff and, as they fall, bound what follows.
        last = float(tail[-max(4, order // 8)])
        converged = resolved and last <= rtol
        needed = max(least, int(np.argmax(tail <= rtol))) if converged else order
        left_out = float(tail[min(needed, order - 1)]) if converged else last
        if converged or not resolved or _extrapolated(before, (order, last)) > 100 * rtol:
            break
        before = (order, last)
    h, square = _rule(function, K, max(needed, least), nodes, parity)
    # Parseval sees a remainder only above the root of roundoff, but at every variance.
    parseval = np.sqrt(np.maximum(square - np.sum(h * h, axis=0), 0.0))
    size = np.sqrt(np.maximum(square, np.finfo(float).tiny))
    converged = converged and bool(np.all(parseval <= max(1e-7, 2 * rtol) * size))
    remainder = np.maximum(left_out, _ROUNDOFF) * size
    remainder = remainder if converged else np.maximum(remainder, parseval)
    return HermiteTable(h, remainder, converged, resolved)


def low_orders(
    function: Callable[[np.ndarray], np.ndarray],
    slope: Callable[[np.ndarray], np.ndarray] | None,
    K: Float[np.ndarray, " input"],
    order: int,
    *,
    parity: int = 0,
) -> LowOrders | None:
    r"""The coefficients below `order`: all that pairs need whose correlations are not close to 1.

    To 1e-14 of $\sqrt{\langle F^2\rangle}$, as are the squares, that of $F'$ if `slope` is given; ``None`` where
    the largest rule does not resolve them.
    """
    pilot = np.quantile(K, (0.0, 0.5, 1.0))
    nodes, resolved = _resolving_nodes(function, pilot, order, 128, parity)
    nodes, slope_nodes = (
        _resolving_squares(f, pilot, start, p) if f is not None and resolved else None
        for f, start, p in ((function, nodes, parity), (slope, 128, -parity))
    )
    if nodes is None or (slope is not None and slope_nodes is None):
        return None
    size = max(1, _PART // nodes)
    parts = [K[first : first + size] for first in range(0, len(K), size)]
    rules = [_rule(function, part, order, nodes, parity) for part in parts]
    h, square = (np.concatenate(found, axis=-1) for found in zip(*rules, strict=True))
    if slope is None or slope_nodes is None:
        return LowOrders(h, square, None)
    return LowOrders(h, square, _mean_square(slope, K, slope_nodes, -parity))


def _resolving_squares(
    function: Callable[[np.ndarray], np.ndarray], K: np.ndarray, nodes: int, parity: int
) -> int | None:
    r"""How many nodes $\langle F^2\rangle$ needs, from `nodes` on, by the test of `_resolving_nodes`."""
    while nodes <= MAX_NODES:
        one, other = (_mean_square(function, K, nodes, parity, (start, 2)) for start in (0, 1))
        if np.all(np.abs(one - other) <= 1e-7 * one):
            return nodes
        nodes *= 2
    return None


def _mean_square(
    function: Callable[[np.ndarray], np.ndarray],
    K: np.ndarray,
    nodes: int,
    parity: int,
    part: tuple[int, int] = (0, 1),
) -> np.ndarray:
    r"""$\langle F^2\rangle$ alone, by the rule of `_rule`."""
    start, stride = part
    x, table = _weighted_polynomials(1, nodes)
    x, weight = x[start::stride], stride * table[0, start::stride]
    if parity:
        right = slice(int(np.searchsorted(x, 0.0)), None)
        x, weight = x[right], weight[right] * np.where(x[right] == 0.0, 1.0, 2.0)
    root, square, size = np.sqrt(K)[:, None], np.empty(len(K)), max(1, _PART // len(x))
    for first in range(0, len(K), size):
        values = function(root[first : first + size] * x)
        np.matmul(values * values, weight, out=square[first : first + size])
    return square


def _relative_tail(h: np.ndarray, square: np.ndarray) -> Float[np.ndarray, " order"]:
    r"""$\max_a\sqrt{\sum_{k\ge n}h_k^2/\langle F^2\rangle}$ for every $n$."""
    energy = np.cumsum((h * h)[::-1], axis=0)[::-1]
    return np.sqrt(np.max(energy / np.maximum(square, np.finfo(float).tiny), axis=1))


def _extrapolated(before: tuple[int, float], now: tuple[int, float]) -> float:
    r"""The remainder to expect at the last order: it falls like $e^{-\alpha\sqrt n}$ or slower.

    Before the third order tried it is too early to tell.
    """
    (order_before, last_before), (order, last) = before, now
    if order_before < 64:
        return 0.0
    if not 0.0 < last < last_before:
        return last
    rate = math.log(last_before / last) / (math.sqrt(order) - math.sqrt(order_before))
    return last * math.exp(-rate * (math.sqrt(_ORDERS[-1]) - math.sqrt(order)))


def _rule(
    function: Callable[[np.ndarray], np.ndarray],
    K: np.ndarray,
    order: int,
    nodes: int,
    parity: int,
    part: tuple[int, int] = (0, 1),
) -> tuple[np.ndarray, np.ndarray]:
    r"""$h_k$ for $k<$ `order` and $\langle F^2\rangle$ by one trapezoidal rule.

    `part` says which nodes: from where, and every how many. With (0, 2) and (1, 2) it is one of the
    two interleaved rules of twice the step.
    """
    start, stride = part
    x, table = _weighted_polynomials(order, nodes)
    x, table = x[start::stride], table[:, start::stride]
    if parity == 0:
        values = function(np.sqrt(K)[:, None] * x)
        return stride * (table @ values.T), stride * ((values * values) @ table[0])
    right = slice(int(np.searchsorted(x, 0.0, side="right")), None)
    values = function(np.sqrt(K)[:, None] * x[right])
    h = np.zeros((order, len(K)))
    own = slice(int(parity < 0), None, 2)
    h[own] = 2.0 * stride * (table[own, right] @ values.T)
    square = 2.0 * stride * ((values * values) @ table[0, right])
    if parity > 0 and right.start > 0 and x[right.start - 1] == 0.0:
        centre = function(np.zeros(1))[0]
        h[own] += stride * table[own, right.start - 1, None] * centre
        square += stride * table[0, right.start - 1] * centre * centre
    return h, square


def _resolving_nodes(
    function: Callable[[np.ndarray], np.ndarray],
    K: np.ndarray,
    order: int,
    nodes: int,
    parity: int,
) -> tuple[int, bool]:
    """How many nodes the trapezoidal rule needs, and whether that many are allowed.

    Such sums converge geometrically for a function analytic in a strip: halving the step squares the
    error. So where the two interleaved halves of a rule agree to 1e-7, the whole is good to 1e-14.
    """
    while nodes <= MAX_NODES:
        one, square = _rule(function, K, order, nodes, parity, (0, 2))
        other, _ = _rule(function, K, order, nodes, parity, (1, 2))
        agree = np.all(np.max(np.abs(one - other), axis=0) <= 1e-7 * np.sqrt(square))
        if agree and (square[-1] > 0.0 or not _between_nodes(function, K, nodes)):
            return nodes, True
        nodes *= 2
    return MAX_NODES, False


def _between_nodes(function: Callable[[np.ndarray], np.ndarray], K: np.ndarray, nodes: int) -> bool:
    """Whether a function that the nodes see as 0 is not 0 between the innermost of them."""
    x, _ = _weighted_polynomials(2, nodes)
    if np.any(function(np.sqrt(K[-1]) * x[x != 0.0])):
        return False
    closer = (x[1] - x[0]) * 2.0 ** -np.arange(1.0, 40.0)
    return bool(np.any(function(np.sqrt(K[-1]) * np.concatenate([-closer, closer]))))


def mehler(
    f: Float[np.ndarray, "order_f input"],
    g: Float[np.ndarray, "order_g input_1"],
    c: Float[np.ndarray, " pair"],
    left: Int[np.ndarray, " pair"],
    right: Int[np.ndarray, " pair"],
) -> Float[np.ndarray, " pair"]:
    r"""$\sum_kf_kg_kc^k$ by Horner's rule over the orders that are there, for pairs of columns of coefficients."""
    order, total = min(len(f), len(g)), np.zeros_like(c)
    there = np.flatnonzero(f[:order].any(axis=1) & g[:order].any(axis=1))[::-1]
    steps = -np.diff(there, append=0)
    for start in range(0, c.size, _PAIRS):
        some = slice(start, start + _PAIRS)
        a, b, own = left[some], right[some], total[some]
        powers = {step: c[some] ** step for step in set(steps.tolist())}
        for k, step in zip(there, steps.tolist(), strict=True):
            own += f[k, a] * g[k, b]
            own *= powers[step]
    return total


class PairSeries:
    """Mehler sums for many pairs, by variances and covariances; each function's table is made once."""

    def __init__(
        self,
        A: Float[np.ndarray, " pair"],
        B: Float[np.ndarray, " pair"],
        C: Float[np.ndarray, " pair"],
    ) -> None:
        self.variances, inverse = np.unique(np.concatenate([A, B]), return_inverse=True)
        self._left, self._right = inverse[: A.size], inverse[A.size :]
        self._c = np.clip(C / np.sqrt(A) / np.sqrt(B), -1.0, 1.0)

    def table(
        self,
        function: Callable[[np.ndarray], np.ndarray],
        parity: int = 0,
        rtol: float = 1e-7,
        *,
        least: int = 2,
    ) -> HermiteTable:
        """Coefficients of a function at every variance that occurs."""
        return hermite_table(function, self.variances, parity=parity, rtol=rtol, least=least)

    def derivative(self, table: HermiteTable) -> HermiteTable:
        r"""The table of $F'$ from that of $F$: $h_k[F']=\sqrt{(k+1)/K}\,h_{k+1}[F]$."""
        order = len(table.coefficients)
        factor = np.sqrt(np.arange(1, order))[:, None] / np.sqrt(self.variances)
        remainder = table.remainder * math.sqrt(order) / np.sqrt(self.variances)
        h = table.coefficients[1:] * factor
        return HermiteTable(h, remainder, table.converged, table.resolved)

    def moment(self, f: HermiteTable, g: HermiteTable) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""$\langle F(z_a)G(z_b)\rangle$, its error bound, and its natural size.

        The size is $\sqrt{\langle F^2\rangle\langle G^2\rangle}$, what relative errors refer to.
        """
        left, right = self._left, self._right
        value = mehler(f.coefficients, g.coefficients, self._c, left, right)
        norm_f = np.sqrt(np.sum(f.coefficients**2, axis=0))[left]
        norm_g = np.sqrt(np.sum(g.coefficients**2, axis=0))[right]
        order = min(len(f.coefficients), len(g.coefficients))
        # Orders beyond the shorter table are missing from one factor only.
        rest_f = np.sqrt(np.sum(f.coefficients[order:] ** 2, axis=0))[left] + f.remainder[left]
        rest_g = np.sqrt(np.sum(g.coefficients[order:] ** 2, axis=0))[right] + g.remainder[right]
        size = norm_f * norm_g
        error = np.abs(self._c) ** order * rest_f * rest_g + 1e-15 * size
        if not (f.resolved and g.resolved):  # the order says nothing of wrong coefficients
            error = np.full_like(error, np.inf)
        return value, error, size
