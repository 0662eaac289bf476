r"""Slopes of one network of any layers along its own gradients, by JAX: what NTK, dNTK and ddNTKs are made of.

For a vector $v$ let $f_v=v\cdot y$, with $y$ what the neurons of a layer read. Its gradient by the weights of a
random layer is $\sum_p\delta(p)u(p)^T$ over sites, with $u$ what enters them and $\delta$ what flows back into what
they give. A step along $\lambda\,\nabla f_v(x_b)$ adds $\sum_p\delta_b(p)\,\lambda\,u_b(p)\cdot u(q)$ to the
outputs at $q$. So where sites are few no array has the shape of the weights; where they are many, gradients are
such arrays.

Derivatives along steps are those of passes (`_passes.py`), and what is left are products of gradients. Square roots
of the rates stand in the gradients, $\sqrt{\lambda_b}$ as one more entry of $u$.

Source: PDLT (8.6), (11.8), (∞.5), (∞.7), as directional derivatives; with site matrices derived.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from scalewise.networks.spi import Draw, Program, Side, in_groups, times

# By random layer, labels in front. Where sites are few: what enters (sample, site, entry) and what flows back (row,
# sample, site, channel), whose products are the gradients. Elsewhere these themselves, (row, sample, ...), by
# weights and by biases.
Gradients = dict[int, tuple[Any, Any]]
Roots = dict[int, tuple[Any, ...]]


def sites_are_few(program: Program) -> frozenset[int]:
    """The random layers whose gradients are products of two vectors for each site, being the smaller that way."""
    sites: dict[int, int] = {}
    for k, node in enumerate(program.nodes):
        if isinstance(node, Draw):
            own = program.weights_of(k)
            sites[own] = sites.get(own, 0) + math.prod(program.positions[k])
    found = set()
    for k, count in sites.items():
        node, m, n = program.nodes[k], program.fan_in(k), program.channels[k]
        assert isinstance(node, Draw)
        if node.shared and node.groups == 1 and count * (m + n) < 2 * m * n:
            found.add(k)
    return frozenset(found)


def whole_gradients(program: Program) -> int:
    """How many numbers gradients by all other random layers are."""
    few, count = sites_are_few(program), 0
    for k, node in enumerate(program.nodes):
        if isinstance(node, Draw) and node.again is None and k not in few:
            count += program.channels[k] * (1 + program.fan_in(k)) * program.places(k)
    return count


def by_weights(program: Program, roots: Roots, *orders: dict[int, Side]) -> Gradients:
    """Gradients, or derivatives of them, of each set of weights, wherever they are used.

    Args:
        program: The nodes.
        roots: Square roots of the rates.
        orders: Both sides, and their derivatives: along a step; or along one, another, and both.
    """
    few, uses = sites_are_few(program), dict[int, list[tuple[Any, Any]]]()
    for k in orders[0]:
        own = program.weights_of(k)
        flat = [_by_site(*order[k]) for order in orders]
        make = _two_sides if own in few else _whole
        uses.setdefault(own, []).append(make(program.nodes[k], roots[own], flat))
    return {k: _of_all_uses(parts, k in few) for k, parts in uses.items()}


def _by_site(u: Any, delta: Any) -> Side:
    """Inputs and what flows back, with all sites along one axis."""
    u = u.reshape(len(u), -1, u.shape[-1])
    return u, delta.reshape(*delta.shape[:2], -1, delta.shape[-1])


def _two_sides(node: Any, scale: tuple[Any, ...], orders: list[Side]) -> tuple[Any, Any]:
    """Derivatives of highest order alone: of what enters, biases too, and of what flows back."""
    u, delta = orders[-1]
    fill = scale[0] if len(orders) == 1 else 0.0
    one = jnp.full((*u.shape[:2], 1), fill, u.dtype)
    return jnp.concatenate([scale[1] * u, one], axis=2), delta


def _whole(node: Any, scale: tuple[Any, ...], orders: list[Side]) -> tuple[Any, Any]:
    """Gradients by weights, as the program takes them, and by biases: labels (row, sample)."""
    W = sum(_outer(node, u, delta) for (u, _), (_, delta) in zip(orders, orders[::-1], strict=True))
    delta = orders[-1][1]
    return scale[1] * W, scale[0] * (delta.sum(axis=2) if node.shared else delta)


def _outer(node: Any, u: Any, delta: Any) -> Any:
    if not node.shared:
        return jnp.einsum("bpm,rbpn->rbpmn", u, delta)
    if node.groups == 1:
        return jnp.einsum("bpm,rbpn->rbmn", u, delta)
    apart = in_groups(u, node, jnp)
    split = delta.reshape(*delta.shape[:3], node.groups, -1)
    W = jnp.einsum("bpgm,rbpgn->rbmgn", apart, split)
    return W.reshape(*W.shape[:3], -1)


def _of_all_uses(parts: list[tuple[Any, Any]], few: bool) -> tuple[Any, Any]:
    if len(parts) == 1:
        return parts[0]
    firsts, seconds = zip(*parts, strict=True)
    if few:
        return jnp.concatenate(firsts, axis=-2), jnp.concatenate(seconds, axis=-2)
    return sum(firsts), sum(seconds)


def added(program: Program, roots: Roots, step: Gradients, node: int, u: Any) -> Any:
    """Changes of the outputs of a random layer with a step.

    Args:
        program: The nodes.
        roots: Square roots of the rates.
        step: A single gradient.
        node: The random layer.
        u: What enters it.
    """
    made, own = program.nodes[node], program.weights_of(node)
    assert isinstance(made, Draw)
    if own not in step:  # weights above what is read
        return 0.0
    scale, (first, second) = roots[own], step[own]
    if own in sites_are_few(program):
        flat = u.reshape(len(u), -1, u.shape[-1])
        entries = scale[1] * (flat @ first[:, :-1].T) + scale[0] * first[:, -1]
        return (entries @ second).reshape(*u.shape[:-1], -1)
    z = scale[1] * times(u, first, made, jnp) + scale[0] * second
    return z.reshape(*u.shape[:-1], -1)


def single(program: Program, gradients: Gradients, row: Any, sample: Any) -> Gradients:
    """The gradient of one f_v at one sample, which is a step."""
    few = sites_are_few(program)
    return {
        k: (u[sample] if k in few else u[row, sample], delta[row, sample])
        for k, (u, delta) in gradients.items()
    }


def chosen(program: Program, gradients: Gradients, rows: Any) -> Gradients:
    """The gradients of some f_v, by a slice or an index array."""
    few = sites_are_few(program)
    return {k: (u if k in few else u[rows], delta[rows]) for k, (u, delta) in gradients.items()}


# By random layer what is added up: products of what enters and what flows back, or whole gradients in a row. Labels
# are in front, and an axis of length 1 where a factor does not depend on a label.
Terms = dict[int, list[tuple[Any, ...]]]


def as_they_are(program: Program, gradients: Gradients) -> Terms:
    """Gradients with labels (row, sample)."""
    few = sites_are_few(program)
    return {
        k: [(u[None], delta)] if k in few else [(_in_a_row(u, delta, 2),)]
        for k, (u, delta) in gradients.items()
    }


def added_up(program: Program, pairs: Sequence[tuple[Gradients, Gradients]]) -> Terms:
    """Sums of what enters by one times what flows back by another; labels (step..., row, sample).

    Args:
        program: The nodes.
        pairs: All that there is by the product rule; the first holds all of it where gradients are whole.
    """
    few, found = sites_are_few(program), {}
    for k, whole in pairs[0][1].items():
        if k not in few:
            node = program.nodes[k]
            assert isinstance(node, Draw)
            found[k] = [(_in_a_row(*whole, whole[1].ndim - (1 if node.shared else 2)),)]
            continue
        terms = [(one[k][0][..., None, :, :, :], other[k][1]) for one, other in pairs]
        labels = max(a.ndim for term in terms for a in term)
        found[k] = [tuple(a.reshape((1,) * (labels - a.ndim) + a.shape) for a in t) for t in terms]
    return found


def bent(program: Program, gradients: Gradients, slopes: Gradients, row: int) -> Terms:
    """Changes of the gradients of one f_v with steps: labels (sample, step).

    Args:
        program: The nodes.
        gradients: Where the steps begin.
        slopes: Their derivatives along the steps, an axis in front.
        row: Of which vector.
    """
    few, found = sites_are_few(program), {}
    for k, (u, delta) in gradients.items():
        by_step, back = slopes[k][0], jnp.swapaxes(slopes[k][1][:, row], 0, 1)
        if k in few:
            found[k] = [(u[:, None], back), (jnp.swapaxes(by_step, 0, 1), delta[row][:, None])]
        else:
            found[k] = [(_in_a_row(jnp.swapaxes(by_step[:, row], 0, 1), back, 2),)]
    return found


def bent_twice(
    program: Program,
    gradients: Gradients,
    slopes: Gradients,
    curves: Gradients,
    pairs: tuple[np.ndarray, np.ndarray],
    row: int,
) -> Terms:
    """Changes of the gradients of one f_v with pairs of steps: labels (sample, pair).

    Args:
        program: The nodes.
        gradients: Where the steps begin.
        slopes: Their derivatives along the steps, an axis in front.
        curves: The second derivatives along the pairs, an axis in front, of that vector alone.
        pairs: The first and the second step of each pair.
        row: Of which vector.
    """
    few, found = sites_are_few(program), {}
    for k, (u, delta) in gradients.items():
        twice, back = curves[k][0], jnp.swapaxes(curves[k][1][:, 0], 0, 1)
        if k not in few:
            found[k] = [(_in_a_row(jnp.swapaxes(twice[:, 0], 0, 1), back, 2),)]
            continue
        by_step, own = jnp.swapaxes(slopes[k][0], 0, 1), jnp.swapaxes(slopes[k][1][:, row], 0, 1)
        found[k] = [
            (u[:, None], back),
            (by_step[:, pairs[0]], own[:, pairs[1]]),
            (by_step[:, pairs[1]], own[:, pairs[0]]),
            (jnp.swapaxes(twice, 0, 1), delta[row][:, None]),
        ]
    return found


def products(program: Program, left: Terms, right: Terms) -> Any:
    """Scalar products of gradients: labels of the left, then labels of the right."""
    few, total = sites_are_few(program), 0.0
    for k in left:
        for one, other in itertools.product(left[k], right[k]):
            both = [_gram(a, b) for a, b in zip(one, other, strict=True)]
            if k in few:
                sites = one[0].ndim - 2, one[0].ndim + other[0].ndim - 3
                both = [(both[0] * both[1]).sum(axis=sites)]
            total = total + both[0]
    return total


def _gram(a: Any, b: Any) -> Any:
    """Products of each with each, over the last axis."""
    flat = a.reshape(-1, a.shape[-1]) @ b.reshape(-1, b.shape[-1]).T
    return flat.reshape(*a.shape[:-1], *b.shape[:-1])


def _in_a_row(W: Any, b: Any, labels: int) -> Any:
    flat = (a.reshape(*a.shape[:labels], -1) for a in (W, b))
    return jnp.concatenate([*flat], axis=-1)
