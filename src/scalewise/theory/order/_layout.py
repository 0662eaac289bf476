r"""A course input by input: every map of labels as a sparse matrix, because none mixes two inputs.

Labels go input by input, $s=(a,i)$, so that a map is a matrix with a block for each input; those of an activation
stand among the labels of its population, again input by input. Pairs of labels are taken strip by strip: those of
one input with its own and with those of all later ones, which are all pairs of inputs, once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from scalewise.gaussian.spi import Places
from scalewise.networks.spi import Draw, Mix, NetworkCourse, Program, Weigh, course
from scalewise.theory.flow._fields import Fields
from scalewise.theory.flow._labels import blocks
from scalewise.theory.flow._room import Pair

Strip = Float[np.ndarray, "_row _column"]  # labels of an input, and of it and all later ones


@dataclass(frozen=True)
class Spreading:
    """A map of labels, or several for independent weights, whose products with themselves add up.

    Args:
        inputs: How many.
        maps: Each on all labels, with a block for each input.
    """

    inputs: int
    maps: tuple[sparse.csr_array, ...]

    @cached_property
    def is_plain(self) -> bool:
        """True if nothing is changed."""
        (rows, columns), one = shape_of(self.maps[0]), self.maps[0]
        square = len(self.maps) == 1 and rows == columns == one.nnz
        return square and np.array_equal(one.diagonal(), np.ones(rows))

    @cached_property
    def is_thin(self) -> bool:
        """True if no label sees two others at once, so that what is diagonal stays so."""
        return all(np.diff(one.indptr).max(initial=0) <= 1 for one in self.maps)

    @cached_property
    def squares(self) -> sparse.csr_array:
        r"""$\sum_\tau(B_\tau^T)_{us}^2$, by which diagonals are carried back."""
        first, *others = (one.multiply(one) for one in self._turned)
        return sparse.csr_array(sum(others, first))

    @property
    def sizes(self) -> tuple[int, int]:
        """Labels of one input, made and read."""
        rows, columns = shape_of(self.maps[0])
        return rows // self.inputs, columns // self.inputs

    def of_input(self, one: sparse.csr_array, a: int, last: int | None = None) -> sparse.csr_array:
        """The part of a matrix that belongs to some inputs, one of them unless another is named."""
        last = a if last is None else last
        rows, columns = (size // self.inputs for size in shape_of(one))
        return one[a * rows : (last + 1) * rows, a * columns : (last + 1) * columns]

    @cached_property
    def _turned(self) -> tuple[sparse.csr_array, ...]:
        return tuple(sparse.csr_array(one.T) for one in self.maps)

    def around(self, A: Strip, a: int) -> Strip:
        r"""$\sum_\tau B_\tau AB_\tau^T$ of the strip of an input."""
        return A if self.is_plain else self._both(self.maps, A, a)

    def back(self, G: Strip, a: int) -> Strip:
        r"""$\sum_\tau B_\tau^TGB_\tau$, the adjoint of it."""
        return G if self.is_plain else self._both(self._turned, G, a)

    def _both(self, maps: Sequence[sparse.csr_array], A: Strip, a: int) -> Strip:
        total = 0.0
        for one in maps:
            half = self.of_input(one, a) @ A
            total = total + (self.of_input(one, a, self.inputs - 1) @ half.T).T
        return np.ascontiguousarray(total)

    def read(self, x: Float[np.ndarray, "_unit _label"]) -> list[Float[np.ndarray, "_unit _made"]]:
        r"""$B_\tau x$ for each map."""
        return [x] if self.is_plain else [np.ascontiguousarray((one @ x.T).T) for one in self.maps]


def shape_of(one: sparse.csr_array) -> tuple[int, int]:
    """Rows and columns."""
    assert one.shape is not None
    return one.shape[0], one.shape[1]


@dataclass(frozen=True)
class Hop:
    r"""A random layer that reads activations.

    Args:
        draw: Its node.
        root: The population that it reads.
        at: Which labels of the population, of one input.
        taps: $B_\tau$ on the labels that it reads.
        node: Its variances and rates.
        n: Channels that it reads.
        lifts: $L_j$ from the labels of each random layer behind to those that it reads.
    """

    draw: int
    root: int
    at: Int[np.ndarray, " _read"]
    taps: Spreading
    node: Draw
    n: int
    lifts: dict[int, Spreading]


@dataclass(frozen=True)
class Layout:
    """A network whose preactivations are Gaussian, on some inputs.

    Args:
        program: The nodes.
        x: Inputs.
        course: What one input is.
        hops: Random layers that read activations, in their order.
        lifts: By population, from the labels of each random layer behind it to its own.
        ends: Likewise, by layer that is read.
    """

    program: Program
    x: np.ndarray
    course: NetworkCourse
    hops: tuple[Hop, ...]
    lifts: dict[int, dict[int, Spreading]]
    ends: dict[int, dict[int, Spreading]]

    @property
    def inputs(self) -> int:
        """How many there are."""
        return len(self.x)

    def size(self, root: int) -> int:
        """Labels of a population, of one input."""
        return next(iter(self.lifts[root].values())).sizes[0]

    def moving(self, end: int) -> dict[int, Spreading]:
        """From the labels of random layers that fluctuate to those of a layer that is read."""
        return {j: lift for j, lift in self.ends[end].items() if j not in self.course.first}

    def draw_size(self, draw: int) -> int:
        """Labels of a random layer, of one input."""
        return math.prod(self.program.positions[draw])

    @property
    def is_thin(self) -> bool:
        """True if no layer sees several labels at once but the last ones, below which no part is diagonal yet."""
        read = set[int]().union(*(hop.lifts for hop in self.hops))
        seen = [hop.taps for hop in self.hops if hop.draw in read]
        seen += [lift for hop in self.hops for lift in hop.lifts.values()]
        return all(one.is_thin for one in seen)


def layout(program: Program, x: np.ndarray, ends: Sequence[int]) -> Layout:
    """The network behind some layers, with its maps.

    Args:
        program: The nodes.
        x: (inputs, *positions, features).
        ends: The layers.
    """
    varied = any(isinstance(node, Mix | Weigh) for node in program.nodes)
    own = [course(program, x[a : a + 1], ends) for a in range(len(x) if varied else 1)]
    one = own[0]
    lifts = {root: _lifts(own, one.populations[root].points, len(x)) for root in one.populations}
    summed = {
        end: {j: _spreading([tuple(some.ends[end][j] for some in own)], len(x)) for j in form}
        for end, form in one.ends.items()
    }
    starts: dict[int, int] = {}
    for population in one.populations.values():
        start = 0
        for point in population.points:
            starts[point] = start
            start += one.labels_of(point)
    hops = []
    for k, step in enumerate(one.steps):
        node = program.nodes[step.draw]
        assert isinstance(node, Draw)
        places = [starts[point] + np.arange(one.labels_of(point)) for point in step.points]
        taps = [[np.asarray(tap) for tap in some.steps[k].taps] for some in own]
        root = one.of_point[step.points[0]]
        hops.append(
            Hop(
                draw=step.draw,
                root=root,
                at=np.concatenate(places),
                taps=_spreading(list(zip(*taps, strict=True)), len(x)),
                node=node,
                n=one.populations[root].n,
                lifts=_lifts(own, step.points, len(x)),
            )
        )
    return Layout(program, x, one, tuple(hops), lifts, summed)


def _lifts(
    own: Sequence[NetworkCourse], points: Sequence[int], inputs: int
) -> dict[int, Spreading]:
    """From the labels of each random layer behind some activations to theirs."""
    parts = []
    for some in own:
        forms = [some.populations[some.of_point[point]].forms[point] for point in points]
        behind = dict.fromkeys(j for form in forms for j in form)
        parts.append(
            {
                j: np.concatenate(
                    [
                        form.get(j, np.zeros((some.labels_of(point), some.labels[j])))
                        for point, form in zip(points, forms, strict=True)
                    ]
                )
                for j in behind
            }
        )
    return {j: _spreading([tuple(part[j] for part in parts)], inputs) for j in parts[0]}


def _spreading(maps: Sequence[Sequence[np.ndarray]], inputs: int) -> Spreading:
    """Maps, each given input by input, or once for all inputs."""
    found = []
    for parts in maps:
        made = [sparse.csr_array(part) for part in parts]
        made = made if len(made) == inputs else made * inputs
        found.append(sparse.csr_array(sparse.block_diag(made, format="csr")))
    return Spreading(inputs, tuple(found))


def first_fields(own: Layout, *, ntk: bool) -> Fields:
    """Random layers that read the inputs, of which `first_strip` takes strips."""
    crossed = [(True,) * len(positions) for positions in own.program.positions]
    return Fields(own.program, own.x, ntk, crossed)


def first_strip(own: Layout, fields: Fields, draw: int, a: int) -> tuple[Strip, Strip | None]:
    """K and Theta of a random layer that reads the inputs."""
    rows, columns = slice(a, a + 1), slice(a, own.inputs)
    only = frozenset(own.program.behind([draw]))
    found: Pair | None = None
    for here, pair in fields.along(rows, columns, draw, only=only):
        if here == draw:
            laid = partial(_laid, at=fields.places(here, rows, columns), size=own.draw_size(draw))
            found = pair.each(laid)
    assert found is not None
    return found.C, found.T


def _laid(tile: np.ndarray, at: Places, size: int) -> Strip:
    """A copy, because the array is used again."""
    return np.array(blocks(tile, at).swapaxes(1, 2).reshape(size, -1))
