"""Nodes that tell of a sum, given two inputs: derivatives are small where an activation becomes flat."""

from __future__ import annotations

from itertools import product as product_of

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.training.tiles._rules import (
    DERIVATIVES,
    STEPS,
    NodeRule,
    Nodes,
    Orders,
    on_line,
    product,
)


def telling(
    sigma: Activation,
    rule: NodeRule,
    given: tuple[Orders, Orders],
    sd: Float[np.ndarray, " _size"],
    rho: Float[np.ndarray, " _rho"],
    accuracy: float,
) -> list[Nodes]:
    """For each term of the series, nodes at which what is given is not too small; the same for all inputs.

    Args:
        sigma: The activation.
        rule: All nodes.
        given: Orders of the derivatives of two inputs.
        sd: Standard deviations that they may have, the least and the largest among them.
        rho: Their correlation, likewise.
        accuracy: The share of a sum that nodes which are passed over may have, of a term as large as the whole.
    """
    beside = _largest(sigma, float(sd.max()), np.hypot(*rule.u))
    one, other = rule.ends(*np.array(list(product_of(rho, sd, sd))).T)
    shares = product(sigma, given[0], one) * product(sigma, given[1], other)
    shares = rule.w * beside * np.abs(shares)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    order, rest = np.argsort(shares.max(axis=0)), np.empty(rule.w.size)
    rest[order] = np.cumsum(shares[:, order], axis=1).max(axis=0)
    found: list[Nodes] = []
    for count, size in zip(rule.nodes, rule.sizes, strict=True):
        tells = np.flatnonzero(rest[:count] * size > accuracy)
        found.append(slice(count) if len(tells) == count else tells)
    return found


def _largest(
    sigma: Activation, sd: float, radius: Float[np.ndarray, " node"]
) -> Float[np.ndarray, " node"]:
    """Two other factors so far out, at most: squares of derivatives, relative to mean squares; no less than 1."""
    found = np.ones_like(radius)
    for p in range(DERIVATIVES + 1):
        usual, _ = on_line(sigma, (p, p), sd, STEPS[-1])
        ends = [product(sigma, (p,), end * radius) ** 2 for end in (sd, -sd)]
        found = np.maximum(found, np.maximum(*ends) / max(usual, 1e-300))
    return found
