r"""From an algorithm as data to networks that are trained by it, and to what a fixed NTK would lead them to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network
from scalewise.tasks import Task
from scalewise.training._algorithm import Algorithm, settled
from scalewise.training._filters import after_flow
from scalewise.training._motions import ByFlow, ByNewton, Motion
from scalewise.training.ensembles._newton import by_newton
from scalewise.training.ensembles._start import Start
from scalewise.training.ensembles._training import (
    CLOSE,
    LEAST,
    DescentProgram,
    Finished,
    FlowProgram,
    Lesson,
    looped,
)

PATIENCE = 20  # times the steps that the mean NTK needs
MOST_STEPS = 1_000_000
END = np.array([math.inf])
Joint = Float[np.ndarray, "network taught taught"]


@dataclass(frozen=True)
class Curriculum:
    r"""How networks of one shape are trained.

    Args:
        train: From networks at the start to the parameters after training, with what failed.
        gain: $g$ at eigenvalues of an NTK, as the algorithm has it at infinite width.
        noise_variance: Of what is added to the targets of each network.
    """

    train: Callable[[Start], Finished]
    gain: Callable[[np.ndarray], np.ndarray]
    noise_variance: float


def plan(
    net: Network,
    task: Task,
    algorithm: Algorithm,
    h: Float[np.ndarray, " direction"],
    *,
    scale: float,
    dtype: str,
) -> Curriculum:
    """How an algorithm trains networks whose mean NTK has these eigenvalues.

    Args:
        net: Shape and hyperparameters.
        task: The task.
        algorithm: One that has a motion, its rate resolved.
        h: On the training samples.
        scale: A typical initial error of an output.
        dtype: Of the networks.

    Raises:
        ValueError: If it takes too many steps, or its rate is too large.
    """
    targets, ridge, noise = task.targets.size, algorithm.diagonal, algorithm.noise_variance
    x, ends = task.inputs.astype(dtype), algorithm.ends
    motion = settled(algorithm, h, targets=targets).motion(h, targets=targets)
    lesson = Lesson(net, x, ridge, scale, ends)
    train = _program(motion, lesson, h)

    def gain(at: np.ndarray) -> np.ndarray:
        # At the end a rate is forgotten, and need not be one for every network.
        found = after_flow(at, END, ridge=ridge) if ends else algorithm.filter(at, targets=targets)
        return found.gain[0]

    return Curriculum(lambda start: train(lesson, start.parameters, start.goals), gain, noise)


def _program(
    motion: Motion, lesson: Lesson, h: np.ndarray
) -> Callable[[Lesson, Any, Any], Finished]:
    """The program that moves networks so, with steps enough."""
    if isinstance(motion, ByNewton):
        return partial(by_newton, steps=motion.count)
    slowest = lesson.ridge or float(h[h > 1e-9 * h.max()].min())
    if isinstance(motion, ByFlow):
        pace = 1.5 * slowest / (float(h.max()) + lesson.ridge)
        slow = 2 * math.ceil(
            math.log(100 / CLOSE[lesson.dtype]) / (pace * LEAST)
        )  # least steps alone
        steps = max(_enough(pace, lesson), slow)
        return partial(looped, FlowProgram(motion.time, float(h.max()), steps))
    if motion.count is not None:
        return partial(looped, DescentProgram(motion, motion.count))
    pace = min(motion.rates[0] * slowest / (1 - motion.momentum), 1 - motion.momentum)
    return partial(looped, DescentProgram(motion, _enough(pace, lesson)))


def _enough(pace: float, lesson: Lesson) -> int:
    """Steps that may be taken, if one takes off this share of the slowest error."""
    expected = math.log(100 / CLOSE[lesson.dtype]) / pace
    if lesson.to_the_end and expected > MOST_STEPS:
        raise ValueError(
            f"`algorithm` would take some {expected:.2g} steps to the end, because the largest eigenvalue of "
            "the NTK "
            "is that much larger than what learns slowest. Stop training at a time or after a number of steps, or "
            "give a larger `ridge`."
        )
    return min(PATIENCE * math.ceil(expected + 10), PATIENCE * MOST_STEPS)


def response(
    curriculum: Curriculum, own: Joint
) -> Callable[[Float[np.ndarray, "network taught"]], Float[np.ndarray, "network taught"]]:
    r"""$v\mapsto g(\widehat H_{\mathcal{AA}})\,v$ of each network.

    Args:
        curriculum: What gives $g$.
        own: $\widehat H$ of each network on the training samples.

    Raises:
        ValueError: If an NTK is singular and training has no end without it.
    """
    h, U = np.linalg.eigh((own + own.transpose(0, 2, 1)) / 2)
    gain = curriculum.gain(np.maximum(h, 0.0).ravel()).reshape(h.shape)
    if not np.isfinite(gain).all():
        raise ValueError(
            "`control` must be 'free' or None here: the NTK of a network is singular, and 'linear' needs its "
            "inverse."
        )
    return lambda v: np.einsum("kij,kj->ki", U, np.einsum("kji,kj->ki", U, v) * gain)
