"""`signals`: a health report of a module before training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree as pytree

from scalewise._checked import Count, Must, checked
from scalewise.networks.spi import by_node, fields
from scalewise.plan import PlanError
from scalewise.plan.spi import Inputs, given
from scalewise.signals import (
    Finding,
    Foreseen,
    Seen,
    Signals,
    findings,
    foreseen,
    over_seeds,
    spread_of_outputs,
    told_of,
)
from scalewise.sweeps.spi import Reporter
from scalewise.torch._audit import OptimizerLike, _is_pair, _with_settings
from scalewise.torch._first_step import uncorrected
from scalewise.torch._given import without_numbers
from scalewise.torch._measure import Loss
from scalewise.torch._measured import Measured, evaluating, measured
from scalewise.torch._reading import (
    FixedSizesError,
    ModelOrFactory,
    has_samples,
    network_and_model,
)
from scalewise.torch._verify import seed_all

AnyOptimizer = Annotated[
    Optimizer | OptimizerLike,
    Must(
        "an optimizer, a function that takes a model and returns one, or a pair of a class and its settings"
    ),
]


@checked(error=PlanError)
def signals(
    build: ModelOrFactory,
    batch: Any,
    *,
    width: Count | None = None,
    loss: Loss | None = None,
    optimizer: AnyOptimizer | None = None,
    seeds: Count = 3,
    theory: bool = True,
    progress: Any = None,
) -> Signals:
    r"""A health report before training: where signals and gradients die, explode or become alike, and what to do.

    The model is measured in evaluation mode, in the precision that it has; nothing of it is changed. Where
    `network` reads it, the theory stands beside that. No plan and no second width is needed.

    Args:
        build: A model; or a function of the width that returns a new one, so that draws can be compared.
        batch: What the model is called with: a tensor, a tuple of arguments or a dict of named ones; with `loss`
            whatever that takes. A few samples that differ are enough.
        width: The width to build at, with a function.
        loss: Called with a model and the batch; gradients are those of it. By default they are those of a random
            direction of the outputs, of norm 1 for each sample.
        optimizer: What will train the model, to look at its first steps.
        seeds: How many draws of the model are measured, with a function.
        theory: Whether to read the model, which takes seconds for a model of a dozen blocks.
        progress: As in `scalewise.sweep`, of draws, the reading and the theory.

    Returns:
        Sizes, correlations and gradients at every place, what the theory says of them, and findings; ``print``
        shows all of it.

    Raises:
        PlanError: If the model cannot be called with the batch, has no numbers, or returns no tensor; or `width` is
            missing.

    Source: criticality, chi and K: PDLT 5; growth of residual streams: Noci et al. 2206.03126; post-norm: Xiong
    et al. 2002.04745.

    Example:
        >>> import torch, scalewise as sw
        >>> def build(width):
        ...     layers = [torch.nn.Linear(8, width), torch.nn.Tanh()]
        ...     for _ in range(20):
        ...         layers += [torch.nn.Linear(width, width), torch.nn.Tanh()]
        ...     return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
        >>> found = sw.torch.signals(build, torch.randn(4, 8), width=64)
        >>> found.ok, found.findings[0].mistake
        (False, 'signals vanish')
    """
    models, factory = _models(build, width)
    first = next(models)
    if refused := without_numbers(first):
        raise PlanError(refused)
    inputs = _called_with(first, batch, loss)
    samples = _samples(first, inputs)
    count = seeds if factory else 1
    with Reporter(progress, count + 2 * theory, "steps") as report:
        draws, notes = _drawn(
            first,
            models,
            count,
            report,
            lambda model, seed: _measured(model, inputs, loss, batch, samples, seed),
        )
        rows, spread = over_seeds([d.rows for d in draws])
        known, spreads, said = (
            _theory(build, first, inputs, width, draws[0].rows, report) if theory else ([], [], [])
        )
    known = known or [None] * len(rows)
    found = findings(
        rows,
        fresh_norms=any("of BatchNorm stands" in n for n in notes),
        norms=draws[0].norms,
        outputs=float(draws[0].outputs.square().mean()) ** 0.5,
    )
    found += _steps(optimizer, first)
    return Signals(
        tuple(rows),
        tuple(known),
        tuple(spread),
        tuple(found),
        (*notes, *said),
        (*spreads, *told_of(rows, [d.outputs.numpy() for d in draws])),
        len(draws),
    )


def _drawn(
    first: nn.Module,
    models: Iterator[Any],
    count: int,
    report: Reporter,
    measure: Callable[[nn.Module, int], Measured],
) -> tuple[list[Measured], list[str]]:
    """Draws of the model that are alike, and what there is to say of them."""
    draws = [measure(first, 0)]
    notes = list(draws[0].notes)
    report.add(1)
    for seed in range(1, count):
        seed_all(seed)
        other = next(models)
        if other is first:
            notes.append(
                "`build` returns the same model each time, so there is one draw. Let it build a new one."
            )
            break
        own = measure(other, seed)
        if _places(own) != _places(draws[0]):
            notes.append(
                "`build` returned another model when it was called again, so only the first is reported. Let it "
                "build the same model each time."
            )
            break
        draws.append(own)
        report.add(1)
    return draws, notes


def _models(build: Any, width: int | None) -> tuple[Any, bool]:
    if isinstance(build, nn.Module):
        return iter([build]), False
    if width is None:
        raise PlanError(
            "`width` must be given with a function that builds a model, such as width=64."
        )

    def made() -> Any:
        while True:
            own = build(width)
            if not isinstance(own, nn.Module):
                raise PlanError(
                    f"`build` must return a torch.nn.Module; it returned {type(own).__name__}."
                )
            yield own

    seed_all(0)
    return made(), True


def _called_with(model: nn.Module, batch: Any, loss: Loss | None) -> Inputs:
    """Arguments of the model."""
    if loss is None:
        made = given(batch)
        if made is None:
            raise PlanError(
                "`batch` must be what the model is called with, such as a tensor of a few samples."
            )
        return made
    seen: list[Inputs] = []
    hook = model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(Inputs(args, kwargs)), with_kwargs=True
    )
    try:
        with torch.no_grad(), evaluating(model):
            loss(model, batch)
    except PlanError:
        raise
    except Exception as error:
        raise PlanError(
            f"`loss` raised {type(error).__name__}: {error}. It is called with the model and the batch and returns "
            "one number."
        ) from error
    finally:
        hook.remove()
    if not seen:
        raise PlanError(
            "`loss` does not call the model. Let it call model(...) with what the batch holds."
        )
    return seen[0]


def _samples(model: nn.Module, inputs: Inputs) -> int | None:
    """How many samples there are along the first axis; ``None`` if that is another axis."""
    tensors = [
        t
        for t in pytree.tree_leaves((inputs.args, dict(inputs.kwargs)))
        if isinstance(t, Tensor) and t.ndim
    ]
    try:
        with evaluating(model):
            return len(tensors[0]) if tensors and has_samples(model, inputs) else None
    except Exception as error:
        raise PlanError(
            f"The model cannot be called with `batch`: it raised {type(error).__name__}: {error}. Give what it is "
            "called with: a tensor, a tuple of arguments or a dict of named ones; or `loss`, which calls it."
        ) from error


def _measured(
    model: nn.Module, inputs: Inputs, loss: Loss | None, batch: Any, samples: int | None, seed: int
) -> Measured:
    found = measured(model, inputs, loss, batch, samples, seed)
    if not found.rows:
        raise PlanError(
            "No random layer was seen: nothing multiplies the inputs by a parameter. Give the model that will be "
            "trained."
        )
    return found


def _places(own: Measured) -> list[tuple[str, str]]:
    return [(r.place, r.what) for r in own.rows]


def _theory(
    build: Any,
    model: nn.Module,
    inputs: Inputs,
    width: int | None,
    rows: tuple[Seen, ...],
    report: Reporter,
) -> tuple[list[Foreseen | None], list[str], list[str]]:
    """The theory of each row, how much draws differ, and what is left out."""
    said: list[str] = []
    try:
        try:
            seed_all(0)
            net, one = network_and_model(build, inputs, width, None, False, {})
        except Exception as error:
            if build is model:
                raise
            net, one = network_and_model(model, inputs, None, None, False, {})
            if isinstance(error, FixedSizesError):
                said.append(
                    "The model has no second width, so all its hidden layers are taken to grow."
                )
        report.add(1)
        given_values = by_node(net.program, one.parameters(net, one.seen.values))
        values = fields(net.program, given_values, one.seen.x)[0]
        known, note = foreseen(net, values, one.seen.x, rows)
        said += [note] if note else []
        report.add(1)
        spreads: list[str] = []
        with suppress(ValueError):
            spreads += spread_of_outputs(net, one.seen.x)
        return known, spreads, said + [n for n in one.notes if "gains=True" not in n]
    except Exception as error:
        return (
            [],
            [],
            [f"Measured alone, because the theory does not read all of it. {_short(error)}"],
        )


def _short(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return (
        text if isinstance(error, ValueError) else f"{type(error).__name__}: {text.splitlines()[0]}"
    )


def _steps(optimizer: Any, model: nn.Module) -> list[Finding]:
    """Mistakes in the first steps."""
    if optimizer is None:
        return []
    made = optimizer
    if not isinstance(optimizer, Optimizer):
        own = _with_settings(optimizer)
        made = (
            own[0]([p for p in model.parameters() if p.requires_grad], **own[1])
            if _is_pair(own)
            else own(model)
        )
    parts: list[Any] = list(made) if isinstance(made, list | tuple) else [made]
    for one in parts:
        if not isinstance(one, Optimizer):
            raise PlanError(
                f"`optimizer` must be or return an optimizer; got {type(one).__name__}."
            )
        seen = uncorrected(one)
        if seen is not None:
            first, largest = seen
            name = type(one).__name__
            return [
                Finding(
                    "no bias correction",
                    name,
                    first,
                    f"The first step of {name} is {first:.1f} times the learning rate, and later ones up to "
                    f"{largest:.1f} times: it divides by averages that begin at 0 without correcting them. Divide "
                    "them by 1 - beta^t, as torch.optim.Adam does, or warm up over 1/(1 - beta2) steps.",
                )
            ]
    return []
