"""The training loss against the learning rate at two widths, as planned and in the standard parametrisation."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import scalewise as sw
from scalewise._look import SUPERSCRIPT, power_label
from scalewise.experiments._look import COLORS

digits = load_digits()
x = torch.tensor(digits.data / 16 - 0.5, dtype=torch.float32)
y = torch.tensor(digits.target)


def build(width: int) -> nn.Module:
    """Three layers on images of digits."""
    return nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )


def train(plan: sw.plan.Plan, model: nn.Module, seed: int, lr: float) -> float:
    """Forty steps of AdamW; the loss on all training samples."""
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=lr))
    for _ in range(40):
        i = torch.randint(0, 1500, (128,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[i]), y[i]).backward()
        optimizer.step()
    with torch.no_grad():
        return nn.functional.cross_entropy(model(x[:1500]), y[:1500]).item()


widths, powers = [32, 64, 256], np.arange(-8, -1)
figure, axes = plt.subplots(1, 2, figsize=(6.6, 2.6), sharey=True)
ways = (("planned", sw.scaling.mup()), ("standard", sw.scaling.standard()))
for axis, (label, strategy) in zip(axes, ways, strict=True):
    plan = sw.torch.plan(
        build, base={"width": 32}, target={"width": 256}, strategy=strategy, optimizer="adamw"
    )
    check = sw.torch.check_transfer(
        plan, train, widths=widths, rates=2.0**powers, seeds=2, client=0, progress=False
    )
    for width, losses, color in zip(widths, check.losses.mean(-1), COLORS, strict=False):
        axis.plot(powers, losses, color=color, label=f"width {width}")
        axis.plot(powers[losses.argmin()], losses.min(), "o", ms=5, color=color)
    axis.set(yscale="log", xlabel="learning rate", title=label)
    axis.set_xticks(powers[::2], labels=["2" + str(k).translate(SUPERSCRIPT) for k in powers[::2]])
    axis.minorticks_off()
    axis.yaxis.set_major_formatter(lambda value, _: power_label(value))
    axis.legend(fontsize=9)
axes[0].set(ylabel="loss after 40 steps")
