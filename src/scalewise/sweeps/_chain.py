"""A chain of steps, each of which needs the one before: saved as they are finished, resumed after a kill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scalewise.sweeps._store import Store

__all__ = ["resumable"]

State = dict[str, np.ndarray]


def resumable(
    step: Callable[[int, State], State],
    state: State,
    steps: int,
    *,
    record: Store | None = None,
    name: str = "state",
    told: Callable[[int], Any] | None = None,
) -> State:
    """Apply `step` to a state so many times, and lose no finished one to a kill.

    A later call goes on behind the last finished step; since a step draws its random numbers from its index,
    the result is the same as without the interruption.

    Args:
        step: ``step(index, state)`` gives the next state; it may reuse the arrays.
        state: Arrays at the start.
        steps: How many.
        record: An open store; nothing is written for ``None``.
        name: Of this chain in the store.
        told: Called with the number of steps done after each, and once at the start.

    Returns:
        The arrays after the last step.
    """
    found = None if record is None else record.load(name)
    done, state = (0, state) if found is None else found
    if told is not None:
        told(done)
    for index in range(done, steps):
        state = step(index, state)
        if record is not None:
            record.save(name, index + 1, state)
        if told is not None:
            told(index + 1)
    return state
