"""Agreement: scripts whose parametrisation is known, and what an audit says of them without being told."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from grids import thorough
from scalewise.plan import PlanError
from scalewise.plan._measurement import Quantity
from scalewise.plan.audit import Audit
from torch_models import ConvNet, Transformer, batch, mlp

ADAM, SGD = torch.optim.AdamW, torch.optim.SGD
DRAWN = torch.Generator().manual_seed(1)
POINTS = torch.randn(16, 8, generator=DRAWN), torch.randint(10, (16,), generator=DRAWN)
WORDS = torch.randint(20, (4, 8), generator=DRAWN), torch.randint(20, (4, 8), generator=DRAWN)
SMALL = (32, 64, 128, 256)


def loss(model: nn.Module, given: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(given[0]).flatten(0, -2), given[1].flatten())


def audit(build: Any, optimizer: Any, given: Any = POINTS, **options: Any) -> Audit:
    return sw.torch.audit(build, optimizer, loss, given, **options)


def planned(
    factory: Callable[[int], nn.Module], strategy: Any, optimizer: Any, *, lr: float = 1e-3,
    wrong: tuple[str, float] | None = None, drawn: tuple[str, float] | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """A script that follows a plan, but for one tensor's rate or initialisation, off by a power of the width."""
    name = "sgd" if optimizer is SGD else "adamw"
    base = sw.torch.plan(
        factory, base={"width": 32}, target={"width": 64}, strategy=strategy, optimizer=name
    )
    sized, widths = cache(lambda width: base.at(width=width)), {}

    def build(width: int) -> nn.Module:
        model = sized(width).init_(factory(width=width))  # pyright: ignore[reportCallIssue]
        if drawn is not None:
            with torch.no_grad():
                dict(model.named_parameters())[drawn[0]].mul_((width / 32) ** drawn[1])
        widths[id(model)] = width
        return model

    def make(model: nn.Module) -> torch.optim.Optimizer:
        width = widths[id(model)]
        groups = sized(width).param_groups(model, lr=lr)
        if wrong is None:
            return optimizer(groups)
        tensor = dict(model.named_parameters())[wrong[0]]
        out = []
        for g in groups:
            mine = [p for p in g["params"] if p is tensor]
            rest = [p for p in g["params"] if p is not tensor]
            rate = g["lr"] * (width / 32) ** wrong[1]
            out += [g | {"params": rest}] if rest else []
            out += [g | {"params": mine, "lr": rate}] if mine else []
        return optimizer(out)

    return build, make


def places(found: Audit) -> set[str]:
    return {limit.place for limit in found.bottleneck}


def test_every_parametrisation_is_named() -> None:
    """Regime, r of the stable script, and who holds it back; maximal updates are told in silence."""
    build, scaling = mlp, sw.scaling
    cases = {
        "standard, AdamW": (build, (ADAM, {"lr": 1e-3}), "Unstable", "4.weight"),
        "standard, SGD": (build, (SGD, {"lr": 1e-2}), "Unstable", "4.weight"),
        "tangent, SGD": (*planned(build, scaling.ntk(), SGD), "Lazy", "4.weight"),
        "mean field, SGD": (*planned(build, scaling.mean_field(), SGD), "Features are", None),
        "maximal, SGD": (*planned(build, scaling.mup(), SGD), "Maximal update", None),
        "maximal, AdamW": (*planned(build, scaling.mup(), ADAM), "Maximal update", None),
    }
    wrong = []
    for name, (factory, optimizer, said, held) in cases.items():
        found = audit(factory, optimizer, widths=SMALL, seeds=4)
        right = found.sentence.startswith(said)
        if said == "Features are":
            right |= found.sentence.startswith("Maximal")
        if not right or places(found) != ({held} if held else set()):
            wrong.append((name, found.sentence))
    assert wrong == []


def test_exponents_are_those_of_the_script() -> None:
    found = audit(mlp, (ADAM, {"lr": 1e-3}), widths=(64, 128, 256, 512))
    tied = {t.name: (t.init.slope, t.rate.slope, t.gradient.slope) for t in found.tensors}
    assert tied["0.weight"] == pytest.approx((0, 0, -0.5), abs=0.1)
    assert tied["2.weight"] == pytest.approx((-0.5, 0, -0.5), abs=0.1)
    assert tied["4.weight"] == pytest.approx((-0.5, 0, 0), abs=0.1)
    # One rate for all: hidden matrices move what they write by n, the first layer by 1.
    assert found["2.weight"].own_change.slope == pytest.approx(1, abs=0.1)
    (first,) = [w for w in found.wastes if w.tensor == "0.weight"]
    assert first.power == pytest.approx(1, abs=0.15)
    assert first.factor == pytest.approx((4096 / 64) ** first.power)
    # Features n, read out by n^(1/2) each, in line: n^(3/2) in all.
    assert found.fall == pytest.approx(1.5, abs=0.25)
    assert found.s == pytest.approx(1 - 2 * (found.fall + found.r), abs=1e-12)
    lazy = audit(*planned(mlp, sw.scaling.ntk(), SGD), widths=(64, 128, 256, 512))
    assert (lazy.r, lazy.fall) == (pytest.approx(0.5, abs=0.1), 0)


@pytest.mark.parametrize(
    ("depth", "settings", "held", "slow"),
    [
        (3, {"wrong": ("4.weight", -0.5)}, set(), {"4.weight"}),
        (4, {"wrong": ("2.weight", 0.5)}, {"2.weight"}, set()),
        (3, {"drawn": ("4.weight", 0.5)}, {"4.weight"}, set()),
        (4, {}, set(), set()),
        *thorough(
            (3, {"wrong": ("4.weight", 0.5)}, {"4.weight"}, set()),
            (4, {"wrong": ("0.weight", -1.0)}, set(), {"0.weight"}),
        ),
    ],
)
def test_one_wrong_tensor_is_named(
    depth: int, settings: dict[str, Any], held: set[str], slow: set[str]
) -> None:
    script = planned(lambda width: mlp(width, depth), sw.scaling.mup(), ADAM, **settings)  # pyright: ignore
    found = audit(*script, seeds=4)
    assert held <= places(found), found.sentence
    assert {w.tensor for w in found.wastes} == slow
    assert held | slow or found.ok, found.sentence


def test_a_matrix_drawn_too_large_is_named() -> None:
    drawn = planned(lambda width: mlp(width, 4), sw.scaling.mup(), ADAM, drawn=("2.weight", 0.5))  # pyright: ignore
    found = audit(*drawn)
    assert found.starts[0].name == "2.weight"
    # Its step is as it should be, and small beside what it writes.
    assert found["2.weight"].own_change.slope == pytest.approx(-0.5, abs=0.2)
    assert re.search(r"`2.weight` is drawn n\^0.(4|5). too large", found.sentence)
    assert not found.ok


class Reader(nn.Module):
    """Embedding, causal attention of two heads, a readout."""

    def __init__(self, width: int, *, whole: bool = True):
        super().__init__()
        self.words, self.norm = nn.Embedding(20, width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.head, self.whole = nn.Linear(width, 20, bias=False), whole

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        b, t, width = x.shape
        parts = self.qkv(self.norm(x)).split(width, -1)
        q, k, v = (p.view(b, t, 2, width // 2).transpose(1, 2) for p in parts)
        scale = 8 / (width // 2) if self.whole else (width // 2) ** -0.5
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        return self.head(x + self.out(mixed.transpose(1, 2).flatten(2)))


def test_attention_of_a_decoder() -> None:
    def over_root(width: int) -> nn.Module:
        model = build(width)
        model.whole = False
        return model

    build, make = planned(Reader, sw.scaling.mup(), ADAM)  # pyright: ignore[reportArgumentType]
    right, wrong = (audit(b, make, WORDS) for b in (build, over_root))
    assert right.ok, right.sentence
    assert [limit.bound for limit in wrong.bottleneck] == ["attention logits"]
    assert "of the model grows as n^(+0.4" in wrong.sentence
    assert wrong.sentence.endswith("the bottleneck is attention.")


@pytest.mark.thorough("test_one_wrong_tensor_is_named")
def test_a_slow_embedding_of_a_decoder() -> None:
    slow = planned(Reader, sw.scaling.mup(), ADAM, wrong=("words.weight", -1.0))  # pyright: ignore
    found = audit(*slow, WORDS)
    assert [w.tensor for w in found.wastes] == ["words.weight"]
    assert found.wastes[0].power == pytest.approx(1, abs=0.2)


def test_the_width_at_which_it_blows_up() -> None:
    """Told from widths up to 256, found at 1024."""
    found = audit(mlp, (SGD, {"lr": 1.0}), widths=SMALL, seeds=8)
    (logits,) = [b for b in found.breaks if b.quantity == "change" and b.module == "4"]
    assert logits.width is not None
    # The change is proportional to the rate: at this one it is one where the width is 1024.
    rate = (logits.width / 1024) ** logits.fit.tail
    sizes = []
    for seed in range(8):
        torch.manual_seed(seed)
        model = mlp(1024)
        was = model(POINTS[0]).detach()
        optimizer = SGD(model.parameters(), lr=rate * 1e-4)
        loss(model, POINTS).backward()
        optimizer.step()
        sizes.append(float((model(POINTS[0]).detach() - was).square().mean().sqrt()) * 1e4)
    assert sum(sizes) / 8 == pytest.approx(1, rel=0.4)


class Recurrent(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.words, self.head = nn.Embedding(20, width), nn.Linear(width, 20)
        self.rnn = nn.LSTM(width, width, 2, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.words(tokens))[0])


class Positions(Recurrent):
    def __init__(self, width: int):
        super().__init__(width)
        self.positions = nn.Parameter(0.1 * torch.randn(8, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head((self.words(tokens) + self.positions).tanh())


STRANGE = ["convolutions", "tied", "two", "bare"]


@pytest.mark.parametrize(
    "names", [STRANGE, *thorough(["recurrent", "heads", "half"])], ids=["some", "more"]
)
def test_strangers(names: list[str]) -> None:
    """Convolutions, a tied readout, recurrence, heads for a width, half precision, two optimizers, bare tensors."""

    def two(model: nn.Module) -> list[torch.optim.Optimizer]:
        inside = [p for n, p in model.named_parameters() if n.endswith("2.weight")]
        rest = [p for p in model.parameters() if all(p is not q for q in inside)]
        return [torch.optim.Muon(inside, lr=0.02), ADAM(rest, lr=1e-3)]

    images = torch.randn(8, 3, 8, 8, generator=DRAWN), POINTS[1][:8]
    one = ADAM, {"lr": 1e-3}
    cases = {
        "convolutions": (ConvNet, one, images, (16, 32, 64), "stem.weight"),
        "tied": (lambda w: Transformer(w, tied=True), one, WORDS, (16, 32, 64), "`embed.weight`"),
        "recurrent": (Recurrent, one, WORDS, (32, 64, 128), ""),
        "heads": (lambda heads: Transformer(8 * heads, heads=heads), one, WORDS, (2, 4, 8), ""),
        "half": (lambda w: mlp(w).bfloat16().eval(), one, POINTS, (32, 64, 128), ""),
        "two": (lambda w: mlp(w, 3), two, POINTS, (32, 64, 128), "the step of `4.weight`"),
        "bare": (Positions, one, WORDS, (32, 64, 128), ""),
    }
    for name in names:
        build, optimizer, given, widths, told = cases[name]
        found = audit(build, optimizer, given, widths=widths, seeds=2)
        assert found.sentence.startswith(("Unstable", "Too close")), (name, found.sentence)
        assert told in str(found), name
        # What the forward pass does with bare positions is seen, and no guess is told.
        assert "`positions` is 'input'" not in str(found)


def test_what_is_not_trained_is_told_and_small_gradients_meet_epsilon() -> None:
    def head_only(model: nn.Module) -> torch.optim.Optimizer:
        return ADAM(model.get_submodule("4").parameters(), lr=1e-3, eps=1e-3)

    found = audit(mlp, head_only, widths=SMALL, seeds=2)
    assert set(found.idle) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert "Not trained" in str(found)
    # Nothing below the readout moves, so it passes nothing on.
    assert not found.measured.of("4.weight", Quantity.PASSED).any()
    assert found.epsilons == ()
    drowned = audit(mlp, (ADAM, {"lr": 1e-3, "eps": 1e-3}), widths=SMALL, seeds=2).epsilons
    gradient = found["0.weight"].gradient
    size = found.measured.of("0.weight", Quantity.GRADIENT)[-1].mean()
    wanted = 256 * (1e-3 / size) ** (1 / gradient.slope)
    (first,) = [e for e in drowned if e.tensor == "0.weight"] or [None]
    assert (first is None) == (wanted > 8 * 256)
    assert first is None or first.width == pytest.approx(wanted, rel=0.2)


def test_refusals() -> None:
    x = batch()

    def late(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = ADAM(model.parameters(), lr=1e-3)
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: t / 10)
        return optimizer

    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        (lambda w: mlp(16), (ADAM, {"lr": 1e-3}), {}, "Let the factory use its width"),
        (mlp, late, {}, "Every learning rate is zero.*without its schedule"),
        (mlp, lambda model: None, {}, "`optimizer` must return.*NoneType"),
        (mlp, "adam", {}, "`optimizer` must be a function that takes a model"),
        (mlp, (ADAM, {"lr": 1e-3}), {"widths": [8, 16]}, "three different widths"),
        (mlp, (ADAM, {"lr": 1e-3}), {"seeds": 1}, "`seeds` must be at least 2"),
    ]
    for build, optimizer, options, message in cases:
        with pytest.raises((PlanError, ValueError, TypeError), match=message):
            sw.torch.audit(
                build, optimizer, lambda m, b: nn.functional.mse_loss(m(b[0]), b[1]), x, **options
            )
