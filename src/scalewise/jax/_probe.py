"""The model at the sizes that a plan compares, and the plan."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from scalewise.jax._describe import LAYOUTS, Described, parameters, traced
from scalewise.jax._entries import spread
from scalewise.plan import (
    Kind,
    ModelDescription,
    Plan,
    PlanError,
    Probe,
    Spread,
    TensorDescription,
    make_plan,
    unseen_readout,
)
from scalewise.plan.decide import RoleSpec
from scalewise.plan.forward import Attention, Forward, Passes
from scalewise.plan.names import matching, pattern
from scalewise.scaling import Strategy

__all__ = ["Request", "planned"]


# Where sizes that are rounded show what they are rounded from.
_FAR = 64


@dataclass(frozen=True)
class Request:
    """The arguments of `scalewise.jax.plan`."""

    init_fn: Callable[..., Any]
    base: dict[str, object]
    target: dict[str, object]
    strategy: Strategy
    optimizer: str
    roles: dict[str, RoleSpec]
    residual: Any
    branch_outputs: tuple[str, ...]
    multiplied: tuple[str, ...]
    readouts: tuple[str, ...]
    layout: str
    width: str
    depth: str

    def __post_init__(self) -> None:
        if not callable(self.init_fn):
            raise PlanError(
                f"`init_fn` must be a function that builds the model; got {type(self.init_fn).__name__}. For "
                "example: lambda width, depth: MyModel(width, depth)."
            )
        if self.layout not in LAYOUTS:
            raise PlanError(f"`layout` must be one of {LAYOUTS}; got {self.layout!r}.")
        if self.base.keys() != self.target.keys():
            odd = ", ".join(sorted(map(repr, self.base.keys() ^ self.target.keys())))
            raise PlanError(f"`base` and `target` must name the same sizes; only one has {odd}.")
        if self.width not in self.base:
            raise PlanError(
                f"`base` has no {self.width!r}. If the factory calls its width otherwise, say "
                'width="its name".'
            )
        others = self.base.keys() - {self.width, self.depth}
        for name in sorted(n for n in others if self.base[n] != self.target[n]):
            raise PlanError(
                f"`base` and `target` differ in {name!r} ({self.base[name]!r} and {self.target[name]!r}). A plan "
                "goes from one width and depth to others, and what it compares must differ in nothing "
                "else; what follows the width, let the factory compute from it."
            )

    def at(self, sizes: Mapping[str, object]) -> Request:
        """The same for another target."""
        unknown = sorted(map(repr, sizes.keys() - self.target.keys()))
        if unknown:
            raise PlanError(
                f"The plan has no size {', '.join(unknown)}; it has {', '.join(map(repr, self.target))}."
            )
        return replace(self, target={**self.target, **sizes})

    def size(self, which: str, name: str) -> int:
        """A width or a depth as a positive whole number."""
        value = getattr(self, which)[name]
        try:
            number = operator.index(value)
        except TypeError:
            number = 0
        if number < 1 or isinstance(value, bool):
            raise PlanError(f"`{which}` needs a positive whole number for {name!r}; got {value!r}.")
        return number

    def ratio(self, name: str) -> Fraction:
        """Target over base."""
        return Fraction(self.size("target", name), self.size("base", name))


def planned(request: Request) -> Plan:
    """Trace the model where it must be known, build it once, and make the plan."""
    nu = request.ratio(request.width)
    deep = dict(request.base)
    lam = Fraction(1)
    if request.depth in request.base:
        deep[request.depth] = request.target[request.depth]
        lam = request.ratio(request.depth)
    # Without another width to compare with, twice the base's.
    wide, ratio = request.target, nu
    if nu == 1:
        wide, ratio = {**deep, request.width: 2 * request.size("base", request.width)}, Fraction(2)
    base = _at(request, deep)
    target = base if request.target == deep else _at(request, request.target)
    other = target if wide == request.target else _at(request, wide)
    shallow = None if lam == 1 else _at(request, request.base)
    _ask_for_roles(request, base, other)
    passes = _passes(base, other, ratio)

    def further() -> tuple[ModelDescription, Fraction]:
        far = {**deep, request.width: _FAR * request.size("base", request.width)}
        return _at(request, far).model, Fraction(_FAR)

    probe = Probe(
        base.model,
        other.model,
        ratio,
        target.model,
        shallow and shallow.model,
        passes=passes,
        further=further,
    )
    table = _table(request, probe, nu, lam)
    _ask_for_readouts(request, table)
    _refuse_copies(base, table)
    # Built only when there is nothing left to ask.
    return _table(request, replace(probe, spreads=_spreads(request, deep, base)), nu, lam)


def _passes(base: Described, wide: Described, ratio: Fraction) -> Passes:
    """What attention modules of the libraries do: logits over the root of the size of a head."""

    def forward(heads: Mapping[str, int]) -> Forward:
        return Forward(tuple(Attention(n, d, d**-0.5) for n, d in heads.items()))

    return Passes(forward(base.heads), forward(wide.heads), ratio)


def _table(request: Request, probe: Probe, width: Fraction, depth: Fraction) -> Plan:
    return make_plan(
        probe,
        request.strategy,
        optimizer=request.optimizer,
        base=request.base,
        target=request.target,
        width=width,
        depth=depth,
        roles=request.roles,
        residual=Fraction(request.residual),
        branch_outputs=request.branch_outputs,
        multiplied=request.multiplied,
        width_name=request.width,
        depth_name=request.depth,
    )


def _at(request: Request, sizes: Mapping[str, object]) -> Described:
    """The model at some sizes, its embeddings that read out tied to their readouts."""
    found = traced(request.init_fn, sizes, request.layout)
    tensors, aliases = list(found.model.tensors), dict(found.model.aliases)
    for wanted in request.readouts:
        hits = matching(wanted, [t.name for t in tensors if t.kind is Kind.LOOKUP])
        if not hits:
            raise PlanError(f"`readouts` names {wanted!r}, which fits no embedding.")
        for i, t in enumerate(tensors):
            if t.name in hits:
                alias = f"{t.owner}.attend"
                aliases[alias] = replace(
                    t, name=alias, kind=Kind.MATRIX, fan_in=t.fan_out, fan_out=t.fan_in,
                    owner=alias, aliases=(),
                )  # fmt: skip
                tensors[i] = replace(t, aliases=(*t.aliases, alias))
    return replace(found, model=replace(found.model, tensors=tuple(tensors), aliases=aliases))


def _spreads(request: Request, sizes: Mapping[str, object], base: Described) -> dict[str, Spread]:
    found = parameters(request.init_fn(**sizes), request.layout)
    names = {t.name for t in base.model.tensors}
    return {p.name: spread(p.name, p.value) for p in found if p.name in names}


def _ask_for_roles(request: Request, base: Described, wide: Described) -> None:
    """Everything that must be asked about bare tensors, at once."""
    other = wide.model.named()
    names = [*other, *wide.model.aliases]
    said: set[str] = set()
    for wanted in request.roles:
        hits = matching(wanted, names)
        if not hits:
            # Before anything is asked: a misspelt name would be asked for again.
            few = ", ".join(f"`{n}`" for n in dict.fromkeys(map(pattern, names)))
            raise PlanError(f"`roles` names {wanted!r}, which fits no tensor. The model has {few}.")
        said |= set(hits)
    asked: dict[str, str] = {}
    for t in base.model.tensors:
        if t.kind is Kind.UNKNOWN and t.name not in said and t.name in other:
            growing = _growing(t, other[t.name].shape)
            if growing is not None:
                asked.setdefault(pattern(t.name), growing)
    if asked:
        listed = "\n".join(f"  {n}: {size}" for n, size in asked.items())
        roles = ", ".join(f'"{n}": ...' for n in asked)
        raise PlanError(
            "No module says what these tensors do, and the shape of a tensor (n: grows with the width) does not "
            f"tell its role:\n{listed}\nSay it with roles={{{roles}}}: "
            '"vector" for one number per neuron, "input" for weights from a fixed number of inputs (or an '
            'embedding), "hidden" for a matrix between widths, "output" for the readout, "bottleneck" for a '
            "matrix to a fixed number of units inside the network"
            + (
                "."
                if request.layout == "linen"
                else "; for variables of Flax Linen say layout='linen'."
            )
        )


def _growing(tensor: TensorDescription, wide: tuple[int, ...]) -> str | None:
    if tensor.shape == wide or len(tensor.shape) != len(wide):
        return None
    return " x ".join(str(a) if a == b else "n" for a, b in zip(tensor.shape, wide, strict=True))


def _ask_for_readouts(request: Request, table: Plan) -> None:
    name = unseen_readout(table, request.roles)
    if name is not None:
        raise PlanError(
            f"The model has the embedding `{name}` and no readout. If the embedding's transpose reads out "
            f'(as `nnx.Embed.attend` does), say readouts=["{name}"]; if the model returns features, say '
            f'roles={{"{name}": "input"}}.'
        )


def _refuse_copies(base: Described, table: Plan) -> None:
    for names in base.copies:
        rows = [table[n] for n in names]
        if len({(r.role, r.fan_in, r.rule) for r in rows}) > 1:
            listed = ", ".join(f"`{r.name}` ({r.role})" for r in rows)
            raise PlanError(
                f"One array stands in several places that scale differently: {listed}. jax trains the leaves of "
                "a tree one by one, so they are not tied, and they start equal only before they are scaled. "
                "Keep one leaf and use it twice (Equinox: `eqx.nn.Shared`), or give each its own array."
            )
