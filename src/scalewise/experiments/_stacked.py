r"""Many trainings of one architecture at once: parameters, gradients and moments have an axis of trainings.

Networks of a few thousand weights keep a processor busy with calls and not with numbers. Here one call does for
all of them: they differ in how they were drawn, in the order of their data, and in what each of their tensors is
trained with. On a GPU a step is recorded once and replayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from scalewise.plan.spi import ADJUSTMENTS

Settings = Mapping[
    str, Mapping[str, Any]
]  # by tensor: lr, weight_decay, eps and betas, or momentum

_CLIP = 1.0  # of the norm of all gradients
_AT_ONCE = 1e8  # entries of parameters
_TEXTS = 32  # held-out texts at once
_REHEARSALS = 3  # steps before one is recorded
# Newton and Schulz's quintic, as PyTorch's Muon has it.
_QUINTIC, _STEPS, _LEAST = (3.4445, -4.775, 2.0315), 5, 1e-7


@dataclass(frozen=True)
class StackedRun:
    """One training.

    Args:
        model: The network as it is drawn; runs may share it.
        settings: What each tensor is trained with.
        begins: Where in the data the texts of each step begin, of shape (step, text).
    """

    model: nn.Module
    settings: Settings
    begins: Tensor


def settings_of(model: nn.Module, groups: Sequence[Mapping[str, Any]]) -> Settings:
    """By tensor what parameter groups say of it."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {
        names[id(p)]: {k: v for k, v in group.items() if k != "params"}
        for group in groups
        for p in group["params"]
    }


def train_together(
    runs: Sequence[StackedRun], tokens: Tensor, held: Tensor, *, context: int
) -> list[tuple[float, float]]:
    """Train, clipped at 1, with a warm-up over a fifth of the steps and a line to zero.

    Args:
        runs: Of one architecture and one number of steps.
        tokens: The data, one after the other.
        held: Texts that nobody trains on, of shape (text, context + 1).
        context: Tokens that are read of each text.

    Returns:
        For each run its loss on the held-out texts, and the mean of its training losses over the tenth of the steps
        before the middle; infinite where it diverged.
    """
    size = sum(p.numel() for p in runs[0].model.parameters())
    few = max(1, int(_AT_ONCE // size))
    parts = [runs[k : k + few] for k in range(0, len(runs), few)]
    return [loss for part in parts for loss in _trained(part, tokens, held, context)]


def _trained(
    runs: Sequence[StackedRun], tokens: Tensor, held: Tensor, context: int
) -> list[tuple[float, float]]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # ten bits of products, as trainings there have
    stack = _Stack.of(runs, tokens.to(device), context, device)
    steps = runs[0].begins.shape[0]
    with sdpa_kernel(SDPBackend.MATH):
        for _ in range(steps) if device.type == "cpu" else ():
            stack.step()
        if device.type == "cuda":
            _replayed(stack, steps)
        middle = stack.seen[:, max(0, steps // 2 - steps // 10 - 1) : max(1, steps // 2)]
        with torch.no_grad():
            found = [stack.losses(part.to(device)) * len(part) for part in held.split(_TEXTS)]
    pairs = torch.stack([torch.stack(found).sum(dim=0) / len(held), middle.mean(dim=1)], dim=1)
    known = [[x if math.isfinite(x) else math.inf for x in pair] for pair in pairs.tolist()]
    return [(last, half) for last, half in known]


def _replayed(stack: _Stack, steps: int) -> None:
    """All steps as one recorded one, which is what small networks need of a GPU."""
    before = [state.clone() for state in stack.states]
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_REHEARSALS):
            stack.step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stack.step()
    for state, value in zip(stack.states, before, strict=True):
        state.copy_(value)
    del before
    for _ in range(steps):
        graph.replay()
    torch.cuda.synchronize()


class _Stack:
    """Trainings of one architecture, in whole arrays of shape (run, entry)."""

    def __init__(
        self,
        model: nn.Module,
        entries: Tensor,
        settings: Sequence[Settings],
        begins: Tensor,
        tokens: Tensor,
        context: int,
    ) -> None:
        device = entries.device
        self.tokens, self.begins, self.entries = tokens, begins, entries
        self.places = torch.arange(context + 1, device=device)
        shapes = {name: p.shape for name, p in model.named_parameters()}
        ordered = sorted(shapes, key=lambda name: not _by_muon(settings[0][name]))
        self.parameters: dict[str, Tensor] = {}
        self.spans: dict[str, slice] = {}
        at = 0
        for name in ordered:
            span = self.spans[name] = slice(at, at + shapes[name].numel())
            view = entries[:, span].view(len(entries), *shapes[name])
            self.parameters[name] = view.detach().requires_grad_()
            at = span.stop
        self.one = vmap(lambda p, x: _loss(functional_call(model, p, (x[:, :-1],)), x[:, 1:]))
        steps = begins.shape[1]
        warm = max(1, steps // 5)
        shares = [min((k + 1) / warm, (steps - k) / (steps - warm + 1)) for k in range(steps)]
        # One more, because a recorded step ends where the next would begin.
        self.shares = torch.tensor([*shares, 0.0], device=device)
        self.count = torch.zeros(1, dtype=torch.long, device=device)
        self.seen = torch.zeros(len(entries), steps, device=device)
        self.rules = [
            kind(self, [n for n in ordered if _by_muon(settings[0][n]) is muon], settings)
            for kind, muon in ((_Muon, True), (_AdamW, False))
            if any(_by_muon(settings[0][n]) is muon for n in ordered)
        ]

    @classmethod
    def of(
        cls, runs: Sequence[StackedRun], tokens: Tensor, context: int, device: torch.device
    ) -> _Stack:
        """As the runs are drawn."""
        model = runs[0].model.to(device)
        muon = [n for n, s in runs[0].settings.items() if _by_muon(s)]
        named = [n for n, _ in model.named_parameters()]
        ordered = [n for n in named if n in muon] + [n for n in named if n not in muon]
        flat = {
            id(run.model): torch.cat(
                [dict(run.model.named_parameters())[n].detach().flatten().cpu() for n in ordered]
            )
            for run in runs
        }
        entries = torch.stack([flat[id(run.model)] for run in runs]).to(device)
        begins = torch.stack([run.begins for run in runs]).to(device)
        return cls(model, entries, [run.settings for run in runs], begins, tokens, context)

    @property
    def states(self) -> list[Tensor]:
        """All that a step changes."""
        return [
            self.entries,
            self.count,
            self.seen,
            *(m for rule in self.rules for m in rule.moments),
        ]

    def losses(self, batch: Tensor) -> Tensor:
        """Losses of every run on the same texts."""
        return self.one(self.parameters, batch.expand(len(self.entries), *batch.shape))

    def step(self) -> None:
        """One step of descent of all runs, each on its own texts."""
        at = self.begins.index_select(1, self.count).squeeze(1)
        losses = self.one(self.parameters, self.tokens[at[..., None] + self.places])
        slopes = torch.autograd.grad(losses.sum(), list(self.parameters.values()))
        with torch.no_grad():
            self.seen.index_copy_(1, self.count, losses.detach()[:, None])
            g = torch.cat([slope.flatten(1) for slope in slopes], dim=1)
            g.mul_((_CLIP / (g.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1.0))
            share = self.shares.index_select(0, self.count)
            self.count += 1
            for rule in self.rules:
                rule.step(g, share)


def _by_muon(settings: Mapping[str, Any]) -> bool:
    return settings.get("optimizer") == "muon"


def _loss(logits: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class _AdamW:
    """PyTorch's AdamW of the entries of some tensors."""

    def __init__(self, stack: _Stack, names: Sequence[str], settings: Sequence[Settings]) -> None:
        self.where = slice(stack.spans[names[0]].start, stack.spans[names[-1]].stop)
        self.entries, self.count = stack.entries[:, self.where], stack.count
        self.moments = [torch.zeros_like(self.entries) for _ in range(2)]
        spread = _Spread([stack.parameters[n][0].numel() for n in names], self.entries.device)
        given = {
            k: [[float(s[n][k]) for n in names] for s in settings]
            for k in ("lr", "weight_decay", "eps")
        }
        self.lr, self.decay, self.eps = (spread(given[k]) for k in given)
        self.betas = [spread([[s[n]["betas"][j] for n in names] for s in settings]) for j in (0, 1)]

    def step(self, g: Tensor, share: Tensor) -> None:
        """One step of descent, at a share of the learning rate."""
        g, (first, second), rate = g[:, self.where], self.moments, self.lr * share
        one, two = self.betas
        first.lerp_(g, 1 - one)
        second.lerp_(g * g, 1 - two)
        size = (second / (1 - two**self.count)).sqrt_().add_(self.eps)
        self.entries.mul_(1 - rate * self.decay)
        self.entries.addcdiv_(first * (rate / (one**self.count - 1)), size)


class _Muon:
    """PyTorch's Muon, Nesterov's momentum and all, of some matrices."""

    def __init__(self, stack: _Stack, names: Sequence[str], settings: Sequence[Settings]) -> None:
        self.where = slice(stack.spans[names[0]].start, stack.spans[names[-1]].stop)
        self.momentum = torch.zeros_like(stack.entries[:, self.where])
        self.moments = [self.momentum]
        shapes = {n: tuple(stack.parameters[n].shape[1:]) for n in names}
        alike = sorted(names, key=lambda n: shapes[n])
        self.alike = [list(same) for _, same in groupby(alike, lambda n: shapes[n])]
        self.parameters, self.spans = stack.parameters, stack.spans
        column = _Spread([1], stack.entries.device)

        def by_name(get: Callable[[Mapping[str, Any]], float]) -> dict[str, Tensor]:
            return {n: column([[get(s[n])] for s in settings]).view(-1, 1, 1) for n in names}

        self.keep = column([[float(s[names[0]]["momentum"])] for s in settings])
        self.lr, self.decay = (
            by_name(lambda s: float(s["lr"])),
            by_name(lambda s: float(s["weight_decay"])),
        )
        self.factors = {n: ADJUSTMENTS[settings[0][n]["adjust_lr_fn"]](*shapes[n]) for n in names}

    def step(self, g: Tensor, share: Tensor) -> None:
        """One step of descent, at a share of the learning rate."""
        g = g[:, self.where]
        self.momentum.lerp_(g, 1 - self.keep)
        g = g.lerp(self.momentum, self.keep)
        for names in self.alike:
            shape = self.parameters[names[0]].shape
            matrices = [g[:, self.spans[n].start : self.spans[n].stop].view(shape) for n in names]
            for n, whole in zip(names, orthogonal(torch.stack(matrices)), strict=True):
                rate = self.lr[n] * share
                entries = self.parameters[n].detach()
                entries.mul_(1 - rate * self.decay[n])
                entries.sub_(whole * (rate * self.factors[n]))


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrices, roughly, in half precision as PyTorch's Muon has it.

    Args:
        matrices: Of shape (..., row, column).
    """
    a, b, c = _QUINTIC
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.bfloat16()
    x = x.mT if tall else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=_LEAST)
    for _ in range(_STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return (x.mT if tall else x).to(matrices.dtype)


class _Spread:
    """Numbers of each run and tensor as an array that multiplies all entries, as small as it may be."""

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        self.sizes, self.device = torch.tensor(sizes, device=device), device

    def __call__(self, numbers: Sequence[Sequence[float]]) -> Tensor:
        whole = torch.tensor(numbers, device=self.device)
        if (whole == whole[:, :1]).all():
            return whole[:, :1]
        return whole.repeat_interleave(self.sizes, dim=1)
