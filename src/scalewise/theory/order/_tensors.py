"""All tensors of order 1/n of a network, layer by layer, with what they need to have errors.

A run takes all random layers with the expectations as they are, or with all of them moved by their errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from scalewise.gaussian.spi import SHAKES
from scalewise.networks.spi import NetworkCourse
from scalewise.theory.flow._layer import Between, Evaluated, Expectations, LayerExpectations, Shaken
from scalewise.theory.order._fluctuations import OrderOne
from scalewise.theory.order._jets import TENSORS
from scalewise.theory.order._terms import wanted
from scalewise.theory.order._way import Kernels, Make, Way

TOGETHER = 12  # labels of a population, up to which all expectations are made together
ALIKE = partial(
    LayerExpectations, alike=True
)  # where inverse kernels are multiplied: all entries wrong alike
Tensors = dict[str, np.ndarray]  # by letter, an axis of estimates first


def tensors_along(
    course: NetworkCourse,
    kernels: Kernels,
    letters: Sequence[str],
    make: Make = LayerExpectations,
    together: int | None = None,
) -> Iterator[tuple[int, list[Tensors]]]:
    """Each layer that was asked for and fluctuates, by its node, and its tensors in every run.

    Args:
        course: The network.
        kernels: K and Theta of its random layers.
        letters: Which tensors.
        make: The expectations of an activation at a kernel.
        together: Labels of a population up to which these are of all of them; `TOGETHER` if ``None``.
    """
    way = Way(course, kernels, wanted(tuple(letters)))
    orders = [OrderOne() for _ in range(1 + SHAKES)]
    seen: dict[int, list[_Seen]] = {}
    known = way.expectations(make)
    for time, step in enumerate(course.steps):
        root = way.root(step)
        if root not in seen:
            some, several = _Some(next(known), make), in_parts(course, root, together)
            seen[root] = [_Seen(some, seed, several=several) for seed in (None, *range(SHAKES))]
        alive = way.alive(time)
        for order, own in zip(orders, seen[root], strict=True):
            order.add(step.draw, way.reader(step, own.whole, own.among), way.wanted, alive)
        way.hear(step)
        for end in way.ends_at.get(time, ()):
            yield (
                end,
                [
                    {letter: neurons.tensor(TENSORS[letter]) for letter in letters}
                    for neurons in (way.neurons(end, order) for order in orders)
                ],
            )
        if way.last_read[root] == time:
            del seen[root]


def in_parts(course: NetworkCourse, root: int, together: int | None = None) -> bool:
    """True if expectations of a population are made for some labels and others at a time, always by nodes.

    Args:
        course: The network.
        root: The population.
        together: Labels up to which they are not; `TOGETHER` if ``None``.
    """
    most = TOGETHER if together is None else together
    points = course.populations[root].points
    return len(points) > 1 and sum(map(course.labels_of, points)) > most


@dataclass
class _Some:
    """The expectations of a population, and those between some of its labels and others, made once for all runs."""

    whole: Evaluated
    make: Make
    known: dict[tuple[bytes, bytes], Evaluated] = field(default_factory=dict)

    def between(self, first: np.ndarray, second: np.ndarray) -> Evaluated:
        """With two factors on some labels and two on others."""
        key = first.tobytes(), second.tobytes()
        if key not in self.known:
            same = np.array_equal(first, second)
            at = np.ix_(first, first)
            self.known[key] = (
                self.make(self.whole.sigma, self.whole.K[at])
                if same
                else Between(self.whole, first, second)
            )
        return self.known[key]


class _Seen:
    """The expectations of a population in one run: as they are, or moved by their errors."""

    def __init__(self, some: _Some, seed: int | None, *, several: bool) -> None:
        self._some, self._seed = some, seed
        self._kept: dict[tuple[bytes, bytes], Expectations] = {}
        self.whole = self._moved(some.whole)
        self.among = self._between if several else None

    def _moved(self, layer: Evaluated) -> Expectations:
        return layer if self._seed is None else Shaken(layer, self._seed)

    def _between(self, first: np.ndarray, second: np.ndarray) -> Expectations:
        key = first.tobytes(), second.tobytes()
        if key not in self._kept:
            self._kept[key] = self._moved(self._some.between(first, second))
        return self._kept[key]


def apart(runs: Sequence[Tensors]) -> list[list[Tensors]]:
    """By run the tensors of every estimate, each of them as many times as there are estimates of any."""
    counts = [max(len(tensor) for tensor in run.values()) for run in runs]
    return [
        [{x: t[min(i, len(t) - 1)] for x, t in run.items()} for i in range(count)]
        for run, count in zip(runs, counts, strict=True)
    ]
