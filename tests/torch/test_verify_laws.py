"""`verify` with the real optimizers of PyTorch, and the powers by which public recipes are off."""

from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan._measurement import Quantity

BASE, WIDTHS = {"width": 32}, [32, 64, 128]
BATCH = (torch.randn(8, 6, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 5)
needs_muon = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this PyTorch has no Muon")


def build(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 5)
    )


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def planned(optimizer: str, s: Any = 1, **options: Any) -> Any:
    settings = {"base": BASE, "target": {"width": 128}, "optimizer": optimizer} | options
    return sw.torch.plan(build, strategy=sw.scaling.meta(s), **settings)


@needs_muon
def test_the_muon_of_pytorch_is_as_planned() -> None:
    problems = [
        f"{s}, {adjust}: {check}"
        for s, adjust in ((1, None), (1, "match_rms_adamw"), ("1/2", "original"))
        if not (check := planned("muon", s, adjust=adjust).verify(BATCH, loss, widths=WIDTHS)).ok
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.skipif(not hasattr(torch.optim, "Adafactor"), reason="this PyTorch has no Adafactor")
def test_the_adafactor_of_pytorch_is_as_planned() -> None:
    problems = [
        f"{s}: {check}"
        for s in (1, "1/2")
        if not (check := planned("adafactor", s).verify(BATCH, loss, widths=WIDTHS)).ok
    ]
    assert not problems, "\n".join(problems)


def off_by(check: Any, tensor: str) -> float:
    """The power by which the learning rate of a tensor is off."""
    row = next(r for r in check.rows if r.tensor == tensor and r.quantity is Quantity.RATE)
    return row.fit.slope - float(row.predicted)


def test_the_rule_of_gradient_descent_is_off_under_adam() -> None:
    """Fan-out over fan-in, which a public trainer takes for its hidden matrices."""

    def setup(plan: Any, model: nn.Module) -> torch.optim.Optimizer:
        plan.init_(model)
        rows = [(p, p.shape) for p in model.parameters()]
        return torch.optim.AdamW(
            {"params": [p], "lr": 1e-5 * (s[0] / s[1] if len(s) == 2 else 1.0), "eps": 1e-12}
            for p, s in rows
        )

    check = planned("adamw").verify(BATCH, loss, widths=WIDTHS, setup=setup)
    assert not check.ok
    assert off_by(check, "2.weight") == pytest.approx(1.0, abs=0.05)
    (found,) = (c for c in check.culprits if c.tensor == "2.weight")
    assert found.cause == "learning rate"
    assert found.power == pytest.approx(1.0, abs=0.05)


@needs_muon
def test_muon_by_the_larger_side_is_off_by_a_root() -> None:
    def setup(plan: Any, model: nn.Module) -> list[torch.optim.Optimizer]:
        plan.init_(model)
        muon, adamw = plan.param_groups(
            model, lr=1e-4, weight_decay=0.0, rest={"lr": 1e-5, "weight_decay": 0.0, "eps": 1e-12}
        )
        # One rate for all matrices, and a factor that nobody takes back.
        muon = [g | {"lr": 1e-4, "adjust_lr_fn": "match_rms_adamw"} for g in muon]
        return [torch.optim.Muon(muon), torch.optim.AdamW(adamw)]

    check = planned("muon").verify(BATCH, loss, widths=WIDTHS, setup=setup)
    assert not check.ok
    assert off_by(check, "2.weight") == pytest.approx(0.5, abs=0.05)
    # From a fixed number of inputs the larger side is right.
    assert off_by(check, "0.weight") == pytest.approx(0.0, abs=0.05)


class Block(nn.Module):
    """A branch of two matrices, divided by the depth."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.depth = depth

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x))) / self.depth


def deep(width: int, depth: int) -> nn.Module:
    blocks = [Block(width, depth) for _ in range(depth)]
    return nn.Sequential(nn.Linear(6, width), *blocks, nn.Linear(width, 5))


class AdaMuon(torch.optim.Optimizer):
    """The first step of Adam behind an exact polar factor."""

    def __init__(self, groups: Any) -> None:
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for g in self.param_groups:
            for p in g["params"]:
                U, s, Vt = torch.linalg.svd(p.grad, full_matrices=False)
                polar = (U * (s > 1e-5 * s[0]).to(s.dtype)) @ Vt
                p.sub_(g["lr"] * polar / (polar.abs() + g["eps"]))


def test_an_epsilon_of_adamuon_over_the_depth_is_off_by_one() -> None:
    """Epsilon stands beside an orthogonal matrix, which knows no depth; a public recipe divides it by the depth."""
    plan = sw.torch.plan(
        deep, base={"width": 16, "depth": 2}, target={"width": 48, "depth": 8}, strategy=sw.scaling.mup(),
        optimizer="adamuon", residual=1, multiplied=["residual"],
    )  # fmt: skip

    def setup(power: int) -> Any:
        def of(at: Any, model: nn.Module) -> list[torch.optim.Optimizer]:
            at.init_(model)
            # So large that it shows.
            own, rest = at.param_groups(
                model, lr=1e-3, eps=100.0, weight_decay=0.0,
                rest={"lr": 1e-9, "weight_decay": 0.0, "eps": 1e-12},
            )  # fmt: skip
            own = [g | {"eps": g["eps"] * float(at.table.depth) ** power} for g in own]
            return [AdaMuon(own), torch.optim.AdamW(rest)]

        return of

    widths, depths = [16, 24, 48], [4, 8, 16]
    right, wrong = (
        plan.verify(BATCH, loss, widths=widths, depths=depths, seeds=2, setup=setup(p)).depth
        for p in (0, -1)
    )
    assert right is not None
    assert wrong is not None
    assert right.ok
    assert not wrong.ok
    assert wrong.worst is not None
    assert wrong.worst.excess == pytest.approx(1.0, abs=0.15)
