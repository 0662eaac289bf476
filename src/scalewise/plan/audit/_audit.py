"""`Audit`: the powers of a script, what they make of it at great width, and a verdict in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scalewise._readable import Rows, readable
from scalewise.plan._fits import Fit, Status
from scalewise.plan._measurement import Measurement
from scalewise.plan._roles import Role
from scalewise.plan._rows import passed_on, starts_small
from scalewise.plan._table import Plan
from scalewise.plan._verdict import Verdict, judge
from scalewise.plan.audit._breaks import Break, breaks_of
from scalewise.plan.audit._epsilon import Epsilon, drowned
from scalewise.plan.audit._limits import (
    Limit,
    Waste,
    binding,
    fall_of,
    limits_of,
    wasted,
)
from scalewise.plan.audit._powers import APART, TensorPowers, growth_rows, powers_of, reads
from scalewise.plan.audit._report import told, verdict_of


@dataclass(frozen=True)
@readable
class Audit:
    r"""Powers of a training script, and its verdict at great width.

    Args:
        tensors: The powers of every tensor, in the order of the forward pass.
        verdict: Stable or not, and the regime, at the rates of the script.
        limits: What bounds a common factor of all learning rates, the steepest first.
        bottleneck: Those of them that none is surely steeper than; empty where nothing is held back.
        fall: $c^*$: a common factor of the rates must fall as $n^{-c^*}$; negative if it may grow.
        wastes: Tensors that then learn more slowly than others.
        breaks: What grows with the width, the first to break a run first.
        starts: Modules whose output at initialisation grows or fades, in the order of the forward pass.
        epsilons: Tensors whose gradients fall below the optimizer's epsilon, and at which width.
        idle: Tensors that no group of the optimizer holds, or whose learning rate is zero.
        assumed: What a plan would have asked, and the answers of most models, which were taken.
        target: The width that rates are extrapolated to.
        measured: The sizes, taken at the script's rates times `measured.lr`, without weight decay.
        tolerance: How far from zero a power may be.
        framework: The room whose `plan` is the remedy.
    """

    tensors: tuple[TensorPowers, ...]
    verdict: Verdict
    limits: tuple[Limit, ...]
    bottleneck: tuple[Limit, ...]
    fall: float
    wastes: tuple[Waste, ...]
    breaks: tuple[Break, ...]
    starts: tuple[TensorPowers, ...]
    epsilons: tuple[Epsilon, ...]
    idle: tuple[str, ...]
    assumed: tuple[str, ...]
    target: float
    measured: Measurement = field(repr=False)
    tolerance: float = 0.0625
    framework: str = "torch"

    def __getitem__(self, name: str) -> TensorPowers:
        return {t.name: t for t in self.tensors}[name]

    @property
    def r(self) -> float:
        r"""The features move by $n^{-r}$ at the rates of the script (TP4, 3.2); NaN where that was not seen."""
        features = self.verdict.features
        return math.nan if features.status is Status.ABSENT else -features.slope

    @property
    def r_stable(self) -> float:
        """The power $r$ at the largest common factor of the rates that keeps everything stable."""
        return self.r + self.fall

    @property
    def s(self) -> float:
        """The member of the family from neural tangent (0) to maximal update (1) with that `r_stable`."""
        s = 1 - 2 * self.r_stable
        return s if math.isnan(s) else min(max(s, 0.0), 1.0)

    @property
    def ok(self) -> bool:
        """True if the script is in the maximal update: nothing grows or fades, and no tensor lags behind."""
        return self.maximal and not self.starts

    @property
    def maximal(self) -> bool:
        """True if every tensor surely moves what it writes at order one, and what readouts do was seen."""
        if self.unsure is not None or self.blind:
            return False
        learns = self.verdict.stable and self.verdict.nontrivial and self.r < APART
        return learns and not self.wastes and not self.bottleneck

    @property
    def unsure(self) -> Limit | None:
        """Limit whose error is too large to tell whether it grows with the width."""
        top = self.limits[0] if self.limits else None
        open_ = top is not None and not self.fall and top.fit.slope > 2 * APART
        return top if open_ and self.verdict.stable else None

    @property
    def blind(self) -> tuple[str, ...]:
        """Readouts of which was not seen what they read and return."""
        unknown = self.verdict.regime is None
        return self.measured.unseen or (self.measured.readouts if unknown else ())

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        return verdict_of(self)

    def _told(self) -> list[str | Rows]:
        return told(self)


def audited(
    plan: Plan,
    measured: Measurement,
    rates: Sequence[Mapping[str, float]],
    *,
    epsilon: Mapping[str, float],
    assumed: Sequence[str] = (),
    target: float | None = None,
    tolerance: float = 0.0625,
) -> Audit:
    """Fit, judge and name.

    Args:
        plan: Any plan of the model, for roles and the multipliers in its code.
        measured: Sizes over widths and seeds.
        rates: For each width the learning rate of every tensor.
        epsilon: By tensor what the optimizer compares its gradient with.
        assumed: See `Audit`.
        target: See `Audit`; by default eight times the largest width.
        tolerance: How far from zero a power may be beyond three standard errors.
    """
    measured = passed_on(plan, measured)
    tensors = powers_of(plan, measured, rates)
    rows = growth_rows(plan, measured, tolerance)
    small = starts_small(plan)
    verdict = judge(rows, measured, tolerance, late=small)
    limits = limits_of(tensors, measured, verdict.features)
    fall, bounds = fall_of(limits), binding(limits)
    widest = float(measured.widths[-1])
    target = 8 * widest if target is None else float(target)
    widening = target / float(measured.widths[0])
    wastes = wasted(tensors, measured, tolerance, widening)
    moves = verdict.features.slope - fall
    held = bool(fall) or moves < -APART - verdict.features.error
    return Audit(
        tensors=tensors,
        verdict=verdict,
        limits=limits,
        bottleneck=bounds if held else (),
        fall=fall,
        wastes=wastes,
        breaks=breaks_of(plan, measured, rows, tolerance),
        starts=_starts(measured, tensors, tolerance, small),
        epsilons=drowned(tensors, measured, epsilon, target),
        idle=tuple(t.name for t in tensors if t.rate.status is not Status.FITTED),
        assumed=tuple(assumed),
        target=target,
        measured=measured,
        tolerance=tolerance,
    )


def _starts(
    measured: Measurement, tensors: Sequence[TensorPowers], tolerance: float, small: bool
) -> tuple[TensorPowers, ...]:
    """Tensors, one for each module inside the network, that start larger or smaller at another width."""
    found: dict[str, TensorPowers] = {}
    for t in tensors:
        inside = t.role in (Role.INPUT, Role.HIDDEN) and not reads(measured, t.name)
        if inside and _moved(t.output, tolerance) and not (small and t.output.slope < 0):
            found.setdefault(t.module, t)
    return tuple(found.values())


def _moved(fit: Fit, tolerance: float) -> bool:
    off = fit.status is Status.FITTED and abs(fit.slope) > APART + tolerance + fit.doubt
    return off and not fit.tends_to(0.0, tolerance)
