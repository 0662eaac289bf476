"""One training in two gauges: a multiplier at the readout, and none."""

import matplotlib.pyplot as plt
import torch
from torch import nn

import scalewise as sw
from scalewise.experiments._look import COLORS

BASE, WIDTH, RATE = 64, 256, 3e-3
RATIO = WIDTH / BASE


class Net(nn.Module):
    """Three layers and a number."""

    def __init__(self, width: int, multiplier: float = 1.0) -> None:
        super().__init__()
        self.first, self.hidden = nn.Linear(8, width), nn.Linear(width, width)
        self.head, self.multiplier = nn.Linear(width, 4, bias=False), multiplier

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits."""
        h = torch.tanh(self.hidden(torch.tanh(self.first(x))))
        return self.head(self.multiplier * h)


plan = sw.torch.plan(
    lambda width: Net(width), base={"width": BASE}, target={"width": WIDTH}, strategy=sw.scaling.mup()
)  # fmt: skip
torch.manual_seed(0)
x, y = torch.randn(32, 8), torch.randint(4, (32,))
theirs = Net(WIDTH, 1 / RATIO)
nn.init.normal_(theirs.head.weight, std=BASE**-0.5)
ours = Net(WIDTH)
ours.load_state_dict(theirs.state_dict())
ours.head.weight.data /= RATIO


def train(model: nn.Module, groups: list) -> list[float]:
    """The losses of 40 steps."""
    optimizer, out = torch.optim.AdamW(groups, eps=1e-12), []
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


hidden = [theirs.hidden.weight]
rest = [p for p in theirs.parameters() if p is not hidden[0]]
figure, axis = plt.subplots(figsize=(5.4, 2.6))
by_hand = [{"params": rest, "lr": RATE}, {"params": hidden, "lr": RATE / RATIO}]
axis.plot(train(theirs, by_hand), "-", color=COLORS[0], label="multiplier, mup's rates")
groups = plan.param_groups(ours, lr=RATE, weight_decay=0.01, eps=1e-12)
axis.plot(train(ours, groups)[::2], "o", ms=4, color=COLORS[0])
axis.lines[-1].set_data(range(0, 40, 2), axis.lines[-1].get_ydata())
axis.lines[-1].set_label("plan")
axis.set(xlabel="step", ylabel="loss", yscale="log")
axis.legend(fontsize=9)
