r"""The small parameter of the 1/n expansion: the largest relative fluctuation of the metric over pairs of inputs.

$$\epsilon^{(\ell)}=\max_{a\le b}\frac{V_{(ab)(ab)}^{(\ell)}}{n_{\ell-1}K_{aa}^{(\ell)}K_{bb}^{(\ell)}}$$
$V/n$ is the covariance of the metric $\hat G$ of a network, so by Cauchy and Schwarz no entry of it is larger,
$$\big|V_{(ab)(cd)}\big|\le n\,\epsilon\sqrt{K_{aa}K_{bb}K_{cc}K_{dd}},$$
and the standard deviation of $\hat G_{ab}$ over networks is $\sqrt{\epsilon K_{aa}K_{bb}}$ at most. The diagonal
$a=b$ does not see all of it: for tanh, sin and erf orthogonal inputs fluctuate most, for a sign function only
distinct ones do.

$V_{(ab)(ab)}$ depends on two inputs alone. Its recursion is that of `preactivation` over the pairs $aa,ab,bb$,
with a source that is summed over a polar grid.

Source: PDLT (4.76), (4.119), (5.128); the maximum over pairs is derived.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from scalewise._checked import checked
from scalewise.activations import Activation
from scalewise.gaussian import pair_moments
from scalewise.gaussian.spi import clipped
from scalewise.networks import Network
from scalewise.networks.spi import Plain
from scalewise.theory._tables._line_moments import VERTEX
from scalewise.theory._tables._line_table import line_table
from scalewise.theory.flow._kernel_flow import KernelFlow
from scalewise.theory.single._single_input import single_input_vertex

_DIAGONAL = 16  # inputs: V/K² is a smooth function of K_aa alone
_TARGETS = 5  # correlations, over the range that the inputs have
_NEAR = 0.02  # of that range: pairs as near as this to a target count as equally near
_MOST = 128  # inputs among which pairs are sought
# Pairs times layers: a second or so. Moments of an activation with kinks and no closed form are dear.
_CHEAP, _DEAR = 3000, 60
_ANGLES, _RADII = 32, 64  # of a smooth function; radii without weight are left out
_SEEN = 1e-8
_CHUNK = 64
_ORDERS = ((1, 1), (2, 0), (0, 2))
_KNOWN = 2e-3  # as well as this, over all layers, the grid has to know what the table knows


class Expansion(NamedTuple):
    r"""$\epsilon$ at every layer, dimensionless, and how many pairs of distinct inputs it was sought in."""

    value: Float[np.ndarray, " layer"]
    pairs: int


@checked
def expansion_parameter(net: Plain, flow: KernelFlow) -> Expansion:
    r"""$\epsilon$ at every layer, at the network's own widths.

    All pairs are looked at where pairs times layers are 3000 at most (60 for an activation with kinks whose
    moments have no closed form). Of more inputs (of 128 at most, evenly over their norms) five correlations
    are aimed at over the range that they have, zero, if it is in the range, first; near each, the pairs of the
    smallest and of the largest $K_{aa}K_{bb}$ are taken, as many as the depth leaves room for. The choice depends
    on the inputs alone, not on their order or units.

    Args:
        net: The network.
        flow: Its kernels, those of `pairs_to_watch` among them at every layer.

    Returns:
        The maximum, of the diagonal to rtol 1e-10, of other pairs to 1e-2, or 5e-2 where kernels are a hundred
        times the squared scale of the activation; no pairs where the depth leaves room for none, which needs
        kinks, or where their moments do not converge.

    Raises:
        ValueError: If the vertex of a single input does not converge.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> net = sw.MLP(2, 10, "linear", input_dim=2, output_dim=1)
        >>> found = sw.predict(net, np.sqrt(2) * np.eye(2)).expansion_parameter
        >>> print(f"{float(found[1]):.3f}", found.attrs["pairs"])  # (1 + c²)/n, largest on the diagonal
        0.200 1
    """
    K = flow.diagonal
    below = np.array(net.widths[:-1], dtype=np.float64)[:, None]
    _, order = np.unique(K[0], return_index=True)
    few = K[:, np.unique(order[np.linspace(0, len(order) - 1, _DIAGONAL).round().astype(int)])]
    V = single_input_vertex(net, few)
    # A kernel of 0 does not fluctuate.
    best = np.max(np.divide(V, below * few * few, out=np.zeros_like(V), where=few > 0), axis=1)
    a, b = flow.watched
    if not len(a):
        return Expansion(best, 0)
    A, B = K[:, a], K[:, b]
    try:
        V = pair_vertex(net, A, B, flow.between)
    except ValueError:  # the diagonal is what can be known
        return Expansion(best, 0)
    return Expansion(np.maximum(best, np.max(V / (below * A * B), axis=1)), len(a))


@checked
def pair_vertex(
    net: Plain,
    A: Float[np.ndarray, "layer pair"],
    B: Float[np.ndarray, "layer pair"],
    C: Float[np.ndarray, "layer pair"],
) -> Float[np.ndarray, "layer pair"]:
    r"""$V_{(ab)(ab)}$ of many pairs of inputs.

    Args:
        net: The network.
        A: $K_{aa}$ at every layer.
        B: $K_{bb}$.
        C: $K_{ab}$.

    Returns:
        The vertex, preactivation⁴; the sources to some 1e-3, their propagation to 2e-3 over all layers.

    Raises:
        ValueError: If a moment does not exist or does not converge.
    """
    if net.depth == 1:  # the first layer does not fluctuate
        return np.zeros(A.shape)
    below = (A[:-1].ravel(), B[:-1].ravel(), clipped(A, B, C)[:-1].ravel())
    source, *derivatives = _on_grid(net.activation, *below)
    steps = (net.depth - 1, A.shape[1], 3, 3)
    J = _jacobians(net.activation, below, derivatives, _KNOWN / (net.depth - 1)).reshape(steps)
    source = source.reshape(steps)
    V, out = np.zeros(steps[1:]), np.zeros(A.shape)
    for layer in range(1, net.depth):
        r = net.widths[layer] / net.widths[layer - 1] if layer > 1 else 1.0
        here = J[layer - 1]
        V = net.C_W[layer] ** 2 * (source[layer - 1] + r * here @ V @ here.swapaxes(-1, -2))
        out[layer] = V[:, 1, 1]
    return out


def _jacobians(
    sigma: Activation,
    kernels: tuple[np.ndarray, np.ndarray, np.ndarray],
    on_grid: Sequence[np.ndarray | None],
    known: float,
) -> np.ndarray:
    r"""How the means of $\sigma_a\sigma_a,\sigma_a\sigma_b,\sigma_b\sigma_b$ change with $K$.

    The grid knows the derivatives of a smooth $\sigma$; where it misses those of one input, which the table has,
    it is not believed for two.
    """
    A, B, C = kernels
    J = np.zeros((A.size, 3, 3))
    table = line_table(sigma, VERTEX)
    mixed, own = on_grid
    alone = np.stack([table.moments(K)["g1"] for K in (A, B)])
    J[:, 0, 0], J[:, 2, 2] = alone
    if own is not None and np.allclose(own, alone, rtol=known, atol=0):
        J[:, 1] = mixed
        return J
    M = pair_moments(sigma, A, B, C, _ORDERS)
    J[:, 1, 0], J[:, 1, 2] = 0.5 * M[2, 0].value, 0.5 * M[0, 2].value
    J[:, 1, 1] = M[1, 1].value
    return J


def _on_grid(
    sigma: Activation, A: np.ndarray, B: np.ndarray, C: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    r"""Expectations of pairs on a grid of angles and radii, a chunk of pairs at a time.

    $z_a=\sqrt Ar\cos(\phi-\theta/2)$, $z_b=\sqrt Br\cos(\phi+\theta/2)$ with $\cos\theta=c$; exact for polynomials,
    and a kink or a jump, wherever it stands, costs the square or the first power of the step.

    $\mathrm{Cov}[\sigma\sigma,\sigma\sigma]$ over $aa,ab,bb$ (pair, 3, 3); for a smooth $\sigma$ how
    $\langle\sigma_a\sigma_b\rangle$ changes with $K_{aa},K_{ab},K_{bb}$ (pair, 3), and how
    $\langle\sigma\sigma\rangle$ of $a$ and of $b$ change with their own kernels (2, pair).
    """
    angle = np.arccos(np.clip(C / (np.sqrt(A) * np.sqrt(B)), -1.0, 1.0))[:, None, None]
    # In half a turn.
    angles = _ANGLES * (1 if sigma.is_smooth else 2 if sigma.is_continuous else 8)
    turns = angles if sigma.parity else 2 * angles  # parity tells the other half
    phi = (np.arange(turns) + 0.5) * (math.pi / angles)
    # What is homogeneous depends on the radius as a polynomial of the fourth degree at most does.
    t, weight = _radii(3 if sigma.is_scale_invariant else _RADII)
    r = np.sqrt(2 * t)[:, None]
    weights = np.repeat(weight / turns, turns)
    source = np.empty((A.size, 3, 3))
    mixed, alone = (
        (np.empty((A.size, 3)), np.empty((2, A.size))) if sigma.is_smooth else (None,) * 2
    )
    for start in range(0, A.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        z = [
            (np.sqrt(K[part])[:, None, None] * r * np.cos(phi + shift * angle[part])).reshape(
                -1, weights.size
            )
            for K, shift in ((A, -0.5), (B, 0.5))
        ]
        a, b = map(sigma.derivatives[0], z)
        features = np.stack([a * a, a * b, b * b], axis=1)
        features -= (features @ weights)[..., None]
        source[part] = (features * weights) @ features.swapaxes(-1, -2)
        if mixed is not None and alone is not None:
            (a1, b1), (a2, b2) = (map(sigma.derivatives[k], z) for k in (1, 2))
            mixed[part] = np.stack([0.5 * a2 * b, a1 * b1, 0.5 * a * b2], axis=1) @ weights
            alone[:, part] = (a1 * a1 + a * a2) @ weights, (b1 * b1 + b * b2) @ weights
    return source, mixed, alone


@cache
def _radii(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss and Laguerre's rule, as far out as a fourth power is seen."""
    t, weight = np.polynomial.laguerre.laggauss(count)
    seen = weight * (1 + t * t) > _SEEN
    return t[seen], weight[seen]


@checked
def pairs_to_watch(
    net: Plain, x: Float[np.ndarray, "sample feature"]
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Which pairs of inputs `expansion_parameter` looks at: numbers of the first and of the second.

    Args:
        net: The network.
        x: Checked inputs.
    """
    sigma, own = net.activation, _in_order(net, x)
    cheap = sigma.is_smooth or sigma.is_scale_invariant
    steps = max(1, net.depth - 1)
    room = max(1, _CHEAP // steps) if cheap else _DEAR // steps
    a, b = np.triu_indices(len(own), 1)
    if not room:
        a, b = a[:0], b[:0]
    elif a.size > room:
        K = net.C_b[0] + net.C_W[0] / net.input_dim * (x[own] @ x[own].T)
        size = np.diagonal(K)[a] * np.diagonal(K)[b]
        some = _spread(K[a, b] / np.sqrt(size), size, room)
        a, b = a[some], b[some]
    return own[a], own[b]


def _in_order(net: Network, x: np.ndarray) -> np.ndarray:
    """Numbers of the inputs in an order of their own, each once: by norm, then by one projection."""
    norm = np.einsum("af,af->a", x, x)
    project = np.einsum("af,f->a", x, np.cos(np.arange(x.shape[1])))
    order = np.lexsort((project, norm))
    fresh = np.ones(len(x), dtype=bool)
    fresh[1:] = np.any(x[order[1:]] != x[order[:-1]], axis=1)
    if net.C_b[0] == 0.0:  # a kernel of 0 does not fluctuate
        fresh &= norm[order] > 0.0
    order = order[fresh]
    if len(order) <= _MOST:
        return order
    return order[np.linspace(0, len(order) - 1, _MOST).round().astype(int)]


def _spread(c: np.ndarray, size: np.ndarray, room: int) -> np.ndarray:
    """Pairs near equidistant correlations, near 0 first and then the extremes, smallest and largest."""
    low, high = float(c.min()), float(c.max())
    grid = np.linspace(low, high, _TARGETS)
    targets = [min(max(0.0, low), high), low, high, *grid[1:-1]]
    found: list[int] = []
    for target in targets:
        distance = np.abs(c - target)
        near = np.flatnonzero(distance <= distance.min() + _NEAR * (high - low))
        for place in (near[np.argmax(size[near])], near[np.argmin(size[near])]):
            if int(place) not in found:
                found.append(int(place))
    return np.array(found[:room])
