"""Agreement tests: models of today's kinds are planned without a question, are stable, and train at two widths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import scalewise as sw
from grids import thorough
from scalewise.plan._check import Check
from scalewise.plan._questions import Asked
from scalewise.plan._small_rate import Bracket
from todays_models import (
    LM,
    PLANNED,
    TOKENS,
    Delta,
    Experts,
    Latent,
    Linear,
    Listed,
    StateSpace,
    data,
    loss,
    planned,
    trained,
    with_experts,
)

# Those that are quick, and of a kind each.
DAILY = ("latent that grows", "linear, heads grow", "experts, masked", "state space", "delta")
EVERY = [*DAILY, *thorough(*(name for name in PLANNED if name not in DAILY))]


def verified(plan: Any, **options: Any) -> Check:
    widths = options.pop("widths", [64, 128, 256])
    return plan.verify(TOKENS, loss, widths=widths, seeds=3, progress=False, **options)


@pytest.mark.parametrize("name", EVERY)
def test_sizes_do_not_move_with_the_width(name: str) -> None:
    check = verified(planned(PLANNED[name]))
    assert (check.ok, str(check.verdict.regime)) == (True, "feature learning"), str(check)


@pytest.mark.parametrize(
    ("name", "steps", "seeds"),
    [
        ("latent that grows", 15, 2),
        ("linear", 15, 2),
        *thorough(*((name, 40, 3) for name in PLANNED if "gathered" not in name)),
    ],
)
def test_a_wider_network_learns_more_at_the_carried_rate(name: str, steps: int, seeds: int) -> None:
    build = PLANNED[name]
    wide, base = (
        sum(
            trained(planned(build, target={"width": n}), build, lr=1e-2, steps=steps, seed=s)
            for s in range(seeds)
        ) / seeds
        for n in (128, 64)
    )  # fmt: skip
    # The task begins at log 32 = 3.47, and the standard error of a difference is .03 or less.
    assert wide < base + 0.05 < 3.0


# A kind of factor, a model that lacks it by so much of the width under maximal updates, and where this shows.
LACKING: dict[str, tuple[Callable[[int], nn.Module], str, float]] = {
    "linear": (lambda n: Linear(n, 4, 0.0), "mix.o", 1.0),
    "linear over a root": (lambda n: Linear(n, 4, -0.5), "mix.o", 0.5),
    "state that grows": (lambda n: StateSpace(n, n // 8), "", 0.0),
    "delta": (lambda n: Delta(n, 4, unit=False), "", 0.0),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_factor_is_asked_for_or_left_as_it_is(name: str) -> None:
    mix, where, power = LACKING[name]

    def build(width: int) -> nn.Module:
        return LM(width, mix(width))

    with pytest.raises(
        Asked, match=r'multiplied=\["product"\], or leave .* with keep=\["product"\]'
    ):
        planned(build)
    for keep in ("product", "mix", "m*"):
        plan = planned(build, keep=[keep])
        assert plan.multipliers == {"mix": 1.0}
    assert "The products of two activations of `mix` keep the factor" in str(plan)
    if where:
        # What is left as it is goes on growing, and the check says whose choice it was.
        check = verified(plan)
        row = next(
            r for r in check.rows if r.tensor == f"{where}.weight" and r.quantity == "output"
        )
        assert row.fit.slope == pytest.approx(power, abs=4 * row.fit.sem + 0.1)
        assert not check.ok
        assert "the factor of `mix` is left as it is, as asked with keep=" in str(check)


def test_attention_that_keeps_its_root_may_grow_by_as_much() -> None:
    def build(width: int) -> nn.Module:
        return LM(width, Latent(width, 4, width // 4))

    with pytest.raises(Asked, match=r"grow with the width"):
        planned(build)
    check = verified(planned(build, keep=["attention"]))
    limits = {r.quantity: float(r.predicted) for r in check.attention}
    assert check.ok
    assert limits == {"logits": 0.0, "logits_change": 0.5}


def test_what_is_kept_is_stored_and_goes_along(tmp_path: Any) -> None:
    plan = planned(lambda width: LM(width, Linear(width, 4, 0.0)), keep=["product"])
    plan.save(tmp_path / "plan.json")
    loaded = sw.torch.load(tmp_path / "plan.json", build=plan.build)
    assert loaded.table == plan.table
    assert loaded.at(width=512).multipliers == {"mix": 1.0}


def test_unknown_factors_are_refused() -> None:
    with pytest.raises(
        sw.plan.PlanError, match=r"no such factor. It has `product`, `mix`: name a kind"
    ):
        planned(lambda width: LM(width, Linear(width, 4, 0.0)), keep=["attn"])


class Scaled(nn.Module):
    """A layer over the root of the width, and a readout with the embedding's weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.tok, self.mid = nn.Embedding(32, width), nn.Linear(width, width)
        self.head = nn.Linear(width, 32, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.tok(x)
        return self.head(x + self.mid(x) * x.shape[-1] ** -0.5)


def test_factors_of_tensors_and_of_shared_readouts_are_kept_too() -> None:
    taken_back = planned(Scaled)
    left = planned(Scaled, keep=["mid.*", "head"])
    assert taken_back.multipliers["head"] < 1
    assert left.multipliers == {"head": 1.0}
    assert taken_back.factors("mid.weight").init == pytest.approx(1.0)
    assert left.factors("mid.weight").init == pytest.approx(0.5)
    left.param_groups(left.init_(Scaled(256)), lr=1e-3)


@pytest.mark.parametrize("way", ["gathered", "masked", "scattered", "listed"])
def test_a_router_starts_as_a_hidden_matrix_and_experts_may_be_more(way: str) -> None:
    build = with_experts(way)
    plan = planned(
        build, {"width": 64, "experts": 4}, {"width": 256, "experts": 8}, optimizer="sgd"
    )
    router = plan.table["ff.pick.weight"]
    inside = "ff.of.7.a.weight" if way == "listed" else "ff.one"
    assert (str(router.role), router.normed) == ("bottleneck", True)
    # Each expert sees half as many of the samples, so that its gradient is half as large.
    assert plan.factors("ff.pick.weight").init == pytest.approx(1 / 2)
    assert plan.factors(inside).lr == pytest.approx(2.0)
    model = plan.init_(build(256, 8))
    assert len(plan.param_groups(model, lr=0.1)) > 1
    adam = planned(build, {"width": 64, "experts": 4}, {"width": 256, "experts": 8})
    assert adam.factors(inside).eps == pytest.approx(1 / 4 / 2)
    assert adam.factors(inside).lr == pytest.approx(1 / 4)


def test_experts_that_go_with_the_width_are_asked_about() -> None:
    for way in ("gathered", "masked", "scattered"):
        with pytest.raises(
            Asked, match=r"^In `ff` each sample goes to a few of 8 experts at width = 64 and of 32"
        ):
            planned(lambda width, w=way: LM(width, nn.Identity(), Experts(width, width // 8, 2, w)))
    with pytest.raises(Asked, match=r"goes to 4 experts, and to 16 from width = 64 to 256"):
        planned(lambda width: LM(width, nn.Identity(), Experts(width, 32, width // 16, "masked")))
    with pytest.raises(sw.plan.PlanError, match=r"if these are experts, let it take their number"):
        planned(lambda width: LM(width, nn.Identity(), Listed(width, width // 16, 2)))


def _chosen(model: Any, words: Tensor) -> Tensor:
    """The experts of every word."""
    found: list[Tensor] = []
    hook = model.ff.pick.register_forward_hook(lambda *call: found.append(call[2]))
    with torch.no_grad():
        model(words[:, :-1])
    hook.remove()
    return found[0].topk(2).indices.sort().values


def _changed(drawn_small: bool, width: int, seeds: int) -> float:
    """The part of words whose experts become others in the first step of Adam."""
    build, changed = with_experts("scattered"), 0.0
    plan = planned(build, target={"width": width})
    words = data(32, 16, torch.Generator().manual_seed(9))
    for seed in range(seeds):
        torch.manual_seed(seed)
        model: Any = plan.init_(build(width))
        with torch.no_grad():
            model.ff.pick.weight *= (width / 64) ** -0.5 if drawn_small else 1.0
        before = _chosen(model, words)
        loss(model, data(8, 16, torch.Generator().manual_seed(seed))).backward()
        groups: Any = plan.param_groups(model, lr=1e-3, weight_decay=0.0)
        torch.optim.AdamW(groups).step()
        changed += float((_chosen(model, words) != before).any(-1).float().mean()) / seeds
    return changed


def test_drawn_as_a_readout_a_router_would_choose_others_faster_in_wide_networks() -> None:
    narrow = _changed(False, 64, 3)
    as_planned, small = (_changed(drawn_small, 512, 3) for drawn_small in (False, True))
    assert 1 / 2 < as_planned / narrow < 2
    # By the root of 512 / 64 in the end, less where many have changed.
    assert small / as_planned > 1.5


def test_rates_close_in_on_a_jump() -> None:
    tried, lr = Bracket(), 1.0
    # Features move by a tenth of what is wanted below .02, and by a hundred times as much above.
    for _ in range(12):
        much = lr > 0.02
        tried = tried.with_tried(lr, too_much=much)
        if tried.jumps:
            break
        lr = tried.within(lr * (1 / 100 if much else 10))
    assert tried.low <= 0.02 <= tried.high <= 1.5 * tried.low
