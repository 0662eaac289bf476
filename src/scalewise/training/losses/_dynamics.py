r"""Training of many networks with the same constant kernel, by any loss.

A network of infinite width stays linear in its parameters, so that its outputs are at every time
$z_\delta(t)=z_\delta(0)+\sum\Theta_{\delta\tilde\alpha}c_{\tilde\alpha}(t)$, and only the coefficients $c$ are
followed,

$$\dot c=-\frac{\partial\mathcal L}{\partial z_{\mathcal A}}-\rho c,\qquad
  v\leftarrow mv-\eta\Big(\frac{\partial\mathcal L}{\partial z_{\mathcal A}}+\rho c\Big),\quad c\leftarrow c+v.$$
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.tasks import Loss
from scalewise.training._algorithm import Algorithm
from scalewise.training._motions import ByNewton

Coefficients = Float[np.ndarray, "time draw sample output"]


def coefficients(
    z: Float[np.ndarray, "draw sample output"],
    Theta: Float[np.ndarray, "sample sample"],
    y: Float[np.ndarray, "sample output"],
    loss: Loss,
    algorithm: Algorithm,
    times: Float[np.ndarray, " time"],
) -> Coefficients:
    r"""$c$ of each network at each time.

    Args:
        z: Initial outputs.
        Theta: $\tilde\Theta$.
        y: Targets.
        loss: Of one sample.
        algorithm: One that descends; a rate of ``None`` is $0.8/(h_{\max}+\rho)$.
        times: Times or numbers of steps, finite.

    Raises:
        ValueError: If outputs diverge.

    Source: PDLT (10.33) with any loss, as that of (10.36).
    """
    motion = algorithm.motion(np.linalg.eigvalsh(Theta), targets=y.size)
    assert not isinstance(motion, ByNewton), "it does not descend"

    def force(c: np.ndarray) -> np.ndarray:
        f = z + np.matmul(Theta, c)
        return loss.slopes(f, y) * len(y) + algorithm.ridge * c

    with np.errstate(over="ignore", invalid="ignore"):
        found = motion.followed(force, z.shape, times / algorithm.unit(y.size))
    if not np.isfinite(found).all():
        raise ValueError(
            f"Training by the loss {loss.name!r} with {algorithm} diverges: outputs overflow. Take a "
            "smaller `rate`."
        )
    return found


def finite_stops(
    algorithm: Algorithm, name: str, times: Float[np.ndarray, " time"] | None
) -> Float[np.ndarray, " time"]:
    """Where training by a loss is looked at: the times that were asked for, or the algorithm's own.

    Args:
        algorithm: How it trains.
        name: Of the loss.
        times: What was asked for.

    Raises:
        ValueError: If a time is infinite, or a number of steps is not one.
    """
    found = algorithm.stops(times)
    if np.isinf(found).any():
        raise ValueError(
            f"Training by the loss {name!r} must stop at a time, or after a number of steps. Where targets name "
            "classes for sure (one-hot rows, or -1 and 1), it has no end: outputs grow for ever, ever more slowly, "
            "and a kernel that is constant describes networks only while they are of order 1. Give "
            "`time` or `steps` of the algorithm, or `times`."
        )
    return found
