"""How far ten steps at planned rates move the scores of two towers, by the width."""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional as F

import scalewise as sw
from scalewise.experiments._look import COLORS

WIDTHS = (32, 64, 128, 256, 512)
pairs = torch.randn(2, 12, 8, generator=torch.Generator().manual_seed(0))


class Towers(nn.Module):
    """Two sides and their products."""

    def __init__(self, width: int, way: str) -> None:
        super().__init__()
        self.one, self.two = (
            nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(2)
        )
        self.way = way

    def forward(self, both: torch.Tensor) -> torch.Tensor:
        """The scores of all pairs."""
        u, v = self.one(both[0]), self.two(both[1])
        if self.way == "cosine":
            u, v = F.normalize(u, dim=-1), F.normalize(v, dim=-1)
        return u @ v.T / (u.shape[-1] / 32 if self.way == "1/d" else 1)


def moved(way: str, width: int, seed: int) -> float:
    """The mean change of a score."""
    said = [] if way == "cosine" else ["product"]
    plan = sw.torch.plan(
        lambda width: Towers(width, way), base={"width": 32}, target={"width": width},
        strategy=sw.scaling.mup(), inputs=pairs, multiplied=said,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = plan.init_(Towers(width, way))
    optimizer = torch.optim.AdamW(plan.param_groups(model, lr=1e-3))
    with torch.no_grad():
        before = model(pairs)
    for _ in range(10):
        optimizer.zero_grad()
        F.cross_entropy(model(pairs), torch.arange(12)).backward()
        optimizer.step()
    with torch.no_grad():
        return (model(pairs) - before).abs().mean().item()


figure, axis = plt.subplots(figsize=(5.2, 2.8))
for i, way in enumerate(("raw", "1/d", "cosine")):
    sizes = [sum(moved(way, n, s) for s in range(3)) for n in WIDTHS]
    axis.plot(WIDTHS, [s / sizes[0] for s in sizes], "o-", ms=4, color=COLORS[i], label=way)
axis.set(xscale="log", yscale="log", xlabel="width n", ylabel="change, width 32 = 1")
axis.set_xticks(WIDTHS, labels=map(str, WIDTHS))
axis.minorticks_off()
axis.legend(fontsize=9)
