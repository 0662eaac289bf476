"""What a node without weights makes of the fields that it reads, as arrays of any library.

Fields are (sample, *positions, channel): the channels of a drawn network, the features of inputs, or a few thousand
channels of an infinitely wide network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scalewise.activations import Activation
from scalewise.networks._nodes import (
    Attend,
    Concat,
    Max,
    Mix,
    Node,
    Normalise,
    Pointwise,
    PositionMap,
    Product,
    Read,
    Stack,
    Sum,
    Weigh,
)
from scalewise.networks._program import Program
from scalewise.networks._sites import IDENTITY, Matrix, Taps, Window

_ROUNDED = 1e-24  # of a mean square: what rounding leaves


def forward(
    node: Node,
    below: Sequence[Any],
    sizes: Sequence[int],
    xp: Any = np,
    function: Callable[[Activation], Callable[[Any], Any]] = lambda sigma: sigma,
) -> Any:
    """The field of a node.

    Args:
        node: Any but the inputs and what has weights.
        below: The fields that it reads.
        sizes: Positions of these.
        xp: NumPy or JAX's.
        function: From an activation to a function of such arrays.
    """
    x = below[0]
    if isinstance(node, Pointwise):
        return function(node.sigma)(x)
    if isinstance(node, Normalise):
        return normed(node, x, xp, *below[1:])
    if isinstance(node, Sum):
        return sum(f * b for f, b in zip(node.factors, below, strict=True))
    if isinstance(node, Product):
        for other in below[1:]:
            x = x * other
        return x
    if isinstance(node, Concat):
        return xp.concatenate(below, axis=-1)
    if isinstance(node, Stack):
        return xp.concatenate(below, axis=1 + node.axis)
    if isinstance(node, Read):
        return node(x, xp)
    if isinstance(node, Mix):
        A, flat = below[1], x.reshape(len(x), -1, x.shape[-1])
        return (A.reshape(len(x), -1, A.shape[-1]) @ flat).reshape(*A.shape[:-1], x.shape[-1])
    if isinstance(node, Weigh):
        return x * below[1].astype(x.dtype)
    if isinstance(node, Attend):
        return attended(node, below, xp, function)
    if isinstance(node, Max):
        seen, there = among(node, below, sizes, xp)
        largest = xp.where(there, seen, -np.inf).max(axis=-2)
        return largest if len(below) == 1 else xp.where(there.any(axis=-2), largest, 0.0)
    assert isinstance(node, PositionMap)
    return node.factor * spread(x, node.along, sizes, xp)


def among(node: Max, below: Sequence[Any], sizes: Sequence[int], xp: Any) -> tuple[Any, Any]:
    """Entries that windows see, (sample, *places, tap, channel), and which of them count, broadcast."""
    seen, there = gathered(below[0], node.windows, sizes, xp)
    there = there[..., None]
    if len(below) > 1:
        there = there & (gathered(below[1], node.windows, sizes, xp)[0] > 0)
    return seen, there


def normed(node: Normalise, x: Any, xp: Any, mask: Any = None) -> Any:
    """Channels over their root mean square."""
    groups = x.reshape(*x.shape[:-1], node.groups, -1)
    mean = mean_of(node, groups.ndim, mask)
    if node.centred:
        groups = groups - mean(groups)
    return (groups / xp.sqrt(mean(groups * groups) + node.eps)).reshape(x.shape)


def mean_of(node: Normalise, ndim: int, mask: Any = None) -> Callable[[Any], Any]:
    """The average of a norm, of arrays (sample, *positions, group, channel), with axes of length 1.

    Args:
        node: The norm.
        ndim: Axes of such an array.
        mask: (sample, *positions, 1), 1 at those that count; all for ``None``.
    """
    axes = (*range(1, ndim - 2), ndim - 1) if node.joint else -1
    if mask is None:
        return lambda values: values.mean(axis=axes, keepdims=True)
    there = mask[..., None] / mask.sum(axis=axes[:-1], keepdims=True)[..., None]  # pyright: ignore
    return lambda values: (
        (there.astype(values.dtype) * values)
        .mean(axis=-1, keepdims=True)
        .sum(axis=axes, keepdims=True)
    )


def seen(node: Attend, shape: Sequence[int], mask: Any = None) -> Any:
    """Mask of the positions that each position sees: (position, other), or (..., position, other) with a mask."""
    there = np.tri(*shape, dtype=bool) if node.causal else np.ones(shape, dtype=bool)
    return there if mask is None else there & (mask > 0)


def attention(
    node: Attend, logits: Any, xp: Any, function: Any = lambda sigma: sigma, mask: Any = None
) -> Any:
    """Weights (..., position, other position) of the positions that are seen, from scaled logits."""
    there = seen(node, logits.shape[-2:], mask)
    if node.sigma is not None:
        return xp.where(there, function(node.sigma)(logits), 0.0)
    logits = xp.where(there, logits, -np.inf)
    rising = xp.exp(logits - logits.max(axis=-1, keepdims=True))
    return rising / rising.sum(axis=-1, keepdims=True)


def turned(x: Any, turns: Matrix, xp: Any, *, back: bool = False) -> Any:
    """Channels (..., position, channel) times the matrix of their position, or its transpose."""
    size = x.shape[-1]
    own = xp.asarray(turns.array.reshape(-1, size, size), dtype=x.dtype)
    return xp.einsum("...pj,pji->...pi" if back else "...pj,pij->...pi", x, own)


def logits_of(node: Attend, q: Any, k: Any, xp: Any) -> Any:
    """Scaled logits (..., position, other position) of the queries and keys of heads, (..., position, channel).

    With a bias the axis before positions counts heads.
    """
    if node.norm is not None:
        q, k = (normed(node.norm, x, xp) for x in (q, k))
    if node.turns is not None:
        q, k = (turned(x, own, xp) for x, own in zip((q, k), node.turns, strict=True))
    logits = q @ xp.swapaxes(k, -1, -2) / node.size**node.power
    return logits + bias_of(node, logits, xp) if node.bias else logits


def bias_of(node: Attend, logits: Any, xp: Any) -> Any:
    """Matrices that are added to the logits of each head, (head, position, other position), in turn."""
    turn = np.arange(logits.shape[-3]) % len(node.bias)
    return xp.asarray(np.stack([own.array for own in node.bias])[turn], dtype=logits.dtype)


def slopes_of_logits(node: Attend, q: Any, k: Any, xp: Any) -> tuple[Any, Any]:
    r"""Slopes of logits in the channels of queries, and of keys: (..., position, other, channel) each.

    $$\partial_{q_i}(R\hat q\cdot R'\hat k)=(m_i-\langle m\rangle-\hat q_i\,\hat q\cdot m/d)/r,
      \qquad m=R^TR'\hat k,\qquad\hat q=(q-\langle q\rangle)/r,$$
    times $d^{-\alpha}$, and likewise of keys; $m$ alone without a norm, no means if it is not centred.

    Args:
        node: Attention with a norm, or with turns.
        q: Queries of heads, (..., position, channel).
        k: Keys likewise.
        xp: NumPy or JAX's.
    """
    norm, scale = node.norm, float(node.size) ** node.power
    mean = mean_of(norm or Normalise((), 0.0, centred=False), 2)
    roots: list[Any] = [scale, scale]
    if norm is not None:
        centred = [x - mean(x) if norm.centred else x for x in (q, k)]
        r, s = (xp.sqrt(mean(x * x) + norm.eps) * scale for x in centred)
        roots = [r[..., :, None, :], s[..., None, :, :]]
        q, k = (normed(norm, x, xp) for x in (q, k))
    of_query, of_key = k[..., None, :, :], q[..., :, None, :]
    if node.turns is not None:
        queries, keys = node.turns
        q_turned, k_turned = turned(q, queries, xp), turned(k, keys, xp)
        back = (t.array.reshape(-1, node.size, node.size).astype(q.dtype) for t in node.turns)
        by_query, by_key = back
        of_query = xp.einsum("...uj,sji->...sui", k_turned, by_query)
        of_key = xp.einsum("...sj,uji->...sui", q_turned, by_key)
    if norm is None:
        shape = (*q.shape[:-1], k.shape[-2], node.size)
        return xp.broadcast_to(of_query / scale, shape), xp.broadcast_to(of_key / scale, shape)
    found = []
    for m, hat, root in zip(
        (of_query, of_key), (q[..., :, None, :], k[..., None, :, :]), roots, strict=True
    ):
        own = m - mean(m) if norm.centred else m
        found.append((own - hat * (hat * m).mean(axis=-1, keepdims=True)) / root)
    return found[0], found[1]


def attended(node: Attend, below: Sequence[Any], xp: Any, function: Any) -> Any:
    """Attention to values by queries and keys: all positions in one axis meanwhile."""
    q, k, v = (
        xp.moveaxis(x.reshape(len(x), -1, x.shape[-1] // node.size, node.size), 2, 1)
        for x in below[:3]
    )
    if node.group > 1:
        k, v = (xp.repeat(x, node.group, axis=1) for x in (k, v))
    mask = below[3].reshape(len(q), 1, 1, -1) if len(below) > 3 else None
    p = attention(node, logits_of(node, q, k, xp), xp, function, mask)
    return xp.moveaxis(p @ v, 1, 2).reshape(*below[0].shape[:-1], below[2].shape[-1] * node.group)


def fixed_fields(program: Program, x: np.ndarray) -> dict[int, np.ndarray]:
    """The inputs, and what is made of them without weights."""
    found: dict[int, np.ndarray] = {}
    for here in sorted(program.fixed):
        node = program.nodes[here]
        below = [found[k] for k in node.of]
        if isinstance(node, Normalise) and node.eps == 0.0:
            _refuse_without_signal(node, *below)
        found[here] = forward(node, below, program.positions[node.of[0]]) if node.of else x
    return found


def _refuse_without_signal(node: Normalise, x: np.ndarray, mask: np.ndarray | None = None) -> None:
    """Refuse inputs of which nothing but rounding is left to divide by."""
    groups = x.reshape(*x.shape[:-1], node.groups, -1)
    mean = mean_of(node, groups.ndim, mask)
    left = groups - mean(groups) if node.centred else groups
    if (mean(left**2) <= _ROUNDED * mean(groups**2)).any():
        raise ValueError(
            "`x` leaves a site of a norm without any signal, and its eps is 0, so it would divide by 0. Give "
            "the norm an eps, or drop inputs whose features are all alike."
        )


def gathered(x: Any, windows: Sequence[Taps], sizes: Sequence[int], xp: Any) -> tuple[Any, Any]:
    """Entries that taps see, (sample, *places, tap, channel); and whether there is anything, (*places, tap).

    Beyond the ends stands anything.
    """
    channels = x.shape[-1]
    there = np.ones((1,) * len(windows) + (1,), dtype=bool)
    x = x[..., None, :]
    for axis, (window, size) in enumerate(zip(windows, sizes, strict=True)):
        if window.is_identity:
            continue
        index = places_seen(window, size)
        own = (1,) * axis + (len(index),) + (1,) * (len(windows) - axis - 1)
        there = there[..., None] & (index >= 0).reshape(*own, 1, window.taps)
        there = there.reshape(*there.shape[:-2], -1)
        # (sample, ..., place, tap, ..., taps of axes before, channel)
        x = xp.moveaxis(xp.take(x, np.maximum(index, 0), axis=1 + axis), 2 + axis, -2)
        x = x.reshape(*x.shape[:-3], -1, channels)
    return x, np.broadcast_to(there, (*x.shape[1:-2], there.shape[-1]))


def places_seen(window: Taps, size: int) -> np.ndarray:
    """Positions that the taps of a window see, (place, tap); -1 beyond the ends."""
    index = np.full((window.length(size), window.taps), -1)
    for tap, pieces in enumerate(window.pieces(size)):
        for piece in pieces:
            index[piece.to, tap] = np.arange(size)[piece.of]
    return index


def entering(x: Any, windows: Sequence[Taps], sizes: Sequence[int], xp: Any = np) -> Any:
    """Numbers that enter a random layer: (sample, *places, taps times channels), zeros beyond the ends."""
    if all(window.is_identity for window in windows):
        return x
    seen, there = gathered(x, windows, sizes, xp)
    if not there.all():
        seen = seen * there[..., None].astype(x.dtype)
    return seen.reshape(*seen.shape[:-2], -1)


def spread(x: Any, along: Sequence[Window | Matrix], sizes: Sequence[int], xp: Any = np) -> Any:
    """A fixed map of positions: matrices, and sums over the taps of windows."""
    for axis, own in enumerate(along, 1):
        if isinstance(own, Matrix):
            x = xp.moveaxis(xp.tensordot(own.array.astype(x.dtype), x, (1, axis)), 0, axis)
    channels = x.shape[-1]
    windows = [IDENTITY if isinstance(own, Matrix) else own for own in along]
    seen = entering(x, windows, sizes, xp)
    return seen.reshape(*seen.shape[:-1], -1, channels).sum(axis=-2)
