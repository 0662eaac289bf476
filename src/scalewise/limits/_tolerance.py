"""The limit to a tolerance: more and more particles or draws, until the error bar of the replicas meets it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from scalewise.limits._on import Infinite

Found = TypeVar("Found")


def standard_error(values: Any) -> np.ndarray:
    """Standard error of the mean over replicas, which are the first axis."""
    return np.asarray(values.std(axis=0, ddof=1) / math.sqrt(len(values)))


def until_known(
    on: Infinite,
    run: Callable[[int], tuple[Found, float]],
    *,
    what: str,
    start: int,
    bytes_each: int,
    held: str,
    instead: str,
) -> tuple[Found, int, str]:
    """Run with more and more particles or draws until the tolerance is met or the memory is full.

    `run` goes from an even number of them to a result and its largest standard error; `what` names them in the
    message, with `held`, what takes `bytes_each` of memory, and `instead`, what to do where the tolerance is out
    of reach. Returned are the result, how many were taken, and a sentence why the tolerance was missed, empty if
    it was met.
    """
    largest = int(min(on.memory / bytes_each, 2**62)) // 2 * 2
    size = min(start, largest)
    out_of_reach = (
        f"A standard error of {on.tolerance:g} is out of reach at the memory allowed, {on.memory:.2g} bytes for "
        f"{held}"
    )
    if size < 2:
        raise ValueError(
            f"{out_of_reach}: not even two {what} fit. Raise `memory` to {bytes_each * start:.2g} or more."
        )
    while True:
        found, worst = run(size)
        if worst <= on.tolerance:
            return found, size, ""
        needed = size * (1.2 * worst / on.tolerance) ** 2
        if not needed <= largest or size == largest:
            why = f"with {size} {what} it is {worst:.2g}, and {needed:.2g} would be needed"
            return found, size, f"{out_of_reach}: {why}. {instead}."
        size = 2 * math.ceil(min(max(needed, 2 * size), largest) / 2)
