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
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian import pair_moments
from scalewise.network import MLP
from scalewise.theory._line_moments import VERTEX
from scalewise.theory._line_table import line_table
from scalewise.theory.kernel_flow import kernel_flow
from scalewise.theory.single_input import single_input_vertex

__all__ = ["Expansion", "expansion_parameter", "pair_vertex"]

_DIAGONAL = 16  # inputs: V/K² is a smooth function of K_aa alone
_TARGETS = 7  # correlations, over the range that the inputs have
_NEAR = 0.02  # of that range: pairs as near as this to a target count as equally near
_MOST = 128  # inputs among which pairs are sought
# Pairs times layers: a second or so. Moments of an activation with kinks and no closed form are dear.
_CHEAP, _DEAR = 3000, 60
_ANGLES, _RADII = 64, 24
_CHUNK = 64
_ORDERS = ((1, 1), (2, 0), (0, 2))


class Expansion(NamedTuple):
    r"""$\epsilon$ at every layer, dimensionless, and how many pairs of distinct inputs it was sought in."""

    value: Float[np.ndarray, " layer"]
    pairs: int


def expansion_parameter(
    net: MLP, x: Float[np.ndarray, "sample feature"], K: Float[np.ndarray, "layer sample"]
) -> Expansion:
    r"""$\epsilon$ at every layer, at the network's own widths.

    All pairs are looked at where pairs times layers are 3000 at most (60 for an activation with kinks whose
    moments have no closed form). Of more inputs (of 128 at most, evenly over their norms) seven correlations
    are aimed at over the range that they have, zero, if it is in the range, first; near each, the pairs of the
    smallest and of the largest $K_{aa}K_{bb}$ are taken, as many as the depth leaves room for. The choice depends
    on the inputs alone, not on their order or units.

    Args:
        net: The network.
        x: Checked inputs.
        K: Diagonal kernel at every layer.

    Returns:
        The maximum, of the diagonal to rtol 1e-10, of other pairs to 1e-2, or 5e-2 where kernels are a hundred
        times the squared scale of the activation; no pairs where the depth leaves room for none, which needs
        kinks, or where their moments do not converge.

    Raises:
        ValueError: If the vertex of a single input does not converge.

    Example:
        >>> import numpy as np, scalewise as sw
        >>> from scalewise.theory.expansion import expansion_parameter
        >>> net = sw.MLP(2, 10, "linear", input_dim=2, output_dim=1)
        >>> x = np.sqrt(2) * np.eye(2)
        >>> found = expansion_parameter(net, x, np.ones((2, 2)))
        >>> print(f"{found.value[1]:.3f}", found.pairs)  # (1 + c²)/n, largest on the diagonal
        0.200 1
    """
    below = np.array(net.widths[:-1], dtype=np.float64)[:, None]
    _, order = np.unique(K[0], return_index=True)
    few = K[:, np.unique(order[np.linspace(0, len(order) - 1, _DIAGONAL).round().astype(int)])]
    V = single_input_vertex(net, few)
    # A kernel of 0 does not fluctuate.
    best = np.max(np.divide(V, below * few * few, out=np.zeros_like(V), where=few > 0), axis=1)
    first, second = _chosen(net, _canonical(x[np.all(K > 0, axis=0)]))
    if not len(first):
        return Expansion(best, 0)
    flow = kernel_flow(net, np.concatenate([first, second]), ntk=False)
    count = len(first)
    one, two = np.arange(count), np.arange(count, 2 * count)
    A, B, C = flow.K[:, one, one], flow.K[:, two, two], flow.K[:, one, two]
    try:
        V = pair_vertex(net, A, B, C)
    except ValueError:  # the diagonal is what can be known
        return Expansion(best, 0)
    return Expansion(np.maximum(best, np.max(V / (below * A * B), axis=1)), count)


def pair_vertex(
    net: MLP,
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
        The vertex, preactivation⁴; the sources to some 1e-3, their propagation to 1e-10.

    Raises:
        ValueError: If a moment does not exist or does not converge.
    """
    if net.depth == 1:  # the first layer does not fluctuate
        return np.zeros(A.shape)
    limit = np.sqrt(A * B)
    C = np.clip(C, -limit, limit)
    below = [k[:-1].ravel() for k in (A, B, C)]
    J, source = _jacobians(net.activation, *below), _sources(net.activation, *below)
    steps = (net.depth - 1, A.shape[1], 3, 3)
    J, source = J.reshape(steps), source.reshape(steps)
    V, out = np.zeros(steps[1:]), np.zeros(A.shape)
    for layer in range(1, net.depth):
        r = net.widths[layer] / net.widths[layer - 1] if layer > 1 else 1.0
        here = J[layer - 1]
        V = net.C_W[layer] ** 2 * (source[layer - 1] + r * here @ V @ here.swapaxes(-1, -2))
        out[layer] = V[:, 1, 1]
    return out


def _jacobians(sigma: Activation, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> np.ndarray:
    r"""How the means of $\sigma_a\sigma_a,\sigma_a\sigma_b,\sigma_b\sigma_b$ change with $K$."""
    J = np.zeros((A.size, 3, 3))
    mixed = pair_moments(sigma, A, B, C, _ORDERS)
    J[:, 1, 0], J[:, 1, 2] = 0.5 * mixed[2, 0].value, 0.5 * mixed[0, 2].value
    J[:, 1, 1] = mixed[1, 1].value
    table = line_table(sigma, VERTEX)
    J[:, 0, 0], J[:, 2, 2] = table.moments(A)["g1"], table.moments(B)["g1"]
    return J


def _sources(sigma: Activation, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> np.ndarray:
    r"""$\mathrm{Cov}[\sigma\sigma,\sigma\sigma]$ over $aa,ab,bb$, on a grid of angles and radii.

    $z_a=\sqrt Ar\cos(\phi-\theta/2)$, $z_b=\sqrt Br\cos(\phi+\theta/2)$ with $\cos\theta=c$; exact for polynomials,
    and a kink or a jump, wherever it stands, costs the square or the first power of the step.
    """
    angle = np.arccos(np.clip(C / np.sqrt(A * B), -1.0, 1.0))[:, None, None]
    angles = _ANGLES if sigma.is_continuous else 4 * _ANGLES  # in half a turn
    turns = angles if sigma.parity else 2 * angles  # parity tells the other half
    phi = (np.arange(turns) + 0.5) * (math.pi / angles)
    # What is homogeneous depends on the radius as a polynomial of the fourth degree at most does.
    t, weight = np.polynomial.laguerre.laggauss(3 if sigma.is_scale_invariant else _RADII)
    r = np.sqrt(2 * t)[:, None]
    weights = np.repeat(weight / turns, turns)
    out = np.empty((A.size, 3, 3))
    for start in range(0, A.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        a, b = (
            sigma(np.sqrt(K[part])[:, None, None] * r * np.cos(phi + shift * angle[part]))
            for K, shift in ((A, -0.5), (B, 0.5))
        )
        features = np.stack([a * a, a * b, b * b], axis=1).reshape(len(a), 3, -1)
        features -= (features @ weights)[..., None]
        out[part] = (features * weights) @ features.swapaxes(-1, -2)
    return out


def _canonical(x: np.ndarray) -> np.ndarray:
    """The inputs in an order of their own, each once: by norm, then by one projection."""
    norm = np.einsum("af,af->a", x, x)
    project = np.einsum("af,f->a", x, np.cos(np.arange(x.shape[1])))
    order = np.lexsort((project, norm))
    x = x[order]
    fresh = np.ones(len(x), dtype=bool)
    fresh[1:] = np.any(x[1:] != x[:-1], axis=1)
    x = x[fresh]
    if len(x) <= _MOST:
        return x
    return x[np.linspace(0, len(x) - 1, _MOST).round().astype(int)]


def _chosen(net: MLP, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both inputs of every pair to look at."""
    sigma = net.activation
    cheap = sigma.is_smooth or sigma.is_scale_invariant
    steps = max(1, net.depth - 1)
    room = max(1, _CHEAP // steps) if cheap else _DEAR // steps
    a, b = np.triu_indices(len(x), 1)
    if not a.size or not room:
        return x[:0], x[:0]
    if a.size > room:
        K = net.C_b[0] + net.C_W[0] / net.input_dim * (x @ x.T)
        size = np.diagonal(K)[a] * np.diagonal(K)[b]
        some = _spread(K[a, b] / np.sqrt(size), size, room)
        a, b = a[some], b[some]
    return x[a], x[b]


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
