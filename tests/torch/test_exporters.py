"""Agreement: what other people's trainers make of an exported plan is what the plan's own groups say."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from scalewise.plan._exported import globs, regex
from scalewise.torch import TorchPlan
from torch_models import Transformer
from trainers_of_others import (
    MuonAdamW,
    MuonWithAuxAdam,
    imported,
    megatron,
    real_megatron,
    real_titan,
    really_scheduled,
    scheduled,
    titan,
)

SETTINGS: dict[str, Any] = {"lr": 0.02, "eps": 1e-7, "weight_decay": 0.1}
ADAM: dict[str, Any] = {"lr": 3e-3, "betas": (0.8, 0.95), "eps": 1e-9, "weight_decay": 0.2}
BASE, WIDE = 32, 96


class Block(nn.Module):
    def __init__(self, width: int, experts: int = 0) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.router = nn.Linear(width, experts, bias=False) if experts else None
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(experts or 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            t.unflatten(-1, (-1, 16)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        if self.router is None:
            return x + self.ffn[0](h)
        gates = self.router(h).softmax(-1)
        return x + sum(gates[..., i : i + 1] * f(h) for i, f in enumerate(self.ffn))


class GPT(nn.Module):
    """Eleven blocks, so that numbers have one digit and two; with experts it is a mixture of them."""

    def __init__(self, width: int, blocks: int = 11, experts: int = 0) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(11, width), nn.Embedding(8, width)
        self.blocks = nn.ModuleList(Block(width, experts) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 11, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def llama(width: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2,
        num_attention_heads=width // 16, num_key_value_heads=width // 16, head_dim=16,
        tie_word_embeddings=False,
    ))  # fmt: skip


MODELS: dict[str, Any] = {"gpt": GPT, "llama": llama, "experts": lambda width: GPT(width, 2, 3)}
TOKENS: dict[str, Any] = {"gpt": torch.zeros(2, 8, dtype=torch.long)}
TOKENS |= {"experts": TOKENS["gpt"], "llama": {"input_ids": TOKENS["gpt"]}}
EVERY = pytest.mark.parametrize("which", list(MODELS))


@functools.cache
def planned(which: str, optimizer: str = "adamw", adjust: str | None = None) -> TorchPlan:
    return sw.torch.plan(
        MODELS[which], base={"width": BASE}, target={"width": WIDE}, strategy=sw.scaling.mup(),
        optimizer=optimizer, adjust=adjust, inputs=TOKENS[which],
    )  # fmt: skip


def on_meta(which: str, width: int = WIDE) -> nn.Module:
    with torch.device("meta"):
        return MODELS[which](width)


KEYS = ("lr", "eps", "weight_decay", "betas", "momentum", "adjust_lr_fn")


def by_name(model: nn.Module, groups: Any, keys: tuple[str, ...] = KEYS) -> dict[str, Any]:
    names = {id(p): n for n, p in model.named_parameters()}
    found = [(names[id(p)], {k: g[k] for k in keys if k in g}) for g in groups for p in g["params"]]
    assert len(found) == len(names), "each parameter in one group"
    return dict(found)


def own(plan: TorchPlan, model: nn.Module, **settings: Any) -> list[dict[str, Any]]:
    found: Any = plan.param_groups(model, **settings)
    return [g for part in found for g in part] if isinstance(found, tuple) else found


def decayed_alike(which: str) -> tuple[TorchPlan, nn.Module, list[dict[str, Any]]]:
    plan = planned(which)
    return plan, on_meta(which), [sw.torch.undecayed(plan)]


@EVERY
def test_torchtitan_and_megatron_train_by_adam_as_planned(which: str) -> None:
    plan, model, groups = decayed_alike(which)
    settings = SETTINGS | {"betas": (0.8, 0.95), "groups": groups}
    planned_ = by_name(model, own(plan, model, **settings))
    found = sw.torch.to_torchtitan(plan, **settings)
    made = [g for o in titan(found, model) for g in o.param_groups]
    assert by_name(model, made, ("lr", "eps", "weight_decay", "betas")) == planned_
    assert len(found) == len(own(plan, model, **settings))
    assert "call plan.init_(model) after its init_weights" in str(found)

    overrides = sw.torch.to_megatron(plan, min_lr=2e-3, **settings)
    seen = megatron(overrides, model, lr=7.0)
    top, end = scheduled(seen)
    for g, (rate, decay), (last, _) in zip(seen, top, end, strict=True):
        for p_name, said in by_name_of(model, g).items():
            assert said | {"lr": rate, "weight_decay": decay} == planned_[p_name]
            assert last == pytest.approx(0.1 * rate)
    # Behind Megatron's wrappers all of them are found, too.
    wrapped = nn.ModuleDict({"module": nn.ModuleDict({"module": model})})
    assert all("start_wd" in g for g in megatron(overrides, wrapped, lr=7.0))


def by_name_of(model: nn.Module, group: dict[str, Any]) -> dict[str, Any]:
    names = {id(p): n for n, p in model.named_parameters()}
    return {names[id(p)]: {k: group[k] for k in ("eps", "betas")} for p in group["params"]}


def test_the_real_torchtitan_trains_as_its_stand_in() -> None:
    imported("torchtitan")
    for which in MODELS:
        plan, model, groups = decayed_alike(which)
        found = sw.torch.to_torchtitan(plan, betas=(0.8, 0.95), groups=groups, **SETTINGS)
        one, two = (
            [g for o in make(found, model) for g in o.param_groups] for make in (titan, real_titan)
        )
        assert by_name(model, one) == by_name(model, two)
    wrong = [g | {"pattern": "^nothing$"} for g in found]
    with pytest.raises(ValueError, match="matched no parameters"):
        real_titan(wrong, model)


def test_the_real_megatron_trains_as_its_stand_in() -> None:
    imported("megatron")
    for which in MODELS:
        plan, model, groups = decayed_alike(which)
        found = sw.torch.to_megatron(
            plan, betas=(0.8, 0.95), min_lr=2e-3, groups=groups, **SETTINGS
        )
        own, theirs = megatron(found, model, lr=7.0), real_megatron(found, model, lr=7.0)
        keys = ("eps", "betas", "max_lr", "min_lr", "start_wd", "end_wd")
        assert by_name(model, own, keys) == by_name(model, theirs, keys)
        for place in (0, 1):
            ends = scheduled(own)[place], really_scheduled(theirs)[place]
            named = [
                {n: end for g, end in zip(gs, es, strict=True) for n in by_name_of(model, g)}
                for gs, es in zip((own, theirs), ends, strict=True)
            ]
            assert named[0].keys() == named[1].keys()
            for name, end in named[0].items():
                assert named[1][name] == pytest.approx(end)


@EVERY
def test_muon_beside_adam_as_planned(which: str) -> None:
    adjust = "spectral_unclamped"
    plan, model = planned(which, "muon", adjust), on_meta(which)
    settings = {"lr": 0.02, "weight_decay": 0.1, "eps": 0.0, "momentum": 0.9, "rest": ADAM}
    planned_ = by_name(model, own(plan, model, **settings))
    made = [
        g for o in titan(sw.torch.to_torchtitan(plan, **settings), model) for g in o.param_groups
    ]
    found = by_name(model, made)
    for name, said in planned_.items():
        theirs = found[name]
        assert theirs.pop("adjust_lr_fn", None) == (adjust if "momentum" in said else None)
        said.pop("adjust_lr_fn", None)
        assert theirs == said, name

    plan = planned(which, "muon", "spectral")
    for name, p in model.named_parameters():
        p.is_embedding_or_output_parameter = name.startswith(
            ("embed", "lm_head", "head", "model.embed")
        )
    settings |= {"rest": ADAM | {"min_lr": 1e-4}, "min_lr": 1e-3}
    if odd := [n for n, p in model.named_parameters() if "positions" in n or "router" in n]:
        with pytest.raises(PlanError, match=r"Megatron gives `\S+` to Muon, and the plan to Adam"):
            sw.torch.to_megatron(plan, model=model, **settings)
        for name in odd:
            if plan[name].optimizer != "muon":
                model.get_parameter(name).use_muon = False
    overrides = sw.torch.to_megatron(plan, model=model, **settings)
    del settings["min_lr"]
    planned_ = by_name(model, own(plan, model, **settings | {"rest": ADAM}))
    for name, said in by_name(
        model, megatron(overrides, model, lr=7.0), ("max_lr", "end_wd", "betas", "eps", "momentum")
    ).items():
        mine = planned_[name]
        assert (said.pop("max_lr"), said.pop("end_wd")) == (mine["lr"], mine["weight_decay"])
        assert said == {k: mine[k] for k in said}
        assert said.keys() == ({"momentum"} if "momentum" in mine else {"betas", "eps"})
    assert "Set muon_scale_mode='spectral'" in str(overrides)


def shape(p: torch.Tensor) -> float:
    return max(1, p.shape[0] / p.shape[1]) ** 0.5


@EVERY
def test_nanochat_and_the_package_train_as_planned(which: str) -> None:
    model = on_meta(which)
    settings = {"lr": 0.02, "weight_decay": 0.1, "rest": ADAM}
    package = planned(which, "muon", "original")
    ours = by_name(model, own(package, model, **settings), ("lr", "weight_decay", "betas"))
    found = sw.torch.to_muon_package(package, model, **settings)
    made = MuonWithAuxAdam(list(found)).param_groups
    assert by_name(model, made, ("lr", "weight_decay", "betas")) == ours

    nanochat_as_planned(planned(which, "normuon", "original"), MODELS[which], settings)


class Odd(nn.Module):
    """Matrices whose sides do not grow alike, so that a factor of the shape is another at the target."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.up, self.down = nn.Linear(width, 2 * width + 64), nn.Linear(2 * width + 64, width)
        self.head = nn.Linear(width, 11, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        return self.head(x + self.down(torch.tanh(self.up(x))))


def odd() -> TorchPlan:
    return sw.torch.plan(
        Odd, base={"width": BASE}, target={"width": WIDE}, strategy=sw.scaling.mup(),
        optimizer="normuon", adjust="original", inputs=TOKENS["gpt"],
    )  # fmt: skip


def test_nanochat_counts_the_factor_in_its_decay() -> None:
    nanochat_as_planned(odd(), Odd, {"lr": 0.02, "weight_decay": 0.1, "rest": ADAM})
    found = sw.torch.to_nanochat(odd(), Odd(WIDE), lr=0.02, weight_decay=0.1, rest=ADAM)
    assert any("one weight decay for all groups of Muon" in said for said in found.left)
    assert "initial_weight_decay" in found.groups[0]


def nanochat_as_planned(plan: TorchPlan, build: Any, settings: dict[str, Any]) -> None:
    with torch.device("meta"):
        model, base = build(WIDE), build(BASE)
    groups, at_base = (
        MuonAdamW(list(sw.torch.to_nanochat(p, m, **settings))).param_groups
        for p, m in ((plan, model), (plan.at(width=BASE), base))
    )
    theirs, before = (
        by_name(m, gs, ("kind", "lr", "weight_decay", "betas", "eps"))
        for m, gs in ((model, groups), (base, at_base))
    )
    ours = by_name(model, own(plan, model, **settings | {"eps": 1.0}))
    for name, p in model.named_parameters():
        found_, first = theirs[name], before[name]
        assert found_["lr"] == ours[name]["lr"]
        if found_["kind"] == "adamw":
            assert (found_["eps"], found_["betas"]) == (ours[name]["eps"], ours[name]["betas"])
            assert found_["weight_decay"] == ours[name]["weight_decay"]
            continue
        # What a step takes of a weight, by nanochat's own formula, beside that of the base.
        own_base = base.get_parameter(name)
        taken = found_["lr"] * shape(p) * found_["weight_decay"]
        was = first["lr"] * shape(own_base) * first["weight_decay"]
        said = ours[name]["lr"] * ours[name]["weight_decay"] / (0.02 * 0.1)
        assert taken / was == pytest.approx(said)


def table(plan: TorchPlan) -> dict[str, Any]:
    kinds = {
        t.name.replace(".weight", ""): "normuon" if t.optimizer == "normuon" else "adam"
        for t in plan.table.tensors
    }
    adam = {"adam_betas": [0.8, 0.95], "lr_mul": 5.0, "wd_mul": 150.0}
    return {
        n: {"optim": k, "comms": "sharded"} | (adam if k == "adam" else {})
        for n, k in kinds.items()
    }


@pytest.mark.parametrize("which", ["odd", "experts"])
def test_modded_nanogpt_trains_as_planned(which: str) -> None:
    plan, build = odd(), Odd
    if which != "odd":
        plan, build = planned(which, "normuon", "original"), MODELS[which]
    with torch.device("meta"):
        model, base = build(WIDE), build(BASE)
    before = table(plan)
    after = {g["label"]: g["entry"] for g in sw.torch.to_modded_nanogpt(plan, before)}
    ours = by_name(
        model,
        own(plan, model, lr=1.0, eps=1.0, weight_decay=1.0, rest={"lr": 1.0, "weight_decay": 1.0}),
    )
    for name, p in model.named_parameters():
        label, q = name.replace(".weight", ""), base.get_parameter(name)
        one, two = before[label], after[label]
        muon = one["optim"] == "normuon"

        def effect(entry: Any, t: torch.Tensor, muon: bool = muon) -> tuple[float, float]:
            """Its step and what it takes of a weight, by the formulas of train_gpt.py, at rates of 1."""
            rate = entry.get("lr_mul", 1.0) * (shape(t) if muon else 1.0)
            return rate, entry.get("wd_mul", 1.0) * (rate if muon else rate**2)

        (step, part), (step_before, part_before) = effect(two, p), effect(one, q)
        adjusted = shape(p) / shape(q) if muon else 1.0
        assert step / step_before == pytest.approx(ours[name]["lr"] * adjusted)
        assert part / part_before == pytest.approx(ours[name]["lr"] * ours[name]["weight_decay"])


def test_patterns_fit_their_own_tensors_and_no_others() -> None:
    plan = planned("gpt").table
    names = [n for n in plan.names if n.startswith("blocks") and n.endswith("qkv.weight")]
    whole = regex(plan, names)
    assert r"blocks\.\d+\." in whole
    assert re.search(whole, "_orig_mod.blocks.10._checkpoint_wrapped_module.qkv.weight")
    assert [n for n in plan.names if re.search(whole, n)] == names
    assert globs(plan, names) == tuple(
        f"{m}blocks.*.qkv.weight" for m in ("", "module.", "module.module.")
    )
    # Some of the blocks: each is written out, and 1 is not 10.
    some = [n for n in names if n.split(".")[1] in "159"]
    assert [n for n in plan.names if re.search(regex(plan, some), n)] == some
    assert globs(plan, some)[::3] == tuple(some)


def test_a_wrong_pattern_is_caught() -> None:
    """The trainers themselves refuse what fits nothing or leaves something out; the groups tell the rest."""
    plan, model = planned("gpt"), on_meta("gpt")
    found = list(sw.torch.to_torchtitan(plan, **SETTINGS))
    for wrong in ("^blocks.weight$", found[1]["pattern"].replace("qkv", "proj")):
        with pytest.raises((ValueError, AssertionError), match=r"matched no|mismatch"):
            titan([found[0], found[1] | {"pattern": wrong}, *found[2:]], model)
    # First match wins: a pattern that fits too much takes from those after it.
    greedy = [found[0] | {"pattern": "weight"}, *found[1:]]
    with pytest.raises((ValueError, AssertionError)):
        titan(greedy, model)
    right = by_name(model, own(plan, model, **SETTINGS), ("lr",))
    overrides = list(sw.torch.to_megatron(plan, **SETTINGS))
    wrong = [g | {"name": tuple(n.replace("*", "1", 1) for n in g["name"])} for g in overrides]
    rates = by_name(model, megatron(wrong, model, lr=7.0), ("max_lr",))
    assert {n for n in right if rates[n]["max_lr"] != right[n]["lr"]} == {
        n for n in right if n.startswith("blocks") and not n.startswith("blocks.1.")
    }


def test_what_cannot_be_carried_is_said_or_refused() -> None:
    def tied(width: int) -> nn.Module:
        return Transformer(width, tied=True)

    plan = sw.torch.plan(
        tied, base={"width": 32}, target={"width": 64}, strategy=sw.scaling.mup(), optimizer="adamw"
    )
    with pytest.raises(
        PlanError, match=r"cannot hold the multiplier 'head' \(0.5\).*plan.scale_\(model\)"
    ):
        sw.torch.to_torchtitan(plan, lr=0.1)
    scaled = plan.scale_(Transformer(64, tied=True))
    assert len(sw.torch.to_torchtitan(plan, lr=0.1, model=scaled))
    said = replace(plan, options=replace(plan.options, multiplied=("head",)))
    # Whichever of its names a trainer has for a tied tensor, it is found.
    found = sw.torch.to_torchtitan(said, lr=0.1)
    for name in ("embed.weight", "head.weight"):
        assert sum(bool(re.search(g["pattern"], name)) for g in found) == 1

    muon = planned("gpt", "muon", "original")
    nano, rest = planned("gpt", "normuon", "original"), {"lr": 1e-3}
    model, plain, ex = on_meta("gpt"), planned("gpt", "muon"), sw.torch
    odd = {"lr": 1, "eps": 1, "weight_decay": 0, "rest": rest}
    apart = [{"params": "*qkv.weight", "lr": 0.5}]
    wrong = table(nano) | {"blocks.0.qkv": {"optim": "adam"}}
    for call, message in (
        (lambda: ex.to_torchtitan(muon, lr=1, rest=rest, groups=apart), "takes one group, and the plan.s matr"),
        (lambda: ex.to_torchtitan(nano, **odd), "and the plan is for 'normuon'"),
        (lambda: ex.to_torchtitan(plain, lr=1, rest=rest), "plan was made with adjust='none'"),
        (lambda: ex.to_megatron(muon, lr=1, rest=rest), "Give the exporter the model, model=model"),
        (lambda: ex.to_megatron(nano, **odd), "'adam', 'sgd' and 'muon'"),
        (lambda: ex.to_nanochat(plain, model, lr=1, rest=rest), "'original', and the plan was"),
        (lambda: ex.to_muon_package(planned("gpt"), model, lr=1, rest=rest), "is for 'adamw'. Plan with opt"),
        (lambda: ex.to_modded_nanogpt(nano, {}), "is in the plan, but not in the table"),
        (lambda: ex.to_modded_nanogpt(nano, wrong), "`blocks.0.qkv` to adam, and the plan to normuon"),
    ):  # fmt: skip
        with pytest.raises(PlanError, match=message):
            call()
    told = sw.torch.to_modded_nanogpt(nano, table(nano))
    assert any("one epsilon of Adam for all sizes" in said for said in told.left)
    assert any("before its optimizer is made" in said for said in told.left)


def test_frozen_parameters_are_left_out() -> None:
    plan, model = planned("gpt"), on_meta("gpt")
    model.embed.requires_grad_(False)
    found = sw.torch.to_torchtitan(plan, lr=0.1, model=model)
    assert not any(re.search(g["pattern"], "embed.weight") for g in found)
    assert all("positions.weight" not in g["pattern"] or "embed" not in g["pattern"] for g in found)
