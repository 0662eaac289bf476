"""Many trainings at once are those of PyTorch's own optimizers, one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="decoders are networks of PyTorch")

from grids import thorough  # noqa: E402
from scalewise.experiments._arms import Arm, Cell, Common  # noqa: E402
from scalewise.experiments._corpus import corpus  # noqa: E402
from scalewise.experiments._decoder import (  # noqa: E402
    Decoder,
    Recipe,
    _begins,
    losses_of,
    recipe_of,
)

COMMON = Common("teacher", (32, 2), batch=4, steps=12, context=8, held=40, symbols=20_000)


def cell(optimizer: str, **more: Any) -> Cell:
    arm = Arm("planned", **more.pop("arm", {}))
    given = {"rates": (2.0**-8, 2.0**-5), "seeds": 2, "steps": 12, "batch": 4}
    return Cell(arm, (64, 2), optimizer=optimizer, **(given | more))


def optimizers(recipe: Recipe, model: Any) -> list[Any]:
    own: Any = {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
    adam = {**own, "betas": (0.9, 0.95)}
    if recipe.plan.table.optimizer != "muon":
        return [torch.optim.AdamW(recipe.plan.param_groups(model, **adam))]
    both: Any = recipe.plan.param_groups(model, **own, momentum=0.95, rest=adam)
    return [torch.optim.Muon(both[0]), torch.optim.AdamW(both[1])]


def by_pytorch(one: Cell, rate: float, seed: int) -> tuple[float, list[float]]:
    """A training as people write it."""
    tokens = torch.from_numpy(corpus(COMMON.task, COMMON.symbols).tokens)
    held, length = COMMON.held * (COMMON.context + 1), COMMON.context + 1
    recipe = recipe_of(COMMON, one, rate)
    torch.manual_seed(seed)
    model = recipe.plan.init_(Decoder(*one.size, 32, COMMON.context))
    trainers, warm, seen = optimizers(recipe, model), max(1, one.steps // 5), []

    def share(k: int) -> float:
        return min((k + 1) / warm, (one.steps - k) / (one.steps - warm + 1))

    def loss(texts: Any) -> Any:
        logits = model(texts[:, :-1])
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), texts[:, 1:].flatten())

    schedules = [torch.optim.lr_scheduler.LambdaLR(o, share) for o in trainers]
    for begin in _begins(COMMON, one, seed):
        now = loss(tokens[:-held][begin[:, None] + torch.arange(length)])
        seen.append(now.item())
        for trainer in trainers:
            trainer.zero_grad()
        now.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for trainer, schedule in zip(trainers, schedules, strict=True):
            trainer.step()
            schedule.step()
    with torch.no_grad():
        return loss(tokens[-held:].view(-1, length)).item(), seen


@pytest.mark.parametrize(
    "one",
    [
        cell("adamw"),
        # Moments whose decay rates differ between tensors, steps that shrink nothing, and rates of their own.
        cell("adamw", arm={"policy": "completed"}, steps=20, batch=8),
        *thorough(cell("adamw", arm={"powers": (("letters.*", "lr", 1.0),)}, weight_decay=0.0)),
        *thorough(cell("muon")),
        cell("muon", arm={"rules": "standard", "based": False, "adjust": "original"}),
    ],
    ids=["adamw", "policy", "powers", "muon", "plain muon"],
)
def test_together_is_one_by_one(one: Cell) -> None:
    found = losses_of(COMMON, one)
    middle = one.steps // 2
    begin = max(0, middle - one.steps // 10 - 1)
    # Muon rounds to eight bits, and sums of other order round otherwise.
    rel = 2e-3 if one.optimizer == "muon" else 2e-5
    for k, rate in enumerate(one.rates):
        for seed in range(one.seeds):
            last, seen = by_pytorch(one, rate, seed)
            assert found[0, k, seed] == pytest.approx(last, rel=rel)
            assert found[1, k, seed] == pytest.approx(
                sum(seen[begin:middle]) / (middle - begin), rel=rel
            )
    assert abs(found[0, 0, 0] - found[0, 1, 0]) > 10 * rel  # the rates tell apart what is compared


def test_what_diverges_is_infinite_and_leaves_the_others_alone() -> None:
    alone = losses_of(COMMON, cell("adamw", rates=(2.0**-6,), seeds=1))
    both = losses_of(COMMON, cell("adamw", rates=(2.0**-6, 1e12), seeds=1))
    assert both[:, 0] == pytest.approx(alone[:, 0], rel=1e-5)
    assert both[0, 1, 0] == math.inf


def test_a_constant_predictor_of_the_teacher_knows_little_and_one_symbol_hardly_more() -> None:
    import numpy as np

    known = corpus("teacher", 200_000)
    pairs = np.zeros((32, 32))
    np.add.at(pairs, (known.tokens[:-1], known.tokens[1:]), 1)
    odds = pairs / pairs.sum(axis=1, keepdims=True)
    bigram = -(pairs * np.log(np.where(pairs > 0, odds, 1))).sum() / pairs.sum()
    assert known.unigram == pytest.approx(3.39, abs=0.03)
    assert bigram == pytest.approx(3.0, abs=0.05)
