"""Covariances of products of four factors that stand on one or two distinct inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from scalewise.activations import Activation
from scalewise.gaussian._estimate import Estimate
from scalewise.gaussian._increments import (
    Legs,
    increment,
    increment_means,
    pair_increments,
)

Family = tuple[int, int, int, int]
_ROUNDOFF = 4e-15  # relative, of a closed form


def two_input_covariances(
    sigma: Activation,
    pairs: tuple[np.ndarray, ...],
    wanted: Sequence[tuple[Family, int]],
) -> dict[tuple[Family, int], Estimate]:
    r"""$\mathrm{Cov}[\sigma^{(p)}\sigma^{(q)},\sigma^{(r)}\sigma^{(s)}]$ over two inputs.

    Args:
        sigma: The activation; derivatives almost everywhere.
        pairs: $K_{aa}$, $K_{bb}$, $K_{ab}$ of each pair of inputs.
        wanted: A family, and a pattern whose bit $i$ says that factor $i$ stands on the second input.

    Returns:
        Value and estimated error of each, one per pair.
    """
    A, B, C = pairs
    if sigma.family == "exp":
        return {key: _log_normal_of(A, B, C, key[1]) for key in wanted}
    sums = {key: list(_products_of(sigma, *key)) for key in wanted}
    needed = {legs for terms in sums.values() for _, *three in terms for legs in three}
    single = [sorted({legs[i] for legs in needed if legs[i] and not legs[1 - i]}) for i in (0, 1)]
    known: dict[tuple[Legs, Legs], Estimate] = {
        (legs, ()): found for legs, found in increment_means(sigma, A, single[0]).items()
    }
    known |= {((), legs): e for legs, e in increment_means(sigma, B, single[1]).items()}
    both = sorted(legs for legs in needed if legs[0] and legs[1])
    known |= pair_increments(sigma, A, B, C, both) if both else {}
    out = {}
    for key, terms in sums.items():
        value, error = np.zeros_like(A), np.zeros_like(A)
        for factor, whole, one, other in terms:
            mean = known[one].value * known[other].value
            value = value + factor * (known[whole].value - mean)
            slip = known[one].error * np.abs(known[other].value)
            slip = slip + known[other].error * np.abs(known[one].value) + known[whole].error
            slip = slip + 2e-16 * (np.abs(known[whole].value) + np.abs(mean))
            error = error + np.abs(factor) * slip
        out[key] = Estimate(value, error, "covariance")
    return out


def _log_normal_of(A: np.ndarray, B: np.ndarray, C: np.ndarray, pattern: int) -> Estimate:
    """One entry of `_log_normal` for many pairs of inputs."""
    side: list[int] = [pattern >> i & 1 for i in range(4)]
    K = [[A, C], [C, B]]
    spread = sum(0.5 * K[s][s] for s in side) + K[side[0]][side[1]] + K[side[2]][side[3]]
    value = np.exp(spread) * np.expm1(sum(K[i][j] for i in side[:2] for j in side[2:]))
    return Estimate(value, _ROUNDOFF * (1 + np.abs(spread)) * np.abs(value), "closed")


def _products_of(
    sigma: Activation, family: Family, pattern: int
) -> Iterator[tuple[float, tuple[Legs, Legs], tuple[Legs, Legs], tuple[Legs, Legs]]]:
    """The terms of a covariance: its factor, the increments of both features, those of either."""
    side = [pattern >> i & 1 for i in range(4)]
    centre = [increment(sigma, p).centre for p in family]
    parts = []
    for i, j in ((0, 1), (2, 3)):
        found = [(1.0, (i, j)), (centre[j], (i,)), (centre[i], (j,))]
        parts.append([(factor, legs) for factor, legs in found if factor])

    def stands(legs: tuple[int, ...]) -> tuple[Legs, Legs]:
        first, second = (tuple(sorted(family[i] for i in legs if side[i] == s)) for s in (0, 1))
        return first, second

    for one, left in parts[0]:
        for other, right in parts[1]:
            yield one * other, stands((*left, *right)), stands(left), stands(right)
