"""Property: plans work unchanged through everything that wraps, copies, shards or exports a model."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from torch_models import Transformer, batch, entries, mlp, planned, same, trained

STEPS = 3


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A process group of this process alone."""
    path = tmp_path_factory.mktemp("group") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def settings(groups: list[dict]) -> list[tuple]:
    return [(g["name"], g["lr"], g["eps"], g["weight_decay"], len(g["params"])) for g in groups]


def adam(plan: sw.torch.TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(plan.param_groups(model, lr=0.01))


def reference() -> tuple[sw.torch.TorchPlan, nn.Module, nn.Module]:
    """A plan, a model initialised by it, and the same model after a few steps."""
    plan = planned()
    model = plan.init_(mlp(64))
    done = copy.deepcopy(model)
    return plan, model, trained(done, adam(plan, done), STEPS)


def test_deepcopy_and_average() -> None:
    plan, model, done = reference()
    copied = copy.deepcopy(model)
    averaged = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    averaged.update_parameters(model)
    assert settings(plan.param_groups(copied, lr=0.1)) == settings(plan.param_groups(model, lr=0.1))
    assert settings(plan.param_groups(averaged, lr=0.1)) == settings(
        plan.param_groups(model, lr=0.1)
    )
    before = entries(averaged)
    plan.init_(averaged)
    assert same(entries(averaged), before)
    assert same(entries(trained(copied, adam(plan, copied), STEPS)), entries(done))


def test_compile() -> None:
    plan, model, done = reference()
    compiled = torch.compile(model, backend="eager")
    groups = plan.param_groups(compiled, lr=0.01)
    assert settings(groups) == settings(plan.param_groups(model, lr=0.01))
    trained(compiled, torch.optim.AdamW(groups), STEPS)
    assert all(torch.allclose(a, b) for a, b in zip(entries(model), entries(done), strict=True))


def test_hooks_compile_copy_and_export() -> None:
    plan = planned(lambda width: Transformer(width, tied=True))
    model = plan.scale_(plan.init_(Transformer(64, tied=True))).eval()
    tokens = torch.arange(10).reshape(2, 5)
    expected = model(tokens)
    assert torch.equal(copy.deepcopy(model)(tokens), expected)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(tokens), expected)
    exported = torch.export.export(model, (tokens,)).module()
    assert torch.allclose(exported(tokens), expected, atol=1e-6)


def test_export_and_functional_call() -> None:
    _, model, _ = reference()
    x, _ = batch()
    assert torch.allclose(torch.export.export(model, (x,)).module()(x), model(x), atol=1e-6)
    half = {n: p.detach() / 2 for n, p in model.named_parameters()}
    plain = mlp(64)
    plain.load_state_dict(half)
    assert torch.equal(torch.func.functional_call(model, half, (x,)), plain(x))


def test_data_parallel(group: None) -> None:
    plan, model, done = reference()
    wrapped = nn.parallel.DistributedDataParallel(model)
    before = entries(model)
    assert same(entries(plan.init_(wrapped)), before)
    trained(wrapped, adam(plan, wrapped), STEPS)
    assert same(entries(model), entries(done))


def test_fully_sharded(group: None) -> None:
    from torch.distributed.fsdp import fully_shard

    plan, model, done = reference()
    expected = settings(plan.param_groups(model, lr=0.1))
    fresh = mlp(64)
    whole = plan.init_(copy.deepcopy(fresh))
    mesh = torch.distributed.init_device_mesh("cpu", (1,))
    for sharded in (model, fresh):
        for layer in sharded:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(sharded, mesh=mesh)
    assert settings(plan.param_groups(model, lr=0.1)) == expected
    trained(model, adam(plan, model), STEPS)
    for a, b in zip(model.parameters(), done.parameters(), strict=True):
        assert torch.allclose(a.full_tensor(), b)
    # Initialised after sharding: the same factors.
    plan.init_(fresh)
    for a, b in zip(fresh.parameters(), whole.parameters(), strict=True):
        assert torch.allclose(a.full_tensor(), b)


def test_a_flattened_model_is_refused() -> None:
    model = mlp(64)
    model[0].weight = nn.Parameter(model[0].weight.detach().flatten())
    with pytest.raises(PlanError, match=r"`0.weight` has shape \(512,\).*flattened or cut it"):
        planned().param_groups(model, lr=0.1)


def test_state_dict_round_trip() -> None:
    plan, model, done = reference()
    optimizer = adam(plan, model)
    trained(model, optimizer, 1)
    again = mlp(64)
    again.load_state_dict(model.state_dict())
    other = adam(plan, again)
    other.load_state_dict(optimizer.state_dict())
    assert settings(other.param_groups) == settings(optimizer.param_groups)
    assert same(entries(trained(again, other, STEPS - 1)), entries(done))
    assert list(model.state_dict()) == list(mlp(64).state_dict())


def test_nothing_is_hung_on_the_model() -> None:
    _, model, _ = reference()
    plain = mlp(64)
    for (name, one), two in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert vars(one) == vars(two), name
        assert type(one) is nn.Parameter
    for one, two in zip(model.modules(), plain.modules(), strict=True):
        assert vars(one).keys() == vars(two).keys()
        assert not one._forward_pre_hooks
        assert not one._forward_hooks


def test_a_saved_plan_is_the_plan(tmp_path: Path) -> None:
    def build(width: int) -> nn.Module:
        return Transformer(width, tied=True)

    plan = planned(build, multiplied=["head"], roles={"embed.weight": "input"}, optimizer="adam")
    plan.save(tmp_path / "plan.json")
    loaded = sw.torch.load(tmp_path / "plan.json")
    assert loaded == plan
    assert loaded.build is None
    model = build(64)
    assert settings(loaded.param_groups(model, lr=0.1)) == settings(
        plan.param_groups(model, lr=0.1)
    )
    with pytest.raises(PlanError, match=r"loaded without its factory.*load\(path, build=...\)"):
        loaded.at(width=32)
    assert sw.torch.load(tmp_path / "plan.json", build).at(width=32) == plan.at(width=32)
    assert sw.plan.load(tmp_path / "plan.json") == plan.table
    assert list(tmp_path.iterdir()) == [tmp_path / "plan.json"]


def test_roles_with_axes_come_back(tmp_path: Path) -> None:
    plan = planned(roles={"2.weight": ("hidden", 1), "4.weight": ("output", (1,))})
    plan.save(tmp_path / "plan.json")
    again = sw.torch.load(str(tmp_path / "plan.json"), mlp)
    assert again.at(width=32).table == plan.at(width=32).table


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"cannot be read: No such file"):
        sw.torch.load(tmp_path / "none.json")
    (tmp_path / "odd.json").write_text("[1, 2]")
    with pytest.raises(PlanError, match=r"not a saved plan"):
        sw.torch.load(tmp_path / "odd.json")


def test_a_plan_is_printed_and_transferred() -> None:
    plan = planned()
    assert str(plan) == sw.plan.describe(plan.table)
    carried = plan.transfer(lr=0.01, weight_decay=0.1)
    assert carried["2.weight"].lr == pytest.approx(0.0025)
