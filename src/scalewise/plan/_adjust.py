r"""What libraries of Muon multiply a step by, beside the learning rate: a function of the matrix's shape.

An orthogonalised gradient needs $(d_{out}/d_{in})^{1/2}$ for its learning rate to hold at every shape. Some
libraries multiply by it, some by another root of the shape, and the same word stands for different ones:
`spectral` is $\max(d_{out},d_{in})^{1/2}$ in Megatron and $(d_{out}/d_{in})^{1/2}$ in dion (`spectral_norm`). A
plan gives to each tensor the ratio of the factor that it needs to the one that the library applies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from scalewise.plan._errors import PlanError


def _none(rows: int, columns: int) -> float:
    return 1.0


def _ratio(rows: int, columns: int) -> float:
    return math.sqrt(rows / columns)


def _at_least_one(rows: int, columns: int) -> float:
    return math.sqrt(max(1.0, rows / columns))


def _largest(rows: int, columns: int) -> float:
    return math.sqrt(max(rows, columns))


def _rms(rows: int, columns: int) -> float:
    return 0.2 * _largest(rows, columns)


def _turned(rows: int, columns: int) -> float:
    return _at_least_one(columns, rows)


# By the name that a library has for it; rows and columns as the library counts them.
ADJUSTMENTS: Mapping[str, Callable[[int, int], float]] = MappingProxyType(
    {
        "none": _none,
        "original": _at_least_one,  # torch.optim.Muon; Keller Jordan's
        "shape_scaling": _at_least_one,  # Emerging-Optimizers
        "optax": _turned,  # optax.contrib.muon by default, which takes the first axis to be summed over
        "match_rms_adamw": _rms,  # torch.optim.Muon
        "moonlight": _rms,
        "consistent_rms": _rms,  # optax.contrib.muon(consistent_rms=0.2)
        "spectral": _largest,  # Megatron and Emerging-Optimizers
        "spectral_norm": _ratio,  # dion
        "spectral_unclamped": _ratio,  # torchtitan's DistMuon
        "unit_rms_norm": _ratio,  # Emerging-Optimizers
    }
)


def adjustment(name: str | None) -> str:
    """The name of a known factor; ``None`` is that of the raw orthogonal matrix.

    Raises:
        PlanError: If it is not one of those that are known.
    """
    if name is None:
        return "none"
    if name not in ADJUSTMENTS:
        raise PlanError(
            f"`adjust` must be one of {', '.join(map(repr, ADJUSTMENTS))}, the name of what the library "
            f"multiplies an orthogonalised step by; got {name!r}."
        )
    return name
