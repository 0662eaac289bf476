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
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.networks._by_jax import Side, forward, nothing
from scalewise.networks._nodes import Draw
from scalewise.networks._program import Program
from scalewise.networks._weights import Weights, in_groups, rates_of, times

# By random layer, labels in front. Where sites are few: what enters (sample, site, entry) and what flows back (row,
# sample, site, channel), whose products are the gradients. Elsewhere these themselves, (row, sample, ...), by
# weights and by biases.
Gradients = dict[int, tuple[Any, Any]]
Roots = dict[int, tuple[Any, ...]]


@runtime_checkable
class Reader(Protocol):
    """What is read of a network: the outputs, a layer, or what two neurons of one read."""

    @property
    def program(self) -> Program:
        """The nodes."""
        ...

    @property
    def read(self) -> tuple[int, ...]:
        """Those of them that are read."""
        ...

    def values(self, found: list[Any]) -> Any:
        """$y$ of all samples, (sample, entry), from the fields of all nodes that are read."""
        ...


Read = TypeVar("Read", bound=Reader)


@dataclass(frozen=True)
class Field:
    """A node that is read as it is, place after place.

    Args:
        program: The nodes.
        node: Which.
    """

    program: Program
    node: int

    @property
    def read(self) -> tuple[int, ...]:
        """Itself."""
        return (self.node,)

    def values(self, found: list[Any]) -> Any:
        """Its channels at all places in a row."""
        return found[self.node].reshape(len(found[self.node]), -1)


class _Pass(NamedTuple):
    """One pass forwards and some backwards, or a derivative of them."""

    y: Any  # (sample, entry)
    entering: dict[int, Any]  # by random layer, (sample, *positions, entry)
    back: dict[int, Any]  # (row, sample, *positions, channel)

    @property
    def sides(self) -> dict[int, Side]:
        """What enters, and what flows back."""
        return {k: (self.entering[k], delta) for k, delta in self.back.items()}


# What is added to what random layers give, and to what flows back into what enters them: by random layer.
_Push = tuple[dict[int, Any], dict[int, Any]]


@dataclass(frozen=True)
class Passes(Generic[Read]):
    """One network, as its slopes are taken.

    Args:
        neurons: What reads it.
        weights: Its weights.
        x: Inputs.
        rates: Of biases and weights of each random layer that has its own, in their order; ``None`` for those of
            the program.
    """

    neurons: Read
    weights: Weights
    x: Any
    rates: Any = None

    @property
    def program(self) -> Program:
        """Its nodes."""
        return self.neurons.program

    @cached_property
    def roots(self) -> Roots:
        """Square roots of the rates."""
        own = rates_of(self.program)
        if self.rates is None:
            return {k: (math.sqrt(b), math.sqrt(w)) for k, (b, w) in own.items()}
        return {k: tuple(jnp.sqrt(pair)) for k, pair in zip(own, self.rates, strict=True)}

    @cached_property
    def nothing(self) -> dict[int, Any]:
        """Zeros to add to what the random layers give that are behind what is read."""
        behind = set(self.program.behind(self.neurons.read))
        zero = nothing(self.program, self.weights, self.x)
        return {k: own for k, own in zero.items() if k in behind}

    def sides(self) -> tuple[Any, Callable[[Any], dict[int, Side]]]:
        """Values of y, and from vectors v to what enters every random layer and what flows back from each f_v.

        Returns:
            (sample, entry); a function of (row, entry) to (sample, *positions, entry) and (row, sample, ...).
        """
        y, pulled, seen = jax.vjp(self._fields, self.nothing, has_aux=True)

        def back(rows: Any) -> dict[int, Side]:
            # y of a sample depend on that sample alone: one pass back for all.
            (found,) = jax.vmap(lambda v: pulled(jnp.broadcast_to(v, y.shape)))(rows)
            return {k: (seen[k], delta) for k, delta in found.items()}

        return y, back

    def gradients(self, rows: Callable[[Any], Any]) -> tuple[Any, Gradients]:
        """Values of y, and gradients of each f_v at each sample.

        Args:
            rows: From y to the vectors v.
        """
        y, back = self.sides()
        return y, self._by_weights(back(rows(y)))

    def along(self, rows: Any, step: Gradients) -> tuple[Any, Gradients]:
        """The derivatives of the same along one step."""
        at, still = self._start(rows)
        slope = self._slope(rows, still, self._push(step, at))
        return slope.y, self._by_weights(at.sides, slope.sides)

    def along_two(self, rows: Any, one: Gradients, other: Gradients) -> tuple[Any, Gradients]:
        """The second derivatives of the same along two steps."""
        return self.along_both(rows, one, other)[2]

    def along_both(
        self, rows: Any, one: Gradients, other: Gradients
    ) -> tuple[tuple[Any, Gradients], ...]:
        """The derivatives of the same along one step, along another, and along both."""
        at, still = self._start(rows)
        pushes = self._push(one, at), self._push(other, at)
        first, second = (self._slope(rows, still, push) for push in pushes)
        # Each step acts on what the other has changed.
        crossed = [self._push(one, at, second), self._push(other, at, first)]
        of_both = jax.tree.map(jnp.add, *crossed)
        _, both = jax.jvp(partial(self._slope, rows), (still, pushes[0]), (pushes[1], of_both))
        orders = [at.sides, first.sides, second.sides, both.sides]
        return (
            (first.y, self._by_weights(*orders[:2])),
            (second.y, self._by_weights(*orders[::2])),
            (both.y, self._by_weights(*orders)),
        )

    def _fields(self, nudges: dict[int, Any]) -> tuple[Any, dict[int, Any]]:
        """Values of y, and what enters the random layers."""
        last = max(self.neurons.read)
        found, seen = forward(self.program, self.weights, self.x, nudges=nudges, last=last)
        return self.neurons.values(found), {k: seen[k] for k in self.nothing}

    def _pass(self, rows: Any, push: _Push) -> _Pass:
        """The passes of a network that is pushed."""
        nudges, asked = push
        (y, seen), pulled = jax.vjp(self._fields, nudges)

        def one(v: Any, own: dict[int, Any]) -> Any:
            return pulled((jnp.broadcast_to(v, y.shape), own))[0]

        return _Pass(y, seen, jax.vmap(one)(rows, asked))

    def _start(self, rows: Any) -> tuple[_Pass, _Push]:
        """The passes of the network itself, and a push of nothing."""
        y, back = self.sides()
        sides = back(rows)
        seen = {k: u for k, (u, _) in sides.items()}
        asked = {k: np.zeros((len(rows), *u.shape), u.dtype) for k, u in seen.items()}
        at = _Pass(y, seen, {k: delta for k, (_, delta) in sides.items()})
        return at, (self.nothing, asked)

    def _slope(self, rows: Any, at: _Push, push: _Push) -> _Pass:
        return jax.jvp(partial(self._pass, rows), (at,), (push,))[1]

    def _push(self, step: Gradients, at: _Pass, change: _Pass | None = None) -> _Push:
        """How a step of the weights pushes a network, or how it pushes what changes it."""
        nudges, asked = {}, {}
        for k, u in at.entering.items():
            make = partial(added, self.program, self.roots, step, k)
            value, linear = jax.linearize(make, u)
            nudges[k] = value if change is None else linear(change.entering[k])
            transposed = jax.linear_transpose(linear, u)
            back = (change or at).back[k]
            asked[k] = jax.vmap(lambda delta, own=transposed: own(delta)[0])(back)
        return nudges, asked

    def _by_weights(self, *orders: dict[int, Side]) -> Gradients:
        """Of each set of weights, wherever they are used: gradients, or derivatives of them.

        Args:
            orders: Both sides, and their derivatives: along a step; or along one, another, and both.
        """
        program, uses = self.program, dict[int, list[tuple[Any, Any]]]()
        for k in orders[0]:
            own = program.weights_of(k)
            flat = [_by_site(*order[k]) for order in orders]
            make = _two_sides if own in sites_are_few(program) else _whole
            uses.setdefault(own, []).append(make(program.nodes[k], self.roots[own], flat))
        return {k: _of_all_uses(parts, k in sites_are_few(program)) for k, parts in uses.items()}


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


def _by_site(u: Any, delta: Any) -> Side:
    """Sites in a row."""
    u = u.reshape(len(u), -1, u.shape[-1])
    return u, delta.reshape(*delta.shape[:2], -1, delta.shape[-1])


def _two_sides(node: Any, scale: tuple[Any, ...], orders: list[Side]) -> tuple[Any, Any]:
    """What enters, biases too, and what flows back: the derivatives of highest order alone."""
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
    """What a step adds to the outputs of a random layer.

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
