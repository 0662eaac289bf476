"""The NTK of a module by the first way that follows it, and what a module must not do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch

from scalewise.torch._given import without_numbers
from scalewise.torch._tangent_products import products
from scalewise.torch._tangent_rows import (
    Model,
    Parts,
    Reads,
    Way,
    column,
    formed,
    joined,
    many_at_once,
    one_by_one,
    seen,
)
from scalewise.training.spi import Ntk, RowBlock, groups, ntk_by_blocks

SEVERAL = 2**26  # bytes of a pass of several samples: larger ones are slower, not faster
_LOOSE = 1e3  # roundings by which two ways to compute the same number may differ
_SMALL = 1e-3  # of all derivatives: those by a tensor that are smaller may be rounding alone
_FAILURES = (RuntimeError, NotImplementedError, ValueError, TypeError, AttributeError)
Named = Mapping[str, torch.Tensor]


class NtkRequest(NamedTuple):
    """A request for an NTK.

    Args:
        R: Read-outs (read, output).
        rates: By name of the parameter.
        mean: Whether the NTK is averaged over read-outs.
        memory: Budget in bytes.
    """

    R: np.ndarray
    rates: Mapping[str, float]
    mean: bool
    memory: int


def trained(module: torch.nn.Module, rates: Mapping[str, float]) -> dict[str, torch.Tensor]:
    """The parameters that are trained, by name, if there are any, with numbers, and rates are by their names."""
    parameters = module.named_parameters()
    named: dict[str, torch.Tensor] = {name: p for name, p in parameters if p.requires_grad}
    refused = without_numbers(module)
    if refused and (not named or any(p.is_meta for p in named.values())):
        raise ValueError(refused)
    if not named:
        raise ValueError(
            "`module` has no parameters that are trained: all of them have requires_grad=False. Give a model with "
            "parameters that are."
        )
    if rates.keys() - named.keys():
        raise ValueError(
            f"`rates` must be by the names of parameters that are trained, {sorted(named)}; got {sorted(rates)}."
        )
    return named


def check_repeats(module: torch.nn.Module, sample: torch.Tensor) -> torch.Tensor:
    """The outputs (1, outputs) of a module that may read one sample, and does the same with it each time."""
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.training:
            raise ValueError(
                f"`module` mixes samples: {name!r} is batch normalisation in training. Call `module.eval()` first; "
                "with the statistics that it then has, every sample is read alone."
            )
    one, again = (column(_outputs(module, sample)) for _ in range(2))
    scale = _rounding(one) * one.abs().max().clamp(min=1e-30)
    if bool((one - again).abs().max() > scale):
        raise ValueError(
            "`module` draws random numbers: it gives other outputs for the same sample a second time. Call "
            "`module.eval()` first, or fix what it draws."
        )
    return one


def _outputs(module: torch.nn.Module, samples: torch.Tensor) -> torch.Tensor:
    buffers = {name: b.clone() for name, b in module.named_buffers()}
    with torch.no_grad():
        return torch.func.functional_call(module, buffers, (samples,))


def check_alone(module: torch.nn.Module, inputs: torch.Tensor) -> int:
    """The number of outputs of a module that treats every sample alone, and the same each time."""
    one = check_repeats(module, inputs[:1])
    try:
        both = _outputs(module, inputs[:2])
    except _FAILURES:  # what takes single samples alone cannot mix them
        return one.shape[1]
    both = both[:, None] if both.ndim == 1 else both
    if bool((both[:1] - one).abs().max() > _rounding(one) * both.abs().max().clamp(min=1e-30)):
        raise ValueError(
            "`module` mixes samples: the first has other outputs beside the second than alone. Call "
            "`module.eval()` first, or give a module that reads every sample alone."
        )
    return one.shape[1]


def ntk_of(
    module: torch.nn.Module, named: Named, inputs: torch.Tensor, asked: NtkRequest
) -> tuple[np.ndarray, Ntk]:
    """Outputs and NTK, by the first way that agrees with autograd on the first sample and can take all."""
    try:
        model = seen(module, named, inputs[:1])
    except _FAILURES:
        model = Model(module, named, (), 1)
    reads, device = len(asked.R), inputs.device
    precision = torch.float32 if device.type == "mps" else torch.float64
    R = torch.as_tensor(asked.R, dtype=precision, device=device)
    tries = [(model, one_by_one(model, reads), 1)]
    each = model.graph * (1 + reads) + sum(model.kept(name, reads)[0].of(reads) for name in named)
    several = min(SEVERAL, asked.memory // 4) // each
    if several > 1 and len(inputs) > 1:
        tries.insert(0, (model, many_at_once(model, reads), several))
    for tried, way, at_once in tries:
        try:
            if _follows(tried, way, inputs[: min(at_once, 2)], R):
                return _by_blocks(tried, way, at_once, inputs, R, asked)
        except _FAILURES:
            continue
    plain = model.plain()
    return _by_blocks(plain, one_by_one(plain, reads), 1, inputs, R, asked)


def _follows(model: Model, way: Way, samples: torch.Tensor, R: Reads) -> bool:
    """True if a way has the derivatives of the first read-out on the first sample that autograd has."""
    plain = model.plain()
    z, own = one_by_one(plain, 1)(samples[:1], R[:1], list(model.named))
    z2, parts = way(samples, R[:1], list(model.named))
    loose = _rounding(z)
    if bool((z2[:1] - z).abs().max() > loose * z.abs().max()):
        return False
    sizes = {name: float(formed(plain, name, part).g.norm()) for name, part in own.items()}
    least = _SMALL * max(sizes.values())
    for name, part in parts.items():
        first = type(part)(*(legs[:1] for legs in part))
        apart = formed(model, name, first).g - formed(plain, name, own[name]).g
        if not float(apart.norm()) <= loose * (sizes[name] + least):
            return False
    return True


def _by_blocks(
    model: Model, way: Way, at_once: int, inputs: torch.Tensor, R: Reads, asked: NtkRequest
) -> tuple[np.ndarray, Ntk]:
    names, reads = list(model.named), len(R)
    outputs: dict[int, np.ndarray] = {}

    def pieces(block: RowBlock, wanted: list[str]) -> Iterator[Parts]:
        for start in range(block.samples.start, block.samples.stop, at_once):
            some = inputs[start : min(start + at_once, block.samples.stop)]
            z, parts = way(some, R[block.reads], wanted)
            outputs[start] = z.double().numpy(force=True)
            yield parts

    def rows(block: RowBlock, tensors: tuple[int, ...]) -> Parts:
        wanted = [names[k] for k in tensors]
        return joined(pieces(block, wanted), block.samples.stop - block.samples.start)

    def both(one: Parts, other: Parts) -> Ntk:
        room = asked.memory // 16
        parts = (
            asked.rates.get(name, 1.0)
            * products(one[name], other[name], mean=asked.mean, room=room)
            for name in one
        )
        return reduce(np.add, parts)

    kept = [model.kept(name, reads)[0] for name in names]
    plan = groups(kept, len(inputs), reads, memory=asked.memory, mean=asked.mean)
    H = ntk_by_blocks(plan, rows, both, (len(inputs), reads), mean=asked.mean)
    return np.concatenate([outputs[k] for k in sorted(outputs)]), H


def _rounding(z: torch.Tensor) -> float:
    """By how much, relatively, numbers like these may differ if they are computed otherwise."""
    kind, worst = z.device.type, torch.finfo(z.dtype).eps
    if torch.is_autocast_enabled(kind):
        worst = max(worst, torch.finfo(torch.get_autocast_dtype(kind)).eps)
    return min(0.1, _LOOSE * worst)
