"""Agreement: networks over depths; a residual multiplier that nobody applies, and what a factory does itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from grids import thorough
from scalewise.plan import PlanError
from scalewise.plan._check import Check
from scalewise.torch import TorchPlan
from torch_models import mlp

GENERATOR = torch.Generator().manual_seed(1)
POINTS = torch.randn(16, 8, generator=GENERATOR), torch.randint(10, (16,), generator=GENERATOR)
OPTIMIZERS: dict[str, Any] = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}


class Stream(nn.Module):
    """Branches of two layers each behind a norm; their last weights may know the depth."""

    def __init__(self, width: int, depth: int, aware: bool = False, power: float = 0.0):
        super().__init__()
        self.first = nn.Linear(8, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.ups = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.downs = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)
        self.factor = depth**-power
        for layer in self.downs if aware else ():
            nn.init.normal_(layer.weight, std=(width * depth) ** -0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            x = x + self.factor * down(up(norm(x)).relu())
        return self.head(self.norm(x))


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def planned(build: Callable[..., nn.Module], optimizer: str = "adamw", **options: Any) -> TorchPlan:
    return sw.torch.plan(
        build, base={"width": 32, "depth": 2}, target={"width": 64, "depth": 8},
        strategy=sw.scaling.mup(), optimizer=optimizer, **options,
    )  # fmt: skip


def verified(plan: TorchPlan, **options: Any) -> Check:
    return plan.verify(
        POINTS, loss, widths=[16, 32, 64], seeds=3, depth=2, depths=[2, 4, 8], **options
    )


def scaled(plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
    """A training script that lets hooks multiply the branches."""
    plan.init_(model)
    plan.scale_(model, branches=["downs.*"])
    kind = OPTIMIZERS[plan.table.optimizer]
    return kind(plan.param_groups(model, lr=1e-4, weight_decay=0.0))


def applied() -> Check:
    return verified(planned(Stream, "adamw", residual=1), setup=scaled)


def by_the_branches() -> Check:
    return verified(planned(Stream, "sgd", residual="1/2", branch_outputs=["downs.*"]))


def without_branches() -> Check:
    return verified(planned(lambda width, depth: mlp(width, depth), "sgd"))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ([applied], [("sgd", 1.0)]),
        *thorough(([by_the_branches, without_branches], [("adamw", 1.0), ("adamw", 0.5)])),
    ],
    ids=["some", "more"],
)
def test_a_residual_multiplier_that_is_not_applied_is_named(right: list, wrong: list) -> None:
    checks = [check() for check in right]
    problems = [str(c.depth) for c in checks if c.depth is None or not c.depth.ok]
    for optimizer, alpha in wrong:
        c = verified(planned(Stream, optimizer, residual=alpha, multiplied=["residual"]))
        deep = c.depth
        assert deep is not None
        worst = deep.worst
        if c.ok or worst is None or "plan.multipliers['residual']" not in str(c):
            problems.append(f"{optimizer}, {alpha}: {deep}")
        elif abs(worst.excess - alpha * (2 if optimizer == "sgd" else 1)) > 0.35:
            problems.append(f"{optimizer}, {alpha}: {worst.excess}, {deep}")
    assert not problems, "\n".join(problems)


def test_an_initialisation_that_knows_the_depth_is_not_scaled_twice() -> None:
    def aware(width: int, depth: int) -> nn.Module:
        return Stream(width, depth, aware=True)

    def unaware(width: int, depth: int) -> nn.Module:
        return (
            Stream(width, depth, aware=True).to(torch.float32)
            if depth == 2
            else _as_at_two(width, depth)
        )

    def _as_at_two(width: int, depth: int) -> nn.Module:
        model = Stream(width, depth)
        for layer in model.downs:
            nn.init.normal_(layer.weight, std=(2 * width) ** -0.5)
        return model

    options: dict[str, Any] = {"residual": "1/2", "branch_outputs": ["downs.*"]}
    one, two = planned(aware, **options), planned(unaware, **options)
    wanted = (64 * 8) ** -0.5
    for name in ("downs.0.weight", "downs.7.weight"):
        assert one.std(name) == pytest.approx(wanted, rel=0.1)
        assert two.std(name) == pytest.approx(wanted, rel=0.1)
        assert one.std("ups.0.weight") == two.std("ups.0.weight")
    # Applied in the forward pass instead, the weights keep the size they have at the base's depth.
    assert planned(aware, residual="1/2").std("downs.0.weight") == pytest.approx(
        (64 * 2) ** -0.5, rel=0.1
    )
    # Without a rule for branches, what the factory does stays.
    assert planned(aware).std("downs.0.weight") == pytest.approx(wanted, rel=0.1)


def test_depths_that_cannot_be_measured() -> None:
    with pytest.raises(
        PlanError, match=r"`depths` must hold at least three different depths; got \(2, 4\)"
    ):
        planned(Stream).verify(POINTS, loss, widths=[32, 64, 128], seeds=2, depth=2, depths=[2, 4])
    flat = sw.torch.plan(
        lambda width: mlp(width),
        base={"width": 32},
        target={"width": 64},
        strategy=sw.scaling.mup(),
    )
    with pytest.raises(PlanError, match="the plan has no depth 'depth'"):
        flat.verify(POINTS, loss, widths=[32, 64, 128], seeds=2, depths=[2, 4, 8])
