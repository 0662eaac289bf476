"""Long runs: steps of a state, saved as they are finished, resumed after a kill at any moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["file_in", "resumable"]

State = dict[str, np.ndarray]


def resumable(
    step: Callable[[int, State], State],
    state: State,
    steps: int,
    *,
    configuration: Mapping[str, Any],
    store: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> State:
    """Apply `step` to a state so many times, and lose no finished one to a kill.

    After every step the state is written under a temporary name and renamed, which happens or does not.
    A later call with the same configuration goes on behind the last finished step; since a step draws its
    random numbers from its index, the result is the same as without the interruption.

    Args:
        step: ``step(index, state)`` gives the next state; it may reuse the arrays.
        state: Arrays at the start.
        steps: How many.
        configuration: Everything that determines the numbers, as JSON can hold it.
        store: A ``.npz`` file; nothing is written for ``None``.
        progress: Called with (steps done, steps in all) after each, and once at the start.

    Returns:
        The arrays after the last step.

    Raises:
        ValueError: If the file is something else, or a run of another configuration.
    """
    done = 0
    path = None if store is None else Path(store)
    wanted = json.loads(json.dumps({**configuration, "steps": steps}))
    if path is not None and path.exists():
        done, state = _load(path, wanted)
    if progress is not None:
        progress(done, steps)
    for index in range(done, steps):
        state = step(index, state)
        if path is not None:
            _save(path, index + 1, state, wanted)
        if progress is not None:
            progress(index + 1, steps)
    return state


def file_in(store: str | os.PathLike[str] | None, name: str) -> Path | None:
    """The file of one part of a run in the folder that keeps it; ``None`` if nothing is kept."""
    return None if store is None else Path(store) / f"{name.replace(' ', '_')}.npz"


def _save(path: Path, done: int, state: State, configuration: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".writing-{path.name}")
    with open(temporary, "wb") as file:
        arrays: dict[str, Any] = {f"state_{key}": value for key, value in state.items()}
        np.savez(
            file, done=np.array(done), configuration=np.array(json.dumps(configuration)), **arrays
        )
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _load(path: Path, wanted: dict[str, Any]) -> tuple[int, State]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            found = json.loads(str(archive["configuration"]))
            done = int(archive["done"])
            state = {key[6:]: archive[key] for key in archive.files if key.startswith("state_")}
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ValueError(
            f"`store` must be a new path or the file of an earlier run; {path} is neither ({error}). "
            "Choose another path."
        ) from None
    differing = [key for key in {**wanted, **found} if wanted.get(key) != found.get(key)]
    if differing:
        what = "; ".join(f"{k}: {found.get(k)!r} there, {wanted.get(k)!r} here" for k in differing)
        raise ValueError(
            f"`store` {path} holds a run with other settings ({what}). Use the same settings to resume it, "
            "or another path."
        )
    return done, state
