"""From two widths of one model to the role of every tensor; what cannot be decided is asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from scalewise.plan._ambiguous import ask_bare, few, grows, guessed, heads
from scalewise.plan._description import ModelDescription, TensorDescription
from scalewise.plan._errors import PlanError
from scalewise.plan._names import matching
from scalewise.plan._paths import Paths
from scalewise.plan._questions import Question, Wording, ask
from scalewise.plan._roles import Kind, Layer, Role, RoleSpec
from scalewise.plan._uses import Uses

# A model at another width, and the ratio of that to the first.
Further = Callable[[], tuple[ModelDescription, Fraction]]

_LAYER = {
    Role.INPUT: Layer.FIRST,
    Role.HIDDEN: Layer.HIDDEN,
    Role.VECTOR: Layer.HIDDEN,
    Role.OUTPUT: Layer.LAST,
    Role.BOTTLENECK: Layer.LAST,
    Role.FIXED: Layer.LAST,
}
_SUMMED = (Role.HIDDEN, Role.OUTPUT, Role.BOTTLENECK)
_PLAIN = Wording()


@dataclass(frozen=True)
class Decision:
    """The role of one tensor, or of each place of a tied one.

    Args:
        tensor: Its description at the narrower width.
        role: How it scales.
        layer: Whose exponents it takes.
        fan_in: Axes that are summed over; empty where nothing is.
        readout: For an embedding that is the readout too: the module that reads out.
    """

    tensor: TensorDescription
    role: Role
    layer: Layer
    fan_in: tuple[int, ...] = ()
    readout: str | None = None


def decide(
    narrow: ModelDescription,
    wide: ModelDescription,
    ratio: Fraction,
    roles: Mapping[str, RoleSpec] | None = None,
    *,
    further: Further | None = None,
) -> list[Decision]:
    """The role of every tensor of a model.

    The arguments are those of `decided`: `narrow`, `wide`, `ratio`, `roles` and `further`.

    Raises:
        PlanError: As there, and if a role is ambiguous: with all that must be said.
    """
    decisions, questions = decided(narrow, wide, ratio, roles, further=further)
    ask(questions)
    return decisions


def decided(
    narrow: ModelDescription,
    wide: ModelDescription,
    ratio: Fraction,
    roles: Mapping[str, RoleSpec] | None = None,
    *,
    further: Further | None = None,
    wording: Wording = _PLAIN,
    paths: Paths | None = None,
    uses: Uses | None = None,
) -> tuple[list[Decision], list[Question]]:
    """The role of every tensor of a model, from what its axes do between two widths, and what must be asked.

    An axis grows with the width if its size goes as a power of it between 0.6 and 1.4. Sizes that are rounded, to
    multiples of 64 for example, may be off by more between two small widths; they are looked at again at a
    width so large that rounding is nothing.

    Args:
        narrow: The model at one width.
        wide: The same model, of the same depth, at another.
        ratio: The second width over the first; not 1.
        roles: What the user says: pattern of names to role, or to (role, axes summed over).
        further: Describes the model at a much larger width, with the ratio of that to the first; called only
            where a size is not in proportion between the two.
        wording: What the adapter adds to questions.
        paths: Which tensors were seen to lie between which; ``None`` where no pass was seen.
        uses: By name of tensor what that pass was seen to do with its axes.

    Returns:
        Roles, and questions; tensors that are asked about have the role that most models give them.

    Raises:
        PlanError: If the two models have different tensors, an axis grows in no proportion to the
            width, or what the user said fits no tensor or contradicts one.
    """
    other = wide.named()
    _same_names(narrow, wide)
    said = _said(roles or {}, [*other, *narrow.aliases])
    places = [*narrow.tensors, *narrow.aliases.values()]
    twins = {**other, **wide.aliases}
    far = None if further is None else lru_cache(maxsize=1)(further)
    growing = {t.name: _growing(t, twins[t.name], ratio, far) for t in places}
    if not any(growing.values()):
        raise PlanError(
            "No tensor of the model grows with the width, so there is nothing to scale. Let the factory "
            "use its width."
        )
    told, ends = heads(places, growing, said, paths)
    unsure, untold = guessed(places, growing, {*said, *ends}, paths, uses, columns=wording.columns)
    likely = ends | unsure
    first: dict[str, Decision] = {}
    for tensor in sorted(places, key=lambda t: t.kind is Kind.BIAS):
        sibling = _sibling(tensor, first.values())
        first[tensor.name] = _decision_on(tensor, growing[tensor.name], said, likely, sibling)
    asked = [
        *ask_bare(
            places, growing, unsure, wording.bare, None if paths is None else paths.used(), untold
        ),
        *told,
    ]
    late = (
        frozenset() if paths is None else paths.ending({n for n, axes in growing.items() if axes})
    )
    tied = []
    for t in narrow.tensors:
        others = [first[a] for a in t.aliases]
        if (other := narrow.again.get(t.name)) is not None and t.name not in said:
            others.append(_again(other, growing[t.name], late))
        tied.append(_tied(first[t.name], others, growing))
    return tied, asked


def _again(t: TensorDescription, growing: dict[int, Fraction], ends: Collection[str]) -> Decision:
    """The role of a tensor where the model's own code uses it as another matrix than its module does."""
    into, out = grows(t.fan_in, growing), grows(t.fan_out, growing)
    last = Role.OUTPUT if t.name in ends else Role.BOTTLENECK
    role = Role.FIXED if not growing else last if not out else Role.HIDDEN if into else Role.INPUT
    return Decision(t, role, _LAYER[role], t.fan_in if role in _SUMMED else ())


def fan_in_ratio(decision: Decision, base: tuple[int, ...], target: tuple[int, ...]) -> Fraction:
    """Target over base of the number of terms a tensor sums over; 1 where it sums over none."""
    if decision.role not in _SUMMED:
        return Fraction(1)
    axes = decision.fan_in
    return Fraction(math.prod(target[i] for i in axes), math.prod(base[i] for i in axes))


def _same_names(narrow: ModelDescription, wide: ModelDescription) -> None:
    one, two = narrow.named(), wide.named()
    if list(one) != list(two) or narrow.aliases.keys() != wide.aliases.keys():
        odd = sorted(one.keys() ^ two.keys()) or sorted(narrow.aliases.keys() ^ wide.aliases.keys())
        raise PlanError(
            "The model has other tensors at another width, so they cannot be compared: "
            f"{few(odd) if odd else 'their order differs'}. The factory must give the same modules "
            "at every width; if these are experts, let it take their number as an argument, `experts`, and give "
            "that in `base` and `target`."
        )
    for name, t in one.items():
        if len(t.shape) != len(two[name].shape):
            raise PlanError(
                f"`{name}` has shape {t.shape} at one width and {two[name].shape} at another. Its "
                "number of axes must not depend on the width."
            )


def _growing(
    narrow: TensorDescription, wide: TensorDescription, ratio: Fraction, far: Further | None
) -> dict[int, Fraction]:
    out = {}
    for axis, (a, b) in enumerate(zip(narrow.shape, wide.shape, strict=True)):
        # What has no entries at one width has nothing to scale, and at two of them no size.
        if a == b or 0 in narrow.shape or 0 in wide.shape:
            continue
        power = _power(a, b, ratio)
        if not _proportional(power) and not _rounded(narrow, axis, far):
            raise PlanError(
                f"Axis {axis} of `{narrow.name}` goes from {a} to {b} while the width is multiplied "
                f"by {float(ratio):g}: that is the power {power:.2f} of the width, and every rule here "
                "is for sizes in proportion to it. Let the factory change one width only."
            )
        out[axis] = Fraction(b, a)
    return out


def _power(a: int, b: int, ratio: Fraction) -> float:
    return math.log(b / a) / math.log(ratio)


def _proportional(power: float) -> bool:
    """True if a size goes as the first power of the width, not as its root or its square."""
    return 0.6 < power < 1.4


def _rounded(narrow: TensorDescription, axis: int, far: Further | None) -> bool:
    """True if a size is in proportion to the width but for rounding, as it then is at a much larger width."""
    if far is None:
        return False
    model, ratio = far()
    found = (model.named() | model.aliases).get(narrow.name)
    if found is None or len(found.shape) != len(narrow.shape) or not found.shape[axis]:
        return False
    return _proportional(_power(narrow.shape[axis], found.shape[axis], ratio))


def _said(roles: Mapping[str, RoleSpec], names: Iterable[str]) -> dict[str, RoleSpec]:
    out: dict[str, RoleSpec] = {}
    known = list(names)
    for wanted, spec in roles.items():
        found = matching(wanted, known)
        if not found:
            raise PlanError(
                f"`roles` names {wanted!r}, which fits no tensor. The model has {few(known)}."
            )
        name = spec if isinstance(spec, str) else spec[0]
        if name not in set(Role):
            raise PlanError(
                f"`roles` gives {wanted!r} the role {name!r}; roles are "
                f"{', '.join(repr(str(r)) for r in Role)}."
            )
        out |= dict.fromkeys(found, spec)
    return out


def _sibling(tensor: TensorDescription, done: Iterable[Decision]) -> Decision | None:
    """The matrix or lookup of the same module."""
    if tensor.kind is not Kind.BIAS:
        return None
    mine = [d for d in done if d.tensor.owner == tensor.owner and d.tensor.kind is not Kind.BIAS]
    return mine[0] if mine else None


def _decision_on(
    tensor: TensorDescription,
    growing: dict[int, Fraction],
    said: dict[str, RoleSpec],
    likely: dict[str, Role],
    sibling: Decision | None,
) -> Decision:
    if tensor.name in said:
        return _as_said(tensor, growing, said[tensor.name])
    if tensor.name in likely:
        role = likely[tensor.name]
        axes = tensor.fan_in or (next(iter(growing)),)
        return Decision(tensor, role, _LAYER[role], axes if role in _SUMMED else ())
    into, out = grows(tensor.fan_in, growing), grows(tensor.fan_out, growing)
    if not growing:
        return Decision(tensor, Role.FIXED, Layer.LAST)
    if tensor.kind is Kind.MATRIX:
        role = Role.HIDDEN if into and out else Role.INPUT
        return Decision(tensor, role, _LAYER[role], tensor.fan_in if role in _SUMMED else ())
    if tensor.kind is Kind.LOOKUP and out and not into:
        return Decision(tensor, Role.INPUT, Layer.FIRST)
    if tensor.kind is Kind.BIAS:
        layer = Layer.FIRST if sibling and sibling.layer is Layer.FIRST else Layer.HIDDEN
        return Decision(tensor, Role.VECTOR, layer)
    return Decision(tensor, Role.VECTOR, Layer.HIDDEN)


def _as_said(tensor: TensorDescription, growing: dict[int, Fraction], spec: RoleSpec) -> Decision:
    role = Role(spec if isinstance(spec, str) else spec[0])
    axes = () if isinstance(spec, str) else spec[1]
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    if not set(axes) <= set(range(len(tensor.shape))):
        raise PlanError(
            f"`roles` says that `{tensor.name}` sums over the axes {axes}, but its shape is "
            f"{tensor.shape}."
        )
    if (role is Role.FIXED) == bool(growing):
        what = "grows with the width" if growing else "does not change with the width"
        raise PlanError(
            f"`roles` calls `{tensor.name}` {str(role)!r}, but its shape {tensor.shape} {what}."
        )
    if role not in _SUMMED:
        return Decision(tensor, role, _LAYER[role])
    if not axes and tensor.kind is Kind.MATRIX:
        axes = tensor.fan_in
    if not axes:
        if len(set(growing.values())) > 1:
            raise PlanError(
                f"The axes of `{tensor.name}` grow by different factors, so its fan-in must be said: "
                f'roles={{"{tensor.name}": ("{role}", AXIS)}} with the axis that is summed over.'
            )
        axes = (next(iter(growing)),)
    if not grows(axes, growing):
        raise PlanError(
            f"`roles` calls `{tensor.name}` {str(role)!r}, which sums over the width, but its fan-in "
            f"axes {axes} of the shape {tensor.shape} do not change with it."
        )
    return Decision(tensor, role, _LAYER[role], axes)


def _tied(
    main: Decision, others: list[Decision], growing: Mapping[str, dict[int, Fraction]]
) -> Decision:
    """Decision for a tensor that stands in several places."""
    places = [main, *others]
    kinds = {d.role for d in places}
    if len(kinds) == 1:
        axes = growing[main.tensor.name]
        if (
            len(
                {
                    math.prod((axes.get(i, Fraction(1)) for i in d.fan_in), start=Fraction(1))
                    for d in places
                }
            )
            == 1
        ):
            return _shown(main, others)
    elif kinds == {Role.INPUT, Role.OUTPUT}:
        into = next(d for d in places if d.role is Role.INPUT)
        readouts = [d for d in places if d.role is Role.OUTPUT]
        if len(readouts) == 1:
            out = readouts[0]
            return Decision(
                main.tensor, into.role, into.layer, out.fan_in, readout=out.tensor.owner
            )
    listed = ", ".join(f"`{d.tensor.name}` ({d.role})" for d in places)
    raise PlanError(
        f"One tensor stands in several places that scale differently: {listed}. No single "
        "initialisation and learning rate suits them; untie them."
    )


def _shown(main: Decision, others: list[Decision]) -> Decision:
    """The decision as of the place whose module says what the tensor does: elsewhere it is only held."""
    if main.tensor.kind is not Kind.UNKNOWN:
        return main
    told = next((d for d in others if d.tensor.kind is not Kind.UNKNOWN), main)
    t = told.tensor
    tensor = replace(main.tensor, kind=t.kind, owner=t.owner, module=t.module)
    return replace(told, tensor=tensor)
