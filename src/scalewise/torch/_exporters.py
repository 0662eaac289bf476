"""A whole plan for trainers that make parameter groups themselves, Muon included: torchtitan and Megatron.

Each gets plain dictionaries for its own classes, so none of them is imported here. The settings are those of
`TorchPlan.param_groups`, computed by the same code; what a trainer cannot be given is said or refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from torch import nn

from scalewise._checked import Must, NotNegative, Positive, checked
from scalewise.plan import PlanError
from scalewise.plan.spi import ADJUSTMENTS, Exported, globs, left_to_draw, regex, unapplied
from scalewise.torch._applied import TorchPlan
from scalewise.torch._given import Settings
from scalewise.torch._groups import Groups, groups_of_names
from scalewise.torch._scale import refuse_unscaled

TrainedPlan = Annotated[TorchPlan, Must("a plan for PyTorch, from sw.torch.plan or sw.torch.load")]
MaybeModel = Annotated[nn.Module | None, Must("a torch.nn.Module")]

_STAMPS = ("params", "name", "base_lr", "base_eps", "base_weight_decay", "lr_factor", "optimizer")
_IN_TORCHTITAN = {"adam": "Adam", "adamw": "AdamW", "muon": "DistMuon"}
_TITAN_FACTORS = ("original", "match_rms_adamw", "spectral_unclamped")
_MEGATRON_FACTORS = ("spectral", "shape_scaling", "unit_rms_norm")


@checked(error=PlanError)
def to_torchtitan(
    plan: TrainedPlan,
    *,
    lr: Positive,
    eps: Any = None,
    weight_decay: Any = None,
    groups: Iterable[Mapping[str, Any]] = (),
    rest: Settings = None,
    model: MaybeModel = None,
    **others: Any,
) -> Exported:
    r"""The arguments of torchtitan's `ParamGroupConfig`, one for each group of the plan.

    They have ``pattern`` (a regular expression that fits the group's parameters and no others),
    ``optimizer_name`` and ``optimizer_kwargs``:
    ``param_groups=[ParamGroupConfig(**g) for g in to_torchtitan(plan, lr=3e-3)]``. Matrices of a plan for Muon go
    to torchtitan's `DistMuon`, which takes one group: plan with ``adjust="spectral_unclamped"``, with which they
    share their learning rate. Torchtitan refuses a pattern that fits nothing in one stage of a pipeline, so a plan
    of several groups needs stages that hold all of them.

    Args:
        plan: The plan, for the model of torchtitan itself: names are those of its parameters.
        lr: Learning rate at the base.
        eps: Epsilon at the base; PyTorch's own if ``None``.
        weight_decay: Weight decay at the base; PyTorch's own if ``None``.
        groups: Groups of the user's own, as for `TorchPlan.param_groups`.
        rest: Settings of what AdamW trains beside Muon.
        model: The model, if some of its parameters are frozen or `TorchPlan.scale_` has given it hooks.
        others: Further settings, such as ``betas``.

    Raises:
        PlanError: If torchtitan has no such optimizer, or would train by other settings than the plan's.

    Source:
        ``torchtitan.components.optimizer`` of torchtitan 0.3.0.
    """
    found = groups_for(
        plan, model, groups, {"lr": lr, "eps": eps, "weight_decay": weight_decay} | others, rest
    )
    if lacking := [name for name in found if name not in _IN_TORCHTITAN]:
        raise PlanError(
            f"torchtitan has Adam, AdamW and DistMuon, and the plan is for {lacking[0]!r}. Plan for 'adamw' or "
            "'muon', or write an OptimizersContainer that gives your optimizer plan.param_groups(model, ...)."
        )
    left = list(left_to_draw(plan.table, "torchtitan", "after its init_weights"))
    out = []
    for name, mine in found.items():
        more: dict[str, Any] = {}
        if name == "muon" and mine:
            more = {"adjust_lr_fn": _factor(plan, "DistMuon", _TITAN_FACTORS), "fused": False}
            more["foreach"] = False
            _refuse_several(mine)
            left.append(
                "DistMuon also needs optimizer_factory_kwargs_by_name, which says how each matrix lies on your "
                "machines: compute_sharding_by_fqn and bucket_configs."
            )
        for g in mine:
            out.append({
                "pattern": regex(plan.table, g["params"]),
                "optimizer_name": _IN_TORCHTITAN[name],
                "optimizer_kwargs": _settings(g) | more,
            })  # fmt: skip
    return Exported(tuple(out), tuple(left))


@checked(error=PlanError)
def to_megatron(
    plan: TrainedPlan,
    *,
    lr: Positive,
    min_lr: NotNegative = 0.0,
    eps: Any = None,
    weight_decay: Any = None,
    groups: Iterable[Mapping[str, Any]] = (),
    rest: Settings = None,
    model: MaybeModel = None,
    **others: Any,
) -> Exported:
    """Megatron's overrides of parameter groups, one for each group of the plan.

    They have ``name`` (patterns of `fnmatch` that fit the group's parameters and no others, with the prefixes of
    Megatron's wrappers) and ``override``:
    ``config_overrides={ParamKey(name=g["name"]): g["override"] for g in to_megatron(plan, lr=3e-3)}``. Give them
    alone, since Megatron's standard overrides say otherwise of biases and gains;
    ``groups=[sw.torch.undecayed(plan)]`` leaves these undecayed. Weight decays are absolute and constant. The fused
    tensors of Megatron's own models are planned as they are. In a pipeline Megatron numbers the layers of each
    stage from 0, so a plan must not tell layers apart.

    Args:
        plan: The plan, for the model of Megatron itself: names are those of its parameters.
        lr: Learning rate at the base, the largest of the schedule.
        min_lr: The least rate of the schedule at the base. It is scaled as the rate is.
        eps: Epsilon at the base; PyTorch's own if ``None``.
        weight_decay: Weight decay at the base; PyTorch's own if ``None``.
        groups: Groups of the user's own, as for `TorchPlan.param_groups`.
        rest: Settings of what Adam trains beside Muon; its ``min_lr`` too.
        model: The model; needed for Muon, to see whom Megatron gives each matrix to.
        others: Further settings, such as ``betas``.

    Raises:
        PlanError: If Megatron has no such optimizer, or would train by other settings than the plan's.

    Source:
        ``megatron.core.optimizer`` of Megatron-Core 0.20, and of 0.16.1 for Adam and SGD.
    """
    least = {plan.table.optimizer: min_lr}
    own = dict(rest) if rest is not None else None
    least |= {} if own is None else {"adamw": own.pop("min_lr", 0.0)}
    given = {"lr": lr, "eps": eps, "weight_decay": weight_decay} | others
    found = groups_for(plan, model, groups, given, own)
    if lacking := [name for name in found if name not in ("adam", "adamw", "sgd", "muon")]:
        raise PlanError(
            f"Overrides are for Megatron's 'adam', 'sgd' and 'muon', and the plan is for {lacking[0]!r}."
        )
    left = list(left_to_draw(plan.table, "Megatron", "when its model is built"))
    if "muon" in found:
        mode = _factor(plan, "Megatron's Muon", _MEGATRON_FACTORS)
        _refuse_other_split(plan, model)
        left.append(f"Set muon_scale_mode={mode!r} in OptimizerConfig, as the plan says.")
        left += fixed_epsilon("Megatron", found["muon"])
    elif "adam" in found:
        left.append(
            "Set decoupled_weight_decay=False in OptimizerConfig: the plan's decay is added to gradients."
        )
    out = []
    for name, mine in found.items():
        for g in mine:
            settings = _settings(g)
            decay = settings.pop("weight_decay")
            if name == "muon":
                settings.pop("eps", None)
                settings.pop("adjust_lr_fn", None)
            own_lr = settings.pop("lr")
            override = {"max_lr": own_lr, "min_lr": least[name] * g["lr_factor"]}
            override |= {"start_wd": decay, "end_wd": decay, "wd_mult": 1.0} | settings
            out.append({"name": globs(plan.table, g["params"]), "override": override})
    return Exported(tuple(out), tuple(left))


def groups_for(
    plan: TorchPlan,
    model: nn.Module | None,
    groups: Iterable[Mapping[str, Any]],
    settings: Mapping[str, Any],
    rest: Mapping[str, Any] | None,
) -> dict[str, Groups]:
    """The plan's groups of names by optimizer, if its multipliers are applied."""
    if model is not None:
        refuse_unscaled(plan.table, model, plan.options.multiplied)
    elif said := unapplied(plan.table, plan.options.multiplied):
        raise PlanError(said)
    return groups_of_names(plan.table, model, list(groups), settings, rest)


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in group.items() if k not in _STAMPS}


def _factor(plan: TorchPlan, trainer: str, names: Iterable[str]) -> str:
    """The trainer's own name for the factor of shapes that the plan was made for."""
    adjust = plan.table.adjust
    for name in names:
        if ADJUSTMENTS[name] is ADJUSTMENTS[adjust]:
            return name
    raise PlanError(
        f"{trainer} multiplies steps by a factor of the shape, {' or '.join(map(repr, names))}, and the plan was "
        f"made with adjust={adjust!r}. Plan with the one that you train with."
    )


def refuse_another_factor(plan: TorchPlan, trainer: str) -> None:
    """Refuse a plan for another factor of shapes than Keller Jordan's, which the trainer has built in."""
    _factor(plan, trainer, ("original",))


def fixed_epsilon(trainer: str, groups: Groups, of: str = "Muon") -> list[str]:
    """A sentence on an epsilon that the plan scales and no group can hold."""
    ratios = [g["eps"] / g["base_eps"] for g in groups if g.get("base_eps")]
    if not ratios or max(abs(r - 1) for r in ratios) < 1e-12:
        return []
    far = max(ratios, key=lambda r: abs(r - 1))
    return [
        f"{trainer} has one epsilon of {of} for all sizes, and the plan would have it {far:.4g} times that of the "
        "base: keep it far below what it is added to."
    ]


def _refuse_several(groups: Groups) -> None:
    if len(groups) > 1:
        told = ", ".join(
            f"{g['name']} (lr {g['lr']:.4g}, weight_decay {g['weight_decay']:.4g}, eps {g['eps']:.4g})"
            for g in groups
        )
        raise PlanError(
            f"torchtitan's DistMuon takes one group, and the plan's matrices need {len(groups)}: {told}. Plan with "
            'adjust="spectral_unclamped", with which they share one learning rate, and leave `eps` to be 0 if that '
            "is what differs; or plan for 'adamw'."
        )


def _refuse_other_split(plan: TorchPlan, model: nn.Module | None) -> None:
    if model is None:
        raise PlanError(
            "Megatron itself chooses which matrices Muon trains, by attributes of parameters. Give the exporter "
            "the model, model=model, to see whether it chooses as the plan does."
        )
    for name, p in model.named_parameters():
        outside = getattr(p, "is_embedding_or_output_parameter", False) or p.ndim != 2
        theirs = not outside and getattr(p, "use_muon", True)
        ours = plan.table[name].optimizer == "muon"
        if ours is not theirs:
            remedy = (
                "Set use_muon = False on it before the optimizer is made (Megatron-Core 0.20)"
                if theirs
                else "Megatron gives Muon only what has two axes and is no embedding or readout: plan with the "
                "role that it has"
            )
            one, two = ("Muon", "Adam") if theirs else ("Adam", "Muon")
            raise PlanError(f"Megatron gives `{name}` to {one}, and the plan to {two}. {remedy}.")
