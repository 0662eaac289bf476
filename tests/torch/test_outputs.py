"""Golden and refusal tests: readouts are found in whatever a model returns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal

from scalewise.plan import PlanError, Role
from torch_models import planned


@dataclass
class Record:
    """A result with names."""

    mean: Tensor
    value: Tensor


class Slotted:
    """A result without a dictionary, which holds itself."""

    __slots__ = ("held", "own")

    def __init__(self, *held: Any) -> None:
        self.held, self.own = {"both": held}, self


class Kept:
    """A result in attributes."""

    def __init__(self, *held: Any) -> None:
        self._held = held


Returns = Callable[[Tensor, Tensor], Any]
RETURNED: dict[str, Returns] = {
    "tuple": lambda m, v: (m, v),
    "dataclass": Record,
    "named": namedtuple("named", "mean value"),
    "slots": Slotted,
    "attributes": Kept,
    "nested": lambda m, v: {"all": [Kept(Record(m, v))]},
    "distribution": lambda m, v: Independent(Normal(m, v.exp()), 1),
    "choice": lambda m, v: Kept(Categorical(logits=m), v),
}


class Actor(nn.Module):
    """A body and two heads, one of them on a bottleneck."""

    def __init__(self, width: int, returns: Returns) -> None:
        super().__init__()
        self.body = nn.Linear(8, width)
        self.down, self.up = nn.Linear(width, 2), nn.Linear(2, width)
        self.mean, self.value = nn.Linear(width, 3), nn.Linear(width, 1)
        self.returns = returns

    def forward(self, x: Tensor) -> Any:
        h = self.body(x).relu()
        h = h + self.up(self.down(h))
        return self.returns(self.mean(h), self.value(h))


@pytest.mark.parametrize("kind", RETURNED)
def test_readouts_are_found_in_any_object(kind: str) -> None:
    plan = planned(lambda width: Actor(width, RETURNED[kind]), inputs=torch.ones(2, 8))
    roles = {name: plan[f"{name}.weight"].role for name in ("down", "mean", "value")}
    assert roles == {"down": Role.BOTTLENECK, "mean": Role.OUTPUT, "value": Role.OUTPUT}


class Beside(Actor):
    """Its results come with the model itself, whose attributes are no results."""

    def forward(self, x: Tensor) -> Any:
        return Kept(super().forward(x), self)


def test_a_model_beside_its_results_is_not_one_of_them() -> None:
    plan = planned(lambda width: Beside(width, RETURNED["tuple"]), inputs=torch.ones(2, 8))
    assert plan["down.weight"].role is Role.BOTTLENECK


@pytest.mark.parametrize(
    "returns",
    [lambda m, v: None, lambda m, v: lambda: m, lambda m, v: Kept(3), lambda m, v: m.argmax()],
)
@pytest.mark.parametrize("inputs", [torch.ones(2, 8), None])
def test_where_nothing_is_found_it_is_said(returns: Returns, inputs: Tensor | None) -> None:
    with pytest.raises(PlanError, match=r"returned .*no array that the model's tensors have made"):
        planned(lambda width: Actor(width, returns), inputs=inputs)
