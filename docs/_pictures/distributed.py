"""The loss of a run that is resumed with the multiplier of its tied readout, and without it."""

import copy

import matplotlib.pyplot as plt
import torch
from torch import nn

import scalewise as sw
from scalewise.experiments._look import COLORS, MUTED


class Model(nn.Module):
    """Words, a layer, and the words again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.mix = nn.Embedding(16, width), nn.Linear(width, width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 16, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The logits."""
        h = self.words(x)
        return self.head(self.norm(h + torch.relu(self.mix(h))))


tokens = torch.randint(16, (4, 9), generator=torch.Generator().manual_seed(0))
plan = sw.torch.plan(Model, base={"width": 16}, target={"width": 64}, strategy=sw.scaling.mup())


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    """The losses."""
    out = []
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(tokens[:, :-1]).flatten(0, 1)
        loss = nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


torch.manual_seed(0)
model = plan.scale_(plan.init_(Model(64)))
optimizer = torch.optim.AdamW(plan.param_groups(model, lr=3e-3))
before = train(model, optimizer, 10)
kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
figure, axis = plt.subplots(figsize=(5.4, 2.6))
axis.plot(range(20), before + train(model, optimizer, 10), "-", color=MUTED, label="not stopped")
for label, scaled, mark, color in (
    ("resumed with scale_", True, "o", COLORS[0]),
    ("resumed without", False, "^", COLORS[1]),
):
    again = Model(64)
    again.load_state_dict(kept[0])
    rows = plan.param_groups(plan.scale_(again), lr=3e-3) if scaled else None
    if rows is None:  # by hand: the plan itself refuses a model without its multiplier
        hooked = plan.scale_(copy.deepcopy(again))
        called = {id(p): n for n, p in hooked.named_parameters()}
        own = dict(again.named_parameters())
        rows = [
            {**g, "params": [own[called[id(p)]] for p in g["params"]]}
            for g in plan.param_groups(hooked, lr=3e-3)
        ]
    resumed = torch.optim.AdamW(rows)
    resumed.load_state_dict(kept[1])
    axis.plot(range(10, 20), train(again, resumed, 10), mark, ms=4, color=color, label=label)
axis.set(xlabel="step", ylabel="loss")
axis.legend(fontsize=9)
