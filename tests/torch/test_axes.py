"""Sizes beside width and depth in PyTorch: what the factory is given, and what groups hold."""

from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError

BATCH = torch.arange(12).reshape(3, 4)


class Low(nn.Module):
    """A frozen matrix and a low-rank update of it, scaled as its library does."""

    def __init__(self, width: int, rank: int, power: float) -> None:
        super().__init__()
        self.kept = nn.Linear(width, width, bias=False)
        self.A, self.B = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)
        self.scale = rank**-power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.kept(x) + self.scale * self.B(self.A(x))


def low(width: int, rank: int, power: float = 1.0) -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, width), nn.ReLU(), Low(width, rank, power), nn.ReLU(), nn.Linear(width, 5)
    )


class Experts(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / (2 * width) ** 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, best = self.router(x).topk(2)
        h = torch.einsum("bn,enf->bef", x, self.up).relu()
        out = torch.einsum("bef,efn->ben", h, self.down)
        chosen = out.gather(1, best[..., None].expand(-1, -1, x.shape[-1]))
        return x + (weight.softmax(-1)[..., None] * chosen).sum(1)


class Decoder(nn.Module):
    """Grouped queries: fewer heads of keys than of queries."""

    def __init__(
        self, width: int, heads: int, kv_heads: int, vocabulary: int, experts: int = 4
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, size = heads, kv_heads, width // heads
        self.embed = nn.Embedding(vocabulary, width)
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * size, bias=False) for _ in range(2))
        self.o = nn.Linear(width, width, bias=False)
        self.experts = Experts(width, experts)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        B, T, n = x.shape
        q = self.q(x).view(B, T, self.heads, -1).transpose(1, 2)
        k, v = (f(x).view(B, T, self.kv_heads, -1).transpose(1, 2) for f in (self.k, self.v))
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, n))
        return self.head(self.experts(x.flatten(0, 1)).view(B, T, n))


ROLES = {
    "experts.up": ("hidden", 1), "experts.down": ("hidden", 1), "experts.router.weight": "bottleneck",
    "head.weight": "output",
}  # fmt: skip
SIZES = {"width": 32, "heads": 4, "kv_heads": 2, "vocabulary": 16, "experts": 4}


def planned(change: dict[str, Any], base: dict[str, Any] | None = None, **options: Any) -> Any:
    sizes = SIZES | (base or {})
    settings = {"strategy": sw.scaling.mup(), "roles": ROLES, "inputs": BATCH} | options
    return sw.torch.plan(Decoder, base=sizes, target=sizes | change, **settings)


def test_batch_and_tokens_are_not_for_the_factory() -> None:
    def build(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 5))

    base = {"width": 16, "batch": 8, "tokens": 1e6, "heads": 2}
    target = {"width": 64, "batch": 32, "tokens": 2e6, "heads": 8}
    plan = sw.torch.plan(
        build, base=base, target=target, strategy=sw.scaling.mup(), policy="completed"
    )
    model = plan.init_(build(64))
    groups = plan.param_groups(model, lr=1.0, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    assert all(g["betas"] == pytest.approx((0.8, 0.98)) for g in groups)
    by_name = {g["name"]: g for g in groups}
    out = by_name["output"]
    assert out["lr"] == pytest.approx(2**0.5 / 4)
    assert out["eps"] == pytest.approx(1e-8 * 2**-0.5)
    assert out["weight_decay"] == pytest.approx(0.1 * 4 * 2**0.5)
    # PyTorch's own where the user says nothing.
    assert plan.param_groups(model, lr=1.0)[0]["betas"] == pytest.approx((0.8, 0.998))
    torch.optim.AdamW(groups)
    again = plan.at(tokens=4e6)
    assert again.table.betas(0.9, 0.99) == (0.9, 0.99)
    assert plan.transfer(lr=1.0, betas=(0.9, 0.99)).groups[0].betas == pytest.approx((0.8, 0.98))
    with pytest.raises(
        PlanError, match=r"'batch' and 'tokens' differ between `base` and `target`, and no rule"
    ):
        sw.torch.plan(build, base=base, target=target, strategy=sw.scaling.mup())


def test_muon_and_rmsprop_have_moments_of_other_names() -> None:
    def build(width: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.Linear(width, 5)
        )

    options = {"strategy": sw.scaling.mup(), "policy": ("sde", "fixed_steps"), "decay": "timescale"}
    sizes = {"base": {"width": 8, "batch": 2}, "target": {"width": 8, "batch": 4}}
    model = build(8)
    if hasattr(torch.optim, "Muon"):
        muon, adamw = sw.torch.plan(build, optimizer="muon", **sizes, **options).param_groups(
            model, lr=1.0, momentum=0.95, rest={"lr": 1.0}
        )
        assert all(g["momentum"] == pytest.approx(0.9) for g in muon)
        assert all(g["betas"] == pytest.approx((0.8, 0.998)) for g in adamw)
    (group,) = sw.torch.plan(build, optimizer="rmsprop", **sizes, **options).param_groups(
        model, lr=1.0
    )
    assert group["alpha"] == pytest.approx(0.98)
    (group,) = sw.torch.plan(build, optimizer="sgd", **sizes, **options).param_groups(
        model, lr=1.0, momentum=0.9
    )
    assert (group["lr"], group["momentum"]) == (2.0, 0.9)


def test_heads_go_along_with_the_width() -> None:
    plan = planned({"width": 128, "heads": 16, "kv_heads": 8})
    assert not plan.multipliers
    assert plan["k.weight"].role == "hidden"
    assert plan.factors("k.weight") == plan.factors("q.weight")
    # Sizes that the factory has no name for are not given to it, and say the same.
    one = planned({"width": 128, "heads": 16, "kv_heads": 2})
    assert one["v.weight"].role == "hidden"
    f = one.factors("v.weight")
    assert (f.init, f.lr, f.eps) == (0.25, 0.25, 1.0)
    assert one.factors("q.weight").eps == 0.25
    # A fixed number of heads of keys is a bottleneck, whichever way it is told.
    few = sw.torch.plan(
        lambda width: Decoder(width, width // 8, 2, 16), base={"width": 32}, target={"width": 128},
        strategy=sw.scaling.mup(), inputs=BATCH,
        roles=ROLES | {"k.weight": "bottleneck", "v.weight": "bottleneck"},
    )  # fmt: skip
    for name in ("q.weight", "k.weight", "v.weight", "o.weight", "embed.weight"):
        a, b = one.factors(name), few.factors(name)
        assert (a.init, a.lr, a.eps, a.weight_decay) == pytest.approx(
            (b.init, b.lr, b.eps, b.weight_decay)
        ), name


def test_more_heads_of_one_width_are_smaller_heads() -> None:
    with pytest.raises(PlanError, match=r"At the target its value is 1.41421"):
        planned({"heads": 8, "kv_heads": 4})


def test_experts_and_words_share_the_samples_out() -> None:
    plan = planned({"experts": 16, "vocabulary": 32})
    f = plan.factors
    for name, eps in {
        "experts.up": 0.25, "experts.down": 0.25, "experts.router.weight": 0.25,
        "embed.weight": 0.5, "head.weight": 0.5, "q.weight": 1.0,
    }.items():  # fmt: skip
        assert (f(name).init, f(name).lr, f(name).eps) == (1.0, 1.0, eps), name
    # Gradient descent makes up for it by its rate.
    sgd = planned({"experts": 16}, optimizer="sgd").factors
    assert (sgd("experts.up").lr, sgd("q.weight").lr) == (4.0, 1.0)
    # With the width besides: each factor by itself.
    both = planned({"width": 128, "heads": 16, "kv_heads": 8, "experts": 16}).factors("experts.up")
    assert (both.init, both.lr, both.eps) == (0.5, 0.25, 1 / 16)
    muon = planned({"experts": 16}, optimizer="muon")
    assert muon["experts.up"].optimizer == "adamw"
    assert muon["experts.router.weight"].optimizer == "muon"
    assert (
        muon.factors("experts.router.weight").lr,
        muon.factors("experts.router.weight").eps,
    ) == (1.0, 0.5)


def test_rank_is_an_inner_width() -> None:
    problems = []
    for power, lr in ((0.0, 0.25), (0.5, 0.5), (1.0, 1.0)):
        plan = sw.torch.plan(
            lambda width, rank, power=power: low(width, rank, power),
            base={"width": 16, "rank": 2}, target={"width": 16, "rank": 8},
            strategy=sw.scaling.mup(), roles={"2.A.weight": "bottleneck", "4.weight": "output"},
        )  # fmt: skip
        found = plan.factors("2.A.weight").lr, plan.factors("2.B.weight").lr
        if found != pytest.approx((1.0, lr)):
            problems.append((power, found))
        if plan.factors("2.kept.weight").lr != 1:
            problems.append("kept")
    assert not problems


def test_blocks_that_are_treated_apart() -> None:
    def build(width: int, heads: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(6, width),
            nn.ReLU(),
            nn.Linear(width, width, bias=False),
            nn.ReLU(),
            nn.Linear(width, 5),
        )

    sizes = {"base": {"width": 16, "heads": 2}, "target": {"width": 64, "heads": 8}}
    options = {"strategy": sw.scaling.mup(), "optimizer": "muon", **sizes}
    whole, apart, halves = (
        sw.torch.plan(build, blocks=blocks, **options)
        for blocks in (None, {"2.weight": "heads"}, {"2.weight": 2})
    )
    # A head stays as it is while its inputs grow.
    assert [p.factors("2.weight").lr for p in (whole, apart, halves)] == [1.0, 0.5, 1.0]
    own = sw.torch.plan(build, blocks={"2.weight": "heads"}, adjust="spectral_norm", **options)
    assert own.factors("2.weight").lr == 1.0
    largest = sw.torch.plan(build, blocks={"2.weight": "heads"}, adjust="spectral", **options)
    assert largest.factors("2.weight").lr == pytest.approx(0.25)
    assert apart.at(width=32, heads=4).factors("2.weight").lr == pytest.approx(0.5**0.5)
    with pytest.raises(PlanError, match=r"`blocks` gives `2.weight` 3 blocks, and its 64 rows"):
        sw.torch.plan(build, blocks={"2.weight": 3}, **options)
    with pytest.raises(PlanError, match=r"the size 'groups', which `base` has not"):
        sw.torch.plan(build, blocks={"2.weight": "groups"}, **options)


def test_two_steps_are_one_along_all_sizes() -> None:
    """From base to middle to target is from base to target, in any order and unit of the sizes."""
    training = {"policy": "completed", "decay": "power_lines"}
    ends = [
        SIZES | {"batch": 8, "tokens": 1000},
        SIZES | {"experts": 8, "width": 64, "heads": 8, "kv_heads": 4, "batch": 16, "tokens": 1500},
        {
            "tokens": 6000,
            "batch": 12,
            "vocabulary": 48,
            "experts": 16,
            "kv_heads": 2,
            "heads": 16,
            "width": 128,
        },
    ]

    def between(one: dict[str, Any], two: dict[str, Any], unit: int = 1) -> Any:
        sizes = [s | {"batch": unit * s["batch"], "tokens": unit * s["tokens"]} for s in (one, two)]
        return sw.torch.plan(
            Decoder, base=sizes[0], target=sizes[1], strategy=sw.scaling.mup(), roles=ROLES, inputs=BATCH,
            **training,
        )  # fmt: skip

    first, second, whole = (
        between(ends[0], ends[1]),
        between(ends[1], ends[2]),
        between(ends[0], ends[2]),
    )
    problems = []
    for t in whole.table.tensors:
        a, b, c = (vars(p.factors(t.name)) for p in (first, second, whole))
        problems += [(t.name, k) for k in c if a[k] * b[k] != pytest.approx(c[k], rel=1e-12)]
    assert not problems
    again = between(ends[0], ends[2], unit=2048)
    assert all(again.factors(t.name) == whole.factors(t.name) for t in whole.table.tensors)
    turned = between(dict(reversed(ends[0].items())), dict(reversed(ends[2].items())))
    assert turned.table.tensors == whole.table.tensors


def test_plans_of_all_sizes_are_kept(tmp_path: Any) -> None:
    base = {"batch": 8, "tokens": 100}
    plan = planned({"experts": 8, "batch": 16}, base, policy="completed")
    plan.save(tmp_path / "plan.json")
    back = sw.torch.load(tmp_path / "plan.json", build=Decoder)
    assert back.table == plan.table
    assert back.at(batch=32).table == plan.at(batch=32).table


def test_what_cannot_be() -> None:
    with pytest.raises(PlanError, match=r"'kv_heads' differs .*; give 'heads' too"):
        sw.torch.plan(
            Decoder, base={"width": 32, "kv_heads": 2}, target={"width": 32, "kv_heads": 4},
            strategy=sw.scaling.mup(),
        )  # fmt: skip
    with pytest.raises(PlanError, match=r"`target\['experts'\]` must be a whole number"):
        planned({"experts": 2.5})
    with pytest.raises(
        PlanError,
        match=r"sets the size of a step by the whole tensor",
    ):
        planned({"experts": 8}, optimizer="soap")
