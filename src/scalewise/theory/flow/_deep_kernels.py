r"""Kernel and NTK of a few inputs through very many layers, from the maps of few of them.

A kernel follows from the one below, so its layers cannot be evaluated out of turn. Over a stretch of
layers the correlations $c_{ab}=K_{ab}/\sqrt{K_{aa}K_{bb}}$ are guessed instead, and the guess is mended by Newton's
rule; the diagonal is known beforehand. With $f=\langle\sigma_a\sigma_b\rangle$ and
$\partial f/\partial K_{ab}=\langle\sigma'_a\sigma'_b\rangle$, evaluated on the guess at a few nodes and
interpolated in $\log\ell$ (see `_trajectory`), its error $\delta$ goes from layer to layer by
$$\delta'=\frac{C_W\sqrt{K_{aa}K_{bb}}}{\sqrt{K'_{aa}K'_{bb}}}\langle\sigma'_a\sigma'_b\rangle\,\delta
  +\Big[\frac{C_b+C_Wf}{\sqrt{K'_{aa}K'_{bb}}}-c'\Big].$$
Each turn squares it. The next guess is the polynomial through what was found at nodes: only of smooth
guesses are few layers enough. A stretch that does not settle, or does not interpolate, is halved, and at
last each layer is evaluated by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from scalewise.gaussian.spi import KernelMap, Places, Workspace, kernel_map
from scalewise.networks import Network
from scalewise.theory._tables._scan import scan
from scalewise.theory.flow._trajectory import NODES, Stretch, lengths, pause

_TURNS = (5, 9, *(NODES,) * 5)  # nodes of each: the first guesses need no more
_SETTLED = 1e-12  # a correlation
_NEGLIGIBLE = 1e-14  # of one, or of a slope: what is missed at every layer adds up
_ROUNDING = 1e-12  # of them, too, where it is nothing but rounding
_PARALLEL = 1e-6  # an angle that rounding has reached
Matrix = Float[np.ndarray, "sample sample"]
Layers = Float[np.ndarray, "layer sample sample"]
Above = Float[np.ndarray, "above sample sample"]
# Kernels after some layers, the expectations that lead to them, and their slopes.
Stretched = tuple[Above, Above, Above]


def deep_kernels(
    net: Network, first: tuple[Matrix, Matrix], diagonal: Float[np.ndarray, "layer sample"]
) -> Iterator[tuple[Matrix, Matrix]]:
    """Kernel and NTK at every layer of a continuous activation, from the first, rtol 1e-10."""
    K, Theta = first
    below, layer, again = K, 0, 0
    yield K, Theta
    while layer < net.depth - 1:
        found = None
        if layer >= again:
            found = _longest(net, (below, K), diagonal, layer)
            again = layer + pause(layer)
        if found is None:
            f, slope = (kind[None] for kind in _evaluated(net, K))
            C_b, C_W, *_ = _rates(net, layer, 1)
            Ks = _bounded(C_b + C_W * f, diagonal[layer + 1 : layer + 2])
        else:
            Ks, f, slope = found
            again = layer + len(Ks)
        Thetas = _ntk(net, layer, f, slope, Theta)
        yield from zip(Ks, Thetas, strict=True)
        below, K, Theta = [K, *Ks[-2:]][-2], Ks[-1], Thetas[-1]
        layer += len(Ks)


def _rates(net: Network, layer: int, count: int) -> Iterator[np.ndarray]:
    r"""$C_b,C_W,\lambda_b,\lambda_W$ of the `count` layers after a layer, counted from 0."""
    for rate in (net.C_b, net.C_W, net.lambda_b, net.lambda_W):
        yield np.array(rate[layer + 1 : layer + 1 + count])[:, None, None]


def _bounded(K: Layers, diagonal: np.ndarray) -> Layers:
    """With the diagonal that is known, and no correlation beyond 1."""
    limit = _sizes(diagonal)
    out = np.clip(K, -limit, limit)
    same = np.arange(K.shape[1])
    out[:, same, same] = diagonal
    return out


def _sizes(diagonal: np.ndarray) -> np.ndarray:
    """Units of correlations."""
    root = np.sqrt(np.maximum(diagonal, np.finfo(float).tiny))
    return root[..., :, None] * root[..., None, :]


def _evaluated(net: Network, K: Matrix) -> tuple[Matrix, Matrix]:
    r"""$\langle\sigma_a\sigma_b\rangle$ and $\langle\sigma'_a\sigma'_b\rangle$ of one layer."""
    here = kernel_map(net.activation, np.diagonal(K).copy(), slope=True)
    C, slope, *work = Workspace(KernelMap.scratch + 2, K.size).take((len(K), len(K)))
    C[...] = K
    everything = slice(0, len(K))
    here.apply(Places(everything, everything), C, slope, work)
    return C, slope


def _ntk(net: Network, layer: int, f: Layers, slope: Layers, Theta: Matrix) -> Layers:
    """The NTK after each of some layers."""
    _, C_W, lambda_b, lambda_W = _rates(net, layer, len(f))
    shape = (len(f), -1)
    source = lambda_b + lambda_W * f
    alpha, beta = (C_W * slope).reshape(shape), source.reshape(shape)
    return scan(alpha, beta, Theta.ravel())[1:].reshape(f.shape)


def _longest(
    net: Network, two: tuple[Matrix, Matrix], diagonal: np.ndarray, first: int
) -> Stretched | None:
    """The longest stretch from a layer on that settles and interpolates; ``None`` if there is none."""
    for length in lengths(first, net.depth - 1):
        here = diagonal[first : first + length + 1]
        if Stretch.of(first, length + 1).reproduces(here, here):
            run = _settled(net, _guess(two, first, length), here, first)
            if run is not None:
                return run
    return None


def _guess(two: tuple[Matrix, Matrix], first: int, length: int) -> Layers:
    r"""Correlations from a layer on whose angles go on as a power of $\ell$."""
    before, now = (np.arccos(np.clip(K / _sizes(np.diagonal(K)), -1.0, 1.0)) for K in two)
    known = np.minimum(before, now) > _PARALLEL
    ratio = np.where(known, now, 1.0) / np.where(known, before, 1.0)
    power = np.log(ratio) / np.log1p(1.0 / first)
    log_layer = np.log1p(np.arange(length + 1) / (first + 1.0))[:, None, None]
    psi = np.minimum(now * np.exp(power * log_layer), np.maximum(now, 0.5 * np.pi))
    return np.cos(psi)


def _settled(net: Network, c: Layers, diagonal: np.ndarray, first: int) -> Stretched | None:
    """The layers of a stretch, from a guess at correlations; ``None`` if they do not come to rest."""
    length, size = len(c) - 1, _sizes(diagonal)
    growth = np.array(net.C_W[first + 1 : first + 1 + length])[:, None, None] * size[:-1] / size[1:]
    for count in _TURNS:
        stretch, whole = (Stretch.of(first, n, count) for n in (length, length + 1))
        nodes = _at_nodes(net, c, diagonal, stretch)
        f, slope, left = map(stretch.between, nodes)
        alpha, beta = (kind.reshape(length, -1) for kind in (growth * slope, left))
        delta = scan(alpha, beta).reshape(c.shape)
        if not np.all(np.isfinite(delta)):
            return None
        new = np.clip(c + delta, -1.0, 1.0)
        if count == NODES and np.all(np.abs(delta) <= _SETTLED):
            fine = whole.reproduces(new, np.ones_like(new)) and _interpolates(stretch, nodes)
            f = (f + slope * delta[:-1]) * size[:-1]
            return (_bounded(new * size, diagonal)[1:], f, slope) if fine else None
        c = whole.between(new[whole.nodes - first])
    return None


def _at_nodes(
    net: Network, c: Layers, diagonal: np.ndarray, stretch: Stretch
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""$f$ in units of the kernel, its derivative, and how far each next correlation is off the guess.

    The guess is near, so that this is small, and so is what interpolation misses of it.
    """
    at, size = stretch.nodes - stretch.first, _sizes(diagonal)
    found = [_evaluated(net, K) for K in _bounded(c[at] * size[at], diagonal[at])]
    f, slope = (np.stack(kind) for kind in zip(*found, strict=True))
    C_b, C_W = (np.array(rate)[stretch.nodes + 1, None, None] for rate in (net.C_b, net.C_W))
    left = (C_b + C_W * f) / size[at + 1] - c[at + 1]
    same = np.arange(c.shape[1])
    left[:, same, same] = 0.0
    return f / size[at], slope, left


def _interpolates(stretch: Stretch, nodes: tuple[np.ndarray, np.ndarray, np.ndarray]) -> bool:
    """True if nothing is missed that would add up over the layers."""
    _, slope, left = nodes
    size = _sizes(np.einsum("jaa->ja", slope).max(axis=0))
    for kind, unit in ((slope, size), (left, np.ones_like(size))):
        if stretch.missed(kind, _NEGLIGIBLE * unit, rounding=_ROUNDING * unit) is None:
            return False
    return True
