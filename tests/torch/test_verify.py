"""Agreement: real networks over widths against their plan; wrong training scripts and the tensor to blame."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import scalewise as sw
from grids import thorough
from scalewise.plan import PlanError
from scalewise.plan._check import Check
from scalewise.plan._diagnosis import Cause
from scalewise.torch import TorchPlan
from torch_models import mlp

WIDE, SHORT = [64, 128, 256, 512, 1024], [64, 128, 256, 512]
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
GENERATOR = torch.Generator().manual_seed(1)
POINTS = torch.randn(32, 8, generator=GENERATOR), torch.randint(10, (32,), generator=GENERATOR)


def build(width: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 10))


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def planned(
    strategy: Any, optimizer: str, factory: Any = build, base: int = 64, **options: Any
) -> TorchPlan:
    return sw.torch.plan(
        factory, base={"width": base}, target={"width": 4 * base}, strategy=strategy,
        optimizer=optimizer, **options,
    )  # fmt: skip


def verified(plan: TorchPlan, **options: Any) -> Check:
    settings: dict[str, Any] = {"widths": SHORT} | options
    return plan.verify(POINTS, loss, **settings)


@pytest.mark.covers("E2")
@pytest.mark.parametrize(
    ("s", "optimizer"),
    [
        ("3/4", "adamw"),
        *thorough(("1", "sgd"), ("0", "sgd"), ("1/2", "sgd"), ("0", "adam"), ("1", "adam")),
    ],
)
def test_hidden_layers_move_by_the_power_of_the_family(s: str, optimizer: str) -> None:
    c = verified(planned(sw.scaling.meta(s), optimizer), widths=WIDE)
    wanted = -(1 - float(Fraction(s))) / 2
    for name in ("0.weight", "2.weight", "4.weight"):
        assert c.row(name, "change").fit.slope == pytest.approx(wanted, abs=0.05)
        assert c.row(name, "change").fit.sem < 0.03
    assert c.row("6.weight", "change").fit.slope == pytest.approx(0, abs=0.06)
    assert str(c.verdict) == ("feature learning" if s == "1" else "kernel regime") + ", stable"
    c.assert_ok()
    # Far from rounding, and well inside the linear response.
    assert c.measured.nonlinearity.max() < 0.05
    assert c.measured.lr is not None
    sizes = c.table["size"].sel(tensor="2.weight")
    assert float((sizes.sel(quantity="change") / sizes.sel(quantity="output")).min()) > 1e-4


@pytest.mark.covers("E2")
@pytest.mark.parametrize(
    ("strategy", "optimizer", "verdict"),
    [
        (sw.scaling.ntk(), "sgd", "kernel regime, stable"),
        (sw.scaling.standard(), "sgd", "unstable"),
        *thorough(
            (sw.scaling.mup(), "adamw", "feature learning, stable"),
            (sw.scaling.mean_field(), "sgd", "feature learning, stable"),
            (sw.scaling.standard(), "adam", "unstable"),
        ),
    ],
)
def test_verdicts_by_measurement_alone(
    strategy: sw.scaling.Strategy, optimizer: str, verdict: str
) -> None:
    # Planned otherwise: only the setup scales so.
    def setup(plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
        right = truth.at(width=plan.table.target["width"])
        right.init_(model)
        lr = {"sgd": 1e-2, "adam": 1e-5, "adamw": 1e-4}[optimizer]
        return OPTIMIZERS[optimizer](right.param_groups(model, lr=lr, weight_decay=0.0))

    truth = planned(strategy, optimizer)
    other = sw.scaling.ntk() if verdict.startswith("feature") else sw.scaling.mup()
    c = verified(planned(other, optimizer), setup=setup)
    assert str(c.verdict) == verdict
    assert not c.ok
    assert str(verified(truth, seeds=2).verdict) == verdict


def spoiled(
    optimizer: str, name: str, *, init: float = 0.0, rate: float = 0.0
) -> Callable[[TorchPlan, nn.Module], torch.optim.Optimizer]:
    """A training script with one mistake: a power of the width in one tensor's settings."""

    def setup(plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        factor = plan.table.target["width"] / 64
        tensor = dict(model.named_parameters())[name]
        with torch.no_grad():
            tensor.mul_(factor**init)
        lr = 3e-2 if optimizer == "sgd" else 1e-4
        groups = plan.param_groups(model, lr=lr, weight_decay=0.0)
        out = []
        for g in groups:
            mine = [p for p in g["params"] if p is tensor]
            rest = [p for p in g["params"] if p is not tensor]
            out += [g | {"params": rest}] if rest else []
            out += [g | {"params": mine, "lr": g["lr"] * factor**rate}] if mine else []
        return OPTIMIZERS[optimizer](out)

    return setup


@pytest.mark.parametrize(
    ("optimizer", "name", "power"),
    [
        ("sgd", "4.weight", 0.5),
        ("adam", "2.weight", -0.5),
        ("sgd", "6.weight", 0.5),
        ("adam", "2.bias", 0.5),
        *thorough(
            ("adam", "4.weight", 0.5),
            ("sgd", "2.weight", -0.5),
            ("sgd", "0.weight", 0.5),
            ("adam", "6.weight", -0.5),
        ),
    ],
)
def test_one_wrong_initialisation_is_named(optimizer: str, name: str, power: float) -> None:
    setup = spoiled(optimizer, name, init=power)
    c = verified(planned(sw.scaling.mup(), optimizer), setup=setup, seeds=3)
    (culprit,) = c.culprits
    assert (culprit.tensor, culprit.cause) == (name, Cause.INITIALISATION)
    assert culprit.power == pytest.approx(power, abs=0.13)
    size = "large" if power > 0 else "small"
    with pytest.raises(AssertionError, match=rf"`{name}` is initialised too {size}, by n\^"):
        c.assert_ok()


@pytest.mark.parametrize("optimizer", ["adam", *thorough("sgd")])
@pytest.mark.parametrize(
    ("name", "power"),
    [
        ("2.weight", 0.5),
        ("0.weight", -0.5),
        ("6.bias", -0.5),
        *thorough(("6.weight", 0.5), ("4.bias", 0.5)),
    ],
)
def test_one_wrong_learning_rate_is_named(optimizer: str, name: str, power: float) -> None:
    setup = spoiled(optimizer, name, rate=power)
    c = verified(planned(sw.scaling.mup(), optimizer), setup=setup, seeds=3)
    (culprit,) = c.culprits
    assert (culprit.tensor, culprit.cause) == (name, Cause.LEARNING_RATE)
    assert culprit.power == pytest.approx(power, abs=0.13)
    with pytest.raises(AssertionError, match=rf"`{name}` has a learning rate too "):
        c.assert_ok()


def test_the_neural_tangent_script_is_told_from_the_planned_one() -> None:
    def setup(plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=1e-2)

    c = verified(planned(sw.scaling.mup(), "sgd"), setup=setup, seeds=3)
    # PyTorch's own initialisation is right for hidden layers and too large for this readout.
    named = {(k.tensor, k.cause): k.power for k in c.culprits}
    assert named["6.weight", Cause.INITIALISATION] == pytest.approx(0.5, abs=0.1)
    assert named["0.weight", Cause.LEARNING_RATE] == pytest.approx(-1, abs=0.1)
    assert ("2.weight", Cause.INITIALISATION) not in named


def zero_readout(width: int) -> nn.Module:
    model = build(width)
    nn.init.zeros_(model[-1].weight)
    nn.init.zeros_(model[-1].bias)
    return model


@pytest.mark.parametrize("optimizer", ["sgd", *thorough("adam")])
def test_a_readout_that_starts_at_zero(optimizer: str) -> None:
    plan = planned(sw.scaling.mup(), optimizer, zero_readout)
    c = verified(plan, seeds=3)
    assert (c.measured.steps, c.measured.zero_readout) == (2, True)
    assert str(c.verdict) == "feature learning, stable"
    c.assert_ok()
    for name in ("2.weight", "4.weight"):
        assert c.row(name, "change").fit.slope == pytest.approx(0, abs=0.06)
    with pytest.raises(PlanError, match=r"The readout `6.weight` starts at zero.*Take steps=2"):
        verified(plan, steps=1)
    slow = verified(planned(sw.scaling.ntk(), optimizer, zero_readout), seeds=3)
    assert str(slow.verdict) == "kernel regime, stable"


@pytest.mark.parametrize("optimizer", ["adamw", *thorough("sgd")])
def test_a_convnet(optimizer: str) -> None:
    def convnet(width: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, width, 3), nn.ReLU(inplace=True), nn.Conv2d(width, width, 3, bias=False),
            nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(0.1), nn.Conv2d(width, 10, 1),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip

    generator = torch.Generator().manual_seed(0)
    batch = torch.randn(6, 3, 8, 8, generator=generator), torch.arange(6)
    plan = planned(sw.scaling.mup(), optimizer, convnet, 16)
    c = plan.verify(batch, loss, widths=[16, 32, 64, 128], seeds=6)
    c.assert_ok()
    assert str(c.verdict) == "feature learning, stable"
    for name in ("0.weight", "2.weight"):
        fit = c.row(name, "change").fit
        assert abs(fit.slope) < 0.05 + 3 * fit.sem
    # A batch norm takes the mean out, and with it whatever a bias would do.
    assert c.row("3.weight", "weight").fit.slope == 0


class Bottleneck(nn.Module):
    """A hidden layer beside a path through eight units."""

    def __init__(self, width: int):
        super().__init__()
        self.first = nn.Linear(8, width)
        self.middle = nn.Linear(width, width)
        self.down = nn.Linear(width, 8, bias=False)
        self.up = nn.Linear(8, width, bias=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        return self.head(torch.tanh(self.middle(x) + self.up(self.down(x))))


def test_a_bottleneck_starts_small() -> None:
    roles = {"down.weight": "bottleneck"}
    plan = planned(sw.scaling.mup(), "sgd", Bottleneck, roles=roles)
    c = verified(plan)
    c.assert_ok()
    assert c.verdict.stable
    assert abs(c.row("down.weight", "output").fit.slope + 0.5) < 0.1

    def large(at: TorchPlan, model: Any) -> torch.optim.Optimizer:
        # Drawn like a hidden matrix.
        at.init_(model)
        with torch.no_grad():
            model.down.weight.mul_((model.head.in_features / 64) ** 0.5)
        return torch.optim.SGD(at.param_groups(model, lr=0.3))

    (culprit,) = verified(plan, setup=large).culprits
    assert (culprit.tensor, round(2 * culprit.power)) == ("down.weight", 1)


class Transformer(nn.Module):
    """Heads of fixed size between an embedding, a bare tensor of positions, and a readout."""

    def __init__(self, width: int):
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.positions = nn.Parameter(torch.randn(8, width))
        layer = nn.TransformerEncoderLayer(
            width, width // 16, 2 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.encoder(self.embed(tokens) + self.positions)))


def next_token(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def tokens() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    words = torch.randint(20, (2, 9), generator=generator)
    return words[:, :-1], words[:, 1:]


@pytest.mark.parametrize("optimizer", ["adamw", *thorough("sgd")])
def test_a_transformer(optimizer: str) -> None:
    plan = planned(sw.scaling.mup(), optimizer, Transformer, 32, roles={"positions": "input"})
    c = plan.verify(tokens(), next_token, widths=[32, 64, 128, 256])
    c.assert_ok()
    assert str(c.verdict) == "feature learning, stable"
    name = "encoder.layers.0.self_attn.out_proj.weight"
    assert c.row(name, "own_change").fit.slope == pytest.approx(0, abs=0.12)
    assert c.row("positions", "own_change").fit.status == "absent"
    assert np.isnan(c.table["slope"].sel(tensor="positions", quantity="change"))
    if optimizer == "sgd":
        slow = planned(sw.scaling.ntk(), "sgd", Transformer, 32, roles={"positions": "input"})
        verdict = slow.verify(tokens(), next_token, widths=[32, 64, 128]).verdict
        assert str(verdict) == "kernel regime, stable"


class Tied(nn.Module):
    """A readout with the embedding's own weights."""

    def __init__(self, width: int):
        super().__init__()
        self.embed = nn.Embedding(20, width)
        nn.init.normal_(self.embed.weight, std=0.1)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        return self.head(x + self.mix(x).tanh())


def test_a_tied_readout_needs_its_multiplier() -> None:
    plan = planned(sw.scaling.mup(), "sgd", Tied)

    def setup(plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        plan.scale_(model)
        return torch.optim.SGD(plan.param_groups(model, lr=1e-2))

    c = plan.verify(tokens(), next_token, widths=SHORT, setup=setup)
    c.assert_ok()
    assert str(c.verdict) == "feature learning, stable"
    assert c.measured.readouts == ("head.weight",)
    assert str(c.table["role"].sel(tensor="head.weight").values) == "output"
    # By default `verify` scales as a script should.
    plan.verify(tokens(), next_token, widths=SHORT, seeds=2).assert_ok()
    said = planned(sw.scaling.mup(), "sgd", Tied, multiplied=["head"])
    bare = said.verify(tokens(), next_token, widths=SHORT)
    assert str(bare.verdict) == "unstable"
    assert (bare.culprits[0].cause, bare.culprits[0].tensor) == (Cause.FORWARD, "head.weight")
    assert "the plan has multipliers for `head`" in bare.culprits[0].text


def test_training_that_blows_up() -> None:
    def setup(plan: TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        return torch.optim.SGD(plan.param_groups(model, lr=1e30))

    def square(model: nn.Module, batch: Any) -> torch.Tensor:
        return model(batch[0]).square().mean()

    relu = planned(sw.scaling.mup(), "sgd", lambda width: mlp(width, 4))
    c = relu.verify(POINTS, square, widths=SHORT, seeds=2, steps=3, setup=setup)
    assert str(c.verdict) == "unstable"
    assert "is not finite" in c.verdict.reasons[0]
    assert not np.isnan(c.table["slope"].where(c.table["status"] == "diverged", 0.0)).any()
    with pytest.raises(AssertionError, match="Take a smaller learning rate"):
        c.assert_ok()


def test_depth_is_the_users() -> None:
    plan = sw.torch.plan(
        mlp, base={"width": 16, "depth": 3}, target={"width": 64, "depth": 6},
        strategy=sw.scaling.mup(), optimizer="sgd",
    )  # fmt: skip
    c = plan.verify(POINTS, loss, widths=[16, 32, 64], seeds=2, depth=4)
    assert [t for t in c.measured.tensors if t.endswith("weight")] == [
        f"{i}.weight" for i in (0, 2, 4, 6)
    ]


def test_what_cannot_be_verified() -> None:
    plan = planned(sw.scaling.mup(), "sgd")
    with pytest.raises(PlanError, match=r"at least three different widths.*got 64\."):
        verified(plan, widths=[64])
    with pytest.raises(PlanError, match="at least three different widths"):
        verified(plan, widths=[64, 128])
    with pytest.raises(PlanError, match=r"`seeds` must be at least 2.*got 1\."):
        verified(plan, seeds=1)
    with pytest.raises(
        PlanError, match=r"`steps` must be a whole number of at least 1 or None; got 0\."
    ):
        verified(plan, steps=0)
    with pytest.raises(PlanError, match="`lr` is for the default optimizer"):
        verified(plan, lr=0.1, setup=spoiled("sgd", "2.weight"))
    with pytest.raises(PlanError, match=r"`setup` must return the optimizer.*returned NoneType"):
        verified(plan, setup=lambda plan, model: None)
    with pytest.raises(PlanError, match="plan is for 'sgd', but the optimizer is a Adam"):
        verified(plan, setup=spoiled("adam", "2.weight"))
    with pytest.raises(PlanError, match="returned a tensor of shape"):
        plan.verify(POINTS, lambda m, b: m(b[0]), widths=SHORT)
    with pytest.raises(PlanError, match="No learning rate was found"):
        plan.verify(POINTS, lambda m, b: 0 * m(b[0]).sum(), widths=SHORT)
