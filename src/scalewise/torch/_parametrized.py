"""Weights that a module computes from others, as far as a plan knows how sizes and steps pass through.

`weight_norm` makes a weight from its direction and its lengths, and `spectral_norm` divides one by its largest
singular value; both exist as parametrizations and as older hooks. They are told by their types, whatever the
tensors are called.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrize import ParametrizationList

_DIRECTION = importlib.import_module("torch.nn.utils.weight_norm").WeightNorm
_BOUNDED = importlib.import_module("torch.nn.utils.spectral_norm").SpectralNorm
Part = Literal["direction", "length", "bounded"]


@dataclass(frozen=True)
class ComputedWeight:
    """The part that one parameter has in the weight that its module uses.

    Args:
        owner: Name of that module.
        module: The module.
        local: Name of the weight in it.
        part: ``"direction"`` or ``"length"`` of it, or ``"bounded"``: all of it but for its largest singular value.
        direction: Of a length the parameter that it is the length of.
    """

    owner: str
    module: nn.Module
    local: str
    part: Part
    direction: nn.Parameter | None = None


def computed(model: nn.Module) -> dict[int, ComputedWeight]:
    """The parameters of a model of which this is known, by their `id`."""
    out = {}
    for path, module in model.named_modules():
        for local, parts in _of_module(module):
            direction = parts.get("direction")
            for part, tensor in parts.items():
                of = direction if part == "length" else None
                out[id(tensor)] = ComputedWeight(path, module, local, part, of)
    return out


def is_parametrization(name: str) -> bool:
    """True if a module of this name only computes a weight of the one that holds it."""
    return "parametrizations" in name.split(".")


def _of_module(module: nn.Module) -> Iterator[tuple[str, dict[Part, nn.Parameter]]]:
    held: Any = getattr(module, "parametrizations", None)
    for local, steps in held.items() if isinstance(held, nn.ModuleDict) else ():
        if isinstance(steps, ParametrizationList) and len(steps) == 1:
            of: Any = steps
            if isinstance(of[0], parametrizations._WeightNorm):
                yield local, {"length": of.original0, "direction": of.original1}
            elif isinstance(of[0], parametrizations._SpectralNorm):
                yield local, {"bounded": of.original}
    for hook in module._forward_pre_hooks.values():
        local = str(getattr(hook, "name", ""))
        if isinstance(hook, _DIRECTION):
            own: Any = module
            lengths, direction = (getattr(own, f"{local}_{end}") for end in "gv")
            yield local, {"length": lengths, "direction": direction}
        elif isinstance(hook, _BOUNDED):
            yield local, {"bounded": getattr(module, f"{local}_orig")}
