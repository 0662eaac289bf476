"""Models of other people's kind, small, and plans for them; shared by the tests of scalewise.torch."""

from __future__ import annotations

import torch
import torch.multiprocessing
from torch import nn

import scalewise as sw
from scalewise.torch import TorchPlan

NARROW, WIDE = 16, 64
# Imported once for all processes that tests start.
torch.multiprocessing.get_context("forkserver").set_forkserver_preload(
    ["scalewise.torch", "torch.distributed.fsdp", "torch.distributed.tensor.parallel"]
)


def mlp(width: int, depth: int = 3) -> nn.Sequential:
    """`depth` weight layers, from 8 numbers to 10."""
    layers: list[nn.Module] = [nn.Linear(8, width), nn.ReLU()]
    for _ in range(depth - 2):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


class Transformer(nn.Module):
    """An encoder of PyTorch's own between an embedding and a readout, which may be tied."""

    def __init__(self, width: int, depth: int = 2, *, tied: bool = False, heads: int | None = None):
        super().__init__()
        self.embed = nn.Embedding(20, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(
            width, heads or width // 8, 2 * width, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 20, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(tokens)))


class ConvNet(nn.Module):
    """Plain, depthwise and transposed convolutions, norms, and a convolution that reads out."""

    def __init__(self, width: int):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.depthwise = nn.Conv2d(width, width, 3, groups=width, padding=1)
        self.pointwise = nn.Conv2d(width, 2 * width, 1)
        self.group_norm = nn.GroupNorm(4, 2 * width)
        self.bend = nn.PReLU(2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.head = nn.Conv2d(width, 10, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.depthwise(self.norm(self.stem(x)).relu())
        x = self.up(self.bend(self.group_norm(self.pointwise(x))))
        return self.head(x).mean((2, 3))


def planned(build=mlp, *, base: int = NARROW, target: int = WIDE, **options) -> TorchPlan:
    """A plan in the width alone, for maximal updates if nothing else is said."""
    settings = {"strategy": sw.scaling.mup()} | options
    return sw.torch.plan(build, base={"width": base}, target={"width": target}, **settings)


def batch(of: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs for `mlp` and targets."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(of, 8, generator=generator)
    return x, torch.randn(of, 10, generator=generator)


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 5) -> nn.Module:
    """The model after a few steps on one batch."""
    x, y = (t.to(next(model.parameters()).dtype) for t in batch())
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return model


def entries(model: nn.Module) -> list[torch.Tensor]:
    """A copy of every parameter."""
    return [p.detach().clone() for p in model.parameters()]


def same(one: list[torch.Tensor], two: list[torch.Tensor]) -> bool:
    """Whether two lists of tensors agree bitwise."""
    return len(one) == len(two) and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
