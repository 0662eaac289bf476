r"""What bounds a common learning rate, and which tensors then learn too slowly.

The response to one small step is linear in the learning rate. If something responds by $n^p$ at the rates of the
script, the rates may be multiplied by $n^{-p}$ at most. The largest $p$ of all is the power $c^*$ by which a common
factor must fall; what has it is the bottleneck. At that factor the features move by $n^{-r}$,
$r=c^*-p_\text{features}$, and a tensor whose own step moves what it writes by less than others do wastes the
difference.

Source: TP4 3.2, the exponent $r$, measured; $s=1-2r$ of Yaida 2210.04909.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from scalewise._readable import readable
from scalewise.plan._fits import Fit, Status, power_law
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._roles import Role
from scalewise.plan.audit._powers import APART, TensorPowers, reads

_MOVERS = (Role.INPUT, Role.HIDDEN, Role.VECTOR)


class Bound(StrEnum):
    """Quantity that responds to a step."""

    OWN = "own change"  # what a tensor writes, by its own step
    PASSED = "passed on"  # the logits, by what the features move
    ATTENTION = "attention logits"
    FEATURES = "features"  # what the readout reads


@dataclass(frozen=True)
@readable
class Limit:
    """Something that responds to a step.

    Args:
        place: The tensor, or the module that makes attention logits.
        bound: What responds.
        fit: By which power of the width, at the rates of the script.
    """

    place: str
    bound: Bound
    fit: Fit

    def __str__(self) -> str:
        where = f"`{self.place}`" if self.place else "the model"
        power = f"n^({self.fit.slope:+.2f} ± {self.fit.sem:.2f})"
        return {
            Bound.OWN: f"the step of `{self.place}` moves what it writes by {power}",
            Bound.PASSED: f"`{self.place}`, as it starts, passes on what the features move by {power}",
            Bound.ATTENTION: f"the attention logits of {where} move by {power}",
            Bound.FEATURES: f"what `{self.place}` reads moves by {power}",
        }[self.bound]


@dataclass(frozen=True)
@readable
class Waste:
    """A tensor that learns more slowly than others allow.

    Args:
        tensor: Its name.
        power: By which power of the width its rate could be larger.
        factor: That at the target's width, from the smallest that was measured.
    """

    tensor: str
    power: float
    factor: float


def limits_of(
    tensors: Iterable[TensorPowers], measured: Measurement, features: Fit
) -> tuple[Limit, ...]:
    """Limits of the learning rate, the steepest first.

    Args:
        tensors: Powers of each.
        measured: What they were fitted to.
        features: The power by which the features move, beside their size.
    """
    out = [Limit(t.name, Bound.OWN, t.own_change) for t in tensors if t.role is not Role.FIXED]
    for name in measured.readouts:
        passed = power_law(measured.widths, measured.of(name, Quantity.PASSED))
        out.append(Limit(name, Bound.PASSED, passed))
        out.append(Limit(name, Bound.FEATURES, features))
    for (place, quantity), sizes in measured.attention.items():
        if quantity is Quantity.LOGITS_CHANGE:
            out.append(Limit(place, Bound.ATTENTION, power_law(measured.widths, sizes)))
    found = [one for one in out if one.fit.status in (Status.FITTED, Status.DIVERGED)]
    return tuple(sorted(found, key=lambda one: -one.fit.slope))


def binding(limits: Sequence[Limit]) -> tuple[Limit, ...]:
    """Limits that no other is surely steeper than.

    A readout before what it reads: it is drawn and learnt by settings of its own, and features are not.
    """
    if not limits:
        return ()
    top = limits[0]
    near = [one for one in limits if top.fit.slope - one.fit.slope <= APART + one.fit.error]
    order = (Bound.PASSED, Bound.ATTENTION, Bound.OWN, Bound.FEATURES)
    return tuple(sorted(near, key=lambda one: order.index(one.bound)))


def fall_of(limits: Sequence[Limit]) -> float:
    """The power by which a common factor of the rates must fall; 0 if it need not, nor may grow."""
    if not limits:
        return 0.0
    top = limits[0].fit
    return 0.0 if abs(top.slope) <= APART + top.error else top.slope


def wasted(
    tensors: Sequence[TensorPowers],
    measured: Measurement,
    tolerance: float,
    widening: float,
) -> tuple[Waste, ...]:
    """Tensors inside the network, and readouts, that learn too slowly beside the others.

    A gradient may be small for a while, as that of queries and keys that are not yet aligned: what has the role,
    rate and size at the start of a tensor that moves as the best do has the right settings too. One that moves
    faster than most of its role is not a measure for the others, and one whose output grows at initialisation moves
    slowly beside that only.

    Args:
        tensors: Powers of each.
        measured: What they were fitted to.
        tolerance: How far a power may be off.
        widening: Width of the target over the smallest that was measured.
    """
    moving = [
        t
        for t in tensors
        if t.role in _MOVERS
        and t.own_change.status is Status.FITTED
        and not reads(measured, t.name)
        and not t.grown
    ]
    usual = {t.role: median(o.own_change.slope for o in moving if o.role is t.role) for t in moving}
    steady = [t.own_change.slope for t in moving if t.own_change.slope <= usual[t.role] + APART]
    best = max(steady, default=0.0)

    def lack(t: TensorPowers, most: float) -> float:
        gap = most - t.own_change.slope
        return gap if gap > APART + tolerance + t.own_change.doubt else 0.0

    leading = [t for t in moving if not lack(t, best)]
    out = [
        (t.name, lack(t, best))
        for t in moving
        if lack(t, best) and not any(_alike(t, other) for other in leading)
    ]
    read = [t for t in tensors if t.name in measured.readouts]
    out += [(t.name, lack(t, best)) for t in read if t.own_change.status is Status.FITTED]
    return tuple(Waste(name, power, widening**power) for name, power in out if power)


def _alike(one: TensorPowers, other: TensorPowers) -> bool:
    pairs = ((one.rate, other.rate), (one.init, other.init))
    near = all(
        a.status is b.status and abs(a.slope - b.slope) <= APART + a.error + b.error
        for a, b in pairs
    )
    return one.role is other.role and one.multiplier == other.multiplier and near
