"""Property and error tests: initialisation keeps each tensor's law, and is applied once."""

import math

import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from scalewise.torch._moments import moments
from torch_models import Transformer, entries, mlp, planned, same


def std(tensor: torch.Tensor) -> float:
    return float(tensor.detach().double().std(correction=0))


class Drawn(nn.Module):
    """Three layers whose entries are drawn as a test wants."""

    def __init__(self, width: int, draw=None):
        super().__init__()
        self.inner = nn.Linear(8, width)
        self.middle = nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, 10)
        if draw is not None:
            with torch.no_grad():
                draw(self, width)


def of(draw):
    return lambda width: Drawn(width, draw)


def test_spread_is_planned_and_a_second_call_changes_nothing() -> None:
    plan = planned(base=32, target=256)
    model = plan.init_(mlp(256))
    # A readout of constant size gets a variance of one over the width more than PyTorch gives it.
    assert std(model[4].weight) == pytest.approx(plan.std("4.weight"), rel=1e-5)
    assert plan.std("4.weight") == pytest.approx(1 / math.sqrt(3 * 32) / 8, rel=0.1)
    before = entries(model)
    plan.init_(model)
    assert same(entries(model), before)


def test_what_is_drawn_right_is_left_alone_bitwise() -> None:
    plan = planned(base=32, target=256, strategy=sw.scaling.ntk())
    model = mlp(256)
    weights = [model[i].weight.detach().clone() for i in (0, 2, 4)]
    plan.init_(model)
    # PyTorch's weights go as one over the root of the fan-in, as neural-tangent ones; its biases too.
    assert same([model[i].weight.detach() for i in (0, 2, 4)], weights)
    assert std(model[2].bias) == pytest.approx(plan.std("2.bias"), rel=1e-5)


def test_nothing_is_drawn() -> None:
    plan, model = planned(), mlp(64)
    state = torch.get_rng_state()
    plan.init_(model)
    assert torch.equal(torch.get_rng_state(), state)


def test_zeros_stay_zeros_and_ones_ones() -> None:
    plan = planned(Transformer, strategy=sw.scaling.meta(1))
    model = plan.init_(Transformer(64))
    assert not model.embed.weight[0].any()
    assert (model.encoder.layers[0].norm1.weight == 1).all()

    def zero_head(self: Drawn, _: int) -> None:
        self.head.weight.zero_()

    plan = planned(of(zero_head))
    assert plan.std("head.weight") == 0
    assert not plan.init_(Drawn(64, zero_head)).head.weight.any()


def test_zeros_among_what_is_drawn_stay_zeros() -> None:
    def sparse(self: Drawn, width: int) -> None:
        self.inner.weight.mul_(width**-0.5)
        self.inner.weight[:, 0] = 0

    plan = planned(of(sparse), base=32, target=256)
    model = Drawn(256, sparse)
    size = std(model.inner.weight)
    plan.init_(model)
    assert std(model.inner.weight) == pytest.approx(size * 8**0.5, rel=0.2)
    assert not model.inner.weight[:, 0].any()


def test_error_of_a_spread() -> None:
    # Kurtosis less 1: of normal, of uniform numbers and of signs.
    N = 40_000
    for drawn, expected in ((torch.randn(N), 2), (torch.rand(N), 0.8), (torch.randn(N).sign(), 0)):
        found = moments(drawn, "drawn")
        assert found.error == pytest.approx((expected / (4 * N)) ** 0.5, rel=0.03, abs=1e-4)
        assert found.std == pytest.approx(std(drawn), rel=1e-12)


def test_a_large_tensor_is_read_in_parts() -> None:
    """Whatever its strides, and where the parts differ."""
    drawn = torch.randn(2, 300, 500, generator=torch.Generator().manual_seed(0))
    drawn[1] = 3 * drawn[1] + 5
    for tensor in (drawn, drawn.transpose(1, 2)):
        found, x = moments(tensor, "w"), drawn.double()
        assert found.mean == pytest.approx(float(x.mean()), rel=1e-12)
        assert found.std == pytest.approx(float(x.std(correction=0)), rel=1e-12)
        fourth = float(((x - x.mean()) / x.std(correction=0)).pow(4).mean())
        assert found.error == pytest.approx(math.sqrt((fourth - 1) / 4 / x.numel()), rel=1e-4)


def test_a_mean_is_kept() -> None:
    def about_two(self: Drawn, width: int) -> None:
        self.middle.weight.normal_(2.0, 1.0)

    plan = planned(of(about_two), base=32, target=128)
    model = Drawn(128, about_two)
    mean = model.middle.weight.mean()
    plan.init_(model)
    assert torch.allclose(model.middle.weight.mean(), mean, rtol=1e-5)
    assert std(model.middle.weight) == pytest.approx(plan.std("middle.weight"), rel=1e-4)


def test_frozen_parameters_are_initialised_and_in_no_group() -> None:
    def build(width: int) -> nn.Module:
        model = mlp(width)
        model[4].weight.requires_grad_(False)
        return model

    plan = planned(build)
    model = plan.init_(build(64))
    assert std(model[4].weight) == pytest.approx(plan.std("4.weight"), rel=1e-5)
    assert not any(
        p is model[4].weight for g in plan.param_groups(model, lr=1.0) for p in g["params"]
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.complex64], ids=str)
def test_other_kinds_of_numbers(dtype: torch.dtype) -> None:
    def build(width: int) -> nn.Module:
        return nn.Sequential(*(nn.Linear(a, b, dtype=dtype) for a, b in ((8, width), (width, 10))))

    plan = planned(build)
    model = plan.init_(build(64))
    x = model[1].weight.detach()
    x = torch.view_as_real(x) if dtype.is_complex else x
    assert std(x) == pytest.approx(plan.std("1.weight"), rel=0.01)
    before = entries(model)
    assert same(entries(plan.init_(model)), before)


def test_two_values_have_no_error_of_their_spread() -> None:
    def signs(self: Drawn, width: int) -> None:
        self.head.weight.copy_(torch.sign(self.head.weight) / width**0.5)

    plan = planned(of(signs))
    model = plan.init_(Drawn(64, signs))
    wanted = plan.std("head.weight")
    assert std(model.head.weight) == pytest.approx(wanted, rel=1e-5)
    before = entries(model)
    assert same(entries(plan.init_(model)), before)


def test_constant_at_one_width_only_is_refused() -> None:
    def odd(self: Drawn, width: int) -> None:
        if width == 16:
            self.middle.weight.zero_()

    def other(self: Drawn, width: int) -> None:
        if width == 64:
            self.middle.weight.zero_()

    with pytest.raises(PlanError, match=r"`middle.weight` is the same at the base.*random here"):
        planned(of(odd)).init_(Drawn(64, odd))
    model = Drawn(64, other)
    before = entries(model)
    with pytest.raises(PlanError, match=r"`middle.weight` is the same here.*random at the base"):
        planned(of(other)).init_(model)
    assert same(entries(model), before)


def test_values_that_are_not_finite_are_refused() -> None:
    def bad(self: Drawn, width: int) -> None:
        self.middle.weight[0, 0] = math.nan

    with pytest.raises(PlanError, match=r"`middle.weight` holds NaN or infinity"):
        planned(of(bad))


def test_a_model_without_memory_is_refused() -> None:
    with torch.device("meta"):
        model = mlp(64)
    with pytest.raises(PlanError, match=r"`0.weight` has no memory .*to_empty"):
        planned().init_(model)


def test_a_model_that_is_not_the_plans_is_refused() -> None:
    plan = planned()
    with pytest.raises(
        PlanError, match=r"`0.weight` has shape \(16, 8\).*\(64, 8\), at width = 64"
    ):
        plan.init_(mlp(16))
    with pytest.raises(
        PlanError, match=r"`4.weight` has shape \(64, 64\), but the plan is for \(10, 64"
    ):
        plan.init_(mlp(64, depth=4))
    with pytest.raises(PlanError, match=r"no tensor `5.weight`"):
        plan.init_(nn.Sequential(*mlp(64), nn.Linear(10, 10)))
    with pytest.raises(PlanError, match=r"model has no tensor `4.bias`.*width = 64"):
        plan.init_(nn.Sequential(*mlp(64)[:4], nn.Linear(64, 10, bias=False)))


def test_ties_must_be_those_of_the_plan() -> None:
    plan = planned(lambda width: Transformer(width, tied=True), multiplied=["head"])
    with pytest.raises(
        PlanError, match=r"`head.weight` and `embed.weight` are one tied tensor in the pl"
    ):
        plan.init_(Transformer(64))
    with pytest.raises(PlanError, match=r"one tied tensor in this model"):
        planned(Transformer).init_(Transformer(64, tied=True))
