"""Golden and agreement tests: parameters of a loss, as prototypes of classes, and learnable multipliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from grids import thorough
from scalewise.plan import Role
from scalewise.plan._diagnosis import Cause
from scalewise.torch import TorchPlan
from two_widths import as_planned, trained

BASE, SIDE, WIDTHS = 32, 12, [32, 64, 128, 256]
DRAWS = torch.Generator().manual_seed(0)
X = torch.randn(16, SIDE, generator=DRAWS)
LABELS = (X @ torch.randn(SIDE, 3, generator=DRAWS)).argmax(-1)


class Learner(nn.Module):
    """Features and a loss of them with parameters of its own, which it returns."""

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(SIDE, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width),
        )  # fmt: skip
        self.kinds, self.kind = nn.Parameter(torch.randn(3, width)), kind
        self.heat = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        return functional.cross_entropy(
            LOGITS[self.kind](self.body(x), self.kinds, self.heat), LABELS
        )


class Multiplied(nn.Module):
    """Weights with learnable multipliers: of whole matrices, of rows and of columns."""

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        self.a, self.b, self.c = (
            nn.Linear(SIDE, width),
            nn.Linear(width, width),
            nn.Linear(width, 3),
        )
        self.m, self.rows = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(width))
        self.columns = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        h = functional.linear(x, self.m[0] * self.a.weight, self.a.bias).relu()
        weight = self.rows[:, None] * self.b.weight * self.columns[None]
        h = functional.linear(h, weight, self.b.bias).relu()
        logits = functional.linear(h, self.m[1] * self.c.weight, self.c.bias)
        return functional.cross_entropy(logits, LABELS)


LOGITS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "products": lambda h, c, heat: h @ c.T,
    "distances": lambda h, c, heat: -(h[:, None] - c).square().mean(-1),
    "angles": lambda h, c, heat: (
        heat.exp() * functional.normalize(h, dim=-1) @ functional.normalize(c, dim=-1).T
    ),
    "angles of a layer": lambda h, c, heat: (
        16 * functional.linear(functional.normalize(h), functional.normalize(c))
    ),
}
# The role of prototypes, and their size and rate at fourfold width.
ROLES = {
    "products": (Role.OUTPUT, 1 / 4, 1 / 4),
    "distances": (Role.INPUT, 1, 1),
    "angles of a layer": (Role.OUTPUT, 1 / 2, 1 / 2),
}


def planned(kind: str, optimizer: str = "adamw") -> TorchPlan:
    build = Multiplied if kind == "multiplied" else Learner
    return sw.torch.plan(
        lambda width: build(width, kind), base={"width": BASE}, target={"width": 4 * BASE},
        strategy=sw.scaling.mup(), optimizer=optimizer, inputs=X,
    )  # fmt: skip


def own(model: Any, x: Tensor) -> Tensor:
    return model(x)


@pytest.mark.parametrize("kind", ROLES)
def test_what_the_loss_does_with_prototypes_tells_their_role(kind: str) -> None:
    plan = planned(kind)
    factors = plan.factors("kinds")
    assert (plan["kinds"].role, factors.init, factors.lr) == ROLES[kind]


def test_multipliers_are_told_by_what_they_multiply() -> None:
    plan = planned("multiplied")
    roles = {n: (str(plan[n].role), plan.factors(n).lr) for n in ("m", "rows", "columns")}
    assert roles == {"m": ("fixed", 1), "rows": ("vector", 1), "columns": ("vector", 1)}
    assert str(plan["b.weight"].role) == "hidden"


@pytest.mark.parametrize(
    "kind", ["distances", "angles of a layer", *thorough("products", "multiplied", "angles")]
)
def test_losses_with_parameters_are_as_planned(kind: str) -> None:
    check = planned(kind).verify(X, own, widths=WIDTHS, seeds=3, progress=False)
    assert check.ok, str(check)
    assert str(check.verdict) == "feature learning, stable"


@pytest.mark.parametrize("kind", ["angles of a layer", *thorough("distances", "products")])
def test_a_wrong_rate_of_prototypes_is_named(kind: str) -> None:
    def setup(plan: Any, model: Any) -> torch.optim.Optimizer:
        plan.init_(model)
        factor, groups = (plan.table.target["width"] / BASE) ** 0.5, []
        for g in plan.param_groups(model, lr=1e-4, weight_decay=0.0):
            groups.append(g | {"params": [p for p in g["params"] if p is not model.kinds]})
            if any(p is model.kinds for p in g["params"]):
                groups.append(g | {"params": [model.kinds], "lr": g["lr"] * factor})
        return torch.optim.AdamW([g for g in groups if g["params"]])

    check = planned(kind).verify(X, own, widths=WIDTHS, seeds=3, setup=setup, progress=False)
    (culprit,) = check.culprits
    assert (culprit.tensor, culprit.cause) == ("kinds", Cause.LEARNING_RATE)
    assert culprit.power == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("kind", ["products", *thorough("distances", "angles", "multiplied")])
def test_losses_with_parameters_train_at_the_rate_of_their_base(kind: str) -> None:
    """The loss of a wide network is that of its base, or below."""
    plan = planned(kind)
    base, wide = (
        trained(plan, n, X, own, as_planned(3e-3), steps=20, seeds=4) for n in (BASE, 8 * BASE)
    )
    assert wide.loss < base.loss + 4 * (base.error + wide.error)


def test_logits_of_a_loss_are_no_attention() -> None:
    class Twice(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(SIDE, width), nn.ReLU(), nn.Linear(width, width))

        def forward(self, x: Tensor) -> Tensor:
            u, v = self.body(x), self.body(x.flip(-1))
            return functional.cross_entropy(u @ v.T / u.shape[-1], torch.arange(len(x)))

    plan = sw.torch.plan(
        Twice, base={"width": BASE}, target={"width": 4 * BASE}, strategy="mup", inputs=X
    )
    assert plan.multipliers == {"product": 1}
