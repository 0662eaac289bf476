"""What the optima of several sizes say, in one sentence; and what to do where they say nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scalewise.plan.proof._drift import Drift
from scalewise.plan.proof._optimum import Optimum
from scalewise.plan.proof._standing import Standing

_MANY = 100  # seeds beyond which nobody is told to go on


class TransferOutcome(StrEnum):
    """Answer to the question whether the optimum transfers."""

    TRANSFERS = "transfers"
    DRIFTS = "drifts"
    DIVERGED = "diverged"  # an optimum would be among runs that gave no finite loss
    NOT_LEARNT = "not learnt"  # the base is where it began, so its optimum is not worth carrying
    NOT_BRACKETED = "not bracketed"  # an optimum may lie outside the grid
    TOO_POOR = "too poor"  # errors are too large to tell


@dataclass(frozen=True)
class TransferFinding:
    """An outcome and the sentence that tells it."""

    outcome: TransferOutcome
    sentence: str


def judge(
    name: str,
    labels: Sequence[str],
    x: Sequence[float],
    optima: Sequence[Optimum],
    drifts: Sequence[Drift],
    cost: tuple[str, float, float],
    tolerance: float,
    standing: Standing | None = None,
) -> TransferFinding:
    """Judge a grid.

    Args:
        name: Of the hyperparameter.
        labels: Of the sizes.
        x: Values of the grid, as powers of 2.
        optima: One for each size.
        drifts: One for each axis of size.
        cost: Of the largest size its label, what the transferred value loses there, and the error of that.
        tolerance: Octaves per octave that count as staying.
        standing: Of the first size at its best value.
    """
    sizes = list(zip(labels, optima, strict=True))
    if any(o.lost for _, o in sizes):
        return TransferFinding(TransferOutcome.DIVERGED, _diverged(name, sizes, x))
    if standing is not None and standing.learnt is False:
        return TransferFinding(TransferOutcome.NOT_LEARNT, standing.sentence)
    outside = [(label, o) for label, o in sizes if o.edge]
    if outside:
        return TransferFinding(TransferOutcome.NOT_BRACKETED, _outside(name, outside, x))
    seeds = len(optima[0].omitted)
    told = " and ".join(_told(d) for d in drifts)
    if seeds < 2:
        return TransferFinding(
            TransferOutcome.TOO_POOR,
            f"One seed has no error: the optimum of {name} moves by {told}; take seeds=3 to know how surely.",
        )
    moving = [d for d in drifts if abs(d.slope) - d.error > tolerance]
    if moving:
        return TransferFinding(
            TransferOutcome.DRIFTS,
            f"{name} drifts: its optimum moves by {told}; {_costs(cost)}.",
        )
    guessed = [label for label, o in sizes if o.guessed]
    if guessed:
        return TransferFinding(
            TransferOutcome.TOO_POOR,
            f"The optimum of {name} at {', '.join(guessed)} is next to values at which runs diverged, and how near "
            "it is to them they do not tell: take values in smaller steps there, below those that diverge.",
        )
    unsure = [d for d in drifts if abs(d.slope) + d.error > tolerance]
    if unsure:
        return TransferFinding(
            TransferOutcome.TOO_POOR, _poor(name, told, unsure, seeds, tolerance)
        )
    return TransferFinding(
        TransferOutcome.TRANSFERS, f"{name} transfers: its optimum moves by {told}; {_costs(cost)}."
    )


def _diverged(name: str, sizes: Sequence[tuple[str, Optimum]], x: Sequence[float]) -> str:
    """Sentence on runs that gave no loss where one is needed, and what to do."""
    none = [(label, o) for label, o in sizes if not math.isfinite(o.place)]
    every = [label for label, o in none if o.diverged == len(x) * len(o.omitted)]
    partly = [label for label, _ in none if label not in every]
    some = [(label, o) for label, o in sizes if math.isfinite(o.lost_at)]
    span = f"for all values of {name} from 2^{x[0]:g} to 2^{x[-1]:g}"
    parts = []
    if every:
        everywhere = len(every) == len(sizes)
        which = "every size" if everywhere else ", ".join(every)
        check = "the loss and the data" if everywhere else "that plan.multipliers are applied there"
        parts.append(
            f"Every run at {which} diverged, {span}, so there is no optimum. Take smaller values; if those diverge "
            f"too it is not {name}: check {check}."
        )
    if partly:
        parts.append(
            f"At {', '.join(partly)} some run diverged {span}, so there is no optimum. Take smaller values."
        )
    if some:
        listed = ", ".join(
            f"{o.lost} of {len(o.omitted)} at {label} (2^{o.lost_at:.3g})" for label, o in some
        )
        parts.append(
            f"Of the runs at the best value of {name} some diverged: {listed}. A mean without them is not a loss: "
            "make the training stable there, with a warm-up or with clipped gradients for example, or look at the "
            "seeds that diverge."
        )
    return " ".join(parts)


def _told(d: Drift) -> str:
    sem = f" ± {d.sem:.2f}" if math.isfinite(d.sem) else ""
    return f"{d.slope:+.2f}{sem} octaves per octave of {d.axis}"


def _costs(cost: tuple[str, float, float]) -> str:
    label, more, error = cost
    if more == math.inf:
        return f"carried to {label} its runs diverge"
    return f"carried to {label} it costs {more:.3g} ± {error:.2g} in loss beside retuning"


def _outside(name: str, outside: Sequence[tuple[str, Optimum]], x: Sequence[float]) -> str:
    ends = {"left": (f"below 2^{x[0]:g}", "left"), "right": (f"above 2^{x[-1]:g}", "right")}
    parts = []
    for edge, (where, side) in ends.items():
        mine = [label for label, o in outside if o.edge == edge]
        if mine:
            parts.append(
                f"the optimum at {', '.join(mine)} may lie {where}, so extend it to the {side}"
            )
    return f"The grid of {name} does not bracket the optimum: {'; '.join(parts)}."


def _poor(name: str, told: str, unsure: Sequence[Drift], seeds: int, tolerance: float) -> str:
    """Sentence on the number of seeds that would make the largest error as small as what it is to tell apart."""
    needed = 0.0
    for d in unsure:
        gap = abs(abs(d.slope) - tolerance)
        needed = max(needed, seeds * (2 * d.sem / gap) ** 2 if gap else math.inf)
    many = math.ceil(max(needed, seeds + 1)) if needed <= _MANY else 0
    advice = (
        f"about {many} seeds would tell"
        if many
        else "it is as good as at the tolerance, and more seeds tell little: take sizes farther apart"
    )
    return (
        f"The statistics are too poor to tell whether {name} transfers: its optimum moves by {told}, and "
        f"{tolerance:g} is the question; {advice}."
    )
