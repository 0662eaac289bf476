"""An initialisation that keeps the size of signals, from the network that a model is."""

import os
import sys

import numpy as np
import pytest
import torch
from torch import nn

import scalewise as sw
from models_to_read import CASES, POINTS, WORDS, Decoder

PlanError = sw.plan.PlanError


def sizes(net, x: np.ndarray) -> list[float]:
    """The mean kernel of every layer."""
    alike: dict[tuple, list[int]] = {}  # layers with the same positions are predicted together
    for layer, node in enumerate(net.program.layers, start=1):
        alike.setdefault(net.program.positions[node], []).append(layer)
    found = {}
    for layers in alike.values():
        kernel = sw.predict(net, x, layers=layers, observables="kernel").kernel
        first = [a for a in kernel.dims if a != "layer" and not str(a).endswith("_1")]
        second = [a for a in kernel.dims if str(a).endswith("_1")]
        for layer in layers:
            values = kernel.sel(layer=layer).transpose(*first, *second).values
            labels = int(np.prod(values.shape[: len(first)]))
            found[layer] = float(np.diag(values.reshape(labels, labels)).mean())
    return [found[layer] for layer in sorted(found)]


@pytest.mark.parametrize("name", ["decoder", "vision transformer"])
def test_sizes_are_kept(name: str) -> None:
    """Through norms, heads, gates, two branches of a stream and the read-out, whatever the factory draws."""
    case = CASES[name]
    found = sw.torch.critical(case.build, case.inputs, width=32)
    x = case.inputs.double().numpy()
    drawn, critical = sizes(found.network, x), sizes(found.drawn_so, x)
    assert min(drawn[:-1]) < 0.6  # by the factory
    assert 0.9 < min(critical[:-1])
    assert max(critical) < 3.1  # embeddings of tokens and positions, and as much from all branches
    np.testing.assert_allclose(critical[-1], 0.25, rtol=0.05)
    with_branches = [p.reason for p in found.proposals].count("one of 2 branches")
    assert with_branches == 2


def test_chains_are_at_the_critical_point_of_their_activation() -> None:
    for activation, want in ((nn.Tanh, 1.0), (nn.ReLU, 2.0)):

        def build(width: int, activation=activation) -> nn.Module:
            hidden = [
                m for _ in range(3) for m in (nn.Linear(width, width, bias=False), activation())
            ]
            return nn.Sequential(
                nn.Linear(8, width, bias=False), activation(), *hidden, nn.Linear(width, 1)
            )

        found = sw.torch.critical(build, POINTS, width=16)
        assert [p.proposed for p in found.proposals[1:4]] == pytest.approx([want] * 3)


def test_what_begins_as_nothing_stays_so() -> None:
    case = CASES["low-rank adapter"]
    assert "b.weight" not in sw.torch.critical(case.build, case.inputs, width=16).constants


def test_units_of_the_factory_do_not_matter() -> None:
    """A factory that draws everything ten times smaller gets the same variances."""

    def small(width: int) -> nn.Module:
        model = Decoder(width)
        for p in model.parameters():
            if p.ndim > 1:
                p.data.mul_(0.1)
        return model

    one, two = (sw.torch.critical(build, WORDS, width=16) for build in (Decoder, small))
    np.testing.assert_allclose(
        [p.proposed for p in one.proposals], [p.proposed for p in two.proposals], rtol=1e-9
    )


def test_a_plan_begins_at_the_critical_point() -> None:
    def build(width: int) -> nn.Module:
        return Decoder(width)

    given = {"base": {"width": 32}, "target": {"width": 64}, "strategy": "mup", "inputs": WORDS}
    plan = sw.torch.plan(build, init="critical", constants={"head.weight": {"lr": 2.0}}, **given)
    found = sw.torch.critical(build, WORDS, width=32)
    assert plan.table.constants["qkv.weight"]["std"] == pytest.approx(
        found.constants["qkv.weight"]["std"]
    )
    assert plan.table.constants["head.weight"]["lr"] == 2.0
    torch.manual_seed(0)
    model = plan.at(width=32).init_(build(32))
    np.testing.assert_allclose(
        float(model.qkv.weight.detach().std()) * 32**0.5, 0.99**0.5, rtol=0.05
    )
    assert "one of 2 branches" in str(found)
    with pytest.raises(PlanError, match="give `inputs`"):
        sw.torch.plan(build, init="critical", **{k: v for k, v in given.items() if k != "inputs"})


def test_jax_leaves_the_memory_of_a_gpu_to_those_who_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes three quarters of it with its first number, unless it is told before it is imported."""
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    monkeypatch.setenv(name, "true")
    monkeypatch.delenv(name)
    sw.torch.network(nn.Linear(3, 2), torch.ones(2, 3))
    assert name not in os.environ  # it is imported already: who did that decides
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    monkeypatch.setattr("scalewise.torch._network.ModelReader", _stop)
    for given, left in ((None, "false"), ("true", "true")):
        if given:
            monkeypatch.setenv(name, given)
        with pytest.raises(InterruptedError):
            sw.torch.network(nn.Linear(3, 2), torch.ones(2, 3))
        assert os.environ[name] == left


def _stop(*_: object) -> None:
    raise InterruptedError


class _Blocks(nn.Module):
    """A stream to which each block adds, all drawn at .02."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, width), nn.Linear(width, 3)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        for p in self.parameters():
            nn.init.normal_(p, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        for block in self.blocks:
            h = h + block(nn.functional.layer_norm(h, h.shape[-1:]))
        return self.last(nn.functional.layer_norm(h, h.shape[-1:]))


def test_a_deeper_target_has_every_layer_drawn_as_those_of_its_kind() -> None:
    given = {
        "base": {"width": 16, "depth": 2},
        "strategy": "mup",
        "init": "critical",
        "inputs": POINTS,
    }
    plan = sw.torch.plan(_Blocks, target={"width": 16, "depth": 5}, **given)
    assert len({plan[f"blocks.{k}.weight"].constants.std for k in range(5)}) == 1
    stds = [plan.std(f"blocks.{k}.weight") for k in range(5)]  # each is known from 256 entries
    assert stds == pytest.approx([2**-0.5 / 4] * 5, rel=0.2)  # one of two branches
    same = sw.torch.plan(_Blocks, target={"width": 16, "depth": 2}, **given)
    later = same.at(depth=5)
    assert later["blocks.4.weight"].constants == plan["blocks.4.weight"].constants
    for end in ("first.weight", "last.weight"):
        assert plan[end].constants.std == pytest.approx(same[end].constants.std)

    def in_a_row(width: int, depth: int) -> nn.Module:
        inside = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.Tanh())]
        return nn.Sequential(nn.Linear(8, width), nn.Tanh(), *inside, nn.Linear(width, 3))

    with pytest.raises(PlanError, match="differ by a number alone"):
        sw.torch.plan(in_a_row, target={"width": 16, "depth": 5}, **given)
