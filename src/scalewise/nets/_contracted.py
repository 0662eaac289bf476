r"""NTK, dNTK and ddNTKs of one network of any layers, at a node, with vectors on their legs.

A leg is the gradient of an $f_v$ at a sample. $\widehat{dH}$ is what a step along the second leg changes the first
by, times the third; $\widehat{dd_I}$ what steps along two legs change the first by, times the last;
$\widehat{dd_{II}}$ the product of what two legs are changed by. So the gradients of all legs are taken at once, and
steps one after another in batches.

Source: PDLT (8.6), (11.8), (∞.5), (∞.7), as directional derivatives; with site matrices derived.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.nets._networks import precision
from scalewise.nets._passes import FieldJet, StepPasses
from scalewise.nets._slopes import (
    Gradients,
    Terms,
    added_up,
    as_they_are,
    chosen,
    products,
    single,
    whole_gradients,
)
from scalewise.networks import Network
from scalewise.networks.spi import Draw, Parameters, Program, bare, by_node, rates_of

_AT_ONCE = 2**24  # numbers that the steps of a batch take

Leg = tuple[int, int]  # its vectors, from one row to before another


@dataclass(frozen=True)
class _Legs:
    """One network, and the gradients of everything that a leg may be.

    Args:
        passes: The network.
        rows: The vectors of all legs, (row, entry).
        batch: How many steps are taken at once.
    """

    passes: StepPasses
    rows: Any
    batch: int

    @property
    def program(self) -> Program:
        """Its nodes."""
        return self.passes.program

    @cached_property
    def gradients(self) -> Gradients:
        """Gradients of every vector at every sample."""
        return self.passes.gradients(lambda _: self.rows)[1]

    def of(self, leg: Leg) -> Gradients:
        """Those of a leg."""
        return chosen(self.program, self.gradients, slice(*leg))

    def as_they_are(self, leg: Leg) -> Terms:
        """Gradients as terms, to be multiplied."""
        return as_they_are(self.program, self.of(leg))

    def steps(self, leg: Leg) -> Gradients:
        """The gradients of a leg one by one: an axis of steps in front, (row, sample) in one."""
        row, sample = np.indices((leg[1] - leg[0], len(self.passes.x))).reshape(2, -1)
        return jax.vmap(partial(single, self.program, self.gradients))(leg[0] + row, sample)

    def over(self, function: Callable[[Gradients], Any], leg: Leg, times: int = 1) -> Any:
        """Values of a function at each step of a leg, so many at once."""
        count = (leg[1] - leg[0]) * len(self.passes.x)
        most = max(1, self.batch // times)
        if most >= count:
            return jax.vmap(function)(self.steps(leg))
        # Batches of one size are compiled once.
        size = max(k for k in range(1, most + 1) if count % k == 0)
        return jax.lax.map(function, self.steps(leg), batch_size=size)

    def split(self, a: Any, axis: int, leg: Leg) -> Any:
        """An axis of steps as one of vectors and one of samples."""
        return a.reshape(*a.shape[:axis], leg[1] - leg[0], -1, *a.shape[axis + 1 :])

    def slopes(self, leg: Leg, step: Gradients) -> Gradients:
        """Changes of both sides of a leg's gradients with a step."""
        return self.passes.along(self.rows[slice(*leg)], step)[1]

    def bent(self, leg: Leg, slopes: Gradients) -> Terms:
        """Changes of a leg with steps."""
        return added_up(self.program, [(self.of(leg), slopes), (slopes, self.of(leg))])


def _ntk(at: _Legs, legs: Sequence[Leg]) -> Any:
    found = products(at.program, *map(at.as_they_are, legs))
    return found.transpose(1, 3, 0, 2)


def _dntk(at: _Legs, legs: Sequence[Leg]) -> Any:
    """PDLT (11.8)."""
    last = at.as_they_are(legs[2])

    def along(step: Gradients) -> Any:
        return products(at.program, at.bent(legs[0], at.slopes(legs[0], step)), last)

    found = at.split(at.over(along, legs[1]), 0, legs[1])
    return jnp.einsum("jbiakc->abcijk", found)


def _dd_first(at: _Legs, legs: Sequence[Leg]) -> Any:
    """PDLT (∞.5)."""
    own, last, others = at.of(legs[0]), at.as_they_are(legs[3]), at.steps(legs[2])
    rows = at.rows[slice(*legs[0])]

    def both(one: Gradients, other: Gradients) -> Any:
        (_, first), (_, second), (_, twice) = at.passes.along_both(rows, one, other)
        pairs = [(own, twice), (first, second), (second, first), (twice, own)]
        return products(at.program, added_up(at.program, pairs), last)

    count = (legs[2][1] - legs[2][0]) * len(at.passes.x)
    found = at.over(lambda step: jax.vmap(partial(both, step))(others), legs[1], count)
    found = at.split(at.split(found, 1, legs[2]), 0, legs[1])
    return jnp.einsum("jbkciald->abcdijkl", found)


def _dd_second(at: _Legs, legs: Sequence[Leg]) -> Any:
    """PDLT (∞.7)."""
    left, right = (
        at.bent(leg, at.over(partial(at.slopes, leg), by))
        for leg, by in zip(legs[:2], legs[2:], strict=True)
    )
    found = products(at.program, left, right)  # (step, row, sample) of both
    found = at.split(at.split(found, 3, legs[3]), 0, legs[2])
    return jnp.einsum("kcialdjb->abcdijkl", found)


TENSORS = {
    "ntk": (_ntk, 2),
    "dntk": (_dntk, 3),
    "dd_first": (_dd_first, 4),
    "dd_second": (_dd_second, 4),
}


def contracted(
    net: Network,
    parameters: Parameters,
    x: Any,
    legs: Sequence[np.ndarray],
    names: Sequence[str],
    node: int | None = None,
) -> list[np.ndarray]:
    """Some tensors of one network, (sample...) and then (vector of a leg...).

    Args:
        net: Its layers and rates.
        parameters: Its weights and biases.
        x: Inputs, of the same dtype.
        legs: Vectors of every leg, (vector, entry).
        names: Of `TENSORS`.
        node: Where; at the outputs if ``None``.
    """
    rows, cuts = _in_one(legs)
    node = len(net.program.nodes) - 1 if node is None else node
    rates = np.array([*rates_of(net.program).values()], x.dtype)
    arrays = parameters, x, rates, rows.astype(x.dtype)
    wanted: dict[str, Any] = {"program": bare(net.program), "names": tuple(names), "node": node}
    with precision(str(x.dtype)):
        return [np.asarray(a) for a in _contracted(*arrays, cuts=cuts, **wanted)]


def _in_one(legs: Sequence[np.ndarray]) -> tuple[np.ndarray, tuple[Leg, ...]]:
    """Vectors of all legs, those that are alike once; and where those of each leg are."""
    different: list[np.ndarray] = []
    where = []
    for leg in legs:
        same = [k for k, other in enumerate(different) if np.array_equal(leg, other)]
        where += same or [len(different)]
        different += [] if same else [leg]
    ends = np.cumsum([0, *map(len, different)]).tolist()
    return np.concatenate(different), tuple((ends[k], ends[k + 1]) for k in where)


@partial(jax.jit, static_argnames=("program", "cuts", "names", "node"))
def _contracted(
    parameters: Parameters,
    x: Any,
    rates: Any,
    rows: Any,
    *,
    program: Program,
    cuts: tuple[Leg, ...],
    names: tuple[str, ...],
    node: int,
) -> list[Any]:
    passes = StepPasses(FieldJet(program, node), by_node(program, parameters, jnp), x, rates)
    at = _Legs(passes, rows, max(1, _AT_ONCE // (len(rows) * len(x) * _numbers(program))))
    return [make(at, cuts[:count]) for make, count in map(TENSORS.__getitem__, names)]


def _numbers(program: Program) -> int:
    """Roughly how many numbers the gradients of one vector at one sample are, with what they are made of."""
    drawn = [k for k, node in enumerate(program.nodes) if isinstance(node, Draw)]
    sites = sum(
        math.prod(program.positions[k]) * (program.channels[k] + program.fan_in(k)) for k in drawn
    )
    return 4 * sites + whole_gradients(program)
