"""How a factory draws each parameter: the operations that fill it, done again to evenly spread numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from scalewise.networks.spi import LAWS, NORMAL
from scalewise.reading.spi import ParameterLaw, law_of

_POINTS = 1 << 17  # evenly spread numbers
_FILLED = frozenset(["uniform", "normal", "zero", "fill"])
_CHANGED = frozenset(
    ["mul", "div", "add", "sub", "erfinv", "clamp", "neg", "clamp_min", "clamp_max", "sqrt", "abs"]
)
_COPIES = frozenset(["clone", "_to_copy", "detach", "alias"])

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


@dataclass
class Draws(TorchDispatchMode):
    """Watches a factory: which operations fill which storage."""

    chains: dict[int, list[Call] | None] = field(default_factory=dict)
    _kept: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func._schema.name.rpartition("::")[2]
        if name in _COPIES and isinstance(out, Tensor) and out.data_ptr() != args[0].data_ptr():
            if args[0].data_ptr() in self.chains:
                self.chains[out.data_ptr()] = self.chains[args[0].data_ptr()]
                self._kept.append(out)
        elif name.endswith("_") and not name.endswith("__") and isinstance(args[0], Tensor):
            self._note(name[:-1], args[0], args[1:], kwargs)
        return out

    def _note(self, name: str, tensor: Tensor, args: Any, kwargs: Any) -> None:
        self._kept.append(tensor)
        place = tensor.data_ptr()
        whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
        kwargs = {k: v for k, v in kwargs.items() if k != "generator"}
        numbers = all(isinstance(a, int | float) or a is None for a in (*args, *kwargs.values()))
        if not whole:
            return  # some rows: padding of an embedding
        if name in _FILLED and numbers:
            self.chains[place] = [(name, args, kwargs)]
        elif name in _CHANGED and numbers and self.chains.get(place):
            self.chains[place] = [*(self.chains[place] or []), (name, args, kwargs)]
        elif name not in ("requires_grad", "set"):
            self.chains[place] = None


def drawn(build: Callable[[], nn.Module]) -> tuple[nn.Module, dict[str, ParameterLaw]]:
    """A model, and how each of its parameters was drawn."""
    with Draws() as draws:
        model = build()
    found = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        chain = draws.chains.get(p.data_ptr())
        if chain is None or not chain:
            found[name] = _of_entries(p)
        else:
            found[name] = _straight(chain) or law_of(_spread(chain), few=False)
    return model, found


def told_by_entries(model: nn.Module) -> dict[str, ParameterLaw]:
    """How parameters were drawn, as far as their entries tell."""
    return {n: _of_entries(p) for n, p in model.named_parameters(remove_duplicate=False)}


def _of_entries(p: Tensor) -> ParameterLaw:
    return law_of(p.detach().double().cpu().numpy(), few=True)


def _straight(chain: list[Call]) -> ParameterLaw | None:
    """The law of uniform or normal numbers times others, with others added; ``None`` of anything else."""
    (first, args, kwargs), *rest = chain
    if first == "uniform":
        low, high = _two(args, kwargs, ("from", "to"), (0.0, 1.0))
        law, mean, std = LAWS["uniform"], (low + high) / 2, abs(high - low) / math.sqrt(12)
    elif first == "normal":
        law, (mean, std) = NORMAL, _two(args, kwargs, ("mean", "std"), (0.0, 1.0))
    else:
        return None
    for name, args, kwargs in rest:
        if name not in ("mul", "div", "add", "sub", "neg") or kwargs:
            return None
        by = float(args[0]) if args else -1.0
        factor = {"mul": by, "div": 1 / by if by else math.nan, "neg": by}.get(name, 1.0)
        mean, std = mean * factor + {"add": by, "sub": -by}.get(name, 0.0), std * abs(factor)
    return ParameterLaw(std**2, mean, law) if std else ParameterLaw(0.0, mean, NORMAL)


def _spread(chain: list[Call]) -> np.ndarray:
    """Evenly spread numbers of a law."""
    own = torch.zeros(_POINTS, dtype=torch.float64)
    even = (torch.arange(_POINTS, dtype=torch.float64) + 0.5) / _POINTS
    for name, args, kwargs in chain:
        if name == "uniform":
            low, high = _two(args, kwargs, ("from", "to"), (0.0, 1.0))
            own = low + (high - low) * even
        elif name == "normal":
            mean, std = _two(args, kwargs, ("mean", "std"), (0.0, 1.0))
            own = mean + std * math.sqrt(2) * torch.erfinv(2 * even - 1)
        else:
            own = getattr(own, name + "_")(*args, **kwargs)
    return own.numpy()


def _two(
    args: Any, kwargs: Any, names: tuple[str, str], usual: tuple[float, float]
) -> tuple[float, float]:
    given = [kwargs.get(n, u) for n, u in zip(names, usual, strict=True)]
    given[: len(args)] = args[:2]
    return float(given[0]), float(given[1])
