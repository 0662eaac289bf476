"""The limit to a tolerance: more and more particles, until the error bar of the replicas meets it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from scalewise.limits.backends import Infinite, Lazy

__all__ = ["standard_error", "until_known"]

Found = TypeVar("Found")


def standard_error(values: Any) -> np.ndarray:
    """Of the mean over replicas, which are the first axis."""
    return np.asarray(values.std(axis=0, ddof=1) / math.sqrt(len(values)))


def until_known(
    on: Infinite,
    rows: int,
    run: Callable[[Lazy], tuple[Found, float]],
    *,
    held: str,
    instead: str,
) -> tuple[Found, Lazy]:
    """Run with more and more particles until the tolerance is met.

    Args:
        on: The tolerance, and what is allowed.
        rows: Numbers that a particle takes.
        run: Gives a result and its largest standard error.
        held: The rows in words, for the message.
        instead: What to do where the tolerance is out of reach.

    Returns:
        The result, and where it was found.

    Raises:
        ValueError: If the memory allowed is too small.
    """
    largest = int(on.memory / (8 * rows))
    width = min(on.start, largest - largest % 2)

    def refused(why: str) -> ValueError:
        return ValueError(
            f"A standard error of {on.tolerance:g} is out of reach at the memory allowed, {on.memory:.2g} bytes "
            f"for {held}: {why}."
        )

    if width < 2:
        least = f"Raise `memory` to {8.0 * rows * on.start:.2g} or more"
        raise refused(f"not even two particles fit. {least}")
    while True:
        backend = on.at(width)
        found, worst = run(backend)
        if worst <= on.tolerance:
            return found, backend
        needed = width * (1.2 * worst / on.tolerance) ** 2
        if needed > largest:
            raise refused(
                f"with {width} particles it is {worst:.2g}, and {needed:.2g} would be needed. {instead}"
            )
        width = 2 * math.ceil(min(max(needed, 2 * width), largest - 1) / 2)
