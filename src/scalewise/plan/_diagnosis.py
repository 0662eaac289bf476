"""Which tensor is to blame: causes told apart from what follows from them.

Two things are measured on each tensor alone, whatever the rest of the network does: the spread it starts with,
and its learning rate (its step over its gradient, or its step where the optimizer takes steps of fixed size).
Where one of them is off, that tensor is the cause; all other deviations may follow from it. Where none is,
the forward pass itself must scale otherwise than planned. Where every power is within what is planned and the
network as a whole is in another regime, that is the finding: a check never passes beside a verdict that
contradicts it. What the verdict needs and nobody saw is a finding too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scalewise._readable import readable
from scalewise.plan._depth import DepthCheck, DepthRow
from scalewise.plan._fits import Status
from scalewise.plan._growth import written
from scalewise.plan._laws import ENTRYWISE
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._parts import fixed_columns
from scalewise.plan._rows import Row, starts_small
from scalewise.plan._table import Plan
from scalewise.plan._verdict import GROWING, Verdict, not_seen
from scalewise.scaling import Regime, classify

# No rule that is wrong is wrong by less.
_EIGHTH = 0.125
# Inputs that do not grow, beside those that do at the least width: fewer do not show.
_FEW = 1 / 32


class Cause(StrEnum):
    """Kind of fault in a tensor."""

    INITIALISATION = "initialisation"
    LEARNING_RATE = "learning rate"
    FORWARD = "forward pass"
    ATTENTION = "attention"
    REGIME = "regime"
    WIDTHS = "finite width"
    DIVERGED = "diverged"
    DEPTH = "depth"
    UNSEEN = "not seen"


@dataclass(frozen=True)
@readable
class Culprit:
    """A tensor that does not scale as planned, of itself, or the network that does not.

    Args:
        tensor: Its name, or that of a module.
        cause: What is wrong.
        power: By which power of the width (or depth), as measured; 0 where the size diverged or was not seen.
        row: The measurement that shows it.
        text: All of this in whole sentences.
    """

    tensor: str
    cause: Cause
    power: float
    row: Row | DepthRow
    text: str

    def __str__(self) -> str:
        return self.text


def diagnose(
    plan: Plan,
    measured: Measurement,
    rows: Sequence[Row],
    verdict: Verdict,
    planned: Collection[Regime],
    attention: Sequence[Row] = (),
    depth: DepthCheck | None = None,
) -> tuple[Culprit, ...]:
    """The causes among all deviations; empty if every power agrees and the verdict is the planned one.

    What the verdict needs and was not seen stands behind them, and what grows with the depth.

    Args:
        plan: What was planned.
        measured: What the rows were fitted to.
        rows: All rows, in the order of the forward pass; those of the model as a whole come last, without a tensor.
        verdict: What the measurement says of the network as a whole.
        planned: The regimes that the plan allows.
        attention: Those of attention logits.
        depth: What was found over depths, if any were asked for.
    """
    told = _beside_the_width(plan, measured)
    causes = _causes(plan, measured, rows, verdict, planned, attention)
    found = [
        replace(c, cause=Cause.WIDTHS, text=f"{c.text} {told}")
        if told and c.cause in (Cause.FORWARD, Cause.REGIME, Cause.WIDTHS)
        else c
        for c in causes
    ]
    return (*found, *_unseen(measured, rows, attention), *_of_depth(depth))


def _causes(
    plan: Plan,
    measured: Measurement,
    rows: Sequence[Row],
    verdict: Verdict,
    planned: Collection[Regime],
    attention: Sequence[Row],
) -> tuple[Culprit, ...]:
    off = [r for r in rows if not r.agrees]
    own = [
        _culprit(plan, measured, r, cause)
        for r in off
        if r.fit.status is Status.FITTED
        for quantity, cause in (
            (Quantity.WEIGHT, Cause.INITIALISATION),
            (Quantity.RATE, Cause.LEARNING_RATE),
        )
        if r.quantity is quantity
    ]
    if own:
        return tuple(own)
    logits = [r for r in attention if not r.agrees and r.fit.status is Status.FITTED]
    if logits:
        worst = {r.tensor: r for r in sorted(logits, key=lambda r: r.excess)}
        return tuple(_culprit(plan, measured, r, Cause.ATTENTION) for r in worst.values())
    if not off:
        told = verdict.regime is not None and not verdict.open
        contradicts = told and verdict.regime not in planned
        return (_of_regime(plan, measured, rows, verdict),) if contradicts else ()
    finite = [r for r in off if r.fit.status is Status.FITTED]
    if not finite:
        return (_culprit(plan, measured, off[0], Cause.DIVERGED),)
    # Forward what comes first is the nearest to the cause, backward what comes last.
    forward = (Quantity.OUTPUT, Quantity.FEATURES)
    backward = (Quantity.GRADIENT,)
    sizes = [r for r in finite if r.quantity in forward]
    gradients = [r for r in finite if r.quantity in backward]
    nearest = sizes[0] if sizes else gradients[-1] if gradients else finite[0]
    # What the model returns shows its products, and no tensor does.
    whole = [r for r in finite if not r.tensor]
    nearest = whole[-1] if whole and nearest not in sizes else nearest
    small = all(abs(r.excess) < _EIGHTH for r in finite)
    return (_culprit(plan, measured, nearest, Cause.WIDTHS if small else Cause.FORWARD),)


def _beside_the_width(plan: Plan, measured: Measurement) -> str:
    """Sentence that many inputs of a layer do not grow with the width, so that no power shows, or no text."""
    base, target = (float(str(sizes[plan.width_name])) for sizes in (plan.base, plan.target))
    found: dict[str, tuple[float, float]] = {}
    for t in plan.tensors if base != target else ():
        growing = t.terms - fixed_columns(t.fixed)
        slope = growing * (float(t.fan_in) - 1) / (target - base)
        constant = t.terms - slope * base
        if slope > 0 and constant > _FEW * slope * float(measured.widths[0]):
            found[t.name] = slope, constant
    if not found:
        return ""
    name, (slope, constant) = max(found.items(), key=lambda one: one[1][1] / one[1][0])
    n = "n" if math.isclose(slope, 1) else f"{slope:.3g} n"
    apart = (
        " Weights of the others learn at their rate: a layer of their own has its own."
        if plan[name].fixed
        else ""
    )
    wide = max(constant / (slope * _EIGHTH), 4 * float(measured.widths[-1]))
    return (
        f"But `{name}` sums over {n} + {constant:.3g} inputs. Those that do not grow weigh much at these widths, "
        f"and then no size is a power of the width: verify at widths from {wide:.0f} on. What is off there as much "
        f"is wrong.{apart}"
    )


def _unseen(measured: Measurement, rows: Sequence[Row], attention: Sequence[Row]) -> list[Culprit]:
    """Culprits for what was not measured though the verdict rests on it."""
    out = []
    if measured.unseen or not measured.seen:
        names = measured.unseen or measured.readouts
        row = next((r for r in rows if r.tensor in names), rows[0])
        out.append(Culprit(row.tensor, Cause.UNSEEN, 0.0, row, not_seen(names)))
    for row in attention:
        if row.quantity is Quantity.LOGITS_CHANGE and row.fit.status is Status.ABSENT:
            where = f"`{row.tensor}`" if row.tensor else "the model"
            text = (
                f"The attention logits of {where} were not seen before and after the step, so whether they grow "
                "was not measured: the module made other logits than at first, or was not called at every width."
            )
            out.append(Culprit(row.tensor, Cause.UNSEEN, 0.0, row, text))
    return out


def _of_depth(depth: DepthCheck | None) -> list[Culprit]:
    row = None if depth is None else depth.worst
    if row is None:
        return []
    unseen = row.fit.status is Status.ABSENT
    power = 0.0 if unseen or math.isinf(row.excess) else row.excess
    return [Culprit(row.place, Cause.UNSEEN if unseen else Cause.DEPTH, power, row, str(depth))]


def expected_regimes(plan: Plan, tolerance: float) -> tuple[Regime, ...]:
    """Regimes that a measurement of this plan may find: two, where a power is too small to part them.

    So too behind a bottleneck, whose few units learn in the kernel regime as well.
    """
    planned = classify(plan.strategy)
    if planned.regime in (Regime.KERNEL, Regime.GP):
        near = -min(planned.r_l) >= -tolerance or starts_small(plan)
        return (Regime.KERNEL, Regime.FEATURES) if near else (Regime.KERNEL,)
    return (planned.regime,)


def _of_regime(plan: Plan, measured: Measurement, rows: Sequence[Row], verdict: Verdict) -> Culprit:
    """The network as a whole, shown by what grows, or by what the readout reads."""
    shown = [r for r in rows if r.tensor in measured.readouts] or list(rows)
    quantity = Quantity.FEATURES_CHANGE if verdict.nontrivial else Quantity.CHANGE
    row = next((r for r in shown if r.quantity is quantity), shown[0])
    if not verdict.stable:
        row = max((r for r in rows if r.quantity in GROWING), key=lambda r: r.fit.slope)
    said = verdict.reasons[-1] if verdict.stable else verdict.reasons[0]
    text = (
        f"Every power is within what is planned, but the network as a whole is {_words(verdict.regime)} and the "
        f"plan is for {_words(classify(plan.strategy).regime)}. {said} The role of a tensor may be another: see "
        "print(plan), and say it with roles={...}. Or these widths are too small for the batch."
    )
    return Culprit(row.tensor, Cause.REGIME, row.fit.slope - float(row.predicted), row, text)


def _words(regime: Regime | None) -> str:
    return {
        None: "not seen",
        Regime.UNSTABLE: "unstable",
        Regime.TRIVIAL: "trivial",
        Regime.KERNEL: "in the kernel regime",
        Regime.GP: "in the GP limit",
        Regime.FEATURES: "learning features",
    }[regime]


def _culprit(plan: Plan, measured: Measurement, row: Row, cause: Cause) -> Culprit:
    power = 0.0 if math.isinf(row.excess) else row.excess
    text = _TEXTS[cause](plan, measured, row, f"{power:+.2f}")
    return Culprit(row.tensor, cause, power, row, text)


def _initialisation(plan: Plan, measured: Measurement, row: Row, power: str) -> str:
    return (
        f"`{row.tensor}` is initialised too {'large' if row.excess > 0 else 'small'}, by n^({power}): the "
        f"size of its entries goes as n^({_measured(row)}), planned is n^({written(row.predicted)}). Initialise it "
        "with plan.init_ (plan.init in JAX), or by that rule."
    )


def _learning_rate(plan: Plan, measured: Measurement, row: Row, power: str) -> str:
    law = plan[row.tensor].law
    of_what = f"its step{'' if law.norm == ENTRYWISE else ' in the norm of its optimizer'}"
    if law.follows:
        of_what += " over its gradient" + ("" if law.degree == 1 else f"^({law.degree})")
    eps = "" if law.eps is None else " (or an eps above its gradients)"
    return (
        f"`{row.tensor}` has a learning rate too {'large' if row.excess > 0 else 'small'}, by n^({power})"
        f"{eps}: {of_what} goes as n^({_measured(row)}), planned is n^({written(row.predicted)}). Take its group "
        "from plan.param_groups, or in JAX the optimiser from plan.optax."
    )


def _forward(plan: Plan, measured: Measurement, row: Row, power: str) -> str:
    needed = ", ".join(f"`{m.name}`" for m in plan.multipliers if m.left is None)
    check_them = f" (the plan has multipliers for {needed}: see plan.multipliers)" if needed else ""
    left = ", ".join(f"`{m.name}`" for m in plan.multipliers if m.left)
    if left:
        check_them += (
            f" (the factor of {left} is left as it is, as asked with keep=...: this may be it)"
        )
    return (
        f"The initialisation and the learning rate of every tensor are as planned, but "
        f"{_what(measured, row)} is off by n^({power}): it goes as n^({_measured(row)}), planned is "
        f"n^({written(row.predicted)}). Either the forward pass multiplies there by another power of the width "
        f"than planned{check_them}, or the role of a tensor is another: see print(plan), and say it with "
        "roles={...}."
    )


def _attention(plan: Plan, measured: Measurement, row: Row, power: str) -> str:
    between = (m for m in plan.multipliers if m.place.between_activations and m.left is None)
    said = next((m.name for m in between), None)
    lacks = (
        f'The plan has the multiplier "{said}", and the forward pass does not apply it (see plan.multipliers).'
        if said
        else "Heads that grow need logits over the size of a head, not over its root."
    )
    which = "" if row.quantity is Quantity.LOGITS_CHANGE else " at initialisation"
    change = "the change of " if row.quantity is Quantity.LOGITS_CHANGE else ""
    return (
        f"The initialisation and the learning rate of every tensor are as planned, but {change}the attention "
        f"logits of `{row.tensor or 'the model'}`{which} grow by n^({_measured(row)}). {lacks}"
    )


def _widths(plan: Plan, measured: Measurement, row: Row, power: str) -> str:
    return (
        f"The initialisation and the learning rate of every tensor are as planned, but "
        f"{_what(measured, row)} goes as n^({_measured(row)}), planned is n^({written(row.predicted)}). No wrong "
        "rule is off by so little: the widths are too small for this batch. Take larger widths, or a batch of "
        "fewer samples or tokens than the smallest width."
    )


def _what(measured: Measurement, row: Row) -> str:
    module = row.tensor and measured.modules[measured.tensors.index(row.tensor)]
    where = f"`{module}`" if module else "the model" if row.tensor else measured.whole
    return {
        Quantity.OUTPUT: f"what {where} returns at initialisation",
        Quantity.FEATURES: f"what {where} reads at initialisation",
        Quantity.GRADIENT: f"the gradient of `{row.tensor}`",
        Quantity.UPDATE: f"the update of `{row.tensor}`",
        Quantity.OWN_CHANGE: f"what the update of `{row.tensor}` adds to its output",
        Quantity.CHANGE: f"the change of what {where} returns",
        Quantity.FEATURES_CHANGE: f"the change of what {where} reads",
    }[row.quantity]


def _diverged(plan: Plan, measured: Measurement, row: Row, power: str) -> str:
    return (
        f"`{row.tensor}` or what its module returns is not finite after {measured.steps} "
        f"{'step' if measured.steps == 1 else 'steps'}, though every initialisation and learning rate "
        "that could be measured scales as planned. Take a smaller learning rate."
    )


_TEXTS = {
    Cause.INITIALISATION: _initialisation,
    Cause.LEARNING_RATE: _learning_rate,
    Cause.FORWARD: _forward,
    Cause.ATTENTION: _attention,
    Cause.WIDTHS: _widths,
    Cause.DIVERGED: _diverged,
}


def _measured(row: Row) -> str:
    return f"{row.fit.slope:+.2f} ± {row.fit.sem:.2f}"
