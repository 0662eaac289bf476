"""Gradients of an expert and of the router, by the number of experts."""

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn import functional as F

from scalewise.experiments._look import COLORS, MUTED

WIDTH, EXPERTS = 64, (4, 8, 16, 32)


class Model(nn.Module):
    """Words, experts, words."""

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(64, WIDTH), nn.Linear(WIDTH, 64, bias=False)
        self.router = nn.Linear(WIDTH, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, WIDTH, WIDTH) / WIDTH**0.5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Two experts for each token."""
        x = self.words(tokens)
        gates, chosen = self.router(x).topk(2, dim=-1)
        share = F.one_hot(chosen, len(self.up)) * gates.softmax(-1)[..., None]
        out = torch.relu(torch.einsum("bn,enm->ebm", x, self.up))
        return self.head(x + torch.einsum("bte,ebn->bn", share, out))


def gradients(experts: int, seed: int) -> tuple[float, float]:
    """Root mean squares, of the experts and of the router, of a mean over seeds of labels."""
    torch.manual_seed(seed)
    model = Model(experts)
    tokens = torch.randint(64, (512,))
    F.cross_entropy(model(tokens), (tokens + 1) % 64).backward()
    return tuple(
        p.grad.flatten(1).square().mean(1).sqrt().median().item()
        for p in (model.up, model.router.weight)
    )


figure, axis = plt.subplots(figsize=(5.2, 2.6))
found = [[gradients(e, s) for s in range(3)] for e in EXPERTS]
for i, label in enumerate(("an expert", "its row of the router")):
    sizes = [sum(one[i] for one in row) for row in found]
    axis.plot(EXPERTS, [s / sizes[0] for s in sizes], "o-", ms=4, color=COLORS[i], label=label)
axis.plot(EXPERTS, [EXPERTS[0] / e for e in EXPERTS], "--", color=MUTED, lw=0.8, label="1/E")
axis.set(xscale="log", yscale="log", xlabel="experts E", ylabel="gradient, E = 4 is 1")
axis.set_xticks(EXPERTS, labels=map(str, EXPERTS))
axis.minorticks_off()
axis.legend(fontsize=9)
