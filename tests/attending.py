"""Attention written in several ways, and a small model around each; shared by the tests of scalewise.torch."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

WORDS = 20


class Attends(nn.Module):
    """Attention by hand, in several ways of writing it, between an embedding and a readout."""

    def __init__(self, width: int, heads: int, write: Callable[..., torch.Tensor]):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.mix = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, WORDS)
        self.heads, self.write = heads, write

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        q, k, v = self.mix(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.head((x + self.write(q, k, v).transpose(1, 2).flatten(2)).tanh())


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    logits = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(
        torch.ones(q.shape[2], q.shape[2], device=q.device).triu(1) > 0, -math.inf
    )
    return nn.functional.dropout(logits.float().softmax(-1), 0.1) @ v


def einsum(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    root = q.shape[-1] ** 0.25
    logits = torch.einsum("bhqd,bhkd->bhqk", q / root, k / root)
    return torch.einsum("bhqk,bhkd->bhqd", torch.where(logits > -9, logits, 0.0).softmax(-1), v)


def fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def over_d(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(q, k, v, scale=8 / q.shape[-1])


def by_entries(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    logits = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1)
    weights = (logits - logits.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True) @ v


def capped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    logits = torch.baddbmm(
        torch.zeros(1), q.flatten(0, 1), k.flatten(0, 1).mT, alpha=q.shape[-1] ** -0.5
    )
    return ((20 * (logits / 20).tanh()).softmax(-1) @ v.flatten(0, 1)).unflatten(0, q.shape[:2])


def cosine(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    k = k / k.square().sum(-1, keepdim=True).sqrt()
    return (10 * nn.functional.normalize(q, dim=-1) @ k.mT).softmax(-1) @ v


def linear(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q.relu() @ k.relu().mT) @ v / q.shape[-1] ** 0.5
