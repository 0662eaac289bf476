"""Descriptions of models, as an adapter would give them, for the tests of the plan."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from scalewise.plan import (
    Kind,
    ModelDescription,
    Plan,
    Probe,
    Spread,
    TensorDescription,
    make_plan,
)
from scalewise.plan._forward import Attention, Forward, Passes
from scalewise.plan._policies import Training
from scalewise.plan._request import requested
from scalewise.scaling import Strategy

_ASKED = {"adjust", "blocks", "branch_outputs", "multiplied", "residual", "roles"}


def mlp(n: int, depth: int = 3, inputs: int = 10, outputs: int = 5) -> ModelDescription:
    """A sequence of linear layers with an activation between them."""
    sizes = [inputs, *[n] * (depth - 1), outputs]
    tensors = []
    for i, (into, out) in enumerate(itertools.pairwise(sizes)):
        owner = f"net.{2 * i}"
        tensors += [
            TensorDescription(
                f"{owner}.weight", (out, into), Kind.MATRIX, (1,), (0,), owner, "Linear"
            ),
            TensorDescription(f"{owner}.bias", (out,), Kind.BIAS, (), (0,), owner, "Linear"),
        ]
    return ModelDescription(tuple(tensors))


def language_model(n: int, depth: int = 2, words: int = 50, tied: bool = True) -> ModelDescription:
    """An embedding, blocks with a norm and a feed-forward of four times the width, a readout."""
    tensors = [
        TensorDescription(
            "embed.weight", (words, n), Kind.LOOKUP, (0,), (1,), "embed", "Embedding",
            ("head.weight",) if tied else (),
        )
    ]  # fmt: skip
    for i in range(depth):
        b = f"blocks.{i}"
        tensors += [
            TensorDescription(
                f"{b}.norm.weight", (n,), Kind.GAIN, (), (0,), f"{b}.norm", "LayerNorm"
            ),
            TensorDescription(
                f"{b}.up.weight", (4 * n, n), Kind.MATRIX, (1,), (0,), f"{b}.up", "Linear"
            ),
            TensorDescription(
                f"{b}.down.weight", (n, 4 * n), Kind.MATRIX, (1,), (0,), f"{b}.down", "Linear"
            ),
        ]
    head = TensorDescription("head.weight", (words, n), Kind.MATRIX, (1,), (0,), "head", "Linear")
    if not tied:
        tensors.append(head)
    return ModelDescription(
        tuple(tensors),
        {"head.weight": head} if tied else {},
    )


def attends(n: int) -> Forward:
    """What its forward pass does: four heads of the usual scale."""
    return Forward((Attention("blocks.0", n // 4, (n // 4) ** -0.5),))


def planned(
    strategy: Strategy,
    optimizer: str = "adamw",
    *,
    model=mlp,
    base: int = 8,
    target: int = 64,
    base_depth: int = 3,
    depth: int = 3,
    std: float = 0.1,
    **options: Any,
) -> Plan:
    """A plan of a described model; every tensor is drawn with the same standard deviation."""
    narrow, wide = model(base, depth), model(max(2 * base, target), depth)
    spreads: Mapping[str, Spread] = {t.name: Spread(0.0, std, 0.01) for t in narrow.tensors}
    ratio = Fraction(max(2 * base, target), base)
    forward = attends if model is language_model else lambda n: Forward()
    probe = Probe(
        narrow,
        wide,
        ratio,
        model(target, depth),
        None if depth == base_depth else model(base, base_depth),
        spreads,
        Passes(forward(base), forward(max(2 * base, target)), ratio),
    )
    axes, chosen = options.pop("axes", {}), options.pop("training", Training())
    request = requested(
        lambda **sizes: None, base={"width": base, "depth": base_depth},
        target={"width": target, "depth": depth}, strategy=strategy, optimizer=optimizer,
        **{k: options.pop(k) for k in options.keys() & _ASKED},
    )  # fmt: skip
    before, after = request.base | dict.fromkeys(axes, 1), request.target | axes
    request = replace(request, base=before, target=after, training=chosen)
    return make_plan(probe, request, **options)
