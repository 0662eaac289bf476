"""The model at the sizes that a plan compares, and what is seen of its tensors along sizes other than the width."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

from scalewise._readable import readable
from scalewise.plan._axes import parameters_of
from scalewise.plan._decide import Further
from scalewise.plan._description import ModelDescription, TensorDescription
from scalewise.plan._errors import PlanError
from scalewise.plan._forward import Gauge, Passes, gauges
from scalewise.plan._names import matching
from scalewise.plan._roles import Kind
from scalewise.plan._table import Spread

T = TypeVar("T")


class Sights:
    """Models of a factory as they were seen, by their sizes: a plan for another target looks at that target alone.

    It stays in its process: what a plan has seen does not make it another plan.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Any] = {}

    def __reduce__(self) -> tuple[type[Sights], tuple[()]]:
        return Sights, ()

    def once(self, what: str, sizes: Mapping[str, Any], look: Callable[[], T]) -> T:
        """Result of `look`, or of an earlier look at the same sizes."""
        key = what, repr(sorted(sizes.items()))
        if key not in self.found:
            self.found[key] = look()
        return self.found[key]


@dataclass(frozen=True)
@readable
class Probe:
    """The model at the sizes that a plan compares.

    Args:
        base: Base width and target depth.
        wide: Another width and target depth: what differs from `base` grows with the width.
        wide_ratio: Its width over the base width.
        target: Target width and target depth.
        shallow: Base width and base depth; ``None`` where the depth stays.
        spreads: Entries of the freshly built tensors at `base`.
        passes: The forward pass at two widths; ``None`` where it could not be run.
        shallow_spreads: The same as `spreads` at the base's depth.
        further: Describes the model at a much larger width, with the ratio of that to the base.
        widened: Target width and target depth, all else as at the base; ``None`` where that is the target.
        others: By axis the model at another size of it, all else as in `base`.
        other_passes: The forward pass at both of these sizes, by axis.
        many: By axis the tensors of which there are more or fewer along it, as of experts that are modules.
    """

    base: ModelDescription
    wide: ModelDescription
    wide_ratio: Fraction
    target: ModelDescription
    shallow: ModelDescription | None
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    passes: Passes | None = None
    shallow_spreads: Mapping[str, Spread] = field(default_factory=dict)
    further: Further | None = field(default=None, compare=False)
    widened: ModelDescription | None = None
    others: Mapping[str, ModelDescription] = field(default_factory=dict)
    other_passes: Mapping[str, Passes] = field(default_factory=dict)
    many: Mapping[str, Collection[str]] = field(default_factory=dict)

    def at_others(self, name: str) -> dict[str, TensorDescription]:
        """The tensor `name` at another size, by axis.

        Raises:
            PlanError: If the model has no such tensor there.
        """
        found = self._named
        lacking = [axis for axis, model in found.items() if name not in model]
        if lacking:
            raise PlanError(
                f"The model has no `{name}` at another {lacking[0]!r}: every size must give the same tensors. "
                "Of tensors of one kind there may be more, as where each expert is a module of its own."
            )
        return {axis: model[name] for axis, model in found.items()}

    def more_along(self, name: str) -> frozenset[str]:
        """The axes along which there are more tensors of the kind of `name`."""
        return frozenset(axis for axis, names in self.many.items() if name in names)

    def forward_along(self, t: TensorDescription) -> dict[str, Fraction]:
        """Powers by which the model's own code multiplies the tensor `t`, by axis."""
        out = {}
        for axis, passes in self.other_passes.items():
            weights, lookups = self._gauges[axis]
            seen = lookups if is_looked_up(passes, t) else weights
            out[axis] = seen.get(t.name, Gauge()).total
        return out

    @cached_property
    def _named(self) -> dict[str, dict[str, TensorDescription]]:
        return {axis: model.named() for axis, model in self.others.items()}

    @cached_property
    def _gauges(self) -> dict[str, tuple[dict[str, Gauge], dict[str, Gauge]]]:
        return {axis: gauges(passes) for axis, passes in self.other_passes.items()}


def is_looked_up(passes: Passes | None, t: TensorDescription) -> bool:
    """True if the rows of a tensor are picked; if it also multiplies, its kind tells which use is its own."""
    if passes is None:
        return t.kind is Kind.LOOKUP
    seen = passes.narrow
    return t.name in seen.lookups and (t.kind is Kind.LOOKUP or t.name not in seen.weights)


def times(before: tuple[int, ...], after: tuple[int, ...]) -> Fraction:
    one, two = math.prod(before), math.prod(after)
    return Fraction(two, one) if one and two else Fraction(1)


def all_axes(probe: Probe, axes: Mapping[str, Fraction] | None) -> dict[str, Fraction]:
    """The ratios of all further sizes that change, and of how many numbers are trained."""
    before, after = (parameters_of(m) for m in (probe.shallow or probe.base, probe.target))
    found = {**(axes or {}), "parameters": Fraction(after, before)}
    return {axis: ratio for axis, ratio in found.items() if ratio != 1}


def head_size(
    base: Mapping[str, Any], target: Mapping[str, Any], width: Fraction
) -> Fraction | None:
    """Target over base of the size of a head, where the number of heads is said."""
    if "heads" not in base:
        return None
    return width / (Fraction(target["heads"]) / Fraction(base["heads"]))


def blocks_of(
    blocks: Mapping[str, int | str],
    base: Mapping[str, Any],
    target: Mapping[str, Any],
    targets: Mapping[str, TensorDescription],
) -> dict[str, tuple[int, int]]:
    """Number of blocks of each tensor that are treated apart, at the base and at the target."""
    out: dict[str, tuple[int, int]] = {}
    for wanted, said in blocks.items():
        hits = matching(wanted, targets)
        if not hits:
            raise PlanError(f"`blocks` names {wanted!r}, which fits no tensor.")
        if isinstance(said, str) and said not in base:
            raise PlanError(
                f"`blocks` gives {wanted!r} the size {said!r}, which `base` has not; it has "
                f"{', '.join(map(repr, base))}."
            )
        many = (base[said], target[said]) if isinstance(said, str) else (said, said)
        for name in hits:
            rows = targets[name].shape[0] if targets[name].shape else 0
            if min(many) < 1 or rows % many[1]:
                raise PlanError(
                    f"`blocks` gives `{name}` {many[1]} blocks, and its {rows} rows are no multiple of that."
                )
            out[name] = many
    return out
