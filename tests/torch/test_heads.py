"""Refusal and golden tests: heads that are said are those of the forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from attending import WORDS, Attends, fused, over_d
from scalewise.plan import PlanError
from scalewise.plan._questions import Asked

TOKENS = torch.arange(10).reshape(2, 5) % WORDS


class Pooled(Attends):
    """Heads as they are said, and scores of one query as long as the width."""

    def __init__(self, width: int, heads: int):
        super().__init__(width, heads, fused)
        self.query = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        odds = (self.query(x[:, :1]) @ x.mT).softmax(-1)
        return super().forward(tokens) + self.head((odds @ x).tanh())


# What the factory makes of the heads it is given; what is said at base and target (of widths 16 and 64).
Case = tuple[Callable[..., nn.Module], int, int]
RIGHT: dict[str, Case] = {
    "given": (lambda width, heads: Attends(width, heads, fused), 2, 8),
    "found by the factory": (lambda width: Attends(width, width // 8, fused), 2, 8),
    "heads that grow, with a scale of their own": (lambda width: Attends(width, 2, over_d), 2, 2),
    "half as many that are larger": (lambda width, heads: Attends(width, heads, over_d), 2, 4),
}
WRONG: dict[str, Case] = {
    "ignored": (lambda width, heads: Attends(width, 2, fused), 2, 8),
    "not asked for": (lambda width: Attends(width, 2, fused), 2, 8),
    "more than are said": (lambda width: Attends(width, width // 8, fused), 2, 2),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_heads_that_the_pass_has_are_no_question(kind: str) -> None:
    build, *heads = RIGHT[kind]
    multipliers = _planned(build, *heads).multipliers
    assert multipliers == ({} if heads == [2, 8] else {"attention": 1.0})


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("width", [64, 128])
def test_heads_that_the_pass_lacks_are_refused(kind: str, width: int) -> None:
    build, one, two = WRONG[kind]
    with pytest.raises(
        PlanError, match=r"With .* heads .* entries at width = 16 and .*leave 'heads' out"
    ):
        _planned(build, one, two * width // 64 if two > one else two, width)


def test_more_heads_of_one_width_are_seen_at_another() -> None:
    plan = _planned(lambda width, heads: Attends(width, heads, over_d), 2, 4, width=16)
    assert plan.multipliers == {"attention": 1.0}


def test_what_grows_beside_heads_that_do_not_is_asked_about() -> None:
    with pytest.raises(Asked, match="The heads of the model grow") as asked:
        _planned(Pooled, 2, 8)
    assert asked.value.answers == {"multiplied": ["attention"]}


def _planned(build: Callable[..., nn.Module], one: int, two: int, width: int = 64) -> Any:
    return sw.torch.plan(
        build, base={"width": 16, "heads": one}, target={"width": width, "heads": two},
        strategy=sw.scaling.mup(), inputs=TOKENS,
    )  # fmt: skip
