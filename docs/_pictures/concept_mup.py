"""Loss against the learning rate at three widths, as built and planned."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import scalewise as sw
from scalewise.experiments._look import COLORS

drawn = torch.Generator().manual_seed(0)
x = torch.randn(512, 16, generator=drawn)
y = torch.tanh(x @ torch.randn(16, 8, generator=drawn)).argmax(1)
WIDTHS, RATES = (32, 128, 512), 2.0 ** np.arange(-10, 0.5)


def build(width: int) -> nn.Module:
    """A perceptron."""
    inside = nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    return nn.Sequential(*inside, nn.Linear(width, 8))


def trained(plan: sw.torch.TorchPlan, width: int, rate: float) -> float:
    """The loss after some steps of Adam."""
    torch.manual_seed(0)
    model = plan.init_(build(width))
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=rate, weight_decay=0.0))
    for _ in range(8):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


figure, axes = plt.subplots(1, 2, figsize=(7.4, 2.8), sharey=True)
for axis, strategy, title in zip(axes, ("standard", "mup"), ("as built", "planned"), strict=True):
    for i, width in enumerate(WIDTHS):
        sizes = {"base": {"width": 32}, "target": {"width": width}}
        plan = sw.torch.plan(build, **sizes, strategy=strategy)
        losses = [trained(plan, width, rate) for rate in RATES]
        axis.plot(RATES, losses, "o-", ms=3, color=COLORS[i], label=f"n = {width}")
        best = int(np.argmin(losses))
        axis.plot(RATES[best], losses[best], "o", ms=8, mfc="none", color=COLORS[i])
    axis.set(xscale="log", xlabel="learning rate", title=title, ylim=(0, 4))
axes[0].set_ylabel("loss after 8 steps")
axes[0].legend(fontsize=8)
