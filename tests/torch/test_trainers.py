"""Agreement: what others train by a plan is what a loop of one's own trains, alone and on two processes."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch
import torch.multiprocessing

import scalewise as sw
from scalewise.plan import PlanError
from torch_models import Transformer, mlp, planned
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


def test_overrides_say_what_groups_do() -> None:
    """Every tensor fits one pattern, whose settings are those of its group; of a sequence each has its name."""
    for build, options in (
        (mlp, {}),
        (lambda width: Transformer(width, 3), {}),
    ):
        plan = planned(build, optimizer="adamw", **options)
        found = sw.torch.overrides(plan, lr=0.01, eps=1e-6, weight_decay=0.1, min_lr=0.001)
        json.dumps(found)
        model = build(64)
        groups = plan.param_groups(model, lr=0.01, eps=1e-6, weight_decay=0.1)
        of = {id(p): g for g in groups for p in g["params"]}
        for name, p in model.named_parameters():
            (own,) = [s for label, s in found.items() if fnmatchcase(name, label)]
            for key in ("lr", "eps", "weight_decay"):
                assert own[key] == pytest.approx(of[id(p)][key]), (name, key)
            assert own["max_lr"] == own["lr"] == pytest.approx(10 * own["min_lr"])
            assert own["wd_mult"] * 0.1 == pytest.approx(own["weight_decay"])
    assert "0.weight" in sw.torch.overrides(planned(), lr=0.01)
    assert "eps" not in sw.torch.overrides(planned(), lr=0.01)["0.weight"]


def test_refusals() -> None:
    muon = planned(lambda width: mlp(width, 4), optimizer="muon")
    cases = [
        (lambda: sw.torch.optimizer_for(muon, mlp(64, 4), lr=1), "'muon' and 'adamw', and a trainer"),
        (lambda: sw.torch.optimizer_for(planned(optimizer="lion"), mlp(64), lr=1), "no optimizer 'lion'"),
        (lambda: sw.torch.trainer_optimizer(planned(), weight_decay=0.1), "`lr` is the learning rate"),
        (lambda: sw.torch.overrides("plan", lr=1.0), "`plan` must be a plan for PyTorch"),  # pyright: ignore
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
