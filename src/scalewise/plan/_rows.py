"""Each quantity of each tensor: what the plan says, what was measured, and whether both agree."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable
from scalewise.plan._fits import Fit, Status, power_law
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._multiplier import Place
from scalewise.plan._names import pattern
from scalewise.plan._predicted import (
    Predicted,
    of_features,
    of_readout,
    part_of_loss,
    predictions,
    reads_out,
)
from scalewise.plan._roles import Kind, Role
from scalewise.plan._spread import ERRORS
from scalewise.plan._table import Plan
from scalewise.scaling import update_exponents

JUDGED = (
    Quantity.WEIGHT,
    Quantity.RATE,
    Quantity.GRADIENT,
    Quantity.UPDATE,
    Quantity.OWN_CHANGE,
    Quantity.OUTPUT,
    Quantity.CHANGE,
    Quantity.FEATURES,
    Quantity.FEATURES_CHANGE,
)
_DRIVEN = (Quantity.GRADIENT, Quantity.RATE, Quantity.UPDATE, Quantity.OWN_CHANGE)
_EXACT = (Quantity.WEIGHT, Quantity.RATE)
# A gradient so much below that of the same module's matrix is what rounding leaves of zero.
_ROUNDING = 1e-4
_HALF, _ZERO = Fraction(1, 2), Fraction(0)


@dataclass(frozen=True)
@readable
class Row:
    """Row of one quantity of one tensor.

    Args:
        tensor: Its name.
        quantity: Which size.
        predicted: The planned power; the largest where several parts add up.
        least: The smallest power that is not a contradiction: that of the smallest part, or minus
            infinity for an upper bound.
        fit: What was measured.
        tolerance: How far from these the slope may be.
        slack: How much further, where too few entries tell a spread.
    """

    tensor: str
    quantity: Quantity
    predicted: Fraction
    least: Fraction | float
    fit: Fit
    tolerance: float
    slack: float = 0.0

    @property
    def excess(self) -> float:
        """Distance of the slope from what is planned; infinite where the size diverged."""
        if self.fit.status is Status.DIVERGED:
            return math.inf
        if self.fit.status is not Status.FITTED:
            return 0.0
        above, below = self.fit.slope - float(self.predicted), self.fit.slope - float(self.least)
        return above if above > 0 else min(below, 0.0)

    @property
    def agrees(self) -> bool:
        """True if the slope is as planned within the tolerance and its error, or tends to it."""
        return not self._far or self.settles

    @property
    def _far(self) -> bool:
        return abs(self.excess) > self.allowed + self.slack

    @property
    def allowed(self) -> float:
        """Distance that the slope may have: twice the tolerance where the rest of the network has a part in it.

        Spreads and learning rates are what a plan sets, and are powers at any width. All else tends to its power
        as the width grows; the least that a wrong rule is off by is a quarter, of which this is half.
        """
        if self.quantity in _EXACT:
            return self.tolerance + self.fit.error
        return 2 * self.tolerance + self.fit.doubt

    @property
    def settles(self) -> bool:
        """True if the slope is off over these widths and right at the largest; spreads and rates must be exact."""
        exact = self.quantity in _EXACT
        if exact or self.fit.status is not Status.FITTED or not self._far:
            return False
        bound = self.predicted if self.excess > 0 else self.least
        return self.fit.tends_to(float(bound), 2 * self.tolerance)

    @property
    def only_just(self) -> bool:
        """True if it agrees only because too few entries tell the spread."""
        return self.slack > 0 and self.agrees and abs(self.excess) > self.allowed


def rows_of(plan: Plan, measured: Measurement, tolerance: float) -> list[Row]:
    """All rows, tensor by tensor in the order of the measurement."""
    out: list[Row] = []
    expected = predictions(
        plan,
        measured.tensors,
        zero_readout=measured.zero_readout,
        growth=measured.growth,
        modules=dict(zip(measured.tensors, measured.modules, strict=True)),
    )
    for name, p in expected.items():
        tied = _is_tied(plan, measured, name)
        for quantity in JUDGED:
            sizes = sizes_of(plan, measured, name, quantity)
            top, least = _powers(plan, measured, name, quantity, p, tied)
            shift = _beside_units(plan, measured, name, quantity, p)
            top, least = top + shift, least + shift
            drawn = quantity is Quantity.WEIGHT and name not in measured.constant
            slack = _init_slack(plan, measured, name) if drawn else 0.0
            # Weights of several losses have no part in what the model returns.
            alone = plan[name].role is Role.FIXED and plan[name].unused
            outside = part_of_loss(plan, plan[name]) or alone
            unplanned = quantity not in _EXACT and outside
            fit = Fit() if unplanned else power_law(measured.widths, sizes)
            out.append(
                Row(
                    tensor=name,
                    quantity=quantity,
                    predicted=top,
                    least=least,
                    fit=fit,
                    tolerance=tolerance,
                    slack=slack,
                )
            )
    return out


def _by_own_norms(plan: Plan) -> bool:
    """True if the model's own code divides some tensor by its own norm."""
    return any(t.directed for t in plan.tensors)


def _beside_units(
    plan: Plan, measured: Measurement, name: str, quantity: Quantity, p: Predicted
) -> Fraction:
    """Power by which sizes differ from those planned where tensors are divided by their own norms.

    Such a norm, and not the plan, says how large what they write is, and so what gains multiply. What is planned is
    how much of it a step changes.
    """
    own = plan[name].directed or plan[name].role is Role.VECTOR
    if not own or not _by_own_norms(plan):
        return _ZERO
    reads = name in measured.readouts
    seen = Quantity.FEATURES if reads else Quantity.OUTPUT
    writes = (Quantity.OUTPUT, Quantity.OWN_CHANGE, Quantity.CHANGE)
    if quantity not in ((seen, Quantity.FEATURES_CHANGE) if reads else writes):
        return _ZERO
    fit = power_law(measured.widths, sizes_of(plan, measured, name, seen))
    planned = _powers(plan, measured, name, seen, p, tied=False)[0]
    return (
        Fraction(round(4 * (fit.slope - float(planned))), 4)
        if fit.status is Status.FITTED
        else _ZERO
    )


def passed_on(plan: Plan, measured: Measurement) -> Measurement:
    """Sizes as the model passes them on: what its own code was seen to multiply after a module counts too.

    Powers that are planned are those of what the modules return; whether anything grows is told from this.
    """
    powers = {n: _after(plan, measured, n) for n in measured.tensors}
    if not any(powers.values()):
        return measured
    widths = measured.widths / measured.widths[0]
    factors = np.array([widths ** float(powers[n]) for n in measured.tensors])[:, :, None]
    returned = (
        Quantity.OUTPUT,
        Quantity.CHANGE,
        Quantity.OWN_CHANGE,
        Quantity.PASSED,
        Quantity.GROWN_CHANGE,
    )
    sizes = {q: s * factors if q in returned else s for q, s in measured.sizes.items()}
    return replace(measured, sizes=sizes)


def _after(plan: Plan, measured: Measurement, name: str) -> Fraction:
    """The power of the width by which the model's own code multiplies what the module of a tensor returns."""
    if _is_tied(plan, measured, name):
        return _ZERO
    together = [plan[n] for n in (name, *_beside(measured, name))]
    return max((t.gauge.after for t in together), key=abs)


def _is_tied(plan: Plan, measured: Measurement, name: str) -> bool:
    return name in measured.readouts and plan[name].role is not Role.OUTPUT


def attention_rows(plan: Plan, measured: Measurement, tolerance: float) -> list[Row]:
    """Attention logits and their change, by kind of module: neither may grow with the width.

    Queries and keys align from the first step on, so the change shows the power of the whole to come; at
    initialisation a scale that is too large by the root of the size of a head looks right.
    """
    out, most = [], _ZERO
    wanted = (Quantity.LOGITS, Quantity.LOGITS_CHANGE, Quantity.LOGITS_STEP)
    for place in dict.fromkeys(p for p, _ in measured.attention):
        start, change, step = (measured.attention[place, q] for q in wanted)
        if any(t.law.follows for t in plan.tensors) and np.all(step > 0):
            # How far queries and keys move is a gradient, which scatters from network to network; beside
            # it the change is a clean power. Where they move less and less, it may be larger.
            change = change / step
            plain = plan.strategy.plain_biases
            most = _ZERO if plain else max(update_exponents(plan.strategy)[-1], _ZERO)
        top = most + _left(plan, place)
        sizes = ((Quantity.LOGITS, start, _ZERO), (Quantity.LOGITS_CHANGE, change, top))
        for quantity, found, limit in sizes:
            fit = power_law(measured.widths, found)
            out.append(Row(place, quantity, limit, -math.inf, fit, tolerance))
    return out


def _left(plan: Plan, place: str) -> Fraction:
    """The power by which attention logits may grow whose factor is left as it is, as asked."""
    powers = (
        m.left
        for m in plan.multipliers
        if m.place is Place.ATTENTION and m.left and place in (pattern(m.name), m.name, "")
    )
    return max(powers, default=_ZERO)


def returned_rows(plan: Plan, measured: Measurement, tolerance: float) -> list[Row]:
    """Rows of what the model returns where products of its features take the place of a readout.

    Features of independent tensors are not aligned before the first step, so it may start as small as it will.
    """
    if measured.readouts or measured.returned is None or measured.returned_first is None:
        return []
    moves = of_features(plan, measured.zero_readout, measured.growth)
    least = -math.inf if starts_small(plan) else min(moves, default=_ZERO)
    first = power_law(measured.widths, measured.returned_first)
    moved = power_law(measured.widths, measured.returned)
    return [
        Row("", Quantity.OUTPUT, _ZERO, -math.inf, first, tolerance),
        Row("", Quantity.CHANGE, _ZERO, least, moved, tolerance),
    ]


def sizes_of(
    plan: Plan, measured: Measurement, name: str, quantity: Quantity
) -> Float[np.ndarray, "width seed"]:
    """Sizes as they are fitted: rates are derived, and gradients that are only rounding are zero."""
    if quantity in _DRIVEN and _is_rounding(plan, measured, name):
        return np.zeros((len(measured.widths), measured.seeds))
    if quantity is Quantity.GRADIENT:
        return measured.of(name, quantity) / from_loss(plan, measured)
    if quantity is not Quantity.RATE:
        return measured.of(name, quantity)
    step, law = measured.of(name, Quantity.STEP), plan[name].law
    # Exact, whatever the gradient: a learning rate is told from all that precedes it.
    driven = (
        (Quantity.GRADIENT, law.degree),
        (Quantity.WEIGHT, (law.degree - 1) * law.norm.weight),
    )
    for of, power in driven:
        size = measured.of(name, of)
        if power:
            some = np.where(size != 0, size, 1.0) ** float(power)
            step = np.where(size != 0, step / some, 0.0 if of is Quantity.GRADIENT else step)
    return step


def from_loss(plan: Plan, measured: Measurement) -> Float[np.ndarray, "width seed"]:
    """The largest gradient of a readout where tensors of fixed size follow them, as those of a norm; else 1."""
    if not (measured.readouts and any(part_of_loss(plan, t) for t in plan.tensors)):
        return np.ones((len(measured.widths), measured.seeds))
    # The loss does not depend on the power that is planned for a readout by itself.
    widths = (measured.widths / measured.widths[0])[:, None]
    found = [
        measured.of(n, Quantity.GRADIENT) / widths ** float(plan[n].gauge.total)
        for n in measured.readouts
    ]
    largest = np.max([np.where(np.isfinite(g), g, 0.0) for g in found], axis=0)
    return np.where(largest > 0, largest, 1.0)


def _is_rounding(plan: Plan, measured: Measurement, name: str) -> bool:
    """True if a bias has no gradient but rounding: before a softmax or a norm it may change nothing."""
    if not _is_added(plan, name):
        return False
    others = [n for n in _beside(measured, name) if plan[n].kind is Kind.MATRIX or _sums(plan, n)]
    own = measured.of(name, Quantity.GRADIENT)
    return any(np.all(own < _ROUNDING * measured.of(n, Quantity.GRADIENT)) for n in others)


def _powers(
    plan: Plan, measured: Measurement, name: str, quantity: Quantity, p: Predicted, tied: bool
) -> tuple[Fraction, Fraction | float]:
    """The predicted power, and the least one that agrees."""
    if quantity is Quantity.WEIGHT and plan[name].role is Role.FIXED and _is_added(plan, name):
        # A bias of a fixed number of units is learnt at its own rate: one that starts smaller only starts smaller.
        # A single one has no spread by which the plan could tell, or change, how it is drawn.
        return p.weight, -math.inf
    if quantity is Quantity.WEIGHT and name in measured.constant and not plan[name].of:
        return _ZERO, _ZERO
    if quantity is Quantity.OUTPUT and name in measured.readouts:
        # A bias at the output is of order one, and so is what is summed beside the width; a narrow network shows
        # some of each.
        _, power = _readout(plan, measured)
        # A tied readout may meet its own embedding again, entry by entry.
        power += _HALF if tied else 0
        beside = any(_is_added(plan, n) for n in _beside(measured, name)) or plan[name].fixed
        return (max(power, _ZERO) if beside else power) - _after(plan, measured, name), -math.inf
    if quantity is Quantity.CHANGE:
        parts = p.parts
        if tied:
            parts = tuple(_readout(plan, measured)[0])
        return max(parts), -math.inf if starts_small(plan) else min(parts)
    if quantity in (Quantity.FEATURES, Quantity.FEATURES_CHANGE):
        if name not in measured.readouts:
            return _ZERO, _ZERO
        # What the model's own code multiplies on the way there is in what is read.
        gauge = plan[name].gauge
        # Where no module reads out, it is the tensor itself that is given it.
        alone = measured.modules[measured.tensors.index(name)] == name
        shift = _ZERO if tied else gauge.before + (gauge.inside if alone else _ZERO)
        top, least = (power + shift for power in _of_features(plan, measured, quantity))
        # What a tied readout reads is scaled down on its way; what comes through a bottleneck moves late.
        return top, -math.inf if tied or starts_small(plan) else least
    power: Fraction = getattr(p, str(quantity))
    if quantity in _EXACT:
        return power, power
    # Queries and keys that are not yet aligned learn through small attention logits.
    scaled = plan.multiplies(Place.ATTENTION) or plan.multiplies(Place.DISTANCE)
    late = scaled and quantity in _DRIVEN and not reads_out(plan, plan[name])
    if late or starts_small(plan):
        return power, -math.inf
    least = getattr(p, f"{quantity}_least", power)
    kind = plan[name].kind
    gain = kind is Kind.GAIN or (kind is Kind.UNKNOWN and _by_own_norms(plan))
    if (
        gain
        and plan[name].role is Role.FIXED
        and quantity in (Quantity.OWN_CHANGE, Quantity.GRADIENT)
    ):
        # A gain behind the readout multiplies what that returns, which starts small.
        own = quantity is Quantity.OWN_CHANGE
        return power, min(least, _readout(plan, measured)[1]) if own else -math.inf
    return power, least


def _readout(plan: Plan, measured: Measurement) -> tuple[list[Fraction], Fraction]:
    return of_readout(plan, zero_readout=measured.zero_readout, growth=measured.growth)


def starts_small(plan: Plan) -> bool:
    """True if sizes in a plan are upper bounds, because a part of the network comes through a bottleneck.

    That starts small and grows as it is trained, and whatever reads it, directly or not, does so too; unless a norm
    takes its size away.
    """
    return any(t.role is Role.BOTTLENECK and not t.normed for t in plan.tensors)


def _of_features(
    plan: Plan, measured: Measurement, quantity: Quantity
) -> tuple[Fraction, Fraction]:
    size = -plan.strategy.hidden.p / 2
    if quantity is Quantity.FEATURES:
        return size, size
    owns = of_features(plan, measured.zero_readout, measured.growth)
    return max(owns, default=_ZERO), min(owns, default=_ZERO)


def _beside(measured: Measurement, name: str) -> list[str]:
    """The tensors that write to the same output as one."""
    module = measured.modules[measured.tensors.index(name)]
    pairs = zip(measured.tensors, measured.modules, strict=True)
    return [n for n, m in pairs if m and m == module and n != name]


def _is_added(plan: Plan, name: str) -> bool:
    """True if a tensor is a bias; where its module says nothing, its role tells."""
    kind, role = plan[name].kind, plan[name].role
    return kind is Kind.BIAS or (kind is Kind.UNKNOWN and role in (Role.VECTOR, Role.FIXED))


def _sums(plan: Plan, name: str) -> bool:
    """True if a tensor is summed over, though its module says nothing."""
    return plan[name].kind is Kind.UNKNOWN and not _is_added(plan, name)


def _init_slack(plan: Plan, measured: Measurement, name: str) -> float:
    """Uncertainty of the power of a spread that too few entries tell exactly."""
    tensor = plan[name]
    x = np.log2(measured.widths) - np.mean(np.log2(measured.widths))
    leverage = float(np.abs(x).sum() / (x @ x))
    return leverage * ERRORS * math.sqrt(2) * tensor.base.error / math.log(2)
