r"""The kernel $K$ and the NTK $\Theta$ of a network, for many inputs at once.

A pair needs only itself and its two diagonal entries from the layer below. So each input goes first with itself,
which makes the maps of all activations, and then each tile of pairs passes through the whole program (`_fields.py`)
while it is in cache. A few inputs through very many layers are interpolated (`_deep_kernels.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from scalewise._checked import Told, checked
from scalewise._readable import readable
from scalewise._threads import blas_threads_for
from scalewise.networks import Network
from scalewise.networks.spi import check_kernels
from scalewise.theory._tables._line_moments import VERTEX
from scalewise.theory._tables._line_table import line_table
from scalewise.theory.flow._deep_kernels import deep_kernels
from scalewise.theory.flow._pair_sets import PairSet
from scalewise.theory.flow._passing import Passing
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
        diagonal: $K_{aa}$ at every layer, whichever were asked for; none of layers with positions.
        watched: Pairs of inputs $a,b$ that are kept at every layer.
        between: Their $K_{ab}$.
        errors: Standard errors of K and Theta, where averages of the network are estimated; else nothing.
    """

    layers: tuple[int, ...]
    K: Float[np.ndarray, "layer sample sample *positions"]
    Theta: Float[np.ndarray, "layer sample sample *positions"] | None
    diagonal: Float[np.ndarray, "depth sample"]
    watched: tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]] = _NONE
    between: Float[np.ndarray, "_depth pair"] = field(default_factory=lambda: np.zeros((0, 0)))
    errors: tuple[np.ndarray, ...] = ()


@checked
def kernel_flow(
    net: Network,
    x: Float[np.ndarray, "sample *positions feature"],
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
        layers: Layers to keep, from 1 to the depth; all of them if ``None``. They have the same positions.
        ntk: Whether to carry the NTK along.
        watched: Pairs of inputs $a,b$ whose kernel is kept at every layer, of networks without positions.
        progress: Called with (pairs done, pairs in all).

    Returns:
        The flow; rtol 1e-10, Hermite series or closed forms. Two things amplify rounding with the depth:
        chaos, and kinks where inputs are nearly parallel, for the slope goes with the angle; after a
        thousand layers 1e-6 of the NTK is left there.

    Raises:
        ValueError: If the NTK is asked of an activation that jumps, or a kernel overflows.
    """
    refuse_jumps(net, ntk=ntk)
    kept = tuple(range(1, net.depth + 1)) if layers is None else tuple(layers)
    total = len(x) * (len(x) + 1) // 2
    if _interpolates(net, x):
        flow = _deep_flow(net, x, kept, watched, ntk=ntk)
        if progress is not None:
            progress(total, total)
        return flow
    told = progress or (lambda done, total: None)
    passing = Passing.of(net, x, kept, ntk=ntk, drawn=lambda share: told(int(share * total), total))
    first, second = np.sort(watched, axis=0)
    between = np.empty((net.depth, first.size))
    last = net.depth if first.size else max(kept)
    # One block: the larger it is, the larger the pages that the system hands out.
    both = np.empty((2 if ntk else 1, len(kept), len(x), len(x), *passing.sites))
    done, everything = 0, PairSet.square(x)
    for tile in everything.tiles(passing.fields.labels_of_pair):
        rows, columns = tile.rows, tile.columns
        here, place = _NONE[0], _NONE
        if first.size:
            here = np.flatnonzero(
                (rows.start <= first) & (first < rows.stop) & (columns.start <= second) & (second < columns.stop)
            )  # fmt: skip
            place = first[here] - rows.start, second[here] - columns.start
        for layer, found in passing.layers(rows, columns, last):
            if first.size:
                between[layer - 1, here] = found[0][place]
            if layer in kept:
                for target, values in zip(both, found, strict=False):
                    if values is not None:
                        everything.fill(target[kept.index(layer)], tile, values)
        done += math.prod(tile.shape)
        if not passing.known:
            told(min(done, total), total)
    if progress is not None:
        progress(total, total)
    errors = passing.errors(kept)
    return KernelFlow(
        kept, both[0], both[1] if ntk else None, passing.diagonal(), watched, between, errors
    )


def kernels_on(
    net: Network,
    pairs: PairSet,
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
    refuse_jumps(net, ntk=ntk)
    kept = (net.depth,) if layers is None else tuple(layers)
    which = [("kernel", "ntk").index(kind) for kind in kinds]
    with blas_threads_for():
        if _interpolates(net, x):
            flow = _deep_flow(net, x, kept, _NONE, ntk=ntk)
            return [pairs.cut((flow.K, flow.Theta)[kind]) for kind in which]  # pyright: ignore
        passing = Passing.of(net, x, kept, ntk=ntk)
        found = [np.empty((len(kept), *pairs.shape, *passing.sites)) for _ in kinds]
        for tile in pairs.tiles(passing.fields.labels_of_pair):
            for layer, both in passing.layers(tile.rows, tile.columns, max(kept)):
                if layer in kept:
                    for target, kind in zip(found, which, strict=True):
                        pairs.fill(target[kept.index(layer)], tile, both[kind])  # pyright: ignore
    for target in found:
        if not np.isfinite(target).all():
            raise FloatingPointError(f"A kernel is not finite; please report this network: {net}.")
    return [pairs.spread(target) for target in found]


def refuse_jumps(net: Network, *, ntk: bool) -> None:
    """Refuse the NTK of an activation that does not have one."""
    jumping = [sigma.name for sigma in net.activations if not sigma.is_continuous]
    if ntk and jumping:
        raise ValueError(
            f"The NTK of {jumping[0]!r} does not exist: the activation jumps, and its "
            "derivative is a delta function. Leave out 'ntk' in `observables`."
        )


def _interpolates(net: Network, x: np.ndarray) -> bool:
    """True if inputs are few and layers many, so that most layers are interpolated."""
    deep = len(x) <= MOST_INPUTS and net.depth > EARLIEST + SHORTEST
    return deep and net.is_plain and net.activation.is_continuous


def _deep_flow(
    net: Network,
    x: np.ndarray,
    kept: tuple[int, ...],
    watched: tuple[np.ndarray, np.ndarray],
    *,
    ntk: bool,
) -> KernelFlow:
    """The flow of few inputs through many layers."""
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
    last = net.depth if between.size else max(kept)
    for layer, both in enumerate(deep_kernels(net, (K, Theta), diagonal), 1):
        between[layer - 1] = both[0][watched]
        if layer in slots:
            out[:, slots[layer]] = both
        if layer == last:
            break
    return KernelFlow(kept, out[0], out[1] if ntk else None, diagonal, watched, between)
