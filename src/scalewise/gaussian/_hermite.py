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
    r"""Nodes $x_j\ge0$ of a trapezoidal rule, and $w_j\mathrm{He}_k(x_j)$ at least for $k<$ `order`.

    The rule has as many nodes on the other side; that at 0 counts half for each.
    """
    x, table = _TABLES.get(nodes, (None, None))
    if x is None or table is None:
        step = 2 * HALF_RANGE / nodes
        x = step * np.arange(nodes // 2)
        weight = np.exp(-x * x / 2) * (step / math.sqrt(2 * math.pi))
        weight[0] *= 0.5
        table = np.stack([weight, x * weight])
        _TABLES[nodes] = x, table
    if len(table) < order:
        known, table = table, np.empty((order, len(x)))
        table[: len(known)] = known
        for k in range(len(known) - 1, order - 1):
            table[k + 1] = (x * table[k] - math.sqrt(k) * table[k - 1]) / math.sqrt(k + 1)
        if table.size <= _KEPT:
            _TABLES[nodes] = x, table
    return x, table


# Grown as higher orders are asked for; some tens of megabytes at most, as there are six numbers of nodes.
_TABLES: dict[int, tuple[np.ndarray, np.ndarray]] = {}
_KEPT = 1 << 21
_PART = 1 << 14  # numbers at a time: of larger temporaries the system fetches every page anew
_FEW = 16  # inputs of which each says how many nodes are needed


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
    pilot = pilots(K)
    nodes, before, needed, left_out = 128, (0, np.inf), 0, np.inf
    order, converged, resolved = _ORDERS[0], False, False
    for order in (order for order in _ORDERS if order >= min(least, _ORDERS[-1])):
        nodes, seen = _resolving(function, pilot, order, nodes, parity)
        resolved = seen is not None
        seen = seen or _folded(function, pilot, nodes, parity)
        tail = _relative_tail(*_sums(seen, order, nodes))
        # The last coefficients are seen to roundoff and, as they fall, bound what follows.
        last = float(tail[-max(4, order // 8)])
        converged = resolved and last <= rtol
        needed = max(least, int(np.argmax(tail <= rtol))) if converged else order
        left_out = float(tail[min(needed, order - 1)]) if converged else last
        if converged or not resolved or _extrapolated(before, (order, last)) > 100 * rtol:
            break
        before = (order, last)
    h, square = _sums(_folded(function, K, nodes, parity), max(needed, least), nodes)
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
    pilot = pilots(K)
    found = []
    for f, count, its in ((function, order, parity), (slope, 0, -parity)):
        if f is None:
            continue
        nodes, seen = _resolving(f, pilot, count, 128, its, squares=True)
        if seen is None:
            return None
        if pilot is K:
            found += _sums(seen, count, nodes)
            continue
        size = max(1, _PART // nodes)
        parts = (K[first : first + size] for first in range(0, len(K), size))
        sums = [_sums(_folded(f, part, nodes, its), count, nodes) for part in parts]
        found += [np.concatenate(own, axis=-1) for own in zip(*sums, strict=True)]
    return LowOrders(found[0], found[1], None if slope is None else found[3])


def pilots(K: Float[np.ndarray, " input"]) -> Float[np.ndarray, " some"]:
    """Variances on which a rule is chosen: all of a few, else the smallest, the middle and the largest."""
    return K if len(K) <= _FEW else np.sort(K)[[0, len(K) // 2, -1]]


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


def _folded(
    function: Callable[[np.ndarray], np.ndarray], K: np.ndarray, nodes: int, parity: int
) -> _Folded:
    """Sums and differences of a function on both sides of 0, and the sum of its squares, by variance and node.

    Half of both, with one side alone, where the function has a parity.
    """
    x, _ = _weighted_polynomials(0, nodes)
    z = np.sqrt(K)[:, None] * x
    right = function(z)
    if parity:
        return (right, None, right * right) if parity > 0 else (None, right, right * right)
    left = function(-z)
    return right + left, right - left, right * right + left * left


_Folded = tuple[np.ndarray | None, np.ndarray | None, np.ndarray]


def _sums(
    seen: _Folded, order: int, nodes: int, part: tuple[int, int] = (0, 1)
) -> tuple[np.ndarray, np.ndarray]:
    r"""$h_k$ for $k<$ `order` and $\langle F^2\rangle$ by one trapezoidal rule.

    `part` says which nodes: from where, and every how many. With (0, 2) and (1, 2) it is one of the
    two interleaved rules of twice the step.
    """
    _, table = _weighted_polynomials(order, nodes)
    at, (*sides, squares) = slice(part[0], None, part[1]), seen
    h = np.zeros((order, len(squares)))
    for first, values in enumerate(sides):
        if values is not None:
            np.matmul(table[first:order:2, at], values[:, at].T, out=h[first::2])
    square = squares[:, at] @ table[0, at]
    factor = part[1] * (1 + any(side is None for side in sides))
    return (h, square) if factor == 1 else (factor * h, factor * square)


def _resolving(
    function: Callable[[np.ndarray], np.ndarray],
    K: np.ndarray,
    order: int,
    nodes: int,
    parity: int,
    *,
    squares: bool = False,
) -> tuple[int, _Folded | None]:
    r"""Number of nodes that the trapezoidal rule needs, and the function on them; ``None`` if the most are too few.

    Such sums converge geometrically for a function analytic in a strip: halving the step squares the
    error. So where the two interleaved halves of a rule agree to 1e-7, the whole is good to 1e-14. With `squares`
    the same is asked of $\langle F^2\rangle$.
    """
    while nodes <= MAX_NODES:
        seen = _folded(function, K, nodes, parity)
        (one, square), (other, beside) = (_sums(seen, order, nodes, (k, 2)) for k in (0, 1))
        agree = (np.abs(one - other) <= 1e-7 * np.sqrt(square)).all()
        if squares:
            agree = agree and (np.abs(square - beside) <= 1e-7 * square).all()
        largest = int(np.argmax(K))
        if agree and (square[largest] > 0.0 or not _between_nodes(function, K[largest], nodes)):
            return nodes, seen
        nodes *= 2
    return MAX_NODES, None


def _between_nodes(function: Callable[[np.ndarray], np.ndarray], K: float, nodes: int) -> bool:
    """True if a function that the nodes see as 0 is not 0 between the innermost of them."""
    x, _ = _weighted_polynomials(0, nodes)
    apart = x[1:]
    closer = apart[0] * 2.0 ** -np.arange(1.0, 40.0)
    apart, closer = (math.sqrt(K) * np.concatenate([-z, z]) for z in (apart, closer))
    return not np.any(function(apart)) and bool(np.any(function(closer)))


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
