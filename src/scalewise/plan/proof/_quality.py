r"""How well a hyperparameter transfers: error of the fit, exponent of robustness, and the loss of infinite size.

Kalra and Barkeshli ask three things of a law of optima over sizes $n$: how well it fits, $\mathcal E$; how dear it
is to miss it, $\kappa$; and what is lost in the end, by the loss $L(\infty)$. With optima
$x^*(n)=\log_2\eta^*(n)$ and losses $L(x,n)$ they are here

$$\mathcal E^2=\frac1{m-2}\sum_n\bigl(x^*(n)-a-b\log_2n\bigr)^2,\qquad
\partial_x^2L(x^*,n)\propto n^{-\kappa},\qquad L(x^*,n)=L(\infty)+An^{-\alpha}.$$

A miss by $\delta$ octaves costs $\frac12\partial_x^2L\,\delta^2$: for $\kappa>0$ less with every size, for
$\kappa<0$ more.

Source: arXiv 2605.21486, of which we know the abstract and a summary: the names and what they are for are theirs,
the formulas are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable
from scalewise.plan.proof._drift import Drift
from scalewise.plan.proof._optimum import Optimum, jackknife, sure

# Powers by which a loss may come nearer to its limit: theory has 1/2 and 1, and measured ones lie around these.
POWERS = np.linspace(0.25, 2.0, 71)
_SIZES = 3


@dataclass(frozen=True)
@readable
class IntervalEstimate:
    """A number and the interval that holds it as surely as two standard errors do.

    Args:
        value: The number.
        low: The lower end.
        high: The upper end.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
@readable
class Quality:
    r"""Quality of the transfer of one hyperparameter along one axis of size.

    Args:
        axis: Name of the size.
        fit_error: $\mathcal E$, in octaves: what the optima scatter about their power law; ``None`` of two sizes.
        seeds_error: What of it the seeds alone would give, in octaves; ``None`` of one seed.
        robustness: $\kappa$; positive where the losses about the optimum flatten with the size.
        limit: $L(\infty)$, the loss at the optimum of an infinite size; the interval covers powers $\alpha$ between
            1/4 and 2.
        unknown: For each of the above that is ``None``, why, in one sentence.
    """

    axis: str
    fit_error: float | None
    seeds_error: float | None
    robustness: IntervalEstimate | None
    limit: IntervalEstimate | None
    unknown: tuple[str, ...] = ()

    def _told(self) -> list[str]:
        lines = []
        if self.fit_error is not None:
            beside = "" if self.seeds_error is None else f" (seeds alone: {self.seeds_error:.2f})"
            lines.append(
                f"Over {self.axis} the optima fit a power law to {self.fit_error:.2f} octaves{beside}."
            )
        if self.robustness is not None:
            low, high = self.robustness.low, self.robustness.high
            turns = (
                "flatten"
                if low > 0
                else "sharpen"
                if high < 0
                else "neither flatten nor sharpen for sure"
            )
            lines.append(
                f"Over {self.axis} the losses about the optimum {turns}: robustness {self.robustness}."
            )
        if self.limit is not None:
            lines.append(f"Loss at the optimum of infinite {self.axis}: {self.limit}.")
        return [*lines, *self.unknown]


def quality_of(drift: Drift, optima: Sequence[Optimum]) -> Quality:
    """Quality of a transfer along one axis, from the optima.

    Args:
        drift: Of that axis.
        optima: One for each of its sizes, none of them at the end of a grid.
    """
    n, axis = np.array(drift.sizes), drift.axis
    few = f"{len(n)} sizes of {axis} have an optimum"
    unknown = []
    fit_error = _scatter(np.log2(n), np.array([o.place for o in optima]))
    if fit_error is None:
        unknown.append(
            f"How well a power law fits is not known: {few}, and a line through two always fits; take "
            f"three {axis}s."
        )
    sems = np.array([o.sem for o in optima])
    seeds_error = float(np.sqrt(np.mean(sems**2))) if np.isfinite(sems).all() else None
    robustness, why_not = _robustness(n, optima, axis)
    unknown += [why_not] if why_not else []
    lows = np.array([o.lows for o in optima])
    limit, why_not = extrapolated(n, np.array([o.loss for o in optima]), lows, axis)
    unknown += [why_not] if why_not else []
    return Quality(axis, fit_error, seeds_error, robustness, limit, tuple(unknown))


def _scatter(u: np.ndarray, places: np.ndarray) -> float | None:
    if len(u) < _SIZES:
        return None
    rest = places - np.polynomial.polynomial.polyval(
        u, np.polynomial.polynomial.polyfit(u, places, 1)
    )
    return math.sqrt(float(rest @ rest) / (len(u) - 2))


def _robustness(
    n: np.ndarray, optima: Sequence[Optimum], axis: str
) -> tuple[IntervalEstimate | None, str]:
    """The exponent by least squares of logarithms, with the larger of two errors, as a drift has it."""
    bends = np.array([o.bend for o in optima])
    omitted = np.array([o.bends for o in optima])
    if (bends <= 0).any() or (omitted <= 0).any():
        return None, (
            f"How the losses about the optimum change with {axis} is not known: at some size they do not bend "
            "upwards for sure; take values closer to the optimum, or more seeds."
        )
    u = np.log(n)
    u = u - u.mean()
    weights = u / (u @ u)
    kappa = -float(weights @ np.log(bends))
    seeds = omitted.shape[1]
    if seeds < 2:
        return (
            None,
            f"One seed has no error: the robustness over {axis} is not known; take seeds=3.",
        )
    # As the drift: networks of two sizes are independent, and as noisy as all are in the mean.
    each = np.mean([jackknife(np.log(o)) ** 2 for o in omitted])
    rest = np.log(bends) - np.log(bends).mean() + kappa * u
    free = len(u) - 2
    about = math.sqrt(float(rest @ rest) / free / float(u @ u)) if free else 0.0
    by_seeds = math.sqrt(float(each) * float(weights @ weights))
    error = max(sure(by_seeds, (seeds - 1) * len(n)), sure(about, free) if free else 0.0)
    return IntervalEstimate(kappa, kappa - error, kappa + error), ""


def extrapolated(
    n: Float[np.ndarray, " size"],
    losses: Float[np.ndarray, " size"],
    omitted: Float[np.ndarray, "size seed"],
    axis: str,
) -> tuple[IntervalEstimate | None, str]:
    r"""$L(\infty)$ of $L(n)=L(\infty)+An^{-\alpha}$, or the sentence that says why not.

    For every $\alpha$ a straight line; those whose sum of squares is within the noise of the best are all believed.
    Noise is what seeds do to one size and not to another; what a seed does to all sizes alike is added to the end.

    Args:
        n: Sizes.
        losses: At the optimum of each.
        omitted: The same without each of the seeds.
        axis: Name of the size.
    """
    m, seeds = omitted.shape
    head = f"The loss is not extrapolated in {axis}: "
    if m < _SIZES:
        return None, f"{head}it takes three {axis}s with an optimum, and there are {m}."
    if seeds < 2:
        return None, f"{head}one seed has no error; take seeds=3."
    # Pseudovalues: what each seed says of each size, as if the minimum were a mean over seeds.
    each = seeds * losses[:, None] - (seeds - 1) * omitted
    rest = each - each.mean(axis=0) - each.mean(axis=1, keepdims=True) + each.mean()
    dof = (m - 1) * (seeds - 1)
    noise = float((rest**2).sum()) / dof / seeds  # variance of a size's mean
    shared = float(each.mean(axis=0).var(ddof=1)) / seeds
    quantile = sure(1.0, dof)
    fits = [_line(n, losses, power) for power in POWERS]
    squares = np.array([square for _, _, square in fits])
    best = int(squares.argmin())
    if m > _SIZES and squares[best] > (m - _SIZES) * _largest(m - _SIZES, dof) * noise + _tiny(
        losses
    ):
        return None, (
            f"{head}no power between {POWERS[0]:g} and {POWERS[-1]:g} fits the losses of all sizes within their "
            "noise; leave out the smallest."
        )
    believed = squares <= squares[best] + quantile**2 * noise + _tiny(losses)
    ends = []
    for (limit, weights, _), good in zip(fits, believed, strict=True):
        if good:
            error = quantile * math.sqrt(noise * (weights @ weights - 1 / m) + shared)
            ends += [limit - error, limit + error]
    found = IntervalEstimate(fits[best][0], min(ends), max(ends))
    room = float(np.ptp(losses))
    if found.high - found.low > 2 * room + _tiny(losses):
        return None, (
            f"{head}its interval, {found.low:.4g} to {found.high:.4g}, is more than twice as wide as the losses of "
            "all sizes differ; take sizes farther apart, or more seeds."
        )
    return found, ""


def _line(n: np.ndarray, losses: np.ndarray, power: float) -> tuple[float, np.ndarray, float]:
    """Intercept of a line in a power of the size, its weights on the losses, and the sum of squares."""
    u = (n / n[0]) ** -power
    design = np.stack([np.ones_like(u), u], axis=1)
    inverse = np.linalg.pinv(design)
    rest = losses - design @ (inverse @ losses)
    return float(inverse[0] @ losses), inverse[0], float(rest @ rest)


def _largest(free: int, dof: int) -> float:
    """The mean square, in units of the noise, that one good fit of a thousand exceeds."""
    from scipy.special import fdtri  # here, because its import takes longer than a plan

    return float(fdtri(free, dof, 0.999))


def _tiny(losses: np.ndarray) -> float:
    """Rounding, so that losses without noise are believed."""
    return 1e-12 * float(np.ptp(losses)) ** 2
