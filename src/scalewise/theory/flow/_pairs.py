r"""Expectations over unordered pairs of inputs: what a tensor that is symmetric in two pairs is made of.

By Price's theorem $\langle\sigma_a\sigma_b\rangle$ changes with $K_{aa},K_{ab},K_{bb}$ alone, so its first
derivative $J$ over pairs has three entries in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

from scalewise.activations import Activation
from scalewise.gaussian import Estimate, pair_moments
from scalewise.gaussian.spi import (
    PAIR_ORDERS,
    JointRule,
    clipped,
    feature_means,
    high_moments,
    increment,
    resolved,
    two_input_covariances,
)

# Moments that are first, second and third derivatives of $M_{00}$.
FIRST = ((1, 1), (2, 0), (0, 2))
SECOND = ((2, 2), (3, 1), (1, 3), (4, 0), (0, 4))
THIRD = ((3, 3), (4, 2), (2, 4), (5, 1), (1, 5))
Moments = dict[tuple[int, int], Estimate]
_MAX_QUADRATURE_PAIRS = 300  # nested quadrature costs a millisecond a pair; samples take over


@dataclass(frozen=True)
class UnorderedPairs:
    """Pairs of samples, unordered unless made by `ordered`, and where each pair of two equal samples stands."""

    first: Int[np.ndarray, " pair"]
    second: Int[np.ndarray, " pair"]
    index: Int[np.ndarray, "sample sample"]

    @staticmethod
    def of(count: int) -> UnorderedPairs:
        r"""All pairs $a\le b$ of `count` samples."""
        first, second = np.triu_indices(count)
        index = np.empty((count, count), dtype=np.intp)
        index[first, second] = index[second, first] = np.arange(first.size)
        return UnorderedPairs(first, second, index)

    @staticmethod
    def ordered(count: int) -> UnorderedPairs:
        r"""All pairs $a,b$: what stands on samples, flattened."""
        index = np.arange(count**2).reshape(count, count)
        first, second = np.indices((count, count)).reshape(2, -1)
        return UnorderedPairs(first, second, index)

    @property
    def aa(self) -> Int[np.ndarray, " pair"]:
        """For each pair (a, b) the place of (a, a)."""
        return self.index[self.first, self.first]

    @property
    def bb(self) -> Int[np.ndarray, " pair"]:
        """For each pair (a, b) the place of (b, b)."""
        return self.index[self.second, self.second]

    def two_legs(
        self, values: Float[np.ndarray, "*estimate pair"]
    ) -> Float[np.ndarray, "*estimate sample sample"]:
        """From unordered pairs to samples."""
        return values[..., self.index]

    def four_legs(
        self, values: Float[np.ndarray, "*estimate pair pair"]
    ) -> Float[np.ndarray, "*estimate sample sample sample sample"]:
        """From pairs of unordered pairs to samples."""
        return values[..., self.index[:, :, None, None], self.index]


def moments_on_pairs(
    sigma: Activation,
    kernel: Float[np.ndarray, "sample sample"],
    pairs: UnorderedPairs,
    orders: Sequence[tuple[int, int]],
) -> Moments:
    r"""$M_{pq}$ of all pairs, for orders that are all of `PAIR_ORDERS` or all beyond."""
    a, b = pairs.first, pairs.second
    A, B = kernel[a, a], kernel[b, b]
    C = np.where(a == b, A, clipped(A, B, kernel[a, b]))
    moments = pair_moments if orders[0] in PAIR_ORDERS else high_moments
    return moments(sigma, A, B, C, list(dict.fromkeys(orders)))


def jacobian(M: dict[tuple[int, int], np.ndarray], pairs: UnorderedPairs) -> sparse.csr_array:
    r"""$J$ as a matrix over pairs: three entries in a row."""
    count = pairs.first.size
    ab = np.arange(count)
    entries = np.concatenate([0.5 * M[2, 0], M[1, 1], 0.5 * M[0, 2]])
    rows, columns = np.tile(ab, 3), np.concatenate([pairs.aa, ab, pairs.bb])
    return sparse.csr_array((entries, (rows, columns)), shape=(count, count))


def pair_sources(
    sigma: Activation,
    kernel: np.ndarray,
    pairs: UnorderedPairs,
    rule: JointRule,
    moments: dict[tuple[int, int], np.ndarray],
) -> tuple[Float[np.ndarray, "_estimate pair pair"], Float[np.ndarray, "pair pair"]]:
    r"""$\mathrm{Cov}_K[\sigma_a\sigma_b,\sigma_c\sigma_d]$, by scramble if it is sampled, and its error.

    The constant part of $\sigma_a\sigma_b$ drops out, the part that is quadratic in $z$ is $J(zz-K)$, and
    what is left is uncorrelated with it. Its covariance is known, $J\,\mathrm{Cov}[zz,zz]\,J^T$, so only
    that of the rest is left to the nodes. The error is what rounding and quadrature may have done.
    Entries with at most two distinct inputs are known, and replaced unless all are to be wrong alike.
    """
    a, b = pairs.first, pairs.second
    wick = kernel[a][:, a] * kernel[b][:, b]
    wick += kernel[a][:, b] * kernel[b][:, a]
    J = jacobian(moments, pairs)
    quadratic = J @ (J @ wick).T
    known = _two_inputs(sigma, kernel, pairs)
    out, error = np.zeros((1, a.size, a.size)), np.zeros((a.size, a.size))
    if len(kernel) > 2 or len(known) == 1 < a.size:
        mean = feature_means(sigma, kernel, (0, 0))[a, b]

        def rests(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            feature = _features(sigma, nodes, pairs)
            square = nodes[a] * nodes[b]
            square -= kernel[a, b][:, None]
            rest = feature - mean[:, None]
            rest -= J @ square
            return feature, rest

        out, error = _from_nodes(rule, rests, quadratic)
        if rule.alike:
            return out, error
    for rows, columns, found in known:
        out[:, rows, columns] = out[:, columns, rows] = found.value
        error[rows, columns] = error[columns, rows] = found.error
    return out, error


def _features(sigma: Activation, nodes: np.ndarray, pairs: UnorderedPairs) -> np.ndarray:
    r"""$\sigma_a\sigma_b$ at the nodes without its constant part."""
    delta = increment(sigma, 0)
    s = delta(nodes)
    out = s[pairs.first] * s[pairs.second]
    if delta.centre:
        out += delta.centre * (s[pairs.first] + s[pairs.second])
    return out


def _from_nodes(
    rule: JointRule,
    rests: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    quadratic: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Covariances by scramble, or of the finer product rule, and their errors beside the spread."""
    out: np.ndarray = np.empty((rule.estimates, *quadratic.shape))
    size: np.ndarray = np.zeros(len(quadratic))
    for slot, (nodes, weights) in zip(out, rule.nodes(), strict=True):
        feature, rest = rests(nodes)
        size = np.maximum(size, np.sqrt(feature * feature @ weights))
        rest *= np.sqrt(weights)
        np.matmul(rest, rest.T, out=slot)  # of a matrix with itself: half the work
        slot += quadratic
    natural = size[:, None] * size
    if rule.engine == "samples":
        return out, rule.unseen(out, natural)
    error = resolved([*out], natural)
    if error is None:
        return _from_nodes(rule.samples, rests, quadratic)
    return out[-1:], error


def _two_inputs(
    sigma: Activation, kernel: np.ndarray, pairs: UnorderedPairs
) -> list[tuple[np.ndarray, np.ndarray, Estimate]]:
    r"""Where $\mathrm{Cov}[\sigma\sigma,\sigma\sigma]$ has at most two distinct inputs, and what it is."""
    K, family = np.diagonal(kernel), (0, 0, 0, 0)
    aa = np.diagonal(pairs.index)
    known = [(aa, aa, two_input_covariances(sigma, (K, K, K), [(family, 0)])[family, 0])]
    ab = np.flatnonzero(pairs.first != pairs.second)
    cheap = sigma.is_smooth or sigma.is_scale_invariant
    if ab.size and (cheap or ab.size <= _MAX_QUADRATURE_PAIRS):
        a, b = pairs.first[ab], pairs.second[ab]
        two = (K[a], K[b], clipped(K[a], K[b], kernel[a, b]))
        # Bit i of a pattern says that factor i stands on b.
        places = {
            0b1100: (aa[a], aa[b]),
            0b1010: (ab, ab),
            0b1000: (aa[a], ab),
            0b1011: (aa[b], ab),
        }
        found = two_input_covariances(sigma, two, [(family, pattern) for pattern in places])
        known += [(*place, found[family, pattern]) for pattern, place in places.items()]
    return known
