"""Golden: at the base a plan is the identity, bitwise; elsewhere its factors are those worked by hand."""

import copy
import math

import pytest
import torch
from torch import nn

import scalewise as sw
from torch_models import Transformer, batch, entries, mlp, planned, same, trained

OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
STRATEGIES = [sw.scaling.mup(), sw.scaling.ntk(), sw.scaling.standard(), sw.scaling.meta("1/2")]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_identity_at_the_base_bitwise(name: str, strategy: sw.scaling.Strategy) -> None:
    plan = planned(base=16, target=16, strategy=strategy, optimizer=name)
    plain = mlp(16)
    model = plan.init_(copy.deepcopy(plain))
    assert same(entries(model), entries(plain))
    extra = {"momentum": 0.9} if name == "sgd" else {"betas": (0.8, 0.99)}
    groups = plan.param_groups(model, lr=0.01, weight_decay=0.1, **extra)
    assert len(groups) == 1
    trained(model, OPTIMIZERS[name](groups))
    trained(plain, OPTIMIZERS[name](plain.parameters(), lr=0.01, weight_decay=0.1, **extra))
    assert same(entries(model), entries(plain))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_is_left_out_is_as_in_torch(name: str) -> None:
    plan = planned(base=16, target=16, optimizer=name)
    model = mlp(16)
    plain = copy.deepcopy(model)
    trained(model, OPTIMIZERS[name](plan.param_groups(model, lr=1e-3)))
    trained(plain, OPTIMIZERS[name](plain.parameters()))
    assert same(entries(model), entries(plain))


def test_identity_at_the_base_whatever_the_model_holds() -> None:
    model = mlp(16)
    with torch.no_grad():
        model[2].weight.mul_(3)
    before = entries(model)
    assert same(entries(planned(base=16, target=16).init_(model)), before)


def test_identity_with_tied_weights_and_hooks() -> None:
    def build(width: int) -> nn.Module:
        return Transformer(width, tied=True)

    plan = planned(build, base=16, target=16)
    plain = build(16)
    model = plan.scale_(plan.init_(copy.deepcopy(plain)))
    tokens = torch.arange(10).reshape(2, 5)
    assert torch.equal(model(tokens), plain(tokens))
    assert plan.multipliers == {"head": 1.0}
    assert not model.head._forward_pre_hooks


# Width and fan-ins four times the base's. Init: factor of the standard deviation. Without multipliers in
# the forward pass, neural-tangent layers have lr 1/n under gradient descent; maximal updates have lr n
# below the readout's side, 1 between and 1/n at the readout, and a readout of size 1/n. Adam's steps do
# not see the gradient's size, which is n^-1/2 (NTK) or 1/n (maximal update) below the readout.
ROWS = ("0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias")
BY_HAND = {
    ("mup", "sgd"): {
        "init": (1, 1, 1 / 2, 1, 1 / 4, 1),
        "lr": (4, 4, 1, 4, 1 / 4, 1),
        "eps": (1,) * 6,
        "weight_decay": (1 / 4, 1 / 4, 1, 1 / 4, 4, 1),
    },
    ("mup", "adamw"): {
        "init": (1, 1, 1 / 2, 1, 1 / 4, 1),
        "lr": (1, 1, 1 / 4, 1, 1 / 4, 1),
        "eps": (1 / 4, 1 / 4, 1 / 4, 1 / 4, 1, 1),
        "weight_decay": (1, 1, 4, 1, 4, 1),
    },
    ("ntk", "sgd"): {
        "init": (1, 1, 1 / 2, 1, 1 / 2, 1),
        "lr": (1, 1, 1 / 4, 1, 1 / 4, 1),
        "eps": (1,) * 6,
        "weight_decay": (1, 1, 4, 1, 4, 1),
    },
    ("ntk", "adam"): {
        "init": (1, 1, 1 / 2, 1, 1 / 2, 1),
        "lr": (1 / 2, 1 / 2, 1 / 8, 1 / 2, 1 / 4, 1),
        "eps": (1 / 2, 1 / 2, 1 / 2, 1 / 2, 1, 1),
        # Added to the gradient: gradient over weight.
        "weight_decay": (1 / 2, 1 / 2, 1, 1 / 2, 2, 1),
    },
    ("standard", "sgd"): {
        "init": (1, 1, 1 / 2, 1, 1 / 2, 1),
        "lr": (1,) * 6,
        "eps": (1,) * 6,
        "weight_decay": (1,) * 6,
    },
}


@pytest.mark.parametrize(("strategy", "optimizer"), BY_HAND)
def test_factors_are_those_worked_by_hand(strategy: str, optimizer: str) -> None:
    plan = planned(strategy=getattr(sw.scaling, strategy)(), optimizer=optimizer)
    expected = BY_HAND[strategy, optimizer]
    for i, name in enumerate(ROWS):
        factors = plan.factors(name)
        for setting, values in expected.items():
            assert getattr(factors, setting) == pytest.approx(values[i], rel=1e-14), (name, setting)
    model = plan.init_(mlp(64))
    groups = plan.param_groups(model, lr=0.5, weight_decay=0.25)
    named = {id(p): n for n, p in model.named_parameters()}
    for group in groups:
        for p in group["params"]:
            i = ROWS.index(named[id(p)])
            assert group["lr"] == pytest.approx(0.5 * expected["lr"][i])
            assert group["weight_decay"] == pytest.approx(0.25 * expected["weight_decay"][i])
            if optimizer != "sgd":
                assert group["eps"] == pytest.approx(1e-8 * expected["eps"][i])
            # PyTorch draws weights and biases of std 1/sqrt(3 fan_in) at the base.
            drawn = 1 / math.sqrt(3 * (8 if i < 2 else 16))
            wanted = drawn * expected["init"][i]
            error = 5 * math.sqrt(0.2 / min(p.numel(), plan[named[id(p)]].base_shape[0]))
            assert float(p.detach().std()) == pytest.approx(wanted, rel=2 * error)


@pytest.mark.covers("E1")
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_same_trajectory_as_with_a_multiplier_at_the_readout(optimizer: str) -> None:
    """The usual way to write maximal updates: a readout of constant size, divided by the width."""
    m = 4.0

    class Divided(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(input / m, self.weight, self.bias)

    plan = planned(strategy=sw.scaling.mup(), optimizer=optimizer)
    model = plan.init_(mlp(64)).double()
    other = copy.deepcopy(model)
    other[4] = Divided(64, 10).double()
    with torch.no_grad():
        other[4].weight.copy_(m * model[4].weight)
        other[4].bias.copy_(model[4].bias)
    lr, eps = 0.05, 1e-3
    vectors = [other[0].weight, other[0].bias, other[2].bias]
    if optimizer == "sgd":
        groups = [
            {"params": [*vectors, other[4].weight], "lr": lr * m},
            {"params": [other[2].weight, other[4].bias], "lr": lr},
        ]
        mine = torch.optim.SGD(plan.param_groups(model, lr=lr))
        theirs = torch.optim.SGD(groups)
    else:
        groups = [
            {"params": [*vectors, other[4].weight], "lr": lr, "eps": eps / m},
            {"params": [other[2].weight], "lr": lr / m, "eps": eps / m},
            {"params": [other[4].bias], "lr": lr, "eps": eps},
        ]
        mine = torch.optim.Adam(plan.param_groups(model, lr=lr, eps=eps))
        theirs = torch.optim.Adam(groups)
    trained(model, mine, 50)
    trained(other, theirs, 50)
    x = batch()[0].double()
    before = plan.init_(mlp(64)).double()
    assert (model(x) - before(x)).abs().max() > 0.1
    assert (model(x) - other(x)).abs().max() < 1e-12
