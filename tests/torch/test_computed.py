"""Golden, agreement and refusal tests: weights that are computed from others, by weight_norm and spectral_norm."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, spectral_norm, weight_norm

import scalewise as sw
from grids import thorough
from scalewise.plan import PlanError
from scalewise.plan._diagnosis import Cause
from scalewise.torch import TorchPlan
from two_widths import as_planned, trained

BASE, SIDE, WIDTHS = 32, 12, [32, 64, 128, 256]
DRAWS = torch.Generator().manual_seed(0)
X = torch.randn(16, SIDE, generator=DRAWS)
LABELS = (X @ torch.randn(SIDE, 3, generator=DRAWS)).argmax(-1)
Wrap = Callable[[nn.Linear], nn.Module]
LENGTHS: dict[str, Wrap] = {
    "rows": parametrizations.weight_norm,
    "whole": lambda layer: parametrizations.weight_norm(layer, dim=None),  # pyright: ignore
    "columns": lambda layer: parametrizations.weight_norm(layer, dim=1),
    "hook": weight_norm,
}
pytestmark = pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated")


class Net(nn.Module):
    """Three layers, each of whose weights is computed, and numbers on the way."""

    def __init__(self, width: int, wrap: Wrap, first: float = 0.0, last: float = 0.0) -> None:
        super().__init__()
        self.a, self.b = wrap(nn.Linear(SIDE, width)), wrap(nn.Linear(width, width))
        self.c = wrap(nn.Linear(width, 3))
        self.first, self.last = (width / BASE) ** first, (width / BASE) ** last

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first * self.a(x))
        return self.last * self.c(torch.relu(2 * self.b(h)))


def planned(
    wrap: Wrap, optimizer: str = "adamw", first: float = 0.0, last: float = 0.0
) -> TorchPlan:
    return sw.torch.plan(
        lambda width: Net(width, wrap, first, last), base={"width": BASE}, target={"width": 4 * BASE},
        strategy=sw.scaling.mup(), optimizer=optimizer, inputs=X,
    )  # fmt: skip


def entropy(model: Any, x: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), LABELS)


@pytest.mark.parametrize("kind", LENGTHS)
def test_computed_weights_start_as_plain_ones_are_planned(kind: str) -> None:
    plan, plain = planned(LENGTHS[kind]), planned(lambda layer: layer)
    torch.manual_seed(0)
    model: Any = plan.init_(Net(4 * BASE, LENGTHS[kind]))
    torch.manual_seed(0)
    other: Any = plain.init_(Net(4 * BASE, lambda layer: layer))
    model(X)  # A hook computes its weight when it is called.
    for name in "abc":
        weight, its = getattr(model, name).weight, getattr(other, name).weight
        torch.testing.assert_close(weight, its, rtol=1e-5, atol=1e-7)
    before = model(X)
    assert torch.equal(plan.init_(model)(X), before)


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [
        ("rows", "adamw"),
        *thorough(("whole", "adamw"), ("columns", "adamw"), ("hook", "adamw")),
        *thorough(("rows", "muon")),
    ],
)
def test_directions_and_lengths_move_as_planned(kind: str, optimizer: str) -> None:
    plan = planned(LENGTHS[kind], optimizer)
    check = plan.verify(X, entropy, widths=WIDTHS, seeds=3, progress=False)
    assert check.ok, str(check)
    assert str(check.verdict) == "feature learning, stable"


def wrongly(name: str, power: float) -> Any:
    """A script with the rate of one tensor off by a power of the width."""

    def setup(plan: Any, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        wrong, factor = dict(model.named_parameters())[name], plan.table.target["width"] / BASE
        groups = []
        for g in plan.param_groups(model, lr=1e-4, weight_decay=0.0):
            groups.append(g | {"params": [p for p in g["params"] if p is not wrong]})
            if any(p is wrong for p in g["params"]):
                groups.append(g | {"params": [wrong], "lr": g["lr"] * factor**power})
        return torch.optim.AdamW([g for g in groups if g["params"]])

    return setup


@pytest.mark.parametrize("name", ["original0", *thorough("original1")])
def test_a_wrong_rate_of_a_computed_readout_is_named(name: str) -> None:
    wrong = f"c.parametrizations.weight.{name}"
    check = planned(LENGTHS["rows"]).verify(
        X, entropy, widths=WIDTHS, seeds=3, setup=wrongly(wrong, 0.5), progress=False
    )
    (culprit,) = check.culprits
    assert (culprit.tensor, culprit.cause) == (wrong, Cause.LEARNING_RATE)
    assert culprit.power == pytest.approx(0.5, abs=0.1)


BOUNDED: dict[str, Wrap] = {
    "parametrization": parametrizations.spectral_norm,
    "hook": spectral_norm,
}


@pytest.mark.parametrize("kind", BOUNDED)
def test_a_bounded_singular_value_needs_the_forward_pass(kind: str) -> None:
    for first, last, layer, power in ((0.0, -0.5, "a", "1/2"), (0.5, 0.0, "c", "-1/2")):
        said = rf"multiply what `{layer}` returns by \(width / base width\)\^\({power}\)"
        with pytest.raises(PlanError, match=said):
            planned(BOUNDED[kind], first=first, last=last)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = planned(BOUNDED[kind], first=0.5, last=-0.5)
    name = "original" if kind == "parametrization" else "orig"
    relative = [
        f.lr / f.init for t in plan.table.tensors if name in t.name and (f := plan.factors(t.name))
    ]
    assert relative == [1, 1 / 2, 1]


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [("parametrization", "adamw"), *thorough(("hook", "adamw"), ("parametrization", "muon"))],
)
def test_bounded_weights_move_as_planned(kind: str, optimizer: str) -> None:
    plan = planned(BOUNDED[kind], optimizer, 0.5, -0.5)
    check = plan.verify(X, entropy, widths=WIDTHS, seeds=3, progress=False)
    assert check.ok, str(check)
    assert str(check.verdict) == "feature learning, stable"


@pytest.mark.parametrize("kind", ["lengths", *thorough("bounded")])
def test_computed_weights_train_at_the_rate_of_their_base(kind: str) -> None:
    """The loss of a wide network is that of its base, or below."""
    plan = (
        planned(LENGTHS["rows"])
        if kind == "lengths"
        else planned(BOUNDED["hook"], "adamw", 0.5, -0.5)
    )
    base, wide = (
        trained(plan, n, X, entropy, as_planned(1e-2), steps=20, seeds=4) for n in (BASE, 8 * BASE)
    )
    assert wide.loss < base.loss + 4 * (base.error + wide.error)
    assert base.loss < 0.9
