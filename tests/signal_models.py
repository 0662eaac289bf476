"""Models with one classic mistake each, and models without: factories of the width, and batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Case = tuple[Callable[[int], nn.Module], Any]
_NUMBERS = torch.Generator().manual_seed(5)
VECTORS = torch.randn(4, 16, generator=_NUMBERS)
TOKENS = torch.randint(0, 31, (3, 8), generator=_NUMBERS)
IMAGES = torch.randn(3, 3, 8, 8, generator=_NUMBERS)
SERIES = torch.randn(3, 5, 3, generator=_NUMBERS)
EDGES = torch.tensor([[0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 0, 3]])
NODES = torch.randn(4, 5, generator=_NUMBERS)


def drawn(model: nn.Module, gain: float, mode: str = "fan_in") -> nn.Module:
    """Linear layers and convolutions with the variance gain/fan and no biases."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            fans = nn.init._calculate_fan_in_and_fan_out(module.weight)
            nn.init.normal_(module.weight, std=math.sqrt(gain / fans[mode == "fan_out"]))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


def perceptron(width: int, depth: int = 20, activation: type[nn.Module] = nn.Tanh) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(16, width), activation()]
    for _ in range(depth - 2):
        layers += [nn.Linear(width, width), activation()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


class Block(nn.Module):
    """A block of a transformer, whose branches have about the size of what they read."""

    def __init__(
        self, n: int, *, factor: float, post: bool, twice: bool, head: int, scale: float | None
    ) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)
        drawn(self, 1.0)
        self.factor, self.post, self.twice, self.head, self.scale = factor, post, twice, head, scale

    def attention(self, x: Tensor) -> Tensor:
        batch, length, n = x.shape
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (p.view(batch, length, -1, self.head).transpose(1, 2) for p in parts)
        mixed = nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=self.scale
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, n))

    def forward(self, x: Tensor) -> Tensor:
        def hidden(y: Tensor) -> Tensor:
            return self.down(nn.functional.gelu(self.up(y)))

        if self.post:
            x = self.norm1(x + self.factor * self.attention(x))
            return self.norm2(x + self.factor * hidden(x))
        if self.twice:
            x = x + x + self.factor * self.attention(self.norm1(x))
        else:
            x = x + self.factor * self.attention(self.norm1(x))
        return x + self.factor * hidden(self.norm2(x))


class Decoder(nn.Module):
    def __init__(
        self, n: int, depth: int, *, factor: float | None = None, embedding: float = 1.0, post: bool = False,
        twice: bool = False, head: int = 8, scale: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        own = (2 * depth) ** -0.5 if factor is None else factor
        self.words = nn.Embedding(31, n)
        nn.init.normal_(self.words.weight, std=embedding)
        self.blocks = nn.Sequential(
            *(
                Block(n, factor=own, post=post, twice=twice, head=head, scale=scale)
                for _ in range(depth)
            )
        )
        self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, 31)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.words(tokens))))


def zero_gain(n: int) -> nn.Module:
    model = Decoder(n, 2)
    block: Any = model.blocks[1]
    nn.init.zeros_(block.norm2.weight)
    return model


def dead(n: int) -> nn.Module:
    model = drawn(perceptron(n, 5, nn.ReLU), 2.0)
    third: Any = model[4]  # type: ignore
    nn.init.constant_(third.bias, -8.0)
    return model


def fan_out(n: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Linear(16, n), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Linear(n, 4 * n), nn.ReLU(), nn.Linear(4 * n, n), nn.ReLU()]
    return drawn(nn.Sequential(*layers, nn.Linear(n, 10)), 2.0, "fan_out")


WRONG: dict[str, Case] = {
    "growing stream": (lambda n: Decoder(n, 12, factor=1.0), TOKENS),
    "signals vanish": (perceptron, VECTORS),
    "norm in the stream": (lambda n: Decoder(n, 48, factor=1.0, post=True), TOKENS),
    "zero gains": (zero_gain, TOKENS),
    "saturated attention": (lambda n: Decoder(n, 2, head=32, scale=1.0), TOKENS),
    "dead units": (dead, VECTORS),
    "fan mode": (fan_out, VECTORS),
    "small embedding": (lambda n: Decoder(n, 4, embedding=n**-0.5), TOKENS),
    "doubled skip": (lambda n: Decoder(n, 4, twice=True), TOKENS),
}


class Adam(torch.optim.Optimizer):
    """Without bias correction, under a name that says nothing."""

    def __init__(self, params: Any, lr: float = 1e-3, correct: bool = False) -> None:
        super().__init__(params, {"lr": lr, "betas": (0.9, 0.999)})
        self.correct = correct

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                own = self.state[p]
                own["t"] = own.get("t", 0) + 1
                own["m"] = own.get("m", 0.0) * one + (1 - one) * p.grad
                own["v"] = own.get("v", 0.0) * two + (1 - two) * p.grad**2
                t = own["t"] if self.correct else 10**9
                p -= (
                    group["lr"]
                    * own["m"]
                    / (1 - one**t)
                    / ((own["v"] / (1 - two**t)) ** 0.5 + 1e-12)
                )


def rezero(n: int) -> nn.Module:
    return Decoder(n, 3, factor=0.0)


def zero_last(n: int) -> nn.Module:
    model = Decoder(n, 12, factor=1.0)
    for block in model.blocks:
        own: Any = block
        nn.init.zeros_(own.out.weight)
        nn.init.zeros_(own.down.weight)
    return model


def gpt2(n: int, layers: int = 2) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            n_embd=n,
            n_layer=layers,
            n_head=n // 8,
            vocab_size=31,
            n_positions=8,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def llama(n: int, layers: int = 2) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=n, intermediate_size=2 * n, num_hidden_layers=layers, num_attention_heads=n // 8,
            vocab_size=31, max_position_embeddings=8, bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip


def vit(n: int, layers: int = 2) -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            hidden_size=n, num_hidden_layers=layers, num_attention_heads=n // 8, intermediate_size=4 * n,
            image_size=8, patch_size=4, num_channels=3,
        )
    )  # fmt: skip


class PreActivation(nn.Module):
    def __init__(self, n: int, m: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(n), nn.BatchNorm2d(m)
        self.conv1 = nn.Conv2d(n, m, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(m, m, 3, 1, 1, bias=False)
        self.skip = nn.Conv2d(n, m, 1, stride, bias=False) if n != m or stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(x))
        past = x if self.skip is None else self.skip(y)
        return past + self.conv2(torch.relu(self.norm2(self.conv1(y))))


def resnet(n: int) -> nn.Module:
    blocks = [PreActivation(n, n, 1) for _ in range(4)]
    ends = (
        nn.BatchNorm2d(2 * n),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * n, 10),
    )
    return drawn(
        nn.Sequential(
            nn.Conv2d(3, n, 3, 1, 1, bias=False), *blocks, PreActivation(n, 2 * n, 2), *ends
        ),
        2.0,
    )


class ConvNeXtBlock(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(n, n, 3, padding=1, groups=n), nn.LayerNorm(n)
        self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)
        self.gain = nn.Parameter(1e-6 * torch.ones(n))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.gain * self.down(nn.functional.gelu(self.up(y)))).permute(0, 3, 1, 2)


def convnext(n: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, n, 2, 2), *(ConvNeXtBlock(n) for _ in range(3)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(n, 10),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        conv = nn.Conv2d
        self.into, self.time = (
            conv(3, n, 3, padding=1),
            nn.Sequential(nn.Linear(4, n), nn.SiLU(), nn.Linear(n, n)),
        )
        self.norm1, self.norm2 = nn.GroupNorm(4, n), nn.GroupNorm(4, n)
        self.conv1, self.conv2 = conv(n, n, 3, padding=1), conv(n, n, 3, padding=1)
        self.low, self.middle = conv(n, n, 3, 2, 1), conv(n, n, 3, padding=1)
        self.up, self.out = conv(2 * n, n, 3, padding=1), conv(n, 3, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        silu = nn.functional.silu
        h = self.into(x)
        inner = self.conv1(silu(self.norm1(h))) + self.time(t)[:, :, None, None]
        h = h + self.conv2(silu(self.norm2(inner)))
        deep = nn.functional.interpolate(
            self.middle(silu(self.low(h))), scale_factor=2, mode="nearest"
        )
        return self.out(silu(self.up(torch.cat([deep, h], 1))))


class GCN(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(5, n), nn.Linear(n, 3)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        ones = torch.ones(edges.shape[1], dtype=x.dtype)
        degree = (
            torch.zeros(len(x), dtype=x.dtype).index_add(0, edges[1], ones).clamp(min=1) ** -0.5
        )

        def spread(h: Tensor) -> Tensor:
            sent = h.index_select(0, edges[0]) * (degree[edges[0]] * degree[edges[1]])[:, None]
            return torch.zeros_like(h).scatter_add(0, edges[1][:, None].expand_as(sent), sent)

        return spread(self.two(torch.relu(spread(self.one(x)))))


class LSTM(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.states, self.head = nn.LSTM(3, n, batch_first=True), nn.Linear(n, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.states(x)[0][:, -1])


class Gated(nn.Module):
    """Branches with a gate (SwiGLU, variance 1/fan-in), or of two He layers, over the root of their number."""

    def __init__(self, n: int, gates: bool) -> None:
        super().__init__()
        wide = 2 * n if gates else n
        self.into, self.gates, self.out = nn.Linear(16, n), gates, nn.Linear(n, 3)
        self.one, self.two, self.down = (
            nn.ModuleList(nn.Linear(a, b) for _ in range(12))
            for a, b in ((n, wide), (n, wide), (wide, n))
        )
        drawn(self, 1.0 if gates else 2.0)

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        for one, two, down in zip(self.one, self.two, self.down, strict=True):
            if self.gates:
                y = nn.functional.rms_norm(x, x.shape[-1:])
                x = x + down(nn.functional.silu(one(y)) * two(y)) * 12**-0.5
            else:
                x = x + down(torch.relu(one(x))) * 12**-0.5
        return self.out(x)


RIGHT: dict[str, Case] = {
    "gates": (lambda n: Gated(n, True), VECTORS),
    "scaled branches without norms": (lambda n: Gated(n, False), VECTORS),
    "critical tanh": (lambda n: drawn(perceptron(n), 1.0), VECTORS),
    "He ReLU": (lambda n: drawn(perceptron(n, 20, nn.ReLU), 2.0), VECTORS),
    "GPT-2": (gpt2, TOKENS),
    "Llama": (llama, TOKENS),
    "ViT": (vit, IMAGES),
    "pre-activation ResNet": (resnet, IMAGES),
    "ConvNeXt": (convnext, IMAGES),
    "U-Net": (UNet, (IMAGES, torch.ones(3, 4))),
    "GCN": (GCN, (NODES, EDGES)),
    "LSTM": (LSTM, SERIES),
    "ReZero": (rezero, TOKENS),
    "zeros at the end of branches": (zero_last, TOKENS),
    "scaled branches": (lambda n: Decoder(n, 12), TOKENS),
}
DEEP: dict[str, Case] = {
    "GPT-2 of 12 blocks": (lambda n: gpt2(n, 12), TOKENS),
    "Llama of 12 blocks": (lambda n: llama(n, 12), TOKENS),
    "ViT of 12 blocks": (lambda n: vit(n, 12), IMAGES),
}
