"""Mean and standard deviation of a tensor's entries, and how well the latter tells that of their law."""

from __future__ import annotations

import math

import torch

from scalewise.plan import PlanError, Spread
from scalewise.plan.spi import spread_error

_PART = 1 << 17  # entries that stay in the cache, in double precision


def real(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the entries as real numbers."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def moments(tensor: torch.Tensor, name: str) -> Spread:
    """Mean, standard deviation and the latter's relative standard error.

    Args:
        tensor: On a real device; sharded ones are reduced over their mesh.
        name: For messages.

    Raises:
        PlanError: If the tensor has no memory, or entries that are not finite.
    """
    if tensor.is_meta:
        raise PlanError(
            f"`{name}` has no memory (it is on the meta device), so it has no entries to look at. Give "
            "the model memory and initialise it first: model.to_empty(device=...), then its own code."
        )
    x = real(tensor.detach())
    # Formats of eight bits have no arithmetic of their own.
    x = x.float() if x.dtype.itemsize == 1 else x
    N = x.numel()
    if N == 0:
        return Spread(0.0, 0.0, 0.0)
    # A vocabulary of a hundred thousand words is never copied whole; what is sharded is not cut.
    parts = (x,) if hasattr(x, "full_tensor") else x.flatten().split(_PART)
    sums = [_number(p.sum(dtype=torch.float64)) for p in parts]
    mean = sum(sums) / N
    if not math.isfinite(mean):
        raise PlanError(
            f"`{name}` holds NaN or infinity as the factory leaves it; let the factory initialise it."
        )
    if max(_number(p.max()) for p in parts) == min(_number(p.min()) for p in parts):
        return Spread(mean, 0.0, 0.0)
    second = fourth = 0.0
    for part in parts:
        powers = part.to(torch.float64, copy=True).sub_(mean).square_()
        second += _number(powers.sum())
        fourth += _number(powers.square_().sum())
    variance = second / N
    return Spread(mean, math.sqrt(variance), spread_error(fourth / N / variance**2, N))


def _number(x: torch.Tensor) -> float:
    whole = getattr(x, "full_tensor", None)
    return float(whole() if whole is not None else x)
