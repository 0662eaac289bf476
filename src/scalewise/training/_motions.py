r"""The ways in which training moves: step by step, as a flow, or by Newton's steps.

Algorithms are many and motions are few. An algorithm says which one is its own (`Algorithm.motion`), and whoever
follows a training, in eigendirections, by another loss or on real networks, knows the motions and no algorithm.
A motion by steps has a rule,

$$(\Delta\theta,v)\leftarrow r(v,F,\eta_s,m),\qquad F=\lambda\nabla\mathcal L+\rho(\theta-\theta_0),$$

linear in the velocity $v$ and the force $F$ and made of arithmetic alone, so that it moves arrays of NumPy and of
JAX alike: parameters, coefficients of a kernel, and the gain $g$ of an eigendirection, whose force is $xg-1$ with
$x=h+\rho$.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from scalewise._checked import FiniteNumber, Index, NotNegative, checked
from scalewise._readable import readable
from scalewise.training._filters import GONE, Filter, Rule, after_flow, after_schedule, heavy_ball
from scalewise.training.width._course import StepClock

_TOLERANCE = 1e-9  # of the integrator, relative to the largest force
_LONGEST = 2**22  # steps after which an error counts as one that does not fall
Times = Float[np.ndarray, " time"]
Directions = Float[np.ndarray, " direction"]
Force = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ByFlow:
    """Infinitely small steps along the force.

    Args:
        time: The end, for the sum of half squares; infinite for training until nothing is left to do.
    """

    time: float

    def followed(self, force: Force, shape: tuple[int, ...], times: Times) -> np.ndarray:
        """Coefficients at some times, (time, ...), starting from 0.

        Args:
            force: From coefficients to the force on them.
            shape: Of the coefficients.
            times: Finite, for the sum of half squares.
        """
        first = force(np.zeros(shape))
        done = solve_ivp(
            lambda _, c: -force(c.reshape(shape)).ravel(),
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


@checked
@dataclass(frozen=True)
@readable
class ByDescent:
    r"""Steps along the force, by a rule that may remember a velocity: the `motion` of a `Stepwise` algorithm.

    $$(\Delta\theta,v)\leftarrow r(v,F,\eta_s,m),\qquad F=\lambda\nabla\mathcal L+\rho(\theta-\theta_0),$$

    with $r$ linear in $v$ and $F$, and of arithmetic alone: it moves arrays of NumPy and of JAX.

    Args:
        rates: $\eta_s$ of each step, for the sum of half squares; a single one for all of them.
        count: Number of steps; ``None`` for training until nothing is left to do, at a single rate.
        momentum: $m$, the share of the velocity that a step leaves.
        rule: $r$, from velocity, force, rate and momentum to the move and the new velocity; a heavy ball,
            $v\leftarrow mv-\eta F$, $\Delta\theta=v$, if none is given.

    Raises:
        ValueError: If there are no rates, or fewer than steps.

    Source: derived; the heavy ball, PDLT (∞.88).

    Example:
        >>> import numpy as np
        >>> from scalewise.training import ByDescent
        >>> ByDescent((0.5,), 2).filter(np.array([1.0]), np.array([2.0])).left
        array([[0.25]])
    """

    rates: tuple[NotNegative, ...]
    count: Index | None = None
    momentum: FiniteNumber = 0.0
    rule: Rule = heavy_ball

    def __post_init__(self) -> None:
        if not self.rates:
            raise ValueError("`ByDescent.rates` must hold at least one rate; got none.")
        if len(self.rates) > 1 and (self.count is None or self.count > len(self.rates)):
            wanted = (
                "every step to the end" if self.count is None else f"each of {self.count} steps"
            )
            raise ValueError(
                f"`ByDescent.rates` must hold one rate for all steps, or a rate for {wanted}; got "
                f"{len(self.rates)}. Give `count`, at most as many as there are rates."
            )

    @property
    def remembers(self) -> bool:
        """True if the velocity takes part in a step."""
        return self.rule is not heavy_ball or self.momentum > 0

    def rate(self, step: int) -> float:
        """The rate of a step.

        Args:
            step: Its number, from 0.

        Raises:
            ValueError: If there is none.
        """
        if step >= len(self.rates) > 1:
            raise ValueError(
                f"`times` must be at most {len(self.rates)} steps, as many as there are rates; got step {step + 1}."
            )
        return self.rates[step if len(self.rates) > 1 else 0]

    def followed(self, force: Force, shape: tuple[int, ...], times: Times) -> np.ndarray:
        """Coefficients after some numbers of steps, (time, ...), starting from 0.

        Args:
            force: From coefficients to the force on them.
            shape: Of the coefficients.
            times: Numbers of steps, finite.
        """
        found = np.zeros((len(times), *shape))
        c, v = np.zeros(shape), np.zeros(shape)
        for step in range(int(times.max()) + 1):
            found[times == step] = c
            if step < times.max():
                move, v = self.rule(v, force(c), self.rate(step), self.momentum)
                c = c + move
        return found

    def filter(self, h: Directions, times: Times, *, ridge: float = 0.0) -> Filter:
        r"""The gain and the rest of every eigendirection, step by step.

        Args:
            h: Eigenvalues, at least 0.
            times: Numbers of steps, infinite for the end.
            ridge: $\rho$.
        """
        some = np.isfinite(times)
        gain, left = np.empty((2, times.size, h.size))
        if some.any():
            rates = np.array([self.rate(step) for step in range(int(times[some].max()))])
            found = after_schedule(
                h, times[some], rates, momentum=self.momentum, ridge=ridge, rule=self.rule
            )
            gain[some], left[some] = found
        if not some.all():
            gain[~some], left[~some] = after_flow(h, times[~some], ridge=ridge)
        return Filter(gain, left)

    def clock(self, h: Directions, steps: float, *, ridge: float = 0.0) -> StepClock:
        r"""All steps, for weights of order 1/n; of a training to the end those until an error is gone.

        Args:
            h: Eigenvalues; at the end without a ridge, all above 0.
            steps: How many, infinite for the end.
            ridge: $\rho$.

        Raises:
            ValueError: If the errors do not fall.
        """
        count = steps if np.isfinite(steps) else self._until_gone(h, ridge)
        rates = np.array([self.rate(step) for step in range(int(count))])
        return StepClock(rates, self.momentum, self.rule)

    def _until_gone(self, h: Directions, ridge: float) -> int:
        count = 64
        while count < _LONGEST:
            left = self.filter(h + ridge, np.array([float(count)])).left
            if np.abs(left).max(initial=0.0) < np.exp(-GONE):
                return count
            count *= 2
        raise ValueError(
            f"`algorithm` has errors left after {_LONGEST} steps. Take a smaller rate, or a number of steps."
        )


@dataclass(frozen=True)
class ByNewton:
    """Steps in the space of outputs, each with the inverse of the NTK that a network has then.

    Args:
        count: How many.
    """

    count: int


Motion = ByFlow | ByDescent | ByNewton
