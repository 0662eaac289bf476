"""Agreement: what hooks on modules do not see of real networks is seen otherwise, or said and not ok."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import scalewise as sw
from grids import thorough
from scalewise.plan._check import Check
from scalewise.plan._diagnosis import Cause
from scalewise.plan._measurement import Quantity

F = nn.functional
GENERATOR = torch.Generator().manual_seed(1)
POINTS = torch.randn(16, 16, generator=GENERATOR), torch.randint(10, (16,), generator=GENERATOR)
WIDTHS = [32, 64, 128, 256]


def verified(build: Any, loss: Any, **options: Any) -> Check:
    verify = {k: options.pop(k) for k in ("depths", "setup") if k in options}
    sizes = {"width": 32} | ({"depth": 2} if "depths" in verify else {})
    plan = sw.torch.plan(
        build, base=sizes, target={**sizes, "width": 128}, strategy=sw.scaling.mup(), **options
    )
    return plan.verify(
        POINTS, loss, widths=WIDTHS[: 3 if "depths" in verify else 4], seeds=3, **verify
    )


def labelled(model: nn.Module, batch: Any) -> torch.Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


class Autoencoder(nn.Module):
    """A decoder with the weights of the encoder, in no module."""

    def __init__(self, width: int, act: Any = torch.tanh):
        super().__init__()
        self.act = act
        self.w, self.z = nn.Linear(16, width), nn.Linear(width, 4)
        self.b = nn.Parameter(torch.zeros(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.linear(self.z(self.act(self.w(x))), self.z.weight.t())
        return F.linear(torch.tanh(hidden), self.w.weight.t(), self.b)


def test_outputs_that_no_readout_shows_are_seen_where_the_model_returns_them() -> None:
    def squares(model: nn.Module, batch: Any) -> torch.Tensor:
        return F.mse_loss(model(batch[0]), batch[0])

    # What a bias of fixed size moves does not hide it.
    # Its factor is said to be applied, and is not.
    said: dict[str, Any] = {"roles": {"z.weight": "output"}, "multiplied": ["w.weight"]}
    c = verified(Autoencoder, squares, **said)
    bent = verified(lambda width: Autoencoder(width, torch.relu), squares, **said)
    assert (c.ok, bent.ok) == (False, False), str(bent)
    assert c.culprits[0].cause is Cause.REGIME
    with pytest.raises(AssertionError, match="What the model returns moves less and less beside"):
        c.assert_ok()


class Bare(nn.Module):
    """A readout that is a parameter of the model's own, multiplied with in one of several ways."""

    def __init__(self, width: int, way: str):
        super().__init__()
        self.first, self.hidden = nn.Linear(16, width), nn.Linear(width, width)
        self.way, self.u = way, nn.Parameter(torch.randn(10, width) / width**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.hidden(torch.tanh(self.first(x))))
        ways = {
            "matmul": lambda: x @ self.u.T,
            "linear": lambda: F.linear(x, self.u),
            "einsum": lambda: torch.einsum("bi,oi->bo", x, self.u),
            "addmm": lambda: torch.addmm(x.new_zeros(10), x, self.u.t()),
            "hidden": lambda: (x[:, None, :] * (1.0 * self.u)).sum(-1),
        }
        return ways[self.way]()


SEEN = ["matmul", "linear", "einsum", "addmm"]


def test_a_readout_in_no_module_is_seen_in_every_product() -> None:
    found = {
        way: verified(lambda width, w=way: Bare(width, w), labelled, roles={"u": "output"})
        for way in SEEN
    }
    for way, c in found.items():
        assert c.ok, (way, str(c))
        assert c.row("u", "own_change").fit.status == "fitted", way
        assert str(c.verdict) == "feature learning, stable", way
        for q in ("features", "features_change", "own_change", "output", "change"):
            a, b = (f.measured.of("u", Quantity(q)) for f in (c, found["matmul"]))
            np.testing.assert_allclose(a, b, rtol=1e-3, err_msg=f"{way} {q}")
    # The same network with its readout in a module.
    model, one = nn.Sequential, found["matmul"]
    whole = verified(
        lambda width: model(
            nn.Linear(16, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 10, bias=False)
        ),
        labelled,
    )  # fmt: skip
    for q in ("features_change", "own_change", "change"):
        assert one.row("u", q).fit.slope == pytest.approx(
            whole.row("4.weight", q).fit.slope, abs=0.1
        )


def test_what_nobody_saw_is_said_and_is_not_ok() -> None:
    c = verified(lambda width: Bare(width, "hidden"), labelled, roles={"u": "output"})
    assert not c.ok
    assert [(k.tensor, k.cause) for k in c.culprits] == [("u", Cause.UNSEEN)]
    assert "What the readout `u` reads and returns was not seen" in str(c)
    found = sw.torch.audit(
        lambda width: Bare(width, "hidden"), (torch.optim.AdamW, {"lr": 1e-3}), labelled, POINTS,
        widths=WIDTHS, seeds=2,
    )  # fmt: skip
    assert not found.ok
    assert not found.maximal
    assert np.isnan(found.r)
    assert "What the readout `u` reads and returns was not seen" in str(found)


class Deep(nn.Module):
    """Branches that nobody scales, and a readout that is seen or not."""

    def __init__(self, width: int, depth: int, way: str):
        super().__init__()
        self.first = nn.Linear(16, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.way, self.u = way, nn.Parameter(torch.randn(10, width) / width**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + torch.tanh(block(x)) if self.way == "stream" else torch.tanh(block(x))
        return (
            F.linear(x, self.u)
            if self.way != "hidden"
            else (x[:, None, :] * (1.0 * self.u)).sum(-1)
        )


@pytest.mark.parametrize(
    ("way", "cause"), [("plain", None), ("stream", Cause.DEPTH), ("hidden", Cause.UNSEEN)]
)
def test_a_depth_that_fails_or_was_not_seen_has_a_culprit(way: str, cause: Cause | None) -> None:
    c = verified(
        lambda width, depth: Deep(width, depth, way),
        labelled,
        depths=[2, 4, 8],
        roles={"u": "output"},
    )
    assert c.depth is not None
    assert c.depth.ok is c.ok is (cause is None), str(c)
    if cause is not None:
        last = c.culprits[-1]
        assert last.cause is cause
        assert last.text == str(c.depth)
        assert str(c).count(str(c.depth)) == 1


class Beside(nn.Module):
    """Features beside 63 numbers that do not grow with the width."""

    def __init__(self, width: int, power: float = 0.0):
        super().__init__()
        self.first, self.hidden = nn.Linear(16, width), nn.Linear(width, width)
        self.out, self.factor = nn.Linear(width + 63, 10), width**power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        more = torch.sin(x.repeat(1, 4)[:, :63] * torch.arange(1, 64))
        x = self.factor * torch.tanh(self.hidden(torch.tanh(self.first(x))))
        # As a sum, which does not show that two are put beside each other.
        beside = F.pad(x, (0, more.shape[1])) + F.pad(more, (x.shape[1], 0))
        return self.out(beside)


def test_inputs_that_do_not_grow_are_told_as_a_reason() -> None:
    narrow = verified(Beside, labelled, inputs=POINTS[0])
    assert not narrow.ok
    (culprit,) = narrow.culprits
    assert culprit.cause is Cause.WIDTHS
    assert "`out.weight` sums over n + 63 inputs" in culprit.text
    assert "verify at widths from 1024 on" in culprit.text
    wide = sw.torch.plan(
        Beside, base={"width": 512}, target={"width": 2048}, strategy="mup", inputs=POINTS[0]
    )
    c = wide.verify(POINTS, labelled, widths=[512, 1024, 2048], seeds=2)
    assert c.ok, str(c)
    # A matrix of the width alone has no such excuse.
    assert "inputs. Those" not in str(
        verified(lambda width: Bare(width, "linear"), labelled, roles={"u": "output"})
    )


class Weighed(nn.Module):
    """Two readouts whose losses are weighed by learnt variances, and a spread of its own, as policies have."""

    def __init__(self, width: int, spread: bool):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(16, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.a, self.b = nn.Linear(width, 3), nn.Linear(width, 2)
        self.log_vars, self.log_std = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3))
        self.spread = spread

    def forward(self, x: torch.Tensor) -> Any:
        x = self.body(x)
        mean = self.a(x)
        spread = (torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean)),)
        return (*(spread if self.spread else (mean,)), self.b(x))


def weighed(model: Any, batch: Any) -> torch.Tensor:
    one, two = model(batch[0])
    target = batch[0][:, :3]
    if model.spread:
        first = -one.log_prob(target).mean()
    else:
        first = (((one - target) / model.log_std.exp()).square() + model.log_std).mean()
    errors = torch.stack([first, F.mse_loss(two, batch[0][:, 3:5])])
    return (torch.exp(-model.log_vars) * errors + model.log_vars).sum()


@pytest.mark.parametrize("spread", [False, *thorough(True)])
def test_tensors_that_the_loss_alone_uses_have_gradients_of_their_own(spread: bool) -> None:
    def build(width: int) -> nn.Module:
        return Weighed(width, spread)

    for optimizer in ("adamw", "sgd"):
        c = verified(build, weighed, optimizer=optimizer)
        assert c.ok, str(c)

    # Its rate is planned all the same.
    def setup(plan: Any, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        groups = plan.param_groups(model, lr=1e-4, weight_decay=0.0)
        wrong = dict(model.named_parameters())["log_vars"]
        for g in groups:
            g["params"] = [p for p in g["params"] if p is not wrong]
        width = plan.table.target["width"]
        return torch.optim.AdamW(
            [*groups, {"params": [wrong], "lr": 1e-4 * width**0.5, "weight_decay": 0.0}]
        )

    (culprit,) = verified(build, weighed, setup=setup).culprits
    assert (culprit.tensor, culprit.cause) == ("log_vars", Cause.LEARNING_RATE)


class Multiplied(nn.Module):
    """Code that multiplies what a hidden layer and the readout return by powers of the width."""

    def __init__(self, width: int, inner: float, last: float):
        super().__init__()
        self.a, self.b, self.h = nn.Linear(16, width), nn.Linear(width, width), nn.Linear(width, 10)
        self.inner, self.last = (width / 32) ** inner, (width / 32) ** last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.h(torch.tanh(self.b(torch.tanh(self.a(x))) * self.inner)) * self.last


def erring(name: str, init: float, rate: float) -> Any:
    """A script with one mistake."""

    def setup(plan: Any, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        wrong, factor = dict(model.named_parameters())[name], plan.table.target["width"] / 32
        with torch.no_grad():
            wrong.mul_(factor**init)
        groups = []
        for g in plan.param_groups(model, lr=1e-4, weight_decay=0.0):
            groups.append(g | {"params": [p for p in g["params"] if p is not wrong]})
            if any(p is wrong for p in g["params"]):
                groups.append(g | {"params": [wrong], "lr": g["lr"] * factor**rate})
        return torch.optim.AdamW([g for g in groups if g["params"]])

    return setup


@pytest.mark.parametrize(("inner", "last"), [(0.0, -1.0), *thorough((-0.5, 0.0), (0.5, -0.5))])
def test_what_code_multiplies_after_a_module_is_passed_on(inner: float, last: float) -> None:
    def build(width: int) -> nn.Module:
        return Multiplied(width, inner, last)

    c = verified(build, labelled)
    assert c.ok, str(c)
    assert str(c.verdict) == "feature learning, stable"
    for name, init, rate, cause in (
        ("h.weight", 0.5, 0.0, Cause.INITIALISATION),
        ("b.weight", 0.0, 0.5, Cause.LEARNING_RATE),
    ):
        wrong = verified(build, labelled, setup=erring(name, init, rate))
        (culprit,) = wrong.culprits
        assert (culprit.tensor, culprit.cause) == (name, cause)
        assert not wrong.verdict.stable


class Attention(nn.Module):
    """Heads of eight units."""

    def __init__(self, width: int):
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (f(x).unflatten(-1, (-1, 8)).transpose(1, 2) for f in self.qkv)
        return x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Attends(nn.Module):
    """Attention of a module that is not trained."""

    def __init__(self, width: int):
        super().__init__()
        self.e, self.attention, self.h = nn.Linear(1, width), Attention(width), nn.Linear(width, 10)
        self.attention.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.h(self.attention(self.e(x[..., None])).mean(1))


def test_attention_that_is_not_trained_was_seen_not_to_move() -> None:
    c = verified(Attends, labelled)
    assert c.ok, str(c)
    sizes = {q: a for (place, q), a in c.measured.attention.items() if place == "attention"}
    assert (sizes[Quantity.LOGITS] > 0).all()
    assert not sizes[Quantity.LOGITS_CHANGE].any()
