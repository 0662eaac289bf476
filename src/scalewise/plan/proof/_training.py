"""One training of one network: what an adapter does for it, what it is given, and the number that comes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from scalewise._checked import Must
from scalewise._words import shown
from scalewise.plan._adapter import Adapter
from scalewise.plan._constants import SETTINGS, combined
from scalewise.plan._errors import PlanError

Train = Annotated[
    Callable[..., Any],
    Must("a function train(plan, model, seed, lr) that trains the model and returns its loss"),
]
Values = Annotated[
    Iterable[float | int] | None, Must("positive numbers in a list, such as [2e-3, 4e-3, 8e-3]")
]
Seeds = Annotated[
    int | Iterable[int], Must("how many, such as 3, or whole numbers in a list, such as [7, 8, 9]")
]
Start = Annotated[Mapping[str, float | int], Must('a dictionary of numbers, such as {"lr": 3e-3}')]
Share = Annotated[float | int, Must("a number above 0 and at most 0.5", lambda t: 0 < t <= 0.5)]
_TAIL = 10  # the loss of a curve is the mean over this part of it


def trained(
    plan: Adapter, train: Callable[..., Any], seed: int, settings: Mapping[str, Any]
) -> tuple[float, float]:
    """The loss of one network that the user's own function has trained, at the end and at half of its steps."""
    with plan._undisturbed():
        model = plan._prepared(plan.drawn(seed))
        return ends_of(train(plan, model, seed=seed, **settings))


def ends_of(found: Any) -> tuple[float, float]:
    """Loss at the end of a training and at half of its steps; NaN where that is not finite.

    Of a curve, losses at equal distances, both are means over a tenth of it: the last, and the one that ends at its
    half. A curve may be as short as two, at half and at the end. A number alone has no half, which is NaN.

    Raises:
        PlanError: If it is neither.
    """
    try:
        if getattr(found, "ndim", None) == 0 or not hasattr(found, "__iter__"):
            curve = [_number(found)]
        else:
            curve = [_number(v) for v in found]
    except (TypeError, ValueError):
        curve = []
    if not curve:
        raise PlanError(
            f"`train` must return its loss, a number or a list of the losses on the way; it returned "
            f"{shown(found)}."
        )
    size, n = max(1, len(curve) // _TAIL), len(curve)
    # Of an odd number half lies between two.
    half = curve[n // 2 - size : (n + 1) // 2] if n > 1 else []
    return _mean(curve[-size:]), _mean(half)


def _mean(losses: list[float]) -> float:
    return (
        math.fsum(losses) / len(losses) if losses and all(map(math.isfinite, losses)) else math.nan
    )


def _number(value: Any) -> float:
    """A number of any library; one of PyTorch may still know how to be differentiated."""
    return float(value.detach() if hasattr(value, "detach") else value)


def seeds_of(given: int | Iterable[int]) -> list[int]:
    """Seeds in order, each once.

    Raises:
        PlanError: If there are none.
    """
    seeds = list(range(given)) if isinstance(given, int) else sorted(set(given))
    if not seeds or min(seeds) < 0:
        raise PlanError(
            f"`seeds` must be whole numbers, not negative, and at least one; got {given!r}."
        )
    return seeds


def split(name: str) -> tuple[str, str] | None:
    """Whose constant a name such as ``"hidden.std"`` is, and of what; ``None`` for an argument of `train`."""
    of, dot, setting = name.rpartition(".")
    return (of, setting) if dot and setting in SETTINGS else None


def varied(plan: Any, changes: Mapping[str, float]) -> tuple[Any, dict[str, float]]:
    """A plan with some constants more, and what is left for `train`.

    Args:
        plan: The plan.
        changes: By name, arguments of `train`, and factors of constants as ``"hidden.std"``.
    """
    settings = {name: value for name, value in changes.items() if split(name) is None}
    more: dict[str, dict[str, float]] = {}
    for name, value in changes.items():
        if (whose := split(name)) is not None:
            more.setdefault(whose[0], {})[whose[1]] = value
    if not more:
        return plan, settings
    return plan.with_constants(combined(plan.table.constants, more)), settings
