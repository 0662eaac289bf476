"""A grid of rates at two widths, without a plan and with one."""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional as F

import scalewise as sw
from scalewise.experiments._look import COLORS

drawn = torch.Generator().manual_seed(0)
x = torch.randn(512, 16, generator=drawn)
y = torch.tanh(x @ torch.randn(16, 8, generator=drawn)).argmax(1)
RATES = [2.0**k for k in range(-9, 0)]


def build(width: int) -> nn.Module:
    """A perceptron."""
    inside = nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    return nn.Sequential(*inside, nn.Linear(width, 8))


def reached(strategy: str, width: int, rate: float) -> float:
    """The loss after 12 steps."""
    plan = sw.torch.plan(build, base={"width": 64}, target={"width": width}, strategy=strategy)
    torch.manual_seed(0)
    model = plan.init_(build(width))
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=rate))
    for _ in range(12):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


figure, axes = plt.subplots(1, 2, figsize=(6.6, 2.6), sharey=True)
for axis, strategy in zip(axes, ("standard", "mup"), strict=True):
    for i, width in enumerate((64, 256)):
        losses = [reached(strategy, width, rate) for rate in RATES]
        axis.plot(RATES, losses, "o-", ms=4, color=COLORS[i], label=f"width {width}")
    axis.set(xscale="log", xlabel="rate at the base", title=strategy, ylim=(0, 2.4))
axes[0].set(ylabel="loss")
axes[0].legend(fontsize=9)
