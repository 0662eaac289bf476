"""Muon as people run it: matrices to it, the rest to AdamW, and each library's factor taken back."""

import math
from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from scalewise.plan._adjust import ADJUSTMENTS

BASE, TARGET = {"width": 32}, {"width": 128}
BATCH = (torch.arange(24).reshape(4, 6) % 11, torch.arange(24).reshape(4, 6) % 7)


class Block(nn.Module):
    """A fused projection whose keys and values do not grow, a fused gate, and a way back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, width + 16, bias=False)
        self.gate_up = nn.Linear(width + 16, 6 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(self.qkv(self.norm(x))).chunk(2, -1)
        return x + self.down(torch.tanh(gate) * up)


class Decoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed, self.block = nn.Embedding(11, width), Block(width)
        self.head = nn.Linear(width, 7, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.embed(tokens)))


class Polar(torch.optim.Optimizer):
    """Muon with an exact polar factor, a factor of the shape, and the decay that all libraries have."""

    def __init__(self, groups: Any, factor: Any) -> None:
        super().__init__(groups, {})
        self.factor = factor

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for g in self.param_groups:
            for p in g["params"]:
                p.mul_(1 - g["lr"] * g["weight_decay"])
                U, s, Vt = torch.linalg.svd(p.grad, full_matrices=False)
                some = (s > 1e-6 * s[0]).to(s.dtype)
                p.sub_((U * some) @ Vt, alpha=g["lr"] * self.factor(*p.shape))


# As in each library's code, written here once more: rows are what a matrix writes to.
FACTORS = {
    "none": lambda rows, columns: 1.0,
    "original": lambda rows, columns: max(1, rows / columns) ** 0.5,
    "match_rms_adamw": lambda rows, columns: 0.2 * max(rows, columns) ** 0.5,
    "spectral": lambda rows, columns: max(rows, columns) ** 0.5,
    "spectral_norm": lambda rows, columns: (rows / columns) ** 0.5,
}


def planned(**options: Any) -> Any:
    settings = {"strategy": sw.scaling.mup(), "optimizer": "muon", "inputs": BATCH[0]} | options
    return sw.torch.plan(Decoder, base=BASE, target=TARGET, **settings)


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def at_matching_rates(plan: Any, model: nn.Module, factor: Any) -> Any:
    """Groups whose rates at the base move each matrix there by as much as one rate without any factor."""
    mine = []
    for t in plan.table.tensors:
        if t.optimizer == "muon":
            own = factor(*t.base_shape)
            mine.append({"params": [t.name], "lr": 0.02 / own, "weight_decay": 0.1 * own})
    return plan.param_groups(
        model, lr=math.nan if not mine else 1.0, weight_decay=0.0, groups=mine, rest={"lr": 1e-3}
    )


def trajectory(adjust: str, make: Any) -> list[torch.Tensor]:
    torch.manual_seed(0)
    plan = planned(adjust=adjust)
    model = plan.init_(Decoder(**TARGET)).double()
    muon, adamw = at_matching_rates(plan, model, FACTORS[adjust])
    optimizers = [make(muon), torch.optim.AdamW(adamw)]
    for _ in range(3):
        for one in optimizers:
            one.zero_grad()
        loss(model, BATCH).backward()
        for one in optimizers:
            one.step()
    return [p.detach().clone() for p in model.parameters()]


def test_every_adjustment_gives_the_same_trajectory_at_the_target() -> None:
    raw = trajectory("none", lambda groups: Polar(groups, FACTORS["none"]))
    problems = []
    for adjust, factor in FACTORS.items():
        found = trajectory(adjust, lambda groups, f=factor: Polar(groups, f))
        if not all(
            torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(raw, found, strict=True)
        ):
            problems.append(adjust)
    assert not problems
    # The check has teeth: another library's factor is another trajectory.
    wrong = trajectory("original", lambda groups: Polar(groups, FACTORS["spectral"]))
    assert not all(torch.allclose(a, b, rtol=1e-3) for a, b in zip(raw, wrong, strict=True))


def test_names_of_one_factor() -> None:
    shapes = [(3, 5), (5, 3), (4, 4), (1, 9)]
    said = {"shape_scaling": "original", "moonlight": "match_rms_adamw",
            "consistent_rms": "match_rms_adamw", "unit_rms_norm": "spectral_norm",
            "spectral_unclamped": "spectral_norm"}  # fmt: skip
    for name, same in (said | {n: n for n in FACTORS}).items():
        for shape in shapes:
            assert ADJUSTMENTS[name](*shape) == pytest.approx(FACTORS[same](*shape)), name
    # Of a kernel of (in, out), as optax takes it.
    assert ADJUSTMENTS["optax"](3, 12) == 2.0
    assert ADJUSTMENTS.keys() == {*said, *FACTORS, "optax"}


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_the_muon_of_pytorch_follows_every_adjustment_it_knows() -> None:
    raw = trajectory("none", torch.optim.Muon)
    for adjust in ("original", "match_rms_adamw"):
        found = trajectory(adjust, torch.optim.Muon)
        for a, b in zip(raw, found, strict=True):
            assert torch.allclose(a, b, rtol=1e-6, atol=1e-9), adjust


def test_matrices_and_the_rest() -> None:
    plan = planned()
    model = plan.init_(Decoder(**TARGET))
    muon, adamw = plan.param_groups(
        model, lr=0.02, weight_decay=0.1, rest={"lr": 3e-3, "betas": (0.9, 0.95)}, momentum=0.9
    )
    names = {id(p): n for n, p in model.named_parameters()}
    mine = {names[id(p)] for g in muon for p in g["params"]}
    assert mine == {f"block.{n}.weight" for n in ("qkv", "gate_up", "down")}
    rest = {names[id(p)] for g in adamw for p in g["params"]}
    assert mine | rest == set(names.values())
    assert not mine & rest
    assert all(g["momentum"] == 0.9 and "betas" not in g for g in muon)
    assert all(g["betas"] == (0.9, 0.95) and "momentum" not in g for g in adamw)
    # The fused projection is as wide as it is: 144 over 48 of rows, 128 over 32 of columns.
    assert plan.factors("block.qkv.weight").lr == pytest.approx((144 / 48 / 4) ** 0.5)
    assert plan.factors("block.gate_up.weight").lr == pytest.approx((4 / (144 / 48)) ** 0.5)
    assert plan.factors("block.down.weight").lr == 1.0
    assert plan.factors("embed.weight").lr == 1.0
    assert plan.factors("head.weight").lr == 0.25


def test_the_larger_side_is_taken_back() -> None:
    f = planned(adjust="match_rms_adamw").factors
    assert f("block.down.weight").lr == pytest.approx(4**-0.5)
    assert f("block.down.weight").weight_decay == pytest.approx(2.0)
    assert planned(adjust="original").factors("block.down.weight").lr == 1.0


def test_what_is_asked_for() -> None:
    model = Decoder(**TARGET)
    with pytest.raises(PlanError, match=r"gives matrices to 'muon' and the rest to 'adamw'"):
        planned().param_groups(model, lr=0.02)
    with pytest.raises(
        PlanError, match=r"`rest` is for plans of two optimizers; 'adamw' trains all"
    ):
        planned(optimizer="adamw").param_groups(model, lr=0.02, rest={"lr": 1.0})
    with pytest.raises(PlanError, match=r"`adjust` must be one of 'none', 'original'"):
        planned(adjust="kimi")
    with pytest.raises(PlanError, match=r"`adjust` is for optimizers that orthogonalise"):
        planned(optimizer="adamw", adjust="original")
    with pytest.raises(
        PlanError, match=r"`eps` must be given to plan.param_groups: PyTorch has no 'lamb'"
    ):
        planned(optimizer="lamb").param_groups(model, lr=0.02)
    with pytest.raises(
        PlanError, match=r"PyTorch has no optimizer 'lion', so `verify` needs a `setup`"
    ):
        planned(optimizer="lion").verify(BATCH, loss, widths=[16, 32, 64])


def test_another_factor_than_planned_is_refused() -> None:
    plan = planned()
    model = plan.init_(Decoder(**TARGET))
    muon, adamw = plan.param_groups(model, lr=0.02, rest={"lr": 1e-3})
    for groups, factor, right in (
        (muon, "none", True), (muon, "original", False), (muon, "spectral", False)
    ):  # fmt: skip
        optimizer = Polar(groups, FACTORS[factor])
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1.0)
        if right:
            plan.check_schedule(optimizer, schedule, steps=2)
        else:
            with pytest.raises(PlanError, match=r"do not go with gradient, weight and shape"):
                plan.check_schedule(optimizer, schedule, steps=2)
    rest = torch.optim.AdamW(adamw)
    plan.check_schedule(rest, torch.optim.lr_scheduler.LambdaLR(rest, lambda t: 1.0), steps=2)
    wrong = torch.optim.AdamW(muon)
    with pytest.raises(PlanError, match="AdamW, which follows another law"):
        plan.check_schedule(wrong, torch.optim.lr_scheduler.LambdaLR(wrong, lambda t: 1.0))


def test_a_plan_is_kept_whole(tmp_path: Any) -> None:
    plan = planned(adjust="spectral")
    plan.save(tmp_path / "plan.json")
    back = sw.torch.load(tmp_path / "plan.json", build=Decoder)
    assert back.table == plan.table
    assert back.at(width=64).table == plan.at(width=64).table
    assert back.at(width=64).table.adjust == "spectral"


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")
def test_every_kind_of_group_is_tried_and_an_overridden_factor_is_told() -> None:
    plan = planned(adjust="original")
    model = plan.init_(Decoder(**TARGET))

    def groups() -> Any:
        return plan.param_groups(model, lr=1e-3, rest={"lr": 1e-3})

    muon, adamw = groups()
    schedule = torch.optim.lr_scheduler.StepLR
    for right in (torch.optim.Muon(muon), torch.optim.AdamW(adamw)):
        plan.check_schedule(right, schedule(right, 10), steps=2)
    # The first group is AdamW's, and the others are not.
    muon, adamw = groups()
    both = torch.optim.AdamW(
        [*adamw, *[{k: v for k, v in g.items() if k != "momentum"} for g in muon]]
    )
    with pytest.raises(PlanError, match="plan is for 'muon', but the optimizer is a AdamW"):
        plan.check_schedule(both, schedule(both, 10), steps=2)
    muon, _ = groups()
    given = torch.optim.Muon(muon, adjust_lr_fn="match_rms_adamw")
    with pytest.raises(
        PlanError,
        match=r"given adjust_lr_fn='match_rms_adamw', which no group uses.*Plan with adjust='match",
    ):
        plan.check_schedule(given, schedule(given, 10), steps=2)
    muon, _ = groups()
    muon[-1]["adjust_lr_fn"] = "match_rms_adamw"
    later = torch.optim.Muon(muon)
    if len(muon) > 1:
        with pytest.raises(PlanError, match="the steps of Muon do not go with"):
            plan.check_schedule(later, schedule(later, 10), steps=2)
