r"""Passes of one network of any layers, by JAX, and their derivatives along its own gradients.

One pass forwards and some backwards give $y$, what enters the random layers, and what flows back from each $f_v$. A
step of the weights adds to what random layers give, and, transposed, to what flows back into what enters them. So
along a step both are derivatives of one pass that is pushed from outside, at a push of nothing; along two steps
each pushes what the other has changed, too. What does not depend on a step is then no part of a batch of steps.

Source: PDLT (8.6), (11.8), (∞.5), (∞.7), as directional derivatives; with site matrices derived.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets._slopes import Gradients, Roots, added, by_weights
from scalewise.networks.spi import Program, Side, Weights, rates_of
from scalewise.networks.spi_jax import forward, nothing


@runtime_checkable
class NetworkReader(Protocol):
    """A reading of a network: the outputs, a layer, or what two neurons of one read."""

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


Read = TypeVar("Read", bound=NetworkReader)


@dataclass(frozen=True)
class FieldJet:
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
        """Inputs, and what flows back."""
        return {k: (self.entering[k], delta) for k, delta in self.back.items()}


# What is added to what random layers give, and to what flows back into what enters them: by random layer.
_Push = tuple[dict[int, Any], dict[int, Any]]


@dataclass(frozen=True)
class StepPasses(Generic[Read]):
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
        return y, by_weights(self.program, self.roots, back(rows(y)))

    def along(self, rows: Any, step: Gradients) -> tuple[Any, Gradients]:
        """The derivatives of the same along one step."""
        at, still = self._start(rows)
        slope = self._slope(rows, still, self._push(step, at))
        return slope.y, by_weights(self.program, self.roots, at.sides, slope.sides)

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
            (first.y, by_weights(self.program, self.roots, *orders[:2])),
            (second.y, by_weights(self.program, self.roots, *orders[::2])),
            (both.y, by_weights(self.program, self.roots, *orders)),
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
