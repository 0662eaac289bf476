"""How far what the readout reads moves in ten steps, by the width, under three strategies."""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional as F

import scalewise as sw
from scalewise.experiments._look import COLORS

WIDTHS = (32, 64, 128, 256, 512)
drawn = torch.Generator().manual_seed(0)
x, y = torch.randn(24, 8, generator=drawn), torch.randint(4, (24,), generator=drawn)


def build(width: int) -> nn.Module:
    """A perceptron."""
    inside = nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    return nn.Sequential(*inside, nn.Linear(width, 4))


def moved(strategy: str, width: int, seed: int) -> float:
    """The root mean square of the change."""
    plan = sw.torch.plan(build, base={"width": 32}, target={"width": width}, strategy=strategy)
    torch.manual_seed(seed)
    model = plan.init_(build(width))
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=1e-3, weight_decay=0.0))
    with torch.no_grad():
        before = model[:4](x)
    for _ in range(10):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        return (model[:4](x) - before).square().mean().sqrt().item()


figure, axis = plt.subplots(figsize=(5.2, 2.8))
for i, strategy in enumerate(("mup", "ntk", "standard")):
    sizes = [sum(moved(strategy, n, s) for s in range(3)) for n in WIDTHS]
    axis.plot(WIDTHS, [s / sizes[0] for s in sizes], "o-", ms=4, color=COLORS[i], label=strategy)
axis.set(xscale="log", yscale="log", xlabel="width n", ylabel="change, width 32 = 1")
axis.set_xticks(WIDTHS, labels=map(str, WIDTHS))
axis.minorticks_off()
axis.legend(fontsize=9)
