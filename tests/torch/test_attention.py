"""Agreement: attention logits of real networks over widths; a scale that is said and not applied is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from attending import WORDS, Attends, masked, over_d
from grids import thorough
from scalewise.plan._check import Check
from scalewise.plan._diagnosis import Cause
from scalewise.plan._measurement import Quantity

TOKENS = torch.randint(WORDS, (2, 7), generator=torch.Generator().manual_seed(0))


class Encoder(nn.Module):
    """An encoder of PyTorch's own, with heads whose number or size is fixed."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        layer = nn.TransformerEncoderLayer(width, heads, width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(tokens)))


def verified(
    build: Callable[[int], nn.Module],
    optimizer: str,
    widths: tuple[int, ...] = (32, 64, 128, 256),
    **options: Any,
) -> Check:
    def loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        out = model(tokens[:, :-1])
        logits = getattr(out, "logits", out)
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    plan = sw.torch.plan(
        lambda width: build(width), base={"width": 32}, target={"width": 128},
        strategy=options.pop("strategy", sw.scaling.mup()), optimizer=optimizer, **options,
    )  # fmt: skip
    return plan.verify(TOKENS, loss, widths=widths, seeds=len(widths))


def gpt2(width: int, scale: Callable[[int], float]) -> nn.Module:
    """Two layers with a cache of keys, as other people's models have."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(
            n_embd=width, n_layer=2, n_head=2, vocab_size=WORDS, n_positions=8, bos_token_id=0,
            eos_token_id=0, tie_word_embeddings=False,
        )
    )  # fmt: skip
    for block in model.transformer.h:
        block.attn.scaling = scale(width // 2)
    return model


# What is right, by the optimizer it is tried with; and what is wrong, with the place to be named.
RIGHT: list[tuple[str, Callable[[int], nn.Module]]] = [
    ("sgd", lambda n: Attends(n, 2, over_d)),
    ("adamw", lambda n: Attends(n, 2, over_d)),
    ("sgd", lambda n: Attends(n, n // 8, masked)),
    ("adamw", lambda n: Encoder(n, n // 8)),
    ("adamw", lambda n: gpt2(n, lambda d: 4 / d)),
]
WRONG: list[tuple[str, Callable[[int], nn.Module], str]] = [
    ("sgd", lambda n: Attends(n, 2, masked), ""),
    ("adamw", lambda n: Encoder(n, 2), "encoder.layers.*.self_attn"),
    ("sgd", lambda n: gpt2(n, lambda d: d**-0.5), "transformer.h.*.attn"),
]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [(RIGHT[:1], WRONG[1:2]), *thorough((RIGHT[1:], [WRONG[0], WRONG[2]]))],
    ids=["some", "more"],
)
def test_a_scale_of_attention_that_is_not_applied_is_named(right: list, wrong: list) -> None:
    problems = []
    for optimizer, build in right:
        c = verified(build, optimizer, widths=(32, 64, 128))
        if not c.ok or len(c.attention) != 2:
            problems.append(str(c))
    for optimizer, build, place in wrong:
        c = verified(build, optimizer, multiplied=["attention"])
        change = next(r for r in c.attention if r.quantity is Quantity.LOGITS_CHANGE)
        named = c.culprits and (c.culprits[0].cause, c.culprits[0].tensor) == (
            Cause.ATTENTION,
            place,
        )
        # At initialisation the wrong scale looks right.
        at_start = next(r for r in c.attention if r.quantity is Quantity.LOGITS)
        told = bool(named) and "does not apply it" in c.culprits[0].text
        if (
            c.ok
            or c.verdict.stable
            or not told
            or not at_start.agrees
            or not 0.2 < change.fit.slope < 0.6
        ):
            problems.append(str(c))
    assert not problems, "\n\n".join(problems)


def test_the_neural_tangent_needs_no_other_scale() -> None:
    c = verified(lambda n: Attends(n, 2, masked), "sgd", strategy=sw.scaling.ntk())
    assert all(r.agrees for r in c.attention)
    assert "attention of `the model`: logits" in str(c)
    assert sw.torch.plan(
        lambda width: Attends(width, 2, masked), base={"width": 16}, target={"width": 32},
        strategy=sw.scaling.ntk(),
    ).multipliers == {}  # fmt: skip
