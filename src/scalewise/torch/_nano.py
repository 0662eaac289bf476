r"""A whole plan for the optimizers of nanochat, of modded-nanogpt and of Keller Jordan's package `muon`.

All three multiply the steps of Muon by $s=\max(1,d_{out}/d_{in})^{1/2}$, which is the plan's ``adjust="original"``.
They differ in what decays. With learning rate $\eta$ and decay $\lambda$ a step takes the part

| | AdamW | Muon |
|---|---|---|
| package muon | $\eta\lambda$ | $\eta\lambda$ |
| nanochat | $\eta\lambda$ | $\eta s\lambda$ |
| modded-nanogpt | $(m\eta)^2\lambda$ | $m\eta^2s\lambda$ |

of a weight, where $m$ is modded-nanogpt's multiplier `lr_mul`. A plan's decay is of the first kind, so here it is
divided by the factor of whatever else such a step multiplies it with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from scalewise._checked import Positive, checked
from scalewise.plan import PlanError
from scalewise.plan.spi import Exported, left_to_draw
from scalewise.torch._applied import TorchPlan
from scalewise.torch._exporters import (
    MaybeModel,
    TrainedPlan,
    fixed_epsilon,
    groups_for,
    refuse_another_factor,
)
from scalewise.torch._given import Model, Settings
from scalewise.torch._groups import Groups

_MUON = ("muon", "normuon")
# What the Muon of each is given beside learning rate and decay, and by default.
_NANOCHAT = {"momentum": 0.95, "ns_steps": 5, "beta2": 0.9}
_PACKAGE = {"momentum": 0.95}
_ADAM = {"betas": (0.9, 0.95), "eps": 1e-10}


@checked(error=PlanError)
def to_nanochat(
    plan: TrainedPlan,
    model: Model,
    *,
    lr: Positive,
    rest: Settings,
    weight_decay: float = 0.0,
    groups: Iterable[Mapping[str, Any]] = (),
    **others: Any,
) -> Exported:
    """The groups of nanochat's `MuonAdamW`, Muon's by shape: ``MuonAdamW(list(to_nanochat(plan, model, ...)))``.

    Plan for ``"normuon"``, by whose second moment nanochat divides, with ``adjust="original"``.

    Args:
        plan: The plan, for nanochat's own model or any other.
        model: The model.
        lr: Learning rate of Muon at the base.
        rest: Settings of AdamW at the base: ``lr``, ``weight_decay`` and, if wanted, ``betas`` and ``eps``.
        weight_decay: Weight decay of Muon at the base.
        groups: Groups of the user's own, as for `TorchPlan.param_groups`.
        others: Further settings of Muon: ``momentum``, ``ns_steps``, ``beta2``.

    Raises:
        PlanError: If the plan is for other optimizers, or for another factor of shapes.

    Source:
        ``nanochat/optim.py`` of github.com/karpathy/nanochat at 92d63d4 (July 2026).
    """
    found, left = _found(
        plan,
        model,
        "nanochat",
        {"lr": lr, "weight_decay": weight_decay} | _NANOCHAT | others,
        rest,
        groups,
    )
    named = dict(model.named_parameters())
    out = []
    for g in found[plan.table.optimizer]:
        kinds: dict[tuple[Any, float], list[str]] = {}
        for n in g["params"]:
            t = plan[n]
            kinds.setdefault((t.shape, plan.table.adjusted(t)), []).append(n)
        for (_, own), names in kinds.items():
            decay = g["weight_decay"] / own
            settings = {k: g[k] for k in ("lr", "momentum", "ns_steps", "beta2")}
            out.append({"kind": "muon", **settings, "weight_decay": decay, "params": names})
    if len({g["weight_decay"] for g in out}) > 1:
        left.append(
            'nanochat\'s loop sets one weight decay for all groups of Muon: there, write group["weight_decay"] = '
            'group["initial_weight_decay"] * muon_weight_decay / weight_decay_scaled.'
        )
    for g in found["adamw"]:
        settings = {k: g[k] for k in ("lr", "betas", "eps", "weight_decay")}
        out.append({"kind": "adamw", **settings, "params": g["params"]})
    for g in out:
        g["params"] = [named[n] for n in g["params"]]
        g |= {"initial_lr": g["lr"], "initial_weight_decay": g["weight_decay"]}
    return Exported(tuple(out), tuple(left))


@checked(error=PlanError)
def to_muon_package(
    plan: TrainedPlan,
    model: Model,
    *,
    lr: Positive,
    rest: Settings,
    weight_decay: float = 0.0,
    groups: Iterable[Mapping[str, Any]] = (),
    **others: Any,
) -> Exported:
    """The groups of `MuonWithAuxAdam` of Keller Jordan's package, as ``MuonWithAuxAdam(list(...))`` takes them.

    Args:
        plan: The plan, made with ``optimizer="muon", adjust="original"``.
        model: The model.
        lr: Learning rate of Muon at the base.
        rest: Settings of Adam at the base: ``lr`` and, if wanted, ``betas``, ``eps``, ``weight_decay``.
        weight_decay: Weight decay of Muon at the base.
        groups: Groups of the user's own, as for `TorchPlan.param_groups`.
        others: ``momentum`` of Muon.

    Raises:
        PlanError: If the plan is for other optimizers, or for another factor of shapes.

    Source:
        ``muon.py`` of github.com/KellerJordan/Muon at 857d1ad (November 2025).
    """
    found, left = _found(
        plan,
        model,
        "the package muon",
        {"lr": lr, "weight_decay": weight_decay} | _PACKAGE | others,
        {"weight_decay": 0.0} | dict(rest or {}),
        groups,
    )
    named = dict(model.named_parameters())
    out = []
    for g in found[plan.table.optimizer]:
        settings = {k: g[k] for k in ("lr", "momentum", "weight_decay")}
        out.append({"use_muon": True, **settings, "params": [named[n] for n in g["params"]]})
    for g in found["adamw"]:
        settings = {k: g[k] for k in ("lr", "betas", "eps", "weight_decay")}
        out.append({"use_muon": False, **settings, "params": [named[n] for n in g["params"]]})
    return Exported(tuple(out), tuple(left))


@checked(error=PlanError)
def to_modded_nanogpt(
    plan: TrainedPlan,
    table: Mapping[str, Mapping[str, Any]],
    *,
    model: MaybeModel = None,
) -> Exported:
    """The `param_table` of modded-nanogpt at the target, from the one that was tuned at the base.

    Labels are names of parameters without ``.weight``, as that script makes them. `adam_defaults` and
    `normuon_defaults` stay those of the base:
    ``param_table = {g["label"]: g["entry"] for g in to_modded_nanogpt(plan, table)}``.

    Args:
        plan: The plan, made with ``optimizer="normuon", adjust="original"``.
        table: The table at the base.
        model: The model, if `TorchPlan.scale_` has given it hooks.

    Raises:
        PlanError: If the plan and the table have different parameters, or give one to different optimizers: a bank
            of matrices in one tensor is AdamW's in a plan.

    Source:
        ``train_gpt.py`` of github.com/KellerJordan/modded-nanogpt at f411b3d (August 2026).
    """
    base = {"lr": 1.0, "eps": 1.0, "weight_decay": 1.0}
    found, left = _found(
        plan, model, "modded-nanogpt", base | {"momentum": 0.95, "beta2": 0.95}, base, ()
    )
    rows = {t.name.replace(".weight", ""): t for t in plan.table.tensors}
    if odd := sorted(rows.keys() ^ table.keys()):
        where = (
            "the plan, but not in the table" if odd[0] in rows else "the table, but not in the plan"
        )
        raise PlanError(f"`{odd[0]}` is in {where}. Plan for the model that the table is for.")
    out = []
    for label, entry in table.items():
        t = rows[label]
        f, muon = plan.factors(t.name), t.optimizer in _MUON
        if (entry["optim"] == "normuon") is not muon:
            raise PlanError(
                f"The table gives `{label}` to {entry['optim']}, and the plan to {t.optimizer}. Plan with another "
                "role for it, or plan for a model with one tensor for each matrix and take its factors."
            )
        also = plan.table.adjusted(t) if muon else f.lr
        own = {
            "lr_mul": entry.get("lr_mul", 1.0) * f.lr,
            "wd_mul": entry.get("wd_mul", 1.0) * f.weight_decay / also,
        }
        if (betas := entry.get("adam_betas")) is not None:
            own["adam_betas"] = [
                plan.table.moment(b, k) for b, k in zip(betas, (f.beta1, f.beta2), strict=True)
            ]
        out.append({"label": label, "entry": dict(entry) | own})
    left += fixed_epsilon("modded-nanogpt", found["adamw"], "Adam")
    moved = next((t for t in plan.table.tensors if plan.factors(t.name).beta1 != 1), None)
    if moved is not None:
        left.append(
            "The table holds no momentum of NorMuon: change `momentum` and `beta2` of normuon_defaults by "
            f"plan.table.moment, with the factors of `{moved.name}`."
        )
    return Exported(tuple(out), tuple(left))


def _found(
    plan: TorchPlan,
    model: nn.Module | None,
    trainer: str,
    settings: Mapping[str, Any],
    rest: Mapping[str, Any] | None,
    groups: Iterable[Mapping[str, Any]],
) -> tuple[dict[str, Groups], list[str]]:
    """Groups of names for Muon and AdamW, and sentences."""
    if plan.table.optimizer not in _MUON:
        raise PlanError(
            f"{trainer} trains by Muon and Adam, and the plan is for {plan.table.optimizer!r}. Plan with "
            'optimizer="muon" (or "normuon") and adjust="original".'
        )
    refuse_another_factor(plan, trainer)
    # Muon's own epsilon is fixed in all of them: a 1 shows the factor.
    found = groups_for(
        plan,
        model,
        groups,
        {"eps": 1.0} | dict(settings),
        None if rest is None else _ADAM | dict(rest),
    )
    left = list(left_to_draw(plan.table, trainer, "on the model before its optimizer is made"))
    return found, left + fixed_epsilon(trainer, found[plan.table.optimizer])
