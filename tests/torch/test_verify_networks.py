"""Conformance: which networks a verification builds, and that the process goes on as if it had drawn nothing."""

import random
from typing import Any

import numpy as np
import torch
from torch import nn

import scalewise as sw
from scalewise.plan._check import Check
from scalewise.torch import TorchPlan
from scalewise.torch._verify import own_random_numbers

GENERATOR = torch.Generator().manual_seed(1)
POINTS = torch.randn(32, 8, generator=GENERATOR), torch.randint(10, (32,), generator=GENERATOR)


def build(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 10)
    )


def planned(strategy: Any, optimizer: str, factory: Any = build, base: int = 64) -> TorchPlan:
    return sw.torch.plan(
        factory, base={"width": base}, target={"width": 4 * base}, strategy=strategy,
        optimizer=optimizer,
    )  # fmt: skip


def verified(plan: TorchPlan, **options: Any) -> Check:
    def loss(model: nn.Module, batch: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    return plan.verify(POINTS, loss, **options)


def test_the_process_is_left_as_it_was() -> None:
    plan = planned(sw.scaling.mup(), "sgd")
    states = torch.get_rng_state(), np.random.get_state()[1].tolist()
    one = verified(plan, seeds=2, widths=[16, 32, 64])
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == np.random.get_state()[1].tolist()
    before = random.getstate()
    with own_random_numbers():
        random.seed(0)
    assert random.getstate() == before
    torch.manual_seed(99)
    two = verified(plan, seeds=2, widths=[64, 16, 32])
    assert one.table.equals(two.table)
    sizes = one.table["size"].sel(tensor="2.weight", quantity="output").values
    assert len(np.unique(sizes)) == sizes.size
    rate = verified(plan, seeds=2, widths=[16, 32, 64], lr=0.25)
    assert rate.measured.lr == 0.25


def test_no_network_is_built_twice() -> None:
    """Nor is the model looked at again at a size that the plan has seen: one look at each other width."""
    built: list[int] = []

    def counted(width: int) -> nn.Module:
        built.append(width)
        return nn.Sequential(build(width), nn.BatchNorm1d(10))

    plan = planned(sw.scaling.mup(), "adamw", counted, base=16)
    built.clear()
    found = verified(plan, seeds=3, widths=[16, 24, 32, 64])
    assert sorted(built) == sorted([16, 24, 32, 64] * 3 + [24, 32])
    # What was trained at other rates and put back is what a new one is.
    again = verified(plan, seeds=3, widths=[16, 24, 32, 64], lr=found.measured.lr)
    for quantity, sizes in found.measured.sizes.items():
        np.testing.assert_allclose(sizes, again.measured.sizes[quantity], rtol=1e-4)
