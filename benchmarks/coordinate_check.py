"""`plan.verify` beside mup's coordinate check: CPU seconds, and what each can tell apart.

    python benchmarks/mup_environment.py
    benchmarks/.venv-mup/bin/python benchmarks/coordinate_check.py

The same network with two hidden layers, the same widths, seeds, batch and optimizer, in one process, one
after the other. mup's check records sizes of activations; slopes are fitted to its table here, since it
leaves that to the eye. Whatever network it is given, its own or ours under another strategy, it sees.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import mup
import numpy as np
import torch
from mup.coord_check import get_coord_data
from torch import nn

import scalewise as sw

INPUTS, CLASSES, BATCH = 64, 10, 16
WIDTHS, SEEDS, STEPS = [64, 128, 256, 512, 1024], 4, 1
THEIR_WIDTHS, THEIR_SEEDS, THEIR_STEPS = [64, 128, 256, 512, 1024, 2048, 4096], 5, 4


class Net(nn.Module):
    def __init__(self, width: int, readout: type[nn.Linear] = nn.Linear) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, width, bias=False)
        self.second = nn.Linear(width, width, bias=False)
        self.third = nn.Linear(width, width, bias=False)
        self.head = readout(width, CLASSES, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.first(x))
        h = torch.tanh(self.second(h))
        return self.head(torch.tanh(self.third(h)))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    data = torch.Generator().manual_seed(0)
    return torch.randn(BATCH, INPUTS, generator=data), torch.arange(BATCH) % CLASSES


def loss(model: nn.Module, b: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(model(b[0]), b[1])


def ours(strategy: sw.scaling.Strategy) -> dict[str, object]:
    start = time.process_time()
    plan = sw.torch.plan(
        lambda width: Net(width),
        base={"width": WIDTHS[0]},
        target={"width": WIDTHS[-1]},
        strategy=strategy,
        optimizer="sgd",
    )
    check = plan.verify(batch(), loss, widths=WIDTHS, seeds=SEEDS, steps=STEPS, lr=0.1)
    return {"cpu": time.process_time() - start, "verdict": str(check.verdict)}


def theirs(
    build: Callable[[int], Callable[[], nn.Module]], widths: list[int], seeds: int, steps: int
) -> dict[str, object]:
    """CPU seconds, and the fitted power of the width of each module's activations at the last step."""
    start = time.process_time()
    table = get_coord_data(
        {w: build(w) for w in widths},
        [batch()],
        optimizer="sgd",
        lr=0.1,
        mup=True,
        nseeds=seeds,
        nsteps=steps,
        cuda=False,
        lossfn="xent",
        show_progress=False,
    )
    cpu = time.process_time() - start
    last = table[table["t"] == steps]
    slopes = {}
    for module, rows in last.groupby("module"):
        mean = rows.groupby("width")["l1"].mean()
        slopes[module] = float(np.polyfit(np.log(mean.index), np.log(mean.to_numpy()), 1)[0])
    return {"cpu": cpu, "slopes": {k: round(v, 3) for k, v in slopes.items()}}


def mu_net(width: int) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        model = Net(width, mup.MuReadout)
        base, delta = Net(64, mup.MuReadout), Net(128, mup.MuReadout)
        return mup.set_base_shapes(model, base, delta=delta)

    return build


class Divided(nn.Linear):
    """A layer in the neural-tangent parametrisation, by a multiplier, for a check that knows no plan."""

    def __init__(self, inputs: int, outputs: int, bias: bool = False) -> None:
        super().__init__(inputs, outputs, bias=bias)
        nn.init.normal_(self.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) / self.in_features**0.5


class NeuralTangent(Net):
    def __init__(self, width: int) -> None:
        super().__init__(width, Divided)
        self.first = Divided(INPUTS, width)
        self.second, self.third = Divided(width, width), Divided(width, width)


def ntk_net(width: int) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        # Its own shapes as base: no rate is rescaled, so plain gradient descent is what it sees.
        model = NeuralTangent(width)
        return mup.set_base_shapes(model, None)

    return build


def main() -> None:
    torch.set_num_threads(2)
    # Nobody pays for first calls.
    loss(Net(64), batch()).backward()
    torch.optim.SGD(Net(64).parameters(), lr=0.1)
    rows = {
        "ours, mup": ours(sw.scaling.mup()),
        "ours, ntk": ours(sw.scaling.ntk()),
        "ours, meta(1/2)": ours(sw.scaling.meta("1/2")),
        "ours, standard": ours(sw.scaling.standard()),
        "theirs, mup, our widths": theirs(mu_net, WIDTHS, SEEDS, STEPS),
        "theirs, ntk, our widths": theirs(ntk_net, WIDTHS, SEEDS, STEPS),
        "theirs, mup, their widths": theirs(mu_net, THEIR_WIDTHS, THEIR_SEEDS, THEIR_STEPS),
        "theirs, ntk, their widths": theirs(ntk_net, THEIR_WIDTHS, THEIR_SEEDS, THEIR_STEPS),
    }
    json.dump(rows, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
