"""How far one step of gradient descent moves outputs and features of convolutional networks, by their channels."""

import matplotlib.pyplot as plt
import torch
from matplotlib.ticker import LogLocator
from sklearn.datasets import load_digits
from torch import nn

import scalewise as sw
from scalewise.experiments._look import COLORS, power_label


class Conv(nn.Module):
    """Convolutions, one of them depthwise and one the readout, and a batch norm."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm = nn.BatchNorm2d(channels)
        self.mix = nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False)
        self.head = nn.Conv2d(2 * channels, 10, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits, averaged over positions."""
        x = torch.relu(self.norm(self.depthwise(torch.relu(self.stem(x)))))
        return self.head(torch.relu(self.mix(x))).mean((2, 3))


def loss(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The cross-entropy."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


digits = load_digits()
images = torch.tensor(digits.images / 16 - 0.5, dtype=torch.float32)[:8, None]
batch = images, torch.tensor(digits.target)[:8]
channels = [32, 64, 128, 256]
figure, axes = plt.subplots(1, 2, figsize=(6.6, 2.6), sharey=True)
scaling = sw.scaling
ways = (("mup", scaling.mup()), ("ntk", scaling.ntk()), ("as built", scaling.standard()))
for (label, strategy), color in zip(ways, (0, 4, 1), strict=True):
    plan = sw.torch.plan(
        Conv,
        base={"channels": 32},
        target={"channels": 256},
        width="channels",
        strategy=strategy,
        optimizer="sgd",
    )
    size = plan.verify(batch, loss, widths=channels, seeds=2).table.size
    for axis, tensor in zip(axes, ("mix.weight", "head.weight"), strict=True):
        moved = size.sel(tensor=tensor, quantity="change").mean("seed")
        line = "o-" if label != "ntk" else "s--"
        axis.plot(channels, moved / moved[0], line, ms=3.6, color=COLORS[color], label=label)
for axis, title in zip(axes, ("features, after mix", "outputs, after head"), strict=True):
    axis.set(xscale="log", yscale="log", xlabel="channels", title=title)
    axis.set_xticks(channels, labels=map(str, channels))
    axis.minorticks_off()
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
    axis.yaxis.set_major_formatter(lambda value, _: power_label(value))
axes[0].set(ylabel="change, 32 channels = 1")
axes[0].legend(fontsize=9)
