"""Property tests: what spares a large model's plan work changes nothing of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import scalewise as sw
from scalewise.torch import _trace
from scalewise.torch._moments import moments
from scalewise.torch._repeated import RepeatedDraws, told
from scalewise.torch._weightless import Weightless


class _Mode(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.shapes = Weightless()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.shapes.call(func, args, kwargs or {})


def _pass(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    y = (x @ w).softmax(-1) * x.new_full((), 2.0)
    halves = y.to(torch.float16), torch.cat([y, x], -1), (x > 0).sum(-1), y.mean(0, keepdim=True)
    whole = (x > 0).add(True), (x > 0).add(1), (x > 0).add(1.0)
    turned = x.t() + 1, x.t().contiguous() + 1
    return [y, *halves, *whole, *turned]


def test_shapes_without_memory_are_found_once_and_are_the_same() -> None:
    with torch.device("meta"):
        x, w = torch.empty(3, 4), torch.empty(4, 4)
        expected = _pass(x, w)
        with _Mode() as mode:
            found, once = _pass(x, w), len(mode.shapes._found)
            again = _pass(x, w)
            assert x.add_(1) is x
    assert len(mode.shapes._found) == once >= 6
    for tensors in (found, again):
        assert [(t.shape, t.stride(), t.dtype, t.device) for t in tensors] == [
            (t.shape, t.stride(), t.dtype, t.device) for t in expected
        ]
    assert not {id(t) for t in found} & {id(t) for t in again}


def test_a_large_table_is_drawn_in_part() -> None:
    entries = 700_000
    with RepeatedDraws():
        table = nn.Embedding(entries // 7, 7).weight
        small = nn.Linear(100, 100).weight
    found = told(moments(table, "table"), entries)
    plain = moments(table, "table")
    assert abs(found.std - 1) < 4 * found.error < 0.01
    assert found.error / plain.error == pytest.approx((entries / 262_139) ** 0.5)
    assert len(table.flatten().unique()) == pytest.approx(262_139, rel=0.05)
    assert len(small.flatten().unique()) > 9_900
    # No row is another one.
    assert torch.linalg.matrix_rank(table[::1000].detach()) == 7
    assert len(table.unique(dim=0)) == entries // 7


def test_a_plan_without_them_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(width: int) -> nn.Module:
        return nn.Sequential(
            nn.Embedding(20, width), nn.TransformerEncoderLayer(width, width // 16, 2 * width, 0.0),
            nn.Linear(width, 20),
        )  # fmt: skip

    def planned() -> Any:
        return sw.torch.plan(
            build, base={"width": 32}, target={"width": 64}, strategy="mup",
            inputs=torch.arange(8).reshape(2, 4),
        ).table.tensors  # fmt: skip

    spared = planned()

    class Plain(Weightless):
        def call(self, func: Any, args: Any, kwargs: Any) -> Any:
            return func(*args, **kwargs)

    monkeypatch.setattr(_trace, "Weightless", Plain)
    assert planned() == spared
