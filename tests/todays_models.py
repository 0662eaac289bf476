"""Small models of kinds that are in use today, written as their users would, and a task that they learn."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from scalewise.torch import TorchPlan

V, PAIRS = 32, 30
_ORDERS = torch.stack(
    [torch.randperm(PAIRS, generator=torch.Generator().manual_seed(s)) for s in (5, 6)]
)
Build = Callable[..., nn.Module]


class LM(nn.Module):
    """One block between an embedding and a readout."""

    def __init__(self, d: int, mix: nn.Module, ff: nn.Module | None = None) -> None:
        super().__init__()
        self.tok, self.unembed = nn.Embedding(V, d), nn.Linear(d, V, bias=False)
        self.n1, self.n2, self.nf = nn.RMSNorm(d), nn.RMSNorm(d), nn.RMSNorm(d)
        self.mix, self.ff = mix, ff or Gated(d, 2 * d)

    def forward(self, ids: Tensor) -> Tensor:
        h = self.tok(ids)
        h = h + self.mix(self.n1(h))
        return self.unembed(self.nf(h + self.ff(self.n2(h))))


class Gated(nn.Module):
    def __init__(self, d: int, f: int) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(*s, bias=False) for s in ((d, f), (d, f), (f, d)))

    def forward(self, x: Tensor) -> Tensor:
        return self.c(functional.silu(self.a(x)) * self.b(x))


def _turned(x: Tensor) -> Tensor:
    d = x.shape[-1]
    angles = torch.arange(x.shape[-2])[:, None] * 100.0 ** (-torch.arange(0, d, 2) / d)
    a, b, c, s = x[..., 0::2], x[..., 1::2], angles.cos(), angles.sin()
    return torch.cat([a * c - b * s, a * s + b * c], -1)


class Latent(nn.Module):
    """Keys and values, and queries, through latents with norms; a part of each key is turned and shared."""

    def __init__(self, d: int, heads: int, latent: int, rope: int = 4) -> None:
        super().__init__()
        self.heads, self.split = heads, (latent, rope)
        self.q_down, self.q_norm = nn.Linear(d, latent, bias=False), nn.RMSNorm(latent)
        self.q_up = nn.Linear(latent, d + heads * rope, bias=False)
        self.down, self.norm = nn.Linear(d, latent + rope, bias=False), nn.RMSNorm(latent)
        self.up, self.o = nn.Linear(latent, 2 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q_up(self.q_norm(self.q_down(x))).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        plain, turned = q.split([q.shape[-1] - self.split[1], self.split[1]], -1)
        c, shared = self.down(x).split(self.split, -1)
        k, v = self.up(self.norm(c)).unflatten(-1, (self.heads, -1)).transpose(1, 2).chunk(2, -1)
        shared = _turned(shared[:, None]).expand(*k.shape[:3], -1)
        q, k = torch.cat([plain, _turned(turned)], -1), torch.cat([k, shared], -1)
        read = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(read.transpose(1, 2).flatten(2))


class Linear(nn.Module):
    """Attention without a softmax, over a power of the size of a head; normalised where there is none."""

    def __init__(self, d: int, heads: int, power: float | None) -> None:
        super().__init__()
        self.heads, self.power = heads, power
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (self.heads, -1)).transpose(1, 2).chunk(3, -1)
        weights = ((functional.elu(q) + 1) @ (functional.elu(k) + 1).mT).tril()
        if self.power is None:
            weights = weights / weights.sum(-1, keepdim=True)
        else:
            weights = weights * q.shape[-1] ** self.power
        return self.o((weights @ v).transpose(1, 2).flatten(2))


class Experts(nn.Module):
    """The best few of some experts in stacked tensors, and one that all samples share."""

    def __init__(self, d: int, count: int, chosen: int, way: str) -> None:
        super().__init__()
        self.count, self.chosen, self.way = count, chosen, way
        self.pick, self.common = nn.Linear(d, count, bias=False), Gated(d, d)
        self.one = nn.Parameter(torch.randn(count, d, d) / math.sqrt(d))
        self.two = nn.Parameter(torch.randn(count, d, d) / math.sqrt(d))
        self.register_buffer("balance", torch.zeros(count))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.pick(x)
        scores = scores.sigmoid() if self.way == "gathered" else scores.softmax(-1)
        index = (scores + self.balance).topk(self.chosen, -1).indices
        if self.way == "gathered":
            share = scores.gather(-1, index)
            share = share / share.sum(-1, keepdim=True)
            h = functional.silu(torch.einsum("btd,btkdf->btkf", x, self.one[index]))
            y = (torch.einsum("btkf,btkfd->btkd", h, self.two[index]) * share[..., None]).sum(-2)
            return y + self.common(x)
        h = functional.silu(torch.einsum("btd,edf->btef", x, self.one))
        y = torch.einsum("btef,efd->bted", h, self.two)
        if self.way == "masked":
            share = scores * functional.one_hot(index, self.count).sum(-2).to(x.dtype)
            share = share / share.sum(-1, keepdim=True)
            return torch.einsum("bte,bted->btd", share, y) + self.common(x)
        best = scores.gather(-1, index)
        share = torch.zeros_like(scores).scatter(-1, index, best / best.sum(-1, keepdim=True))
        return (y * share[..., None]).sum(-2) + self.common(x)


class Listed(nn.Module):
    """Experts that are modules, each of which is given the samples that chose it."""

    def __init__(self, d: int, count: int, chosen: int) -> None:
        super().__init__()
        self.chosen, self.pick = chosen, nn.Linear(d, count, bias=False)
        self.of = nn.ModuleList(Gated(d, d) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        best, index = self.pick(flat).softmax(-1).topk(self.chosen, -1)
        best, out = best / best.sum(-1, keepdim=True), torch.zeros_like(flat)
        for number, expert in enumerate(self.of):
            row, place = torch.where(index == number)
            out.index_add_(0, row, expert(flat[row]) * best[row, place, None])
        return out.view_as(x)


class StateSpace(nn.Module):
    """Mamba-2: heads of size 8, a state of fixed size or not, B and C of all heads, one fused projection."""

    def __init__(self, d: int, state: int = 8, size: int = 8) -> None:
        super().__init__()
        self.inner, self.state, self.heads = 2 * d, state, 2 * d // size
        wide = self.inner + 2 * state
        self.into = nn.Linear(d, self.inner + wide + self.heads, bias=False)
        self.conv = nn.Conv1d(wide, wide, 4, groups=wide, padding=3)
        self.decay = nn.Parameter(torch.linspace(1, 8, self.heads).log())
        self.step = nn.Parameter(torch.full((self.heads,), -2.0))
        self.skip, self.norm = nn.Parameter(torch.ones(self.heads)), nn.RMSNorm(self.inner)
        self.out = nn.Linear(self.inner, d, bias=False)

    def forward(self, u: Tensor) -> Tensor:
        T, n = u.shape[1], self.state
        z, rest, dt = self.into(u).split([self.inner, self.inner + 2 * n, self.heads], -1)
        rest = functional.silu(self.conv(rest.mT)[..., :T].mT)
        x, B, C = rest.split([self.inner, n, n], -1)
        dt = functional.softplus(dt + self.step)
        past = (-dt * self.decay.exp()).cumsum(1)
        kept = torch.ones(T, T, dtype=torch.bool).tril()[None, :, :, None]
        fades = (past[:, :, None] - past[:, None]).masked_fill(~kept, -1e30).exp()
        x = x.unflatten(-1, (self.heads, -1))
        pairs = torch.einsum("btn,bsn->bts", C, B)
        y = torch.einsum("bts,btsh,bsh,bshp->bthp", pairs, fades, dt, x) + self.skip[:, None] * x
        return self.out(self.norm(y.flatten(2) * functional.silu(z)))


class Delta(nn.Module):
    """Gated delta rule, step by step: what a state predicts is taken off what is written to it."""

    def __init__(self, d: int, heads: int, *, unit: bool = True) -> None:
        super().__init__()
        self.heads, self.unit = heads, unit
        self.q, self.k, self.v, self.gate, self.o = (nn.Linear(d, d, bias=False) for _ in range(5))
        self.beta, self.alpha = nn.Linear(d, heads, bias=False), nn.Linear(d, heads, bias=False)
        self.decay = nn.Parameter(torch.zeros(heads))
        self.step, self.norm = nn.Parameter(torch.full((heads,), -2.0)), nn.RMSNorm(d // heads)

    def forward(self, x: Tensor) -> Tensor:
        parts = (f(x).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v, self.gate))
        q, k, v, gate = map(functional.silu, parts)
        if self.unit:
            q, k = (functional.normalize(t, dim=-1) for t in (q, k))
        beta = self.beta(x).sigmoid()
        fade = (-self.decay.exp() * functional.softplus(self.alpha(x) + self.step)).exp()
        state = x.new_zeros(len(x), self.heads, v.shape[-1], k.shape[-1])
        out = []
        for t in range(x.shape[1]):
            state = state * fade[:, t, :, None, None]
            new = v[:, t] - torch.einsum("bhvk,bhk->bhv", state, k[:, t])
            new = beta[:, t, :, None] * new
            state = state + torch.einsum("bhv,bhk->bhvk", new, k[:, t])
            out.append(torch.einsum("bhvk,bhk->bhv", state, q[:, t]))
        return self.o((self.norm(torch.stack(out, 1)) * gate).flatten(2))


def _with(mix: Callable[[int], nn.Module]) -> Build:
    return lambda width: LM(width, mix(width))


def with_experts(way: str, count: int = 8) -> Build:
    """A model of as many experts as the factory is asked for."""

    def build(width: int, experts: int = count) -> nn.Module:
        ff = Listed(width, experts, 2) if way == "listed" else Experts(width, experts, 2, way)
        return LM(width, Linear(width, width // 16, None), ff)

    return build


# Those that a plan takes as they are.
PLANNED: dict[str, Build] = {
    "latent": _with(lambda n: Latent(n, n // 16, 8)),
    "latent that grows": _with(lambda n: Latent(n, n // 16, n // 4)),
    "linear": _with(lambda n: Linear(n, n // 16, 0.0)),
    "linear, heads grow": _with(lambda n: Linear(n, 4, -1.0)),
    "linear, normalised": _with(lambda n: Linear(n, 4, None)),
    "experts, gathered": with_experts("gathered"),
    "experts, masked": with_experts("masked"),
    "experts, scattered": with_experts("scattered"),
    "experts, listed": with_experts("listed", 4),
    "state space": _with(StateSpace),
    "delta": _with(lambda n: Delta(n, n // 16)),
    "delta, heads grow": _with(lambda n: Delta(n, 4)),
}


def data(samples: int, length: int, generator: torch.Generator) -> Tensor:
    """Words of which the first says in what order the others follow each other, nine times in ten."""
    which = torch.randint(2, (samples,), generator=generator)
    words = [PAIRS + which, torch.randint(PAIRS, (samples,), generator=generator)]
    for _ in range(length - 1):
        noise = torch.rand(samples, generator=generator) < 0.1
        other = torch.randint(PAIRS, (samples,), generator=generator)
        words.append(torch.where(noise, other, _ORDERS[which, words[-1]]))
    return torch.stack(words, 1)


TOKENS = data(4, 8, torch.Generator().manual_seed(0))


def loss(model: nn.Module, tokens: Tensor) -> Tensor:
    logits = model(tokens[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def planned(
    build: Build,
    base: dict[str, int] | None = None,
    target: dict[str, int] | None = None,
    **options: Any,
) -> TorchPlan:
    """A plan under maximal updates, by default from width 64 to 256."""
    return sw.torch.plan(
        build, base=base or {"width": 64}, target=target or {"width": 256}, strategy="mup",
        inputs=TOKENS[:, :-1], **options,
    )  # fmt: skip


def trained(plan: TorchPlan, build: Build, *, lr: float, steps: int, seed: int) -> float:
    """The mean loss over some steps of AdamW at the plan's target, with the base's learning rate."""
    torch.manual_seed(seed)
    model = plan.init_(build(**plan.table.target))
    groups: Any = plan.param_groups(model, lr=lr, weight_decay=0.0)
    optimizer = torch.optim.AdamW(groups)
    generator, total = torch.Generator().manual_seed(seed), 0.0
    for _ in range(steps):
        value = loss(model, data(16, 16, generator))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        total += float(value.detach()) / steps
    return total
