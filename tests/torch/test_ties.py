"""Golden and agreement tests: a tensor that the model's own code uses as another matrix than its module does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from scalewise.plan import PlanError, Role
from scalewise.plan._questions import Asked
from scalewise.torch import TorchPlan

N, FEATURES = 32, 12
NUMBERS = torch.randn(8, FEATURES, generator=torch.Generator().manual_seed(0))
TOKENS = torch.arange(8)


class Tied(nn.Module):
    """A layer, a matrix, and what is done with the layer's weights afterwards."""

    def __init__(self, width: int, first: Callable[[int], nn.Module], end: End) -> None:
        super().__init__()
        self.first, self.mix = first(width), nn.Linear(width, width)
        self.last = nn.Linear(width, 3)
        self.end, self.width = end, width

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self, self.mix(self.first(x).relu()).relu())


End = Callable[[Any, Tensor], Tensor]


def linear(width: int) -> nn.Module:
    return nn.Linear(FEATURES, width)


def words(width: int) -> nn.Module:
    return nn.Embedding(FEATURES, width)


class Decoder(Tied):
    """The other way round: the module reads out, and the code encodes."""

    def __init__(self, width: int) -> None:
        super().__init__(width, lambda _: nn.Identity(), lambda m, x: m.last(x))
        self.last = nn.Linear(width, FEATURES)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(functional.linear(x, self.last.weight.t()))


READ_OUT: dict[str, tuple[Callable[[int], nn.Module], End]] = {
    "linear": (linear, lambda m, x: functional.linear(x, m.first.weight.t())),
    "product": (linear, lambda m, x: x @ m.first.weight),
    "einsum": (linear, lambda m, x: torch.einsum("bn,nf->bf", x, m.first.weight)),
    "sum": (linear, lambda m, x: (x.unsqueeze(-1) * m.first.weight).sum(1)),
    "embedding": (words, lambda m, x: functional.linear(x, m.first.weight)),
}
# Nothing to multiply: hidden matrices, the same use twice, and rows that were picked.
SILENT: dict[str, tuple[Callable[[int], nn.Module], End]] = {
    "none": (linear, lambda m, x: m.last(x)),
    "hidden": (linear, lambda m, x: m.last(functional.linear(x, m.mix.weight.t()))),
    "again": (linear, lambda m, x: m.last(x + functional.linear(x[:, :FEATURES], m.first.weight))),
    "rows": (
        words,
        lambda m, x: m.last(x * ((x * m.first(TOKENS)).sum(-1, True) / m.width).sigmoid()),
    ),
}


@pytest.mark.parametrize("kind", READ_OUT)
def test_weights_that_also_read_out_ask_for_a_multiplier(kind: str) -> None:
    first, end = READ_OUT[kind]
    with pytest.raises(Asked, match=r"also reads out with the weights .* `first.weight`") as asked:
        _planned(lambda width: Tied(width, first, end), first)
    assert asked.value.answers == {"multiplied": ["first.weight"]}
    plan = _planned(lambda width: Tied(width, first, end), first, multiplied=["first.weight"])
    assert plan["first.weight"].role is Role.INPUT
    assert plan.multipliers == {"first.weight": 1 / 4}


@pytest.mark.parametrize("kind", ["linear", "product", "einsum", "embedding"])
def test_a_multiplier_of_the_code_is_seen_and_not_taken_back(kind: str) -> None:
    first, end = READ_OUT[kind]
    own = _planned(lambda width: Tied(width, first, lambda m, x: end(m, x / m.width)), first)
    assert own.multipliers == {"first.weight": 1}
    assert own.factors("first.weight").init == 1


@pytest.mark.parametrize("kind", SILENT)
def test_other_second_uses_need_none(kind: str) -> None:
    first, end = SILENT[kind]
    plan = _planned(lambda width: Tied(width, first, end), first)
    assert "first.weight" not in plan.multipliers


def test_a_readout_that_also_encodes_is_scaled_by_a_hook() -> None:
    plan = _planned(Decoder, linear)
    assert plan["last.weight"].role is Role.INPUT
    assert plan.multipliers == {"last": 1 / 4}


def test_a_matrix_to_a_bottleneck_and_back_is_refused() -> None:
    def end(m: Any, x: Tensor) -> Tensor:
        return m.last(m.first(functional.linear(x, m.first.weight.t())))

    with pytest.raises(PlanError, match=r"`first.weight` \(input\), `first.weight` \(bottleneck\)"):
        _planned(lambda width: Tied(width, linear, end), linear)


@pytest.mark.parametrize("kind", ["linear", "embedding"])
@pytest.mark.parametrize("applied", [True, False])
def test_the_multiplier_keeps_outputs_from_growing(kind: str, applied: bool) -> None:
    """At initialisation by the root of the width down with it, and by the root of it up without."""
    first, end = READ_OUT[kind]
    sizes = []
    for width in (N, 16 * N):
        plan = _planned(
            lambda width: Tied(width, first, end), first, multiplied=["first.weight"], width=width
        )
        torch.manual_seed(0)
        model = plan.init_(Tied(width, first, end))
        with torch.no_grad():
            factor = plan.multipliers["first.weight"] if applied else 1.0
            sizes.append(factor * model(TOKENS if first is words else NUMBERS).std())
    assert float(sizes[1] / sizes[0]) == pytest.approx(1 / 4 if applied else 4, rel=0.3)


def _planned(
    build: Callable[[int], nn.Module], first: object, *, width: int = 4 * N, **options: Any
) -> TorchPlan:
    return sw.torch.plan(
        lambda width: build(width), base={"width": N}, target={"width": width},
        strategy=sw.scaling.mup(), inputs=TOKENS if first is words else NUMBERS, **options,
    )  # fmt: skip
