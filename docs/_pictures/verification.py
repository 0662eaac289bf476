"""How far one step of Adam moves the outputs of a network of PyTorch, under the plan and as built."""

import itertools

import matplotlib.pyplot as plt
import torch
from torch import nn

import scalewise as sw
from scalewise.experiments._look import COLORS, power_label


def build(width: int) -> nn.Module:
    """Three layers on ten inputs."""
    sizes = (10, width, width, 1)
    layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*[part for pair in layers for part in pair][:-1])


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Half the squared error."""
    return (model(batch[0]) - batch[1]).square().mean() / 2


torch.manual_seed(0)
batch = torch.randn(16, 10), torch.randn(16, 1)
widths = [64, 128, 256, 512]
figure, axis = plt.subplots(figsize=(3.05, 2.6))
ways = (("planned", COLORS[0], sw.scaling.mup()), ("as built", COLORS[1], sw.scaling.standard()))
for label, color, strategy in ways:
    plan = sw.torch.plan(
        build, base={"width": 64}, target={"width": 512}, strategy=strategy, optimizer="adam"
    )
    table = plan.verify(batch, loss, widths=widths, seeds=4).table
    moved = table.size.sel(tensor="4.weight", quantity="change")
    moved = moved / moved.sel(width=64).mean()
    axis.errorbar(
        widths,
        moved.mean("seed"),
        moved.std("seed", ddof=1) / 2,
        fmt="o-",
        ms=3.6,
        color=color,
        label=label,
    )
axis.set(
    xscale="log",
    yscale="log",
    xlabel="width n",
    ylabel="change, width 64 = 1",
)
axis.set_xticks(widths, labels=widths, minor=False)
axis.minorticks_off()
axis.yaxis.set_major_formatter(lambda value, _: power_label(value))
axis.legend(fontsize=9)
