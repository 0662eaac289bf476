r"""Means of fields over channels, where they are needed: of sums, and of norms that subtract them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from scalewise.gaussian import single_moment
from scalewise.networks._forward import forward
from scalewise.networks._program import Attend, Concat, Draw, Norm, Pointwise, Product, Program, Sum

Mean = Float[np.ndarray, " label"] | None


def mean_at(
    program: Program, node: int, K: Callable[[int], np.ndarray], mean: Callable[[int], Mean]
) -> Mean:
    r"""$\langle x(s)\rangle$ at every label; ``None`` for 0.

    Args:
        program: The network.
        node: Which field; none whose averages are estimated, nor one without weights.
        K: Variances of the labels that enter an activation or a norm, the mean included.
        mean: Means of the fields that it reads.
    """
    made = program.nodes[node]
    if isinstance(made, Draw | Attend):
        return None
    below = [mean(k) for k in made.of]
    if isinstance(made, Pointwise):
        return None if made.sigma.parity < 0 else single_moment(made.sigma, K(node), (0,)).value
    if isinstance(made, Norm):
        m = below[0]
        return None if m is None or made.centred else m / np.sqrt(K(node) + made.eps)
    if isinstance(made, Product) and any(m is None for m in below):
        return None
    known = [m for m in below if m is not None]
    if not known:
        return None
    if isinstance(made, Concat):
        return sum(f * m for f, m in zip(made.shares, below, strict=True) if m is not None)  # pyright: ignore
    if isinstance(made, Sum):
        return sum(f * m for f, m in zip(made.factors, below, strict=True) if m is not None)  # pyright: ignore
    sizes = program.positions[made.of[0]]
    return forward(made, [m.reshape(-1, *sizes, 1) for m in known], sizes).ravel()
