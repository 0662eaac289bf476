"""Where everything stands along a course: labels of activations, kernels of populations, what is still needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.networks.spi import CourseStep, Draw, Form, NetworkCourse
from scalewise.theory.flow._layer import Evaluated, Expectations, LayerExpectations, layers_of
from scalewise.theory.order._fluctuations import OrderOne
from scalewise.theory.order._neurons import Neurons
from scalewise.theory.order._readers import Among, Reader
from scalewise.theory.order._terms import Wanted

Square = Float[np.ndarray, "_label _label2"]
Kernels = Mapping[int, tuple[Square, Square | None]]  # of each random layer, on its labels
Make = Callable[[Activation, Square], LayerExpectations]


@dataclass
class Way:
    """Where everything stands along a course."""

    course: NetworkCourse
    kernels: Kernels
    wanted: Wanted
    _theta_of: tuple[int, Square | None] = (-1, None)
    _heard: dict[int, set[int]] = field(default_factory=dict)

    @cached_property
    def starts(self) -> dict[int, int]:
        """Where the labels of each activation begin among those of its population."""
        found: dict[int, int] = {}
        for population in self.course.populations.values():
            start = 0
            for point in population.points:
                found[point] = start
                start += self.course.labels_of(point)
        return found

    def at(self, step: CourseStep) -> np.ndarray:
        """The labels that a layer reads."""
        parts = [
            self.starts[point] + np.arange(self.course.labels_of(point)) for point in step.points
        ]
        return np.concatenate(parts)

    def root(self, step: CourseStep) -> int:
        """The population that a layer reads."""
        return self.course.of_point[step.points[0]]

    def forms(self, points: Sequence[int]) -> list[Form]:
        """Random layers that the preactivations of some activations are sums of."""
        return [
            self.course.populations[self.course.of_point[point]].forms[point] for point in points
        ]

    def size(self, root: int) -> int:
        """The labels of a population."""
        return sum(map(self.course.labels_of, self.course.populations[root].points))

    def stacked(self, points: Sequence[int]) -> Form:
        """Random layers that the preactivations of some activations are sums of, one after the other."""
        forms = self.forms(points)
        found: Form = {}
        for j in dict.fromkeys(key for form in forms for key in form):
            parts = [
                form.get(j, np.zeros((self.course.labels_of(point), self.course.labels[j])))
                for point, form in zip(points, forms, strict=True)
            ]
            found[j] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return found

    def kernel(self, root: int) -> tuple[Square, Square | None]:
        """K and Theta on all labels of a population."""
        form = self.stacked(self.course.populations[root].points)
        return self.between(form, form)

    def between(self, one: Form, other: Form) -> tuple[Square, Square | None]:
        """K and Theta of two sums of random layers."""
        both: list[Square | None] = []
        for which in (0, 1):
            parts = [(j, self.kernels[j][which]) for j in one if j in other]
            if any(kernel is None for _, kernel in parts):
                both.append(None)
                continue
            total = sum(
                _around(one[j], kernel, other[j]) for j, kernel in parts if kernel is not None
            )
            both.append(np.asarray(total))
        assert both[0] is not None
        return both[0], both[1]

    def expectations(self, make: Make) -> Iterator[Evaluated]:
        """Expectations of each population, in the order in which they are read."""
        order = dict.fromkeys(map(self.root, self.course.steps))
        known = [self.course.populations[root] for root in order]
        kernels = [self.kernel(root)[0] for root in order]
        if (
            len({(p.sigma, len(p.points), len(K)) for p, K in zip(known, kernels, strict=True)})
            == 1
        ):
            yield from layers_of(known[0].sigma, np.stack(kernels), make)
        else:
            for population, K in zip(known, kernels, strict=True):
                yield make(population.sigma, K)

    def reader(
        self, step: CourseStep, expectations: Expectations, among: Among | None = None
    ) -> Reader:
        """A random layer of a run."""
        course, root = self.course, self.root(step)
        node = course.program.nodes[step.draw]
        assert isinstance(node, Draw)
        taps = step.taps
        plain = len(taps) == 1 and factor(taps[0]) == 1.0
        return Reader(
            population=root,
            expectations=expectations,
            among=among,
            Theta=self._theta(root),
            at=self.at(step),
            taps=None if plain else taps,
            lifts=lifts_of(self._fluctuating(self.stacked(step.points))),
            labels=course.labels[step.draw],
            C_W=node.own.C_W,
            lambda_W=node.own.lambda_W,
            n=course.populations[root].n,
            excess=node.own.law.excess,
        )

    def _theta(self, root: int) -> Square | None:
        if not self.wanted.has_tangents:
            return None
        if self._theta_of[0] != root:
            self._theta_of = root, self.kernel(root)[1]
        return self._theta_of[1]

    def _fluctuating(self, form: Form) -> Form:
        return {j: matrix for j, matrix in form.items() if j not in self.course.first}

    def neurons(self, end: int, order: OrderOne) -> Neurons:
        """The neurons of a layer, in a run."""
        course, form = self.course, self.course.ends[end]
        remember = not course.program.averages_out(((end, 1.0),))
        root = course.population(next(iter(form)))
        labels, last = course.labels_of(end), max(form)
        K, Theta = np.zeros((labels, 0)), np.zeros((labels, 0))
        if remember and root in course.populations:
            K, Theta = self.between(form, self.stacked(course.populations[root].points))
        return Neurons(
            order=order,
            lifts=lifts_of(self._fluctuating(form)),
            population=root,
            K=K,
            Theta=Theta,
            n=course.program.channels[self._below(last)],
            remember=remember,
        )

    def _below(self, draw: int) -> int:
        return self.course.program.nodes[draw].of[0]

    @cached_property
    def times(self) -> dict[int, int]:
        """When each layer is added."""
        return {step.draw: time for time, step in enumerate(self.course.steps)}

    @cached_property
    def ends_at(self) -> dict[int, list[int]]:
        """Layers that were asked for and fluctuate, by when the last part of them is there."""
        found: dict[int, list[int]] = {}
        for end, form in self.course.ends.items():
            times = [self.times[j] for j in form if j in self.times]
            if times:
                found.setdefault(max(times), []).append(end)
        return found

    @cached_property
    def last_read(self) -> dict[int, int]:
        """When the channels of each population are read for the last time."""
        found: dict[int, int] = {}
        for time, step in enumerate(self.course.steps):
            found[self.root(step)] = time
            for end in self.ends_at.get(time, ()):
                found[self.course.population(next(iter(self.course.ends[end])))] = time
        return found

    @cached_property
    def last_used(self) -> dict[int, int]:
        """When each layer is read for the last time."""
        found: dict[int, int] = {}
        for time, step in enumerate(self.course.steps):
            ends = [self.course.ends[end] for end in self.ends_at.get(time, ())]
            for form in (*self.forms(step.points), *ends):
                found |= dict.fromkeys(form, time)
        return found

    def alive(self, time: int) -> set[int]:
        """The layers that are read from a time on, or depend on channels that are; asked for in turn."""
        self._heard = {
            j: still
            for j, roots in self._heard.items()
            for still in [{root for root in roots if self.last_read[root] >= time}]
            if still or self.last_used.get(j, -1) >= time
        }
        return set(self._heard)

    def hear(self, step: CourseStep) -> None:
        """Note what a layer depends on, once it is there."""
        found = {self.root(step)}
        for form in self.forms(step.points):
            for j in form:
                found |= self._heard.get(j, set())
        self._heard[step.draw] = found


def _around(one: np.ndarray, kernel: Square, other: np.ndarray) -> np.ndarray:
    """$LKL'^T$, without work where nothing is changed."""
    if factor(one) == factor(other) == 1.0:
        return kernel
    return one @ kernel @ other.T


def factor(matrix: np.ndarray) -> float | None:
    """The number that a matrix multiplies by, if it is one."""
    rows, columns = matrix.shape
    if rows != columns or not rows:
        return None
    number = float(matrix[0, 0])
    return number if np.array_equal(matrix, number * np.eye(rows)) else None


def lifts_of(form: Form) -> dict[int, np.ndarray | float]:
    """Matrices, or the numbers that they multiply by."""
    found: dict[int, np.ndarray | float] = {}
    for j, matrix in form.items():
        number = factor(matrix)
        found[j] = matrix if number is None else number
    return found
