"""All tensors of order 1/n of a network, layer by layer, with what they need to have errors.

A run takes all random layers with the expectations as they are, or with all of them moved by their errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from scalewise.gaussian import SHAKES
from scalewise.theory.flow._layer import Expectations, Layer, Shaken
from scalewise.theory.order._course import Course
from scalewise.theory.order._fluctuations import OrderOne
from scalewise.theory.order._jets import TENSORS
from scalewise.theory.order._terms import wanted
from scalewise.theory.order._way import Kernels, Make, Way

Tensors = dict[str, np.ndarray]  # by letter, an axis of estimates first


def tensors_along(
    course: Course, kernels: Kernels, letters: Sequence[str], make: Make = Layer
) -> Iterator[tuple[int, list[Tensors]]]:
    """Each layer that was asked for and fluctuates, by its node, and its tensors in every run.

    Args:
        course: The network.
        kernels: K and Theta of its random layers.
        letters: Which tensors.
        make: The expectations of an activation at a kernel.
    """
    way = Way(course, kernels, wanted(tuple(letters)))
    orders = [OrderOne() for _ in range(1 + SHAKES)]
    seen: dict[int, list[Expectations]] = {}
    known = way.expectations(make)
    for time, step in enumerate(course.steps):
        root = way.root(step)
        if root not in seen:
            layer = next(known)
            seen[root] = [layer, *(Shaken(layer, seed) for seed in range(SHAKES))]
        alive = way.alive(time)
        for order, expectations in zip(orders, seen[root], strict=True):
            order.add(step.draw, way.reader(step, expectations), way.wanted, alive)
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
