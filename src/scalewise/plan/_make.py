"""A plan from what a framework's adapter found out about a model."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from fractions import Fraction

from scalewise.plan._axes import ratios_of
from scalewise.plan._computed import refuse_bounded
from scalewise.plan._decide import Decision, decided, fan_in_ratio
from scalewise.plan._errors import PlanError
from scalewise.plan._experts import experts_asked
from scalewise.plan._forward import Gauge
from scalewise.plan._kept import kept, readout_left, refuse_unknown
from scalewise.plan._multiplier import Multiplier, Place
from scalewise.plan._names import matching
from scalewise.plan._planner import Planner
from scalewise.plan._powers import Powers
from scalewise.plan._probed import Probe, all_axes
from scalewise.plan._products import Needed, of_activations
from scalewise.plan._questions import Question, Wording, ask
from scalewise.plan._request import Request
from scalewise.plan._roles import Kind, Role, RoleSpec
from scalewise.plan._table import Plan, TensorPlan

_HALF = Fraction(1, 2)
_PLAIN = Wording()


def make_plan(
    probe: Probe, request: Request, *, by_hooks: bool = False, wording: Wording = _PLAIN
) -> Plan:
    """Decide the role of every tensor and write down its settings.

    Args:
        probe: The model at the sizes to compare.
        request: What the user asks for.
        by_hooks: Whether the adapter can multiply what enters a readout, so that this need not be said.
        wording: What the adapter adds to questions.

    Raises:
        PlanError: If something is left that only the user knows: a role, a multiplier that is not among
            those that the model applies, whether an embedding reads out. All of it is asked at once.
    """
    r, strategy, width = request, request.strategy, request.wider
    decisions, questions = decided(
        probe.base,
        probe.wide,
        probe.wide_ratio,
        r.roles,
        further=probe.further,
        wording=wording,
        paths=None if probe.passes is None else probe.passes.narrow.paths,
        uses=None if probe.passes is None else probe.passes.narrow.uses,
    )
    questions += experts_asked(probe, r)
    planner = Planner(probe, request, decisions)
    refuse_bounded(decisions, strategy, planner.gauges[0])
    rows = tuple(map(planner.row, decisions))
    readouts = _tied_readouts(decisions, planner, width)
    seen = (n for found in planner.gauges for n in found)
    refuse_unknown(r.keep, probe.passes, seen, (m.name for m, _ in readouts))
    readouts = [
        (readout_left(m.name, _lacking(m, width)), False) if kept(r.keep, m.name) else (m, lacks)
        for m, lacks in readouts
    ]
    inside = of_activations(probe, r)
    needed = [*readouts, *inside]
    # Where the model's own code reads out there is no module, and no hook.
    names = {d.tensor.name for d in decisions}
    bare = [n for n in readouts if n[0].name in names]
    questions += _acknowledged([*bare, *inside] if by_hooks else needed, r.multiplied)
    # Where the network's output is a product of activations, an embedding need not multiply at the end.
    rest = [t for t in rows if t.ends] if any(m.place.may_read_out for m, _ in inside) else rows
    # What the code itself only adds, or takes differences from, was seen not to read out.
    uses = {} if probe.passes is None else probe.passes.narrow.uses
    added = {n for n, found in uses.items() if {u.verb for u in found} == {"added"}}
    rest = [t for t in rest if t.name not in added]
    ask([*questions, *([] if readouts else _unseen_readout(rest, r.roles, wording))])
    needed += [] if planner.absorbing else _of_branches(r.residual, r.deeper)
    _known(r.multiplied, [m for m, _ in needed], planner.kept)
    return Plan(
        strategy=strategy,
        optimizer=r.optimizer,
        base=dict(r.base),
        target=dict(r.target),
        width=width,
        depth=r.deeper,
        residual=r.residual,
        tensors=rows,
        multipliers=tuple(m for m, _ in needed),
        width_name=r.width,
        depth_name=r.depth or "depth",
        looked=probe.passes is not None,
        adjust=r.adjust,
        axes=all_axes(probe, ratios_of(r.base, r.target)),
        policy=tuple(p.name for p in r.training.policies),
        decay=r.training.decay and r.training.decay.name,
        half_life=r.training.half_life,
    )


def _unseen_readout(
    tensors: Collection[TensorPlan], roles: Mapping[str, RoleSpec], wording: Wording
) -> list[Question]:
    """An embedding of a model without a readout may read out by a function call, which no module shows."""
    tied = any(t.kind is Kind.LOOKUP and t.aliases for t in tensors)
    if tied or any(t.role is Role.OUTPUT for t in tensors):
        return []
    names = [n for t in tensors for n in (t.name, *t.aliases)]
    said = {n for wanted in roles for n in matching(wanted, names)}
    lookups = (t.name for t in tensors if t.kind is Kind.LOOKUP and t.role is Role.INPUT)
    name = next((name for name in lookups if name not in said), None)
    if name is None:
        return []
    text = (
        f"The model has the embedding `{name}` and no readout. {wording.readout.format(name=name)}; if the model "
        f'returns features, say roles={{"{name}": "input"}}.'
    )
    return [
        Question(text, {"readouts": [name]} if wording.readouts else {"roles": {name: "input"}})
    ]


def _of_branches(residual: Fraction, depth: Fraction) -> list[Needed]:
    """Multiplier of residual branches, if the depth asks for one."""
    if not residual:
        return []
    factor = Powers(depth=-residual).factor({"depth": depth})
    return [
        (
            Multiplier(
                Place.BRANCH.value, factor, "Multiply each residual branch by it.", Place.BRANCH
            ),
            False,
        )
    ]


def _acknowledged(needed: Collection[Needed], multiplied: Collection[str]) -> list[Question]:
    asked = [m for m, lacking in needed if lacking and m.name not in multiplied]
    if not asked:
        return []
    told = " ".join(f"{m.where} At the target its value is {m.factor:.6g}." for m in asked)
    all_ = list(dict.fromkeys([*multiplied, *(m.name for m in asked)]))
    names = ", ".join(f'"{n}"' for n in all_)
    inside = ", ".join(f'"{m.name}"' for m in asked if m.place.between_activations)
    leave = f", or leave the model's own factor as it is with keep=[{inside}]" if inside else ""
    return [
        Question(
            f"{told} No initialisation or learning rate can stand for it: apply it and say so with "
            f"multiplied=[{names}]{leave}.",
            {"multiplied": all_},
        )
    ]


def _known(
    multiplied: Collection[str], needed: Collection[Multiplier], kept: Collection[str]
) -> None:
    unknown = set(multiplied) - {m.name for m in needed} - set(kept)
    if unknown:
        raise PlanError(
            f"`multiplied` names {', '.join(sorted(map(repr, unknown)))}, but this model needs "
            f"{', '.join(repr(m.name) for m in needed) or 'no multiplier'}."
        )


def _tied_readouts(decisions: list[Decision], planner: Planner, width: Fraction) -> list[Needed]:
    """The factor that makes an embedding's weights small enough to read out with."""
    out, strategy = [], planner.request.strategy
    first, last = strategy.first, strategy.last
    for d in decisions:
        if d.readout is None or strategy.plain_biases:
            continue
        if first.p - last.p - first.q + last.q != 0 or first.p != 0:
            raise PlanError(
                f"`{d.tensor.name}` is tied to the readout `{d.readout}`, and under {strategy} no "
                "multiplier gives both the size and the learning rate they need. Untie them, or take a "
                "strategy of the family from neural tangent to maximal update."
            )
        name = d.tensor.name
        shape = planner.widened[name].shape
        summed = Decision(d.tensor, Role.OUTPUT, d.layer, d.fan_in)
        ratios = {"fan_in": fan_in_ratio(summed, d.tensor.shape, shape), "width": width}
        # Beside what the model's own code does to the readout, and to the embedding.
        pair = planner.gauges if name not in planner.again else (planner.again, planner.gauges[0])
        own = [seen.get(name, Gauge()).total for seen in pair]
        powers = Powers(-_HALF, -last.p / 2 - own[0] + own[1])
        own_code = d.readout == d.tensor.name
        bare = d.tensor.owner == d.tensor.name
        what = "embedding" if d.tensor.kind is Kind.LOOKUP else "tensor" if bare else "layer"
        where = (
            (
                f"The forward pass also reads out with the weights of the {what} `{d.readout}`, by their transpose "
                "and without a module, which are too large for it at a larger width: multiply what is read out "
                "there by a factor that falls with the width, or let a module do it that shares them."
            )
            if own_code
            else (
                f"`{d.readout}` reads out with the weights of the {what} `{d.tensor.name}`, which are too "
                f"large for it at a larger width: multiply what enters `{d.readout}` by a factor that falls "
                "with the width."
            )
        )
        if last.p < 1:
            where += (
                f" Under {strategy} that is not enough if a residual stream carries the embedding to the "
                "readout, where it meets itself and makes logits grow: untie the two there."
            )
        lacking = powers.of_width != 0
        factor = powers.factor(ratios) if lacking else 1.0
        out.append((Multiplier(d.readout, factor, where, Place.READOUT), lacking))
    return out


def _lacking(m: Multiplier, width: Fraction) -> Fraction:
    """The power of the width that a factor at another size tells."""
    if m.factor == 1 or width == 1:
        return Fraction(0)
    return Fraction(math.log(m.factor) / math.log(width)).limit_denominator(4)
