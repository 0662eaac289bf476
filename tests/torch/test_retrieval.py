"""Agreement and refusal tests: models without a readout, which return products or distances of their features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from grids import thorough
from scalewise.plan._check import Check
from scalewise.plan._diagnosis import Cause
from scalewise.torch import TorchPlan

BASE, WIDTHS = 64, [64, 128, 256, 512]
DRAWS = torch.Generator().manual_seed(0)
PAIRS = torch.randn(2, 12, 8, generator=DRAWS)
RATED = torch.stack([torch.randint(n, (24,), generator=DRAWS) for n in (40, 30)])
RATINGS = torch.randn(24, generator=DRAWS)
TOKENS = torch.randint(8, (2, 12, 3), generator=DRAWS)


class Towers(nn.Module):
    """The features of one network times those of another, for every pair of samples."""

    def __init__(self, width: int, power: float) -> None:
        super().__init__()
        self.one, self.two = (
            nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(2)
        )
        self.factor = 8 * (BASE / width) ** power / BASE**0.5

    def forward(self, both: Tensor) -> Tensor:
        return self.factor * self.one(both[0]) @ self.two(both[1]).T


class Factors(nn.Module):
    """Ratings from factors of users and things, and a bias of each."""

    def __init__(self, width: int, power: float) -> None:
        super().__init__()
        self.users, self.things = nn.Embedding(40, width), nn.Embedding(30, width)
        self.of_user, self.of_thing = nn.Embedding(40, 1), nn.Embedding(30, 1)
        self.factor = (BASE / width) ** power / (2 * BASE**0.5)
        for bias in (self.of_user, self.of_thing):
            nn.init.zeros_(bias.weight)

    def forward(self, rated: Tensor) -> Tensor:
        users, things = rated
        product = (self.users(users) * self.things(things)).sum(-1)
        return self.factor * product + (self.of_user(users) + self.of_thing(things)).squeeze(-1)


class Retrieval(nn.Module):
    """Queries and documents through one network, with a projection of each; the temperature is learnt."""

    def __init__(self, width: int, power: float) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(8, width), nn.Linear(width, width)
        self.query, self.document = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.heat = nn.Parameter(torch.zeros(()))
        self.factor = (BASE / width) ** power

    def forward(self, both: Tensor) -> Tensor:
        q, d = functional.gelu(self.body(self.words(both).mean(-2)))
        scores = torch.einsum("qn,dn->qd", self.query(q), self.document(d))
        return self.factor * self.heat.exp() * scores


class Metric(Towers):
    """Distances between the features of two networks."""

    def forward(self, both: Tensor) -> Tensor:
        u, v = self.one(both[0]), self.two(both[1])
        return -self.factor * (u[:, None] - v).square().sum(-1)


def contrast(model: nn.Module, both: Tensor) -> Tensor:
    scores = model(both)
    return functional.cross_entropy(scores, torch.arange(len(scores)))


def errors(model: nn.Module, batch: Any) -> Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


# The model, what it is called with, the batch and the loss; what multiplies; a tensor of a rate that is wrong.
Case = tuple[Callable[[int, float], nn.Module], Any, Any, Any, str, str]
CASES: dict[str, Case] = {
    "towers": (Towers, PAIRS, PAIRS, contrast, "product", "one.2.weight"),
    "factors": (Factors, RATED, (RATED, RATINGS), errors, "product", "users.weight"),
    "retrieval": (Retrieval, TOKENS, TOKENS, contrast, "product", "query.weight"),
    "metric": (Metric, PAIRS, PAIRS, contrast, "distance", "one.2.weight"),
}


def planned(name: str, power: float = 1.0, optimizer: str = "adamw") -> TorchPlan:
    build, inputs, *_, multiplied, _ = CASES[name]
    return sw.torch.plan(
        lambda width: build(width, power), base={"width": BASE}, target={"width": 4 * BASE},
        strategy=sw.scaling.mup(), optimizer=optimizer, inputs=inputs, multiplied=[multiplied],
    )  # fmt: skip


def verified(name: str, plan: TorchPlan, **options: Any) -> Check:
    _, _, batch, loss, _, _ = CASES[name]
    return plan.verify(batch, loss, widths=WIDTHS, seeds=3, progress=False, **options)


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("towers", "adamw"),
        ("factors", "sgd"),
        *thorough(("factors", "adamw"), ("retrieval", "adamw"), ("retrieval", "sgd")),
        *thorough(("metric", "adamw"), ("towers", "sgd")),
    ],
)
def test_what_returns_products_is_as_planned_and_learns_features(name: str, optimizer: str) -> None:
    check = verified(name, planned(name, optimizer=optimizer))
    assert check.ok, str(check)
    assert str(check.verdict) == "feature learning, stable"
    first, moved = (r.fit for r in check.returned)
    assert moved.slope == pytest.approx(0.0, abs=0.1)
    # Features of independent tensors are not aligned; distances are positive from the start.
    assert first.slope == pytest.approx(0.0 if name == "metric" else -0.5, abs=3 * first.sem + 0.1)
    assert "what the model returns: output" in str(check)


@pytest.mark.parametrize("name", ["towers", *thorough("factors", "retrieval", "metric")])
def test_a_product_that_is_too_large_is_named(name: str) -> None:
    check = verified(name, planned(name, power=0.5))
    assert not check.verdict.stable
    (culprit,) = check.culprits
    assert (culprit.tensor, culprit.cause) == ("", Cause.FORWARD)
    assert f"multipliers for `{CASES[name][4]}`" in culprit.text
    # A distance is as large from the start, a product once its factors are aligned.
    what = "at initialisation" if name == "metric" else "the change of what the model returns"
    assert what in culprit.text
    assert culprit.power == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("name", ["factors", *thorough("towers")])
def test_a_product_that_fades_is_named(name: str) -> None:
    check = verified(name, planned(name, power=1.5))
    assert str(check.verdict) == "trivial, stable"
    (culprit,) = check.culprits
    assert (culprit.tensor, culprit.cause) == ("", Cause.FORWARD)
    assert culprit.power == pytest.approx(-0.5, abs=0.1)


@pytest.mark.parametrize("name", ["factors", *thorough("towers", "retrieval", "metric")])
def test_a_wrong_rate_below_a_product_is_named(name: str) -> None:
    wrong = CASES[name][-1]

    def setup(plan: Any, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        one, factor = dict(model.named_parameters())[wrong], plan.table.target["width"] / BASE
        groups = []
        for g in plan.param_groups(model, lr=1e-4, weight_decay=0.0):
            groups.append(g | {"params": [p for p in g["params"] if p is not one]})
            if any(p is one for p in g["params"]):
                groups.append(g | {"params": [one], "lr": g["lr"] * factor**0.5})
        return torch.optim.AdamW([g for g in groups if g["params"]])

    check = verified(name, planned(name), setup=setup)
    (culprit,) = check.culprits
    assert (culprit.tensor, culprit.cause) == (wrong, Cause.LEARNING_RATE)
    assert culprit.power == pytest.approx(0.5, abs=0.1)
    assert not check.verdict.stable


class Deep(Towers):
    """Towers of several blocks, whose branches are scaled for their number or not."""

    def __init__(self, width: int, depth: int, scaled: bool) -> None:
        super().__init__(width, 1.0)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.branch = (2 / depth) ** 0.5 if scaled else 1.0

    def forward(self, both: Tensor) -> Tensor:
        u, v = self.one(both[0]), self.two(both[1])
        for block in self.blocks:
            u, v = (x + self.branch * torch.tanh(block(x)) for x in (u, v))
        return self.factor * u @ v.T


@pytest.mark.parametrize("scaled", [True, False])
def test_towers_are_seen_over_depths_without_a_readout(scaled: bool) -> None:
    sizes = {"width": 32, "depth": 2}
    plan = sw.torch.plan(
        lambda width, depth: Deep(width, depth, scaled), base=sizes, target=sizes | {"width": 64},
        strategy=sw.scaling.mup(), inputs=PAIRS, residual=0.5 if scaled else 0,
        multiplied=["product", *["residual"] * scaled],
    )  # fmt: skip
    check = plan.verify(PAIRS, contrast, widths=[32, 64, 128], depths=[2, 4, 8], seeds=2)
    assert check.depth is not None
    assert check.depth.ok == scaled, str(check.depth)
    assert [c.cause for c in check.culprits] == [Cause.DEPTH] * (not scaled)
    assert scaled or "what the model returns" in str(check.depth)


class Frozen(Factors):
    """Factors of which nothing is trained but the biases."""

    def __init__(self, width: int, power: float) -> None:
        super().__init__(width, power)
        self.users.requires_grad_(False)
        self.things.requires_grad_(False)


def test_features_that_do_not_move_are_not_learnt() -> None:
    plan = sw.torch.plan(
        lambda width: Frozen(width, 1.0), base={"width": BASE}, target={"width": 4 * BASE},
        strategy=sw.scaling.mup(), inputs=RATED, multiplied=["product"],
    )  # fmt: skip
    check = verified("factors", plan, lr=1e-3)
    assert not check.ok
    assert check.culprits[-1].cause is Cause.UNSEEN
    assert "No tensor reads out, and what the model returns was not seen, or" in str(check)


class Features(Towers):
    """Both towers' features as they are; the loss multiplies them."""

    def forward(self, both: Tensor) -> Any:
        return self.one(both[0]), self.two(both[1])


def of_features(power: float, normalised: bool) -> Callable[[nn.Module, Tensor], Tensor]:
    """A contrastive loss of features, over a power of their length or over their norms."""

    def loss(model: nn.Module, both: Tensor) -> Tensor:
        u, v = model(both)
        if normalised:
            u, v = functional.normalize(u, dim=-1), functional.normalize(v, dim=-1)
        scores = 4 * u @ v.T * (1.0 if normalised else u.shape[-1] ** -power)
        return functional.cross_entropy(scores, torch.arange(len(u)))

    return loss


@pytest.mark.parametrize(
    ("power", "normalised"), [(1.0, False), (0.5, False), *thorough((0.0, True), (0.0, False))]
)
def test_what_the_loss_makes_of_features_is_measured_by_the_loss(
    power: float, normalised: bool
) -> None:
    plan = sw.torch.plan(
        lambda width: Features(width, 1.0), base={"width": BASE}, target={"width": 4 * BASE},
        strategy=sw.scaling.mup(), inputs=PAIRS,
    )  # fmt: skip
    check = plan.verify(PAIRS, of_features(power, normalised), widths=WIDTHS, seeds=3)
    right = normalised or power == 1
    assert check.ok is check.verdict.stable is right, str(check)
    if not right:
        (culprit,) = check.culprits
        assert culprit.power == pytest.approx(1 - power, abs=0.15)
        assert "the change of what the loss returns is off by" in culprit.text


def trained(plan: TorchPlan, width: int, seed: int, steps: int) -> tuple[float, float, float]:
    """Squared distances of a model as planned, before and after training, and the change of its output."""
    torch.manual_seed(seed)
    assert plan.build is not None
    model: Any = plan.build(width=width)
    plan.init_(model)
    groups: Any = plan.param_groups(model, lr=3e-4, weight_decay=0.0)
    optimizer = torch.optim.Adam(groups)
    with torch.no_grad():
        first = model(PAIRS)
    for _ in range(steps):
        optimizer.zero_grad()
        contrast(model, PAIRS).backward()
        optimizer.step()
    with torch.no_grad():
        last = model(PAIRS)
    sizes = first / model.factor, last / model.factor, last - first
    one, two, moved = (float(x.square().mean().sqrt()) for x in sizes)
    return one, two, moved


# What widths such as these take off the power of an order one: the tolerance of `verify`.
FINITE = 0.0625


def powers(power: float, widths: list[int], seeds: int, steps: int) -> list[tuple[float, float]]:
    """The powers of the width of these three, with their standard errors over the seeds."""
    plans = {n: planned("metric", power).at(width=n) for n in widths}
    sizes = [[trained(p, n, s, steps) for n, p in plans.items()] for s in range(seeds)]
    logs = torch.tensor(sizes, dtype=torch.float64).log()
    x = torch.tensor(widths, dtype=torch.float64).log()
    slopes = ((x - x.mean())[:, None] * logs).sum(1) / (x - x.mean()).square().sum()
    return [(float(s.mean()), float(s.std() / seeds**0.5)) for s in slopes.T]


def test_squared_distances_are_as_long_as_the_axis_from_the_start() -> None:
    first, last, moved = powers(1.0, [64, 128, 256], seeds=3, steps=3)
    for found, power in ((first, 1.0), (last, 1.0), (moved, 0.0)):
        assert found[0] == pytest.approx(power, abs=4 * found[1] + FINITE)


@pytest.mark.thorough("test_squared_distances_are_as_long_as_the_axis_from_the_start")
def test_squared_distances_stay_so_while_they_are_trained() -> None:
    first, last, moved = powers(1.0, WIDTHS, seeds=4, steps=30)
    for found, power in ((first, 1.0), (last, 1.0), (moved, 0.0)):
        assert found[0] == pytest.approx(power, abs=4 * found[1] + FINITE)
    # By the rule of products of random features, the root of the length, outputs move more in wide networks.
    assert powers(0.5, WIDTHS, seeds=4, steps=30)[-1][0] > 0.25
