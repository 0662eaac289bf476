"""A plan from what a framework's adapter found out about a model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from scalewise.plan._axes import axis_rules
from scalewise.plan._decide import Decision, decided, fan_in_ratio
from scalewise.plan._description import ModelDescription, TensorDescription
from scalewise.plan._errors import PlanError
from scalewise.plan._forward import Gauge, Heads, attentions, gauges
from scalewise.plan._laws import known_optimizer
from scalewise.plan._names import matching, pattern
from scalewise.plan._policies import Training
from scalewise.plan._powers import Powers, Ratios
from scalewise.plan._probed import (
    Along,
    Probe,
    all_axes,
    blocks_of,
    head_size,
    is_looked_up,
    times,
)
from scalewise.plan._questions import Question, Wording, ask
from scalewise.plan._roles import Kind, Role, RoleSpec
from scalewise.plan._rules import rule
from scalewise.plan._spread import ERRORS, pooled
from scalewise.plan._table import Multiplier, Plan, Spread, TensorPlan
from scalewise.scaling import Strategy, update_exponents

_HALF = Fraction(1, 2)
_PLAIN = Wording()
_FIXED = Training()


def make_plan(
    probe: Probe,
    strategy: Strategy,
    *,
    optimizer: str,
    base: Mapping[str, Any],
    target: Mapping[str, Any],
    width: Fraction,
    depth: Fraction,
    roles: Mapping[str, RoleSpec] | None = None,
    residual: Fraction = Fraction(0),
    branch_outputs: Collection[str] = (),
    multiplied: Collection[str] = (),
    adjust: str = "none",
    by_hooks: bool = False,
    wording: Wording = _PLAIN,
    width_name: str = "width",
    depth_name: str = "depth",
    axes: Mapping[str, Fraction] | None = None,
    training: Training = _FIXED,
    blocks: Mapping[str, int | str] | None = None,
) -> Plan:
    r"""Decide the role of every tensor and write down its settings.

    Args:
        probe: The model at the sizes to compare.
        strategy: Exponents for the first, the hidden and the last layer.
        optimizer: Name of the optimizer.
        base: What the factory was called with at the base.
        target: The same at the target.
        width: Target over base width.
        depth: Target over base depth.
        roles: What the user says of tensors: pattern to role.
        residual: $\alpha$: branches are multiplied by (depth)$^{-\alpha}$.
        branch_outputs: Patterns of the tensors that end a branch and may carry its multiplier.
        multiplied: Names of the multipliers that the forward pass applies.
        adjust: What the library multiplies the steps of the optimizer by, as a function of the shape.
        by_hooks: Whether the adapter can multiply what enters a readout, so that this need not be said.
        wording: What the adapter adds to questions.
        width_name: What the factory calls its width.
        depth_name: What it calls its depth.
        axes: Target over base of further sizes, as `Ratios` names them.
        training: What follows batch and duration, and weight decay.
        blocks: Pattern of names to the number of blocks of rows that the optimizer treats apart.

    Raises:
        PlanError: If something is left that only the user knows: a role, a multiplier that is not among
            `multiplied`, whether an embedding reads out. All of it is asked at once.
    """
    decisions, questions = decided(
        probe.base, probe.wide, probe.wide_ratio, roles, further=probe.further, hint=wording.bare,
        paths=None if probe.passes is None else probe.passes.narrow.paths,
    )  # fmt: skip
    repeated = _blocks(probe.base, probe.shallow)
    absorbing = _absorbing(branch_outputs, [d.tensor.name for d in decisions])
    targets, widened = probe.target.named(), (probe.widened or probe.target).named()
    along, apart = Along(probe), blocks_of(blocks or {}, base, target, targets)
    weights, lookups = ({}, {}) if probe.passes is None else gauges(probe.passes)
    drawn, trainer = _drawn_by_depth(probe), known_optimizer(optimizer)
    ends = _ends(probe, decisions)

    def of_tensor(d: Decision) -> TensorPlan:
        t = d.tensor
        in_block, absorbs = t.name in repeated, t.name in absorbing
        gauge = (lookups if is_looked_up(probe.passes, t) else weights).get(t.name, Gauge())
        trains = trainer.of(d.role, t.kind, len(t.shape))
        powers = rule(
            strategy, d.role, d.layer, trains.law, residual=residual, in_block=in_block,
            absorbs_branch=absorbs, forward=gauge.total, training=training,
        ) * axis_rules(
            t, along.seen(t.name), trains.law, strategy, forward=along.forward(t)
        )  # fmt: skip
        shape, wide = targets[t.name].shape, widened[t.name].shape
        spread = probe.spreads.get(t.name, Spread(0.0, 0.0, 0.0))
        if residual and t.name in repeated:
            # As it would be drawn at the base's depth: the multiplier of branches is the plan's to give.
            spread = replace(spread, std=spread.std / drawn.get(_law(t), 1.0))
        return TensorPlan(
            t.name, d.role, d.layer, t.kind, t.module, t.owner, t.shape, shape,
            fan_in_ratio(d, t.shape, wide), in_block, powers, spread, t.aliases, gauge,
            trains.name, trains.law, times(wide, shape), apart.get(t.name, (1, 1)), _terms(d),
            ends=t.name in ends,
        )  # fmt: skip

    rows = tuple(map(of_tensor, decisions))
    readouts = _tied_readouts(decisions, strategy, widened, width, (weights, lookups))
    inside = _attention(probe, strategy, width, head_size(base, target, width))
    needed = [*readouts, *inside]
    questions += _acknowledged(inside if by_hooks else needed, multiplied)
    ask([*questions, *_unseen_readout(rows, roles or {}, wording)])
    needed += [] if absorbing else _of_branches(residual, depth)
    _known(multiplied, [m for m, _ in needed])
    return Plan(
        strategy, optimizer, dict(base), dict(target), width, depth, residual,
        rows, tuple(m for m, _ in needed), width_name, depth_name, probe.passes is not None,
        adjust, all_axes(probe, axes), tuple(p.name for p in training.policies),
        training.decay and training.decay.name, training.half_life,
    )  # fmt: skip


def _terms(d: Decision) -> int:
    """How many terms a tensor sums over at the base; 1 where rows are picked, 0 where nothing is summed."""
    if d.tensor.kind is Kind.LOOKUP:
        return 1
    axes = d.fan_in or (d.tensor.fan_in if d.tensor.kind is Kind.MATRIX else ())
    return math.prod(d.tensor.shape[i] for i in axes) if axes else 0


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


def _law(t: TensorDescription) -> tuple[object, ...]:
    """What tensors of all depths have in common that are drawn from one law."""
    return pattern(t.name), t.shape, t.kind, t.module


def _drawn_by_depth(probe: Probe) -> dict[tuple[object, ...], float]:
    """How much larger the factory itself draws a kind of tensor at the target's depth than at the base's."""
    if probe.shallow is None:
        return {}
    pairs = ((probe.base, probe.spreads), (probe.shallow, probe.shallow_spreads))
    one, two = ({}, {})
    for into, (model, spreads) in zip((one, two), pairs, strict=True):
        for t in model.tensors:
            if t.name in spreads:
                into.setdefault(_law(t), []).append(spreads[t.name])
    out = {}
    for law in one.keys() & two.keys():
        deep, shallow = pooled(one[law]), pooled(two[law])
        if deep.std and shallow.std:
            error = math.hypot(deep.error, shallow.error)
            ratio = deep.std / shallow.std
            out[law] = ratio if abs(math.log(ratio)) > ERRORS * error else 1.0
    return out


def _blocks(deep: ModelDescription, shallow: ModelDescription | None) -> set[str]:
    """Tensors of which there are more, or fewer, at another depth."""
    if shallow is None:
        return set()

    key = _law
    one, two = Counter(map(key, deep.tensors)), Counter(map(key, shallow.tensors))
    if one == two:
        raise PlanError(
            "Base and target have different depths, but the factory builds the same tensors for both. "
            "Let it use its depth, or give both the same."
        )
    found = {t.name for t in deep.tensors if one[key(t)] != two[key(t)]}
    # A bias goes with the matrix it is added to: the first layer's looks like any other.
    weights = [t for t in deep.tensors if t.kind in (Kind.MATRIX, Kind.LOOKUP)]
    outside = {t.owner for t in weights if t.name not in found}
    return {
        t.name
        for t in deep.tensors
        if t.name in found and not (t.kind is Kind.BIAS and t.owner in outside)
    }


# A multiplier, and whether the model's own code lacks it.
_Needed = tuple[Multiplier, bool]


def _of_branches(residual: Fraction, depth: Fraction) -> list[_Needed]:
    """What multiplies residual branches, if anything does."""
    if not residual:
        return []
    factor = Powers(depth=-residual).factor(Ratios(depth=depth))
    return [(Multiplier("residual", factor, "Multiply each residual branch by it."), False)]


def _acknowledged(needed: Collection[_Needed], multiplied: Collection[str]) -> list[Question]:
    asked = [m for m, lacking in needed if lacking and m.name not in multiplied]
    if not asked:
        return []
    told = " ".join(f"{m.where} At the target its value is {m.factor:.6g}." for m in asked)
    all_ = list(dict.fromkeys([*multiplied, *(m.name for m in asked)]))
    names = ", ".join(f'"{n}"' for n in all_)
    return [
        Question(
            f"{told} No initialisation or learning rate can stand for it: apply it and say so with "
            f"multiplied=[{names}].",
            {"multiplied": all_},
        )
    ]


def _known(multiplied: Collection[str], needed: Collection[Multiplier]) -> None:
    unknown = set(multiplied) - {m.name for m in needed}
    if unknown:
        raise PlanError(
            f"`multiplied` names {', '.join(sorted(map(repr, unknown)))}, but this model needs "
            f"{', '.join(repr(m.name) for m in needed) or 'no multiplier'}."
        )


def _ends(probe: Probe, decisions: list[Decision]) -> frozenset[str]:
    """Tensors from which what the model returns is reached without another that grows with the width."""
    if probe.passes is None:
        return frozenset()
    growing = {d.tensor.name for d in decisions if d.role is not Role.FIXED}
    return probe.passes.narrow.paths.ending(growing)


def _absorbing(patterns: Collection[str], names: list[str]) -> set[str]:
    found: set[str] = set()
    for wanted in patterns:
        hits = matching(wanted, names)
        if not hits:
            raise PlanError(f"`branch_outputs` names {wanted!r}, which fits no tensor.")
        found |= set(hits)
    return found


def _tied_readouts(
    decisions: list[Decision],
    strategy: Strategy,
    targets: dict[str, TensorDescription],
    width: Fraction,
    seen: tuple[Mapping[str, Gauge], Mapping[str, Gauge]],
) -> list[_Needed]:
    """The factor that makes an embedding's weights small enough to read out with."""
    out = []
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
        shape = targets[d.tensor.name].shape
        summed = Decision(d.tensor, Role.OUTPUT, d.layer, d.fan_in)
        ratios = Ratios(fan_in_ratio(summed, d.tensor.shape, shape), width)
        # Beside what the model's own code does to the readout, and to the embedding.
        own = [pair.get(d.tensor.name, Gauge()).total for pair in seen]
        powers = Powers(-_HALF, -last.p / 2 - own[0] + own[1])
        where = (
            f"`{d.readout}` reads out with the weights of the embedding `{d.tensor.name}`, which are too "
            f"large for it at a larger width: multiply what enters `{d.readout}` by a factor that falls "
            "with the width."
        )
        if last.p < 1:
            where += (
                f" Under {strategy} that is not enough if a residual stream carries the embedding to the "
                "readout, where it meets itself and makes logits grow: untie the two there."
            )
        lacking = powers.of_width != 0
        factor = powers.factor(ratios) if lacking else 1.0
        out.append((Multiplier(d.readout, factor, where), lacking))
    return out


def _attention(
    probe: Probe, strategy: Strategy, width: Fraction, size: Fraction | None
) -> list[_Needed]:
    r"""The factor of attention logits: where heads grow, or their scale goes with the width.

    Queries and keys align by $n^{-r_\ell}$ an entry, which a head of size $d$ sums to $d\,n^{-r_\ell}$: so
    the scale may be $d^{r_\ell-1}$ at most, and no less than $d^{-1}$, with which aligned logits stay of
    order one. Heads that do not grow need a scale that does not move.
    """
    if probe.passes is None or strategy.plain_biases:
        return []
    most = update_exponents(strategy)[-1] - 1
    found = [h for h in attentions(probe.passes) if (size != 1 if h.grow else h.scale)]
    missing = {h.place: _beyond(h, most) for h in found}
    off = [h for h in found if missing[h.place]]
    if not off:
        growing = any(h.grow for h in found) and most < -_HALF
        return [(Multiplier("attention", 1.0, "The model's own code applies it."), False)] * growing
    if len(set(missing.values())) > 1 or len(off) < len(found):
        listed = ", ".join(f"`{p}` by n^({m})" for p, m in missing.items())
        raise PlanError(
            f"The attention logits of this model lack different multipliers: {listed}. No one factor suits "
            "them; let the model scale its attentions alike."
        )
    head, lack = off[0], missing[off[0].place]
    grown = Fraction(head.length[1], head.length[0]) if head.grow else probe.passes.ratio
    # The target may be wider than what was looked at, and have other heads.
    ratio = float(grown) ** (math.log(width) / math.log(probe.passes.ratio))
    if head.grow and size is not None:
        ratio = float(size)
    return [(Multiplier("attention", ratio ** float(lack), _lacking(head, lack)), True)]


def _beyond(head: Heads, most: Fraction) -> Fraction:
    """The power that the scale of attention logits lacks; of the size of a head where heads grow."""
    if not head.grow:
        return -head.scale
    return min(most - head.scale, Fraction(0)) or max(-1 - head.scale, Fraction(0))


def _lacking(head: Heads, lack: Fraction) -> str:
    scale = f"d^({head.scale})" if head.scale else "a constant"
    where = f"`{head.place}`" if head.place else "the model"
    if not head.grow:
        return (
            f"The heads of {where} keep their size, but the forward pass multiplies attention logits by "
            f"n^({head.scale}) of the width n: take that back by a further factor."
        )
    grows = "then grow once queries and keys align" if lack < 0 else "then fade"
    return (
        f"The heads of {where} grow with the width, and attention logits of the scale of its code, "
        f"{scale} of the size d of a head, {grows}: multiply them by a further factor, d^({lack})."
    )
