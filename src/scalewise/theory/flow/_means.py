r"""Means of fields over channels, where they are needed: of sums, and of norms that subtract them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from scalewise.gaussian import single_moment
from scalewise.networks.spi import (
    Attend,
    Concat,
    Draw,
    Drop,
    Mix,
    Normalise,
    Pointwise,
    Product,
    Program,
    Stack,
    Sum,
    Weigh,
    forward,
)

Mean = Float[np.ndarray, " label"] | None


def mean_at(
    program: Program,
    node: int,
    known: Callable[[int], Mean],
    mean: Callable[[int], Mean],
    fixed: Callable[[int], np.ndarray],
) -> Mean:
    r"""$\langle x(s)\rangle$ at every label; ``None`` for 0.

    Args:
        program: The network.
        node: Which field; none whose averages are estimated, nor one without weights.
        known: Of an activation the variances of the labels that enter it, of a norm the means that leave it.
        mean: Means of the fields that it reads.
        fixed: Fields without weights.
    """
    made = program.nodes[node]
    if isinstance(made, Draw | Attend):
        return None
    if isinstance(made, Pointwise):
        K = known(node)
        return None if made.sigma.parity < 0 else single_moment(made.sigma, K, (0,)).value
    if isinstance(made, Normalise):
        return known(node)
    if isinstance(made, Mix | Weigh):
        own, sizes = mean(made.of[0]), program.positions[made.of[0]]
        if own is None:
            return None
        return forward(made, [own.reshape(-1, *sizes, 1), fixed(made.of[1])], sizes).ravel()
    below = [mean(k) for k in made.of]
    if isinstance(made, Drop):
        return below[0]
    if isinstance(made, Product) and any(m is None for m in below):
        return None
    if all(m is None for m in below):
        return None
    if isinstance(made, Concat | Sum):
        weights = made.shares if isinstance(made, Concat) else made.factors
        parts = [f * m for f, m in zip(weights, below, strict=True) if m is not None]
        return np.sum(parts, axis=0)
    if isinstance(made, Stack):
        return _stacked(program, made, below)
    sizes = program.positions[made.of[0]]
    fields = [m.reshape(-1, *sizes, 1) for m in below if m is not None]
    return forward(made, fields, sizes).ravel()


def _stacked(program: Program, node: Stack, below: list[np.ndarray | None]) -> np.ndarray:
    """One after the other, 0 where there is no mean."""
    shapes = [program.positions[k] for k in node.of]
    inputs = next(
        len(m) // math.prod(s) for m, s in zip(below, shapes, strict=True) if m is not None
    )
    fields = [
        (np.zeros((inputs, *shape, 1)) if m is None else m.reshape(inputs, *shape, 1))
        for m, shape in zip(below, shapes, strict=True)
    ]
    return forward(node, fields, shapes[0]).ravel()
