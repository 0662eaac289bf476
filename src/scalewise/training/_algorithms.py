r"""Ways to train, as data: each says which kernel it learns with, and what it does to an eigendirection of it.

Losses and rates come in two units. ``"sum"`` is the source's, $\mathcal L=\frac12\sum_{i\tilde\alpha}(z-y)^2$,
and ``"mean"`` its average over samples and outputs, $\mathcal L/(N_An_L)$. The same step is

| who | loss | its rate as one of ``"sum"`` | as one of ``"mean"`` |
|---|---|---|---|
| PDLT (7.4), ``"sum"`` | $\frac12\sum(z-y)^2$ | rate | rate $N_An_L$ |
| neural-tangents, ``"mean"`` | $\frac1{2N_An_L}\sum(z-y)^2$ | rate $/(N_An_L)$ | rate |
| torch.nn.MSELoss | $\frac1{N_An_L}\sum(z-y)^2$ | 2 rate $/(N_An_L)$ | 2 rate |
| scalewise.Task, ``"mse"`` | $\frac1{2N_A}\sum(z-y)^2$ | rate $/N_A$ | rate $n_L$ |

and the time of a flow converts as the rate does. A rate multiplies the factors $\lambda_b,\lambda_W/n_{\ell-1}$ of
the network: gradient descent with one rate for all parameters has $\lambda_b=1$, $\lambda_W^{(\ell)}=n_{\ell-1}$.
A ridge $\rho$ penalises how far parameters are from where they started, by
$\frac\rho2\sum(\theta-\theta_0)^2/\lambda$ beside the *sum* of half squares; in either unit it adds to the
eigenvalues of the NTK.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, Index, Must, NotNegative, Positive, checked
from scalewise._readable import readable
from scalewise.training._algorithm import TOO_MANY, Algorithm, whole_steps
from scalewise.training._filters import Filter, after_flow, after_schedule, after_steps
from scalewise.training._motions import ByDescent, ByFlow
from scalewise.training._newton import Projectors as Projectors
from scalewise.training._newton import TwoStepNewton
from scalewise.training._posteriors import NTKGP as NTKGP
from scalewise.training._posteriors import Bayes, LastLayer
from scalewise.training.width._course import Clock, Flow, OutOfRoom, Steps, on_the_way
from scalewise.training.width._weights import (
    Projected,
    Reaches,
    Separable,
    converged,
    separable,
    stationary,
)

Units = Literal["sum", "mean"]
Duration = Annotated[float | int, Must("a number of at least 0, or infinite", lambda v: v >= 0)]
Momentum = Annotated[float | int, Must("a number from 0 to below 1", lambda v: 0 <= v < 1)]
Directions = Float[np.ndarray, " direction"]
Times = Float[np.ndarray, " time"]
_GONE = 40.0  # logarithm of what an error has fallen by when nothing of it is left
_ROOM = 2**27  # numbers that the course of a training may take
SAFE = 0.8  # of 1/h_max: the rate that nobody named


@checked
@dataclass(frozen=True)
@readable
class GradientFlow(Algorithm):
    r"""Gradient descent with infinitely small steps, $\frac{dz}{dt}=-\Theta(z-y)$, for a time or to the end.

    Args:
        time: $t$, in units of one over the eigenvalues of $\Theta$; infinite by default.
        ridge: $\rho\ge0$, see the table of units above.
        loss_units: ``"sum"`` or ``"mean"``, of the loss whose gradient flows.

    Source: PDLT (10.39), and (∞.84)-(∞.93) in continuous time.

    Example:
        >>> import numpy as np
        >>> from scalewise.training import GradientFlow
        >>> GradientFlow(2.0).filter(np.array([0.0, 0.5])).gain.round(3)
        array([[2.   , 1.264]])
    """

    time: Duration = math.inf
    _: KW_ONLY
    ridge: NotNegative = 0.0
    loss_units: Units = "sum"
    word: ClassVar[str] = "flow"
    descends: ClassVar[bool] = True
    is_heavy_ball: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    @property
    def ends(self) -> bool:
        """Whether its time is infinite."""
        return math.isinf(self.time)

    def stops(self, times: Times | None = None) -> Times:
        """Times.

        Args:
            times: What was asked for.
        """
        return np.array([float(self.time)]) if times is None else times

    def unit(self, targets: int) -> float:
        """Of a mean loss, the number of targets.

        Args:
            targets: $N_An_L$.
        """
        return _per(self.loss_units, targets)

    def motion(self, h: Directions, *, targets: Count = 1) -> ByFlow:
        """A flow.

        Args:
            h: Not needed.
            targets: $N_An_L$.
        """
        return ByFlow(self.time / _per(self.loss_units, targets))

    def filter(self, h: Directions, times: Times | None = None, *, targets: Count = 1) -> Filter:
        r"""What the flow does to eigendirections with eigenvalues `h`.

        Args:
            h: Eigenvalues of $\tilde\Theta$, at least 0.
            times: Times in place of `time`.
            targets: $N_An_L$, by which a mean is divided.
        """
        t = self.stops(times)
        return after_flow(h, t / _per(self.loss_units, targets), ridge=self.ridge)

    def clock(
        self, h: Directions, time: float | None = None, *, targets: Count = 1
    ) -> Clock | None:
        """The times of a training on its way; None for one that is over.

        Args:
            h: Eigenvalues.
            time: In place of `time`.
            targets: $N_An_L$.
        """
        t = float(self.time if time is None else time) / _per(self.loss_units, targets)
        x = h + self.ridge
        if math.isinf(t) or t * x.min() > _GONE:
            return None
        return Flow(t, float(x.max())) if t else Steps(np.zeros(1))

    def reaches(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Reaches:
        """What tensors of order 1/n are weighed with.

        Args:
            h: Eigenvalues; at the end without a ridge, all above 0.
            time: In place of `time`.
            targets: $N_An_L$.
        """
        clock = self.clock(h, time, targets=targets)
        return self._end(h).reaches() if clock is None else on_the_way(h, clock, self.ridge)

    @property
    def sums_obstacle(self) -> str:
        """A clause, if training stops before the end."""
        return "" if self.ends else _EARLY.format("GradientFlow.time")

    def sums_at_the_end(
        self, h: Directions, *, targets: Count = 1, accuracy: float = 1e-4
    ) -> Separable:
        """The projectors of training to the end, as sums of products of functions of one eigenvalue.

        Args:
            h: Eigenvalues, all above 0 without a ridge.
            targets: $N_An_L$.
            accuracy: Relative, of most sums.
        """
        return _sums(h, self._end(h), 0.0, self.ridge, accuracy)

    def _end(self, h: Directions) -> Projected:
        return stationary(1 / (h + self.ridge)) if self.ridge else converged(h)


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
        return 2 * (1 + self.momentum) / largest * _per(self.loss_units, targets)

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
        """Whether it has neither a number of steps nor a schedule."""
        return self.steps is None and not isinstance(self.rate, Sequence)

    @property
    def but_rate(self) -> GradientDescent:
        """Itself, at a rate of ``None``."""
        return replace(self, rate=None)

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

    def settled(self, h: Directions, *, targets: Count = 1) -> GradientDescent:
        """Itself, with a number for its rate.

        Args:
            h: Eigenvalues.
            targets: $N_An_L$.

        Raises:
            ValueError: If training diverges at that rate.
        """
        return replace(self, rate=self.rate_used(h, targets=targets))

    def rates(self, h: Directions, *, targets: Count = 1) -> dict[str, object]:
        """The rate and the largest one.

        Args:
            h: Eigenvalues.
            targets: $N_An_L$.
        """
        return {
            "rate": self.rate_used(h, targets=targets),
            "maximal_rate": self.maximal_rate(h, targets=targets),
        }

    def motion(self, h: Directions, *, targets: Count = 1) -> ByDescent:
        """A heavy ball.

        Args:
            h: Eigenvalues, for a rate of ``None``.
            targets: $N_An_L$.
        """
        rates = np.atleast_1d(self._rate(h, targets)) / _per(self.loss_units, targets)
        if not isinstance(self.rate, Sequence):
            return ByDescent(tuple(rates.tolist()), self.steps, self.momentum)
        count = len(rates) if self.steps is None else self.steps
        schedule = np.resize(rates, max(len(rates), 2))  # a single one would be for all steps
        return ByDescent(tuple(schedule.tolist()), count, self.momentum)

    def filter(self, h: Directions, times: Times | None = None, *, targets: Count = 1) -> Filter:
        r"""What the steps do to eigendirections with eigenvalues `h`.

        Args:
            h: Eigenvalues of $\tilde\Theta$, at least 0.
            times: Numbers of steps in place of `steps`.
            targets: $N_An_L$, by which a mean is divided.

        Raises:
            ValueError: If training diverges, or a number of steps is not one.
        """
        rate = self.rate_used(h, targets=targets)
        t = self.stops(times)
        per = _per(self.loss_units, targets)
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
            gone = math.ceil(_GONE / -math.log(_slowest(rates[0] * x, self.momentum)))
            if steps > gone and (self.ridge or not self.momentum):
                return None
            steps = float(min(steps, gone))
            _require_room(steps, h.size, f"{h.size} directions")
            rates = np.full(int(steps), rates[0])
        return Steps(rates[: int(steps)], self.momentum)

    def reaches(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Reaches:
        """What tensors of order 1/n are weighed with.

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
            return _EARLY.format("GradientDescent.steps")
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
            accuracy: Relative, of most sums.
        """
        rate = float(self._rates(h, targets)[0])
        return _sums(h, self._end(h, rate), rate, self.ridge, accuracy)

    def _rates(self, h: Directions, targets: int) -> Float[np.ndarray, " step"]:
        """Of the sum of half squares: one, or one for each step."""
        return np.atleast_1d(self.rate_used(h, targets=targets)) / _per(self.loss_units, targets)

    def _end(self, h: Directions, rate: float) -> Projected:
        return stationary(1 / (h + self.ridge)) if self.ridge else converged(h, rate)


BY_WORD: dict[str, type[Algorithm]] = {
    kind.word: kind for kind in (GradientFlow, GradientDescent, TwoStepNewton, LastLayer, Bayes)
}
_EARLY = f"`{{}}` must be left out {TOO_MANY}"


def _per(units: Units, targets: int) -> float:
    """By how much a loss in these units is smaller than the sum."""
    return float(targets) if units == "mean" else 1.0


def _require_room(steps: float | int, numbers: int, whose: str) -> None:
    if steps * numbers > _ROOM:
        raise OutOfRoom(
            f"`algorithm` takes {steps:.0f} steps, which for {whose} are more than the memory has room for; take "
            f"at most {_ROOM // numbers} steps, train to the end without momentum, or take GradientFlow with a time"
        )


def _sums(h: Directions, end: Projected, rate: float, ridge: float, accuracy: float) -> Separable:
    if not ridge:
        return separable(h, rate, accuracy=accuracy)
    g = end.gain
    two, three = np.array([[g, g]]), np.array([[g, g, g]])
    half, sixth = np.array([0.5, 1.0]), np.array([1 / 6, 1.0, 1.0])
    return Separable(
        g,
        A=two,
        B=two * half[:, None],
        IA=-three * np.array([0.5, 1.0, 1.0])[:, None],
        IB=-three * sixth[:, None],
        IIA=-three,
        IIB=-three,
    )


def _slowest(s: Directions, momentum: float) -> float:
    """The largest factor by which a step leaves an error, of steps of rates times eigenvalues `s`."""
    half = (1 + momentum - s) / 2
    root = np.sqrt(np.maximum(half**2 - momentum, 0.0))
    left = np.where(half**2 < momentum, math.sqrt(momentum), np.abs(half) + root)
    return float(np.clip(left.max(), 1e-300, 1 - 1e-15))
