"""`audit`: a training script of PyTorch as it is, built at several widths, and what it does at great width."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import torch
from torch import nn
from torch.optim import Optimizer

from scalewise._checked import Count, Must, Positive, checked
from scalewise.plan import PlanError
from scalewise.plan.audit import Audit
from scalewise.plan.spi import NO_CLAIM, Inputs, SeenOptimizers, Tolerance, Widths, audit_of, called
from scalewise.torch._applied import TorchPlan
from scalewise.torch._given import ModuleFactory
from scalewise.torch._measure import Loss
from scalewise.torch._plan import plan
from scalewise.torch._setup import Together
from scalewise.torch._verify import TorchBench, own_random_numbers, seed_all

OptimizerLike = Annotated[
    Any,
    Must(
        "a function that takes a model and returns its optimizer, or a pair of a class and its settings, such as "
        '(torch.optim.AdamW, {"lr": 3e-4})',
        lambda given: callable(given) or _is_pair(given),
    ),
]
# A factor of the rates changes nothing else: these multiply the step too, and are left out.
_DECAY = "weight_decay"


def _is_pair(given: Any) -> bool:
    return (
        isinstance(given, tuple | list)
        and len(given) == 2
        and callable(given[0])
        and isinstance(given[1], Mapping)
    )


def _with_settings(given: Any) -> Any:
    """A class alone has the settings that it has by default."""
    return (given, {}) if isinstance(given, type) and issubclass(given, Optimizer) else given


@checked(error=PlanError)
def audit(
    build: ModuleFactory,
    optimizer: OptimizerLike,
    loss: Loss,
    batch: Any,
    *,
    widths: Widths = (64, 128, 256, 512),
    seeds: Count = 3,
    target: Positive | None = None,
    tolerance: Tolerance = 0.0625,
    progress: bool = True,
) -> Audit:
    r"""The behaviour at great width of a training script as it is: no plan and no change of the model is needed.

    At each width and for each seed the model is built and its optimizer made as the script does; one step is taken,
    with all learning rates multiplied by one number so small that the response is linear, and without weight decay.
    From the powers of the width come the regime, the tensor that holds it back, the first thing that will blow up,
    and the learning rate that each tensor wastes.

    Args:
        build: Called with a width, and nothing else; returns a new model.
        optimizer: Called with a model, returns its optimizer, or several in a list; or a class with its settings,
            ``(torch.optim.AdamW, {"lr": 3e-4})``, or alone with those that it has by default.
        loss: Called with a model and the batch; returns one number that can be differentiated.
        batch: Whatever `loss` takes. Of no more samples or tokens than the smallest width, powers are clean.
        widths: At least three, in whatever unit `build` has: units, channels, or a number of heads.
        seeds: Networks of each width, at least 2.
        target: The width that wasted rates are told for; by default eight times the largest.
        tolerance: How far from zero a power may be beyond three standard errors.
        progress: Whether to show a bar on a terminal once this takes longer than two seconds.

    Returns:
        The powers of every tensor with standard errors, the verdict in one sentence, and what it rests on;
        ``print`` shows all of it.

    Raises:
        PlanError: If widths or seeds are too few, nothing grows with the width or reads out, the optimizer cannot
            be used, or the loss is not a finite number that depends on the parameters.

    Source: TP4 3.2 (r), Yaida 2210.04909 (s), both measured.

    Example:
        >>> import torch, scalewise as sw
        >>> def build(width):
        ...     return torch.nn.Sequential(
        ...         torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, width),
        ...         torch.nn.ReLU(), torch.nn.Linear(width, 10))
        >>> x, y = torch.randn(16, 8), torch.randint(10, (16,))
        >>> found = sw.torch.audit(
        ...     build, (torch.optim.AdamW, {"lr": 1e-3}),
        ...     lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1]), (x, y))
        >>> found.verdict.stable, found.bottleneck[0].place
        (False, '4.weight')
    """
    seen = SeenOptimizers()
    bench = TorchBench(batch, loss, None, lambda *_: None, partial(_slowed, optimizer, seen))

    def built(width: int) -> Any:
        return called(build, width)

    def planned(of: tuple[int, ...], answers: Mapping[str, Any]) -> TorchPlan:
        sizes = {"base": {"width": of[0]}, "target": {"width": of[-1]}}
        inputs = _inputs(built, of[0], loss, batch)
        return plan(built, device="cpu", inputs=inputs, **sizes, **NO_CLAIM, **answers)

    with own_random_numbers():
        return audit_of(
            planned,
            bench,
            seen,
            tuple(sorted(widths)),
            seeds,
            framework="torch",
            target=target,
            tolerance=tolerance,
            progress=progress,
        )


def _slowed(
    optimizer: Any, seen: SeenOptimizers, plan: Any, model: nn.Module, factor: float
) -> Any:
    """The script's optimizer with all its rates multiplied, and no weight decay."""
    parts = _made(optimizer, model)
    names: dict[int, list[str]] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(p), []).append(name)
    rates = seen.rates.setdefault(plan.table.target["width"], {})
    for group in (g for one in parts for g in one.param_groups):
        rate = group.get("lr")
        if rate is None or not float(rate) >= 0:
            raise PlanError(
                f"A group of {type(parts[0]).__name__} has the learning rate {rate!r}, and `audit` multiplies "
                "all rates by one small number. Give every group a learning rate."
            )
        mine = [n for p in group["params"] for n in names.get(id(p), ())]
        rates |= dict.fromkeys(mine, float(rate))
        eps = group.get("eps")
        if isinstance(eps, float) and "betas" in group:
            seen.epsilons.update(dict.fromkeys(mine, eps))
        group["lr"] = rate * factor
        if _DECAY in group:
            group[_DECAY] = 0.0
    if not any(rates.values()):
        raise PlanError(
            "Every learning rate is zero, as a warm-up leaves it at the start: let `optimizer` return the "
            "optimizer without its schedule."
        )
    return parts[0] if len(parts) == 1 else Together(*parts)


def _made(optimizer: Any, model: nn.Module) -> list[Optimizer]:
    given = _with_settings(optimizer)
    try:
        if _is_pair(given):
            cls, settings = given
            made = cls([p for p in model.parameters() if p.requires_grad], **settings)
        else:
            made = given(model)
    except TypeError as error:
        raise PlanError(
            f"`optimizer` raised TypeError: {error}. It is called with a model and returns its optimizer; or "
            'give a class and its settings in a pair, as (torch.optim.AdamW, {"lr": 3e-4}).'
        ) from error
    parts: list[Any] = list(made) if isinstance(made, list | tuple) and made else [made]
    for one in parts:
        if not isinstance(one, Optimizer):
            raise PlanError(
                "`optimizer` must return the optimizer that trains the model, or several in a list; it "
                f"returned {type(one).__name__}."
            )
    return parts


def _inputs(build: Callable[[int], Any], width: int, loss: Loss, batch: Any) -> Inputs | None:
    """Inputs with which the loss calls the model of that width."""
    seed_all(0)
    model, seen = build(width), []
    if not isinstance(model, nn.Module):
        return None
    hook = model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(Inputs(args, kwargs)), with_kwargs=True
    )
    try:
        with torch.no_grad():
            loss(model, batch)
    except Exception:
        # Whatever is wrong is said in a sentence later, where it is measured.
        return None
    finally:
        hook.remove()
    return seen[0] if seen else None
