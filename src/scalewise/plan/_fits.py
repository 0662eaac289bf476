r"""Powers of the width from sizes measured at several widths and seeds.

Each width and each seed is a network of its own, drawn independently of all others. Sizes are fitted on
$\log_2$-$\log_2$: the slope is the mean over seeds of the slopes of each seed, and its standard error comes from
the scatter of the seeds *within* each width, so that a law that is not a pure power (the curvature says so) does
not pass for noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Float

from scalewise.plan._errors import PlanError

# What three standard errors of a normal deviate leave outside on either side.
_ONE_SIDED = 0.99865


class Status(StrEnum):
    """How the fit of one quantity of one tensor ended."""

    FITTED = "fitted"
    ZERO = "zero"  # exactly zero somewhere: it has no power
    DIVERGED = "diverged"  # not finite somewhere: it grows faster than any power
    ABSENT = "absent"  # the quantity does not exist, or could not be measured


@dataclass(frozen=True)
class Fit:
    r"""A power of the width, fitted to sizes at several widths and seeds.

    Args:
        slope: The power; infinite where the size diverged.
        sem: Its standard error over seeds.
        curvature: $c$ of $\log_2$ size $=a+b\log_2n+c(\log_2n)^2$: 0 for a pure power. Over one doubling
            the local power changes by $2c$.
        curvature_sem: Its standard error.
        dof: Degrees of freedom of the standard errors.
        last: The local power at the largest width, of the curved fit.
        last_sem: Its standard error.
        tail: The slope without the smallest width.
        status: Whether there is a power at all; without one every number is 0.
    """

    slope: float = 0.0
    sem: float = 0.0
    curvature: float = 0.0
    curvature_sem: float = 0.0
    dof: float = 1.0
    last: float = 0.0
    last_sem: float = 0.0
    tail: float = 0.0
    status: Status = Status.ABSENT

    @property
    def error(self) -> float:
        """Half the interval that holds the slope as surely as three standard errors of many seeds.

        Few seeds give a standard error that is itself uncertain; Student's t takes that in.
        """
        from scipy.special import stdtrit  # here, because its import takes longer than a plan

        return float(stdtrit(self.dof, _ONE_SIDED)) * self.sem

    @property
    def doubt(self) -> float:
        """Distance that the power at great width may have from the slope: by its error, and by the smallest width.

        A pure power has the same slope with the smallest width and without it. A correction of finite width is
        largest there, so what leaving it out changes is the size of what is still missing.
        """
        bent = abs(self.tail - self.slope) if self.status is Status.FITTED else 0.0
        return self.error + bent

    def tends_to(self, power: float, tolerance: float) -> bool:
        """True if a slope that is off is so by corrections that die out with the width.

        The local power must come nearer to `power` from one width to the next, beyond three standard errors
        of the curvature, and be there at the largest width, within the tolerance and three of its own. A
        wrong power does not bend.
        """
        bends = self.curvature * (power - self.slope) > 0
        surely = abs(self.curvature) > 3 * self.curvature_sem
        return bends and surely and abs(self.last - power) <= tolerance + 3 * self.last_sem


def check_design(widths: Float[np.ndarray, " width"], seeds: int) -> None:
    """Refuse widths and seeds from which no power with an error can be had.

    Raises:
        PlanError: If there are fewer than three different positive widths or fewer than two seeds.
    """
    found = ", ".join(f"{w:g}" for w in widths) or "none"
    if not (np.all(np.isfinite(widths)) and np.all(widths > 0)):
        raise PlanError(f"`widths` must be positive numbers; got {found}.")
    if len(np.unique(widths)) != len(widths) or len(widths) < 3:
        raise PlanError(
            "`widths` must hold at least three different widths: two fix a power, and a third shows "
            f"whether it is one; got {found}."
        )
    if seeds < 2:
        raise PlanError(
            "`seeds` must be at least 2, since the standard error of a power comes from the scatter of "
            f"seeds; got {seeds}."
        )


def power_law(widths: Float[np.ndarray, " width"], sizes: Float[np.ndarray, "width seed"]) -> Fit:
    r"""Fit a power of the width to sizes.

    $$\log_2\text{size}=a+b\log_2n,\qquad\widehat{\mathrm{Var}}\,b=\frac{s^2}{S}\sum_wc_w^2,\qquad
    c_w=\frac{x_w-\bar x}{\sum(x-\bar x)^2}$$

    with $x=\log_2n$ and $s^2$ the variance of $\log_2$ size over the $S$ seeds of one width, averaged over the
    widths: it has $S-1$ degrees of freedom for each of them.

    Args:
        widths: At least three.
        sizes: Root mean squares, not negative; NaN where there is none, infinite where it diverged.

    Returns:
        The fit, or only its status where the sizes have no power.

    Raises:
        PlanError: See `check_design`.

    Example:
        >>> import numpy as np
        >>> from scalewise.plan._fits import power_law
        >>> n = np.array([64.0, 128.0, 256.0])
        >>> round(power_law(n, np.stack([n**-0.5, 2 * n**-0.5], axis=1)).slope, 12)
        -0.5
    """
    check_design(widths, sizes.shape[1])
    if np.any(np.isinf(sizes)):
        return Fit(slope=np.inf, status=Status.DIVERGED)
    if np.any(np.isnan(sizes)):
        return Fit()
    if np.any(sizes == 0):
        return Fit(status=Status.ZERO)
    order = np.argsort(widths)
    x, y = np.log2(widths[order]), np.log2(sizes[order])
    line = x - x.mean()
    square = line**2 - np.mean(line**2) - line * (line @ line**2) / (line @ line)
    slope, rise = line / (line @ line), 2 * line[-1] - line @ line**2 / (line @ line)
    bend = square / (square @ square)
    last = slope + rise * bend
    rest = x[1:] - x[1:].mean()
    seeds = sizes.shape[1]
    mean, scatter = y.mean(axis=1), float(y.var(axis=1, ddof=1).mean())

    def sem(contrast: Float[np.ndarray, " width"]) -> float:
        return float(np.sqrt(scatter / seeds * (contrast @ contrast)))

    return Fit(
        slope=float(slope @ mean),
        sem=sem(slope),
        curvature=float(bend @ mean),
        curvature_sem=sem(bend),
        dof=float(len(widths) * (seeds - 1)),
        last=float(last @ mean),
        last_sem=sem(last),
        tail=float(rest @ mean[1:] / (rest @ rest)),
        status=Status.FITTED,
    )
