"""The one loop of training: what every method has in common, and what a run leaves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from scalewise._readable import readable
from scalewise.limits._descent import SGD
from scalewise.limits._lazy import NotFiniteError
from scalewise.limits._network import Architecture
from scalewise.limits._tolerance import standard_error
from scalewise.tasks import Task

FINISHED = "finished"


@dataclass(frozen=True, kw_only=True)
@readable
class RunCourse(ABC):
    """A training as the loop sees it, whatever is trained."""

    task: Task  # samples and loss
    steps: int
    # Record every so many steps, and the last; or exactly these steps.
    every: int | Sequence[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.every, int) and not (self.every and max(self.every) <= self.steps):
            raise ValueError(
                f"`every` must be a whole number of at least 1, or a list of steps from 0 to {self.steps}; got "
                f"{self.every!r}."
            )

    @property
    def times(self) -> list[int]:
        """The steps that are recorded, in order."""
        if isinstance(self.every, int):
            return sorted({*range(0, self.steps, self.every), self.steps})
        return sorted(set(self.every))

    @abstractmethod
    def remedy(self, t: int) -> str:
        """Why numbers are not finite at a step, and what to do."""


@dataclass(frozen=True, kw_only=True)
@readable
class Job(RunCourse):
    """A deep network that is trained."""

    net: Architecture
    sgd: SGD
    features: int = 0  # how many coordinates of every hidden layer are recorded
    # Whether gradients are carried back through independent copies of the initial matrices.
    decoupled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task.paired:
            raise ValueError(
                "Deep networks take one batch in each step, and the `batches` of this task hold two. Give an array "
                "(step, batch), or train one hidden layer with `shallow.train_shallow`."
            )

    def remedy(self, t: int) -> str:
        """The learning rate after the first step, the inputs before it."""
        sigma = self.net.activation
        if t:
            found = f"training diverged. Lower `eta` (it is {self.sgd.eta})."
        else:
            found = f"{sigma.name} overflows before training. Scale the inputs or `C_W` down."
        return f"{found} {sigma.beyond}".rstrip()


@dataclass(frozen=True)
class Recorded:
    """Outputs and kernels before a step; several replicas are the first axis of every array."""

    # Outputs of the samples of this step, (..., sample, output); for a pair of batches (..., 2,
    # sample, output).
    taught: np.ndarray
    # Outputs of all samples, then of the test inputs; ``None`` if nothing is recorded.
    logits: np.ndarray | None = None
    # Overlaps of the features of every hidden layer, (..., layer, sample, sample), or diagonals of
    # the tangent kernels of both layers, (..., 2, sample); ``None`` for a method without.
    kernel: np.ndarray | None = None
    # Coordinates of the features, (..., layer, sample, coordinate), if they were asked for.
    coordinates: np.ndarray | None = None
    # Slopes of the mean loss, shaped like `taught`; ``None`` if they are those of the task's loss
    # there.
    errors: np.ndarray | None = None


@runtime_checkable
class Method(Protocol):
    """An algorithm that trains: what it shows before a step, and the step."""

    def look(self, chosen: np.ndarray | None, watched: bool) -> Recorded:
        """Outputs before the step on these samples, and of everything if it is recorded."""
        ...

    def step(self, errors: np.ndarray) -> None:
        """One step of descent, from the slopes of the mean loss at the samples that were looked at."""
        ...


@dataclass
class Records:
    """Records of a run: lists over the recorded times; several replicas come first in every array."""

    time: list[int] = field(default_factory=list)  # steps that were recorded
    # Outputs of all samples, then of the test inputs.
    logits: list[np.ndarray] = field(default_factory=list)
    loss: list[np.ndarray] = field(default_factory=list)  # mean over the samples
    # As of `Recorded`; empty for a method without.
    kernel: list[np.ndarray] = field(default_factory=list)
    # Coordinates of every hidden layer, if they were asked for.
    coordinates: list[np.ndarray] = field(default_factory=list)
    status: str = FINISHED  # ``"finished"``, or why it ended before: a sentence

    def stacked(self, part: str) -> np.ndarray:
        """One of the lists as an array (replica, time, ...)."""
        return np.stack(getattr(self, part), axis=1)

    @property
    def error(self) -> float:
        """The largest standard error of an output; 0 for a run that did not finish, which nothing refines."""
        if self.status != FINISHED:
            return 0.0
        return float(standard_error(self.stacked("logits")).max())


def descend(method: Method, course: RunCourse) -> Records:
    """Train: look, record where it is asked for, and step."""
    records, task, times = Records(), course.task, set(course.times)
    for t in range(course.steps + 1):
        chosen = task.batch(t)
        try:
            seen = method.look(chosen, t in times)
        except NotFiniteError:
            records.status = _not_finite(course, t, "Features are")
            break
        shown = seen.taught if seen.logits is None else seen.logits
        if not np.isfinite(shown).all():
            records.status = _not_finite(course, t, "Outputs are")
            break
        if seen.logits is not None and not _record(records, course, t, seen):
            break
        if t < course.steps:
            errors = seen.errors
            if errors is None:
                y = task.targets if chosen is None else task.targets[chosen]
                errors = task.loss.slopes(seen.taught.astype(np.float64), y)
            try:
                method.step(errors)
            except NotFiniteError:
                records.status = _not_finite(course, t + 1, "Gradients are")
                break
    return records


def _not_finite(course: RunCourse, t: int, what: str) -> str:
    return f"{what} not finite at step {t}: {course.remedy(t)}"


def _record(records: Records, course: RunCourse, t: int, seen: Recorded) -> bool:
    """Write down what was seen, unless the loss or a kernel is not finite."""
    logits = np.asarray(seen.logits, dtype=np.float64)
    y, loss = course.task.targets, course.task.loss
    value = loss.values(logits[..., : len(y), :], y)
    if not np.isfinite(value).all():
        records.status = _not_finite(course, t, f"The loss {loss.name} is")
        return False
    if seen.kernel is not None and not np.isfinite(seen.kernel).all():
        records.status = _not_finite(course, t, "Kernels are")
        return False
    records.time.append(t)
    records.logits.append(logits)
    records.loss.append(value.mean(axis=-1))
    if seen.kernel is not None:
        records.kernel.append(seen.kernel)
    if seen.coordinates is not None:
        records.coordinates.append(seen.coordinates)
    return True


def merged(runs: Sequence[Records], join: Callable[[Sequence[np.ndarray]], np.ndarray]) -> Records:
    """Runs joined into one, array by array, up to the time that all of them reached."""
    length = min(len(run.time) for run in runs)
    parts = {
        part: [
            join(values)
            for values in zip(*(getattr(run, part)[:length] for run in runs), strict=True)
        ]
        for part in ("logits", "loss", "kernel", "coordinates")
    }
    status = next((run.status for run in runs if run.status != FINISHED), FINISHED)
    return Records(runs[0].time[:length], **parts, status=status)
