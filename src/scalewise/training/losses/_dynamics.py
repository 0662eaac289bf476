r"""Training of many networks with the same constant kernel, by any loss.

A network of infinite width stays linear in its parameters, so that its outputs are at every time
$z_\delta(t)=z_\delta(0)+\sum\Theta_{\delta\tilde\alpha}c_{\tilde\alpha}(t)$, and only the coefficients $c$ are
followed,

$$\dot c=-\frac{\partial\mathcal L}{\partial z_{\mathcal A}}-\rho c,\qquad
  v\leftarrow mv-\eta\Big(\frac{\partial\mathcal L}{\partial z_{\mathcal A}}+\rho c\Big),\quad c\leftarrow c+v.$$
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from scalewise.tasks import Loss
from scalewise.training._algorithms import GradientDescent, GradientFlow

_TOLERANCE = 1e-9  # of the integrator, relative to the largest gradient
Coefficients = Float[np.ndarray, "time draw sample output"]


def coefficients(
    z: Float[np.ndarray, "draw sample output"],
    Theta: Float[np.ndarray, "sample sample"],
    y: Float[np.ndarray, "sample output"],
    loss: Loss,
    algorithm: GradientFlow | GradientDescent,
    times: Float[np.ndarray, " time"],
) -> Coefficients:
    r"""$c$ of each network at each time.

    Args:
        z: Initial outputs.
        Theta: $\tilde\Theta$.
        y: Targets.
        loss: Of one sample.
        algorithm: With its units and its ridge; a rate of ``None`` is $0.8/(h_{\max}+\rho)$.
        times: Times or numbers of steps, finite.

    Raises:
        ValueError: If outputs diverge.

    Source: PDLT (10.33) with any loss, as that of (10.36).
    """
    slow = float(y.size) if algorithm.loss_units == "mean" else 1.0

    def slope(c: np.ndarray) -> np.ndarray:
        f = z + np.matmul(Theta, c)
        return loss.slopes(f, y) * (len(y) / slow) + algorithm.ridge / slow * c

    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(algorithm, GradientFlow):
            found = _flow(slope, z.shape, times)
        else:
            found = _descent(
                slope, z.shape, times, _rates(algorithm, Theta, slow), algorithm.momentum
            )
    if not np.isfinite(found).all():
        raise ValueError(
            f"Training by the loss {loss.name!r} with {algorithm} diverges: outputs overflow. Take a "
            "smaller `rate`."
        )
    return found


def stops(
    algorithm: GradientFlow | GradientDescent, name: str, times: Float[np.ndarray, " time"] | None
) -> Float[np.ndarray, " time"]:
    """Where training by a loss is looked at: the times that were asked for, or the algorithm's own.

    Args:
        algorithm: How it trains.
        name: Of the loss.
        times: What was asked for.

    Raises:
        ValueError: If a time is infinite, or a number of steps is not one.
    """
    most = math.inf
    if isinstance(algorithm, GradientFlow):
        end = float(algorithm.time)
    else:
        if isinstance(algorithm.rate, tuple):
            most = len(algorithm.rate)
        end = float(most if algorithm.steps is None else algorithm.steps)
    found = np.array([end]) if times is None else times
    if np.isinf(found).any():
        raise ValueError(
            f"Training by the loss {name!r} must stop at a time, or after a number of steps. Where targets name "
            "classes for sure (one-hot rows, or -1 and 1), it has no end: outputs grow for ever, ever more slowly, "
            "and a kernel that is constant describes networks only while they are of order 1. Give "
            f"`{'time' if isinstance(algorithm, GradientFlow) else 'steps'}` of the algorithm, or `times`."
        )
    steps = isinstance(algorithm, GradientDescent)
    if steps and ((found != np.floor(found)).any() or found.max() > most):
        raise ValueError(
            "`times` of GradientDescent must be whole numbers of steps, no more than there are rates; "
            f"got {found.tolist()}."
        )
    return found


def _rates(algorithm: GradientDescent, Theta: np.ndarray, slow: float) -> Callable[[int], float]:
    rate: Any = algorithm.rate
    if isinstance(rate, tuple):
        return lambda step: float(rate[step])
    if rate is None:
        rate = 0.8 * slow / (np.linalg.eigvalsh(Theta)[-1] + algorithm.ridge)
    return lambda _: float(rate)


def _flow(
    slope: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], times: np.ndarray
) -> np.ndarray:
    first = slope(np.zeros(shape))
    done = solve_ivp(
        lambda _, c: -slope(c.reshape(shape)).ravel(),
        (0.0, max(float(times.max()), np.finfo(float).tiny)),
        np.zeros(first.size),
        method="DOP853",
        t_eval=np.unique(times),
        rtol=_TOLERANCE,
        atol=_TOLERANCE * max(float(np.abs(first).max()), np.finfo(float).tiny),
    )
    if not done.success:
        return np.full((len(times), *shape), np.nan)
    places = np.searchsorted(np.unique(times), times)
    return done.y.T[places].reshape(len(times), *shape)


def _descent(
    slope: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, ...],
    times: np.ndarray,
    rate: Callable[[int], float],
    momentum: float,
) -> np.ndarray:
    found = np.zeros((len(times), *shape))
    c, v = np.zeros(shape), np.zeros(shape)
    for step in range(int(times.max()) + 1):
        found[times == step] = c
        if step < times.max():
            v = momentum * v - rate(step) * slope(c)
            c = c + v
    return found
