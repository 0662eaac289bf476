"""Golden and error tests: schedules that flatten the ratios of learning rates are named, others pass."""

import copy
import re

import pytest
import torch
from torch.optim import lr_scheduler as schedulers
from torch.optim.swa_utils import SWALR

from grids import few
from scalewise.plan import PlanError
from scalewise.torch._law import followed
from torch_models import mlp, planned

LR = 1e-3


def optimizer(name: str = "adamw", lr=LR, **options) -> torch.optim.Optimizer:
    plan, model = planned(optimizer=name), mlp(64)
    return torch.optim.AdamW(plan.param_groups(model, lr=lr), **options)


def rates(o: torch.optim.Optimizer) -> list[float]:
    return [float(g["lr"]) for g in o.param_groups]


def warmed(o, then):
    return schedulers.SequentialLR(o, [schedulers.LinearLR(o, 0.01, total_iters=50), then], [50])


KEEP = {
    "StepLR": lambda o: schedulers.StepLR(o, 10),
    "MultiStepLR": lambda o: schedulers.MultiStepLR(o, [3, 30]),
    "ConstantLR": lambda o: schedulers.ConstantLR(o),
    "LinearLR": lambda o: schedulers.LinearLR(o, 0.01),
    "ExponentialLR": lambda o: schedulers.ExponentialLR(o, 0.99),
    "PolynomialLR": lambda o: schedulers.PolynomialLR(o, 100, 2.0),
    "LambdaLR": lambda o: schedulers.LambdaLR(o, lambda t: 1 / (1 + t)),
    "MultiplicativeLR": lambda o: schedulers.MultiplicativeLR(o, lambda t: 0.99),
    "cosine to 0": lambda o: schedulers.CosineAnnealingLR(o, 100),
    "restarts to 0": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 10, 2),
    "one cycle, a list": lambda o: schedulers.OneCycleLR(o, rates(o), total_steps=90),
    "cyclic, lists": lambda o: schedulers.CyclicLR(
        o, [x / 9 for x in rates(o)], rates(o), mode="triangular2"
    ),
    "SWALR, a list": lambda o: SWALR(o, [x / 10 for x in rates(o)]),
    "ReduceLROnPlateau": lambda o: schedulers.ReduceLROnPlateau(o),
    "SequentialLR": lambda o: warmed(o, schedulers.CosineAnnealingLR(o, 100)),
    "ChainedScheduler": lambda o: schedulers.ChainedScheduler(
        [schedulers.LinearLR(o), schedulers.ExponentialLR(o, 0.9)], o
    ),
}
FLATTEN = {
    "CosineAnnealingLR": lambda o: schedulers.CosineAnnealingLR(o, 100, eta_min=1e-6),
    "CosineAnnealingWarmRestarts": lambda o: schedulers.CosineAnnealingWarmRestarts(
        o, 50, eta_min=1e-5
    ),
    "OneCycleLR": lambda o: schedulers.OneCycleLR(o, 0.01, total_steps=100),
    "CyclicLR": lambda o: schedulers.CyclicLR(o, 1e-4, 1e-3),
    "SWALR": lambda o: SWALR(o, 1e-4),
    "ReduceLROnPlateau": lambda o: schedulers.ReduceLROnPlateau(o, min_lr=1e-5),
    "LambdaLR": lambda o: schedulers.LambdaLR(
        o, [lambda t: 1.0, *[lambda t: 0.9**t] * (len(o.param_groups) - 1)]
    ),
    "SequentialLR of LinearLR, CosineAnnealingLR": lambda o: warmed(
        o, schedulers.CosineAnnealingLR(o, 100, eta_min=1e-4)
    ),
    "ChainedScheduler of LinearLR, CyclicLR": lambda o: schedulers.ChainedScheduler(
        [schedulers.LinearLR(o), schedulers.CyclicLR(o, 1e-4, 1e-3)], o
    ),
}


@pytest.mark.parametrize("tensor", [False, True], ids=["number", "tensor"])
@pytest.mark.parametrize("name", few(KEEP, every=3))
def test_schedules_that_keep_ratios_pass(name: str, tensor: bool) -> None:
    o = optimizer(lr=torch.tensor(LR) if tensor else LR)
    planned().check_schedule(o, KEEP[name](o), steps=400)


@pytest.mark.parametrize("name", FLATTEN)
def test_schedules_that_flatten_ratios_are_named(name: str) -> None:
    o = optimizer()
    with pytest.raises(
        PlanError, match=rf"^{name} changes the ratios between groups, from step \d"
    ):
        planned().check_schedule(o, FLATTEN[name](o), steps=400)


def test_the_message_tells_when_and_by_how_much() -> None:
    o = optimizer()
    scheduler = warmed(o, schedulers.CosineAnnealingLR(o, 100, eta_min=1e-4))
    with pytest.raises(PlanError) as caught:
        planned().check_schedule(o, scheduler, steps=200)
    found = re.search(r"from step (\d+) on: at step (\d+) .* is ([\d.]+) times .* plan says (0.25)",
                      str(caught.value))  # fmt: skip
    assert found is not None
    first, worst = int(found[1]), int(found[2])
    assert 50 < first < 60
    assert worst == 150
    assert (float(found[3]), float(found[4])) == (1, 0.25)
    # Nothing is wrong before that step.
    planned().check_schedule(o, scheduler, steps=50)


@pytest.mark.parametrize("name", few([*KEEP, *FLATTEN], every=3))
def test_neither_optimizer_nor_schedule_is_disturbed(name: str) -> None:
    make = (KEEP | FLATTEN)[name]

    def followed(look: bool) -> list[list[float]]:
        torch.manual_seed(3)
        o = optimizer()
        scheduler = make(o)
        state, groups = copy.deepcopy(scheduler.state_dict()), [dict(g) for g in o.param_groups]
        if look:
            try:
                planned().check_schedule(o, scheduler, steps=100)
            except PlanError:
                assert name in FLATTEN
            assert repr(scheduler.state_dict()) == repr(state) or "object at" in repr(state)
            for now, before in zip(o.param_groups, groups, strict=True):
                assert now.keys() == before.keys()
                assert all(now[k] is before[k] for k in now)
        out = []
        for _ in range(20):
            for p in o.param_groups[0]["params"]:
                p.grad = torch.ones_like(p)
            o.step()
            scheduler.step(*([1.0] if "Reduce" in name else []))
            out.append(rates(o))
        return out

    assert followed(look=True) == followed(look=False)


def test_in_the_middle_of_training() -> None:
    o = optimizer()
    scheduler = schedulers.CosineAnnealingLR(o, 100)
    for _ in range(30):
        o.step()
        scheduler.step()
    planned().check_schedule(o, scheduler, steps=60)


def test_groups_that_are_not_the_plans() -> None:
    model = mlp(64)
    o = torch.optim.AdamW(model.parameters(), lr=LR)
    with pytest.raises(PlanError, match=r"groups that are not the plan's.*plan.param_groups"):
        planned().check_schedule(o, schedulers.StepLR(o, 10))


def test_rates_changed_by_hand() -> None:
    o = optimizer()
    o.param_groups[1]["lr"] = LR
    with pytest.raises(PlanError, match=r"StepLR changes the ratios .*from step 0 on"):
        planned().check_schedule(o, schedulers.StepLR(o, 10), steps=5)


def test_groups_of_the_users_own_keep_their_ratio() -> None:
    plan, model = planned(), mlp(64)
    groups = plan.param_groups(model, lr=LR, groups=[{"params": "4.*", "lr": 7 * LR}])
    o = torch.optim.AdamW(groups)
    plan.check_schedule(o, schedulers.CosineAnnealingLR(o, 100), steps=100)
    still = torch.optim.AdamW(
        plan.param_groups(model, lr=LR, groups=[{"params": "0.*", "lr": 0.0}])
    )
    plan.check_schedule(still, schedulers.CosineAnnealingLR(still, 100), steps=100)


def test_another_optimizer() -> None:
    plan, model = planned(optimizer="adamw"), mlp(64)
    for other, law in ((torch.optim.SGD, "sgd"), (torch.optim.Adam, "adam")):
        groups = [
            {k: v for k, v in g.items() if k != "eps"} for g in plan.param_groups(model, lr=LR)
        ]
        o = other(groups)
        with pytest.raises(PlanError, match=rf"for 'adamw', but .* a {other.__name__}.*\"{law}\""):
            plan.check_schedule(o, schedulers.StepLR(o, 10))
    decoupled = torch.optim.Adam(plan.param_groups(model, lr=LR), decoupled_weight_decay=True)
    plan.check_schedule(decoupled, schedulers.StepLR(decoupled, 10), steps=5)


LAWS = {
    "SGD": "sgd", "ASGD": "sgd", "Adam": "adam", "AdamW": "adamw", "NAdam": "adam", "Adamax": "adam",
    "RMSprop": "adam", "RAdam": "either", "Adagrad": "either", "Adadelta": "either", "Rprop": "either",
    "Adafactor": None, "Muon": None, "LBFGS": None, "SparseAdam": None,
}  # fmt: skip


def test_the_law_of_an_optimizer_is_found_by_trying_it() -> None:
    found = {}
    for name in LAWS:
        decays = {} if name in ("Rprop", "LBFGS", "SparseAdam") else {"weight_decay": 0.1}
        p = torch.nn.Parameter(torch.ones(3, 3))
        o = getattr(torch.optim, name)([p], lr=0.1, **decays)
        before = repr(o.state_dict())
        found[name] = followed(o)
        assert repr(o.state_dict()) == before
        assert torch.equal(p, torch.ones(3, 3))
    assert found == LAWS
    muon = torch.optim.Muon([torch.nn.Parameter(torch.ones(3, 3))], lr=0.1)
    with pytest.raises(PlanError, match=r"Muon moves neither by the gradient of each entry nor"):
        planned().check_schedule(muon, schedulers.StepLR(muon, 10))


def test_a_setting_given_to_the_optimizer() -> None:
    settings = {"lr": LR, "eps": 1e-6, "weight_decay": 0.3}
    for key, base in settings.items():
        groups = planned().param_groups(mlp(64), **settings)
        o = torch.optim.AdamW(groups, **{key: 7 * base})
        said = rf"given {key}={7 * base:g}, which no group uses: .* {key}={base:g}"
        with pytest.raises(PlanError, match=said):
            planned().check_schedule(o, schedulers.StepLR(o, 10), steps=5)
        o = torch.optim.AdamW(groups, **{key: base})
        planned().check_schedule(o, schedulers.StepLR(o, 10), steps=5)


def test_a_schedule_of_another_optimizer() -> None:
    o, other = optimizer(), optimizer()
    with pytest.raises(PlanError, match=r"StepLR belongs to another optimizer"):
        planned().check_schedule(o, schedulers.StepLR(other, 10))
