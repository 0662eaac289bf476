"""Golden and agreement tests: what is seen of a forward pass, and what a plan makes of it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from attending import (
    WORDS,
    Attends,
    by_entries,
    capped,
    cosine,
    einsum,
    fused,
    linear,
    masked,
    over_d,
)  # fmt: skip
from scalewise.plan import PlanError
from scalewise.plan._errors import PlanWarning
from scalewise.plan._forward import Passes, attentions, gauges, given
from scalewise.torch._look import look
from torch_models import planned


def passes(build: Callable[[int], nn.Module], inputs: Any = None) -> Passes:
    """What is seen between the widths 16 and 32; the wider model has no memory where that goes."""

    def wide(device: str) -> nn.Module:
        with torch.device(device):
            return build(32)

    ways = [(Fraction(2), lambda: wide("meta")), (Fraction(2), lambda: wide("cpu"))]
    found, _ = look(build(16), ways, given(inputs))
    assert found is not None
    return found


WRITTEN = {
    masked: "-1/2",
    einsum: "-1/2",
    fused: "-1/2",
    over_d: "-1",
    by_entries: "0",
    capped: "-1/2",
    cosine: "-1",
}


def test_attention_is_seen_however_it_is_written() -> None:
    wrong = []
    for write, power in WRITTEN.items():
        (grown,) = attentions(passes(lambda n, w=write: Attends(n, 2, w)))
        (fixed,) = attentions(passes(lambda n, w=write: Attends(n, n // 8, w)))
        if (grown.length, grown.scale) != ((8, 16), Fraction(power)) or not grown.grow:
            wrong.append(f"{write.__name__}: {grown}")
        if fixed.length != (8, 8) or fixed.scale or fixed.grow:
            wrong.append(f"{write.__name__}, fixed heads: {fixed}")
    assert not wrong
    assert attentions(passes(lambda n: Attends(n, 2, linear))) == []


def of_transformers(
    kind: str, implementation: str, **options: Any
) -> Callable[[int, int], nn.Module]:
    import transformers

    def build(width: int, heads: int) -> nn.Module:
        config = getattr(transformers, f"{kind}Config")(**options)
        named = {
            "hidden_size": width, "d_model": width, "n_embd": width, "dim": width, "embed_dim": width,
            "num_attention_heads": heads, "n_head": heads, "n_heads": heads, "vocab_size": WORDS,
            "intermediate_size": 2 * width, "d_ff": 2 * width, "d_kv": width // heads, "hidden_dim": 2 * width,
            "num_hidden_layers": 1, "num_layers": 1, "n_layer": 1, "n_layers": 1, "head_dim": width // heads,
        }  # fmt: skip
        for key, value in named.items():
            if hasattr(config, key) and getattr(config, key) is not None:
                setattr(config, key, value)
        if hasattr(config, "num_key_value_heads"):
            config.num_key_value_heads = max(1, heads // 2)
        if kind == "T5":
            config.num_heads, config.num_decoder_layers, config.decoder_start_token_id = heads, 1, 0
        if kind.startswith("Swin"):
            config.num_heads, config.depths = [heads], [1]
        config.pad_token_id = None if kind == "GPT2" else 0
        config._attn_implementation = implementation
        return getattr(transformers, f"{kind}Model")(config)

    return build


# The power of the size of a head by which the code of each multiplies attention logits.
ARCHITECTURES = [
    ("Bert", "eager", "-1/2", {}),
    ("Bert", "sdpa", "-1/2", {}),
    ("DistilBert", "sdpa", "-1/2", {}),
    ("DebertaV2", "eager", "-1/2", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    ("Albert", "eager", "-1/2", {"embedding_size": 8}),
    ("GPTNeoX", "eager", "-1/2", {}),
    ("GPT2", "eager", "-1/2", {}),
    ("Llama", "sdpa", "-1/2", {}),
    ("T5", "eager", "0", {}),
    ("Swin", "eager", "-1/2", {"image_size": 16, "patch_size": 2, "window_size": 4}),
    ("Swinv2", "eager", "-1", {"image_size": 16, "patch_size": 2, "window_size": 4}),
    ("ViT", "sdpa", "-1/2", {"image_size": 16, "patch_size": 4}),
]  # fmt: skip


def test_attention_of_other_peoples_models() -> None:
    wrong = []
    for kind, implementation, power, options in ARCHITECTURES:
        build = of_transformers(kind, implementation, **options)
        grown = attentions(passes(lambda n, b=build: b(n, 2)))
        fixed = attentions(passes(lambda n, b=build: b(n, n // 8)))
        if not grown or {(h.grow, str(h.scale)) for h in grown} != {(True, power)}:
            wrong.append(f"{kind}, {implementation}: {grown}")
        if not fixed or any(h.grow or h.scale for h in fixed):
            wrong.append(f"{kind}, {implementation}, fixed heads: {fixed}")
    assert not wrong


def test_a_plan_asks_for_what_the_code_lacks() -> None:
    def build(
        write: Callable[..., torch.Tensor], heads: Callable[[int], int]
    ) -> Callable[[int], nn.Module]:
        return lambda width: Attends(width, heads(width), write)

    two, eights = (lambda n: 2), (lambda n: n // 8)
    with pytest.raises(
        PlanError, match=r"of the model grow.*d\^\(-1/2\) of .*factor, d\^\(-1/2\)\. At .* 0\.5\."
    ):
        planned(build(masked, two))
    with pytest.raises(PlanError, match=r"a constant of the size d .*d\^\(-1\)\. At .* 0\.25\."):
        planned(build(by_entries, two))
    assert planned(build(by_entries, two), multiplied=["attention"]).multipliers == {
        "attention": 0.25
    }
    for done in (over_d, cosine):
        assert planned(build(done, two)).multipliers == {"attention": 1.0}
        assert planned(build(done, two), multiplied=["attention"]).multipliers == {"attention": 1.0}
    assert planned(build(masked, eights)).multipliers == {}
    assert planned(build(masked, two), strategy=sw.scaling.ntk()).multipliers == {}
    fades = lambda q, k, v: (q @ k.mT / (q.shape[1] * q.shape[3])).softmax(-1) @ v  # noqa: E731
    with pytest.raises(PlanError, match=r"keep their size, but .* n\^\(-1\)"):
        planned(build(fades, eights))


class Scaled(nn.Module):
    """The embedding, the hidden layer and the readout each multiplied by a power of the width."""

    def __init__(self, width: int, powers: tuple[float, float, float], inside: bool = False):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, WORDS, bias=False)
        self.factors = [width**p for p in powers]
        with torch.no_grad():
            # The same networks at width 16, whatever the powers.
            for p, power in zip((self.embed, self.mix, self.head), powers, strict=True):
                for entries in p.parameters():
                    entries.mul_(16**-power)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        a, b, c = self.factors
        x = self.embed(tokens) * a
        x = x + (b * self.mix(nn.functional.layer_norm(x, x.shape[-1:]))).tanh()
        return self.head(nn.functional.rms_norm(x, x.shape[-1:]) * c)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_multipliers_in_the_code_are_a_gauge(optimizer: str) -> None:
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    tokens, outputs, started = torch.arange(12).reshape(2, 6), [], []
    for powers in ((0.0, 0.0, 0.0), (0.5, -0.5, -1.0)):
        build = lambda width, p=powers: Scaled(width, p).double()  # noqa: E731
        plan = planned(build, optimizer=optimizer, strategy=sw.scaling.meta("1/2"))
        own = dict(zip(("embed", "mix", "head"), powers, strict=True))
        assert {t.name: t.gauge.total for t in plan.table.tensors} == {
            t.name: Fraction(own[t.name.split(".")[0]]) for t in plan.table.tensors
        }
        torch.manual_seed(0)
        model, groups = plan.init_(build(64)), []
        with torch.no_grad():
            for i, (name, p) in enumerate(model.named_parameters()):
                # What acts is the same; a draw of few entries is left as it is, so not quite.
                acts = p * 64 ** own[name.split(".")[0]]
                if powers[0]:
                    assert acts.std() == pytest.approx(float(started[i].std()), rel=0.2)
                    p.copy_(started[i] / 64 ** own[name.split(".")[0]])
                started.append(acts.clone())
                # So it is at the base, where the same multipliers ask for other settings.
                base, f = 16 ** own[name.split(".")[0]], plan.factors(name)
                lr = 1e-2 * f.lr / base ** (2 if optimizer == "sgd" else 1)
                eps = {} if optimizer == "sgd" else {"eps": 1e-3 * f.eps * base}
                groups.append({"params": [p], "lr": lr, "weight_decay": 0.0} | eps)
        optim = kinds[optimizer](groups)
        for _ in range(4):
            optim.zero_grad()
            nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
            optim.step()
        outputs.append(model(tokens).detach())
    assert torch.allclose(*outputs, rtol=1e-6, atol=1e-9)


def test_where_the_code_multiplies() -> None:
    weights, lookups = gauges(passes(lambda n: Scaled(n, (0.5, -0.5, -1.0))))
    assert (lookups["embed.weight"].inside, lookups["embed.weight"].after) == (0, Fraction(1, 2))
    assert (weights["mix.weight"].after, weights["mix.bias"].after) == (Fraction(-1, 2),) * 2
    assert (weights["head.weight"].before, weights["head.weight"].after) == (-1, 0)

    class Own(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(input, self.weight / self.in_features**0.5)

    weights, _ = gauges(passes(lambda n: nn.Sequential(nn.Linear(8, n), nn.ReLU(), Own(n, 5))))
    assert weights["2.weight"].inside == Fraction(-1, 2)
    assert weights["2.weight"].total == Fraction(-1, 2)


def test_a_factor_between_pairs_counts_once() -> None:
    class Gated(nn.Module):
        def __init__(self, width: int, bend: Callable[..., torch.Tensor]):
            super().__init__()
            self.first, self.second = nn.Linear(8, width), nn.Linear(width, width, bias=False)
            self.head, self.bend, self.factor = nn.Linear(width, 5), bend, width**-0.5

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.bend(self.second(self.first(x).relu()) * self.factor))

    wrong = []
    for bend in (lambda y: y * y.sigmoid(), lambda y: y * y.tanh(), lambda y: y * y.flip(-1)):
        weights, _ = gauges(passes(lambda n, b=bend: Gated(n, b), torch.ones(2, 8)))
        if {n: g.total for n, g in weights.items()} != {"second.weight": Fraction(-1, 2)}:
            wrong.append(str(weights))
    # Summed, it scales logits, and no tensor.
    scaled = passes(lambda n: Attends(n, 2, lambda q, k, v: by_entries(q / q.shape[-1], k, v)))
    assert attentions(scaled)[0].scale == -1
    assert not any(gauges(scaled))
    assert not wrong


def test_a_tied_readout_with_a_multiplier_of_its_own() -> None:
    class Tied(nn.Module):
        def __init__(self, width: int, powers: tuple[float, float]):
            super().__init__()
            self.embed, self.head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS, bias=False)
            self.head.weight = self.embed.weight
            self.factors = [width**p for p in powers]

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embed(tokens) * self.factors[0]
            return self.head(nn.functional.rms_norm(x, x.shape[-1:]) * self.factors[1])

    # What the readout lacks of 1/n: all, the root that T5 has, what Gemma's embedding takes, nothing.
    for powers, lacks in (((0, 0), 0.25), ((0, -0.5), 0.5), ((0.5, 0), 0.5), ((0, -1), 1.0)):
        build = lambda width, p=powers: Tied(width, p)  # noqa: E731
        assert planned(build, multiplied=["head"]).multipliers == {"head": lacks}
        # Said to no one, it is for `scale_`; where the model's own code has it, there is nothing to do.
        plan = planned(build)
        model = build(**plan.table.target)
        if lacks != 1:
            with pytest.raises(
                PlanError, match=r"`head` reads out with the weights of the embedding"
            ):
                plan.param_groups(model, lr=1e-3)
        plan.scale_(model)
        assert len(model.head._forward_pre_hooks) == (lacks != 1)
        assert plan.param_groups(model, lr=1e-3)
    assert planned(lambda width: Tied(width, (0, -1))).multipliers == {"head": 1.0}
    assert (
        planned(lambda width: Tied(width, (0.5, 0)), multiplied=["head"])
        .factors("embed.weight")
        .init
        == 0.5
    )


def test_what_is_not_seen_is_said() -> None:
    class Odd(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))

        def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            return self.net(batch["x"])

    with pytest.warns(PlanWarning, match=r"not known to the plan.*inputs="):
        plan = planned(Odd)
    assert "The forward pass was not seen" in str(plan)
    seen = planned(Odd, inputs=({"x": torch.ones(2, 8)},))
    assert "not seen" not in str(seen)
    assert "not seen" not in str(seen.at(width=32))
    with pytest.raises(PlanError, match=r"cannot be called with the `inputs` given: RuntimeError"):
        planned(Odd, inputs=({"x": torch.ones(2, 9)},))
