"""Agreement and refusal tests: weights that an optimizer keeps at the length that they were drawn with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import scalewise as sw
from grids import thorough
from scalewise.plan import PlanError
from scalewise.plan._diagnosis import Cause
from scalewise.torch import TorchPlan
from two_widths import trained

BASE, SIDE, WIDTHS = 32, 12, [32, 64, 128, 256]
DRAWS = torch.Generator().manual_seed(0)
X = torch.randn(16, SIDE, generator=DRAWS)
LABELS = (X @ torch.randn(SIDE, 3, generator=DRAWS)).argmax(-1)


class AdamH(torch.optim.Optimizer):
    """Adam on spheres, as its authors write it: the update as long as the weight, and the weight as before."""

    def __init__(self, params: Any, lr: float = 1e-2, weight_decay: float = 0.0, eps: float = 1e-8):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    held = self.state[p]
                    held["t"] = held.get("t", 0) + 1
                    for name, value, beta in (("m", p.grad, 0.9), ("v", p.grad.square(), 0.99)):
                        held[name] = beta * held.get(name, 0 * value) + (1 - beta) * value
                    m, v = held["m"] / (1 - 0.9 ** held["t"]), held["v"] / (1 - 0.99 ** held["t"])
                    update, length = m / (v.sqrt() + group["eps"]), p.norm()
                    new = p - group["lr"] * length * update / update.norm()
                    p.copy_(new * length / new.norm())


def build(width: int) -> nn.Module:
    middle = (nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return nn.Sequential(nn.Linear(SIDE, width), nn.ReLU(), *middle, nn.Linear(width, 3))


def planned() -> TorchPlan:
    return sw.torch.plan(
        build, base={"width": BASE}, target={"width": 4 * BASE}, strategy=sw.scaling.mup(),
        optimizer="adamh", inputs=X,
    )  # fmt: skip


def entropy(model: nn.Module, x: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), LABELS)


def script(lr: float, power: float = 0.0) -> Any:
    """AdamH for matrices and AdamW for the rest; the former's rates off by a power of the width."""

    def setup(plan: Any, model: nn.Module) -> Any:
        plan.init_(model)
        spheres, rest = plan.param_groups(
            model, lr=lr, weight_decay=0.0, eps=1e-8, rest={"lr": lr / 4, "weight_decay": 0.0}
        )
        factor = plan.table.target["width"] / BASE
        for group in spheres:
            group["lr"] *= factor**power
        return [AdamH(spheres), torch.optim.AdamW(rest)]

    return setup


def test_steps_beside_the_weight_go_as_the_root_of_the_width() -> None:
    plan = planned()
    factors = {n: plan.factors(f"{n}.weight").lr for n in ("0", "2", "6")}
    assert factors == {"0": 1, "2": 1 / 2, "6": 1 / 4}
    assert {n: plan[f"{n}.weight"].optimizer for n in factors} == {
        "0": "adamh", "2": "adamh", "6": "adamw",
    }  # fmt: skip


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_what_spheres_learn_keeps_its_size_and_a_wrong_rate_is_named(power: float) -> None:
    check = planned().verify(
        X, entropy, widths=WIDTHS, seeds=3, setup=script(3e-3, power), progress=False
    )
    assert check.ok is (not power), str(check)
    if power:
        assert {c.cause for c in check.culprits} == {Cause.LEARNING_RATE}
        assert {c.tensor for c in check.culprits} == {"0.weight", "2.weight", "4.weight"}
    else:
        assert str(check.verdict) == "feature learning, stable"


@pytest.mark.parametrize("times", [4, *thorough(16)])
def test_spheres_train_at_the_rate_of_their_base(times: int) -> None:
    """The loss of a wide network is that of its base, or below, and all lengths are what they were."""

    def as_one(plan: Any, model: nn.Module) -> Any:
        class Both:
            parts = script(2e-2)(plan, model)

            def zero_grad(self) -> None:
                model.zero_grad()

            def step(self) -> None:
                lengths = [g["params"][0].norm() for g in self.parts[0].param_groups]
                for one in self.parts:
                    one.step()
                now = [g["params"][0].norm() for g in self.parts[0].param_groups]
                torch.testing.assert_close(now, lengths)

        return Both()

    base, wide = (
        trained(planned(), n, X, entropy, as_one, steps=20, seeds=3) for n in (BASE, times * BASE)
    )
    assert wide.loss < base.loss + 4 * (base.error + wide.error)
    assert base.loss < 0.9


@pytest.mark.parametrize("name", ["muonh", "Muon-Hyperball"])
def test_orthogonal_steps_over_their_length_are_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(PlanError, match="depends on how many directions"):
        sw.torch.plan(
            build, base={"width": BASE}, target={"width": 64}, strategy="mup", optimizer=name
        )
