"""The plan without multipliers against mup's readout and optimizers: the same training, to rounding.

    python benchmarks/mup_environment.py
    benchmarks/.venv-mup/bin/python benchmarks/mup_trajectories.py

mup multiplies the readout in its forward pass and divides rates in its optimizers; a plan has neither
and scales initialisation, rates, epsilon and decay instead. Both start from the same effective weights,
in float64. Two conventions are translated: mup keeps one epsilon in its own gauge, which the plan's
epsilons equal when the base's is chosen at the target's gradients; and mup's undecoupled options are
not used.
"""

from __future__ import annotations

import copy
import json
import sys

import mup
import torch
from torch import nn

import scalewise as sw

BASE, WIDTH, STEPS, INPUTS, CLASSES = 64, 512, 50, 20, 10
RATIO = WIDTH / BASE


class Net(nn.Module):
    def __init__(self, width: int, readout: type[nn.Linear]) -> None:
        super().__init__()
        self.first = nn.Linear(INPUTS, width)
        self.hidden = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.head = readout(width, CLASSES, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.first(x))
        h = torch.tanh(self.hidden(h))
        return self.head(torch.relu(self.second(h)))


def theirs() -> nn.Module:
    model = Net(WIDTH, mup.MuReadout)
    mup.set_base_shapes(model, Net(BASE, mup.MuReadout), delta=Net(2 * BASE, mup.MuReadout))
    return model.double()


def ours(reference: nn.Module) -> nn.Module:
    """The same network: their weights, with the readout's multiplier moved into its weights."""
    model = Net(WIDTH, nn.Linear).double()
    model.load_state_dict(reference.state_dict())
    with torch.no_grad():
        model.head.weight.div_(RATIO)
    return model


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    data = torch.Generator().manual_seed(1)
    x = torch.randn(128, INPUTS, generator=data, dtype=torch.float64)
    y = torch.randint(0, CLASSES, (128,), generator=data)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model(x).detach()


def plan(optimizer: str) -> sw.torch.TorchPlan:
    return sw.torch.plan(
        lambda width: Net(width, nn.Linear),
        base={"width": BASE},
        target={"width": WIDTH},
        strategy=sw.scaling.mup(),
        optimizer=optimizer,
    )


CASES = {
    "SGD": (
        "sgd",
        torch.optim.SGD,
        mup.MuSGD,
        {"lr": 0.1, "momentum": 0.9},
        {"lr": 0.1, "momentum": 0.9},
    ),
    "Adam": (
        "adam",
        torch.optim.Adam,
        mup.MuAdam,
        {"lr": 1e-3, "eps": 1e-8 * RATIO},
        {"lr": 1e-3, "eps": 1e-8},
    ),
    "AdamW": (
        "adamw",
        torch.optim.AdamW,
        mup.MuAdamW,
        {"lr": 1e-3, "eps": 1e-8 * RATIO, "weight_decay": 0.1},
        {"lr": 1e-3, "eps": 1e-8, "weight_decay": 0.1},
    ),
}


def main() -> None:
    rows = {}
    for name, (optimizer, cls, mu_cls, settings, mu_settings) in CASES.items():
        torch.manual_seed(0)
        reference = theirs()
        model = ours(reference)
        start = copy.deepcopy(model)
        their_logits = train(reference, mu_cls(reference.parameters(), **mu_settings))
        our_logits = train(model, cls(plan(optimizer).param_groups(model, **settings)))
        plain = train(start, cls(start.parameters(), **settings))
        rows[name] = {
            "largest logit": float(their_logits.abs().max()),
            "largest difference": float((their_logits - our_logits).abs().max()),
            "difference without a plan": float((their_logits - plain).abs().max()),
        }
    json.dump(rows, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
