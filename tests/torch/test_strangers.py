"""Agreement tests: models as others write them, whose sizes their own code tells."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from grids import thorough
from scalewise.plan import Role
from scalewise.plan._questions import Asked

BASE, WIDTHS = 32, [32, 64, 128]
DRAWS = torch.Generator().manual_seed(0)
X, Y = torch.randn(8, 12, generator=DRAWS), torch.randn(8, 4, generator=DRAWS)


class Reads(nn.Module):
    """Features of length one, and a readout that makes up for it."""

    def __init__(self, width: int, where: str) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, width))
        self.out, self.width, self.where = nn.Linear(width, 4, bias=False), width, where

    def forward(self, x: Tensor) -> Tensor:
        h = functional.normalize(self.body(x), dim=-1)
        if self.where == "before":
            return self.out(h * self.width**0.5)
        return self.out(h) * self.width**0.5


def squares(model: nn.Module, x: Tensor) -> Tensor:
    return functional.mse_loss(model(x), Y)


@pytest.mark.parametrize("where", ["behind", *thorough("before")])
def test_features_of_length_one_and_a_factor_that_makes_up_for_it(where: str) -> None:
    plan = sw.torch.plan(
        lambda width: Reads(width, where), base={"width": BASE}, target={"width": 4 * BASE},
        strategy=sw.scaling.mup(), inputs=X,
    )  # fmt: skip
    assert plan.factors("out.weight").init == plan.factors("out.weight").lr == 1 / 4
    check = plan.verify(X, squares, widths=WIDTHS, seeds=2, progress=False)
    assert check.ok, str(check)


class Proxies(nn.Module):
    """Distances from features to learnt points, as losses of metric learning take them."""

    def __init__(self, width: int, way: str) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, width), nn.ReLU(), nn.Linear(width, width))
        self.points, self.way = nn.Parameter(torch.randn(10, width) / 4), way

    def forward(self, x: Tensor) -> Tensor:
        h, points = self.body(x), self.points
        if self.way.startswith("unit"):
            h, points = functional.normalize(h, dim=-1), functional.normalize(points, dim=-1)
        if self.way.endswith("cdist"):
            apart = torch.cdist(h, points).square()
        else:
            apart = (h[:, None] - points).square().sum(-1)
        return functional.cross_entropy(-9 * apart, torch.arange(len(x)))


def proxies(way: str) -> Any:
    return sw.torch.plan(
        lambda width: Proxies(width, way), base={"width": BASE}, target={"width": 4 * BASE},
        strategy=sw.scaling.mup(), inputs=X,
    )  # fmt: skip


@pytest.mark.parametrize("way", ["unit cdist", "unit squares"])
def test_distances_of_what_has_length_one_do_not_grow(way: str) -> None:
    plan = proxies(way)
    assert plan["points"].role is Role.INPUT
    assert set(plan.multipliers.values()) <= {1}
    assert plan.verify(X, lambda m, x: m(x), widths=WIDTHS, seeds=2, progress=False).ok


@pytest.mark.parametrize("way", ["cdist", "squares"])
def test_distances_of_what_grows_are_asked_about_alone(way: str) -> None:
    with pytest.raises(Asked, match="lets these distances grow") as asked:
        proxies(way)
    assert asked.value.answers == {"multiplied": ["distance"]}


def test_a_readout_that_the_pass_leaves_alone_goes_by_the_one_that_it_takes() -> None:
    class Adapted(nn.Module):
        """A readout with the one that it was copied from, as adapters keep it."""

        def __init__(self, width: int) -> None:
            super().__init__()
            self.body = nn.Linear(12, width)
            self.first, self.taken = nn.Linear(width, 4), nn.Linear(width, 4)
            self.first.requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            return self.taken(self.body(x).relu())

    plan = sw.torch.plan(
        Adapted,
        base={"width": BASE},
        target={"width": 2 * BASE},
        strategy=sw.scaling.mup(),
        inputs=X,
    )
    assert plan["first.weight"].role is plan["taken.weight"].role is Role.OUTPUT
    check = plan.verify(
        X, lambda m, x: (m(x) - x[:, :4]).square().mean(), widths=WIDTHS, seeds=2, progress=False
    )
    assert check.ok, str(check)
