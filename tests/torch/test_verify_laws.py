"""`verify` with the real optimizers of PyTorch, and the powers by which public recipes are off."""

import math
from typing import Any

import pytest
import torch
from torch import nn

import scalewise as sw
from grids import thorough
from scalewise.plan import PlanError
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


class Stepped(torch.optim.Optimizer):
    """One rule for the step of every tensor."""

    def __init__(self, groups: Any) -> None:
        super().__init__(groups, {})

    def move(self, gradient: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        raise NotImplementedError

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for g in self.param_groups:
            for p in g["params"]:
                p.sub_(g["lr"] * self.move(p.grad, g))


class AdaMuon(Stepped):
    """The first step of Adam behind an exact polar factor."""

    def move(self, gradient: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        U, s, Vt = torch.linalg.svd(gradient, full_matrices=False)
        polar = (U * (s > 1e-5 * s[0]).to(s.dtype)) @ Vt
        return polar / (polar.abs() + group["eps"])


@pytest.mark.thorough(
    "tests/torch/test_depth.py::test_a_residual_multiplier_that_is_not_applied_is_named"
)
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


class BlockMuon(Stepped):
    """A polar factor of each block of rows."""

    def move(self, gradient: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
        blocks = gradient.chunk(group["blocks"])
        parts = [torch.linalg.svd(b, full_matrices=False) for b in blocks]
        return torch.cat([U @ Vt for U, _, Vt in parts])


def heads_of(width: int, heads: int = 1) -> nn.Module:
    """A projection with a head for every eight units, or one of three parts; more samples than a head has units."""
    return nn.Sequential(
        nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3 * width, bias=False), nn.Tanh(),
        nn.Linear(3 * width, 5),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("blocks", "wrong"), [("heads", 0.5), (3, -0.5), *thorough(("heads", 0.0), (3, 0.0))]
)
def test_blocks_of_a_projection_are_verified_apart(blocks: str | int, wrong: float) -> None:
    """Heads of a fixed size move their output by a root of the width more; parts that grow along as the whole."""
    drawn = torch.Generator().manual_seed(2)
    batch = torch.randn(16, 6, generator=drawn), torch.randint(5, (16,), generator=drawn)
    sizes = {"base": {"width": 32, "heads": 4}, "target": {"width": 64, "heads": 8}}
    plan = sw.torch.plan(
        heads_of, strategy=sw.scaling.mup(), optimizer="muon", blocks={"2.weight": blocks}, **sizes
    )

    def setup(at: Any, model: nn.Module) -> list[torch.optim.Optimizer]:
        at.init_(model)
        apart = at.table["2.weight"].blocks[1]
        mistake = (at.table.target["width"] / 32) ** wrong
        muon, adamw = at.param_groups(
            model,
            lr=1e-3,
            weight_decay=0.0,
            rest={"lr": 1e-4, "weight_decay": 0.0, "eps": 1e-12},
            groups=[{"params": ["2.weight"], "blocks": apart}],
            blocks=1,
        )
        muon = [g | {"lr": g["lr"] * (mistake if g["blocks"] > 1 else 1)} for g in muon]
        return [BlockMuon(muon), torch.optim.AdamW(adamw)]

    check = plan.verify(batch, loss, widths=[32, 64, 128], setup=setup)
    named = [(c.tensor, c.cause, round(2 * c.power) / 2) for c in check.culprits]
    assert named == ([("2.weight", "learning rate", wrong)] if wrong else []), str(check)
    with pytest.raises(
        PlanError, match=r"'heads' grows with 'width' from 4 at 32, and at 36 it would be 4\.5"
    ):
        plan.verify(batch, loss, widths=[32, 36, 64])


@pytest.mark.parametrize("outputs", [1, 10, *thorough(2, 64)])
def test_a_bias_of_the_readout_may_start_smaller(outputs: int) -> None:
    """As PyTorch draws it, n^(-1/2) and one number or few of them; a mistake in the same tensor is named."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(16, 6, generator=generator)

    def off(model: nn.Module, batch: Any) -> torch.Tensor:
        return (model(batch) - 1).square().mean()

    plan = sw.torch.plan(
        lambda width: nn.Sequential(
            nn.Linear(6, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, outputs),
        ),
        base=BASE, target={"width": 128}, strategy=sw.scaling.mup(),
    )  # fmt: skip

    def setup(at: Any, model: nn.Module) -> torch.optim.Optimizer:
        at.init_(model)
        groups = at.param_groups(model, lr=1e-4, weight_decay=0.0, eps=1e-12)
        (mine,) = [p for n, p in model.named_parameters() if n == "4.bias"]
        others = [g | {"params": [p for p in g["params"] if p is not mine]} for g in groups]
        own = {"params": [mine], "lr": 1e-4 * (at.table.target["width"] / 32) ** 0.5}
        return torch.optim.AdamW([g for g in others if g["params"]] + [own], eps=1e-12)

    right = plan.verify(x, off, widths=[32, 64, 128, 256], seeds=8)
    assert right.ok, str(right)
    wrong = plan.verify(x, off, widths=WIDTHS, setup=setup, seeds=2)
    assert [(c.tensor, c.cause) for c in wrong.culprits] == [("4.bias", "learning rate")]
    assert right.row("4.bias", "weight").least == -math.inf
