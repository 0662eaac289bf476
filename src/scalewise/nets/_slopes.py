r"""Slopes of one network of any layers along its own gradients, by JAX: what NTK, dNTK and ddNTKs are made of.

For a vector $v$ let $f_v=v\cdot y$, with $y$ what the neurons of a layer read. Its gradient by the weights of a
random layer is $\sum_p\delta(p)u(p)^T$ over sites, with $u$ what enters them and $\delta$ what flows back into what
they give. A step along $\lambda\,\nabla f_v(x_b)$ adds $\sum_p\delta_b(p)\,\lambda\,u_b(p)\cdot u(q)$ to the
outputs at $q$. So where sites are few no array has the shape of the weights; where they are many, gradients are
such arrays.

Derivatives along steps are those of a forward pass and of a pass back, by JAX, and what is left are products of
gradients. Square roots of the rates stand in the gradients, $\sqrt{\lambda_b}$ as one more entry of $u$.

Source: PDLT (8.6), (11.8), (∞.5), (∞.7), as directional derivatives; with site matrices derived.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets._neurons import Neurons
from scalewise.networks._by_jax import Side, forward, nothing
from scalewise.networks._nodes import Draw
from scalewise.networks._program import Program
from scalewise.networks._weights import Weights, in_groups, rates_of, times

# By random layer, labels in front. Where sites are few: what enters (sample, site, entry) and what flows back (row,
# sample, site, channel), whose products are the gradients. Elsewhere these themselves, (row, sample, ...), by
# weights and by biases.
Gradients = dict[int, tuple[Any, Any]]


@dataclass(frozen=True)
class Passes:
    """One network, as its slopes are taken.

    Args:
        neurons: What reads it.
        weights: Its weights.
        x: Inputs.
    """

    neurons: Neurons
    weights: Weights
    x: Any

    @property
    def program(self) -> Program:
        """Its nodes."""
        return self.neurons.program

    def sides(
        self, steps: Sequence[tuple[Any, Gradients]] = ()
    ) -> tuple[Any, Callable[[Any], dict[int, Side]]]:
        """Values of y, and from vectors v to what enters every random layer and what flows back from each f_v.

        Args:
            steps: How far the weights are moved, and along which single gradients.

        Returns:
            (sample, entry); a function of (row, entry) to (sample, *positions, entry) and (row, sample, ...).
        """
        program = self.program

        def moved(node: int, u: Any) -> Any:
            return sum(t * added(program, step, node, u) for t, step in steps)

        def fields(nudges: dict[int, Any]) -> tuple[Any, dict[int, Any]]:
            by_steps = moved if steps else None
            given = {"nudges": nudges, "last": max(self.neurons.read), "steps": by_steps}
            found, seen = forward(program, self.weights, self.x, **given)
            return self.neurons.values(found), seen

        behind = set(program.behind(self.neurons.read))
        zero = {k: a for k, a in nothing(program, self.weights, self.x).items() if k in behind}
        y, pulled, seen = jax.vjp(fields, zero, has_aux=True)

        def back(rows: Any) -> dict[int, Side]:
            # y of a sample depend on that sample alone: one pass back for all.
            (found,) = jax.vmap(lambda v: pulled(jnp.broadcast_to(v, y.shape)))(rows)
            return {k: (seen[k], delta) for k, delta in found.items() if k in seen}

        return y, back

    def gradients(
        self, rows: Callable[[Any], Any], steps: Sequence[tuple[Any, Gradients]] = ()
    ) -> tuple[Any, Gradients]:
        """Values of y, and gradients of each f_v at each sample.

        Args:
            rows: From y to the vectors v.
            steps: As of `sides`.
        """
        y, back = self.sides(steps)
        return y, _by_weights(self.program, back(rows(y)))

    def along(self, rows: Any, step: Gradients) -> tuple[Any, Gradients]:
        """The derivatives of the same along one step."""
        return _opaque(_slope(lambda t: self.gradients(lambda _: rows, [(t, step)])))

    def along_two(self, rows: Any, one: Gradients, other: Gradients) -> tuple[Any, Gradients]:
        """The second derivatives of the same along two steps."""

        def twice(s: Any) -> Any:
            return _slope(lambda t: self.gradients(lambda _: rows, [(t, one), (s, other)]))

        return _opaque(_slope(twice))


def _slope(function: Callable[[Any], Any]) -> Any:
    return jax.jvp(function, (0.0,), (1.0,))[1]


def _opaque(arrays: Any) -> Any:
    """The same; but where a derivative is surely 0, XLA does not know.

    XLA 0.10 would fuse that constant into products, and then read memory that is nobody's: such products of 250
    networks were 1e29.
    """
    return jax.tree.map(jax.lax.optimization_barrier, arrays)


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


def _by_weights(program: Program, sides: dict[int, tuple[Any, Any]]) -> Gradients:
    """Of each set of weights, wherever they are used."""
    few, rates = sites_are_few(program), rates_of(program)
    uses: dict[int, list[tuple[Any, Any]]] = {}
    for k, (u, delta) in sides.items():
        own = program.weights_of(k)
        scale = [math.sqrt(rate) for rate in rates[own]]
        u, delta = (
            u.reshape(len(u), -1, u.shape[-1]),
            delta.reshape(*delta.shape[:2], -1, delta.shape[-1]),
        )
        if own in few:
            one = jnp.full((*u.shape[:2], 1), scale[0], u.dtype)
            uses.setdefault(own, []).append((jnp.concatenate([scale[1] * u, one], axis=2), delta))
        else:
            W, b = _whole(program.nodes[k], u, delta)
            uses.setdefault(own, []).append((scale[1] * W, scale[0] * b))
    found: Gradients = {}
    for k, parts in uses.items():
        if len(parts) == 1:
            found[k] = parts[0]
        elif k in few:
            us, deltas = zip(*parts, strict=True)
            found[k] = jnp.concatenate(us, axis=-2), jnp.concatenate(deltas, axis=-2)
        else:
            found[k] = jax.tree.map(lambda *each: sum(each), *parts)
    return found


def _whole(node: Any, u: Any, delta: Any) -> tuple[Any, Any]:
    """Gradients by weights, as the program takes them, and by biases: labels (row, sample)."""
    if not node.shared:
        return jnp.einsum("bpm,rbpn->rbpmn", u, delta), delta
    if node.groups == 1:
        return jnp.einsum("bpm,rbpn->rbmn", u, delta), delta.sum(axis=2)
    apart = in_groups(u, node, jnp)
    split = delta.reshape(*delta.shape[:3], node.groups, -1)
    W = jnp.einsum("bpgm,rbpgn->rbmgn", apart, split)
    return W.reshape(*W.shape[:3], -1), delta.sum(axis=2)


def added(program: Program, step: Gradients, node: int, u: Any) -> Any:
    """What a step adds to the outputs of a random layer.

    Args:
        program: The nodes.
        step: A single gradient.
        node: The random layer.
        u: What enters it.
    """
    made, own = program.nodes[node], program.weights_of(node)
    assert isinstance(made, Draw)
    if own not in step:  # weights above what is read
        return 0.0
    scale = [math.sqrt(rate) for rate in rates_of(program)[own]]
    first, second = step[own]
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


def bent(program: Program, gradients: Gradients, slopes: Gradients, row: int) -> Terms:
    """What steps change the gradients of one f_v by: labels (sample, step).

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
    """What pairs of steps change the gradients of one f_v by: labels (sample, pair).

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
    """Of each with each, over the last axis."""
    flat = a.reshape(-1, a.shape[-1]) @ b.reshape(-1, b.shape[-1]).T
    return flat.reshape(*a.shape[:-1], *b.shape[:-1])


def _in_a_row(W: Any, b: Any, labels: int) -> Any:
    flat = (a.reshape(*a.shape[:labels], -1) for a in (W, b))
    return jnp.concatenate([*flat], axis=-1)
