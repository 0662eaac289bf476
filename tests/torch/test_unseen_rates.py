"""Agreement: how often `verify` is right about models whose readout no module shows, or that have none.

`pytest -s` prints the rates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from grids import thorough
from scalewise.plan._check import Check
from scalewise.plan._diagnosis import Cause

BASE, WIDTHS = 32, [32, 64, 128, 256]
Finding = tuple[tuple[str, Cause], ...]


class Hidden(nn.Module):
    """Two layers, and a readout that the code multiplies entry by entry and sums itself."""

    def __init__(self, width: int, power: float) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, width), nn.Linear(width, width)
        self.read = nn.Parameter(torch.randn(5, width) / width**0.5)
        self.factor = (BASE / width) ** power

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.second(torch.tanh(self.first(x))))
        return self.factor * (x[:, None] * (1.0 * self.read)).sum(-1)


class Factors(nn.Module):
    """Ratings from products of factors of users and things."""

    def __init__(self, width: int, power: float) -> None:
        super().__init__()
        self.users, self.things = nn.Embedding(20, width), nn.Embedding(15, width)
        self.factor = (BASE / width) ** (1 + power) / (2 * BASE**0.5)

    def forward(self, rated: Tensor) -> Tensor:
        return self.factor * (self.users(rated[0]) * self.things(rated[1])).sum(-1)


@dataclass(frozen=True)
class Model:
    """A model, what a plan of it must be told, and what the right plan finds.

    Args:
        build: Called with a width and a power by which its output is too small.
        said: Of `plan`.
        finding: Tensors and causes where nothing is wrong.
        tensor: The one that a wrong setting is given to.
    """

    build: Callable[[int, float], nn.Module]
    said: dict[str, Any]
    finding: Finding
    tensor: str


PRODUCT: dict[str, Any] = {"multiplied": ["product"]}
MODELS = {
    "readout in no module": Model(
        Hidden, {"roles": {"read": "output"}}, (("read", Cause.UNSEEN),), "second.weight"
    ),
    "product": Model(Factors, PRODUCT, (), "users.weight"),
}
# By which powers of the width the output, a spread and a rate are off.
MISTAKES: dict[str, tuple[float, float, float]] = {
    "right": (0.0, 0.0, 0.0),
    "output too large": (-0.5, 0.0, 0.0),
    "drawn too large": (0.0, 0.5, 0.0),
    "rate too large": (0.0, 0.0, 0.5),
}


def checked(model: Model, mistake: tuple[float, float, float], draw: int) -> Check:
    """One verification of a model with a mistake; each `draw` has other data and other weights."""
    power, spread, rate = mistake
    data = torch.Generator().manual_seed(draw)
    rated = torch.stack([torch.randint(n, (32,), generator=data) for n in (20, 15)])
    batch = (rated, torch.randn(32, generator=data))
    if model.build is Hidden:
        labels = torch.randint(5, (16,), generator=data)
        batch = (torch.randn(16, 8, generator=data), labels)

    def build(width: int) -> nn.Module:
        torch.rand(draw)
        return model.build(width, power)

    def loss(one: nn.Module, batch: Any) -> Tensor:
        out = one(batch[0])
        labels = batch[1]
        if out.ndim == 2:
            return functional.cross_entropy(out, labels)
        return (out - labels).square().mean()

    def setup(plan: Any, one: nn.Module) -> torch.optim.Optimizer:
        plan.init_(one)
        factor, wrong = (
            plan.table.target["width"] / BASE,
            dict(one.named_parameters())[model.tensor],
        )
        with torch.no_grad():
            wrong.mul_(factor**spread)
        groups = []
        for g in plan.param_groups(one, lr=1e-3, weight_decay=0.0):
            groups.append(g | {"params": [p for p in g["params"] if p is not wrong]})
            if any(p is wrong for p in g["params"]):
                groups.append(g | {"params": [wrong], "lr": g["lr"] * factor**rate})
        return torch.optim.AdamW([g for g in groups if g["params"]])

    plan = sw.torch.plan(
        build, base={"width": BASE}, target={"width": 4 * BASE}, strategy=sw.scaling.mup(), inputs=batch[0],
        **model.said,
    )  # fmt: skip
    return plan.verify(batch, loss, widths=WIDTHS, seeds=3, setup=setup, progress=False)


def is_right(check: Check, model: Model, mistake: str) -> bool:
    """Whether a verification says what is so: nothing but what it cannot see, or the tensor that is wrong first."""
    found = tuple((c.tensor, c.cause) for c in check.culprits)
    if mistake == "right":
        return found == model.finding and check.ok == (not found)
    if mistake == "output too large":
        return found[:1] != () and found[0][1] is Cause.FORWARD
    cause = Cause.INITIALISATION if mistake == "drawn too large" else Cause.LEARNING_RATE
    return found[:1] == ((model.tensor, cause),)


@pytest.mark.parametrize(
    ("name", "draws"), [("product", 1), *thorough(("product", 20), ("readout in no module", 20))]
)
def test_verify_is_right_about_outputs_that_it_cannot_see(name: str, draws: int) -> None:
    rates, model = {}, MODELS[name]
    for mistake, powers in MISTAKES.items():
        found = [is_right(checked(model, powers, i), model, mistake) for i in range(draws)]
        rates[mistake] = sum(found)
        print(f"{name}, {mistake}: right {sum(found)} of {draws}", flush=True)
    # A verdict at three standard errors of three networks a width is wrong now and then.
    assert min(rates.values()) >= 0.9 * draws, rates
