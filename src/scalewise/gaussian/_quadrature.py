r"""Gaussian expectations by quadrature split at kinks: any activation, one or two inputs, slowly.

With $z_a=\sqrt A\,x$ and $z_b=\sqrt B\,(cx+\sqrt{1-c^2}\,y)$ a pair expectation is an outer
integral over $x$ of an inner one over $y$. The inner one is split where $z_b$ meets a kink; the
outer one where $z_a$ does, and where the mean of $z_b$ does, because the inner integral bends there
on the scale $\sqrt{1-c^2}$. Both are graded towards their splits. At $|c|=1$ there is nothing left
to integrate over $y$.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from scalewise.gaussian._geometry import PairGeometry
from scalewise.gaussian._panels import HALF_RANGE, conditional_means, normal_panels

Function = Callable[[np.ndarray], np.ndarray]

_LINE_LEVEL = 2
_LINE_CAP = 6
_PAIR_CAP = 4
_ROUNDOFF = 1e-14
_BATCH = 2048  # inputs at a time, some megabytes of nodes


def line_rule(
    K: Float[np.ndarray, "*batch"], splits: Sequence[float] = (), level: int = _LINE_LEVEL
) -> tuple[Float[np.ndarray, "*batch node"], Float[np.ndarray, "*batch node"]]:
    r"""Nodes and weights with $\sum_jw_jf(z_j)=\langle f(z)\rangle_{z\sim N(0,K)}$.

    Args:
        K: Variances, at least 0; preactivation².
        splits: Where $f$ or a derivative of it jumps; 0 is always added.
        level: Each level doubles the nodes.

    Returns:
        $z_j$ (preactivation) and $w_j$ (dimensionless), the nodes along the last axis.
    """
    spread = np.sqrt(K)[..., None]
    x, w = normal_panels(in_deviations(np.array([0.0, *splits]), spread), level)
    return spread * x, w


def single_quadrature(
    function: Function, K: float | np.ndarray, splits: Sequence[float] = ()
) -> tuple[np.ndarray, np.ndarray]:
    r"""$\langle f(z)\rangle_{z\sim N(0,K)}$ and its estimated absolute error.

    Split where $f$ or a derivative jumps. The nodes are doubled until the error is below 1e-13 of
    $\langle|f|\rangle$, or a cap is reached: the error tells.
    """
    variance = np.asarray(K, dtype=np.float64)
    flat = np.atleast_1d(variance.ravel())
    with np.errstate(over="ignore", invalid="ignore"):
        value, error = _single(function, flat, splits)
    _refuse_overflow(value)
    return value.reshape(variance.shape), error.reshape(variance.shape)


def _single(
    function: Function, K: np.ndarray, splits: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """`single_quadrature`, as many at a time as there is room for; what overflows is not refused."""
    value, error = np.zeros_like(K), np.zeros_like(K)
    for start in range(0, K.size, _BATCH):
        part = slice(start, start + _BATCH)
        value[part], error[part] = _single_batch(function, K[part], splits)
    return value, error


def _single_batch(
    function: Function, K: np.ndarray, splits: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    value, error = np.zeros_like(K), np.zeros_like(K)
    todo = np.arange(K.size)
    for level in range(1, _LINE_CAP + 1):
        z, w = line_rule(K[todo], splits, level)
        f = function(z)
        fine, size = np.sum(w * f, axis=-1), np.sum(w * np.abs(f), axis=-1)
        change = np.abs(fine - value[todo])
        value[todo] = fine
        slip, done = _error_of_finer(change, size, 1e-13)
        error[todo] = slip + _ROUNDOFF * size + _tail(function, K[todo])
        todo = todo[~done | (level == 1)]
        if todo.size == 0:
            break
    return value, error


def pair_quadrature(
    function_a: Function,
    function_b: Function,
    A: float | np.ndarray,
    B: float | np.ndarray,
    C: float | np.ndarray,
    splits: Sequence[float] = (),
    *,
    rtol: float = 1e-12,
) -> tuple[np.ndarray, np.ndarray]:
    r"""$\langle f(z_a)g(z_b)\rangle$ of two jointly Gaussian variables, $|c|=1$ included, and its estimated error.

    Split where $f$, $g$ or a derivative jumps. The nodes are doubled until the error is below `rtol` of
    $\sqrt{\langle f^2\rangle_A\langle g^2\rangle_B}$, or a cap is reached: the error tells.
    """
    pair = PairGeometry.of(A, B, C)
    with np.errstate(over="ignore", invalid="ignore"):
        value, error = pair_table([function_a], [function_b], pair.flat, splits, rtol)
    _refuse_overflow(value)
    return value[0, 0].reshape(pair.C.shape), error[0, 0].reshape(pair.C.shape)


def pair_table(
    functions_a: Sequence[Function],
    functions_b: Sequence[Function],
    pair: PairGeometry,
    splits: Sequence[float],
    rtol: float = 1e-12,
) -> tuple[Float[np.ndarray, "leg_a leg_b pair"], Float[np.ndarray, "leg_a leg_b pair"]]:
    """All products of a function of z_a with a function of z_b, each pair to the level it needs."""
    size_a, tail_a = _norm(functions_a, pair.A, splits)
    size_b, tail_b = _norm(functions_b, pair.B, splits)
    size = size_a[:, None] * size_b
    # Cauchy-Schwarz: what lies beyond the range of the rule
    tail = tail_a[:, None] * size_b + size_a[:, None] * tail_b
    tail = np.where(np.isnan(tail), np.inf, tail)
    value, error = np.zeros_like(size), np.zeros_like(size)
    one = (pair.cosine == 1) & (pair.A == pair.B)  # preactivation, in both legs
    for i, f in enumerate(functions_a):
        for j, g in enumerate(functions_b):
            value[i, j, one], error[i, j, one] = _single(
                lambda z, f=f, g=g: f(z) * g(z), pair.A[one], splits
            )
    todo = np.flatnonzero(~one)
    for level in range(_PAIR_CAP + 1):
        fine = np.empty((*size.shape[:2], todo.size))
        for k, index in enumerate(todo[:, None]):
            fine[..., k] = _nested(functions_a, functions_b, pair.at(index), splits, level)
        change = np.abs(fine - value[..., todo])
        value[..., todo] = fine
        slip, done = _error_of_finer(change, size[..., todo], rtol)
        error[..., todo] = slip + _ROUNDOFF * size[..., todo] + tail[..., todo]
        todo = todo[~done.all(axis=(0, 1)) | (level == 0)]
        if todo.size == 0:
            break
    return value, error


def _nested(
    functions_a: Sequence[Function],
    functions_b: Sequence[Function],
    pair: PairGeometry,
    splits: Sequence[float],
    level: int,
) -> Float[np.ndarray, "leg_a leg_b"]:
    """The table of one pair at one level."""
    root_a, root_b = np.sqrt(pair.A), np.sqrt(pair.B)
    cosine, kinks = pair.cosine, np.array([0.0, *splits])
    points = np.concatenate(
        [in_deviations(kinks, root_a), in_deviations(kinks[kinks != 0], cosine * root_b)]
    )
    x, w = normal_panels(points, level)
    x, w = x[w > 0], w[w > 0]
    inner = conditional_means(
        functions_b, root_b * cosine * x, np.full_like(x, root_b * pair.sine), splits, level
    )
    outer = np.stack([w * f(root_a * x) for f in functions_a])
    return outer @ inner.T


def _error_of_finer(
    change: np.ndarray, size: np.ndarray, rtol: float
) -> tuple[np.ndarray, np.ndarray]:
    """The error of the finer of two levels, and whether it meets the tolerance.

    A double-exponential rule squares its relative error with each doubling. The power 4/3 leaves
    room; where even so the tolerance is missed, the change itself is the error.
    """
    ratio = np.divide(change, size, out=np.zeros_like(change), where=size > 0)
    done = ratio ** (4 / 3) <= rtol
    error = np.where(done, size * ratio ** (4 / 3), change)
    # A norm that overflows can promise nothing.
    return np.where(np.isfinite(size), error, np.inf), done


def _refuse_overflow(value: np.ndarray) -> None:
    if not np.isfinite(value).all():
        raise ValueError(
            "A Gaussian expectation must be a finite number; the activation, or a product of its "
            "derivatives, overflows or does not exist within twelve standard deviations. Make the variances "
            "smaller (a smaller C_W or fewer layers), or use an activation that grows more slowly; `domain` of an "
            "`Activation` says how far one of your own can be computed."
        )


def in_deviations(points: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
    """Points in units of a standard deviation; far away where that is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.nan_to_num(points / spread, nan=0.0)


def _tail(function: Function, K: np.ndarray) -> np.ndarray:
    """An estimate of what lies beyond the range: density times value at its ends."""
    end = HALF_RANGE * np.sqrt(K)
    return np.exp(-0.5 * HALF_RANGE**2) * (np.abs(function(end)) + np.abs(function(-end)))


def _norm(
    functions: Sequence[Function], K: np.ndarray, splits: Sequence[float]
) -> tuple[Float[np.ndarray, "leg pair"], Float[np.ndarray, "leg pair"]]:
    """Root mean square of each function, within the range and beyond it."""
    inside, beyond = np.empty((2, len(functions), K.size))
    for start in range(0, K.size, _BATCH):
        part = slice(start, start + _BATCH)
        z, w = line_rule(K[part], splits, 1)
        for f, norm, tail in zip(functions, inside, beyond, strict=True):
            norm[part] = np.sqrt(np.sum(w * f(z) ** 2, axis=-1))
            tail[part] = np.sqrt(_tail(lambda z, f=f: f(z) ** 2, K[part]))
    return inside, beyond
