r"""Hyperparameters from base to target, and whether $\gamma=L/n^{1-s}$ stays."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scalewise._checked import NotNegative, Positive, checked
from scalewise._readable import Rows, readable
from scalewise.plan._errors import PlanError
from scalewise.plan._settings import groups
from scalewise.plan._table import Plan
from scalewise.scaling import depth_for_gamma, gamma, metaparameter_of


@dataclass(frozen=True)
@readable
class GroupSettings:
    """The settings of one group of tensors at the target; ``None`` for what was not given.

    Args:
        name: The roles in it.
        lr: Learning rate.
        weight_decay: Weight decay.
        eps: Epsilon of the denominator.
        tensors: Names of the tensors.
        betas: Decay rates of both moments.
    """

    name: str
    lr: float
    weight_decay: float | None
    eps: float | None
    tensors: tuple[str, ...]
    betas: tuple[float, float] | None = None


@dataclass(frozen=True)
@readable
class Transfer:
    r"""Hyperparameters of the base, carried to the target.

    Args:
        groups: One for each set of tensors that share their settings.
        gamma_base: $L/n^{1-s}$ at the base; ``None`` outside the family or without a depth.
        gamma_target: The same at the target.
        depth_at_fixed_gamma: The depth, not rounded, that would keep $\gamma$ at the target's width.
        note: What that means, in a sentence.
    """

    groups: tuple[GroupSettings, ...]
    gamma_base: float | None
    gamma_target: float | None
    depth_at_fixed_gamma: float | None
    note: str

    def __getitem__(self, tensor: str) -> GroupSettings:
        """The settings of the group a tensor is in.

        Raises:
            KeyError: If no group has a tensor of that name.
        """
        for group in self.groups:
            if tensor in group.tensors:
                return group
        raise KeyError(tensor)

    def _told(self) -> list[str | Rows]:
        rows: list[dict[str, str]] = []
        for g in self.groups:
            settings = {"lr": g.lr, "weight_decay": g.weight_decay, "eps": g.eps}
            settings |= dict(zip(("beta1", "beta2"), g.betas or (), strict=False))
            row = {"group": g.name, "tensors": str(len(g.tensors))}
            rows.append(row | {k: f"{v:.6g}" for k, v in settings.items() if v is not None})
        head = tuple(dict.fromkeys(k for row in rows for k in row))
        return [Rows(head, [tuple(row.get(k, "") for k in head) for row in rows]), self.note]


@checked(error=PlanError)
def transfer(
    plan: Plan,
    *,
    lr: Positive,
    weight_decay: NotNegative | None = None,
    eps: NotNegative | None = None,
    betas: tuple[NotNegative, NotNegative] | None = None,
) -> Transfer:
    r"""The hyperparameters of a base model, carried to the target.

    Args:
        plan: The plan.
        lr: Learning rate tuned at the base; positive.
        weight_decay: The weight decay there.
        eps: The epsilon there; of no use to gradient descent.
        betas: The decay rates of both moments there; nor are they.

    Returns:
        Settings for each group, exact but for rounding, and $\gamma$ at both ends. At fixed $\gamma$
        representations are learnt alike at both; at another depth the learning rate is still scaled as
        the plan says, but the networks differ.

    Raises:
        PlanError: If a value is not a finite number of the right sign, or the optimizer has no epsilon.

    Source: Yaida (4.10) for $\gamma$; the factors are those of `scalewise.plan.rules`.
    """
    if eps is not None and all(law.eps is None for law in plan.laws.values()):
        raise PlanError(
            f"The plan is for {plan.optimizer!r}, which has no `eps`; leave it out, or plan for 'adam' or 'adamw'."
        )
    settings = tuple(
        GroupSettings(
            g.name,
            lr * g.lr,
            None if weight_decay is None else weight_decay * g.weight_decay,
            None if eps is None or plan[g.tensors[0]].law.eps is None else eps * g.eps,
            g.tensors,
            None if betas is None or plan[g.tensors[0]].law.follows else plan.betas(*betas),
        )
        for g in groups(plan, [t.name for t in plan.tensors])
    )
    return Transfer(settings, *_gamma(plan))


def _gamma(plan: Plan) -> tuple[float | None, float | None, float | None, str]:
    s = metaparameter_of(plan.strategy)
    one, two = plan.base.get(plan.depth_name), plan.target.get(plan.depth_name)
    if s is None:
        return None, None, None, f"{plan.strategy} has no gamma: it is not of the family in s."
    if not isinstance(one, int | float) or not isinstance(two, int | float):
        return None, None, None, "The plan has no depth, so gamma = L/n^(1-s) is not known."
    n, m = plan.base[plan.width_name], plan.target[plan.width_name]
    assert isinstance(n, int | float)
    assert isinstance(m, int | float)
    before, after = gamma(one, n, s), gamma(two, m, s)
    wanted = depth_for_gamma(before, m, s)
    law = f"gamma = L/n^({1 - s})"
    if math.isclose(before, after, rel_tol=1e-9):
        note = f"{law} stays at {before:.4g}: base and target learn representations alike."
    else:
        note = (
            f"{law} goes from {before:.4g} to {after:.4g}; a depth of {wanted:.4g} would keep it at "
            f"width {m}."
        )
    return before, after, wanted, note
