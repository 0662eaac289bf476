"""Sizes, gradients and correlations of one draw of a model, in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from scalewise.plan import PlanError
from scalewise.plan.spi import Inputs
from scalewise.signals import Seen
from scalewise.torch._rows import PlaceRows, correlations
from scalewise.torch._watch import Watch, watching

_ALONE = 2  # samples that are passed by themselves, as many as the theory is asked for


@dataclass(frozen=True)
class Measured:
    """Observations of one draw of a model.

    Args:
        rows: Place by place, in order of execution.
        notes: What there is to say of the pass, in sentences.
        outputs: The outputs of some samples, flattened.
        norms: Of norms that add a number to variances: the place, the number, and its share in them.
    """

    rows: tuple[Seen, ...]
    notes: tuple[str, ...]
    outputs: Tensor
    norms: tuple[tuple[str, float, float], ...] = ()


def measured(
    model: nn.Module,
    inputs: Inputs,
    loss: Callable[..., Any] | None,
    batch: Any,
    samples: int | None,
    seed: int,
) -> Measured:
    """One draw.

    Args:
        model: The model.
        inputs: What it is called with.
        loss: A function of (model, batch); ``None`` for a random projection of the outputs.
        batch: What it is given.
        samples: How many there are along the first axis of all inputs; ``None`` if that is no axis of samples.
        seed: Of the projection.
    """
    with evaluating(model):
        watch, output = _whole(model, inputs, loss, batch, samples or 1, seed)
        rows = watch.rows.measured(samples or 1)

        def alone(k: int) -> PlaceRows:
            own = pytree.tree_map(
                lambda v: v[k : k + 1] if isinstance(v, Tensor) else v, _both(inputs)
            )
            return _alone(model, own if samples is not None else _both(inputs))

        try:
            between, within = correlations(alone, min(samples or 1, _ALONE))
        except Exception:  # a model that takes this batch alone
            between, within = [], []
    if len(between) == len(rows):
        rows = [
            replace(r, samples=b, positions=w)
            for r, b, w in zip(rows, between, within, strict=True)
        ]
    return Measured(tuple(rows), tuple(_notes(model, watch)), output, tuple(watch.norms))


def _both(inputs: Inputs) -> tuple[Any, dict[str, Any]]:
    return inputs.args, dict(inputs.kwargs)


def _alone(model: nn.Module, own: tuple[Any, dict[str, Any]]) -> PlaceRows:
    with torch.no_grad(), watching(model, keep=True) as watch:
        _enter(watch, own)
        model(*own[0], **own[1])
    return watch.rows


def _enter(watch: Watch, own: Any) -> None:
    for tensor in pytree.tree_leaves(own):
        if isinstance(tensor, Tensor):
            watch.enter(tensor)


def _whole(
    model: nn.Module,
    inputs: Inputs,
    loss: Callable[..., Any] | None,
    batch: Any,
    samples: int,
    seed: int,
) -> tuple[Watch, Tensor]:
    frozen = [p for p in model.parameters() if p.is_floating_point() and not p.requires_grad]
    seen: list[Tensor] = []
    handle = model.register_forward_hook(lambda _m, _i, out: seen.append(_first(out)))
    try:
        for p in frozen:  # so that gradients pass places whose parameters are not trained
            p.requires_grad_(True)
        with torch.enable_grad(), watching(model) as watch:
            _enter(watch, (batch, _both(inputs)))
            if loss is None:
                model(*inputs.args, **inputs.kwargs)
                value: Any = seen[-1]
            else:
                value = loss(model, batch)
        if loss is None:
            noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(seed)).to(
                value
            )
            value = (value * noise).sum() * (samples / noise.numel()) ** 0.5
        slopes = [p for p in model.parameters() if p.requires_grad and p.is_floating_point()]
        if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
            raise PlanError(
                "`loss` must return one number that depends on the parameters and can be differentiated, such as "
                "the mean of cross_entropy(model(x), y)."
            )
        try:
            torch.autograd.grad(value, slopes, allow_unused=True)
        except RuntimeError as error:
            raise PlanError(
                f"The backward pass raised RuntimeError: {str(error).splitlines()[0]} Training would, too: mend "
                "the forward pass."
            ) from error
    finally:
        handle.remove()
        for p in frozen:
            p.requires_grad_(False)
    return watch, seen[0].detach().float().reshape(samples, -1)


def _first(output: Any) -> Tensor:
    for leaf in pytree.tree_leaves(output):
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            return leaf
    for leaf in vars(output).values() if hasattr(output, "__dict__") else ():
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            return leaf
    raise PlanError(
        f"The model returned {type(output).__name__} and in it no tensor of numbers. Let it return what it "
        "computes."
    )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """In evaluation mode, and afterwards as it was."""
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _notes(model: nn.Module, watch: Watch) -> Iterator[str]:
    if watch.random:
        yield (
            f"{subject(watch.random[0])} draws random numbers in its forward pass, in evaluation mode too: "
            "measured sizes are those of one draw. Fix what it draws to see what repeats."
        )
    if watch.shapes:
        yield (
            f"{subject(watch.shapes[0])} has shapes that depend on the data: what is measured holds for this batch "
            "alone."
        )
    if watch.branches and not watch.shapes:
        yield (
            f"{subject(watch.branches[0])} reads a number of its own to decide what to do: what is measured holds "
            "for this batch alone."
        )
    fresh = [n for n, m in model.named_modules() if _is_fresh(m)]
    if fresh:
        yield (
            f"`{fresh[0]}`{f' and {len(fresh) - 1} more' if len(fresh) > 1 else ''} of BatchNorm stands in "
            "evaluation mode with the statistics that it begins with, and changes nothing here; in training it "
            "divides by those of the batch. Run a few batches in training mode first to measure what it then does."
        )
    if any(p.dtype in (torch.float16, torch.bfloat16) for p in model.parameters()):
        yield "The model computes in low precision; numbers below a hundredth of a size are rounding."


def subject(place: str) -> str:
    """A place as a sentence begins with it."""
    return f"`{place}`" if place else "The model"


def _is_fresh(module: nn.Module) -> bool:
    mean, var = getattr(module, "running_mean", None), getattr(module, "running_var", None)
    if not isinstance(mean, Tensor) or not isinstance(var, Tensor):
        return False
    return bool((mean == 0).all() and (var == 1).all())
