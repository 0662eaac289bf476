"""Which law an optimizer of PyTorch follows, found by letting a double of it take steps on small matrices."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import torch
from torch.optim import Optimizer

from scalewise.plan import Law, Plan, PlanError
from scalewise.plan.spi import ADJUSTMENTS, ENTRYWISE, Size

_SMALL, _GREAT, _STEPS = 1e-3, 1e7, 12
_NEAR = (
    0.15  # how far a degree may be from a whole number, and the logarithm of a size from another
)
_SIDE = 8


def kinds_of(optimizer: Optimizer) -> list[Mapping[str, Any]]:
    """One parameter group of each kind: groups may differ in who they are for, in flags and in names of ways."""
    kinds: dict[str, Mapping[str, Any]] = {}
    for group in optimizer.param_groups:
        said = {k: v for k, v in group.items() if k != "name" and isinstance(v, str | bool | None)}
        kinds.setdefault(repr(sorted(said.items())), group)
    return list(kinds.values())


def followed(optimizer: Optimizer, group: Mapping[str, Any] | None = None) -> str | None:
    """The law: ``"sgd"``, ``"adam"``, ``"adamw"``, or ``"either"`` of the latter where no weight decays.

    ``None`` if it is none of them or cannot be tried.

    Nothing of the optimizer itself is touched. Its updates are looked at: how they go with the gradient, with
    the weights, and whether an entry depends on others.

    Args:
        optimizer: With groups of the plan or any others.
        group: Which of them; by default the first.
    """
    group = optimizer.param_groups[0] if group is None else group
    try:
        small, great = (_degree(optimizer, group, g) for g in (_SMALL, _GREAT))
        if abs(great) > _NEAR and abs(small - 1) > _NEAR:
            return None
        corner = torch.tensor([[0.0, 0.0], [0.0, 1e3]])
        alone, beside = (_steps(optimizer, group, _SMALL * (1 + c)) for c in (0 * corner, corner))
        if not torch.isclose(alone[0, 0], beside[0, 0], rtol=1e-2):
            return None
        if abs(great - 1) <= _NEAR:
            return "sgd"
        decays = [_steps(optimizer, group, 0.0, weight=w) for w in (0.0, _GREAT, 2 * _GREAT)]
        one, two = (float((d - decays[0]).abs().max()) for d in decays[1:])
        # Without decay both are the same; added to a gradient that is normalised, it does not grow.
        return "either" if not one else "adamw" if two > 1.5 * one else "adam"
    except Exception:
        # Closures, sparse gradients, shapes of one's own: nothing is known of it.
        return None


def refuse_another_law(plan: Plan, optimizer: Optimizer, *, shapes: bool = True) -> None:
    """Refuse an optimizer that moves otherwise than a plan says, in any of its groups.

    Args:
        plan: The plan.
        optimizer: The optimizer.
        shapes: Whether to try it on several shapes; what is measured on real networks need not be.

    Raises:
        PlanError: With the law that it follows, or that it follows none of those that a plan has rules for; or if
            it was given a factor of Muon's steps that no group uses.
    """
    factors = {g.get("adjust_lr_fn") for g in optimizer.param_groups}
    given = optimizer.defaults.get("adjust_lr_fn")
    if given is not None and given not in factors:
        raise PlanError(
            f"The optimizer was given adjust_lr_fn={given!r}, which no group uses: those of plan.param_groups have "
            f"{plan.adjust!r}, as the plan says. Plan with adjust={given!r}."
        )
    for group in kinds_of(optimizer):
        _refuse_group(plan, optimizer, group, shapes)


def _refuse_group(plan: Plan, optimizer: Optimizer, group: Mapping[str, Any], shapes: bool) -> None:
    said = group.get("optimizer")
    laws = {n: law for n, law in plan.laws.items() if said in (None, n)}
    found, name = followed(optimizer, group), type(optimizer).__name__
    for law in laws.values():
        own = _entrywise(law)
        if found is not None and (found == own or (found == "either" and own in ("adam", "adamw"))):
            return
        if own is None and _moves_as(optimizer, group, law, plan.adjust, shapes):
            return
    planned = plan.optimizer if said is None else said
    if found is None:
        raise PlanError(_neither(planned, name, laws, plan.adjust))
    suits = '"adamw" or "adam"' if found == "either" else f'"{found}"'
    raise PlanError(
        f"The plan is for {planned!r}, but the optimizer is a {name}, which follows another law. Plan with "
        f"optimizer={suits}."
    )


def _neither(planned: str, name: str, laws: Mapping[str, Law], adjust: str) -> str:
    if any(_entrywise(law) is None for law in laws.values()):
        beside = "" if adjust == "none" else f" times the factor {adjust!r} of its shape"
        return (
            f"The plan is for {planned!r}, but the steps of {name} do not go with gradient, weight and shape of a "
            f"matrix as those of {planned!r}{beside} do. Take that optimizer, or plan for this one: `adjust` says "
            "what a library of Muon multiplies its steps by."
        )
    return (
        f"The plan is for {planned!r}, and {name} moves neither by the gradient of each entry nor by a fixed "
        "step of each: it normalises whole tensors, asks for a closure, or cannot be tried. The plan's "
        "learning rates are not for it."
    )


def _entrywise(law: Law) -> str | None:
    """The law that `followed` finds of an optimizer that treats entries one by one."""
    if law.norm != ENTRYWISE or (law.eps is not None and law.eps != Size(Fraction(1))):
        return None
    if law.degree == 1:
        return "sgd"
    return "adamw" if law.decay is None else "adam"


def _moves_as(
    optimizer: Optimizer, group: Mapping[str, Any], law: Law, adjust: str, shapes: bool
) -> bool:
    """True if steps go with the shape, the gradient and the weight of a matrix as a law says."""
    h, norm, square = float(law.degree), law.norm, (_SIDE, _SIDE)

    def size(shape: tuple[int, int], gradient: float = 1.0, weight: float = 1.0) -> float:
        # Of entries of one size and singular values of one size: signs of columns that are orthogonal.
        two = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
        signs = torch.kron(torch.kron(two, two), two)
        given = gradient * signs.repeat(*(n // _SIDE for n in shape))
        return float(_steps(optimizer, group, given, weight=weight, decays=False).abs().mean())

    def shaped(shape: tuple[int, int], power: Fraction) -> float:
        factor = ADJUSTMENTS[adjust]
        return factor(*shape) / factor(*square) * 4 ** (float(power) * (h - 1))

    tall, wide = (4 * _SIDE, _SIDE), (_SIDE, 4 * _SIDE)
    try:
        one = size(square)
        pairs = [
            (size(square, gradient=10.0), 10**h),
            (size(square, weight=4.0), 4 ** (float(norm.weight) * (h - 1))),
        ]
        for shape, power in ((tall, norm.fan_out), (wide, norm.fan_in)) if shapes else ():
            pairs.append((size(shape), shaped(shape, power)))
    except Exception:
        return False
    return one > 0 and all(abs(math.log(found / one / said)) < _NEAR for found, said in pairs)


def _degree(optimizer: Optimizer, group: Mapping[str, Any], gradient: float) -> float:
    one, ten = (float(_steps(optimizer, group, g).abs().max()) for g in (gradient, 10 * gradient))
    return math.log10(ten / one) if one and ten else math.nan


def _steps(
    optimizer: Optimizer,
    of: Mapping[str, Any],
    gradient: Any,
    *,
    weight: float = 0.0,
    decays: bool = True,
) -> torch.Tensor:
    """The change of a matrix, of 2 x 2 entries or those of the gradient, by the later of a few steps under it."""
    given = torch.as_tensor(gradient, dtype=torch.float32)
    given = given if given.ndim else given.expand(2, 2)
    p = torch.nn.Parameter(torch.full_like(given, weight))
    without = ("params", "param_names")
    group = {k: v for k, v in of.items() if k not in without}
    rate = group["lr"]
    # A warm-up may start at zero.
    group["lr"] = torch.ones_like(rate) if isinstance(rate, torch.Tensor) else 1.0
    group |= {} if decays else {"weight_decay": 0.0}
    # Of optimizers that are joined, the one whose group it is.
    joined = getattr(optimizer, "parts", ())
    optimizer = next((o for o in joined if any(g is of for g in o.param_groups)), optimizer)
    double = copy.copy(optimizer)
    # A copy has groups and state only; a schedule has put a `step` of its own on the original.
    own = {k: v for k, v in vars(optimizer).items() if k not in vars(double) and k != "step"}
    vars(double).update({k: copy.copy(v) for k, v in own.items()})
    double.param_groups = [copy.deepcopy(group) | {"params": [p]}]
    double.state = defaultdict(dict)
    total = torch.zeros_like(given)
    for step in range(_STEPS):
        with torch.no_grad():
            p.fill_(weight)
        p.grad = given.clone()
        double.step()
        if step >= _STEPS // 2:
            total += p.detach() - weight
    return total
