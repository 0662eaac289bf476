r"""Gradient flow, and the units that it shares with gradient descent.

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
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, Must, NotNegative, checked
from scalewise._readable import readable
from scalewise.training._algorithm import TOO_MANY, Algorithm
from scalewise.training._filters import GONE, Filter, after_flow
from scalewise.training._motions import ByFlow
from scalewise.training.width._course import Clock, FlowClock, StepClock, on_the_way
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
Directions = Float[np.ndarray, " direction"]
Times = Float[np.ndarray, " time"]
EARLY = f"`{{}}` must be left out {TOO_MANY}"


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
        """True if its time is infinite."""
        return math.isinf(self.time)

    def stops(self, times: Times | None = None) -> Times:
        """Times.

        Args:
            times: What was asked for.
        """
        return np.array([float(self.time)]) if times is None else times

    def unit(self, targets: int) -> float:
        """The number of targets, where the loss is a mean.

        Args:
            targets: $N_An_L$.
        """
        return unit_of(self.loss_units, targets)

    def motion(self, h: Directions, *, targets: Count = 1) -> ByFlow:
        """A flow.

        Args:
            h: Not needed.
            targets: $N_An_L$.
        """
        return ByFlow(self.time / unit_of(self.loss_units, targets))

    def filter(self, h: Directions, times: Times | None = None, *, targets: Count = 1) -> Filter:
        r"""Gain and remainder of eigendirections with eigenvalues `h` after the flow.

        Args:
            h: Eigenvalues of $\tilde\Theta$, at least 0.
            times: Times in place of `time`.
            targets: $N_An_L$, by which a mean is divided.
        """
        t = self.stops(times)
        return after_flow(h, t / unit_of(self.loss_units, targets), ridge=self.ridge)

    def clock(
        self, h: Directions, time: float | None = None, *, targets: Count = 1
    ) -> Clock | None:
        """The times of a training on its way; None for one that is over.

        Args:
            h: Eigenvalues.
            time: In place of `time`.
            targets: $N_An_L$.
        """
        t = float(self.time if time is None else time) / unit_of(self.loss_units, targets)
        x = h + self.ridge
        if math.isinf(t) or t * x.min() > GONE:
            return None
        return FlowClock(t, float(x.max())) if t else StepClock(np.zeros(1))

    def reaches(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Reaches:
        """Weights of the tensors of order 1/n.

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
        return "" if self.ends else EARLY.format("GradientFlow.time")

    def sums_at_the_end(
        self, h: Directions, *, targets: Count = 1, accuracy: float = 1e-4
    ) -> Separable:
        """The projectors of training to the end, as sums of products of functions of one eigenvalue.

        Args:
            h: Eigenvalues, all above 0 without a ridge.
            targets: $N_An_L$.
            accuracy: Relative accuracy of most sums.
        """
        return sums_of(h, self._end(h), 0.0, self.ridge, accuracy)

    def _end(self, h: Directions) -> Projected:
        return stationary(1 / (h + self.ridge)) if self.ridge else converged(h)


def unit_of(units: Units, targets: int) -> float:
    """The factor by which a loss in these units is smaller than the sum."""
    return float(targets) if units == "mean" else 1.0


def sums_of(h: Directions, end: Projected, rate: float, ridge: float, accuracy: float) -> Separable:
    """The weights of a training to its end as sums of products of functions of one eigenvalue."""
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
