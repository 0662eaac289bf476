"""Gradient descent step by step, with any rates, momentum and ridge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, Index, Must, NotNegative, Positive, checked
from scalewise._readable import readable
from scalewise.training._algorithm import Algorithm, Pace, whole_steps
from scalewise.training._filters import GONE, Filter, after_schedule, after_steps
from scalewise.training._flow import EARLY, Units, sums_of, unit_of
from scalewise.training._motions import ByDescent
from scalewise.training.width._course import Clock, OutOfRoom, StepClock, on_the_way
from scalewise.training.width._weights import Projected, Reaches, Separable, converged, stationary

Momentum = Annotated[float | int, Must("a number from 0 to below 1", lambda v: 0 <= v < 1)]
Directions = Float[np.ndarray, " direction"]
Times = Float[np.ndarray, " time"]
_ROOM = 2**27  # numbers that the course of a training may take
SAFE = 0.8  # of 1/h_max: the rate that nobody named


@checked
@dataclass(frozen=True)
@readable
class GradientDescent(Algorithm):
    r"""Gradient descent step by step, $v\leftarrow mv-\eta\nabla\mathcal L$, $\theta\leftarrow\theta+\lambda v$.

    Args:
        rate: $\eta$, one for all steps or one for each; ``None`` for $0.8/(h_{\max}+\rho)$. One rate must stay
            below $\eta_{\max}=2(1+m)/(h_{\max}+\rho)$, beyond which the eigenvector of the largest eigenvalue
            diverges, for most networks the direction in which all samples move together. Some rates of a schedule
            may be larger; one that ends with larger errors than any constant rate could leave is refused.
        steps: How many; ``None`` for all steps of a schedule, otherwise to the end.
        momentum: $m$, from 0 to below 1.
        ridge: $\rho\ge0$.
        loss_units: ``"sum"`` or ``"mean"``, of the loss that descends.

    Source: PDLT (10.33), (∞.88), (∞.89).

    Example:
        >>> import numpy as np
        >>> from scalewise.training import GradientDescent
        >>> GradientDescent(0.5, steps=2).filter(np.array([1.0])).left
        array([[0.25]])
    """

    rate: Positive | Sequence[Positive] | None = None
    steps: Index | None = None
    _: KW_ONLY
    momentum: Momentum = 0.0
    ridge: NotNegative = 0.0
    loss_units: Units = "sum"
    word: ClassVar[str] = "descent"
    options: ClassVar[tuple[str, ...]] = ("rate",)
    descends: ClassVar[bool] = True
    is_heavy_ball: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.rate, Sequence):
            object.__setattr__(self, "rate", tuple(self.rate))
            if not self.rate or (self.steps or 0) > len(self.rate):
                raise ValueError(
                    f"`GradientDescent.rate` must hold a rate for each step; got {len(self.rate)} rates "
                    f"for {self.steps or 'any'} steps."
                )

    def maximal_rate(self, h: Directions, *, targets: Count = 1) -> float:
        r"""$\eta_{\max}=2(1+m)/(h_{\max}+\rho)$, in the units of the loss: from here on, training diverges.

        Args:
            h: Eigenvalues of $\tilde\Theta$, at least 0, not all of them.
            targets: $N_An_L$, by which a mean is divided.

        Source: PDLT (10.33); with momentum, derived: both roots of $r^2-(1+m-\eta h)r+m$ are inside the unit
            circle.
        """
        largest = float(h.max()) + self.ridge
        return 2 * (1 + self.momentum) / largest * unit_of(self.loss_units, targets)

    def rate_used(self, h: Directions, *, targets: Count = 1) -> float | tuple[float, ...]:
        """The rate, or the one that stands for ``None`` in directions `h` with so many `targets`.

        Raises:
            ValueError: If it is one at which training diverges.
        """
        rate, most = self._rate(h, targets), self.maximal_rate(h, targets=targets)
        if not isinstance(rate, tuple) and rate >= most:
            raise ValueError(
                f"`GradientDescent.rate` must be below {most:.6g}, 2(1 + momentum) over the largest eigenvalue of "
                f"the NTK (with the ridge) in these units of the loss; at {rate:g} training diverges."
            )
        return rate

    def _rate(self, h: Directions, targets: int) -> float | tuple[float, ...]:
        """The rate, or the one that stands for ``None``, of squared errors too large or not."""
        if self.rate is None:
            return SAFE * self.maximal_rate(h, targets=targets) / (2 * (1 + self.momentum))
        if isinstance(self.rate, Sequence):
            return tuple(float(rate) for rate in self.rate)
        return float(self.rate)

    @property
    def ends(self) -> bool:
        """True if it has neither a number of steps nor a schedule."""
        return self.steps is None and not isinstance(self.rate, Sequence)

    @property
    def but_rate(self) -> GradientDescent:
        """Itself, at a rate of ``None``."""
        return replace(self, rate=None)

    def pace(self, h: Directions, *, targets: Count = 1) -> Pace:
        """The rate and the largest one.

        Args:
            h: Eigenvalues.
            targets: $N_An_L$.

        Raises:
            ValueError: If training diverges at that rate.
        """
        most = self.maximal_rate(h, targets=targets)
        return Pace(self.rate_used(h, targets=targets), most)

    def stops(self, times: Times | None = None) -> Times:
        """Numbers of steps.

        Args:
            times: What was asked for.

        Raises:
            ValueError: If one is not whole, or there is no rate for it.
        """
        most = float(len(self.rate)) if isinstance(self.rate, Sequence) else math.inf
        own = np.array([float(most if self.steps is None else self.steps)])
        return whole_steps("GradientDescent", own if times is None else times, most)

    def motion(self, h: Directions, *, targets: Count = 1) -> ByDescent:
        """A heavy ball.

        Args:
            h: Eigenvalues, for a rate of ``None``.
            targets: $N_An_L$.
        """
        rates = np.atleast_1d(self._rate(h, targets)) / unit_of(self.loss_units, targets)
        if not isinstance(self.rate, Sequence):
            return ByDescent(tuple(rates.tolist()), self.steps, self.momentum)
        count = len(rates) if self.steps is None else self.steps
        schedule = np.resize(rates, max(len(rates), 2))  # a single one would be for all steps
        return ByDescent(tuple(schedule.tolist()), count, self.momentum)

    def filter(self, h: Directions, times: Times | None = None, *, targets: Count = 1) -> Filter:
        r"""Gain and remainder of eigendirections with eigenvalues `h` after the steps.

        Args:
            h: Eigenvalues of $\tilde\Theta$, at least 0.
            times: Numbers of steps in place of `steps`.
            targets: $N_An_L$, by which a mean is divided.

        Raises:
            ValueError: If training diverges, or a number of steps is not one.
        """
        rate = self.rate_used(h, targets=targets)
        t = self.stops(times)
        per = unit_of(self.loss_units, targets)
        rest: dict[str, Any] = {"momentum": self.momentum, "ridge": self.ridge}
        if not isinstance(rate, tuple):
            return after_steps(h, t, rate / per, **rest)
        found = after_schedule(h, t, np.array(rate) / per, **rest)
        if not all(np.isfinite(part).all() for part in found):
            grown = "overflows"
        else:
            # No rate at which training converges leaves more, however large the momentum is.
            bound, left = (
                (1 + self.momentum) / (1 - self.momentum),
                np.abs(found.left[np.argmax(t)]),
            )
            if not (left.size and left.max() > (1 + 1e-9) * bound):
                return found
            grown = f"is {left.max():.3g} times what it was at the beginning"
        raise ValueError(
            f"`GradientDescent.rate` makes training diverge: after {t.max():.0f} steps the error of a direction "
            f"{grown}. Keep most rates below {self.maximal_rate(h, targets=targets):.6g}."
        )

    def clock(
        self, h: Directions, time: float | None = None, *, targets: Count = 1
    ) -> Clock | None:
        """The steps of a training on its way; None for one that is over.

        Args:
            h: Eigenvalues.
            time: A number of steps in place of `steps`.
            targets: $N_An_L$.

        Raises:
            OutOfRoom: If it takes more steps than the memory has room for.
            ValueError: If training diverges.
        """
        rates = self._rates(h, targets)
        x, schedule = h + self.ridge, isinstance(self.rate, Sequence)
        steps = self.steps if time is None else time
        last = rates.size if schedule else math.inf
        steps = float(last if steps is None else steps)
        if not schedule:
            gone = math.ceil(GONE / -math.log(_slowest(rates[0] * x, self.momentum)))
            if steps > gone and (self.ridge or not self.momentum):
                return None
            steps = float(min(steps, gone))
            _require_room(steps, h.size, f"{h.size} directions")
            rates = np.full(int(steps), rates[0])
        return StepClock(rates[: int(steps)], self.momentum)

    def reaches(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Reaches:
        """Weights of the tensors of order 1/n.

        Args:
            h: Eigenvalues; at the end without a ridge, all above 0.
            time: A number of steps in place of `steps`.
            targets: $N_An_L$.

        Raises:
            OutOfRoom: If it takes more steps than the memory has room for.
            ValueError: If training diverges.
        """
        clock = self.clock(h, time, targets=targets)
        if clock is None:
            return self._end(h, self._rates(h, targets)[0]).reaches()
        _require_room(clock.weights.size, h.size**2, f"{h.size} samples")
        return on_the_way(h, clock, self.ridge)

    @property
    def sums_obstacle(self) -> str:
        """A clause, if training stops before the end, or has momentum and no ridge."""
        if not self.ends:
            return EARLY.format("GradientDescent.steps")
        if self.momentum and not self.ridge:
            return (
                "`GradientDescent.momentum` must be 0 without a ridge for as many samples as these: its weights "
                "are known for few samples"
            )
        return ""

    def sums_at_the_end(
        self, h: Directions, *, targets: Count = 1, accuracy: float = 1e-4
    ) -> Separable:
        """The projectors of training to the end, as sums of products of functions of one eigenvalue.

        Args:
            h: Eigenvalues, all above 0 without a ridge.
            targets: $N_An_L$.
            accuracy: Relative accuracy of most sums.
        """
        rate = float(self._rates(h, targets)[0])
        return sums_of(h, self._end(h, rate), rate, self.ridge, accuracy)

    def _rates(self, h: Directions, targets: int) -> Float[np.ndarray, " step"]:
        """Rates of the sum of half squares: one, or one for each step."""
        return np.atleast_1d(self.rate_used(h, targets=targets)) / unit_of(self.loss_units, targets)

    def _end(self, h: Directions, rate: float) -> Projected:
        return stationary(1 / (h + self.ridge)) if self.ridge else converged(h, rate)


def _require_room(steps: float | int, numbers: int, whose: str) -> None:
    if steps * numbers > _ROOM:
        raise OutOfRoom(
            f"`algorithm` takes {steps:.0f} steps, which for {whose} are more than the memory has room for; take "
            f"at most {_ROOM // numbers} steps, train to the end without momentum, or take GradientFlow with a time"
        )


def _slowest(s: Directions, momentum: float) -> float:
    """The largest factor by which a step leaves an error, of steps of rates times eigenvalues `s`."""
    half = (1 + momentum - s) / 2
    root = np.sqrt(np.maximum(half**2 - momentum, 0.0))
    left = np.where(half**2 < momentum, math.sqrt(momentum), np.abs(half) + root)
    return float(np.clip(left.max(), 1e-300, 1 - 1e-15))
