"""Models as people write them, for reading: each a function of the width, and what it is called with.

None of them was written for the reader: they use views, chunks, fused projections, scatter, buffers, and what the
libraries have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEAD = 8


class Case(NamedTuple):
    """A model to read.

    Args:
        build: From a width to a module.
        inputs: What it is called with.
        at: Which position of the outputs is kept.
        vertex: Whether V is told in seconds.
    """

    build: Callable[[int], nn.Module]
    inputs: Any
    at: int | tuple[int, ...] | None = None
    vertex: bool = False


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


IMAGES, LITTLE, POINTS = _normal(2, 3, 8, 8), _normal(2, 3, 4, 4), _normal(2, 8)
STEPS, NODES = _normal(2, 4, 3), _normal(4, 5)
EDGES = torch.tensor([[0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 0, 3]])
WORDS = torch.tensor([[3, 1, 4, 1, 5], [2, 7, 1, 8, 2]])


def perceptron(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 3)
    )


class Loop(nn.Module):
    """The same layer three times, and one of several times its size."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.start, self.body, self.end = nn.Linear(8, n), nn.Linear(n, n), nn.Linear(n, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        for _ in range(3):
            x = self.body(torch.tanh(x))
        return self.end(torch.tanh(x))


class Gated(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, n), nn.Linear(n, 2 * n), nn.Linear(n, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(F.glu(self.b(torch.tanh(self.a(x)))))


class LowRank(nn.Module):
    """An adapter of rank 4 whose second matrix is 0."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.w, self.o = nn.Linear(8, n), nn.Linear(n, 1)
        self.a, self.b = nn.Linear(n, 4, bias=False), nn.Linear(4, n, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.w(x))
        return self.o(torch.tanh(h + 2 * self.b(self.a(h))))


def convolutional(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1, stride=2), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10),
    )  # fmt: skip


def vgg(width: int) -> nn.Module:
    def block(n: int, m: int) -> list[nn.Module]:
        return [nn.Conv2d(n, m, 3, padding=1), nn.ReLU()]

    return nn.Sequential(
        *block(3, width), *block(width, width), nn.MaxPool2d(2), *block(width, 2 * width), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * width, 4 * width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4 * width, 10),
    )  # fmt: skip


class PreActivation(nn.Module):
    def __init__(self, n: int, m: int, stride: int) -> None:
        super().__init__()
        self.b1, self.b2 = nn.BatchNorm2d(n), nn.BatchNorm2d(m)
        self.c1 = nn.Conv2d(n, m, 3, stride, 1, bias=False)
        self.c2 = nn.Conv2d(m, m, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(n, m, 1, stride, bias=False) if n != m else None

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.b1(x))
        return (x if self.short is None else self.short(y)) + self.c2(
            torch.relu(self.b2(self.c1(y)))
        )


def residual(width: int) -> nn.Module:
    blocks = PreActivation(width, width, 1), PreActivation(width, 2 * width, 2)
    ends = nn.BatchNorm2d(2 * width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    start = nn.Conv2d(3, width, 3, 1, 1, bias=False)
    return nn.Sequential(start, *blocks, *ends, nn.Linear(2 * width, 10))


class Squeezed(nn.Module):
    """Channels gated by their mean over positions."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.c = nn.Conv2d(n, n, 3, padding=1)
        self.a, self.b = nn.Linear(n, n // 4), nn.Linear(n // 4, n)

    def forward(self, x: Tensor) -> Tensor:
        y = self.c(x)
        return x + y * torch.sigmoid(self.b(torch.relu(self.a(y.mean((2, 3))))))[:, :, None, None]


def squeeze(width: int) -> nn.Module:
    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), Squeezed(width), *ends)


class ConvNext(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(n, n, 3, padding=1, groups=n)
        self.norm, self.up, self.down = (
            nn.LayerNorm(n, eps=1e-6),
            nn.Linear(n, 4 * n),
            nn.Linear(4 * n, n),
        )
        self.gain = nn.Parameter(0.1 * torch.ones(n))

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(x).permute(0, 2, 3, 1)
        y = self.gain * self.down(F.gelu(self.up(self.norm(y))))
        return x + y.permute(0, 3, 1, 2)


def convnext(width: int) -> nn.Module:
    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)
    return nn.Sequential(nn.Conv2d(3, width, 2, 2), ConvNext(width), *ends)


def generator(width: int) -> nn.Module:
    layers = (
        nn.ConvTranspose2d(3, width, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(width, width, 4, 2, 1),
    )
    return nn.Sequential(
        *layers, nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 2)
    )


class Normalised(nn.Module):
    """Images less the mean of each colour, as buffers hold it."""

    mean: Tensor

    def __init__(self, n: int) -> None:
        super().__init__()
        self.c, self.o = nn.Conv2d(3, n, 3), nn.Linear(n, 2)
        self.register_buffer("mean", torch.tensor([0.1, 0.2, 0.3])[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        return self.o(torch.relu(self.c((x - self.mean) / 0.5)).mean((2, 3)))


class UNet(nn.Module):
    """A block of a diffusion model: an image, a time, groups, a way down and up, and channels side by side."""

    def __init__(self, n: int) -> None:
        super().__init__()

        def conv(a: int, b: int, stride: int = 1) -> nn.Module:
            return nn.Conv2d(a, b, 3, stride, 1)

        self.start, self.c, self.c2, self.down, self.mid = (
            conv(3, n),
            conv(n, n),
            conv(n, n),
            conv(n, n, 2),
            conv(n, n),
        )
        self.up, self.end = conv(2 * n, n), conv(n, 3)
        self.time = nn.Sequential(nn.Linear(4, n), nn.SiLU(), nn.Linear(n, n))
        self.g, self.g2 = nn.GroupNorm(4, n), nn.GroupNorm(4, n)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h, e = self.start(x), self.time(t)[:, :, None, None]
        h = h + self.c2(F.silu(self.g2(self.c(F.silu(self.g(h))) + e)))
        m = F.interpolate(self.mid(F.silu(self.down(h))), scale_factor=2, mode="nearest")
        return self.end(F.silu(self.up(torch.cat([m, h], 1))))


class Convolved(nn.Module):
    """A graph network: neighbours over the roots of degrees."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, n), nn.Linear(n, 3)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        ones = torch.ones(edges.shape[1], dtype=x.dtype)
        degree = (
            torch.zeros(len(x), dtype=x.dtype).index_add(0, edges[1], ones).clamp(min=1) ** -0.5
        )

        def spread(h: Tensor) -> Tensor:
            m = h.index_select(0, edges[0]) * (degree[edges[0]] * degree[edges[1]])[:, None]
            return torch.zeros_like(h).scatter_add(0, edges[1][:, None].expand_as(m), m)

        return spread(self.b(torch.relu(spread(self.a(x)))))


class Sage(nn.Module):
    """A graph network: the mean of neighbours beside oneself."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.l, self.r, self.o = nn.Linear(5, n), nn.Linear(5, n, bias=False), nn.Linear(n, 3)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        total = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
        count = torch.bincount(edges[1], minlength=len(x)).clamp(min=1)[:, None]
        return self.o(F.relu(self.l(total / count) + self.r(x)).mean(0, keepdim=True))


class LSTM(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.r, self.o = nn.LSTM(3, n, batch_first=True), nn.Linear(n, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.r(x)[0][:, -1])


class GRU(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.r, self.o = nn.GRU(3, n, batch_first=True), nn.Linear(n, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.r(x)[0][:, -1])


class Sines(nn.Module):
    """Tokens with sinusoids of their positions."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.e, self.o, self.n = nn.Embedding(9, n), nn.Linear(n, 1), n

    def forward(self, t: Tensor) -> Tensor:
        angle = torch.arange(t.shape[1])[:, None] * 10000 ** (-torch.arange(0, self.n, 2) / self.n)
        return self.o(torch.tanh(self.e(t) + torch.cat([angle.sin(), angle.cos()], 1)).mean(1))


class Block(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.one, self.two = nn.LayerNorm(n), nn.LayerNorm(n)
        self.attention = nn.MultiheadAttention(n, n // HEAD, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.two(x))


class Vision(nn.Module):
    """Patches, a class token, learned positions."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, n, 4, stride=4)
        self.token, self.place = (
            nn.Parameter(torch.zeros(1, 1, n)),
            nn.Parameter(torch.zeros(1, 5, n)),
        )
        for p in (self.token, self.place):
            nn.init.normal_(p, std=0.5)
        self.block, self.norm, self.head = Block(n), nn.LayerNorm(n), nn.Linear(n, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.place
        return self.head(self.norm(self.block(x))[:, 0])


class RMS(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w


class Decoder(nn.Module):
    """A small language model: fused projections, causal attention, a gate, RMS norms by hand."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.e, self.p = nn.Embedding(9, n), nn.Embedding(6, n)
        self.qkv, self.o = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.gate, self.down, self.head = nn.Linear(n, 4 * n), nn.Linear(2 * n, n), nn.Linear(n, 9)
        self.norms = nn.ModuleList(RMS(n) for _ in range(3))

    def forward(self, t: Tensor) -> Tensor:
        x = self.e(t) + self.p(torch.arange(t.shape[1]))
        q, k, v = (
            a.unflatten(-1, (-1, HEAD)).transpose(1, 2)
            for a in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2)) / 2**0.5
        a, b = self.gate(self.norms[1](x)).chunk(2, -1)
        return self.head(self.norms[2](x + self.down(F.silu(a) * b)))


class Encoder(nn.Module):
    """PyTorch's own transformer."""

    def __init__(self, n: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(n, n // HEAD, 2 * n, batch_first=True, norm_first=True)
        self.i, self.e, self.o = (
            nn.Linear(3, n),
            nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
            nn.Linear(n, 2),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.e(self.i(x)).mean(1))


CASES = {
    "perceptron": Case(perceptron, POINTS, vertex=True),
    "tied in depth": Case(Loop, POINTS),
    "gated linear unit": Case(Gated, POINTS, vertex=True),
    "low-rank adapter": Case(LowRank, POINTS),
    "convolutions, BatchNorm": Case(convolutional, IMAGES, vertex=True),
    "VGG": Case(vgg, IMAGES),
    "pre-activation ResNet": Case(residual, IMAGES, vertex=True),
    "squeeze and excitation": Case(squeeze, IMAGES),
    "ConvNeXt block": Case(convnext, LITTLE),
    "transposed convolutions": Case(generator, LITTLE),
    "normalised images": Case(Normalised, IMAGES),
    "diffusion U-Net block": Case(UNet, (LITTLE, _normal(2, 4)), (1, 1)),
    "GCN": Case(Convolved, (NODES, EDGES), 0, vertex=True),
    "GraphSAGE": Case(Sage, (NODES, EDGES)),
    "LSTM": Case(LSTM, STEPS, vertex=True),
    "GRU": Case(GRU, STEPS),
    "sinusoids": Case(Sines, WORDS),
    "vision transformer": Case(Vision, IMAGES),
    "decoder": Case(Decoder, WORDS, -1, vertex=True),
    "TransformerEncoder": Case(Encoder, STEPS),
}
