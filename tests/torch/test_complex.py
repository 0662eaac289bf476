"""Property: a model of complex numbers is seen as the same model of real ones is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw

REAL, COMPLEX = torch.float32, torch.complex64
GENERATOR = torch.Generator().manual_seed(0)
POINTS = torch.randn(6, 8, generator=GENERATOR)


class Net(nn.Module):
    """A first layer, one or more in the middle, and a real readout; of either kind of numbers."""

    def __init__(self, width: int, kind: torch.dtype):
        super().__init__()
        self.kind, self.width = kind, width
        self.first, self.head = nn.Linear(8, width, dtype=kind), nn.Linear(width, 3)

    def middle(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.middle(torch.tanh(self.first(x.to(self.kind))))
        return self.head(torch.tanh(found.real if found.is_complex() else found))


class Layer(Net):
    """A layer, whose output the code multiplies by a number of some size and any phase."""

    def __init__(self, width: int, kind: torch.dtype):
        super().__init__(width, kind)
        self.two = nn.Linear(width, width, dtype=kind)

    def middle(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(x) * (1j if self.kind is COMPLEX else 1.0) * self.width**-0.5


class Buffered(Layer):
    """The same with the number in a buffer."""

    def __init__(self, width: int, kind: torch.dtype):
        super().__init__(width, kind)
        self.register_buffer("f", torch.full((), width**-0.5) * (1j if kind is COMPLEX else 1.0))

    def middle(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(x) * self.f


class Bare(Net):
    """A matrix and a gain that are parameters of the model's own."""

    def __init__(self, width: int, kind: torch.dtype):
        super().__init__(width, kind)
        self.w = nn.Parameter(torch.randn(width, width, dtype=kind) / width**0.5)
        self.gain = nn.Parameter(torch.randn(width, dtype=kind))

    def middle(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.gain) @ self.w.T


class Attends(Net):
    """Attention over the entries of each sample."""

    def __init__(self, width: int, kind: torch.dtype):
        super().__init__(width, kind)
        self.qkv = nn.ModuleList(nn.Linear(width, width, dtype=kind) for _ in range(3))

    def middle(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (f(x[None]) for f in self.qkv)
        logits = q @ k.mH / self.width
        weights = (logits.real if logits.is_complex() else logits).softmax(-1)
        return (weights.to(self.kind) @ v)[0]


def seen(build: Any, kind: torch.dtype, inputs: Any) -> list[Any]:
    plan = sw.torch.plan(
        lambda width: build(width, kind), base={"width": 32}, target={"width": 128}, strategy="mup",
        inputs=inputs,
    )  # fmt: skip
    rows = [(t.name, t.role, t.gauge, t.rule) for t in plan.table.tensors]
    return [rows, plan.multipliers, plan.table.looked]


@pytest.mark.parametrize("build", [Layer, Buffered, Bare, Attends])
def test_complex_models_are_planned_as_real_ones(build: Any) -> None:
    real = seen(build, REAL, POINTS)
    assert real[-1]
    assert seen(build, COMPLEX, POINTS) == real
    assert seen(build, COMPLEX, POINTS.to(COMPLEX)) == real
    if build is not Bare:  # nothing tells what to call it with
        assert seen(build, COMPLEX, None) == real


class Halves(Bare):
    """Real and imaginary parts side by side, seen as complex numbers."""

    def __init__(self, width: int, kind: torch.dtype):
        super().__init__(width, kind)
        self.w = nn.Parameter(torch.randn(width, width, 2) / width**0.5)

    def middle(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.gain) @ torch.view_as_complex(self.w)


def test_real_tensors_that_are_viewed_as_complex_keep_their_axes() -> None:
    found, real = seen(Halves, COMPLEX, POINTS), seen(Bare, REAL, POINTS)
    assert [r[:2] for r in found[0]] == [r[:2] for r in real[0]]
