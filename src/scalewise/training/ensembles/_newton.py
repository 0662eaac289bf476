r"""Steps of Newton in the space of outputs, $\theta\leftarrow\theta-\lambda J^T\widehat H^{-1}(z-y)$."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from scalewise.nets.spi import Packed
from scalewise.training.ensembles._start import ntks, pulled
from scalewise.training.ensembles._training import FAILURES, SEVERAL, Finished, Lesson


def by_newton(
    lesson: Lesson,
    start: Any,
    goals: Float[np.ndarray, "network output train"],
    *,
    steps: int,
) -> Finished:
    r"""Networks after so many steps, each with the NTK that the network has then.

    The source takes the mean NTK for the second step, or the first one's: what either leaves of the outputs differs
    by less than 1/n of what that step does, which is 1/n itself.

    Args:
        lesson: What is taught.
        start: The parameters before.
        goals: Targets of each network.
        steps: How many. Two leave an error of order 1/n².

    Raises:
        ValueError: If the NTKs of all of several networks are singular.

    Source: PDLT (∞.68)-(∞.78).
    """
    y = goals.astype(lesson.dtype).swapaxes(1, 2)
    failed = np.zeros((len(y), len(FAILURES)), bool)
    for _ in range(steps):
        H = ntks(lesson.net, start, lesson.x)
        e = np.asarray(_errors(lesson.own, start, y, lesson.x), np.float64)
        h, U = np.linalg.eigh((H + H.transpose(0, 2, 1)) / 2)
        failed[:, 2] |= h[:, 0] <= 100 * len(h[0]) * np.finfo(lesson.dtype).eps * h[:, -1]
        if failed[:, 2].all() and len(y) >= SEVERAL:
            raise ValueError(
                "`algorithm` needs the inverse of the NTK of each network, which is singular in "
                f"{lesson.dtype} for all. Use dtype='float64', wider networks or fewer samples."
            )
        h = np.where(failed[:, 2:], np.inf, h)  # these networks do not move
        inside = np.einsum("kjd,kj->kd", U, e.transpose(0, 2, 1).reshape(len(e), -1)) / h
        v = np.einsum("kjd,kd->kj", U, inside).reshape(goals.shape)
        start = pulled(lesson.net, start, v, lesson.x)
    return start, failed, np.zeros(len(y))


@partial(jax.jit, static_argnames="own")
def _errors(own: Packed, start: Any, y: Any, x: Any) -> Any:
    return jax.vmap(lambda p: own.outputs(p, x)[0])(start) - y
