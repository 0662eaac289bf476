"""A small decoder of PyTorch on a sequence of symbols, as people build them, and its trainings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import scalewise.torch as planning
from scalewise.experiments._arms import Arm, Cell, Common, Size
from scalewise.experiments._corpus import corpus
from scalewise.experiments._stacked import Settings, StackedRun, settings_of, train_together
from scalewise.plan import POLICIES
from scalewise.plan.proof import Tuned
from scalewise.plan.spi import matching
from scalewise.scaling import mup, standard
from scalewise.torch import TorchPlan

HEAD = 16  # units of a head, at every width
STD = 0.02  # of every weight as built


class Recipe(NamedTuple):
    """A plan and the settings of the base that it scales."""

    plan: TorchPlan
    lr: float
    weight_decay: float

    def of(self, name: str) -> dict[str, float]:
        """Settings with which a tensor is drawn and trained."""
        factors = self.plan.factors(name)
        return {
            "std": self.plan.std(name),
            "lr": self.lr * factors.lr,
            "weight_decay": self.weight_decay * factors.weight_decay,
        }

    def swapped(self, setting: str, patterns: tuple[str, ...], other: Recipe) -> Recipe:
        """A copy with one setting of some tensors as `other` has it."""
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

    def settings(self, model: nn.Module) -> Settings:
        """By tensor what AdamW trains it with, or Muon with AdamW beside it at the same rate."""
        own: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay}
        adam: dict[str, Any] = {**own, "betas": (0.9, 0.95)}
        if self.plan.table.optimizer != "muon":
            groups: Any = self.plan.param_groups(model, **adam)
            return settings_of(model, groups)
        both: Any = self.plan.param_groups(model, **own, momentum=0.95, rest=adam)
        return settings_of(model, [*both[0], *both[1]])


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
    """Symbols to symbols: embeddings of symbols and places, blocks, and a readout of its own."""

    def __init__(self, width: int, depth: int, letters: int, context: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(context, width)
        nn.init.normal_(self.letters.weight, std=STD)
        nn.init.normal_(self.places.weight, std=STD)
        self.blocks = nn.ModuleList(_Block(width, depth) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width, bias=False), _drawn(width, letters)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.letters(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def plan_of(common: Common, cell: Cell, size: Size) -> TorchPlan:
    """The plan of an arm for a network of some width and depth, and for its batch and steps by a policy."""
    said = json.dumps(cell.constants if cell.arm.tuned else None)
    return _plan_of(common, cell.arm, cell.optimizer, tuple(size), said, cell.batch, cell.steps)


@lru_cache(maxsize=64)
def _plan_of(
    common: Common, arm: Arm, optimizer: str, size: Size, constants: str, batch: int, steps: int
) -> TorchPlan:
    target = {"width": size[0], "depth": size[1]}
    base = {"width": arm.base or common.base[0], "depth": common.base[1]}
    fixed = {"letters": corpus(common.task, common.symbols).symbols, "context": common.context}
    options: dict[str, Any] = {"decay": arm.decay}
    if arm.rules == "mup":
        options |= {"residual": arm.residual, "branch_outputs": ["*.out_*"]}
    if arm.policy is not None:
        per_step = common.batch * common.context
        base |= {"batch": common.batch, "tokens": common.steps * per_step}
        target |= {"batch": batch, "tokens": steps * batch * common.context}
        options |= {"policy": arm.policy}
        if POLICIES[arm.policy].shrinks is None:
            options["decay"] = "shrinkage"
    plan = planning.plan(
        Decoder,
        base=(base if arm.based else target) | fixed,
        target=target | fixed,
        strategy={"mup": mup, "standard": standard}[arm.rules](),
        optimizer=optimizer,
        adjust=arm.adjust if optimizer == "muon" else None,
        inputs=torch.zeros(1, common.context, dtype=torch.long),
        **options,
    )
    free = plan.with_constants(json.loads(constants) or _drawn_by(common, arm, base, fixed))
    return _with_powers(free, arm, size[0] / base["width"]) if arm.powers else free


def _drawn_by(
    common: Common, arm: Arm, base: Mapping[str, int], fixed: Mapping[str, int]
) -> Mapping[str, Any] | None:
    """Constants of the base by which it is drawn otherwise than as its code does."""
    n, L = base["width"], base["depth"]
    if arm.init == "critical":
        return critical_constants(common.task, common.symbols, common.context, n, L)
    if arm.init == "drawn":
        return None
    own, ends = STD * math.sqrt(n), STD / math.sqrt(2 * L) * math.sqrt(2 * n)
    return {
        "letters.weight": {"std": 1 / STD},
        "places.weight": {"std": 1 / STD},
        **{f"*.{name}.weight": {"std": 1 / own} for name in ("queries", "keys", "values", "up")},
        "*.out_attention.weight": {"std": 1 / ends},
        "*.out_mlp.weight": {"std": 1 / (2 * ends)},
        "head.weight": {"std": 0.5 / own},
    }


@lru_cache(maxsize=8)
def critical_constants(
    task: str, symbols: int, context: int, width: int, depth: int
) -> Mapping[str, Any]:
    """Proposals of the theory of the network, as constants of the base."""
    known = corpus(task, symbols)
    read = torch.from_numpy(known.tokens[: 2 * context].reshape(2, context))
    fixed = {"depth": depth, "letters": known.symbols, "context": context}
    return planning.critical(lambda n: Decoder(n, **fixed), read, width=width).constants


def _with_powers(plan: TorchPlan, arm: Arm, octaves: float) -> TorchPlan:
    """The plan with further factors of some tensors, powers of the width over that of the base."""
    names = {t.name for t in plan.table.tensors}
    said: dict[str, dict[str, float]] = {
        n: {"std": c.std, "lr": c.lr, "weight_decay": c.weight_decay}
        for n in names
        for c in (plan[n].constants,)
    }
    for pattern, setting, power in arm.powers:
        for name in matching(pattern, names):
            said[name][setting] *= octaves**power
    return plan.with_constants(said)


def tuned_constants(
    common: Common,
    optimizer: str,
    *,
    start: Mapping[str, float],
    budget: int,
    seeds: int,
    store: str | None,
    client: Any,
) -> Tuned:
    """Constants, rate and decay, tuned at the base alone."""
    arm = Arm("planned")
    cell = Cell(
        arm=arm,
        size=common.base,
        rates=(),
        seeds=0,
        optimizer=optimizer,
        steps=common.steps,
        batch=common.batch,
    )

    def train(
        plan: TorchPlan, model: nn.Module, seed: int, lr: float, weight_decay: float
    ) -> float:
        recipe = Recipe(plan, lr, weight_decay)
        run = StackedRun(model, recipe.settings(model), _begins(common, cell, seed))
        return _together(common, [run])[0][0]

    return planning.tune(
        plan_of(common, cell, common.base),
        train,
        start=dict(start),
        # Not the rates of embeddings: a base gains less by them than its seeds scatter, and what it chose was
        # worse at eight times its width.
        over=["hidden.std", "*.out_*.weight.std", "output.std", "lr", "weight_decay"],
        budget=budget,
        seeds=seeds,
        store=store,
        client=client,
        progress=False,
    )


def recipe_of(common: Common, cell: Cell, rate: float) -> Recipe:
    """The settings of a cell at one rate, swaps included."""
    mine = Recipe(plan_of(common, cell, cell.size), rate, cell.weight_decay)
    if cell.swap is None:
        return mine
    setting, patterns, other = cell.swap
    return mine.swapped(setting, patterns, recipe_of(common, other, other.rates[0]))


def losses_of(common: Common, cell: Cell) -> np.ndarray:
    """Losses of shape (2, rate, seed); see `train_together`."""
    known = corpus(common.task, common.symbols)
    n, L = cell.size
    recipes = [recipe_of(common, cell, rate) for rate in cell.rates]
    runs: list[StackedRun] = []
    for seed in range(cell.seeds):
        torch.manual_seed(seed)
        model = Decoder(n, L, known.symbols, common.context)
        recipes[0].plan.init_(model)
        begins = _begins(common, cell, seed)
        runs += [StackedRun(model, recipe.settings(model), begins) for recipe in recipes]
    found = np.array(_together(common, runs))
    return found.reshape(cell.seeds, len(cell.rates), 2).transpose(2, 1, 0)


def _begins(common: Common, cell: Cell, seed: int) -> Tensor:
    """Where the texts of every step begin: the same for all that have this seed."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    last = common.symbols - (common.held + 1) * (common.context + 1)
    return torch.randint(last, (cell.steps, cell.batch), generator=generator)


def _together(common: Common, runs: list[StackedRun]) -> list[tuple[float, float]]:
    tokens = torch.from_numpy(corpus(common.task, common.symbols).tokens)
    held = common.held * (common.context + 1)
    texts = tokens[-held:].view(-1, common.context + 1)
    return train_together(runs, tokens[:-held], texts, context=common.context)
