r"""Double-exponential quadrature on panels, graded towards every end of a panel.

The map $x=\ell+L\,/(1+e^{-\pi\sinh t})$ crowds the nodes doubly exponentially at both ends of a
panel, so a kink at an end costs nothing and a feature much closer to the end than the panel is long
(tanh at variance $10^3$) is resolved too. The number of nodes doubles with each level and, for a
function analytic inside the panels, so does the number of correct digits.

Source: Takahasi and Mori, Publ. RIMS 9 (1974) 721.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float

# Standard deviations; e^{-72} is left out, which linear and polynomial growth cannot make visible.
HALF_RANGE = 12.0
_T_MAX = 3.2  # nodes end 2e-17 of a panel's length from its ends
_COARSEST = 24  # nodes on either side of the middle at level 0
_BLOCK = 1 << 17  # numbers per temporary array: a megabyte, whatever the number of pairs


@lru_cache(maxsize=8)
def _tanh_sinh(level: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances from the nearer end of a unit panel and weights, for one half of the nodes."""
    half = _COARSEST << level
    step = _T_MAX / half
    t = step * np.arange(half, 0, -1)
    tail = np.exp(-math.pi * np.sinh(t))
    distance = tail / (1 + tail)
    return distance, step * math.pi * np.cosh(t) * distance / (1 + tail)


def normal_panels(
    points: Float[np.ndarray, "*batch point"], level: int
) -> tuple[Float[np.ndarray, "*batch node"], Float[np.ndarray, "*batch node"]]:
    r"""A rule for $\langle f(x)\rangle$, $x\sim N(0,1)$, split at the given points.

    Nodes, and weights with the density in them. Points are in standard deviations, in any order; infinite ones
    lie, like all beyond `HALF_RANGE`, at the end of the range. A panel of length 0 has weights 0; any other has
    $48\cdot2^{level}+1$ nodes.
    """
    edges = _edges(points)
    x, w = _on_panels(edges[..., :-1, None], edges[..., 1:, None], level)
    flat = (*points.shape[:-1], -1)
    return x.reshape(flat), w.reshape(flat)


def _edges(points: Float[np.ndarray, "*batch point"]) -> Float[np.ndarray, "*batch edge"]:
    """The points and the ends of the range, in order."""
    ends = np.full((*points.shape[:-1], 1), HALF_RANGE)
    edges = np.concatenate([-ends, np.clip(points, -HALF_RANGE, HALF_RANGE), ends], axis=-1)
    edges.sort(axis=-1)
    return edges


def _on_panels(
    left: Float[np.ndarray, "*panel 1"], right: Float[np.ndarray, "*panel 1"], level: int
) -> tuple[Float[np.ndarray, "*panel node"], Float[np.ndarray, "*panel node"]]:
    """Nodes and weights between the ends of panels."""
    half, length = _COARSEST << level, right - left
    distance, weight = _tanh_sinh(level)
    x = np.empty((*left.shape[:-1], 2 * half + 1))
    low, high = x[..., :half], x[..., half + 1 :]
    np.multiply(length, distance, out=low)
    low += left
    x[..., half : half + 1] = 0.5 * (left + right)
    np.multiply(length, distance[::-1], out=high)
    np.subtract(right, high, out=high)
    middle = 0.25 * math.pi * _T_MAX / half
    w = length * np.concatenate([weight, [middle], weight[::-1]])
    density = -0.5 * x
    density *= x
    w *= np.exp(density, out=density)
    w /= math.sqrt(2 * math.pi)
    return x, w


def conditional_means(
    functions: Sequence[Callable[[np.ndarray], np.ndarray]],
    mean: Float[np.ndarray, " row"],
    spread: Float[np.ndarray, " row"],
    splits: Sequence[float],
    level: int,
) -> Float[np.ndarray, "function row"]:
    r"""$\langle f(\mu+\tau y)\rangle_{y\sim N(0,1)}$ of several functions, for many $\mu,\tau$, 0 among them.

    Split at 0 and where an $f$ or a derivative of it jumps; `level` as for `normal_panels`.
    """
    result = np.empty((len(functions), mean.size))
    sharp = spread == 0.0
    if sharp.any():
        result[:, sharp] = np.stack([f(mean[sharp]) for f in functions])
    kinks = np.array(sorted({0.0, *splits}))
    rows = np.flatnonzero(~sharp)
    block = max(1, _BLOCK // ((kinks.size + 2) * (2 * (_COARSEST << level) + 1)))
    for start in range(0, rows.size, block):
        row = rows[start : start + block]
        mu, tau = mean[row, None], spread[row, None]
        # The centre of the density is a split too: next to a far one it would be badly resolved.
        points = np.concatenate([np.zeros_like(mu), (kinks - mu) / tau], axis=-1)
        edges = _edges(points)
        owner, panel = np.nonzero(edges[:, 1:] > edges[:, :-1])
        y, w = _on_panels(edges[owner, panel, None], edges[owner, panel + 1, None], level)
        y *= tau[owner]
        y += mu[owner]
        owner = np.repeat(owner, y.shape[1])
        z, w, keep = y.ravel(), w.ravel(), w.ravel() > 0
        if not keep.all():
            z, w, owner = z[keep], w[keep], owner[keep]
        for k, f in enumerate(functions):
            result[k, row] = np.bincount(owner, weights=w * f(z), minlength=row.size)
    return result
