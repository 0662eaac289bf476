"""Agreement: maximal updates are seen to transfer, others to drift; and what a store, a search, constants do."""

import importlib
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.multiprocessing
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from torch_models import entries, mlp, planned, same

RATES = [2.0**k for k in range(-9, -1)]


def toy(width, depth=3):
    """Three weight layers to one number."""
    return nn.Sequential(
        nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
    )


def fit(plan, model, seed, lr):
    """Twenty steps of Adam on a fixed function; the logarithm of the error that is left."""
    optimizer = torch.optim.Adam(plan.param_groups(model, lr=lr))
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 8, generator=generator)
    y = torch.sin(2 * x[:, 0]) * x[:, 1]
    for _ in range(20):
        optimizer.zero_grad()
        error = (model(x)[:, 0] - y).square().mean()
        error.backward()
        optimizer.step()
    return (model(x)[:, 0] - y).square().mean().log()


def toy_plan(strategy, **options):
    return sw.torch.plan(
        toy,
        base={"width": 16},
        target={"width": 64},
        strategy=strategy,
        optimizer="adam",
        **options,
    )


def test_heads_go_along_with_the_width() -> None:
    def heads(plan, model, seed, lr):
        return plan.table.target["heads"] + (math.log2(lr) + 6) ** 2

    plan = sw.torch.plan(
        lambda width, heads: toy(width), base={"width": 16, "heads": 2},
        target={"width": 64, "heads": 8}, strategy=sw.scaling.mup(),
    )  # fmt: skip
    found = sw.torch.check_transfer(
        plan, heads, widths=[16, 32], rates=[2**-7, 2**-6, 2**-5], seeds=2, client=0, progress=False
    )
    assert found.losses.min(axis=(1, 2)).tolist() == [2, 4]


def test_maximal_updates_transfer_and_the_standard_parametrisation_drifts() -> None:
    options = {
        "widths": [64, 16],
        "rates": RATES,
        "seeds": 4,
        "tolerance": 0.4,
        "client": 0,
        "progress": False,
    }
    found = sw.torch.check_transfer(toy_plan(sw.scaling.mup()), fit, **options)
    assert found.ok, found
    (drift,) = found.drifts
    assert abs(drift.slope) < 0.2
    assert found.costs[-1][0] < 0.1
    plain = sw.torch.check_transfer(toy_plan(sw.scaling.standard()), fit, **options)
    assert plain.outcome == "drifts", plain
    assert plain.drifts[0].slope < -0.5
    assert plain.costs[-1][0] > 0.3
    # Seeds are shared, and at the base both plans are one network.
    assert np.array_equal(plain.losses[0], found.losses[0])
    # No order matters, and whatever else the process draws.
    torch.manual_seed(7)
    again = sw.torch.check_transfer(
        toy_plan(sw.scaling.mup()),
        fit,
        widths=[16, 64],
        rates=RATES[::-3],
        seeds=[3, 1],
        progress=False,
    )
    assert np.array_equal(again.losses, found.losses[:, 1::3][:, :, [1, 3]])
    assert again.losses.shape == (2, 3, 2)


SCRIPT = """
import os, sys
os.environ["MARKS"] = {marks!r}
sys.path[:0] = {paths!r}
import test_proof as t
t.grid({store!r})
"""


def counted(plan, model, seed, lr):
    """Leaves a mark for every run, and dies in the seventh."""
    folder = Path(os.environ["MARKS"])
    (folder / f"{len(list(folder.iterdir()))}").touch()
    if len(list(folder.iterdir())) == 7:
        os._exit(1)
    return fit(plan, model, seed, lr).item()


def grid(store):
    return sw.torch.check_transfer(
        toy_plan(sw.scaling.mup()), counted, widths=[16, 32], rates=[0.01, 0.02, 0.04], seeds=2,
        store=store, progress=False, client=0,
    )  # fmt: skip


def test_a_grid_that_is_killed_goes_on_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan reads how its factory draws: another process must read the same, or the store would be another's."""
    marks, store = tmp_path / "marks", str(tmp_path / "s")
    marks.mkdir()
    monkeypatch.setenv("MARKS", str(marks))
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    script = SCRIPT.format(marks=str(marks), paths=paths, store=store)
    first = torch.multiprocessing.get_context("forkserver").Process(target=exec, args=(script,))
    first.start()
    first.join()
    assert first.exitcode == 1
    assert len(list(marks.iterdir())) == 7
    # This process goes on, with functions of the same module.
    monkeypatch.syspath_prepend(paths[0])
    second = importlib.import_module("test_proof").grid(store)
    del sys.modules["test_proof"]
    assert len(list(marks.iterdir())) == 7 + 12 - 6
    whole = sw.torch.check_transfer(
        toy_plan(sw.scaling.mup()),
        fit,
        widths=[16, 32],
        rates=[0.01, 0.02, 0.04],
        seeds=2,
        progress=False,
    )
    assert second.losses.sum() == pytest.approx(whole.losses.sum(), abs=1e-9)
    # Another training is not taken for this one.
    with pytest.raises(ValueError, match="holds a"):
        sw.torch.check_transfer(
            toy_plan(sw.scaling.mup()), fit, widths=[16, 32], rates=[0.01, 0.02, 0.04], seeds=2,
            store=store, progress=False,
        )  # fmt: skip


def test_any_argument_of_the_training_and_any_constant_may_be_varied() -> None:
    seen = []

    def train(plan, model, seed, width_of_step=1.0):
        seen.append((width_of_step, plan.table.constants, float(model[2].weight.detach().std())))
        return abs(np.log2(width_of_step) - 1) + seed

    plan = toy_plan(sw.scaling.mup(), constants={"hidden": 2})
    options = {"widths": [16, 32], "seeds": 2, "progress": False}
    found = sw.torch.check_transfer(
        plan, train, hyperparameter="width_of_step", values=[1, 2, 4], **options
    )
    assert found.best == pytest.approx(2)
    assert {s[0] for s in seen} == {1, 2, 4}
    seen.clear()
    sw.torch.check_transfer(plan, train, hyperparameter="hidden.std", values=[0.5, 1, 2], **options)
    # Times the constant that the plan has; a factor of one in all is none.
    assert {s[1].get("hidden", {}).get("std", 1.0) for s in seen} == {1.0, 2.0, 4.0}
    stds = sorted({round(s[2] / plan.at(width=16).std("2.weight"), 4) for s in seen if s[2] > 0})
    assert stds[-1] > 1.9 * stds[0]


def test_what_a_check_refuses() -> None:
    plan, options = toy_plan(sw.scaling.mup()), {"progress": False}
    cases = {
        r"`widths` must hold at least two; got \[16\]": {"widths": [16], "rates": RATES},
        r"`widths` must hold at least two, .* got none": {"rates": RATES},
        r"the plan has no depth 'depth'": {"widths": [16, 32], "depths": [2, 4], "rates": RATES},
        r"at least three different positive numbers.* got 0.1, 0.2": {"widths": [16, 32], "rates": [0.1, 0.2]},
        r"got -1, 1, 2": {"widths": [16, 32], "rates": [-1, 1, 2]},
        r"`rates` must hold at least three values of 'lr'; got None": {"widths": [16, 32]},
        r"Give `rates`, or `values`": {"widths": [16, 32], "rates": RATES, "values": RATES},
        r"`rates` are learning rates; give the values of 'decay'": {
            "widths": [16, 32], "rates": RATES, "hyperparameter": "decay",
        },
        r"`seeds` must be whole numbers, not negative, and at least one; got 0": {
            "widths": [16, 32], "rates": RATES, "seeds": 0,
        },
    }  # fmt: skip
    for sentence, given in cases.items():
        with pytest.raises(PlanError, match=sentence):
            sw.torch.check_transfer(plan, fit, **options, **given)
    with pytest.raises(sw.sweeps.SweepError, match="`train` must return its loss"):
        sw.torch.check_transfer(
            plan, lambda plan, model, seed, lr: None, widths=[16, 32], rates=RATES, **options
        )


def test_constants_are_drawn_at_the_base_and_carried(tmp_path: Path) -> None:
    constants = {"hidden": {"std": 1.05, "lr": 0.5}, "0": {"weight_decay": 3}}
    plan, plain = planned(constants=constants), planned()
    for width in (16, 64):
        here, without = plan.at(width=width), plain.at(width=width)
        torch.manual_seed(3)
        model = here.init_(mlp(width))
        torch.manual_seed(3)
        bare = without.init_(mlp(width))
        # So near to 1 that a sample of this size could not tell it, and there all the same.
        ratio = float(model[2].weight.detach().std() / bare[2].weight.detach().std())
        own = without.table["2.weight"].base.std / float(bare[2].weight.detach().std(correction=0))
        expected = 1.05 * own if width == 16 else 1.05
        assert ratio == pytest.approx(expected, rel=2e-2)
        assert float(model[2].weight.detach().std(correction=0)) == pytest.approx(
            here.std("2.weight"), rel=1e-5
        )
        assert torch.equal(model[0].weight, bare[0].weight)
        before = entries(model)
        assert same(before, entries(here.init_(model)))
        groups = {
            id(p): g
            for g in here.param_groups(model, lr=1.0, weight_decay=0.1)
            for p in g["params"]
        }
        own = {
            id(p): g
            for g in without.param_groups(bare, lr=1.0, weight_decay=0.1)
            for p in g["params"]
        }
        assert groups[id(model[2].weight)]["lr"] == 0.5 * own[id(bare[2].weight)]["lr"]
        decays = groups[id(model[0].weight)], own[id(bare[0].weight)]
        assert decays[0]["weight_decay"] == pytest.approx(3 * decays[1]["weight_decay"])
        assert groups[id(model[0].bias)]["weight_decay"] == pytest.approx(0.1)
    plan.save(tmp_path / "plan.json")
    again = sw.torch.load(tmp_path / "plan.json", build=mlp)
    assert again.table == plan.table
    assert again.at(width=64).table.constants == plan.table.constants
    assert plan.with_constants(None).table.constants == {}


def test_tune_finds_a_constant_that_was_spoilt_and_hands_it_to_the_plan() -> None:
    spoilt = toy_plan(sw.scaling.mup(), constants={"hidden": 1 / 8})
    found = sw.torch.tune(
        spoilt,
        fit,
        start={"lr": 2**-5},
        over=["hidden.std", "lr"],
        budget=100,
        seeds=4,
        progress=False,
    )
    assert found.spent <= 100
    assert found.constants.get("hidden", {}).get("std", 1.0) >= 0.5
    assert np.mean(found.best.losses) < np.mean(found.trials[0].losses)
    # Two seeds find as much, and on fresh ones it is not beyond what these differ by.
    assert found.fresh is not None
    assert found.fresh.beyond
    assert "beyond its noise" in found.verdict
    better = spoilt.with_constants(found.constants)
    assert better.std("2.weight") > 3 * spoilt.std("2.weight")
    names = {t.changed for t in found.trials}
    assert names == {"", "hidden.std", "lr"}
