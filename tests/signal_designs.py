"""Six mistakes that sizes alone do not give away, and designs that look like them and are right."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from signal_models import IMAGES, LSTM, SERIES, TOKENS, VECTORS, Case, Decoder, drawn

COORDINATES = torch.rand(16, 2, generator=torch.Generator().manual_seed(6)) * 2 - 1


class Tied(Decoder):
    """A decoder that reads out with its embedding: both times as it is, or with factors between them."""

    def __init__(self, n: int, embedding: float, into: float = 1.0, out: float = 1.0) -> None:
        super().__init__(n, 4, embedding=embedding)
        self.factors = into, out

    def forward(self, tokens: Tensor) -> Tensor:
        into, out = self.factors
        hidden = self.norm(self.blocks(into * self.words(tokens)))
        return out * (hidden @ self.words.weight.T)


def with_eps(n: int, eps: float, kind: type[nn.Module] = nn.LayerNorm) -> nn.Module:
    model = Decoder(n, 4)
    for block in model.blocks:
        own: Any = block
        own.norm1, own.norm2 = (kind(n, eps=eps) for _ in range(2))  # type: ignore
    return model


class Gates(nn.Module):
    """Branches behind gates: sigmoid highways, or gates as those of GLU in a residual stream with norms."""

    def __init__(self, n: int, gate: str, bias: float) -> None:
        super().__init__()
        self.into, self.kind, self.out = nn.Linear(16, n), gate, nn.Linear(n, 3)
        self.gate, self.one, self.two = (
            nn.ModuleList(nn.Linear(n, n) for _ in range(6)) for _ in range(3)
        )
        drawn(self, 1.0)
        for layer in self.gate:
            nn.init.constant_(layer.bias, bias)  # type: ignore

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        for gate, one, two in zip(self.gate, self.one, self.two, strict=True):
            if self.kind == "highway":
                open_ = torch.sigmoid(gate(x))
                x = open_ * torch.relu(one(x)) + (1 - open_) * x
            else:
                y = nn.functional.layer_norm(x, x.shape[-1:])
                x = x + two(getattr(nn.functional, self.kind)(gate(y)) * one(y)) * 6**-0.5
        return self.out(x)


class Sums(nn.Module):
    """Residual sums of a stream, times a number, with or without norms in the branches."""

    def __init__(self, n: int, factor: float, norms: bool, depth: int = 12) -> None:
        super().__init__()
        self.into, self.out, self.factor, self.norms = (
            nn.Linear(16, n),
            nn.Linear(n, 3),
            factor,
            norms,
        )
        self.one, self.two = (nn.ModuleList(nn.Linear(n, n) for _ in range(depth)) for _ in "12")
        drawn(self, 1.41)

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        for one, two in zip(self.one, self.two, strict=True):
            y = nn.functional.layer_norm(x, x.shape[-1:]) if self.norms else x
            x = self.factor * (x + two(torch.relu(one(y))))
        return self.out(x)


class Sine(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.factor * x)


def siren(n: int, first: float, w: float, depth: int = 5) -> nn.Module:
    """Of Sitzmann et al. 2006.09661, whose two frequencies are both 30; w may be 1 with larger weights."""
    sizes = [2] + [n] * (depth - 1) + [3]
    layers: list[nn.Module] = []
    for k, (a, b) in enumerate(pairwise(sizes)):
        layer = nn.Linear(a, b)
        bound = 1 / a if k == 0 else (6 / a) ** 0.5 / w
        nn.init.uniform_(layer.weight, -bound, bound)
        layers += [layer, Sine(w if k else first)]
    return nn.Sequential(*layers[:-1])


class ByHand(nn.Module):
    """Attention by cosines times a number that is learned for each head, as in Swin v2, or scaled behind it."""

    def __init__(self, n: int, cosines: bool) -> None:
        super().__init__()
        self.into, self.qkv, self.out = nn.Linear(3, n), nn.Linear(n, 3 * n), nn.Linear(n, n)
        drawn(self, 1.0)
        self.cosines = cosines
        self.log_scale = nn.Parameter(torch.full((n // 32, 1, 1), 10.0).log())

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        q, k, v = (
            p.view(*x.shape[:2], -1, 32).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1)
        )
        scale: Any = 32**-0.5
        if self.cosines:
            q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
            scale = self.log_scale.clamp(max=4.6).exp()
        mixed = (q @ k.transpose(-1, -2) * scale).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


def chrono(n: int) -> nn.Module:
    """An LSTM whose gates are shut and open for long times: Tallec and Ollivier 1804.11188."""
    model: Any = LSTM(n)
    with torch.no_grad():
        bias = torch.rand(n).mul(998).add(1).log()
        model.states.bias_ih_l0[:n], model.states.bias_ih_l0[n : 2 * n] = -bias, bias
    return model


def t5(n: int) -> nn.Module:
    from transformers import T5Config, T5EncoderModel

    own = T5Config(
        d_model=n, d_kv=8, d_ff=4 * n, num_layers=2, num_heads=n // 8, vocab_size=31, dropout_rate=0.0
    )  # fmt: skip
    return T5EncoderModel(own)


class PostActivation(nn.Module):
    """A block of ResNet v1, with zeros at the end of its branch."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(n, n, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(n), nn.BatchNorm2d(n)
        nn.init.zeros_(self.norm2.weight)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.two(torch.relu(self.norm1(self.one(x)))))
        return torch.relu(x + y)


def post_activation(n: int) -> nn.Module:
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, 10)
    into = nn.Conv2d(3, n, 3, padding=1), nn.ReLU()
    return nn.Sequential(*into, *(PostActivation(n) for _ in range(8)), *head)


SUBTLE: dict[str, Case] = {
    "attention without a scale": (lambda n: Decoder(n, 4, head=8, scale=1.0), TOKENS),
    "tied readout": (lambda n: Tied(n, 1.0), TOKENS),
    "large eps": (lambda n: with_eps(n, 1.0), TOKENS),
    "saturated": (lambda n: Gates(n, "highway", -10.0), VECTORS),
    "dead units": (lambda n: Gates(n, "silu", -10.0), VECTORS),
    "mean in place of a sum": (lambda n: Sums(n, 0.5, True), VECTORS),
}
DESIGNS: dict[str, Case] = {
    "tied, read-out scaled": (lambda n: Tied(n, 1.0, out=n**-0.5), TOKENS),
    "tied, embedding scaled": (lambda n: Tied(n, n**-0.5, into=n**0.5), TOKENS),
    "eps of Keras": (lambda n: with_eps(n, 1e-3), TOKENS),
    "RMSNorm": (lambda n: with_eps(n, 1e-5, nn.RMSNorm), TOKENS),
    "highway": (lambda n: Gates(n, "highway", -3.0), VECTORS),
    "gates of GELU": (lambda n: Gates(n, "gelu", 0.0), VECTORS),
    "sums over the root of two": (lambda n: Sums(n, 0.5**0.5, False), VECTORS),
    "sums over the root of two, norms": (lambda n: Sums(n, 0.5**0.5, True), VECTORS),
    "SIREN": (lambda n: siren(n, 30.0, 30.0), COORDINATES),
    "SIREN, hidden frequency 1": (lambda n: siren(n, 30.0, 1.0), COORDINATES),
    "cosine attention": (lambda n: ByHand(n, True), 30 * SERIES),
    "attention scaled behind its product": (lambda n: ByHand(n, False), SERIES),
    "LSTM of long memory": (chrono, SERIES),
    "T5": (t5, TOKENS),
    "ResNet, zeros at the end": (post_activation, IMAGES),
}
