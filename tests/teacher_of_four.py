"""A second task: the next of 32 symbols is drawn by a teacher who sees the last four, and a small GPT learns it.

What one token tells is learnt within a few steps. The rest takes products of several, and weights drawn at 0.02,
0.11 of 1/sqrt(fan-in) at width 32, stay for long on the plateau before that.
"""

from functools import lru_cache

import torch
from torch import nn
from torch.nn import functional as F

SYMBOLS, CONTEXT, HEAD = 32, 12, 16


@lru_cache
def text(samples: int = 2000) -> torch.Tensor:
    """Sequences, of which the first four tokens are noise: (sample, position)."""
    generator = torch.Generator().manual_seed(0)
    letters = torch.randn(SYMBOLS, SYMBOLS, generator=generator)
    inner = 8 * torch.randn(4 * SYMBOLS, 64, generator=generator) / (4 * SYMBOLS) ** 0.5
    outer = 20 * torch.randn(64, SYMBOLS, generator=generator) / 8
    found = torch.randint(0, SYMBOLS, (samples, CONTEXT + 5), generator=generator)
    for t in range(4, CONTEXT + 5):
        seen = letters[found[:, t - 4 : t]].flatten(1)
        logits = torch.tanh(seen @ inner) @ outer
        found[:, t] = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
    return found[:, 4:]


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries, self.keys, self.values, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, (samples, length, width) = self.norm1(x), x.shape
        q, k, v = (
            f(h).view(samples, length, -1, HEAD).transpose(1, 2)
            for f in (self.queries, self.keys, self.values)
        )
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(samples, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Two blocks; of PyTorch's own initialisation, or every matrix drawn at one standard deviation."""

    def __init__(self, width: int, std: float = 0.02) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(SYMBOLS, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, SYMBOLS, bias=False)
        for p in self.parameters():
            if std and p.ndim == 2:
                nn.init.normal_(p, std=std)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.letters(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def trainer(steps: int, batch: int = 32):
    """A `train` of so many steps of AdamW, which returns the losses of training on the way."""

    def train(plan, model, seed, lr):
        optimizer = torch.optim.AdamW(plan.param_groups(model, lr=lr, weight_decay=0.0))
        generator, curve = torch.Generator().manual_seed(1000 + seed), []
        for _ in range(steps):
            rows = torch.randint(0, len(text()), (batch,), generator=generator)
            tokens = text()[rows]
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curve.append(loss.item())
        return curve

    return train
