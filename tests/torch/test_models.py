"""Golden and error tests: models of other people's making are planned right or refused by name."""

import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from torch_models import ConvNet, Transformer, entries, mlp, planned, same


def roles(plan: sw.torch.TorchPlan) -> dict[str, str]:
    return {t.name: str(t.role) for t in plan.table.tensors}


def runs(plan: sw.torch.TorchPlan, model: nn.Module, x: torch.Tensor) -> None:
    """A step of training with the plan's groups moves every parameter it should, and stays finite."""
    before = entries(plan.init_(model))
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=1e-3))
    out = model(x)
    getattr(out, "logits", out).square().mean().backward()
    optimizer.step()
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert sum(moved) >= len(moved) - 1
    assert all(p.isfinite().all() for p in model.parameters())


def test_convnet() -> None:
    plan = planned(ConvNet)
    found = roles(plan)
    weights = {n.removesuffix(".weight"): r for n, r in found.items() if n.endswith(".weight")}
    assert weights == {
        "stem": "input",
        "norm": "vector",
        "depthwise": "input",
        "pointwise": "hidden",
        "group_norm": "vector",
        "bend": "vector",
        "up": "hidden",
        "head": "output",
    }
    assert found["head.bias"] == "fixed"
    # Kernels and groups are not a width: the fan-in of a depthwise convolution stays.
    assert {n: plan[f"{n}.weight"].fan_in for n in weights if plan[f"{n}.weight"].fan_in != 1} == {
        "pointwise": 4, "up": 4, "head": 4,
    }  # fmt: skip
    assert plan["up.weight"].base_shape[:2] == (32, 16)
    runs(plan, ConvNet(64), torch.randn(2, 3, 8, 8))


def test_transformer_of_torch() -> None:
    plan = planned(Transformer)
    found = roles(plan)
    layer = {n.removeprefix("encoder.layers.0."): r for n, r in found.items() if "layers.0" in n}
    matrices = {"self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight"}
    assert {n for n, r in layer.items() if r == "hidden"} == {*matrices, "linear2.weight"}
    assert set(layer.values()) == {"hidden", "vector"}
    assert (found["embed.weight"], found["head.weight"]) == ("input", "output")
    runs(plan, Transformer(64), torch.arange(1, 11).reshape(2, 5))


def test_heads_that_grow_need_a_multiplier() -> None:
    def build(width: int) -> nn.Module:
        return Transformer(width, heads=2)

    with pytest.raises(
        PlanError, match=r"heads of `encoder.layers.0.self_attn` grow.*\"attention\""
    ):
        planned(build)
    plan = planned(build, multiplied=["attention"])
    assert plan.multipliers == {"attention": 0.5}
    model = plan.scale_(build(64))
    assert not any(m._forward_pre_hooks for m in model.modules())
    assert planned(build, strategy=sw.scaling.ntk()).multipliers == {}


def test_tied_weights() -> None:
    def build(width: int) -> nn.Module:
        return Transformer(width, tied=True)

    plan = planned(build)
    assert roles(plan)["embed.weight"] == "input"
    assert plan["head.weight"] is plan["embed.weight"]
    assert plan.multipliers == {"head": 0.25}
    model = plan.scale_(plan.init_(build(64)))
    assert (
        sum(p is model.embed.weight for g in plan.param_groups(model, lr=0.1) for p in g["params"])
        == 1
    )


class Recurrent(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.lstm = nn.LSTM(7, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def test_lstm() -> None:
    plan = planned(Recurrent)
    found = roles(plan)
    assert found["lstm.weight_ih_l0"] == "input"
    assert {found[f"lstm.{n}"] for n in ("weight_hh_l0", "weight_ih_l1", "weight_hh_l1")} == {
        "hidden"
    }
    assert plan["lstm.weight_hh_l1"].shape == (256, 64)
    assert plan["lstm.weight_hh_l1"].fan_in == 4
    assert {r for n, r in found.items() if "bias" in n and n != "head.bias"} == {"vector"}
    runs(plan, Recurrent(64), torch.randn(2, 4, 7))


class LowRank(nn.Module):
    """A frozen matrix with a trained part of rank 8 beside it."""

    def __init__(self, width: int):
        super().__init__()
        self.inner = nn.Linear(7, width)
        self.whole = nn.Linear(width, width).requires_grad_(False)
        self.down = nn.Linear(width, 8, bias=False)
        self.up = nn.Linear(8, width, bias=False)
        nn.init.zeros_(self.up.weight)
        self.head = nn.Linear(width, 3)


def test_a_bottleneck_is_asked_for() -> None:
    with pytest.raises(
        PlanError, match=r"`down.weight`, `head.weight` each go from the width to a fix"
    ):
        planned(LowRank)
    plan = planned(LowRank, roles={"down.weight": "bottleneck", "head.weight": "output"})
    found = roles(plan)
    assert (found["down.weight"], found["up.weight"]) == ("bottleneck", "input")
    assert plan.factors("down.weight").lr == plan.factors("head.weight").lr == 0.25
    assert plan.factors("up.weight").lr == 1
    assert plan.factors("head.weight").init == 0.25
    assert roles(plan.at(width=32)) == found
    names = [n for n, p in LowRank(64).named_parameters() if p.requires_grad]
    assert sum(len(g["params"]) for g in plan.param_groups(LowRank(64), lr=0.1)) == len(names) == 6


class Experts(nn.Module):
    """Four experts in one tensor of three axes."""

    def __init__(self, width: int):
        super().__init__()
        self.inner = nn.Linear(7, width)
        self.experts = nn.Parameter(torch.randn(4, width, 3 * width) / width**0.5)
        self.back = nn.Parameter(torch.randn(4, width, 3 * width) / width**0.5)
        self.head = nn.Linear(width, 3)


def test_experts_are_asked_for() -> None:
    with pytest.raises(PlanError, match=r"No module says .*\n  `experts`: 4 x n x n"):
        planned(Experts)
    plan = planned(Experts, roles={"experts": ("hidden", 1), "back": ("hidden", (2,))})
    assert plan["experts"].fan_in == plan["back"].fan_in == 4
    assert plan.factors("experts").init == 0.5
    assert plan.factors("experts").lr == 0.25


def gpt2(n_embd: int, n_layer: int = 2, *, tied: bool = False, inner=lambda n: 4 * n) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_embd=n_embd,
        n_layer=n_layer,
        n_head=n_embd // 16,
        n_inner=inner(n_embd),
        vocab_size=20,
        n_positions=8,
        bos_token_id=None,
        eos_token_id=None,
        tie_word_embeddings=tied,
    )
    return GPT2LMHeadModel(config).eval()


SIZES = {
    "base": {"n_embd": 32, "n_layer": 2},
    "target": {"n_embd": 128, "n_layer": 2},
    "width": "n_embd",
    "depth": "n_layer",
    "strategy": sw.scaling.mup(),
}


def test_gpt2() -> None:
    # An inner width that does not grow like the others tells fan-in from fan-out.
    def build(n_embd: int, n_layer: int) -> nn.Module:
        return gpt2(n_embd, n_layer, inner=lambda n: 2 * n + 64)

    plan = sw.torch.plan(build, **SIZES)
    block = "transformer.h.0."
    fans = {n: plan[f"{block}{n}.weight"].fan_in for n in ("attn.c_attn", "mlp.c_fc", "mlp.c_proj")}
    assert fans == {"attn.c_attn": 4, "mlp.c_fc": 4, "mlp.c_proj": 2.5}
    assert plan[f"{block}attn.c_attn.weight"].shape == (128, 384)
    found = roles(plan)
    assert found["transformer.wte.weight"] == found["transformer.wpe.weight"] == "input"
    assert found["lm_head.weight"] == "output"
    assert {r for n, r in found.items() if ".ln_" in n or n.endswith("bias")} == {"vector"}
    runs(plan, build(128, 2), torch.arange(8).reshape(2, 4))


def test_gpt2_with_tied_embeddings() -> None:
    def build(n_embd: int, n_layer: int) -> nn.Module:
        return gpt2(n_embd, n_layer, tied=True)

    plan = sw.torch.plan(build, **SIZES)
    assert "`lm_head` reads out with the weights of the embedding `transformer.wte.weight`" in str(
        plan
    )
    model, tokens = plan.init_(build(128, 2)), torch.arange(8).reshape(2, 4)
    before = model(tokens).logits
    assert torch.allclose(plan.scale_(model)(tokens).logits, before / 4)


def test_llama_to_another_depth() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    def build(width: int, depth: int) -> nn.Module:
        config = LlamaConfig(
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=depth,
            num_attention_heads=width // 16,
            num_key_value_heads=width // 32,
            vocab_size=20,
            max_position_embeddings=8,
        )
        return LlamaForCausalLM(config)

    plan = sw.torch.plan(
        build,
        base={"width": 32, "depth": 1},
        target={"width": 64, "depth": 3},
        strategy=sw.scaling.meta(1),
        residual=1,
        branch_outputs=["*.o_proj.weight", "*.down_proj.weight"],
    )
    found = roles(plan)
    assert {r for n, r in found.items() if "_proj" in n} == {"hidden"}
    assert {r for n, r in found.items() if "norm" in n} == {"vector"}
    assert plan.multipliers == {}
    # Branches a third as large at three times the depth, in the weights that end them.
    row = plan["model.layers.2.mlp.down_proj.weight"]
    assert plan.factors(row.name).init == pytest.approx(2**-0.5 / 3)
    assert plan.factors("model.layers.2.mlp.up_proj.weight").init == pytest.approx(2**-0.5)
    runs(plan, build(64, 3), torch.arange(8).reshape(2, 4))


def test_depth_shifts_the_numbers_of_layers() -> None:
    plan = sw.torch.plan(
        mlp,
        base={"width": 16, "depth": 3},
        target={"width": 64, "depth": 5},
        strategy=sw.scaling.mup(),
        optimizer="sgd",
    )
    assert roles(plan)["8.weight"] == "output"
    # What depth repeats learns more slowly, in proportion; the ends do not.
    lr = {n: plan.factors(n).lr for n in ("0.weight", "2.weight", "6.weight", "8.weight")}
    assert lr == pytest.approx({"0.weight": 4, "2.weight": 0.6, "6.weight": 0.6, "8.weight": 0.25})
    assert {t.name for t in plan.table.tensors if t.in_block} == {
        f"{i}.{kind}" for i in (2, 4, 6) for kind in ("weight", "bias")
    }
    model = plan.init_(mlp(64, 5))
    assert sum(len(g["params"]) for g in plan.param_groups(model, lr=0.1)) == 10
    with pytest.raises(PlanError, match=r"no tensor|has shape"):
        plan.param_groups(mlp(64, 3), lr=0.1)


def test_at_makes_the_plan_that_its_sizes_make() -> None:
    sizes = {"base": {"width": 16, "depth": 3}, "strategy": sw.scaling.meta("1/2")}
    plan = sw.torch.plan(mlp, target={"width": 64, "depth": 5}, **sizes)
    other = sw.torch.plan(mlp, target={"width": 32, "depth": 3}, **sizes)
    assert plan.at(width=32, depth=3) == other
    assert plan.at() == plan
    assert plan.at(width=16, depth=3).factors("2.weight").lr == 1
    with pytest.raises(PlanError, match=r"no size 'depth'; it has 'width'"):
        planned().at(depth=4)


def test_base_and_target_of_one_width() -> None:
    sizes = {"base": {"width": 16, "depth": 3}, "target": {"width": 16, "depth": 6}}
    plan = sw.torch.plan(mlp, strategy=sw.scaling.mup(), optimizer="sgd", **sizes)
    assert roles(plan)["2.weight"] == "hidden"
    assert plan.factors("2.weight").lr == 0.5
    assert plan.factors("0.weight").lr == 1
    before = entries(model := mlp(16, 6))
    plan.init_(model)
    assert same(entries(model), before)
