"""A small decoder of PyTorch on letters of a text, as people build them, and one training of it."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import scalewise.torch as planning
from scalewise.experiments._readers import read_bytes
from scalewise.plan import POLICIES
from scalewise.plan._names import matching
from scalewise.plan.proof import Tuned
from scalewise.scaling import Strategy, mup, standard
from scalewise.torch import TorchPlan

HEAD = 16  # units of a head, at every width
STD = 0.02  # of every weight as built


class Recipe(NamedTuple):
    """A plan and the settings of the base that it scales."""

    plan: TorchPlan
    lr: float
    weight_decay: float

    def of(self, name: str) -> dict[str, float]:
        """What a tensor is drawn and trained with."""
        factors = self.plan.factors(name)
        return {
            "std": self.plan.std(name),
            "lr": self.lr * factors.lr,
            "weight_decay": self.weight_decay * factors.weight_decay,
        }

    def swapped(self, setting: str, patterns: tuple[str, ...], other: Recipe) -> Recipe:
        """The same with one setting of some tensors as `other` has it."""
        names = {t.name for t in self.plan.table.tensors}
        theirs = {name for pattern in patterns for name in matching(pattern, names)}
        # Nothing times a factor stays nothing.
        free = Recipe(
            self.plan.with_constants(None), self.lr, max(self.weight_decay, other.weight_decay)
        )
        constants = {}
        for name in names:
            now, want = free.of(name), self.of(name)
            if name in theirs:
                want[setting] = other.of(name)[setting]
            constants[name] = {s: want[s] / now[s] for s in want if now[s]}
        return free._replace(plan=free.plan.with_constants(constants))


class _Block(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.queries, self.keys = _drawn(width, width), _drawn(width, width)
        self.values = _drawn(width, width)
        last = STD / math.sqrt(2 * depth)
        self.out_attention, self.up = _drawn(width, width, last), _drawn(width, 4 * width)
        self.out_mlp = _drawn(4 * width, width, last)

    def forward(self, x: Tensor) -> Tensor:
        h, (samples, length, width) = self.norm1(x), x.shape
        q, k, v = (
            f(h).view(samples, length, -1, HEAD).transpose(1, 2)
            for f in (self.queries, self.keys, self.values)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out_attention(attended.transpose(1, 2).reshape(samples, length, width))
        return x + self.out_mlp(F.gelu(self.up(self.norm2(x))))


def _drawn(inputs: int, outputs: int, std: float = STD) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=std)
    return layer


class Decoder(nn.Module):
    """Letters to letters: embeddings of letters and places, blocks, and a readout of its own."""

    def __init__(self, width: int, depth: int, letters: int, context: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(context, width)
        nn.init.normal_(self.letters.weight, std=STD)
        nn.init.normal_(self.places.weight, std=STD)
        self.blocks = nn.ModuleList(_Block(width, depth) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width, bias=False), _drawn(width, letters)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.letters(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def plan_of(
    config: Any, optimizer: str, arm: str, size: tuple[int, int], constants: Any = None, *,
    batch: int | None = None, steps: int | None = None, policy: str | None = None,
) -> TorchPlan:  # fmt: skip
    """The plan of an arm for a network of some width and depth, and for its batch and steps by a policy."""
    said = json.dumps(constants if arm.endswith("tuned") else None)
    return _plan_of(config, optimizer, arm, tuple(size), said, batch, steps, policy)


@lru_cache(maxsize=64)
def _plan_of(
    config: Any, optimizer: str, arm: str, size: tuple[int, int], constants: str,
    batch: int | None, steps: int | None, policy: str | None,
) -> TorchPlan:  # fmt: skip
    letters = len(_text(config.characters)[0])
    target = {"width": size[0], "depth": size[1]}
    base = {"width": config.widths[0], "depth": config.depths[0]}
    fixed = {"letters": letters, "context": config.context}
    plain = arm.startswith("plain")
    strategy: Strategy = standard() if plain else mup()
    options: dict[str, Any] = {} if plain else {"residual": 1, "branch_outputs": ["*.out_*"]}
    if policy is not None and batch is not None and steps is not None:
        base |= {"batch": config.batch, "tokens": config.tokens}
        target |= {"batch": batch, "tokens": steps * batch * config.context}
        options |= {"policy": policy}
        if POLICIES[policy].shrinks is None:
            options["decay"] = "shrinkage"
    return planning.plan(
        Decoder,
        base=(target if arm == "plain" else base) | fixed,
        target=target | fixed,
        strategy=strategy,
        optimizer=optimizer,
        adjust="match_rms_adamw" if optimizer == "muon" else None,
        constants=json.loads(constants),
        inputs=torch.zeros(1, config.context, dtype=torch.long),
        **options,
    )


def tuned_constants(
    config: Any, optimizer: str, steps: int, store: str | None, client: Any
) -> Tuned:
    """Constants, rate and decay, tuned at the base alone."""
    base = (config.widths[0], config.depths[0])
    plan = plan_of(config, optimizer, "planned", base, None)

    def train(
        plan: TorchPlan, model: nn.Module, seed: int, lr: float, weight_decay: float
    ) -> float:
        return _trained(config, plan, model, seed, lr, weight_decay, steps, config.batch)

    return planning.tune(
        plan,
        train,
        start={"lr": 2.0**config.start, "weight_decay": config.weight_decay},
        # Not the rates of embeddings: a base gains less by them than its seeds scatter, and what it chose was
        # worse at eight times its width.
        over=["hidden.std", "*.out_*.weight.std", "output.std", "lr", "weight_decay"],
        budget=config.budget,
        seeds=config.tuning_seeds,
        store=store,
        client=client,
        progress=False,
    )


def losses_of(config: Any, recipe: Recipe, seed: int, steps: int, batch: int) -> float:
    """Loss on letters that nobody trains on, of a network drawn by a seed."""
    torch.manual_seed(seed)
    plan, lr, weight_decay = recipe
    sizes: dict[str, Any] = {
        k: v for k, v in plan.table.target.items() if k not in ("batch", "tokens")
    }
    model = plan.init_(Decoder(**sizes))
    return _trained(config, plan, model, seed, lr, weight_decay, steps, batch)


def _trained(
    config: Any, plan: TorchPlan, model: nn.Module, seed: int, lr: float, weight_decay: float, steps: int,
    batch: int,
) -> float:  # fmt: skip
    _, tokens = _text(config.characters)
    held = config.held * (config.context + 1)
    train, test = torch.from_numpy(tokens[:-held]), torch.from_numpy(tokens[-held:])
    optimizers = _optimizers(plan, model, lr, weight_decay)
    warm = max(1, steps // 5)

    def share(step: int) -> float:
        """Warm-up over a fifth of the run, then a line to zero."""
        return min((step + 1) / warm, (steps - step) / (steps - warm + 1))

    schedules = [torch.optim.lr_scheduler.LambdaLR(o, share) for o in optimizers]
    generator = torch.Generator().manual_seed(10_000 + seed)
    places = torch.arange(config.context + 1)
    for _ in range(steps):
        begin = torch.randint(len(train) - config.context - 1, (batch, 1), generator=generator)
        loss = _loss(model, train[begin + places])
        if not math.isfinite(loss.item()):
            return math.nan
        for one in optimizers:
            one.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for one, schedule in zip(optimizers, schedules, strict=True):
            one.step()
            schedule.step()
    with torch.no_grad():
        return float(_loss(model, test.view(-1, config.context + 1)))


def _loss(model: nn.Module, batch: Tensor) -> Tensor:
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def _optimizers(
    plan: TorchPlan, model: nn.Module, lr: float, weight_decay: float
) -> list[torch.optim.Optimizer]:
    """AdamW, or Muon with steps of Adam's size and AdamW beside it at the same rate."""
    own: dict[str, Any] = {"lr": lr, "weight_decay": weight_decay}
    adam: dict[str, Any] = {**own, "betas": (0.9, 0.95)}
    if plan.table.optimizer != "muon":
        groups: Any = plan.param_groups(model, **adam)
        return [torch.optim.AdamW(groups)]
    both: Any = plan.param_groups(model, **own, momentum=0.95, rest=adam)
    return [torch.optim.Muon(both[0]), torch.optim.AdamW(both[1])]


@lru_cache(maxsize=1)
def _text(characters: int) -> tuple[np.ndarray, np.ndarray]:
    """The letters that occur, and the text as their numbers."""
    letters, tokens = np.unique(read_bytes(characters), return_inverse=True)
    return letters, tokens.astype(np.int64)
