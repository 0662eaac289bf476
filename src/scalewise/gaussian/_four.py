r"""Covariances of pairs, $\mathrm{Cov}[\sigma^{(p)}_a\sigma^{(q)}_b,\sigma^{(r)}_c\sigma^{(s)}_d]_K$.

Two of the four factors make a pair feature, whose constant part $s_ps_q$ is taken out before anything is
multiplied (see `_increments`). What is left is $\phi$. Its best approximation $Cu$ by the monomials
$u=(1,z_a,z_az_b-K_{ab})$ is known from pair moments, and so is $\langle uu^T\rangle$; what the nodes have to tell
is only the covariance of the rests,
$$\mathrm{Cov}[\phi,\psi^T]=\overline{(\phi-C_\phi u)(\psi-C_\psi u)^T}
  +C_\phi\,\mathrm{Cov}[u,u^T]\,C_\psi^T,$$
where the first term comes out of one matrix product of features and monomials. Entries with at most two
distinct inputs are replaced by what they are to 1e-10, unless all are to be wrong alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable
from scalewise.activations import Activation
from scalewise.gaussian._features import Family, Moments, Orders, PairFeatures, Samples, on_nodes
from scalewise.gaussian._geometry import clipped
from scalewise.gaussian._increments import (
    increment,
    increment_means,
    pair_increments,
)
from scalewise.gaussian._joint import JointRule, resolved
from scalewise.gaussian._two_inputs import two_input_covariances

Sides = tuple[np.ndarray, np.ndarray]
_MAX_QUADRATURE_INPUTS = 12  # nested quadrature costs a millisecond a pair; samples take over
_ROUNDOFF = 4e-15  # of a sum over nodes, relative to the root of the mean squares


@dataclass(frozen=True)
@readable
class FourPoint:
    r"""One family of four-point expectations, derivatives almost everywhere.

    Args:
        covariance: $\mathrm{Cov}[\sigma^{(p)}_a\sigma^{(q)}_b,\sigma^{(r)}_c\sigma^{(s)}_d]$: one array, or
            one per scramble where it was sampled.
        error: What rounding and quadrature may have done to it, beside the spread of the scrambles.
        left: $\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$.
        right: $\langle\sigma^{(r)}_c\sigma^{(s)}_d\rangle$.
    """

    covariance: Float[np.ndarray, "_estimate first first second second"]
    error: Float[np.ndarray, "first first second second"]
    left: Float[np.ndarray, "first first"]
    right: Float[np.ndarray, "second second"]

    @property
    def product(self) -> Float[np.ndarray, "_estimate first first second second"]:
        """The expectation of all four factors."""
        return self.covariance + self.left[:, :, None, None] * self.right

    def between(self, first: np.ndarray, second: np.ndarray) -> FourPoint:
        """The covariances with the first two factors on some inputs, and the other two on others.

        Args:
            first: Numbers of the inputs of the first two.
            second: Those of the others.
        """
        left, right = np.ix_(first, first), np.ix_(second, second)
        at = np.ix_(first, first, second, second)
        return FourPoint(
            self.covariance[:, *at], self.error[at], self.left[left], self.right[right]
        )


def four_point_covariances(
    sigma: Activation,
    K: Samples,
    rule: JointRule,
    families: Sequence[Family],
    moments: Moments | None,
    sides: Sides | None = None,
) -> dict[Family, FourPoint]:
    r"""Covariances of products of two factors with products of two others, over all inputs, family by family.

    Args:
        sigma: The activation; derivatives are taken almost everywhere.
        K: The kernel.
        rule: Nodes for $N(0,K)$.
        families: Orders $(p,q,r,s)$; the first two and the last two make the features.
        moments: $M_{pq}$ as a matrix over samples for $p+q\le6$, or ``None`` where they do not exist:
            then only constants are split off.
        sides: Which inputs the first two factors stand on, and which the other two, where not all stand on all.

    Returns:
        Each family. A product rule that does not resolve it is replaced by samples.

    Source: PDLT (4.90), (8.97).
    """
    count = len(K)
    if sides is not None and count <= 2:  # as they are known of two inputs, cut out
        whole = four_point_covariances(sigma, K, rule, families, moments)
        return {f: found.between(*sides) for f, found in whole.items()}
    halves = sorted({half for f in families for half in (f[:2], f[2:])})
    means = {pq: feature_means(sigma, K, pq) for pq in halves}
    first, second = (np.arange(count),) * 2 if sides is None else sides
    shape = (*(len(first),) * 2, *(len(second),) * 2)
    values: dict[Family, np.ndarray] = {f: np.zeros((1, *shape)) for f in families}
    errors: dict[Family, np.ndarray] = {f: np.zeros(shape) for f in families}
    if sigma.family == "exp":
        value = _log_normal(K)[np.ix_(first, first, second, second)]
        slip = _ROUNDOFF * (1 + K.max()) * np.abs(value)
        for f in families:
            values[f], errors[f] = value[None], slip
    elif count > 2:
        values, errors = _by_nodes(sigma, K, rule, families, means, moments, (first, second))
    cheap = sigma.is_smooth or sigma.is_scale_invariant
    wanted = sides is None and (count <= 2 or not rule.alike)
    if sigma.family != "exp" and wanted and (cheap or count <= _MAX_QUADRATURE_INPUTS):
        _on_two_inputs(sigma, K, values, errors)
    full = {(p, q): _constant(sigma, p) * _constant(sigma, q) + m for (p, q), m in means.items()}
    left, right = np.ix_(first, first), np.ix_(second, second)
    return {
        f: FourPoint(values[f], errors[f], full[f[:2]][left], full[f[2:]][right]) for f in families
    }


def _constant(sigma: Activation, order: int) -> float:
    r"""Constant that was taken out of $\sigma^{(p)}$."""
    return 1.0 if sigma.family == "exp" else increment(sigma, order).centre


def feature_means(sigma: Activation, K: Samples, orders: Orders) -> Samples:
    r"""$\langle\phi_{ab}\rangle=\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle-s_ps_q$, almost everywhere.

    Args:
        sigma: The activation.
        K: The kernel.
        orders: $(p,q)$.
    """
    p, q = orders
    diagonal, count = np.diagonal(K), len(K)
    if sigma.family == "exp":
        return np.expm1(0.5 * (diagonal[:, None] + diagonal) + K)
    s_p, s_q = increment(sigma, p).centre, increment(sigma, q).centre
    both = (p, q) if p <= q else (q, p)
    one = increment_means(sigma, diagonal, sorted({(p,), (q,), both}))
    a, b = np.triu_indices(count, 1) if p == q else np.nonzero(~np.eye(count, dtype=bool))
    out = np.diag(one[both].value)
    if a.size:
        A, B, C = _clipped(K, a, b)
        out[a, b] = pair_increments(sigma, A, B, C, [((p,), (q,))])[(p,), (q,)].value
        if p == q:
            out[b, a] = out[a, b]
    return out + s_q * one[p,].value[:, None] + s_p * one[q,].value


def _log_normal(K: Samples) -> Float[np.ndarray, "sample sample sample sample"]:
    r"""$\mathrm{Cov}[e^{z_a+z_b},e^{z_c+z_d}]$."""
    spread = 0.5 * (np.diagonal(K)[:, None] + np.diagonal(K)) + K
    first = K[:, None, :, None] + K[:, None, None, :]  # K_ac + K_ad
    cross = first + first.swapaxes(0, 1)
    return np.exp(spread[:, :, None, None] + spread) * np.expm1(cross)


def _clipped(K: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    A, B = np.diagonal(K)[a], np.diagonal(K)[b]
    return A, B, clipped(A, B, K[a, b])


def _by_nodes(
    sigma: Activation,
    K: np.ndarray,
    rule: JointRule,
    families: Sequence[Family],
    means: dict[Orders, np.ndarray],
    moments: Moments | None,
    sides: Sides,
) -> tuple[dict[Family, np.ndarray], dict[Family, np.ndarray]]:
    """Values, by scramble if there are scrambles, and errors beside their spread."""
    linear, halves = sigma.parity == 0, ({f[:2] for f in families}, {f[2:] for f in families})
    one, other = (
        PairFeatures(K, labels, {pq: means[pq] for pq in sorted(half)}, moments, linear=linear)
        for labels, half in zip(sides, halves, strict=True)
    )
    found = on_nodes(sigma, rule, families, (one, other), one.covariance(K, other))
    if rule.engine == "samples":
        return (
            {f: value for f, (value, _) in found.items()},
            {f: rule.unseen(value, size) for f, (value, size) in found.items()},
        )
    errors = {f: resolved([*value], size) for f, (value, size) in found.items()}
    known = {f: error for f, error in errors.items() if error is not None}
    values = {f: found[f][0][-1:] for f in known}
    missed = [f for f in families if f not in known]
    if missed:
        sampled = _by_nodes(sigma, K, rule.samples, missed, means, moments, sides)
        values, known = values | sampled[0], known | sampled[1]
    return values, known


def _on_two_inputs(
    sigma: Activation,
    K: np.ndarray,
    values: dict[Family, np.ndarray],
    errors: dict[Family, np.ndarray],
) -> None:
    """Entries with one or two distinct inputs, from integrals over one or two dimensions."""
    same = np.arange(len(K))
    diagonal = np.diagonal(K)
    alone = two_input_covariances(sigma, (diagonal, diagonal, diagonal), [(f, 0) for f in values])
    for family, target in values.items():
        one = alone[family, 0]
        target[:, same, same, same, same] = one.value
        errors[family][same, same, same, same] = one.error
    a, b = np.triu_indices(len(K), 1)
    if not a.size:
        return
    # Bit i of a pattern says that leg i stands on the second of the two inputs.
    wanted = [(family, pattern) for family in values for pattern in range(1, 15)]
    for (family, pattern), found in two_input_covariances(sigma, _clipped(K, a, b), wanted).items():
        legs = tuple(b if pattern >> i & 1 else a for i in range(4))
        values[family][(slice(None), *legs)] = found.value
        errors[family][legs] = found.error
