"""Golden and error tests: hooks multiply what no initialisation and no learning rate can."""

import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from torch_models import Transformer, planned


class Residual(nn.Module):
    """Branches that are added, one of which returns a pair."""

    def __init__(self, width: int, depth: int):
        super().__init__()
        self.inner = nn.Linear(8, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner(x)
        for block in self.blocks:
            x = x + block(input=x)[0]
        return self.head(x)


class Block(nn.Linear):
    def __init__(self, width: int):
        super().__init__(width, width)

    def forward(self, input: torch.Tensor) -> tuple[torch.Tensor, str]:
        return super().forward(input), "kept"


def residual(**options) -> sw.torch.TorchPlan:
    sizes = {"base": {"width": 16, "depth": 2}, "target": {"width": 16, "depth": 8}}
    return sw.torch.plan(Residual, strategy=sw.scaling.mup(), residual="1/2", **sizes, **options)


def tied(width: int) -> Transformer:
    return Transformer(width, tied=True)


def test_what_enters_a_tied_readout_is_multiplied() -> None:
    plan = planned(tied)
    model, tokens = tied(64), torch.arange(10).reshape(2, 5)
    before = model(tokens)
    assert plan.scale_(model) is model
    assert torch.allclose(model(tokens), before / 4)
    plan.scale_(model)
    assert torch.allclose(model(tokens), before / 4)
    assert len(model.head._forward_pre_hooks) == 1
    x = torch.randn(3, 64)
    assert torch.equal(model.head(input=x), model.head(x))


def test_branches_are_multiplied() -> None:
    plan = residual()
    assert plan.multipliers == {"residual": 0.5}
    model, x = Residual(16, 8), torch.randn(4, 8)
    inner = model.inner(x)
    branch, word = model.blocks[0](inner)
    plan.scale_(model, branches=["blocks.*"])
    scaled = model.blocks[0](inner)
    assert torch.equal(scaled[0], branch / 2)
    assert scaled[1] == word
    plan.scale_(model, branches=["blocks.*"])
    assert torch.equal(model.blocks[7](inner)[0] * 1.0, model.blocks[7](inner)[0])
    assert all(len(b._forward_hooks) == 1 for b in model.blocks)


def test_a_weight_that_ends_a_branch_carries_its_multiplier() -> None:
    plan = residual(branch_outputs=["blocks.*.weight"])
    assert plan.multipliers == {}
    assert plan.factors("blocks.3.weight").init == 0.5


def test_a_multiplier_that_nobody_applies_is_refused() -> None:
    plan = residual()
    with pytest.raises(
        PlanError, match=r"which modules are branches is not known.*applied=\[\"resid"
    ):
        plan.scale_(Residual(16, 8))
    with pytest.raises(PlanError, match=r"`branches` names 'layers.\*', which fits no module"):
        plan.scale_(Residual(16, 8), branches=["layers.*"])
    with pytest.raises(PlanError, match=r"`applied` names 'head', but the plan has 'residual'"):
        plan.scale_(Residual(16, 8), applied=["head"])
    model = plan.scale_(Residual(16, 8), applied=["residual"])
    assert not any(b._forward_hooks for b in model.blocks)


def test_a_multiplier_is_not_lost_on_reload() -> None:
    plan = planned(tied, optimizer="sgd")
    model = plan.scale_(plan.init_(tied(64)))
    tokens = torch.arange(10).reshape(2, 5)
    expected, state = model(tokens), model.state_dict()
    # As a training script that goes on: the same weights in a new model, which has no hooks.
    fresh = tied(64)
    fresh.load_state_dict(state)
    assert not torch.allclose(fresh(tokens), expected)
    with pytest.raises(
        PlanError, match=r"Nothing multiplies by 0.25 .*'head'.*plan.scale_\(model\)"
    ):
        plan.param_groups(fresh, lr=0.1)
    plan.param_groups(plan.scale_(fresh), lr=0.1)
    assert torch.equal(fresh(tokens), expected)
    for wrapped in (torch.compile(fresh, backend="eager"), nn.DataParallel(fresh)):
        plan.param_groups(wrapped, lr=0.1)
    # A model whose own code multiplies needs no hook, and gets none.
    own = planned(tied, multiplied=["head"])
    own.param_groups(tied(64), lr=0.1)
    with pytest.raises(
        PlanError, match=r"plan was made with multiplied=\['head'\].*no hook is needed"
    ):
        own.scale_(tied(64))


def test_a_residual_multiplier_is_not_lost_either() -> None:
    plan, model = residual(), Residual(16, 8)
    with pytest.raises(PlanError, match=r"Nothing multiplies by 0.5 .*'residual'.*branches="):
        plan.param_groups(model, lr=0.1)
    plan.param_groups(plan.scale_(model, branches=["blocks.*"]), lr=0.1)
    residual(multiplied=["residual"]).param_groups(Residual(16, 8), lr=0.1)
    residual(branch_outputs=["blocks.*.weight"]).param_groups(Residual(16, 8), lr=0.1)


def test_another_factor_is_refused() -> None:
    plan = planned(tied)
    model = plan.scale_(tied(64))
    other = planned(tied, base=32)
    with pytest.raises(
        PlanError, match=r"`head` is multiplied already, by another factor than 0.5"
    ):
        other.scale_(model)


def test_a_model_of_another_size_is_refused() -> None:
    with pytest.raises(PlanError, match=r"`embed.weight` has shape \(20, 32\)"):
        planned(tied).scale_(tied(32))
