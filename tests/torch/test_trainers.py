"""Agreement: what others train by a plan is what a loop of one's own trains, alone and on two processes."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
import torch.multiprocessing

import scalewise as sw
from scalewise.plan import PlanError
from torch_models import Transformer, batch, entries, mlp, planned, same
from two_processes import work


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    planned().save(tmp_path / "plan.json")
    torch.multiprocessing.start_processes(
        work, args=(str(tmp_path),), nprocs=2, start_method="forkserver"
    )
    found = json.loads((tmp_path / "found.json").read_text())
    for way in ("fully sharded", "tensor parallel"):
        assert max(found[way]) < 1e-5, found
        assert 0.5 in found[way + ", pieces"], "nothing was cut"


def test_an_optimizer_is_the_plans() -> None:
    plan = planned(optimizer="adamw")
    model = plan.init_(mlp(64))
    made = sw.torch.optimizer_for(plan, model, lr=0.01, weight_decay=0.1, betas=(0.8, 0.9))
    assert type(made) is torch.optim.AdamW
    for group, own in zip(
        made.param_groups, plan.param_groups(model, lr=0.01, weight_decay=0.1), strict=True
    ):
        for key in ("lr", "eps", "weight_decay", "name"):
            assert group[key] == own[key]
        assert group["betas"] == (0.8, 0.9)
    factory, settings = sw.torch.trainer_optimizer(plan, lr=0.01)
    # As transformers does with what is no class of optimizers.
    again = factory()(model, **settings)
    assert [g["lr"] for g in again.param_groups] == [g["lr"] for g in made.param_groups]
    assert type(sw.torch.optimizer_for(planned(optimizer="sgd"), model, lr=1)) is torch.optim.SGD


def test_what_is_not_decayed() -> None:
    plan = planned(Transformer, optimizer="adamw")
    group = sw.torch.undecayed(plan)
    assert all(len(plan[n].shape) == 1 for n in group["params"])
    flat = [t.name for t in plan.table.tensors if len(t.shape) == 1]
    assert sorted(group["params"]) == sorted(flat)
    groups = plan.param_groups(Transformer(64), lr=0.1, weight_decay=0.3, groups=[group])
    decayed = {id(p) for g in groups if g["weight_decay"] for p in g["params"]}
    for name, p in Transformer(64).named_parameters():
        assert (name in flat) == (len(p.shape) == 1)
    assert len(decayed) == len(plan.table.tensors) - len(flat)


def decoder(width: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(8, width), torch.nn.Tanh(), torch.nn.Linear(width, width),
        torch.nn.Tanh(), torch.nn.Linear(width, 10),
    )  # fmt: skip


def steps(model: torch.nn.Module, optimizers: list[torch.optim.Optimizer], number: int) -> None:
    x, y = batch()
    for _ in range(number):
        for one in optimizers:
            one.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        for one in optimizers:
            one.step()


def test_muon_and_adamw_as_one_optimizer() -> None:
    """One optimizer with a schedule, saved and loaded half way, trains as two in a loop of one's own."""
    plan = planned(decoder, optimizer="muon", adjust="match_rms_adamw")
    settings = {"lr": 0.02, "weight_decay": 0.1, "rest": {"lr": 3e-3, "betas": (0.8, 0.9)}}
    torch.manual_seed(0)
    first = plan.init_(decoder(64))
    second = copy.deepcopy(first)
    made = sw.torch.optimizer_for(plan, first, **settings)
    muon, adamw = plan.param_groups(second, **settings)
    two = [torch.optim.Muon(muon), torch.optim.AdamW(adamw)]
    schedule = torch.optim.lr_scheduler.LambdaLR(made, lambda step: 1 / (1 + step))
    plan.check_schedule(made, schedule, steps=5)
    for step in range(4):
        for group in (g for o in two for g in o.param_groups):
            group["lr"] = group["base_lr"] * group["lr_factor"] / (1 + step)
        steps(second, two, 1)
        steps(first, [made], 1)
        schedule.step()
        if step == 1:
            kept = copy.deepcopy(made.state_dict())
            made = sw.torch.optimizer_for(plan, first, **settings)
            made.load_state_dict(kept)
            schedule.optimizer = made
    assert same(entries(first), entries(second))
    assert len(made.state) == len(plan.table.tensors)
    loss = made.step(lambda: torch.tensor(3.0))
    assert loss == 3
    twin = copy.deepcopy(made)
    assert twin.parts[0].param_groups[0] is twin.param_groups[0]
    with pytest.raises(PlanError, match=r"changes the ratios between groups"):
        plan.check_schedule(
            made, torch.optim.lr_scheduler.OneCycleLR(made, 0.1, 10, cycle_momentum=False)
        )


def test_refusals() -> None:
    muon = planned(lambda width: mlp(width, 4), optimizer="muon")
    cases = [
        (lambda: sw.torch.optimizer_for(muon, mlp(64, 4), lr=1), "matrices to 'muon' and the rest to 'adamw'"),
        (
            lambda: sw.torch.optimizer_for(
                planned(lambda width: mlp(width, 4), optimizer="muon", adjust="spectral"), mlp(64, 4), lr=1,
                rest={"lr": 1},
            ),
            "Muon has no factor 'spectral'",
        ),
        (lambda: sw.torch.optimizer_for(planned(optimizer="lion"), mlp(64), lr=1), "no optimizer 'lion'"),
        (lambda: sw.torch.trainer_optimizer(planned(), weight_decay=0.1), "`lr` is the learning rate"),
        (lambda: sw.torch.to_megatron("plan", lr=1.0), "`plan` must be a plan for PyTorch"),  # pyright: ignore
        (
            lambda: sw.torch.undecayed(
                planned(lambda width: torch.nn.Sequential(
                    torch.nn.Linear(8, width, bias=False), torch.nn.Linear(width, 4, bias=False)))
            ),
            "nothing to leave undecayed",
        ),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(PlanError, match=message):
            call()
