"""Golden and error tests: parameter groups, as few as there can be and with the user's own settings."""

import math

import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from torch_models import Transformer, mlp, planned

# What check_schedule compares with, since schedules overwrite everything else.
STAMPS = ("base_lr", "base_weight_decay", "lr_factor")


def by_name(model: nn.Module, groups: list[dict]) -> dict[str, dict]:
    named = {id(p): n for n, p in model.named_parameters()}
    return {named[id(p)]: g for g in groups for p in g["params"]}


def test_every_parameter_is_in_one_group_and_groups_are_few() -> None:
    model = mlp(64, depth=8)
    plan = planned(lambda width: mlp(width, depth=8), optimizer="sgd")
    groups = plan.param_groups(model, lr=0.1, momentum=0.9)
    assert sorted(id(p) for g in groups for p in g["params"]) == sorted(map(id, model.parameters()))
    found = [(g["name"], g["lr"], len(g["params"])) for g in groups]
    assert found == [("input+vector", 0.4, 8), ("hidden+fixed", 0.1, 7), ("output", 0.025, 1)]
    assert all(g["momentum"] == 0.9 for g in groups)
    assert all(set(g) == {"params", "lr", "weight_decay", "name", "momentum", *STAMPS}
               for g in groups)  # fmt: skip
    assert {type(g) for g in groups} == {dict}


def test_settings_of_no_effect_split_no_group() -> None:
    # A first layer that starts smaller has more decay, relative to its gradient, and nothing else.
    strategy = sw.scaling.pqr((1, 0, 1), (-1, -1, 0), 0)
    plan, model = planned(strategy=strategy, optimizer="adam"), mlp(64)
    with_decay = plan.param_groups(model, lr=0.1, weight_decay=0.1)
    without = plan.param_groups(model, lr=0.1, weight_decay=0.0)
    names = [g["name"] for g in with_decay]
    assert names == ["input+vector", "hidden", "vector", "output", "fixed"]
    assert [g["name"] for g in without] == ["input+vector", "hidden", "output", "fixed"]
    assert all(g["weight_decay"] == 0 for g in without)


@pytest.mark.parametrize(("name", "decay"), [("sgd", 0), ("adam", 0), ("adamw", 0.01)])
def test_omitted_settings_are_those_of_torch_and_scaled(name: str, decay: float) -> None:
    model = mlp(64)
    found = by_name(model, planned(optimizer=name).param_groups(model, lr=1e-3))
    factors = planned(optimizer=name).factors("2.weight")
    assert found["2.weight"]["lr"] == pytest.approx(1e-3 * factors.lr)
    assert found["2.weight"]["weight_decay"] == pytest.approx(decay * factors.weight_decay)
    if name == "sgd":
        assert "eps" not in found["2.weight"]
    else:
        assert found["2.weight"]["eps"] == pytest.approx(1e-8 * factors.eps)


def test_a_tensor_is_copied_for_each_group() -> None:
    plan, model, lr = planned(), mlp(64), torch.tensor(0.01)
    groups = plan.param_groups(model, lr=lr)
    assert lr == 0.01
    assert len({g["lr"].data_ptr() for g in groups} | {lr.data_ptr()}) == len(groups) + 1
    found = by_name(model, groups)
    assert found["0.weight"]["lr"] == torch.tensor(0.01)
    assert found["2.weight"]["lr"] == torch.tensor(0.01) / 4
    assert all(isinstance(g["lr"], torch.Tensor) and g["lr"].ndim == 0 for g in groups)
    torch.optim.AdamW(groups, capturable=False, foreach=False)


def test_groups_of_the_users_own() -> None:
    plan, model = planned(Transformer), Transformer(64)
    groups = plan.param_groups(
        model,
        lr=0.1,
        weight_decay=0.2,
        groups=[
            {"params": ["*norm*", "*bias"], "weight_decay": 0.0, "name": "plain"},
            {"params": [model.head.weight], "lr": 0.5},
            {"params": "embed.weight", "betas": (0.5, 0.9)},
        ],
    )
    found = by_name(model, groups)
    assert len(found) == len(list(model.parameters()))
    layer = "encoder.layers.0."
    assert found[f"{layer}norm1.weight"] is found[f"{layer}linear1.bias"]
    assert found[f"{layer}norm1.weight"]["weight_decay"] == 0
    assert found[f"{layer}norm1.weight"]["name"] == "plain: vector"
    assert found[f"{layer}linear1.weight"]["weight_decay"] == pytest.approx(0.8)
    assert found["head.weight"]["lr"] == pytest.approx(0.125)
    assert found["head.weight"]["weight_decay"] == pytest.approx(0.8)
    assert found["head.weight"]["name"] == "group 1: output"
    assert found["embed.weight"]["betas"] == (0.5, 0.9)
    assert len(groups) == 4
    pairs = [{"params": model.named_parameters(), "lr": 0.3}]
    assert {g["base_lr"] for g in plan.param_groups(model, lr=0.1, groups=pairs)} == {0.3}


def test_groups_that_cannot_be_are_refused() -> None:
    plan, model = planned(), mlp(64)

    def refused(match: str, *groups: dict) -> None:
        with pytest.raises(PlanError, match=match):
            plan.param_groups(model, lr=0.1, groups=groups)

    refused(r"Two of the `groups` hold `0.bias`", {"params": "*bias"}, {"params": ["0.*"]})
    refused(
        r"`groups\[1\]` names 'tail.\*', which fits no", {"params": "0.*"}, {"params": "tail.*"}
    )
    refused(r"`groups\[0\]` holds a tensor of shape \(3,\)", {"params": [torch.zeros(3)]})
    refused(r"`groups\[0\]` has no \"params\"", {"lr": 0.1})
    refused(r"`lr` must be a finite number, not negative; got -1", {"params": "0.*", "lr": -1})


ODD = [-0.1, math.nan, math.inf, True, "fast", [0.1], {}, 1j, torch.ones(2), torch.tensor(1j)]


@pytest.mark.parametrize("bad", ODD, ids=repr)
@pytest.mark.parametrize("setting", ["lr", "eps", "weight_decay"])
def test_settings_that_are_no_numbers_are_refused(setting: str, bad: object) -> None:
    with pytest.raises(PlanError, match=rf"`{setting}` must be (a finite|one) number"):
        planned().param_groups(mlp(64), **({"lr": 0.1} | {setting: bad}))


def test_the_learning_rate_must_be_given() -> None:
    # Left out, AdamW(plan.param_groups(model), lr=0.5) would train at whatever stands in for it.
    with pytest.raises(TypeError, match="lr"):
        planned().param_groups(mlp(64))  # pyright: ignore[reportCallIssue]
    with pytest.raises(PlanError, match=r"`lr` is the learning rate .* must be given .*got None"):
        planned().param_groups(mlp(64), lr=None)


def test_the_pair_of_adafactor_is_refused() -> None:
    with pytest.raises(
        PlanError, match=r"`eps` must be one number; got \(1e-30, 0.001\).*Adafactor"
    ):
        planned().param_groups(mlp(64), lr=0.1, eps=(1e-30, 1e-3))


def test_settings_of_the_plan_cannot_be_given() -> None:
    with pytest.raises(PlanError, match=r"`lr_factor` is set by the plan"):
        planned().param_groups(mlp(64), lr=0.1, lr_factor=2.0)
    with pytest.raises(PlanError, match=r"Gradient descent has no `eps`"):
        planned(optimizer="sgd").param_groups(mlp(64), lr=0.1, eps=1e-8)


def test_unknown_parameters_are_refused() -> None:
    model = mlp(64)
    model.extra = nn.Parameter(torch.zeros(3))
    with pytest.raises(PlanError, match=r"no tensor `extra`"):
        planned().param_groups(model, lr=0.1)


def test_a_child_called_module_is_no_wrapper() -> None:
    def build(width: int) -> nn.Module:
        return nn.ModuleDict({"module": nn.Linear(8, width), "head": nn.Linear(width, 2)})

    plan = planned(build)
    assert plan.table.tensors[0].name == "module.weight"
    wrapped = torch.optim.swa_utils.AveragedModel(build(64))
    assert sum(len(g["params"]) for g in plan.param_groups(wrapped, lr=0.1)) == 4


def test_strategies_of_two_layers() -> None:
    def build(width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 10))

    two = planned(build, strategy=sw.scaling.mup(depth=2), optimizer="sgd")
    three = planned(build, strategy=sw.scaling.mup(), optimizer="sgd")
    for name in ("0.weight", "0.bias", "2.weight", "2.bias"):
        assert two.factors(name) == three.factors(name)
    with pytest.raises(ValueError, match=r"no exponents for hidden layers"):
        planned(strategy=sw.scaling.mup(depth=2))
    deep = planned(strategy=sw.scaling.mup(depth=6))
    assert deep.factors("2.weight") == planned().factors("2.weight")
    assert planned(strategy=sw.scaling.mup().to_abc()).factors("2.weight") == deep.factors(
        "2.weight"
    )
