"""What `plan` and its verbs are given in PyTorch; these annotations refuse all else."""

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
