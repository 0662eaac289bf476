"""Measured powers beside planned ones, in the records of two verifications."""

import matplotlib.pyplot as plt
import torch
from torch import nn

import scalewise as sw
from scalewise.cli._records import check_record
from scalewise.experiments._look import COLORS, MUTED

drawn = torch.Generator().manual_seed(0)
batch = torch.randn(16, 8, generator=drawn), torch.randint(4, (16,), generator=drawn)


def build(width: int) -> nn.Module:
    """A perceptron."""
    inside = nn.Linear(8, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
    return nn.Sequential(*inside, nn.Linear(width, 4))


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The cross-entropy."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def forgot(plan: sw.torch.TorchPlan, model: nn.Module) -> torch.optim.Optimizer:
    """One rate for all tensors."""
    return torch.optim.AdamW(plan.init_(model).parameters(), lr=1e-4)


plan = sw.torch.plan(build, base={"width": 32}, target={"width": 512}, strategy=sw.scaling.mup())
figure, axis = plt.subplots(figsize=(5.2, 2.8))
axis.plot([-1.2, 1.2], [-1.2, 1.2], "-", color=MUTED, lw=0.8)
for label, setup, color, mark in (
    ("groups of the plan", None, COLORS[0], "o"),
    ("one rate for all", forgot, COLORS[1], "^"),
):
    record = check_record(plan.verify(batch, loss, widths=[32, 64, 128, 256], seeds=3, setup=setup))
    rows = [
        r
        for r in record["rows"]
        if r["quantity"] in ("rate", "own_change") and r["power"] is not None
    ]
    x, y = [r["planned"] for r in rows], [r["power"] for r in rows]
    axis.plot(x, y, mark, ms=4, color=color, label=label)
axis.set(xlabel="planned power", ylabel="measured power")
axis.legend(fontsize=9)
