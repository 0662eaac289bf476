r"""The kernel $K$ and the NTK $\Theta$ through all layers, for many inputs at once.

$$K^{(1)}_{ab}=C_b+\frac{C_W}{n_0}x_a\!\cdot x_b,\qquad
  K^{(\ell+1)}_{ab}=C_b+C_W\langle\sigma_a\sigma_b\rangle_{K^{(\ell)}}+\gamma^2K^{(\ell)}_{ab}$$
$$\Theta^{(1)}_{ab}=\lambda_b+\frac{\lambda_W}{n_0}x_a\!\cdot x_b,\qquad
  \Theta^{(\ell+1)}_{ab}=\lambda_b+\lambda_W\langle\sigma_a\sigma_b\rangle_{K^{(\ell)}}
  +\big(C_W\langle\sigma'_a\sigma'_b\rangle_{K^{(\ell)}}+\gamma^2\big)\Theta^{(\ell)}_{ab}$$
with $\gamma=0$ where a layer does not skip the one below. What a weight and a skip connection give together is
linear in the weight, whose mean is 0.

A pair needs only itself and its two diagonal entries from the layer below. So the diagonal goes first,
and then each tile of pairs passes through every layer while it is in cache.

Source: PDLT (4.8), (4.118), (8.23), (8.63); with skip connections (B.9), (B.11), their NTK derived.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from scalewise._checked import Told, checked
from scalewise._readable import readable
from scalewise._threads import blas_threads_for
from scalewise.gaussian import KernelMap, Workspace, kernel_map
from scalewise.networks import MLP, Network
from scalewise.networks._inputs import check_kernels
from scalewise.theory._tables._line_moments import VERTEX
from scalewise.theory._tables._line_table import line_table
from scalewise.theory.flow import _pair_sets
from scalewise.theory.flow._deep_kernels import deep_kernels
from scalewise.theory.flow._pair_sets import Pairs, Tile, strips
from scalewise.theory.flow._trajectory import EARLIEST, MOST_INPUTS, SHORTEST

_NONE = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
@readable
class KernelFlow:
    r"""Kernel and NTK at the layers asked for.

    Args:
        layers: Which layers, counted from 1.
        K: Kernels, preactivation².
        Theta: NTKs, or ``None`` if they were not asked for.
        diagonal: $K_{aa}$ at every layer, whichever were asked for.
        watched: Pairs of inputs $a,b$ that are kept at every layer.
        between: Their $K_{ab}$.
    """

    layers: tuple[int, ...]
    K: Float[np.ndarray, "layer sample sample"]
    Theta: Float[np.ndarray, "layer sample sample"] | None
    diagonal: Float[np.ndarray, "depth sample"]
    watched: tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]] = _NONE
    between: Float[np.ndarray, "_depth pair"] = field(default_factory=lambda: np.zeros((0, 0)))


@checked
def kernel_flow(
    net: Network,
    x: Float[np.ndarray, "sample feature"],
    *,
    layers: Sequence[int] | None = None,
    ntk: bool = True,
    watched: tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]] = _NONE,
    progress: Told = None,
) -> KernelFlow:
    """Kernel and NTK of every pair of inputs.

    Args:
        net: The network.
        x: Checked inputs, see `scalewise.networks._inputs.check_inputs`.
        layers: Layers to keep, from 1 to the depth; all of them if ``None``.
        ntk: Whether to carry the NTK along.
        watched: Pairs of inputs $a,b$ whose kernel is kept at every layer.
        progress: Called with (pairs done, pairs in all).

    Returns:
        The flow; rtol 1e-10, Hermite series or closed forms. Two things amplify rounding with the depth:
        chaos, and kinks where inputs are nearly parallel, for the slope goes with the angle; after a
        thousand layers 1e-6 of the NTK is left there.

    Raises:
        ValueError: If the NTK is asked of an activation that jumps, or a kernel overflows.
    """
    _refuse_jumps(net, ntk=ntk)
    kept = tuple(range(1, net.depth + 1)) if layers is None else tuple(layers)
    if _interpolates(net, x):
        flow = _deep_flow(net.branch, x, kept, watched, ntk=ntk)
        if progress is not None:
            progress(len(x) * (len(x) + 1) // 2, len(x) * (len(x) + 1) // 2)
        return flow
    diagonal, maps = _diagonal_flow(net, x, ntk=ntk)
    count = len(x)
    # One block: the larger it is, the larger the pages that the system hands out.
    both = np.empty((2 if ntk else 1, len(kept), count, count))
    K, Theta = both[0], both[1] if ntk else None
    done, total = 0, count * (count + 1) // 2
    workspace = Workspace(KernelMap.scratch + 4, max(_pair_sets.TILE, count))
    slots = {layer: slot for slot, layer in enumerate(kept)}
    first, second = np.sort(watched, axis=0)
    between = np.empty((net.depth, first.size))
    last = net.depth if first.size else max(kept)
    for tile in strips(count):
        rows, columns, _ = tile
        here = np.flatnonzero((rows.start <= first) & (first < rows.stop))
        place = first[here] - rows.start, second[here] - columns.start
        for layer, k, theta in _carry(net, x, maps, tile, last, workspace, ntk=ntk):
            between[layer - 1, here] = k[place]
            if layer in slots:
                _store(K[slots[layer]], k, rows, columns)
                if Theta is not None:
                    _store(Theta[slots[layer]], theta, rows, columns)
        done += (rows.stop - rows.start) * (columns.stop - columns.start)
        if progress is not None:
            progress(min(done, total), total)
    index = np.arange(count)
    for slot, layer in enumerate(kept):
        K[slot, index, index] = diagonal[layer - 1][0]
        if Theta is not None:
            Theta[slot, index, index] = diagonal[layer - 1][1]
    return KernelFlow(kept, K, Theta, np.array([k for k, _ in diagonal]), watched, between)


def kernels_on(
    net: Network,
    pairs: Pairs,
    kinds: Sequence[str] = ("kernel", "ntk"),
    *,
    layers: Sequence[int] | None = None,
) -> list[Float[np.ndarray, "layer ..."]]:
    """Kernels of some pairs of inputs, and nothing else: beside them there is room for one tile.

    Args:
        net: The network.
        pairs: Of checked inputs.
        kinds: ``"kernel"``, ``"ntk"`` or both.
        layers: Layers to keep, from 1 to the depth; the last alone if ``None``.

    Returns:
        One array for each kind, layer by layer; to the accuracy of `kernel_flow`.

    Raises:
        ValueError: If the NTK is asked of an activation that jumps, or a kernel overflows.
    """
    ntk, x = "ntk" in kinds, pairs.x
    _refuse_jumps(net, ntk=ntk)
    kept = (net.depth,) if layers is None else tuple(layers)
    which = [("kernel", "ntk").index(kind) for kind in kinds]
    with blas_threads_for():
        if _interpolates(net, x):
            flow = _deep_flow(net.branch, x, kept, _NONE, ntk=ntk)
            return [pairs.cut((flow.K, flow.Theta)[kind]) for kind in which]  # pyright: ignore
        diagonal, maps = _diagonal_flow(net, x, ntk=ntk)
        found = [np.empty((len(kept), *pairs.shape)) for _ in kinds]
        workspace = Workspace(
            KernelMap.scratch + 4, max(_pair_sets.TILE, len(x) if pairs.is_square else 0)
        )
        for tile in pairs.tiles():
            for layer, *both in _carry(net, x, maps, tile, max(kept), workspace, ntk=ntk):
                if layer in kept:
                    for target, kind in zip(found, which, strict=True):
                        pairs.fill(target[kept.index(layer)], tile, both[kind])
    for target, kind in zip(found, which, strict=True):
        for slot, layer in enumerate(kept):
            pairs.fill_known(target[slot], diagonal[layer - 1][kind])
        if not np.isfinite(target).all():
            raise FloatingPointError(f"A kernel is not finite; please report this network: {net}.")
    return [pairs.spread(target) for target in found]


def kernel_strips(
    net: Network, x: Float[np.ndarray, "sample feature"], *, ntk: bool
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Kernel and NTK of the last layer a few rows at a time, for who has no room for all of them.

    Rows, and K and Theta of these with all samples from the first of them on. The arrays are filled anew for the
    next rows; without `ntk` the second means nothing.
    """
    diagonal, maps = _diagonal_flow(net, x, ntk=ntk)
    workspace = Workspace(KernelMap.scratch + 4, max(_pair_sets.TILE, len(x)))
    for tile in strips(len(x)):
        for layer, K, Theta in _carry(net, x, maps, tile, net.depth, workspace, ntk=ntk):
            if layer == net.depth:
                np.fill_diagonal(K, diagonal[-1][0][tile.rows])
                np.fill_diagonal(Theta, diagonal[-1][1][tile.rows])
                yield tile.rows, K, Theta


def _refuse_jumps(net: Network, *, ntk: bool) -> None:
    if ntk and not net.activation.is_continuous:
        raise ValueError(
            f"The NTK of {net.activation.name!r} does not exist: the activation jumps, and its "
            "derivative is a delta function. Leave out 'ntk' in `observables`."
        )


def _interpolates(net: Network, x: np.ndarray) -> bool:
    """Whether inputs are few and layers many, so that most layers are interpolated."""
    deep = len(x) <= MOST_INPUTS and net.depth > EARLIEST + SHORTEST
    return deep and net.activation.is_continuous and not any(net.skips)


def _deep_flow(
    net: MLP,
    x: np.ndarray,
    kept: tuple[int, ...],
    watched: tuple[np.ndarray, np.ndarray],
    *,
    ntk: bool,
) -> KernelFlow:
    """The same of few inputs through many layers."""
    gram = x @ x.T / net.input_dim
    K, Theta = (b[0] + W[0] * gram for b, W in ((net.C_b, net.C_W), (net.lambda_b, net.lambda_W)))
    table = line_table(net.activation, VERTEX)
    diagonal = np.empty((net.depth, len(x)))
    diagonal[0] = np.diagonal(K)
    for layer in range(1, net.depth):
        square = [table.square(k) for k in diagonal[layer - 1].tolist()]
        diagonal[layer] = net.C_b[layer] + net.C_W[layer] * np.array(square)
        check_kernels(net, layer + 1, diagonal[layer], power=1)
    out = np.empty((2, len(kept), len(x), len(x)))
    slots = {layer: slot for slot, layer in enumerate(kept)}
    between = np.empty((net.depth, len(watched[0])))
    for layer, both in enumerate(deep_kernels(net, (K, Theta), diagonal), 1):
        between[layer - 1] = both[0][watched]
        if layer in slots:
            out[:, slots[layer]] = both
        if layer == max(kept) and not between.size:
            break
    return KernelFlow(kept, out[0], out[1] if ntk else None, diagonal, watched, between)


def _diagonal_flow(
    net: Network, x: np.ndarray, *, ntk: bool
) -> tuple[list[tuple[np.ndarray, np.ndarray]], list[KernelMap]]:
    """Diagonals of K and Theta at every layer, and the map from each layer to the next."""
    square = np.einsum("af,af->a", x, x) / net.input_dim
    K = net.C_b[0] + net.C_W[0] * square
    Theta = net.lambda_b[0] + net.lambda_W[0] * square
    flow, maps = [(K, Theta)], []
    for layer in range(1, net.depth):
        here = kernel_map(net.activation, K, slope=ntk)
        C_W, skip = net.C_W[layer], net.skips[layer] ** 2
        K = net.C_b[layer] + C_W * here.diagonal + skip * K
        if here.diagonal_slope is not None:
            Theta = (
                net.lambda_b[layer]
                + net.lambda_W[layer] * here.diagonal
                + (C_W * here.diagonal_slope + skip) * Theta
            )
        check_kernels(net, layer + 1, K, power=1)
        flow.append((K, Theta))
        maps.append(here)
    return flow, maps


def _carry(
    net: Network,
    x: np.ndarray,
    maps: list[KernelMap],
    tile: Tile,
    last: int,
    workspace: Workspace,
    *,
    ntk: bool,
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Take one tile of pairs through the layers; yield it at each, up to the last."""
    rows, columns, _ = tile
    K, Theta, derivative, below, *work = workspace.take(tile.shape)
    slope = derivative if ntk else None
    if K.ndim == 1:
        np.einsum("pf,pf->p", x[rows], x[columns], out=K)
    else:
        np.matmul(x[rows], x[columns].T, out=K)
    np.multiply(K, net.lambda_W[0] / net.input_dim, out=Theta)
    Theta += net.lambda_b[0]
    K *= net.C_W[0] / net.input_dim
    K += net.C_b[0]
    for layer in range(1, last + 1):
        if layer > 1:
            here, i = maps[layer - 2], layer - 1
            skip = net.skips[i] ** 2
            tile.clear_known(K)
            if skip:
                np.multiply(K, skip, out=below)
            here.apply(rows, columns, K, slope, work)
            if slope is not None:
                slope *= net.C_W[i]
                slope += skip
                Theta *= slope
                np.multiply(K, net.lambda_W[i], out=work[0])
                Theta += work[0]
                Theta += net.lambda_b[i]
            K *= net.C_W[i]
            K += net.C_b[i]
            if skip:
                K += below
        yield layer, K, Theta


def _store(target: np.ndarray, tile: np.ndarray, rows: slice, columns: slice) -> None:
    target[rows, columns] = tile
    target[columns, rows] = tile.T
