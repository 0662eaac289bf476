"""The table of docs/guide/cheat_sheet.md: role to initialisation, rate, epsilon and decay for every optimizer.

    python tests/cheat_sheet.py      writes it

Every power is what `scalewise.plan.rule` gives; the multipliers are those of plans of three small models.
`tests/docs/test_cheat_sheet.py` checks that the page shows what this writes.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch
from torch import nn

import scalewise as sw
from scalewise.plan import Layer, Powers, Role, Rule, rule
from scalewise.plan._laws import OPTIMIZERS, Optimizer
from written_part import WrittenPart

PART = WrittenPart("docs/guide/cheat_sheet.md", "tests/cheat_sheet.py")
STRATEGY = sw.scaling.mup()
# By title: role, layer, and whether a norm follows.
COLUMNS = {
    "input": (Role.INPUT, Layer.FIRST, False),
    "hidden": (Role.HIDDEN, Layer.HIDDEN, False),
    "output": (Role.OUTPUT, Layer.LAST, False),
    "vector": (Role.VECTOR, Layer.HIDDEN, False),
    "bottleneck": (Role.BOTTLENECK, Layer.LAST, False),
    "bottleneck, norm": (Role.BOTTLENECK, Layer.LAST, True),
    "fixed": (Role.FIXED, Layer.LAST, False),
}
WHAT = {
    "input": "embedding, first layer",
    "hidden": "both sides grow",
    "output": "readout",
    "vector": "bias, gain",
    "bottleneck": "from the width to a few units inside",
    "bottleneck, norm": "the same, and a norm follows",
    "fixed": "nothing grows",
}
ALPHAS = (Fraction(1, 2), Fraction(1))


def power(powers: Powers) -> Fraction:
    """Where all that grows does as the width."""
    return powers.fan_in + powers.width + powers.fan_out


def written(value: Fraction) -> str:
    """With a real minus."""
    return str(value).replace("-", "−")


def ruled(one: Optimizer, title: str, **more: Any) -> Rule:
    """The powers of one column under one optimizer."""
    role, layer, normed = COLUMNS[title]
    return rule(STRATEGY, role, layer, one.of(role).law, normed=normed, **more)


def cell(one: Optimizer, title: str) -> str:
    """Rate, epsilon, decay; the name of who trains it, where that is another optimizer."""
    trains = one.of(COLUMNS[title][0])
    if trains.name in OPTIMIZERS and trains.name != one.name:
        return trains.name
    found = ruled(one, title)
    eps = "–" if trains.law.eps is None else written(power(found.eps))
    return f"{written(power(found.lr))} · {eps} · {written(power(found.weight_decay))}"


def in_blocks(one: Optimizer) -> str:
    """The power of the depth of a rate in a block, for branches times depth^-1/2 and depth^-1."""
    found = [ruled(one, "hidden", residual=a, in_block=True).lr.depth for a in ALPHAS]
    return " · ".join(map(written, found))


def rows() -> dict[tuple[str, ...], list[str]]:
    """By their cells the names of optimizers."""
    out: dict[tuple[str, ...], list[str]] = {}
    for one in OPTIMIZERS.values():
        cells = (*(cell(one, title) for title in COLUMNS), in_blocks(one))
        out.setdefault(cells, []).append(one.name)
    return out


class Tied(nn.Module):
    """One embedding that also reads out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(8, width), nn.Linear(width, 8, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Look up, and read out."""
        return self.head(torch.tanh(self.words(x)))


class Towers(nn.Module):
    """Products, or squared distances, of two sides that grow."""

    def __init__(self, width: int, distances: bool) -> None:
        super().__init__()
        self.one, self.two, self.distances = nn.Linear(8, width), nn.Linear(8, width), distances

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All pairs."""
        u, v = self.one(x), self.two(x)
        return (u[:, None] - v).square().sum(-1) if self.distances else u @ v.T


class Attends(Tied):
    """One head as wide as the network, its logits over the root of its size."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.head = nn.Linear(width, 8, bias=False)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer of it."""
        h = self.words(x)
        q, k, v = (m(h) for m in (self.q, self.k, self.v))
        return self.head(nn.functional.scaled_dot_product_attention(q, k, v))


def multipliers() -> dict[str, Fraction]:
    """Powers of the width that a forward pass must have, beside what its code does."""
    words, numbers = torch.arange(8).reshape(2, 4), torch.randn(4, 8)
    cases = {
        "tied readout": (Tied, "head", words, []),
        "logits of growing heads, beside 1/√d": (Attends, "attention", words, ["attention"]),
        "products of two towers": (lambda w: Towers(w, False), "product", numbers, ["product"]),
        "squared distances": (lambda w: Towers(w, True), "distance", numbers, ["distance"]),
    }
    out = {}
    for title, (build, name, inputs, said) in cases.items():
        plan = sw.torch.plan(
            lambda width, build=build: build(width), base={"width": 16}, target={"width": 64},
            strategy=STRATEGY, inputs=inputs, multiplied=said,
        )  # fmt: skip
        out[title] = Fraction(math.log(plan.multipliers[name], 4)).limit_denominator(8)
    return out


def table() -> str:
    """The table as the page shows it."""
    titles = ["", *COLUMNS, "in blocks: *L*"]
    inits = [written(power(ruled(OPTIMIZERS["adamw"], title).init)) for title in COLUMNS]
    lines = [
        titles,
        ["---"] * len(titles),
        ["", *WHAT.values(), "rate, α = 1/2 · 1"],
        ["**init**, all", *inits, "−α at the end of a branch"],
        *([f"**{', '.join(names)}**", *cells] for cells, names in rows().items()),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def factors() -> str:
    """The multipliers as the page shows them."""
    found = [f"| {name} | {written(p)} |" for name, p in multipliers().items()]
    return "\n".join(["| in the forward pass | power of *n* |", "|---|---|", *found])


def section() -> str:
    """The two tables."""
    return f"{table()}\n\n{factors()}"


if __name__ == "__main__":
    PART.write(section())
