r"""From an algorithm as data to networks that are trained by it, and to what a fixed NTK would lead them to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network
from scalewise.tasks import Task
from scalewise.training._algorithms import (
    NTKGP,
    Algorithm,
    GradientDescent,
    GradientFlow,
    TwoStepNewton,
)
from scalewise.training.ensembles._newton import Newton
from scalewise.training.ensembles._start import Start
from scalewise.training.ensembles._training import CLOSE, Descent, Flow, Lesson, trained

PATIENCE = 20  # times the steps that the mean NTK needs
MOST_STEPS = 1_000_000
Joint = Float[np.ndarray, "network taught taught"]


@dataclass(frozen=True)
class Curriculum:
    r"""How networks of one shape are trained.

    Args:
        lesson: What is taught.
        way: How; its rates are those of the sum of half squares.
        gain: $g$ at eigenvalues of an NTK, as the algorithm has it at infinite width.
        noise_variance: Of what is added to the targets of each network.
    """

    lesson: Lesson
    way: Descent | Flow | Newton
    gain: Callable[[np.ndarray], np.ndarray]
    noise_variance: float

    def train(self, start: Start) -> Any:
        """The parameters after training."""
        if isinstance(self.way, Newton):
            return self.way.train(self.lesson, start.parameters, start.goals)
        return trained(self.way, self.lesson, start.parameters, start.goals)


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
        algorithm: One that descends, its rate resolved.
        h: On the training samples.
        scale: A typical initial error of an output.
        dtype: Of the networks.

    Raises:
        ValueError: If it takes too many steps, or its rate is too large.
    """
    noise = algorithm.noise_variance
    if isinstance(algorithm, NTKGP):
        algorithm = GradientFlow(ridge=noise)
    x = task.inputs.astype(dtype)
    if isinstance(algorithm, TwoStepNewton):
        lesson = Lesson(net, x, 0.0, scale, to_the_end=True)
        return Curriculum(lesson, Newton(steps=2), lambda at: algorithm.filter(at).gain[0], noise)
    if not isinstance(algorithm, GradientFlow | GradientDescent):
        raise TypeError(f"{type(algorithm).__name__} does not train by gradients.")
    ridge, size = algorithm.ridge, task.targets.size
    slowest = ridge or float(h[h > 1e-9 * h.max()].min())
    per = size if algorithm.loss_units == "mean" else 1
    if isinstance(algorithm, GradientFlow):
        lesson = Lesson(net, x, ridge, scale, math.isinf(algorithm.time))
        most = _enough(1.5 * slowest / (float(h.max()) + ridge), dtype, lesson.to_the_end)
        way = Flow(algorithm.time / per, float(h.max()), most)
        return Curriculum(lesson, way, lambda at: algorithm.filter(at, targets=size).gain[0], noise)
    rate = algorithm.rate_used(h, targets=size)
    if isinstance(rate, Sequence):
        steps = len(rate) if algorithm.steps is None else algorithm.steps
        rates = tuple(one / per for one in rate)[:steps]
        lesson = Lesson(net, x, ridge, scale, to_the_end=False)
    else:
        rates = (rate / per,)
        lesson = Lesson(net, x, ridge, scale, algorithm.steps is None)
        pace = min(rates[0] * slowest / (1 - algorithm.momentum), 1 - algorithm.momentum)
        steps = (
            _enough(pace, dtype, lesson.to_the_end) if algorithm.steps is None else algorithm.steps
        )
    end = GradientFlow(ridge=ridge) if lesson.to_the_end else algorithm
    way = Descent(rates, steps, algorithm.momentum)
    return Curriculum(lesson, way, lambda at: end.filter(at, targets=size).gain[0], noise)


def _enough(pace: float, dtype: str, to_the_end: bool) -> int:
    """Steps that may be taken, if one takes off this share of the slowest error."""
    expected = math.log(100 / CLOSE[dtype]) / pace
    if to_the_end and expected > MOST_STEPS:
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
