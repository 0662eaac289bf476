"""The row of each tensor in a plan: its role's powers, its shapes, and how the model's own code draws it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from scalewise.plan._axes import axis_rules
from scalewise.plan._computed import growing_axes, of_length
from scalewise.plan._decide import Decision, fan_in_ratio
from scalewise.plan._description import ModelDescription, TensorDescription
from scalewise.plan._errors import PlanError
from scalewise.plan._forward import Gauge, gauges
from scalewise.plan._kept import kept
from scalewise.plan._laws import known_optimizer
from scalewise.plan._names import matching, pattern
from scalewise.plan._parts import Stretch, beside_the_width
from scalewise.plan._paths import LOOKED_UP
from scalewise.plan._probed import Probe, blocks_of, is_looked_up, times
from scalewise.plan._request import Request
from scalewise.plan._roles import Kind, Role
from scalewise.plan._rules import rule
from scalewise.plan._spread import ERRORS, pooled
from scalewise.plan._table import Spread, TensorPlan

Gauges = tuple[Mapping[str, Gauge], Mapping[str, Gauge]]


@dataclass(frozen=True)
class Planner:
    """Maker of the rows of a plan, one for each tensor.

    Args:
        probe: The model at the sizes to compare.
        request: What the user asks for.
        decisions: The role of each tensor.
    """

    probe: Probe
    request: Request
    decisions: Sequence[Decision]

    def row(self, d: Decision) -> TensorPlan:
        """Row of one tensor."""
        t, r, probe = d.tensor, self.request, self.probe
        weights, lookups = self.gauges
        in_block, absorbs = t.name in self.repeated, t.name in self.absorbing
        gauge = (lookups if is_looked_up(probe.passes, t) else weights).get(t.name, Gauge())
        if t.of:
            gauge = self._of_length(t)
        forward = Fraction(0) if t.name in self.kept else gauge.total
        trains = known_optimizer(r.optimizer).of(d.role, t.kind, len(t.shape))
        powers = rule(
            r.strategy,
            d.role,
            d.layer,
            trains.law,
            residual=r.residual,
            in_block=in_block,
            absorbs_branch=absorbs,
            forward=forward,
            normed=t.name in self._normed,
            training=r.training,
        ) * axis_rules(
            t,
            self.probe.at_others(t.name),
            trains.law,
            r.strategy,
            forward=self.probe.forward_along(t),
            many=self.probe.more_along(t.name),
            role=d.role,
        )
        shape, wide = self._targets[t.name].shape, self.widened[t.name].shape
        fixed = self._fixed(d, shape)
        return TensorPlan(
            name=t.name,
            role=d.role,
            layer=d.layer,
            kind=t.kind,
            module=t.module,
            owner=t.owner,
            base_shape=t.shape,
            shape=shape,
            fan_in=fan_in_ratio(d, *(_without(s, fixed) for s in (t.shape, wide))),
            in_block=in_block,
            rule=powers,
            base=self._spread(t),
            aliases=t.aliases,
            gauge=gauge,
            optimizer=trains.name,
            law=trains.law,
            beside=times(wide, shape),
            blocks=self._apart.get(t.name, (1, 1)),
            terms=_terms(d),
            ends=t.name in self._ends,
            unused=t.name in self._unused,
            normed=t.name in self._normed,
            directed=self.probe.passes is not None and t.name in self.probe.passes.narrow.directed,
            of=t.of,
            fixed=fixed,
        )

    def _fixed(self, d: Decision, shape: tuple[int, ...]) -> tuple[Stretch, ...]:
        """Stretches of fixed size that a tensor sums over beside the width."""
        passes = self.probe.passes
        if passes is None or self.request.strategy.plain_biases:
            return ()
        return beside_the_width(
            d, passes.narrow.pieces, passes.wide.pieces, shape, self.request.wider
        )

    def _of_length(self, t: TensorDescription) -> Gauge:
        """Gauge that stands for the multiplier of lengths of weights."""
        direction = next(d for d in self.decisions if d.tensor.name == t.of)
        axes = [growing_axes(x, self._wide[x.name]) for x in (direction.tensor, t)]
        return of_length(self.row(direction).rule.init, *axes)

    @cached_property
    def _wide(self) -> dict[str, TensorDescription]:
        return self.probe.wide.named()

    def _spread(self, t: TensorDescription) -> Spread:
        spread = self.probe.spreads.get(t.name, Spread(0.0, 0.0, 0.0))
        if self.request.residual and t.name in self.repeated:
            # As it would be drawn at the base's depth: the multiplier of branches is the plan's to give.
            return replace(spread, std=spread.std / self._drawn.get(_law(t), 1.0))
        return spread

    @cached_property
    def repeated(self) -> set[str]:
        """Tensors in blocks that depth repeats."""
        return _blocks(self.probe.base, self.probe.shallow)

    @cached_property
    def absorbing(self) -> set[str]:
        """Tensors that carry the multiplier of their branch."""
        names = [d.tensor.name for d in self.decisions]
        return _absorbing(self.request.branch_outputs, names)

    @cached_property
    def widened(self) -> dict[str, TensorDescription]:
        """Tensors at the target's width, by name; all else as at the base."""
        return (self.probe.widened or self.probe.target).named()

    @cached_property
    def gauges(self) -> Gauges:
        """Powers by which the model's own code multiplies weights, and what is looked up."""
        return ({}, {}) if self.probe.passes is None else gauges(self.probe.passes)

    @cached_property
    def again(self) -> Mapping[str, Gauge]:
        """Gauges of tensors where they sum over another axis than at first, of all that do."""
        passes = self.probe.passes
        if passes is None:
            return {}
        one, two = (replace(p, weights=p.again, lookups={}) for p in (passes.narrow, passes.wide))
        found = gauges(replace(passes, narrow=one, wide=two))[0]
        return {n: found.get(n, Gauge()) for n in one.weights.keys() & two.weights.keys()}

    @cached_property
    def kept(self) -> set[str]:
        """Tensors that are said to be multiplied by a power that is to stay, and others of their modules."""
        seen = {n for found in self.gauges for n in found} - {d.readout for d in self.decisions}
        named = seen & set(self.request.multiplied)
        named |= {n for n in seen if kept(self.request.keep, n)}
        owners = {d.tensor.owner for d in self.decisions if d.tensor.name in named} - {""}
        return named | {
            d.tensor.name
            for d in self.decisions
            if d.tensor.owner in owners and d.tensor.name in seen
        }

    @cached_property
    def _targets(self) -> dict[str, TensorDescription]:
        return self.probe.target.named()

    @cached_property
    def _apart(self) -> dict[str, tuple[int, int]]:
        r = self.request
        return blocks_of(r.blocks, r.base, r.target, self._targets)

    @cached_property
    def _drawn(self) -> dict[tuple[object, ...], float]:
        return _drawn_by_depth(self.probe)

    @cached_property
    def _unused(self) -> frozenset[str]:
        """Tensors from which the forward pass was seen to make nothing."""
        if self.probe.passes is None:
            return frozenset()
        used = {n.removeprefix(LOOKED_UP) for n in self.probe.passes.narrow.paths.used()}
        return frozenset(d.tensor.name for d in self.decisions if used) - used

    @cached_property
    def _normed(self) -> frozenset[str]:
        """Tensors whose output a norm was seen to divide by its size."""
        return frozenset() if self.probe.passes is None else self.probe.passes.narrow.normed

    @cached_property
    def _ends(self) -> frozenset[str]:
        return _ends(self.probe, self.decisions)


def _without(shape: tuple[int, ...], fixed: Sequence[Stretch]) -> tuple[int, ...]:
    """A shape without what does not grow."""
    sizes = list(shape)
    for axis, start, stop in fixed:
        sizes[axis] -= stop - start
    return tuple(sizes)


def _terms(d: Decision) -> int:
    """Number of terms that a tensor sums over at the base; 1 where rows are picked, 0 where nothing is summed."""
    if d.tensor.kind is Kind.LOOKUP:
        return 1
    axes = d.fan_in or (d.tensor.fan_in if d.tensor.kind is Kind.MATRIX else ())
    return math.prod(d.tensor.shape[i] for i in axes) if axes else 0


def _law(t: TensorDescription) -> tuple[object, ...]:
    """Key that is the same for tensors of all depths that are drawn from one law."""
    return pattern(t.name), t.shape, t.kind, t.module


def _drawn_by_depth(probe: Probe) -> dict[tuple[object, ...], float]:
    """Factor by which the factory itself draws a kind of tensor larger at the target's depth than at the base's."""
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


def _ends(probe: Probe, decisions: Sequence[Decision]) -> frozenset[str]:
    """Tensors with no tensor that grows with the width between them and what the model returns."""
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
