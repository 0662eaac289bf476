"""The one loop of training: what every method has in common, and what a run leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from scalewise.limits._descent import SGD
from scalewise.limits._network import Network
from scalewise.limits._task import Task
from scalewise.limits._tolerance import standard_error

__all__ = ["FINISHED", "Job", "Look", "Method", "Records", "descend", "merged"]

FINISHED = "finished"


@dataclass(frozen=True)
class Job:
    """What is trained on what, for how long, and what is recorded.

    Args:
        net: The network.
        task: Samples and loss.
        sgd: The descent.
        steps: How many.
        every: Record every so many steps, and the last.
        features: How many coordinates of every hidden layer are recorded.
        decoupled: Whether gradients are carried back through independent copies of the initial matrices.
    """

    net: Network
    task: Task
    sgd: SGD
    steps: int
    every: int = 1
    features: int = 0
    decoupled: bool = False


@dataclass(frozen=True)
class Look:
    """What a method shows before a step; several replicas are the first axis of every array.

    Args:
        taught: Outputs of the samples of this step, (..., sample, output).
        logits: Outputs of all samples, then of the test inputs; ``None`` if nothing is recorded.
        kernel: Overlaps of the features of every hidden layer, (..., layer, sample, sample); ``None`` for a method
            without.
        coordinates: Coordinates of the features, (..., layer, sample, coordinate), if they were asked for.
    """

    taught: np.ndarray
    logits: np.ndarray | None = None
    kernel: np.ndarray | None = None
    coordinates: np.ndarray | None = None


@runtime_checkable
class Method(Protocol):
    """An algorithm that trains: what it shows before a step, and the step."""

    def look(self, chosen: np.ndarray | None, watched: bool) -> Look:
        """Outputs before the step on these samples, and of everything if it is recorded."""
        ...

    def step(self, errors: np.ndarray) -> None:
        """One step of descent, from the slopes of the mean loss at the samples that were looked at."""
        ...


@dataclass
class Records:
    """What a run leaves: lists over the recorded times; several replicas come first in every array.

    Args:
        time: Steps that were recorded.
        logits: Outputs of all samples, then of the test inputs.
        loss: Mean over the samples.
        kernel: Overlaps of the features of every hidden layer; empty for a method without features.
        coordinates: Coordinates of every hidden layer, if they were asked for.
        status: ``"finished"``, or why it ended before: a sentence.
    """

    time: list[int] = field(default_factory=list)
    logits: list[np.ndarray] = field(default_factory=list)
    loss: list[np.ndarray] = field(default_factory=list)
    kernel: list[np.ndarray] = field(default_factory=list)
    coordinates: list[np.ndarray] = field(default_factory=list)
    status: str = FINISHED

    def stacked(self, part: str) -> np.ndarray:
        """One of the lists as an array (replica, time, ...)."""
        return np.stack(getattr(self, part), axis=1)

    @property
    def error(self) -> float:
        """The largest standard error of an output; 0 for a run that did not finish, which nothing refines."""
        if self.status != FINISHED:
            return 0.0
        return float(standard_error(self.stacked("logits")).max())


def descend(method: Method, job: Job) -> Records:
    """Train: look, record at step 0, every so many steps and at the end, and step."""
    records, task = Records(), job.task
    for t in range(job.steps + 1):
        chosen = task.batch(t)
        seen = method.look(chosen, t % job.every == 0 or t == job.steps)
        shown = seen.taught if seen.logits is None else seen.logits
        if not np.isfinite(shown).all():
            records.status = _diverged(job, t, "Outputs are")
            break
        if seen.logits is not None and not _record(records, job, t, seen):
            break
        if t < job.steps:
            y = task.targets if chosen is None else task.targets[chosen]
            method.step(task.loss.slopes(seen.taught.astype(np.float64), y))
    return records


def _diverged(job: Job, t: int, what: str) -> str:
    if t:
        why = f"training diverged. Lower `eta` (it is {job.sgd.eta})."
    else:
        name = job.net.activation.name
        why = f"{name} overflows before training. Scale the inputs or `C_W` down."
    return f"{what} not finite at step {t}: {why}"


def _record(records: Records, job: Job, t: int, seen: Look) -> bool:
    """Write down what was seen, unless the loss is not finite."""
    logits = np.asarray(seen.logits, dtype=np.float64)
    y, loss = job.task.targets, job.task.loss
    value = loss.values(logits[..., : len(y), :], y)
    if not np.isfinite(value).all():
        records.status = _diverged(job, t, f"The loss {loss.name} is")
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
