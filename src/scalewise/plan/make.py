"""A plan from what a framework's adapter found out about a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from scalewise.plan.decide import Decision, Further, RoleSpec, decide, fan_in_ratio
from scalewise.plan.description import ModelDescription, TensorDescription
from scalewise.plan.errors import PlanError
from scalewise.plan.names import matching, pattern
from scalewise.plan.roles import Kind, Role
from scalewise.plan.rules import Powers, Ratios, rule
from scalewise.plan.table import Multiplier, Plan, Spread, TensorPlan
from scalewise.scaling import Strategy, update_exponents

__all__ = ["Probe", "make_plan", "unseen_readout"]

_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Probe:
    """The model at the sizes that a plan compares.

    Args:
        base: Base width and target depth.
        wide: Another width and target depth: what differs from `base` grows with the width.
        wide_ratio: Its width over the base width.
        target: Target width and target depth.
        shallow: Base width and base depth; ``None`` where the depth stays.
        spreads: Entries of the freshly built tensors at `base`.
        further: Describes the model at a much larger width, with the ratio of that to the base.
    """

    base: ModelDescription
    wide: ModelDescription
    wide_ratio: Fraction
    target: ModelDescription
    shallow: ModelDescription | None
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    further: Further | None = field(default=None, compare=False)


def make_plan(
    probe: Probe,
    strategy: Strategy,
    *,
    optimizer: str,
    base: Mapping[str, object],
    target: Mapping[str, object],
    width: Fraction,
    depth: Fraction,
    roles: Mapping[str, RoleSpec] | None = None,
    residual: Fraction = Fraction(0),
    branch_outputs: Collection[str] = (),
    multiplied: Collection[str] = (),
    by_hooks: bool = False,
    width_name: str = "width",
    depth_name: str = "depth",
) -> Plan:
    r"""Decide the role of every tensor and write down its settings.

    Args:
        probe: The model at the sizes to compare.
        strategy: Exponents for the first, the hidden and the last layer.
        optimizer: ``"sgd"``, ``"adam"`` or ``"adamw"``.
        base: What the factory was called with at the base.
        target: The same at the target.
        width: Target over base width.
        depth: Target over base depth.
        roles: What the user says of tensors: pattern to role.
        residual: $\alpha$: branches are multiplied by (depth)$^{-\alpha}$.
        branch_outputs: Patterns of the tensors that end a branch and may carry its multiplier.
        multiplied: Names of the multipliers that the forward pass applies.
        by_hooks: Whether the adapter can multiply what enters a readout, so that this need not be said.
        width_name: What the factory calls its width.
        depth_name: What it calls its depth.

    Raises:
        PlanError: If a role is ambiguous, or a needed multiplier is not among `multiplied`.
    """
    decisions = decide(probe.base, probe.wide, probe.wide_ratio, roles, further=probe.further)
    blocks = _blocks(probe.base, probe.shallow)
    absorbing = _absorbing(branch_outputs, [d.tensor.name for d in decisions])
    targets = probe.target.named()

    def of_tensor(d: Decision) -> TensorPlan:
        t = d.tensor
        in_block, absorbs = t.name in blocks, t.name in absorbing
        powers = rule(
            strategy, d.role, d.layer, optimizer, residual=residual, in_block=in_block,
            absorbs_branch=absorbs,
        )  # fmt: skip
        shape = targets[t.name].shape
        spread = probe.spreads.get(t.name, Spread(0.0, 0.0, 0.0))
        return TensorPlan(
            t.name, d.role, d.layer, t.kind, t.module, t.owner, t.shape, shape,
            fan_in_ratio(d, t.shape, shape), in_block, powers, spread, t.aliases,
        )  # fmt: skip

    rows = tuple(map(of_tensor, decisions))
    readouts = _tied_readouts(decisions, strategy, targets, width)
    inside = _attention(probe, strategy)
    needed = [*readouts, *inside]
    _acknowledged(inside if by_hooks else needed, multiplied)
    if residual and not absorbing:
        factor = Powers(depth=-residual).factor(Ratios(depth=depth))
        needed.append(Multiplier("residual", factor, "Multiply each residual branch by it."))
    _known(multiplied, needed)
    return Plan(
        strategy, optimizer, dict(base), dict(target), width, depth, residual,
        rows, tuple(needed), width_name, depth_name,
    )  # fmt: skip


def unseen_readout(plan: Plan, roles: Mapping[str, RoleSpec]) -> str | None:
    """An embedding that may read out by a function call, which no module shows.

    Args:
        plan: The plan.
        roles: What the user says; an embedding called "input" is known not to read out.

    Returns:
        The first embedding of a model that has no readout, unless the user spoke of it.
    """
    tied = any(t.kind is Kind.LOOKUP and t.aliases for t in plan.tensors)
    if tied or any(t.role is Role.OUTPUT for t in plan.tensors):
        return None
    said = {n for wanted in roles for n in matching(wanted, plan.names)}
    lookups = (t.name for t in plan.tensors if t.kind is Kind.LOOKUP and t.role is Role.INPUT)
    return next((name for name in lookups if name not in said), None)


def _blocks(deep: ModelDescription, shallow: ModelDescription | None) -> set[str]:
    """Tensors of which there are more, or fewer, at another depth."""
    if shallow is None:
        return set()

    def key(t: TensorDescription) -> tuple[object, ...]:
        return pattern(t.name), t.shape, t.kind, t.module

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


def _acknowledged(needed: Collection[Multiplier], multiplied: Collection[str]) -> None:
    for m in needed:
        if m.name not in multiplied:
            raise PlanError(
                f"{m.where} At the target its value is {m.factor:.6g}. No initialisation or learning "
                f'rate can stand for it: apply it and say so with multiplied=["{m.name}"].'
            )


def _known(multiplied: Collection[str], needed: Collection[Multiplier]) -> None:
    unknown = set(multiplied) - {m.name for m in needed}
    if unknown:
        raise PlanError(
            f"`multiplied` names {', '.join(sorted(map(repr, unknown)))}, but this model needs "
            f"{', '.join(repr(m.name) for m in needed) or 'no multiplier'}."
        )


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
) -> list[Multiplier]:
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
        factor = Powers(-_HALF, -last.p / 2).factor(ratios)
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
        out.append(Multiplier(d.readout, factor, where))
    return out


def _attention(probe: Probe, strategy: Strategy) -> list[Multiplier]:
    r"""The factor of attention logits where heads grow.

    Queries and keys align by $n^{-r_\ell}$ an entry, which a head of size $d$ sums to $d\,n^{-r_\ell}$;
    the usual $d^{-1/2}$ leaves $d^{1/2-r_\ell}$ of it.
    """
    base, wide = probe.base.head_dims, probe.wide.head_dims
    grown = [k for k in base if base[k] != wide.get(k, base[k])]
    excess = min(Fraction(0), update_exponents(strategy)[-1] - _HALF)
    if not grown or strategy.plain_biases or not excess:
        return []
    ratio = Fraction(probe.target.head_dims[grown[0]], base[grown[0]])
    where = (
        f"The heads of `{grown[0]}` grow with the width, and attention logits of the usual scale, one "
        "over the root of the size of a head, then grow once queries and keys align: multiply them by a "
        "further factor."
    )
    return [Multiplier("attention", Powers(width=excess).factor(Ratios(width=ratio)), where)]
