r"""Sizes beside width and depth: which there are, what the factory is given, and how each tensor meets them.

* `batch` and `tokens` belong to the training and never go to the factory.
* `heads` and `kv_heads` go along with the width. Where fewer queries share a head of keys at the base than at the
  target, keys and values are on the way from matrices between widths to bottlenecks of a fixed size: the rule of
  one over that of the other, along the queries of each head of keys.
* `rank` is an inner width: what writes to it is an input to it and what sums over it reads it out, from a start as
  of a hidden matrix where it writes to the width.
* `experts` and `vocabulary` share the samples out: each slice sees one part in $X$ of them, so its gradients go as
  $X^{-1}$, and its steps should not. An orthogonal matrix has a row for each slice, whatever their number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from scalewise.plan._description import ModelDescription, TensorDescription
from scalewise.plan._errors import PlanError
from scalewise.plan._laws import SPECTRAL, Law, Size
from scalewise.plan._powers import Powers
from scalewise.plan._roles import Kind, Layer, Role
from scalewise.plan._rules import Rule, rule
from scalewise.plan._table import Plan
from scalewise.scaling import Strategy

TRAINING = ("batch", "tokens")
ARCHITECTURE = ("heads", "kv_heads", "experts", "vocabulary", "rank")
_SHARED = ("experts", "vocabulary")


def taken(build: Callable[..., Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes that a factory is called with: none of the training, and of those here only what it has names for.

    Args:
        build: The factory.
        sizes: All sizes.
    """
    try:
        known = inspect.signature(build).parameters.values()
    except (TypeError, ValueError):
        known = ()
    every = any(p.kind is p.VAR_KEYWORD for p in known)
    names = {p.name for p in known if p.kind is not p.POSITIONAL_ONLY}
    return {
        k: v
        for k, v in sizes.items()
        if k not in TRAINING and (k not in ARCHITECTURE or every or k in names)
    }


@dataclass(frozen=True)
class Compared:
    """The sizes at which a model must be seen to know how its tensors meet each size.

    Args:
        narrow: The base's, with the target's depth.
        wide: Another width, and heads that go along with it; all else as in `narrow`.
        ratio: That width over the base's.
        widened: The target's width, and heads that go along; all else as in `narrow`.
        twice: Twice the base's width, as `wide`.
        others: By axis the sizes of `narrow` but for one.
    """

    narrow: Mapping[str, Any]
    wide: Mapping[str, Any]
    ratio: Fraction
    widened: Mapping[str, Any]
    twice: Mapping[str, Any]
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def compared(
    base: Mapping[str, Any], target: Mapping[str, Any], width: str, depth: str | None
) -> Compared:
    """Sizes that a plan compares.

    Args:
        base: All sizes at the base.
        target: All sizes at the target.
        width: Name of the width.
        depth: Name of the depth; ``None`` if there is none.

    Raises:
        PlanError: If no whole number of heads of keys goes along with the width.
    """
    narrow = dict(base)
    if depth is not None:
        narrow[depth] = target[depth]
    ratio = Fraction(target[width]) / Fraction(base[width])
    heads = _ratio(base, target, "heads")
    widened = narrow | {width: target[width]} | _along(base, heads)
    twice = narrow | {width: 2 * base[width]} | (_along(base, 2) if heads == ratio != 1 else {})
    others = {
        axis: narrow | {axis: target[axis]}
        for axis in ("experts", "vocabulary", "rank")
        if axis in base and base[axis] != target[axis]
    }
    if ratios_of(base, target)["queries"] != 1:
        few = base["heads"] if base["heads"] != base["kv_heads"] else 1
        others["queries"] = narrow | {"kv_heads": few}
    wide, wide_ratio = (twice, Fraction(2)) if ratio == 1 else (widened, ratio)
    return Compared(narrow, wide, wide_ratio, widened, twice, others)


def heads_of(table: Plan, sizes: Mapping[str, Any]) -> dict[str, int]:
    """Heads, and heads of keys, at the width of some sizes: those that grow with the width from base to target.

    Raises:
        PlanError: If that is not a whole number.
    """
    base: Mapping[str, Any] = table.base
    width, ratio, out = table.width_name, table.width, {}
    other = sizes[width]
    for axis in ("heads", "kv_heads"):
        if axis in base and _ratio(base, table.target, axis) == ratio != 1:
            many = base[axis] * Fraction(other) / Fraction(base[width])
            if many.denominator != 1:
                raise PlanError(
                    f"{axis!r} grows with {width!r} from {base[axis]} at {base[width]}, and at {other} it would be "
                    f"{float(many):g}. Take multiples of {Fraction(base[width], base[axis])}."
                )
            out[axis] = int(many)
    return out


def _along(base: Mapping[str, Any], heads: Fraction | int) -> dict[str, Any]:
    """Heads and heads of keys, so many times as many."""
    out = {}
    for axis in ("heads", "kv_heads"):
        if axis in base:
            many = base[axis] * Fraction(heads)
            if many.denominator != 1:
                raise PlanError(
                    f"`base` has {base['heads']} heads and {base[axis]} {axis}, and no whole number of them goes "
                    f"along with {float(heads):g} times the heads. Take a base whose number of heads divides the "
                    "target's."
                )
            out[axis] = int(many)
    return out


def _ratio(base: Mapping[str, Any], target: Mapping[str, Any], axis: str) -> Fraction:
    return Fraction(target[axis]) / Fraction(base[axis]) if axis in base else Fraction(1)


def ratios_of(base: Mapping[str, Any], target: Mapping[str, Any]) -> dict[str, Fraction]:
    """Target over base of the sizes here, by the names that powers have for them.

    Raises:
        PlanError: If heads of keys change and heads are not said.
    """
    out = {a: _ratio(base, target, a) for a in (*TRAINING, *_SHARED, "rank")}
    keys = _ratio(base, target, "kv_heads")
    if keys != 1 and "heads" not in base:
        raise PlanError(
            "'kv_heads' differs between `base` and `target`; give 'heads' too, of which each head of keys serves "
            "a part."
        )
    shared = _ratio(base, target, "heads") / keys if "kv_heads" in base else Fraction(1)
    return out | {"queries": shared}


def axis_rules(
    tensor: TensorDescription,
    seen: Mapping[str, TensorDescription],
    law: Law,
    strategy: Strategy,
    *,
    forward: Mapping[str, Fraction],
    many: Collection[str] = (),
    role: Role = Role.FIXED,
) -> Rule:
    """The powers of the sizes here, of one tensor.

    Args:
        tensor: As in `Compared.narrow`.
        seen: By axis the same in `Compared.others`.
        law: How its optimizer moves.
        strategy: The exponents of width.
        forward: By axis the power by which the model's own code multiplies the tensor.
        many: The axes along which there are more tensors of its kind, each as large: experts that are modules.
        role: What it is to the width.

    Raises:
        PlanError: If no rule is known.
    """
    out = Rule(Powers(), Powers(), Powers(), Powers())
    for axis, other in seen.items():
        grown = {
            i for i, (a, b) in enumerate(zip(tensor.shape, other.shape, strict=True)) if a != b
        }
        own = forward.get(axis, Fraction(0))
        if axis in many and not (grown or own):
            out = out * _of_many(axis, law, strategy)
        elif (grown or own) and strategy.plain_biases:
            continue
        elif axis == "rank" and (grown or own):
            out = out * _inner(tensor, grown, law, strategy, forward=own, role=role)
        elif grown or own:
            out = out * _along_axis(axis, tensor, grown, law, strategy)
    return out


def _along_axis(
    axis: str, tensor: TensorDescription, grown: set[int], law: Law, strategy: Strategy
) -> Rule:
    if axis == "queries":
        if tensor.kind is not Kind.MATRIX or not grown <= set(tensor.fan_out):
            return Rule(Powers(), Powers(), Powers(), Powers())
        roles = ((Role.BOTTLENECK, Layer.LAST), (Role.HIDDEN, Layer.HIDDEN))
        few, many = (rule(strategy, role, layer, law).along(axis) for role, layer in roles)
        return few / many
    sides = bool(law.norm.fan_in or law.norm.fan_out)
    rows = len(tensor.shape) == 2 and grown <= set(
        tensor.fan_out
    )  # of one matrix, and not a stack of them
    if sides and not (_polar(law) and rows):
        raise PlanError(
            f"{axis!r} differs between `base` and `target`, and `{tensor.name}` goes along with it: a gradient of "
            "slices that see different samples is not a few outer products, and no rule is known for an optimizer "
            "that sets the size of a step by the whole tensor. Plan for one that treats entries apart."
        )
    h = law.degree
    gradient = Powers(**{axis: Fraction(-1)})
    lr, eps = gradient**-h, Powers()
    if law.eps is not None:
        # Of so many slices, each orthogonal to the others, a norm of the whole is larger by the root.
        eps = gradient**law.eps.gradient * Powers(**{axis: law.norm.fan_out})
    if law.decay is None:
        return Rule(Powers(), lr, eps, lr**-1)
    return Rule(Powers(), lr, eps, gradient**law.decay.gradient)


def _of_many(axis: str, law: Law, strategy: Strategy) -> Rule:
    """Slice of a stacked tensor, which sees its part of the samples and is a whole of its own."""
    if strategy.plain_biases:
        return Rule(Powers(), Powers(), Powers(), Powers())
    part = Powers(**{axis: -Fraction(1)})
    lr = part**-law.degree
    eps = Powers() if law.eps is None else part**law.eps.gradient
    return Rule(Powers(), lr, eps, lr**-1 if law.decay is None else part**law.decay.gradient)


def _polar(law: Law) -> bool:
    """True if a step is an orthogonal matrix, to which each slice of the outputs contributes a row of its own."""
    return (
        law.norm == SPECTRAL and not law.degree and law.eps in (None, Size(Fraction(1), SPECTRAL))
    )


def _inner(
    tensor: TensorDescription,
    grown: set[int],
    law: Law,
    strategy: Strategy,
    *,
    forward: Fraction,
    role: Role,
) -> Rule:
    """A tensor that writes to an inner width, or sums over it.

    What sums over $r$ and writes to a width $n$ that is no smaller moves like a readout of $r$. But what it passes
    back to each of the $r$, $(n/r)^{1/2}$ of its own random weights beside $n/r$ of what was learnt, is no larger
    if it starts at $r^{-1/2}$; started like a readout, what it writes would be lost in a wide latent.
    """
    kind, normed = tensor.kind, False
    if kind in (Kind.BIAS, Kind.GAIN):
        own, layer = Role.VECTOR, Layer.HIDDEN
    elif grown <= set(tensor.fan_out):
        own, layer = Role.INPUT, Layer.FIRST
    elif grown <= set(tensor.fan_in):
        own, layer = Role.OUTPUT, Layer.LAST
        if role is Role.INPUT:
            own, normed = Role.BOTTLENECK, True
    else:
        raise PlanError(
            f"`{tensor.name}` of shape {tensor.shape} goes along with 'rank', and whether it sums over that or "
            "writes to it no module says. Let a linear layer hold it."
        )
    if not grown:
        # Multiplied by a power of it, and of a fixed size.
        own, layer = Role.FIXED, Layer.LAST
    return rule(strategy, own, layer, law, forward=forward, normed=normed).along("rank")


def parameters_of(model: ModelDescription) -> int:
    """Number of a model's parameters."""
    total = 0
    for t in model.tensors:
        size = 1
        for n in t.shape:
            size *= n
        total += size
    return total
