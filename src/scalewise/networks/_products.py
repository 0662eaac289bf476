r"""Products of gradients by the weights of random layers, from what enters them and what flows back.

A gradient is $\sum_p\delta(p)u(p)^T$ with $u$ what enters the weights and $\delta$ what flows back into what they
give: of two, products of the two sides, or whole gradients, whichever is cheaper.

Source: PDLT (8.6), (8.12); with site matrices derived.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from scalewise.networks._nodes import Draw
from scalewise.networks._program import Program
from scalewise.networks._weights import in_groups

Side = tuple[Any, Any]  # what enters a random layer, and what flows back into its outputs
Rates = dict[int, Any]  # two numbers, of biases and weights of every random layer, by its node


def by_all_weights(
    program: Program, rates: Rates, left: dict[int, Side], right: dict[int, Side], xp: Any
) -> Any:
    """Terms that all random layers give to the NTK, each by its weights, wherever they are used."""
    first, second = (_by_use(program, sides, xp) for sides in (left, right))
    total: Any = 0.0
    for k in first:
        node = program.nodes[k]
        assert isinstance(node, Draw)
        for one, other in product(first[k], second[k]):
            total = total + by_weights(node, rates[k], one, other, xp)
    return total


def _by_use(program: Program, sides: dict[int, Side], xp: Any) -> dict[int, list[Side]]:
    """Inputs and slopes for each set of weights; all its uses in one, if all sites are alike."""
    found: dict[int, list[Side]] = {}
    for k, side in sides.items():
        found.setdefault(program.weights_of(k), []).append(side)
    for k, uses in found.items():
        node = program.nodes[k]
        assert isinstance(node, Draw)
        if len(uses) > 1 and node.shared:
            us, deltas = zip(*(_by_site(*side) for side in uses), strict=True)
            found[k] = [(xp.concatenate(us, axis=1), xp.concatenate(deltas, axis=2))]
    return found


def by_weights(node: Draw, rates: Any, left: Side, right: Side, xp: Any) -> Any:
    """Term that a random layer gives to the NTK, (row, sample, row, other sample): products of gradients.

    Args:
        node: The layer.
        rates: Of its biases and of its weights.
        left: What enters (sample, *positions, m), and what flows back in some rows (row, sample, *positions, n).
        right: The same of other samples.
        xp: NumPy or JAX's.
    """
    (u, delta), (v, other) = (_by_site(*side) for side in (left, right))
    if not node.shared:
        slopes = xp.einsum("rapn,sbpn->prasb", delta, other)
        entries = xp.einsum("apm,bpm->pab", u, v)[:, None, :, None]
        return (slopes * (rates[0] + rates[1] * entries)).sum(axis=0)
    if node.groups == 1:
        return _products(rates, (u, delta), (v, other), xp)
    us, vs = (in_groups(side, node, xp) for side in (u, v))
    deltas, others = (xp.split(side, node.groups, axis=3) for side in (delta, other))
    return sum(
        _products(rates, (us[:, :, g], deltas[g]), (vs[:, :, g], others[g]), xp)
        for g in range(node.groups)
    )


def _by_site(u: Any, delta: Any) -> Side:
    delta = delta.reshape(*delta.shape[:2], -1, delta.shape[-1])
    return u.reshape(len(u), delta.shape[2], -1), delta


def _products(rates: Any, left: Side, right: Side, xp: Any) -> Any:
    """Products of gradients by weights and biases that all sites share."""
    (u, delta), (v, other) = left, right
    rows, samples, sites, n = delta.shape
    m, count = u.shape[2], rows * samples
    if count * sites**2 * (m + n) < m * n * (sites + count):
        slopes, entries = _gram(delta, other), rates[0] + rates[1] * _gram(u, v)
        if sites == 1:
            return slopes[:, :, 0, :, :, 0] * entries[:, 0, :, 0][:, None]
        # No einsum: of one sample it is many tiny products, and XLA 0.10 gets some thousand of them wrong on CPUs.
        return (slopes * entries[None, :, :, None]).sum(axis=(2, 5))
    bias = _gram(delta.sum(axis=2), other.sum(axis=2))
    gradients = (_by_sample(*side, xp) for side in (left, right))
    weights = _gram(*(gradient.reshape(*gradient.shape[:2], -1) for gradient in gradients))
    return rates[0] * bias + rates[1] * weights


def _gram(a: Any, b: Any) -> Any:
    """Scalar products over the last axis, of each with each."""
    flat = a.reshape(-1, a.shape[-1]) @ b.reshape(-1, b.shape[-1]).T
    return flat.reshape(*a.shape[:-1], *b.shape[:-1])


def _by_sample(u: Any, delta: Any, xp: Any) -> Any:
    """Gradients by weights, (row, sample, m, n)."""
    if xp is np:  # whose einsum is not that of BLAS
        return np.swapaxes(u, 1, 2) @ delta
    return xp.einsum("apm,rapn->ramn", u, delta)
