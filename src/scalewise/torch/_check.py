"""Whether a model is the one a plan was made for."""

from __future__ import annotations

from torch import nn

from scalewise.plan import Plan, PlanError
from scalewise.plan.spi import bare
from scalewise.torch._describe import places


def of_the_plan(plan: Plan, model: nn.Module) -> dict[str, nn.Parameter]:
    """The model's parameters by the plan's names.

    Args:
        plan: The plan.
        model: A model of the target's size, wrapped or not.

    Raises:
        PlanError: If a tensor is missing, unknown, of another shape, or tied otherwise.
    """
    out: dict[str, nn.Parameter] = {}
    rows: dict[int, str] = {}
    for name, parameter in places(model).items():
        row = plan[name]
        if tuple(parameter.shape) != row.shape:
            flat = (
                " A wrapper has flattened or cut it: take the settings before wrapping the model."
                if parameter.ndim != len(row.shape)
                else " Build the model at the plan's target, or plan for its size with plan.at(...)."
            )
            raise PlanError(
                f"`{name}` has shape {tuple(parameter.shape)}, but the plan is for {row.shape}, at "
                f"{_sizes(plan)}.{flat}"
            )
        own = bare(name, plan.names)
        for other in (row.name, *row.aliases):
            if out.get(other, parameter) is not parameter:
                raise PlanError(
                    f"`{own}` and `{other}` are one tied tensor in the plan, but two in this model. Tie "
                    "them, or plan for a model where they are not."
                )
        if rows.setdefault(id(parameter), row.name) != row.name:
            raise PlanError(
                f"`{own}` and `{rows[id(parameter)]}` are one tied tensor in this model, but two in the "
                "plan. Untie them, or plan for a model where they are tied."
            )
        out[own] = parameter
    for row in plan.tensors:
        missing = [n for n in (row.name, *row.aliases) if n not in out]
        if missing:
            raise PlanError(
                f"The model has no tensor `{missing[0]}`, which the plan has at {_sizes(plan)}. Build the "
                "model at the plan's target, or plan for its size with plan.at(...)."
            )
    return out


def modules_of(plan: Plan, model: nn.Module) -> dict[str, nn.Module]:
    """The modules of a model, wrapped or not, by the names that they have without wrappers."""
    known = {""}
    for owner in (n.rpartition(".")[0] for n in plan.names):
        parts = owner.split(".")
        known |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
    return {bare(n, known): m for n, m in model.named_modules(remove_duplicate=False)}


def _sizes(plan: Plan) -> str:
    return ", ".join(f"{k} = {v}" for k, v in plan.target.items())
