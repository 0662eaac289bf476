r"""Neurons near the kink of a training sample, on their way over it.

In units of $\kappa=n^{-1/2}$ a neuron stands at $h_s=c+\kappa u$ and moves by

$$u=u_0+Q(t)+\Lambda_{ss}D(t),\qquad\Delta D=\ell D+\sigma'(u)\,F,$$

$Q=\sum_{s'\ne s}\Lambda_{ss'}\sigma'_{s'}\,A\cdot a_{s'}$ by what the other samples teach, whose kinks are far,
$F$ the force of $A\cdot a_s$, and $\sigma'(u)=\sigma'_\pm$ for $u\gtrless0$. Its speed jumps at the kink, so it may
pass, or stick to it: where both sides lead to the kink a flow keeps $u=0$ with the share $\phi=v_-/(v_--v_+)$ on
the right, as descent does by hopping to and fro. Descent takes the slope where its step begins.

Of all $u_0$, which are equally likely, only those between $-\max(u-u_0)$ and $-\min(u-u_0)$ ever meet the kink; the
integrals over them of what differs from a slope that stays are

$$f=\int\!du_0\,[\theta(u)-\theta(u_0)],\quad X=\int\!du_0\,[D-D_0],\quad
  Y=\int\!du_0\,[\sigma(u)-\sigma(u_0)-\sigma'(u_0)(Q+\Lambda_{ss}D_0)],$$

$D_0=\sigma'(u_0)\,A\cdot a_s$.

Source: derived.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.training.kinks._course import KinkCourse

_BEYOND = 1e-200  # as far as nothing
GRID = 24  # places of neurons for each draw, spread evenly


@dataclass(frozen=True, eq=False)
class SampleKink:
    r"""A kink at a training sample.

    Args:
        left: $\sigma'_-$.
        right: $\sigma'_+$.
        Lambda: $\Lambda_{ss}$.
    """

    left: float
    right: float
    Lambda: float

    @property
    def jump(self) -> float:
        """Jump of the slope."""
        return self.right - self.left

    def reach(
        self, Q: Float[np.ndarray, "node draw"], own: Float[np.ndarray, "node draw"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Between which displacements all neurons stay that have not met the kink yet."""
        ways = [Q + self.Lambda * slope * own for slope in (self.left, self.right)]
        low = np.minimum(*(way.min(axis=0) for way in ways))
        high = np.maximum(*(way.max(axis=0) for way in ways))
        return low, high


def crossed(
    course: KinkCourse,
    kink: SampleKink,
    paths: tuple[Float[np.ndarray, "node draw"], Float[np.ndarray, "node draw"]],
    start: Float[np.ndarray, "draw place"],
    wanted: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Integrals over neurons near a kink, a mean over places times how far apart the outermost are.

    $f$, $X$ and $Y$, each (node, draw); 0 at nodes that nobody wants.

    Args:
        course: The training.
        kink: What they meet.
        paths: $Q$ and $A\cdot a_s$.
        start: $u_0$, spread evenly.
        wanted: Nodes.
    """
    Q, own = paths
    theta = (start > 0).astype(float)
    slope = kink.left + kink.jump * theta
    first = [m.mean(axis=1) for m in (theta, slope, slope**2, np.maximum(start, 0.0))]
    f, X, Y = (np.zeros_like(Q) for _ in range(3))
    u, D, v = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for k in range(course.steps + 1):
        if wanted[k]:
            f[k] = theta.mean(axis=1) - first[0]
            moved = D.mean(axis=1)
            X[k] = moved - first[1] * own[k]
            there = kink.left * (Q[k] + kink.Lambda * moved)
            there = there + kink.jump * (np.maximum(u, 0.0).mean(axis=1) - first[3])
            Y[k] = there - first[1] * Q[k] - kink.Lambda * first[2] * own[k]
        if k == course.steps:
            return f, X, Y
        F, ahead = course.force(own, k)[:, None], (Q[k + 1] - Q[k])[:, None]
        if course.swept[k]:
            ahead = ahead + kink.Lambda * course.lost[k] * D if course.lost[k] else ahead
            share, theta, u = _swept(u, ahead, kink.Lambda * F, kink)
        else:
            share = theta
        v = course.momentum * v + course.lost[k] * D + (kink.left + kink.jump * share) * F
        D = D + v
        if not course.swept[k]:
            u = start + Q[k + 1][:, None] + kink.Lambda * D
            theta = (u > 0).astype(float)
    raise AssertionError


def _swept(
    u: np.ndarray, ahead: np.ndarray, force: np.ndarray, kink: SampleKink
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A stretch of a flow: the share of it on the right, the side at its end, and the place.

    Args:
        u: Places, 0 of those that stick to the kink.
        ahead: How far all move, whatever their slope.
        force: How far they move for each unit of slope.
        kink: At 0.
    """
    back, on = ahead + kink.left * force, ahead + kink.right * force
    right = u > 0
    speed = np.where(right, on, back)
    arrives = u * speed < 0
    when = np.where(arrives, -u / np.where(arrives, speed, 1.0), 1.0)
    when = np.where(u == 0, 0.0, np.minimum(when, 1.0))
    holds = (back > 0) & (on < 0)
    beyond = np.where(holds, back / np.where(holds, back - on, 1.0), on > 0)
    met = when < 1
    # Who has passed is beyond the kink, even where nothing moves it any further.
    left = np.where(
        on > 0, np.maximum((1 - when) * on, _BEYOND), np.minimum((1 - when) * back, -_BEYOND)
    )
    place = np.where(met, np.where(holds, 0.0, left), u + speed)
    return when * right + (1 - when) * beyond, np.where(met, beyond, right), place
