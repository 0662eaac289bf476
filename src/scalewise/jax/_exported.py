"""A plan for optimisers of optax that sort parameters themselves: `optax.partition` and `optax.contrib.muon`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import jax

from scalewise._checked import Must, checked
from scalewise._extras import require
from scalewise.jax._applied import JaxPlan
from scalewise.jax._optax import is_trained
from scalewise.jax._trees import dotted, resolved
from scalewise.plan import Law, Plan, PlanError, SettingsGroup, groups

_UNTRAINED = "untrained"
# Which of the two moments a setting of optax is of.
_MOMENTS = {"b1": 1, "beta": 1, "b2": 2}


JaxPlanned = Annotated[JaxPlan, Must("a plan for JAX, from sw.jax.plan or sw.jax.load")]
Makers = Annotated[
    Mapping[str, Callable[..., Any]],
    Must('a dictionary from names of optimisers to functions of optax, as {"adamw": optax.adamw}'),
]
Settings = Annotated[
    Mapping[str, Any] | None, Must('a dictionary of settings, such as {"lr": 3e-3}')
]


@checked(error=PlanError)
def to_partition(
    plan: JaxPlanned,
    makers: Makers,
    *,
    lr: Any,
    eps: float | None = None,
    weight_decay: float | None = None,
    rest: Settings = None,
    **others: Any,
) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """The two arguments of `optax.partition`: an optimiser for each group of settings, and who is in it.

    Unlike `JaxPlan.optax`, which wraps one optimiser, this calls optax's own functions with the settings of each
    group, so that any of them can be looked at, and epsilon is scaled whatever it is compared with.

    Args:
        plan: The plan.
        makers: Function of optax by the plan's name of the optimiser, as ``{"adamw": optax.adamw}``; for Muon
            ``{"muon": optax.contrib.muon, "adamw": optax.adamw}``.
        lr: Learning rate at the base, a number or a schedule.
        eps: Epsilon at the base; by default that of the function.
        weight_decay: Weight decay at the base; by default that of the function.
        rest: Settings of what a second optimiser trains, as ``{"lr": 3e-3}``.
        others: Further settings, as ``b1=0.9``.

    Returns:
        What ``optax.partition(*to_partition(...))`` takes. Parameters that are not trained stay.

    Raises:
        PlanError: If an optimiser of the plan has no function, or a setting is missing.

    Example:
        >>> import jax.numpy as jnp, optax, scalewise as sw
        >>> plan = sw.jax.plan(lambda width: {"head": jnp.zeros((width, 2))}, base=dict(width=4),
        ...     target=dict(width=16), strategy=sw.scaling.mup(), roles={"head": "output"},
        ...     apply=lambda params, x, width: jnp.tile(x, width) @ params["head"], inputs=jnp.ones(1))
        >>> groups, labels = sw.jax.to_partition(plan, {"adamw": optax.adamw}, lr=1e-2)
        >>> labels({"head": jnp.ones((16, 2))})
        {'head': 'adamw: output'}
    """
    require("optax", for_="`to_partition`", extra="jax")
    import optax

    table = plan.table
    settings: dict[str, Any] = {"lr": lr, "eps": eps, "weight_decay": weight_decay} | others
    own = dict.fromkeys(table.laws, settings)
    if len(table.laws) > 1:
        seconds = [name for name in table.laws if name != table.optimizer]
        if rest is None:
            raise PlanError(
                f"The plan gives matrices to {table.optimizer!r} and the rest to {seconds[0]!r}. Give the settings "
                'of that too, as tuned at the base: rest={"lr": ...}.'
            )
        own |= dict.fromkeys(seconds, rest)
    if lacking := [name for name in table.laws if name not in makers]:
        raise PlanError(
            f"`makers` has no {lacking[0]!r}, which the plan gives tensors to: add the function of optax that "
            f'makes it, as {{"{lacking[0]}": optax.adamw}}.'
        )
    transforms: dict[str, Any] = {_UNTRAINED: optax.set_to_zero()}
    labels: dict[str, str] = {}
    for name, law in table.laws.items():
        mine = [t.name for t in table.tensors if t.optimizer == name]
        given = _complete(name, law, makers[name], own[name])
        sizes: dict[str, Any] = {k: given.get(k, 1.0) for k in ("eps", "weight_decay")}
        for g in groups(table, mine, **sizes):
            label = f"{name}: {g.name}"
            transforms[label] = makers[name](**_scaled(table, g, given))
            labels |= dict.fromkeys(g.tensors, label)

    def labelled(params: Any) -> Any:
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: (
                labels[table[resolved(table, dotted(path))].name]
                if is_trained(leaf)
                else _UNTRAINED
            ),
            params,
        )

    return transforms, labelled


def _complete(
    name: str, law: Law, maker: Callable[..., Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Settings with the function's own defaults where nothing is said."""
    if given.get("lr") is None:
        raise PlanError(f"`lr` is the learning rate of {name!r} tuned at the base; got None.")
    out = {"learning_rate": given["lr"]} | {k: v for k, v in given.items() if k != "lr"}
    known = inspect.signature(maker).parameters
    for key in ("eps", "weight_decay"):
        if out.get(key) is not None:
            continue
        out.pop(key, None)
        if key in known and known[key].default is not inspect.Parameter.empty:
            out[key] = float(known[key].default)
        elif key == "eps" and law.eps is not None:
            raise PlanError(
                f"`eps` of {name!r} must be given: what makes it has no default that could be scaled."
            )
    return out


def _scaled(table: Plan, g: SettingsGroup, given: Mapping[str, Any]) -> dict[str, Any]:
    rate: Any = given["learning_rate"]
    out = dict(given)

    def scheduled(step: Any) -> Any:
        now: Any = rate(step)
        return g.lr * now

    out["learning_rate"] = scheduled if callable(rate) else g.lr * rate
    out |= {k: v for k, v in (("eps", g.eps), ("weight_decay", g.weight_decay)) if k in given}
    factors = {1: g.beta1, 2: g.beta2}
    for key in _MOMENTS.keys() & given.keys():
        out[key] = table.moment(given[key], factors[_MOMENTS[key]])
    left = {which for which, f in factors.items() if f != 1}
    if left - {_MOMENTS[k] for k in _MOMENTS.keys() & given.keys()}:
        raise PlanError(
            f"The policy {', '.join(map(repr, table.policy))} changes decay rates of moments: give those of the "
            "base, as b1=0.9, b2=0.999 (beta=0.95 of Muon)."
        )
    return out


@checked(error=PlanError)
def muon_dimensions(plan: JaxPlanned) -> Callable[[Any], Any]:
    """Which tensors `optax.contrib.muon` is to orthogonalise: its argument `muon_weight_dimension_numbers`.

    By itself it takes whatever has two axes, embeddings and readouts too. Plan with ``adjust="optax"``, or
    ``"consistent_rms"`` if you give it that, and wrap it:
    ``plan.optax(optax.contrib.muon(0.02, muon_weight_dimension_numbers=sw.jax.muon_dimensions(plan)))``.

    Args:
        plan: The plan, for Muon.

    Returns:
        A function of the parameters.

    Raises:
        PlanError: If the plan is not for Muon.
    """
    require("optax", for_="`muon_dimensions`", extra="jax")
    import optax.contrib

    table = plan.table
    if table.optimizer != "muon":
        raise PlanError(
            f'The plan is for {table.optimizer!r}, so it gives nothing to Muon. Plan with optimizer="muon".'
        )

    def one(path: tuple[Any, ...], leaf: Any) -> Any:
        mine = is_trained(leaf) and table[resolved(table, dotted(path))].optimizer == "muon"
        return optax.contrib.MuonDimensionNumbers(0, 1) if mine else None

    return lambda params: jax.tree_util.tree_map_with_path(one, params)
