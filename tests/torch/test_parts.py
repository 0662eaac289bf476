"""Golden and agreement tests: layers that sum over the width and over numbers beside it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from grids import thorough
from scalewise.plan import load
from scalewise.plan._diagnosis import Cause
from scalewise.plan._parts import grown
from scalewise.torch import TorchPlan
from two_widths import as_planned, trained

BASE, SIDE, WIDTHS = 32, 24, [32, 64, 128, 256]
DRAWS = torch.Generator().manual_seed(0)
X = torch.randn(16, SIDE, generator=DRAWS)
LABELS = (X @ torch.randn(SIDE, 3, generator=DRAWS)).argmax(-1)


class Skips(nn.Module):
    """Inputs come back beside the features, in front of them, in a layer or in the readout."""

    def __init__(self, width: int, place: str) -> None:
        super().__init__()
        self.place = place
        before, last = (SIDE * (place in kinds) for kinds in (("behind", "in front"), ("readout",)))
        self.first, self.middle = nn.Linear(SIDE, width), nn.Linear(width + before, width)
        self.out = nn.Linear(width + last, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        if self.place == "behind":
            h = torch.cat([h, x], -1)
        elif self.place == "in front":
            h = torch.cat([x.unsqueeze(0), h.unsqueeze(0)], -1).squeeze(0)
        h = torch.relu(self.middle(h))
        return self.out(torch.cat([h, x], 1) if self.place == "readout" else h)


class Places(nn.Module):
    """A convolution over channels of the width and three of the picture."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.middle, self.out = nn.Conv2d(width + 3, width, 3, padding=1), nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(len(x), 3, 2, 4)
        h = torch.relu(self.middle(torch.cat([self.first(x).relu(), x], 1)))
        return self.out(h.mean((2, 3)))


class Both(Skips):
    """Two sets of features beside each other: all of them grow."""

    def __init__(self, width: int) -> None:
        super().__init__(width, "none")
        self.middle = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        return self.out(torch.relu(self.middle(torch.cat([h, h.cos()], -1))))


def planned(place: str, optimizer: str = "adamw", times: int = 4) -> TorchPlan:
    def build(width: int) -> nn.Module:
        kinds: dict[str, Any] = {"picture": Places, "both": Both}
        return kinds[place](width) if place in kinds else Skips(width, place)

    return sw.torch.plan(
        build, base={"width": BASE}, target={"width": times * BASE}, strategy=sw.scaling.mup(),
        optimizer=optimizer, inputs=X,
    )  # fmt: skip


def entropy(model: Any, x: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), LABELS)


STRETCHES = {
    "behind": ("middle.weight", ((1, 128, 152),), 1 / 2),
    "in front": ("middle.weight", ((1, 0, 24),), 1 / 2),
    "readout": ("out.weight", ((1, 128, 152),), 1 / 4),
    "picture": ("middle.weight", ((1, 128, 131),), 1 / 2),
}


@pytest.mark.parametrize("place", STRETCHES)
def test_the_two_parts_of_a_weight_start_by_rules_of_their_own(place: str, tmp_path: Any) -> None:
    name, stretches, size = STRETCHES[place]
    plan = planned(place)
    factors = plan.factors(name)
    assert (plan[name].fixed, factors.init, factors.lr) == (stretches, size, 1 / 4)
    assert plan[name].fan_out == (1 if place == "readout" else 4)
    assert f"`{name}` sums over the width and, beside it, over" in str(plan)
    torch.manual_seed(0)
    assert plan.build is not None
    model = plan.init_(plan.build(width=4 * BASE))
    weight, base = dict(model.named_parameters())[name].detach(), plan[name].base.std
    inside = grown(weight, stretches)
    apart = weight[:, stretches[0][1] : stretches[0][2]]
    assert float(inside.std()) == pytest.approx(size * base, rel=0.1)
    assert float(apart.std()) == pytest.approx(base, rel=0.15)
    again = {n: p.clone() for n, p in model.named_parameters()}
    plan.init_(model)
    assert all(torch.equal(p, again[n]) for n, p in model.named_parameters())
    plan.save(tmp_path / "plan.json")
    assert load(tmp_path / "plan.json")[name] == plan[name]


def test_what_grows_altogether_has_one_part() -> None:
    plan = planned("both")
    assert plan["middle.weight"].fixed == ()
    assert plan.factors("middle.weight").lr == 1 / 4


@pytest.mark.parametrize(
    ("place", "optimizer"),
    [
        ("behind", "adamw"),
        ("readout", "adamw"),
        *thorough(("in front", "adamw"), ("behind", "muon"), ("picture", "adamw")),
    ],
)
def test_layers_of_two_parts_are_as_planned(place: str, optimizer: str) -> None:
    check = planned(place, optimizer).verify(X, entropy, widths=WIDTHS, seeds=3, progress=False)
    assert check.ok, str(check)
    assert str(check.verdict) == "feature learning, stable"


def test_the_ratio_of_all_that_is_summed_is_the_wrong_rate() -> None:
    def setup(plan: Any, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        one, width = dict(model.named_parameters())["middle.weight"], plan.table.target["width"]
        groups = plan.param_groups(model, lr=1e-4, weight_decay=0.0)
        rest = [g | {"params": [p for p in g["params"] if p is not one]} for g in groups]
        mine = {"params": [one], "lr": 1e-4 * (BASE + SIDE) / (width + SIDE)}
        return torch.optim.AdamW([*(g for g in rest if g["params"]), mine])

    check = planned("behind").verify(
        X, entropy, widths=WIDTHS, seeds=3, setup=setup, progress=False
    )
    (culprit,) = check.culprits
    assert (culprit.tensor, culprit.cause) == ("middle.weight", Cause.LEARNING_RATE)


@pytest.mark.parametrize("place", ["behind", *thorough("readout", "in front")])
def test_layers_of_two_parts_train_at_the_rate_of_their_base(place: str) -> None:
    """The loss of a wide network is that of its base, or below."""
    plan = planned(place)
    base, wide = (
        trained(plan, n, X, entropy, as_planned(5e-3), steps=20, seeds=4) for n in (BASE, 8 * BASE)
    )
    assert wide.loss < base.loss + 4 * (base.error + wide.error)
    assert base.loss < 0.9
