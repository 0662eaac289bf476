"""Conformance of `signals`: mistakes are named, right models are not, and every number is what it says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from scalewise.signals import Signals
from signal_designs import COORDINATES, DESIGNS, SUBTLE, siren
from signal_models import (
    RIGHT,
    TOKENS,
    VECTORS,
    WRONG,
    Adam,
    Decoder,
    drawn,
    gpt2,
    perceptron,
)

WIDTH = 32


def measured(model: Any, batch: Any, **how: Any) -> Signals:
    return sw.torch.signals(model, batch, theory=False, **how)


@pytest.mark.parametrize(
    ("mistake", "cases"), [(m, cases) for cases in (WRONG, SUBTLE) for m in cases]
)
def test_each_mistake_is_named_and_nothing_else(mistake: str, cases: dict[str, Any]) -> None:
    build, batch = cases[mistake]
    found = measured(build(WIDTH), batch)
    assert [f.mistake for f in found.findings] == [mistake]
    (finding,) = found.findings
    assert f"`{finding.place or 'the model'}`" in finding.sentence
    assert not found.ok
    with pytest.raises(AssertionError, match=finding.sentence[:20].replace("(", r"\(")):
        found.assert_ok()


@pytest.mark.parametrize("name", [*RIGHT, *DESIGNS])
def test_right_models_are_passed_in_silence(name: str) -> None:
    build, batch = (RIGHT | DESIGNS)[name]
    found = measured(build(WIDTH), batch)
    assert found.findings == ()
    found.assert_ok()


def test_the_optimizer_is_known_by_its_first_steps() -> None:
    model = drawn(perceptron(WIDTH, 3), 1.0)
    (finding,) = measured(model, VECTORS, optimizer=(Adam, {"lr": 1e-3})).findings
    assert finding.mistake == "no bias correction"
    assert finding.number == pytest.approx(0.1 / math.sqrt(0.001), rel=1e-3)
    own = torch.optim.Adam(model.parameters(), lr=0.1)
    for right in (own, (Adam, {"correct": True}), lambda m: torch.optim.SGD(m.parameters(), 0.1)):
        assert measured(model, VECTORS, optimizer=right).ok
    assert not own.state
    with pytest.raises(PlanError, match="`optimizer` must be or return an optimizer; got int"):
        measured(model, VECTORS, optimizer=lambda m: 3)


def test_what_a_chain_of_relu_does_is_what_the_theory_says() -> None:
    """He's initialisation keeps K exactly, and both susceptibilities are 1."""
    found = sw.torch.signals(
        lambda n: drawn(perceptron(n, 6, nn.ReLU), 2.0), VECTORS, width=64, seeds=2
    )
    K = 2 * float(VECTORS[:2].double().square().mean())
    for own in found.foreseen:
        assert own is not None
        assert own.size == pytest.approx(
            math.sqrt(K), rel=2e-2
        )  # of weights as they came out of one draw
    for own in found.foreseen[1:-1]:
        assert own is not None
        assert own.chi_parallel is not None
        assert own.chi_perp is not None
        assert own.chi_parallel == pytest.approx(1, abs=1e-3)
        assert own.chi_perp == pytest.approx(1, abs=0.02)
    assert any("are critical for relu" in line for line in found.told)
    # PDLT (5.126): V/nK^2 of ReLU grows by 5/n from layer to layer.
    want = 5 * (len(found.rows) - 1) / 64
    (line,) = (line for line in found.told if line.startswith("By the theory"))
    assert f"V/nK^2 = {want:.2g})" in line


def word_by_word(n: int) -> nn.Module:
    return drawn(nn.Sequential(nn.Embedding(31, n), nn.Tanh(), nn.Linear(n, n), nn.Tanh()), 1.5)


@pytest.mark.parametrize("tokens", [False, True])
def test_susceptibilities_are_those_of_the_activation(tokens: bool) -> None:
    """Of tanh with weights of variance 1.5, against quadrature; words are directions of their own."""
    build, batch = (
        (word_by_word, TOKENS) if tokens else (lambda n: drawn(perceptron(n, 4), 1.5), VECTORS)
    )
    found = sw.torch.signals(build, batch, width=32, seeds=1).foreseen
    z, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    # Small changes are those of the first sample.
    K = 1.0 if tokens else float(1.5 * VECTORS[0].double().square().mean())
    slope = 1 / np.cosh(np.sqrt(K) * z) ** 2
    up, down = (np.sum(w * np.tanh(np.sqrt(k) * z) ** 2) for k in (K * 1.001, K * 0.999))
    own = found[1]
    assert own is not None
    assert own.chi_perp == pytest.approx(1.5 * np.sum(w * slope**2), rel=2e-3)
    assert own.chi_parallel == pytest.approx(1.5 * (up - down) / (0.002 * K), rel=2e-2)


@pytest.mark.parametrize("which", ["chi_parallel", "chi_perp"])
def test_susceptibilities_of_a_stream_of_tokens_are_those_of_drawn_models(which: str) -> None:
    """The first text's words made longer, or moved towards others, in decoders of width 256."""
    build = lambda n: Decoder(n, 2, factor=1.0)  # noqa: E731
    found = sw.torch.signals(build, TOKENS[:2], width=64, seeds=1)
    want = [
        getattr(f, which)
        for r, f in zip(found.rows, found.foreseen, strict=True)
        if r.what == "sum" and f is not None
    ]
    squares = []
    for seed in range(6):
        torch.manual_seed(seed)
        model = build(256)
        words = model.words(TOKENS[:1])
        other = torch.randn(words.shape)
        moved = 1.01 * words if which == "chi_parallel" else words + 0.01 * other
        along = [stream(model, x) for x in (words, moved)]
        change = [
            (
                (b**2).mean() - (a**2).mean() if which == "chi_parallel" else ((b - a) ** 2).mean()
            ).item()
            for a, b in zip(*along, strict=True)
        ]
        squares.append(change)
    mean = np.mean(squares, axis=0)
    ratios = np.array(squares)[:, 1:] / np.array(squares)[:, :-1]
    error = ratios.std(axis=0, ddof=1) / math.sqrt(len(squares))
    assert len(want) == 4
    np.testing.assert_array_less(abs(mean[1:] / mean[:-1] - want), 4 * error + 0.03)


def stream(model: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """What flows past the branches, after each of them."""
    found = [x]
    with torch.no_grad():
        for block in model.blocks:
            x = x + block.attention(block.norm1(x))
            found.append(x)
            x = x + block.down(nn.functional.gelu(block.up(block.norm2(x))))
            found.append(x)
    return found


def test_the_theory_stands_beside_the_places_that_it_is_of() -> None:
    """Embedding, stream, hidden layers and read-out of GPT-2, whose places are matched by what they hold."""
    torch.manual_seed(3)
    found = sw.torch.signals(lambda n: gpt2(n, 2), torch.randint(0, 31, (2, 8)), width=64, seeds=4)
    known = [(r, f) for r, f in zip(found.rows, found.foreseen, strict=True) if f is not None]
    assert {r.what for r, _ in known} == {"embedding", "sum", "linear"}
    assert [r.place for r, _ in known if r.what == "sum"] == [
        f"transformer.h.{k}" for k in (0, 0, 1, 1)
    ]
    for row, own in known:
        if row.place == "lm_head":  # tied, so that it knows the tokens themselves
            continue
        assert row.size == pytest.approx(own.size, rel=0.06), row.place
        if row.samples is not None and own.samples is not None:
            assert row.samples == pytest.approx(own.samples, abs=0.15), row.place
    # Inside of branches, too, and where three layers are one product: only attention's weights are left out.
    assert {r.what for r, f in zip(found.rows, found.foreseen, strict=True) if f is None} == {
        "attention"
    }
    packed = next(f for r, f in known if r.place == "transformer.h.0.attn.c_attn")
    assert packed.size == pytest.approx(0.02 * math.sqrt(64), rel=0.05)  # what it reads has size 1


def test_sizes_gradients_and_correlations_are_those_of_autodiff() -> None:
    model = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 5))
    x = VECTORS[:2]
    found = measured(model, x, loss=lambda m, batch: m(batch).square().sum())
    first = model[0](x).detach().requires_grad_()
    out = model[2](torch.tanh(first))
    (slope,) = torch.autograd.grad(out.square().sum(), [first])
    out = out.detach()
    one, two = found.rows
    assert one.size == pytest.approx(float(first.detach().square().mean()) ** 0.5, rel=1e-5)
    assert one.gradient == pytest.approx(float(slope.square().sum() / 2) ** 0.5, rel=1e-5)
    assert two.gradient == pytest.approx(float((2 * out).square().sum() / 2) ** 0.5, rel=1e-5)
    assert one.influence == pytest.approx(one.gradient * one.size * math.sqrt(8), rel=1e-5)
    assert one.samples == pytest.approx(
        float(torch.cosine_similarity(*first.detach(), dim=0)), rel=1e-4
    )
    assert (one.place, one.what, two.place) == ("0", "linear", "2")
    assert one.units is not None
    assert one.units.name == "tanh"


def test_the_size_of_the_default_gradient_is_one_at_the_outputs() -> None:
    found = measured(lambda n: nn.Linear(16, n), VECTORS, width=200)
    assert found.rows[0].gradient == pytest.approx(1, rel=0.05)


def test_shares_of_units_and_weights() -> None:
    model: Any = nn.Sequential(
        nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 1)
    )
    with torch.no_grad():
        model[0].bias.copy_(torch.tensor([-99.0] * 2 + [0.0] * 6))  # these give 0 to x or to -x
        model[2].weight.zero_()
        model[2].bias.copy_(torch.tensor([20.0] * 4 + [0.0] * 4))
    one, two, _ = measured(model, torch.cat([VECTORS, -VECTORS])).rows
    assert one.units is not None
    assert one.units.dead == 0.25
    assert two.units is not None
    assert two.units.saturated == 0.5
    decoder = Decoder(WIDTH, 1)
    block: Any = decoder.blocks[0]
    nn.init.zeros_(block.qkv.weight)
    report = measured(decoder, WRONG["zero gains"][1])
    (look,) = [r.looks for r in report.rows if r.looks]
    assert f"of {look.keys:.0f}, logits' variance {look.variance:.2g}" in str(report)
    keys = torch.arange(4, 9)  # of queries that see four keys or more
    assert look.largest == pytest.approx(float((1 / keys).mean()), rel=1e-5)
    assert look.keys == pytest.approx(6)
    assert look.variance == pytest.approx(0, abs=1e-12)


def test_sines_that_hardly_turn_are_told_and_are_no_mistake() -> None:
    """The phase of a first layer, drawn from -1/2 to 1/2, is that of its inputs times w."""
    own = siren(64, 1.0, 1.0)
    found = measured(own, COORDINATES)
    assert found.ok
    (line,) = (line for line in found.told if "turn by" in line)
    assert f"turn by {found.rows[0].size:.2g} over these inputs" in line
    assert not any("turn by" in line for line in measured(siren(64, 30.0, 30.0), COORDINATES).told)


def test_numbers_of_what_looks_right_are_those_of_its_weights() -> None:
    """The variance of logits without a scale, the size of a norm with eps, of a tied readout, of what is left."""
    torch.manual_seed(0)
    by_mistake = {
        name: measured(SUBTLE[name][0](128), SUBTLE[name][1]).findings[0]
        for name in (
            "attention without a scale",
            "large eps",
            "tied readout",
            "mean in place of a sum",
        )
    }
    assert by_mistake["attention without a scale"].number == pytest.approx(8, rel=0.3)
    assert "add up 8 terms" in by_mistake["attention without a scale"].sentence
    assert by_mistake["large eps"].number == 1
    assert "50% of what it divides by" in by_mistake["large eps"].sentence
    assert by_mistake["tied readout"].number == pytest.approx(math.sqrt(128), rel=0.05)
    assert by_mistake["mean in place of a sum"].number == pytest.approx(0.5**11)


class Skips(nn.Module):
    """What goes past a branch, in three ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.into, self.branch, self.out = (
            nn.Linear(16, WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 2),
        )
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x)
        if self.way == "twice":
            x = x + (x + self.branch(x))
        elif self.way == "halved":
            x = (x + x) / 2 + self.branch(x)
        else:
            branch = self.branch(x)
            branch += x
            x = branch
        return self.out(x)


@pytest.mark.parametrize(
    ("way", "mistakes"), [("twice", ["doubled skip"]), ("halved", []), ("in place", [])]
)
def test_skips_however_they_are_written(way: str, mistakes: list[str]) -> None:
    found = measured(Skips(way), VECTORS)
    assert [f.mistake for f in found.findings] == mistakes
    assert [r.what for r in found.rows].count("sum") >= 1


def test_a_model_is_left_as_it_was() -> None:
    model = Decoder(WIDTH, 1)
    model.head.weight.requires_grad_(False)
    model.train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    tokens = WRONG["zero gains"][1]
    measured(model, tokens)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert model.training
    assert model.blocks.training
    assert not model.head.weight.requires_grad
    assert all(p.grad is None for p in model.parameters())
    assert not model._forward_hooks


def test_a_report_is_a_table_a_picture_and_numbers() -> None:
    found = sw.torch.signals(lambda n: drawn(perceptron(n, 5), 1.0), VECTORS, width=WIDTH)
    text = str(found)
    assert text.startswith("Nothing is wrong: signals of 5 places, 3 draws")
    assert "linear" in text
    assert "chi" in text
    assert found.table.sizes["row"] == 5
    assert np.isfinite(found.table.size_theory.values).all()
    assert found.to_dict()["rows"][0]["dead"] is None
    assert len(found.plot().axes) == 3
    deep = measured(Decoder(WIDTH, 12), WRONG["zero gains"][1])
    assert "blocks.0.up (and 10 more)" in str(deep)


# --- what cannot be told ------------------------------------------------------------------------


class Own(nn.Module):
    """A linear layer called by a function."""

    def __init__(
        self, call: Callable[[nn.Module, torch.Tensor], torch.Tensor], into: int, out: int
    ) -> None:
        super().__init__()
        self.call, self.linear = call, nn.Linear(into, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(self.linear, x)


def noisy(linear: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return linear(x) + torch.randn(len(x), 1)


def picky(linear: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return linear(x[torch.nonzero(x[:, 0] > -99)[:, 0]])


def deciding(linear: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return linear(x) if x.sum() > 0 else -linear(x)


def ordered(linear: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return linear(torch.sort(x, dim=-1).values)


def overwriting(linear: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = linear(x)
    x += linear(x)
    return x


def test_what_a_pass_does_that_others_would_not_repeat_is_noted() -> None:
    notes = measured(nn.Sequential(nn.Linear(16, 8), Own(noisy, 8, 2)), VECTORS).notes
    assert any("`1` draws random numbers in its forward pass" in note for note in notes)
    notes = measured(nn.Sequential(nn.Linear(16, 8), Own(picky, 8, 2)), VECTORS).notes
    assert any("`1` has shapes that depend on the data" in note for note in notes)
    notes = measured(nn.Sequential(nn.Linear(16, 8), Own(deciding, 8, 2)), VECTORS).notes
    assert any("`1` reads a number of its own to decide" in note for note in notes)
    drops = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    assert measured(drops, VECTORS).notes == ()
    norm = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).train()
    assert any(
        "Run a few batches in training mode first" in note for note in measured(norm, VECTORS).notes
    )
    norm(VECTORS)
    assert measured(norm, VECTORS).notes == ()


def test_where_the_theory_does_not_read_the_model_it_is_measured() -> None:
    found = sw.torch.signals(nn.Sequential(nn.Linear(16, 8), Own(ordered, 8, 2)), VECTORS)
    assert [r.place for r in found.rows] == ["0", "1.linear"]
    assert found.foreseen == (None, None)
    assert any(note.startswith("Measured alone, because") and "`1`" in note for note in found.notes)


def test_a_model_without_a_second_width_is_read_at_its_own() -> None:
    def build(width: int) -> nn.Module:
        assert width == WIDTH
        return drawn(perceptron(width, 4), 1.0)

    found = sw.torch.signals(build, VECTORS, width=WIDTH, seeds=2)
    assert any("no second width" in note for note in found.notes)
    assert all(f is not None for f in found.foreseen)


def test_steps_of_a_report_are_told() -> None:
    told: list[tuple[int, int]] = []
    build = lambda n: perceptron(n, 3)  # noqa: E731
    sw.torch.signals(
        build, VECTORS, width=8, progress=lambda done, total: told.append((done, total))
    )
    assert told == [(k, 5) for k in range(1, 6)]


def test_factories_that_do_not_repeat() -> None:
    one = perceptron(WIDTH, 3)
    assert any(
        "the same model each time" in note
        for note in measured(lambda n: one, VECTORS, width=8).notes
    )
    depth = iter(range(3, 9))
    found = measured(lambda n: perceptron(n, next(depth)), VECTORS, width=8)
    assert found.draws == 1
    assert any("returned another model when it was called again" in note for note in found.notes)


class Quantised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 2, dtype=torch.int8), requires_grad=False)


def test_what_cannot_be_measured_is_refused_in_a_sentence() -> None:
    refusals: list[tuple[Any, Any, dict[str, Any], str]] = [
        (lambda n: perceptron(n), VECTORS, {}, "`width` must be given with a function"),
        (
            lambda n: n,
            VECTORS,
            {"width": 8},
            "`build` must return a torch.nn.Module; it returned int",
        ),
        (
            nn.Linear(16, 2, device="meta"),
            VECTORS,
            {},
            "has no numbers in 'weight', which is on the device 'meta'",
        ),
        (Quantised(), VECTORS, {}, "Give the model that it was quantised from"),
        (nn.Linear(3, 2), VECTORS, {}, "cannot be called with `batch`: it raised RuntimeError"),
        (nn.Linear(16, 2), None, {}, "`batch` must be what the model is called with"),
        (
            nn.Linear(16, 2),
            VECTORS,
            {"loss": lambda m, b: b.sum()},
            "`loss` does not call the model",
        ),
        (nn.Linear(16, 2), VECTORS, {"loss": lambda m, b: m(b)}, "`loss` must return one number"),
        (
            nn.Linear(16, 2),
            VECTORS,
            {"loss": lambda m, b: m(b[0, :3])},
            "`loss` raised RuntimeError",
        ),
        (
            Own(overwriting, 16, 16),
            VECTORS,
            {},
            "backward pass raised RuntimeError: one of the variables",
        ),
        (nn.LayerNorm(16), VECTORS, {}, "No random layer was seen"),
    ]
    for build, batch, how, sentence in refusals:
        with pytest.raises(PlanError, match=sentence):
            measured(build, batch, **how)


def test_a_branch_that_norms_precede_grows_as_it_is_said_to() -> None:
    """Branches of one size v add up: the last stream over what enters is sqrt(1 + Bv/e)."""
    found = measured(Decoder(64, 12, factor=1.0), WRONG["zero gains"][1])
    joined = [r.joined for r in found.rows if r.joined]
    total = sum(j.branch**2 for j in joined)
    (finding,) = found.findings
    assert finding.number == pytest.approx(math.sqrt(1 + total / joined[0].skip ** 2), rel=0.15)
