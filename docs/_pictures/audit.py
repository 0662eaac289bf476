"""What one step of AdamW, with one learning rate for all tensors, changes in decoders of several widths."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.ticker import LogLocator
from torch import nn

import scalewise as sw
from scalewise.experiments._look import COLORS, MUTED, power_label
from scalewise.plan._measurement import Quantity


class Block(nn.Module):
    """A perceptron beside a residual stream."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the block's output to the stream."""
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """Predicts the next letter from one letter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(64, width), nn.LayerNorm(width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 64, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits."""
        return self.head(self.norm(self.blocks(self.words(tokens))))


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The cross-entropy."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


drawn = torch.Generator().manual_seed(0)
batch = torch.randperm(64, generator=drawn)[:32], torch.randint(64, (32,), generator=drawn)
found = sw.torch.audit(Model, (torch.optim.AdamW, {"lr": 3e-4}), loss, batch, target=4096)
seen, widths = found.measured, found.measured.widths

figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 2.6))
tensors = (("blocks.0.up", "-", 1), ("head", "--", 3), ("words", "-", 0))
for name, line, color in tensors:
    change, size = (
        seen.of(f"{name}.weight", quantity).mean(-1)
        for quantity in (Quantity.OWN_CHANGE, Quantity.OUTPUT)
    )
    ratio = change / size
    left.plot(widths, ratio / ratio[0], f"o{line}", ms=3.6, color=COLORS[color], label=name)
left.set(ylabel="own change, width 64 = 1")
first = next(one for one in found.breaks if one.place == "head.weight")
change = seen.of("head.weight", Quantity.CHANGE).mean(-1)
far = np.geomspace(widths[0], 4096, 50)
line, power = COLORS[1], first.fit.slope
right.plot(far, (far / first.width) ** power, "--", color=line, label=f"power {power:.2f}")
there = (
    widths[-1] / first.width
) ** power  # at the script's own rates, which are larger than those of the audit
right.plot(widths, change / change[-1] * there, "o", ms=3.6, color=line, label="measured")
right.axhline(1, color=MUTED, lw=0.8)
right.set(ylabel="change of the outputs")
for axis, ticks in ((left, [64, 128, 256, 512]), (right, [64, 512, 4096])):
    axis.set(xscale="log", yscale="log", xlabel="width n")
    axis.set_xticks(ticks, labels=map(str, ticks))
    axis.minorticks_off()
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if axis is left else (1.0,)))
    axis.yaxis.set_major_formatter(lambda value, _: power_label(value))
    axis.legend(fontsize=9)
