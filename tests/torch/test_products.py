"""Golden and agreement tests: products of two activations over a length that grows with the width."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from attending import WORDS, Attends
from grids import thorough
from scalewise.plan._questions import Asked
from scalewise.torch import TorchPlan

N = 16
NUMBERS = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randint(WORDS, (2, 5), generator=torch.Generator().manual_seed(0))
Write = Callable[[Tensor, Tensor, Tensor], Tensor]
Score = Callable[[Tensor, Tensor], Tensor]


class Towers(nn.Module):
    """Two networks whose features are multiplied with each other."""

    def __init__(self, width: int, score: Score) -> None:
        super().__init__()
        self.one, self.two = (
            nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(2)
        )
        self.score = score

    def forward(self, x: Tensor) -> Tensor:
        return self.score(self.one(x), self.two(x.flip(-1)))


class Factors(nn.Module):
    """A matrix of ratings from factors of users and things."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.users, self.things = nn.Embedding(9, width), nn.Embedding(7, width)

    def forward(self, pairs: Tensor) -> Tensor:
        return (self.users(pairs) * self.things(pairs.flip(0))).sum(-1)


def normalised(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(-2, keepdim=True).mT)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    states = torch.cumsum(k.unsqueeze(-1) * v.unsqueeze(-2), 2)
    return (q.unsqueeze(-2) @ states).squeeze(-2)


# Attention without a softmax, by the power of the size of a head that its products lack under maximal updates.
ATTENDS: dict[str, tuple[Write, float]] = {
    "linear": (lambda q, k, v: (q @ k.mT) @ v, -1),
    "linear, by states": (lambda q, k, v: q @ (k.mT @ v), -1),
    "linear, causal": (causal, -1),
    "linear, over the root": (lambda q, k, v: q @ (k.mT @ v) / q.shape[-1] ** 0.5, -0.5),
    "linear, over the size": (lambda q, k, v: q @ (k.mT @ v) / q.shape[-1], 0),
    "linear, keys over the size": (lambda q, k, v: q @ ((k / q.shape[-1]).mT @ v), 0),
    "linear, scores over the size": (lambda q, k, v: (q @ k.mT / q.shape[-1]) @ v, 0),
    "squared": (lambda q, k, v: (q @ k.mT).relu() ** 2 @ v, -1),
    "squared, over the root": (
        lambda q, k, v: (q @ k.mT / q.shape[-1] ** 0.5).relu() ** 2 @ v,
        -0.5,
    ),
    "squared, all over the size": (
        lambda q, k, v: (q @ k.mT).relu() ** 2 @ v / q.shape[-1] ** 2,
        0,
    ),
}
SCORES: dict[str, tuple[Score, float]] = {
    "sum": (lambda u, v: (u * v).sum(-1), -1),
    "matrix": (lambda u, v: u @ v.T, -1),
    "einsum": (lambda u, v: torch.einsum("bn,bn->b", u, v), -1),
    "sigmoid": (lambda u, v: (u * v).sum(-1).sigmoid().log(), -1),
    "over the size": (lambda u, v: (u * v).sum(-1) / u.shape[-1], 0),
    "mean": (lambda u, v: (u * v).mean(-1), 0),
    "angles": (
        lambda u, v: 5 * functional.normalize(u, dim=-1) @ functional.normalize(v, dim=-1).T,
        0,
    ),
}
# Distances are positive, so they sum to the length from the start; the power is that of their squares.
DISTANCES: dict[str, tuple[Score, float]] = {
    "squares": (lambda u, v: ((u - v) ** 2).sum(-1), -1),
    "square": (lambda u, v: (u - v).square().sum(-1), -1),
    "times itself": (lambda u, v: (d := u - v).mul(d).sum(-1), -1),
    "kernel": (lambda u, v: (-((u[:, None] - v) ** 2).sum(-1) / 2).exp(), -1),
    "kernel, bandwidth in front": (
        lambda u, v: (-((u[:, None] - v) / u.shape[-1] ** 0.25).square().sum(-1)).exp(),
        -0.5,
    ),
    "norm": (lambda u, v: (u - v).norm(dim=-1), -1),
    "root": (lambda u, v: ((u - v) ** 2).sum(-1).sqrt(), -1),
    "pairwise": (functional.pairwise_distance, -1),
    "cdist": (torch.cdist, -1),
    "cdist over the root": (lambda u, v: torch.cdist(u, v) / u.shape[-1] ** 0.5, 0),
    "kernel of cdist": (lambda u, v: (-(torch.cdist(u, v) ** 2)).exp(), -1),
    "absolute": (lambda u, v: (u - v).abs().sum(-1), -1),
    "with itself": (lambda u, v: (-(u[:, None] - u).square().sum(-1) + v.mean()).exp(), -1),
    "softmax": (lambda u, v: (-((u[:, None] - v) ** 2).sum(-1)).softmax(-1), -1),
    "over the size": (lambda u, v: ((u - v) ** 2).sum(-1) / u.shape[-1], 0),
    "mean": (lambda u, v: ((u - v) ** 2).mean(-1), 0),
}


def by_hand(u: Tensor, v: Tensor) -> Tensor:
    """A variance, and a difference that is divided by its own size."""
    u = u - u.mean(-1, keepdim=True)
    u = u / ((u**2).sum(-1, keepdim=True) / u.shape[-1]).sqrt()
    d = u - v
    return (d / (d * d).sum(-1, keepdim=True).sqrt()).tanh().mean(-1)


def spread(u: Tensor) -> Tensor:
    return ((u - u.mean(-1, keepdim=True)) ** 2).sum(-1)


def spreads(u: Tensor, v: Tensor) -> Tensor:
    """How much more one array scatters about its own mean than the other: their length is in both."""
    return spread(u).log() - spread(v).log()


# Norms and quotients divide the size out; a softmax over channels makes their weights small.
FREE: dict[str, Write] = {
    "normalised": normalised,
    "norm of layers": lambda q, k, v: functional.layer_norm(q @ (k.mT @ v), v.shape[-1:]),
    "norm by squares": lambda q, k, v: functional.rms_norm((q @ k.mT) @ v, v.shape[-1:]),
    "of channels": lambda q, k, v: v @ (q.mT @ k / 5).softmax(-1),
}


def test_products_ask_for_what_their_scale_lacks() -> None:
    models: list[tuple[Callable[[int], nn.Module], Tensor, float]] = [
        (lambda n, w=write: Attends(n, 2, w), TOKENS, power) for write, power in ATTENDS.values()
    ]
    models += [
        (lambda n, s=score: Towers(n, s), NUMBERS, power) for score, power in SCORES.values()
    ]
    models += [(Factors, TOKENS[0] % 7, -1.0)]
    wrong = []
    for i, (build, inputs, power) in enumerate(models):
        name = [*ATTENDS, *SCORES, "factors"][i]
        found = _lacking(build, inputs)
        if math.prod(found.values()) != pytest.approx(4**power):
            wrong.append((name, found))
    assert not wrong


@pytest.mark.parametrize("strategy", [sw.scaling.mup(), sw.scaling.ntk()], ids=["mup", "ntk"])
def test_distances_ask_for_what_their_scale_lacks(strategy: Any) -> None:
    wrong = {}
    for name, (score, power) in DISTANCES.items():
        found = _lacking(lambda n, s=score: Towers(n, s), NUMBERS, strategy=strategy)
        if found.get("distance", 1.0) != pytest.approx(4**power) or found.keys() - {"distance"}:
            wrong[name] = found
    assert not wrong
    for score in (by_hand, spreads):
        assert _lacking(lambda n, s=score: Towers(n, s), NUMBERS, strategy=strategy) == {}


def test_the_question_about_a_distance_says_where_to_multiply() -> None:
    with pytest.raises(Asked, match="multiply the sums, before any root, by") as asked:
        _planned(lambda n: Towers(n, torch.cdist), NUMBERS)
    assert asked.value.answers == {"multiplied": ["distance"]}


def test_sizes_that_are_divided_out_need_nothing() -> None:
    found = {k: _lacking(lambda n, w=w: Attends(n, 2, w), TOKENS) for k, w in FREE.items()}
    assert {k: v for k, v in found.items() if set(v.values()) - {1.0}} == {}


def test_heads_that_keep_their_size_need_nothing() -> None:
    for write in (w for w, power in ATTENDS.values() if power == -1):
        assert _lacking(lambda n, w=write: Attends(n, n // 8, w), TOKENS) == {}


def _lacking(build: Callable[[int], nn.Module], inputs: Tensor, **options: Any) -> dict[str, float]:
    """What is asked for, and its values; a plan with the answers gives them."""
    try:
        return _planned(build, inputs, **options).multipliers
    except Asked as asked:
        return _planned(build, inputs, **options, **asked.answers).multipliers


def _planned(
    build: Callable[[int], nn.Module], inputs: Tensor, *, width: int = 4 * N, **options: Any
) -> TorchPlan:
    return sw.torch.plan(
        lambda width: build(width), base={"width": N}, target={"width": width},
        strategy=options.pop("strategy", sw.scaling.mup()), inputs=inputs, **options,
    )  # fmt: skip


def _loss(model: nn.Module, tokens: Tensor) -> Tensor:
    return functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (lambda q, k, v: N * q @ (k.mT @ v) / q.shape[-1], lambda q, k, v: q @ (k.mT @ v)),
        *thorough(
            (
                lambda q, k, v: (8 * q @ k.mT / q.shape[-1]).relu() ** 2 @ v,
                lambda q, k, v: (q @ k.mT / 3).relu() ** 2 @ v,
            )
        ),
    ],
    ids=["linear", "squared"],
)
def test_the_multiplier_makes_networks_stable(right: Write, wrong: Write) -> None:
    """True networks of several widths learn features with it, and without it they are unstable.

    (That gradients are as large as planned holds only once queries and keys align: no softmax makes attention of
    order one before.)
    """
    kept = _planned(lambda n: Attends(n, 2, right), TOKENS, multiplied=["product"])
    check = kept.verify(TOKENS, _loss, widths=[64, 128, 256, 512], seeds=3, progress=False)
    assert (check.verdict.stable, str(check.verdict.regime)) == (True, "feature learning")
    lost = _planned(lambda n: Attends(n, 2, wrong), TOKENS, multiplied=["product"])
    check = lost.verify(TOKENS, _loss, widths=[64, 128, 256, 512], seeds=3, progress=False)
    assert not check.verdict.stable


class Scaled(nn.Module):
    """A layer whose output is divided by the width on purpose, so that it begins as nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.mix, self.head = (
            nn.Linear(8, width),
            nn.Linear(width, width),
            nn.Linear(width, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        return self.head((x + self.mix(x) / self.mix.in_features).tanh())


def test_what_the_code_multiplies_by_is_taken_back_unless_it_is_said_to_stay() -> None:
    taken = _planned(Scaled, NUMBERS).factors("mix.weight")
    kept = _planned(Scaled, NUMBERS, multiplied=["mix.weight"])
    stays = kept.factors("mix.weight")
    assert kept.factors("mix.bias").init == 1
    assert (taken.init, stays.init) == (pytest.approx(4**0.5), pytest.approx(4**-0.5))
    assert stays.lr == 1 / 4
    with pytest.raises(sw.plan.PlanError, match=r"`multiplied` names 'first.weight'"):
        _planned(Scaled, NUMBERS, multiplied=["first.weight"])
