"""Models and settings as verbs are given them in PyTorch: annotations refuse all else, and sentences say why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import nn

from scalewise._checked import Must
from scalewise.plan import _request


def _device(given: Any) -> str:
    try:
        return str(torch.device(given)) if isinstance(given, str | torch.device) else ""
    except RuntimeError:
        return ""


Model = Annotated[nn.Module, Must("a torch.nn.Module")]
ModuleFactory = Annotated[
    _request.Factory, Must(_request.FACTORY, lambda build: not isinstance(build, nn.Module))
]
Settings = Annotated[
    Mapping[str, Any] | None, Must('a dictionary of settings, such as {"lr": 3e-3}')
]
Device = Annotated[Any, Must("the name of a device, such as 'cpu'", bool, _device)]


def without_numbers(model: nn.Module) -> str:
    """A sentence for models whose weights are no numbers that can be differentiated; empty for others."""
    hollow = [name for name, p in model.named_parameters() if p.is_meta]
    if hollow:
        return (
            f"The model has no numbers in {hollow[0]!r}, which is on the device 'meta'. Build it on a real device: "
            "what depends on shapes alone, such as `scalewise.torch.plan`, does without."
        )
    packed = any(getattr(b, "is_quantized", False) for b in model.state_dict().values())
    if packed or not any(p.is_floating_point() for p in model.parameters()):
        return (
            "The model has quantised tensors, or no parameters of floating point, and no gradient passes them. "
            "Give the model that it was quantised from."
        )
    return ""
