"""Which tensor is to blame: causes told apart from what follows from them.

Two things are measured on each tensor alone, whatever the rest of the network does: the spread it starts with,
and its learning rate (its step over its gradient, or its step where the optimizer takes steps of fixed size).
Where one of them is off, that tensor is the cause; all other deviations may follow from it. Where none is,
the forward pass itself must scale otherwise than planned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from scalewise.plan.fits import Status
from scalewise.plan.measurement import Measurement, Quantity
from scalewise.plan.rows import Row
from scalewise.plan.table import Plan

__all__ = ["Cause", "Culprit", "diagnose"]


# No rule that is wrong is wrong by less.
_EIGHTH = 0.125


class Cause(StrEnum):
    """What is wrong with a tensor."""

    INITIALISATION = "initialisation"
    LEARNING_RATE = "learning rate"
    FORWARD = "forward pass"
    ATTENTION = "attention"
    WIDTHS = "finite width"
    DIVERGED = "diverged"


@dataclass(frozen=True)
class Culprit:
    """A tensor that does not scale as planned, of itself.

    Args:
        tensor: Its name.
        cause: What is wrong.
        power: By which power of the width, to the nearest quarter; 0 where the size diverged.
        row: The measurement that shows it.
        text: All of this in whole sentences.
    """

    tensor: str
    cause: Cause
    power: Fraction
    row: Row
    text: str

    def __str__(self) -> str:
        return self.text


def diagnose(
    plan: Plan, measured: Measurement, rows: Sequence[Row], attention: Sequence[Row] = ()
) -> tuple[Culprit, ...]:
    """The causes among all deviations; empty if everything agrees.

    Args:
        plan: What was planned.
        measured: What the rows were fitted to.
        rows: All rows, in the order of the forward pass.
        attention: Those of attention logits.
    """
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
    logits = [r for r in attention if not r.agrees and r.fit.status is Status.FITTED]
    if logits and not own:
        worst = {r.tensor: r for r in sorted(logits, key=lambda r: r.excess)}
        return tuple(_culprit(plan, measured, r, Cause.ATTENTION) for r in worst.values())
    if own or not off:
        return tuple(own)
    finite = [r for r in off if r.fit.status is Status.FITTED]
    if not finite:
        return (_culprit(plan, measured, off[0], Cause.DIVERGED),)
    # Forward what comes first is the nearest to the cause, backward what comes last.
    forward = (Quantity.OUTPUT, Quantity.FEATURES)
    backward = (Quantity.GRADIENT,)
    sizes = [r for r in finite if r.quantity in forward]
    gradients = [r for r in finite if r.quantity in backward]
    nearest = sizes[0] if sizes else gradients[-1] if gradients else finite[0]
    small = all(abs(r.excess) < _EIGHTH for r in finite)
    return (_culprit(plan, measured, nearest, Cause.WIDTHS if small else Cause.FORWARD),)


def _culprit(plan: Plan, measured: Measurement, row: Row, cause: Cause) -> Culprit:
    power = Fraction(0) if math.isinf(row.excess) else Fraction(round(4 * row.excess), 4)
    text = _TEXTS[cause](plan, measured, row, power)
    return Culprit(row.tensor, cause, power, row, text)


def _initialisation(plan: Plan, measured: Measurement, row: Row, power: Fraction) -> str:
    return (
        f"`{row.tensor}` is initialised too {'large' if row.excess > 0 else 'small'}, by n^({power}): the "
        f"size of its entries goes as n^({_measured(row)}), planned is n^({row.predicted}). Initialise it "
        "with plan.init_, or by that rule."
    )


def _learning_rate(plan: Plan, measured: Measurement, row: Row, power: Fraction) -> str:
    of_what = "its step over its gradient" if plan.optimizer == "sgd" else "its step"
    eps = "" if plan.optimizer == "sgd" else " (or an eps above its gradients)"
    return (
        f"`{row.tensor}` has a learning rate too {'large' if row.excess > 0 else 'small'}, by n^({power})"
        f"{eps}: {of_what} goes as n^({_measured(row)}), planned is n^({row.predicted}). Take its group "
        "from plan.param_groups."
    )


def _forward(plan: Plan, measured: Measurement, row: Row, power: Fraction) -> str:
    needed = ", ".join(f"`{m.name}`" for m in plan.multipliers)
    check_them = f" (the plan has multipliers for {needed}: see plan.multipliers)" if needed else ""
    return (
        f"The initialisation and the learning rate of every tensor are as planned, but "
        f"{_what(measured, row)} is off by n^({power}): it goes as n^({_measured(row)}), planned is "
        f"n^({row.predicted}). Either the forward pass multiplies there by another power of the width than "
        f"planned{check_them}, or the role of a tensor is another: see print(plan), and say it with "
        "roles={...}."
    )


def _attention(plan: Plan, measured: Measurement, row: Row, power: Fraction) -> str:
    said = any(m.name == "attention" for m in plan.multipliers)
    lacks = (
        'The plan has the multiplier "attention", and the forward pass does not apply it (see plan.multipliers).'
        if said
        else "Heads that grow need logits over the size of a head, not over its root."
    )
    which = "" if row.quantity is Quantity.LOGITS_CHANGE else " at initialisation"
    change = "the change of " if row.quantity is Quantity.LOGITS_CHANGE else ""
    return (
        f"The initialisation and the learning rate of every tensor are as planned, but {change}the attention "
        f"logits of `{row.tensor or 'the model'}`{which} grow by n^({_measured(row)}). {lacks}"
    )


def _widths(plan: Plan, measured: Measurement, row: Row, power: Fraction) -> str:
    return (
        f"The initialisation and the learning rate of every tensor are as planned, but "
        f"{_what(measured, row)} goes as n^({_measured(row)}), planned is n^({row.predicted}). No wrong rule "
        "is off by so little: the widths are too small for this batch. Take larger widths, or a batch of "
        "fewer samples or tokens than the smallest width."
    )


def _what(measured: Measurement, row: Row) -> str:
    module = measured.modules[measured.tensors.index(row.tensor)]
    where = f"`{module}`" if module else "the model"
    return {
        Quantity.OUTPUT: f"what {where} returns at initialisation",
        Quantity.FEATURES: f"what {where} reads at initialisation",
        Quantity.GRADIENT: f"the gradient of `{row.tensor}`",
        Quantity.UPDATE: f"the update of `{row.tensor}`",
        Quantity.OWN_CHANGE: f"what the update of `{row.tensor}` adds to its output",
        Quantity.CHANGE: f"the change of what {where} returns",
        Quantity.FEATURES_CHANGE: f"the change of what {where} reads",
    }[row.quantity]


def _diverged(plan: Plan, measured: Measurement, row: Row, power: Fraction) -> str:
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
