"""Sizes and gradients along 20 layers of tanh, as PyTorch draws them and at the critical point."""

import matplotlib.pyplot as plt
import torch
from torch import nn

import scalewise as sw
from scalewise.experiments._look import COLORS


def build(width: int, gain: float | None) -> nn.Module:
    """Twenty layers of tanh; ``None`` leaves them as PyTorch draws them."""
    hidden = [part for _ in range(19) for part in (nn.Linear(width, width), nn.Tanh())]
    model = nn.Sequential(nn.Linear(16, width), nn.Tanh(), *hidden, nn.Linear(width, 1))
    for layer in model if gain else ():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=gain * layer.in_features**-0.5)
            nn.init.zeros_(layer.bias)
    return model


torch.manual_seed(0)
batch = torch.randn(16, 16)
figure, axes = plt.subplots(1, 2, figsize=(7.0, 2.8))
for k, (gain, label) in enumerate(((None, "as PyTorch draws it"), (1.0, "critical"))):
    table = sw.torch.signals(lambda n, gain=gain: build(n, gain), batch, width=64).table
    for axis, column in zip(axes, ("size", "gradient"), strict=True):
        values = table[column].values[:-1]
        axis.plot(range(1, len(values) + 1), values, "o-", ms=3, color=COLORS[k], label=label)
axes[0].set(yscale="log", ylim=(0.01, 2), xlabel="layer", ylabel="size of signals")
axes[1].set(yscale="log", xlabel="layer", ylabel="size of gradients")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
