"""A plan where others build the optimizer, one for all tensors: trainers of other libraries."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch.optim import Optimizer

from scalewise._checked import checked
from scalewise.plan import Kind, PlanError, Role
from scalewise.plan.spi import known_optimizer
from scalewise.torch._exporters import TrainedPlan
from scalewise.torch._given import Model
from scalewise.torch._groups import OPTIMIZERS, known_to_torch
from scalewise.torch._joined import JoinedOptimizer


@checked(error=PlanError)
def optimizer_for(plan: TrainedPlan, model: Model, **settings: Any) -> Optimizer:
    """PyTorch's own optimizer for a plan, with its parameter groups: what a `configure_optimizers` returns.

    Args:
        plan: The plan, at the size of the model.
        model: The model, wrapped or not.
        settings: Those of `TorchPlan.param_groups`, as tuned at the base: ``lr`` and, if wanted, ``eps``,
            ``weight_decay``, ``groups`` whatever else the optimizer takes; with Muon those of AdamW as ``rest``.

    Returns:
        For Muon with AdamW beside it one optimizer that steps both, with the groups and the state of both.

    Raises:
        PlanError: If PyTorch has no such optimizer, or for any reason of `TorchPlan.param_groups`.

    Example:
        >>> import torch, scalewise as sw
        >>> def build(width):
        ...     return torch.nn.Sequential(
        ...         torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))
        >>> plan = sw.torch.plan(
        ...     build, base={"width": 64}, target={"width": 256}, strategy=sw.scaling.mup())
        >>> optimizer = sw.torch.optimizer_for(plan, plan.init_(build(256)), lr=4e-3, betas=(0.9, 0.95))
        >>> [(g["name"], g["lr"], g["betas"]) for g in optimizer.param_groups][1]
        ('output', 0.001, (0.9, 0.95))
    """
    laws = list(plan.table.laws)
    if lacking := [name for name in laws if name not in OPTIMIZERS]:
        raise PlanError(
            f"PyTorch has no optimizer {lacking[0]!r}: give that of your library the groups of plan.param_groups."
        )
    if "muon" in laws and known_to_torch(plan.table.adjust) is None:
        raise PlanError(
            f"PyTorch's Muon has no factor {plan.table.adjust!r} of a matrix's shape. Plan with "
            "adjust='match_rms_adamw' or 'original', or give plan.param_groups to the Muon that has it."
        )
    found: Any = plan.param_groups(model, **settings)
    if len(known_optimizer(plan.table.optimizer).all) == 1:
        return OPTIMIZERS[laws[0]](found)
    parts = [OPTIMIZERS[groups[0]["optimizer"]](groups) for groups in found if groups]
    return parts[0] if len(parts) == 1 else JoinedOptimizer(*parts)


@checked(error=PlanError)
def trainer_optimizer(plan: TrainedPlan, **settings: Any) -> tuple[Any, dict[str, Any]]:
    """The argument `optimizer_cls_and_kwargs` of the `Trainer` of Hugging Face's transformers.

    The trainer's own `learning_rate` and `weight_decay` then reach no group: say them here. Its schedules multiply
    the rate of each group, but for those with a least rate (`min_lr`): see `TorchPlan.check_schedule`.

    Args:
        plan: The plan, at the size of the model.
        settings: See `optimizer_for`.

    Returns:
        A factory and its settings.

    Raises:
        PlanError: If no `lr` is given; see `optimizer_for` for what is refused when the trainer starts.
    """
    if settings.get("lr") is None:
        raise PlanError(
            "`lr` is the learning rate tuned at the base and must be given to `trainer_optimizer`: the trainer's "
            "`learning_rate` does not reach groups that have one."
        )
    # The trainer calls what is meant for a class once, for a function of (model, settings).
    return partial(partial, optimizer_for, plan), settings


@checked(error=PlanError)
def undecayed(plan: TrainedPlan) -> dict[str, Any]:
    """A group, for `groups`, of what most trainers do not decay: biases, gains and shifts of norms.

    Args:
        plan: The plan.

    Returns:
        ``{"params": names, "weight_decay": 0.0}``.

    Raises:
        PlanError: If the model has no such tensor, and so needs no such group.
    """
    names = [
        t.name
        for t in plan.table.tensors
        if t.kind in (Kind.BIAS, Kind.GAIN) or (t.kind is Kind.UNKNOWN and t.role is Role.VECTOR)
    ]
    if not names:
        raise PlanError(
            "The model has no biases, gains or shifts, so there is nothing to leave undecayed; leave out "
            "`undecayed`."
        )
    return {"params": names, "weight_decay": 0.0, "name": "undecayed"}
