r"""The share of an error that training leaves in one eigendirection of the kernel, at any time.

In an eigendirection of $\tilde\Theta$ with eigenvalue $h$, an ensemble of linear models starts with the error
$e=z-y$ and has after $t$

$$z_\delta(t)=z_\delta-\Theta_{\delta h}\,g\,e,\qquad z(t)-y=(1-hg)\,e.$$

The *gain* $g$ and what is *left*, $1-hg$, are made apart, so that both keep their digits: $g$ where $h\to0$, $1-hg$
where training is nearly over. With a ridge $\rho$ the same dynamics runs with $h+\rho$ in place of $h$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable

Directions = Float[np.ndarray, " direction"]
Times = Float[np.ndarray, " time"]
Rule = Callable[
    [Any, Any, Any, Any], tuple[Any, Any]
]  # velocity, force, rate, momentum: move, velocity
GONE = 40.0  # logarithm of what an error has fallen by when nothing of it is left
Both = tuple[Float[np.ndarray, " direction"], Float[np.ndarray, " direction"]]


@readable
class Filter(NamedTuple):
    r"""Gain and remainder of each eigendirection: all that a prediction at infinite width asks of training.

    Args:
        gain: $g$, inverse units of the eigenvalue; infinite where a direction that is never learned has been
            trained for ever.
        left: $1-hg$, the factor of the error, dimensionless.
    """

    gain: Float[np.ndarray, "time direction"]
    left: Float[np.ndarray, "time direction"]


def heavy_ball(velocity: Any, force: Any, rate: Any, momentum: Any) -> tuple[Any, Any]:
    r"""$v\leftarrow mv-\eta F$, which is the move, too; gradient descent without momentum."""
    velocity = momentum * velocity - rate * force
    return velocity, velocity


def after_flow(h: Directions, times: Times, *, ridge: float = 0.0) -> Filter:
    r"""Gradient flow, $p=e^{-(h+\rho)t}$ and $g=(1-p)/(h+\rho)$, which is $t$ at $h+\rho=0$.

    Args:
        h: Eigenvalues, at least 0.
        times: $t$, at least 0; infinite for the end.
        ridge: $\rho$, in units of the eigenvalues.
    """
    x, t = h + ridge, times[:, None]
    learned = x > 0
    with np.errstate(invalid="ignore", over="ignore"):
        spent = np.where(learned, x * t, 0.0)
        gain = np.where(learned, -np.expm1(-spent) / np.where(learned, x, 1.0), t)
    return _with_ridge(np.exp(-spent), gain, ridge)


def after_steps(
    h: Directions, steps: Times, rate: float, *, momentum: float = 0.0, ridge: float = 0.0
) -> Filter:
    r"""Gradient descent at one rate, $p=(1-\eta(h+\rho))^t$; with momentum the heavy ball.

    Args:
        h: Eigenvalues, at least 0.
        steps: $t$, whole numbers, or infinite for the end.
        rate: $\eta$ of the sum of half squares.
        momentum: $m$: velocity $v\leftarrow mv-\eta\nabla$, starting from rest.
        ridge: $\rho$.
    """
    x = h + ridge
    gain, left = np.empty((2, steps.size, x.size))
    for place, t in enumerate(steps.tolist()):
        if np.isinf(t):
            end = after_flow(x, np.array([t]))
            left[place], gain[place] = end.left[0], end.gain[0]
        elif momentum:
            left[place], gain[place] = _heavy_ball(x, int(t), rate, momentum)
        else:
            left[place], gain[place] = _descended(x, int(t), rate)
    return _with_ridge(left, gain, ridge)


def after_schedule(
    h: Directions,
    steps: Times,
    rates: Float[np.ndarray, " step"],
    *,
    momentum: float = 0.0,
    ridge: float = 0.0,
    rule: Rule = heavy_ball,
) -> Filter:
    r"""Steps with a rate for each, $p=\prod_s(1-\eta_s(h+\rho))$ of gradient descent without momentum.

    Args:
        h: Eigenvalues, at least 0.
        steps: $t$, whole numbers up to the number of rates.
        rates: $\eta_s$ of the sum of half squares.
        momentum: $m$, as in `after_steps`.
        ridge: $\rho$.
        rule: What a step does with the force on the gain, $-p$.
    """
    x = h + ridge
    gain, left = np.empty((2, steps.size, x.size))
    p, velocity, g = np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(int(steps.max()) + 1):
            left[steps == step], gain[steps == step] = p, g
            if step < rates.size:
                move, velocity = rule(velocity, -p, rates[step], momentum)
                g, p = g + move, p - x * move
    return _with_ridge(left, gain, ridge)


def _with_ridge(p: np.ndarray, gain: np.ndarray, ridge: float) -> Filter:
    r"""Gain and remainder of the error, $1-hg=p+\rho g$: a ridge keeps some of it for ever."""
    return Filter(gain, p + ridge * gain if ridge else p)


def _descended(x: np.ndarray, t: int, rate: float) -> Both:
    """Powers of 1 - ηx and their partial sums, computed without cancellation."""
    s = rate * x
    slow = s < 1
    logarithm = np.log1p(-np.where(slow, s, 0.0))
    p = np.where(slow, np.exp(t * logarithm), (1 - s) ** t)
    done = np.where(slow, -np.expm1(t * logarithm), 1 - p)
    still = s == 0
    return p, np.where(still, t * rate, done / np.where(still, 1.0, x))


def _heavy_ball(x: np.ndarray, t: int, rate: float, momentum: float) -> Both:
    """Powers of the companion matrix of (error, velocity), with a row that sums the velocities."""
    step = np.zeros((x.size, 3, 3))
    step[:, 0, 0], step[:, 0, 1] = 1 - rate * x, -momentum * x
    step[:, 1:, 0], step[:, 1:, 1] = rate, momentum
    step[:, 2, 2] = 1.0
    power = np.linalg.matrix_power(step, t)
    return power[:, 0, 0], power[:, 2, 0]
