"""A plan where others build the optimizer: trainers of other libraries, and overrides as a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

from torch import nn
from torch.optim import Optimizer

from scalewise._checked import Must, Positive, checked
from scalewise.plan import Kind, PlanError, Role
from scalewise.plan._names import pattern
from scalewise.torch._groups import OPTIMIZERS
from scalewise.torch._plan import Model, TorchPlan

TrainedPlan = Annotated[TorchPlan, Must("a plan for PyTorch, from sw.torch.plan or sw.torch.load")]


@checked(error=PlanError)
def optimizer_for(plan: TrainedPlan, model: Model, **settings: Any) -> Optimizer:
    """PyTorch's own optimizer for a plan, with its parameter groups: what a `configure_optimizers` returns.

    Args:
        plan: The plan, at the size of the model.
        model: The model, wrapped or not.
        settings: Those of `TorchPlan.param_groups`, as tuned at the base: ``lr`` and, if wanted, ``eps``,
            ``weight_decay``, ``groups`` and whatever else the optimizer takes.

    Raises:
        PlanError: If the plan trains with two optimizers or with one that PyTorch does not have, or for any
            reason of `TorchPlan.param_groups`.

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
    if len(laws) > 1:
        raise PlanError(
            f"The plan trains with {laws[0]!r} and {laws[1]!r}, and a trainer takes one optimizer. Make both of "
            "what plan.param_groups returns, and step them in a loop of your own."
        )
    if laws[0] not in OPTIMIZERS:
        raise PlanError(
            f"PyTorch has no optimizer {laws[0]!r}: give that of your library the groups of plan.param_groups."
        )
    return OPTIMIZERS[laws[0]](plan.param_groups(model, **settings))


@dataclass(frozen=True)
class _OfTrainer:
    """What the `Trainer` of transformers calls once for a function of (model, settings)."""

    plan: TorchPlan

    def __call__(self) -> Callable[..., Optimizer]:
        def make(model: nn.Module, **settings: Any) -> Optimizer:
            return optimizer_for(self.plan, model, **settings)

        return make


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
    return _OfTrainer(plan), settings


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
    names = [t.name for t in plan.table.tensors if _is_vector(t.kind, t.role)]
    if not names:
        raise PlanError(
            "The model has no biases, gains or shifts, so there is nothing to leave undecayed; leave out "
            "`undecayed`."
        )
    return {"params": names, "weight_decay": 0.0, "name": "undecayed"}


def _is_vector(kind: Kind, role: Role) -> bool:
    return kind in (Kind.BIAS, Kind.GAIN) or (kind is Kind.UNKNOWN and role is Role.VECTOR)


@checked(error=PlanError)
def overrides(
    plan: TrainedPlan,
    *,
    lr: Positive,
    eps: Positive | None = None,
    weight_decay: float | None = None,
    min_lr: Positive | None = None,
) -> dict[str, dict[str, float]]:
    """A plan's settings by pattern of names, for trainers that make parameter groups themselves.

    Each tensor fits one pattern of `fnmatch`, with ``*`` for the numbers of layers. The keys are those
    of Megatron's overrides, ``max_lr``, ``min_lr``, ``eps`` and ``wd_mult``, beside PyTorch's ``lr`` and
    ``weight_decay``, and the bare factor ``lr_mult``.

    Args:
        plan: The plan. Factors are for the names that its model has: tensors that a trainer fuses or renames have
            others.
        lr: Learning rate at the base, the largest of a schedule.
        eps: Epsilon at the base; left out if ``None``.
        weight_decay: Weight decay at the base; only its factor if ``None``.
        min_lr: The least rate of a schedule at the base; left out if ``None``. It is scaled as the rate is, so that
            the ratios of groups are kept to the end.

    Returns:
        Settings by pattern; numbers and strings only, so that JSON holds them.
    """
    out: dict[str, dict[str, float]] = {}
    for name, label in _patterns(plan).items():
        f = plan.factors(name)
        own = {"lr": lr * f.lr, "max_lr": lr * f.lr, "lr_mult": f.lr, "wd_mult": f.weight_decay}
        own |= {} if eps is None else {"eps": eps * f.eps}
        own |= {} if min_lr is None else {"min_lr": min_lr * f.lr}
        own |= {} if weight_decay is None else {"weight_decay": weight_decay * f.weight_decay}
        out[label] = own
    return out


def _patterns(plan: TorchPlan) -> Mapping[str, str]:
    """For each tensor the pattern of its kind, if all that fit it have the same settings; else its name."""
    names = [t.name for t in plan.table.tensors]
    out: dict[str, str] = {}
    for name in names:
        label = pattern(name)
        fits = [n for n in names if fnmatchcase(n, label)]
        alike = all(pattern(n) == label and plan.factors(n) == plan.factors(name) for n in fits)
        out[name] = label if alike else name
    return out
