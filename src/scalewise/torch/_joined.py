"""One optimizer of several: what a trainer that takes one is given of a plan for Muon with AdamW beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer


class JoinedOptimizer(Optimizer):
    """Optimizers that take each step together, and look like one.

    The groups are those of the parts, one after the other, and the state is one for all. So schedules, saving and
    loading see an ordinary optimizer, and what they change is changed for the parts.

    Args:
        parts: The optimizers, of different parameters.
    """

    def __init__(self, *parts: Optimizer) -> None:
        self.parts = parts
        super().__init__([g for part in parts for g in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        first = 0
        for part in self.parts:
            last = first + len(part.param_groups)
            part.param_groups = self.param_groups[first:last]
            part.state = self.state
            first = last

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"parts": self.parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # Loading has put new groups and a new state in place of those that were shared.
        self._share()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of each part.

        Args:
            closure: Computes the loss and its gradients, once for all.

        Returns:
            The loss, if there is a closure.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self.parts:
            part.step()
        return loss
