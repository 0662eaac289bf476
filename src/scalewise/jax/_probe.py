"""The model at the sizes that a plan compares, and the plan."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from scalewise.jax._describe import Described, parameters, traced
from scalewise.jax._entries import spread
from scalewise.jax._look import ModelCall, look
from scalewise.plan import Kind, ModelDescription, Plan, PlanError, Probe, Spread, make_plan
from scalewise.plan.spi import (
    Inputs,
    Passes,
    Request,
    Sights,
    Uses,
    Wording,
    compared,
    explained,
    matching,
    ratios_of,
    taken,
)

# Where sizes that are rounded show what they are rounded from.
_FAR = 64
_READOUT = (
    'If the embedding\'s transpose reads out (as `nnx.Embed.attend` does), say readouts=["{name}"]'
)
_BARE = "; for variables of Flax Linen say layout='linen'"


@dataclass(frozen=True)
class JaxOptions:
    """Arguments of `scalewise.jax.plan` beyond a `Request`.

    Args:
        readouts: Patterns of embeddings whose transpose reads out too.
        layout: How the tensors of a tree are named.
        apply: Calls the model; ``None`` where it is a function itself.
        inputs: What it is called with; ``None`` to try.
        seed: What the factory calls the number that it draws by.
    """

    readouts: tuple[str, ...] = ()
    layout: str = "plain"
    apply: Callable[..., Any] | None = None
    inputs: Inputs | None = None
    seed: str = "seed"


def planned(request: Request, options: JaxOptions, sights: Sights) -> Plan:
    """Trace the model where it must be known and was not seen before, build it once, and make the plan."""
    sizes = compared(request.base, request.target, request.width, request.depth)

    def at(wanted: Mapping[str, Any]) -> Described:
        # Sizes of the training make no other model.
        own = taken(request.build, wanted)
        return sights.once("shapes", own, lambda: _at(request, options, own))

    base, target, other, wider = map(at, (sizes.narrow, request.target, sizes.wide, sizes.widened))
    shallow = None if request.deeper == 1 else at(request.base)
    call = ModelCall(request.build, options.apply, options.layout)
    deep, wide = (taken(request.build, given) for given in (sizes.narrow, sizes.wide))

    def looked() -> Passes | None:
        return look(call, (deep, base), (wide, other), sizes.ratio, options.inputs)

    # At two widths, whichever were first looked at.
    passes = sights.once("passes", deep, looked)
    others = {axis: at(given) for axis, given in sizes.others.items()}
    along: dict[str, Passes] = {}
    if "rank" in others and passes is not None:
        low = taken(request.build, sizes.others["rank"])
        ranks = ratios_of(request.base, request.target)["rank"]
        way = low, others["rank"]
        found = sights.once(
            "passes along", low, lambda: look(call, (deep, base), way, ranks, options.inputs)
        )
        along = {} if found is None else {"rank": found}

    def known(found: Described) -> ModelDescription:
        return _beside_modules(found.model, {} if passes is None else passes.narrow.uses)

    def further() -> tuple[ModelDescription, Fraction]:
        far = {**sizes.narrow, request.width: _FAR * request.base[request.width]}
        return known(at(far)), Fraction(_FAR)

    probe = Probe(
        known(base),
        known(other),
        sizes.ratio,
        known(target),
        shallow and known(shallow),
        passes=passes,
        further=further,
        widened=known(wider),
        others={axis: known(m) for axis, m in others.items()},
        other_passes=along,
    )
    linen = options.layout == "linen"
    wording = Wording(_READOUT, "" if linen else _BARE, readouts=True, columns=True)
    _refuse_copies(base, make_plan(probe, request, wording=wording))
    # Built only when there is nothing left to ask.
    spreads = sights.once("spreads", deep, lambda: _spreads(request, options, deep, base))
    return make_plan(replace(probe, spreads=spreads), request, wording=wording)


def _beside_modules(model: ModelDescription, uses: Uses) -> ModelDescription:
    """The model, with what its code does with a layer's matrix beside what the layer does."""
    ofs = {t.name for t in model.tensors if t.kind is Kind.MATRIX}
    # A bare one that sums over either of its sides is two matrices, whichever the user calls it.
    sums = {n: [u.axes if u.verb == "summed" else () for u in found] for n, found in uses.items()}
    ofs |= {n for n, axes in sums.items() if len(axes) == 2 and all(axes)}
    return explained(model, {name: found for name, found in uses.items() if name in ofs})


def drawn_model(request: Request, name: str, seed: int) -> Any:
    """The factory's model at the target, drawn by a seed.

    Raises:
        PlanError: If the factory does not take one.
    """
    known = inspect.signature(request.build).parameters.values()
    if not any(p.name == name or p.kind is p.VAR_KEYWORD for p in known):
        raise PlanError(
            f"The factory has no argument {name!r}, so it draws the same weights at every call, and to know how "
            "surely something is measured takes networks that are drawn anew. Let it make its random key from a "
            f"whole number: def init_fn({request.width}, {name}=0), or say what it calls that: "
            'scalewise.jax.plan(..., seed="...").'
        )
    return request.build(**taken(request.build, request.target), **{name: seed % 2**31})


def _at(request: Request, options: JaxOptions, sizes: Mapping[str, Any]) -> Described:
    """The model at some sizes, its embeddings that read out tied to their readouts."""
    found = traced(request.build, sizes, options.layout)
    tensors, aliases = list(found.model.tensors), dict(found.model.aliases)
    for wanted in options.readouts:
        hits = matching(wanted, [t.name for t in tensors if t.kind is Kind.LOOKUP])
        if not hits:
            raise PlanError(f"`readouts` names {wanted!r}, which fits no embedding.")
        for i, t in enumerate(tensors):
            if t.name in hits:
                alias = f"{t.owner}.attend"
                aliases[alias] = replace(
                    t,
                    name=alias,
                    kind=Kind.MATRIX,
                    fan_in=t.fan_out,
                    fan_out=t.fan_in,
                    owner=alias,
                    aliases=(),
                )
                tensors[i] = replace(t, aliases=(*t.aliases, alias))
    return replace(found, model=replace(found.model, tensors=tuple(tensors), aliases=aliases))


def _spreads(
    request: Request, options: JaxOptions, sizes: Mapping[str, Any], base: Described
) -> dict[str, Spread]:
    found = parameters(request.build(**sizes), options.layout)
    names = {t.name for t in base.model.tensors}
    return {p.name: spread(p.name, p.value) for p in found if p.name in names}


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
