"""Golden and agreement tests: encoders whose transposed weights decode, in the model's own code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from grids import thorough
from scalewise.plan import PlanError, Role
from scalewise.plan._questions import Asked
from scalewise.torch import TorchPlan
from two_widths import as_planned, trained

BASE, SIDE, WIDTHS = 32, 12, [32, 64, 128, 256]
DRAWS = torch.Generator().manual_seed(0)
X = torch.randn(16, SIDE, generator=DRAWS)


class OfLayer(nn.Module):
    """A layer encodes, and its transposed weights decode."""

    def __init__(self, width: int, power: float) -> None:
        super().__init__()
        self.encode, self.shift = nn.Linear(SIDE, width), nn.Parameter(torch.zeros(SIDE))
        self.factor = (BASE / width) ** power / 4

    def forward(self, x: Tensor) -> Tensor:
        h = self.encode(x).relu()
        return functional.linear(self.factor * h, self.encode.weight.t(), self.shift)


class OfMatrix(nn.Module):
    """A matrix in no module, on either side of its activations."""

    def __init__(self, width: int, power: float) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(SIDE, width) / SIDE**0.5)
        self.into, self.out = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(SIDE))
        self.factor = (BASE / width) ** power / 4

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * torch.relu(x @ self.matrix + self.into) @ self.matrix.T + self.out


class Deep(nn.Module):
    """Two matrices, each used both ways."""

    def __init__(self, width: int, power: float) -> None:
        super().__init__()
        self.outer = nn.Parameter(torch.randn(width, SIDE) / SIDE**0.5)
        self.inner = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.factor = (BASE / width) ** power / 4

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(torch.tanh(x @ self.outer.T) @ self.inner.T)
        return self.factor * torch.tanh(h @ self.inner) @ self.outer


KINDS: dict[str, tuple[Any, str]] = {
    "layer": (OfLayer, "encode.weight"),
    "matrix": (OfMatrix, "matrix"),
    "deep": (Deep, "outer"),
}


def planned(kind: str, power: float, **options: Any) -> TorchPlan:
    build, _ = KINDS[kind]
    return sw.torch.plan(
        lambda width: build(width, power), base={"width": BASE}, target={"width": 4 * BASE},
        strategy=sw.scaling.mup(), inputs=X, **options,
    )  # fmt: skip


def again(model: Any, x: Tensor) -> Tensor:
    return functional.mse_loss(model(x), x)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_encode_and_decode_lack_the_width_once(kind: str) -> None:
    name = KINDS[kind][1]
    with pytest.raises(Asked, match=f"also reads out with the weights .* `{name}`") as asked:
        planned(kind, 0.0)
    assert asked.value.answers == {"multiplied": [name]}
    plan = planned(kind, 1.0)
    assert plan.multipliers == {name: 1}
    assert plan[name].role is Role.INPUT
    if kind == "deep":
        assert plan["inner"].role is Role.HIDDEN


@pytest.mark.parametrize("kind", ["matrix", *thorough("layer", "deep")])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_what_decodes_neither_grows_nor_is_passed_if_it_does(kind: str, power: float) -> None:
    said = {} if power == 1 else {"multiplied": [KINDS[kind][1]]}
    check = planned(kind, power, **said).verify(X, again, widths=WIDTHS, seeds=3, progress=False)
    assert check.ok is check.verdict.stable is (power == 1), str(check)
    if power == 1:
        assert str(check.verdict) == "feature learning, stable"


@pytest.mark.parametrize("kind", ["matrix", *thorough("layer", "deep")])
def test_an_autoencoder_trains_at_the_rate_of_its_base(kind: str) -> None:
    """A plan's wide network ends no higher than the base."""
    plan = planned(kind, 1.0)
    base, wide = (
        trained(plan, n, X, again, as_planned(3e-3), steps=30, seeds=3) for n in (BASE, 8 * BASE)
    )
    assert wide.loss < base.loss + 4 * (base.error + wide.error)


def test_a_base_as_wide_as_the_input_tells_the_same() -> None:
    plan = sw.torch.plan(
        lambda width: OfLayer(width, 1.0), base={"width": SIDE}, target={"width": 4 * SIDE},
        strategy=sw.scaling.mup(), inputs=X,
    )  # fmt: skip
    assert plan.multipliers == {"encode.weight": 1}
    assert (plan.factors("encode.weight").init, plan.factors("encode.weight").lr) == (1, 1)


def test_a_matrix_to_few_units_and_back_is_refused() -> None:
    class Narrow(OfLayer):
        def __init__(self, width: int, power: float) -> None:
            super().__init__(width, power)
            self.code = nn.Linear(width, 4)

        def forward(self, x: Tensor) -> Tensor:
            h = functional.linear(self.code(self.encode(x).relu()), self.code.weight.t())
            return functional.linear(self.factor * h, self.encode.weight.t(), self.shift)

    with pytest.raises(PlanError, match="untie them"):
        sw.torch.plan(
            lambda width: Narrow(width, 1.0), base={"width": BASE}, target={"width": 4 * BASE},
            strategy=sw.scaling.mup(), inputs=X,
        )  # fmt: skip
