r"""What flows back through a network by NumPy: from slopes by the field of a node to slopes by what it reads.

Arrays may be anything that NumPy's functions take and give, series too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scalewise.activations import Activation
from scalewise.networks._forward import (
    among,
    attention,
    logits_of,
    mean_of,
    normed,
    places_seen,
    turned,
)
from scalewise.networks._nodes import (
    Attend,
    Concat,
    Draw,
    Drop,
    Max,
    Mix,
    Node,
    Normalise,
    Pointwise,
    PositionMap,
    Product,
    Stack,
    Sum,
    Weigh,
)
from scalewise.networks._program import Program
from scalewise.networks._sites import IDENTITY, Matrix, Taps
from scalewise.networks._weights import Weights, in_groups

Slope = Callable[[Activation, int], Callable[[Any], Any]]  # the derivatives of an activation


def back(
    program: Program, weights: Weights, found: Sequence[Any], last: Any, slope: Slope
) -> dict[int, Any]:
    """Slopes of a function by what every random layer gives, (sample, *positions, channel).

    Args:
        program: The nodes.
        weights: As `fields` takes them.
        found: The fields that they make.
        last: Slopes by the last field.
        slope: The derivatives of an activation.
    """
    deltas = {len(program.nodes) - 1: last}
    for here in range(len(program.nodes) - 1, -1, -1):
        if here not in deltas:
            continue
        node, delta = program.nodes[here], deltas[here]
        size = program.positions[node.of[0]]
        if isinstance(node, Draw):
            W = weights[program.weights_of(here)][0]
            below = [spread_back(_through(W, node, delta), node.windows, size)]
        elif isinstance(node, Drop):
            below = [weights[here][0] * delta]
        else:
            below = backward(node, [found[k] for k in node.of], found[here], size, delta, slope)
        for k, part in zip(node.of, below, strict=False):
            if k not in program.fixed:
                part = part.reshape(found[k].shape)
                deltas[k] = deltas[k] + part if k in deltas else part
        if not isinstance(node, Draw):
            del deltas[here]
    return deltas


def _through(W: Any, node: Draw, delta: Any) -> Any:
    """Slopes by what enters the weights of a random layer."""
    if W.ndim == 3:
        flat = delta.reshape(len(delta), len(W), -1)
        return np.einsum("spn,pmn->spm", flat, W).reshape(*delta.shape[:-1], -1)
    if node.groups == 1:
        return delta @ np.swapaxes(W, 0, 1)
    split = delta.reshape(len(delta), -1, node.groups, delta.shape[-1] // node.groups)
    W = W.reshape(len(W), node.groups, -1)
    apart = np.einsum("spgn,mgn->spgm", split, W)
    apart = apart.reshape(*apart.shape[:3], node.taps, -1)
    return np.moveaxis(apart, 2, 3).reshape(*delta.shape[:-1], -1)


def by_weights(node: Draw, u: Any, delta: Any) -> tuple[Any, Any]:
    """Slopes by weights, (channel, what enters) or (place, channel, what enters), and by biases.

    Args:
        node: The random layer.
        u: What enters it.
        delta: Slopes by what it gives.
    """
    u, delta = (a.reshape(len(a), -1, a.shape[-1]) for a in (u, delta))
    if not node.shared:
        return np.einsum("spn,spm->pnm", delta, u), delta.sum(axis=0)
    flat = delta.reshape(-1, delta.shape[-1])
    if node.groups == 1:
        return np.swapaxes(flat, 0, 1) @ u.reshape(-1, u.shape[-1]), flat.sum(axis=0)
    split = delta.reshape(*delta.shape[:2], node.groups, -1)
    found = np.einsum("spgn,spgm->gnm", split, in_groups(u, node, np))
    return found.reshape(flat.shape[-1], -1), flat.sum(axis=0)


def backward(
    node: Node, below: Sequence[Any], field: Any, size: Sequence[int], delta: Any, slope: Slope
) -> list[Any]:
    """Slopes by the fields that a node without weights reads; of inputs alone, none.

    Args:
        node: The node.
        below: The fields.
        field: Its own.
        size: Positions of the first of them.
        delta: Slopes by its own.
        slope: The derivatives of an activation.
    """
    if isinstance(node, Pointwise):
        return [delta * slope(node.sigma, 1)(below[0])]
    if isinstance(node, Normalise):
        return [_of_norm(node, below[0], delta, *below[1:])]
    if isinstance(node, Sum):
        return [factor * delta for factor in node.factors]
    if isinstance(node, Product):
        return [_times(delta, [*below[:k], *below[k + 1 :]]) for k in range(len(below))]
    if isinstance(node, Concat | Stack):
        axis = delta.ndim - 1 if isinstance(node, Concat) else 1 + node.axis
        ends = np.cumsum([0, *(b.shape[axis] for b in below)])
        lead = (slice(None),) * axis
        return [delta[(*lead, slice(a, b))] for a, b in itertools.pairwise(ends)]
    if isinstance(node, Mix):
        A, flat = below[1], delta.reshape(len(delta), -1, delta.shape[-1])
        return [np.swapaxes(A.reshape(len(A), -1, A.shape[-1]), 1, 2) @ flat]
    if isinstance(node, Weigh):
        return [delta * below[1]]
    if isinstance(node, Attend):
        return _of_heads(node, below, delta, slope)
    if isinstance(node, Max):
        seen, there = among(node, below, size, np)
        largest = (seen == field[..., None, :]) & there
        count = np.maximum(largest.sum(axis=-2, keepdims=True), 1)
        apart = delta[..., None, :] * (largest / count)
        return [spread_back(apart, node.windows, size)]
    assert isinstance(node, PositionMap)
    return [_of_spread(node, delta, size)]


def _times(delta: Any, others: Sequence[Any]) -> Any:
    for other in others:
        delta = delta * other
    return delta


def _of_norm(node: Normalise, x: Any, delta: Any, mask: Any = None) -> Any:
    shape = (*x.shape[:-1], node.groups, x.shape[-1] // node.groups)
    groups, delta, y = (a.reshape(shape) for a in (x, delta, normed(node, x, np, mask)))
    mean = mean_of(node, len(shape), mask)
    if node.centred:
        groups = groups - mean(groups)
    root = np.sqrt(mean(groups * groups) + node.eps)
    if mask is not None:  # who does not count is divided by what the others say, and says nothing
        axes = (*range(1, len(shape) - 2), len(shape) - 1)
        there = mask[..., None] / mask.sum(axis=axes[:-1], keepdims=True)[..., None] / shape[-1]
        back = delta - there * y * (delta * y).sum(axis=axes, keepdims=True)
        back = back - there * delta.sum(axis=axes, keepdims=True) * node.centred
        return back / root
    back = (delta - y * mean(delta * y)) / root
    return back - mean(back) if node.centred else back


def _of_heads(node: Attend, below: Sequence[Any], delta: Any, slope: Slope) -> list[Any]:
    q, k, v, d = (
        np.moveaxis(x.reshape(len(x), -1, x.shape[-1] // node.size, node.size), 2, 1)
        for x in (*below[:3], delta)
    )
    if node.group > 1:
        k, v = (np.repeat(x, node.group, axis=1) for x in (k, v))
    mask = below[3].reshape(len(q), 1, 1, -1) if len(below) > 3 else None
    logits = logits_of(node, q, k, np)
    p = attention(node, logits, np, lambda sigma: slope(sigma, 0), mask)
    by_p = d @ np.swapaxes(v, -1, -2)
    if node.sigma is None:
        by_logits = p * (by_p - (by_p * p).sum(axis=-1, keepdims=True))
    else:
        by_logits = by_p * attention(node, logits, np, lambda sigma: slope(sigma, 1), mask)
    by_logits = by_logits / node.size**node.power
    hats = [q, k] if node.norm is None else [normed(node.norm, x, np) for x in (q, k)]
    turns = node.turns
    if turns is not None:
        hats = [turned(x, own, np) for x, own in zip(hats, turns, strict=True)]
    slopes = [by_logits @ hats[1], np.swapaxes(by_logits, -1, -2) @ hats[0]]
    if turns is not None:
        slopes = [turned(x, own, np, back=True) for x, own in zip(slopes, turns, strict=True)]
    if node.norm is not None:
        slopes = [_of_norm(node.norm, x, s) for x, s in zip((q, k), slopes, strict=True)]
    found = [*slopes, np.swapaxes(p, -1, -2) @ d]
    if node.group > 1:  # keys and values are told by all heads that have them
        shape = len(q), -1, node.group, *k.shape[2:]
        found[1:] = [a.reshape(shape).sum(axis=2) for a in found[1:]]
    return [np.moveaxis(a, 1, 2) for a in found]


def _of_spread(node: PositionMap, delta: Any, size: Sequence[int]) -> Any:
    windows = [IDENTITY if isinstance(own, Matrix) else own for own in node.along]
    taps = int(np.prod([window.taps for window in windows if not window.is_identity]))
    ones = np.ones((taps, 1))
    sizes = [
        own.array.shape[0] if isinstance(own, Matrix) else n
        for own, n in zip(node.along, size, strict=True)
    ]
    x = spread_back(node.factor * delta[..., None, :] * ones, windows, sizes)
    for axis, own in enumerate(node.along, 1):
        if isinstance(own, Matrix):
            x = np.moveaxis(np.tensordot(own.array.T, x, (1, axis)), 0, axis)
    return x


def spread_back(delta: Any, windows: Sequence[Taps], sizes: Sequence[int]) -> Any:
    """Slopes by position, from slopes by what the taps of windows see, (sample, *places, taps and channels)."""
    if all(window.is_identity for window in windows):
        return delta
    count = len(windows)
    moving = [axis for axis in range(count) if not windows[axis].is_identity]
    taps = [windows[axis].taps for axis in moving]
    x = delta.reshape(*delta.shape[: 1 + count], *taps, -1)
    for axis in reversed(moving):
        index = places_seen(windows[axis], sizes[axis])  # (place, tap)
        there = (index == np.arange(sizes[axis])[:, None, None]).astype(float)
        x = np.tensordot(there, x, ((1, 2), (1 + axis, x.ndim - 2)))
        x = np.moveaxis(x, 0, 1 + axis)
    return x
