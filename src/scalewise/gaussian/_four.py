r"""Expectations of four factors, $\langle\sigma^{(p)}_a\sigma^{(q)}_b\sigma^{(r)}_c\sigma^{(s)}_d\rangle_K$.

Two of the four factors make a pair feature. The part of a feature that is constant, linear or quadratic in
$z$ is known from pair moments and its covariance in closed form; only what is left goes to the nodes,
as one matrix product. Entries with at most two distinct inputs are replaced by what they are to 1e-10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian._interface import single_moment
from scalewise.gaussian._joint import JointRule
from scalewise.gaussian._products import pair_products

__all__ = ["four_point_products"]

Family = tuple[int, int, int, int]
Moments = Callable[[int, int], np.ndarray]
_MAX_QUADRATURE_INPUTS = 12  # nested quadrature costs a millisecond a pair; samples take over
_BLOCK = 1 << 14  # nodes at a time: features of a few inputs then stay near the cache


@dataclass(frozen=True)
class _Feature:
    r"""$\sigma^{(p)}_a\sigma^{(q)}_b$ over ordered pairs: constant, linear and quadratic part.

    Args:
        orders: $(p,q)$.
        constant: $M_{pq}$.
        linear: Coefficients of $z_a$ and $z_b$, or ``None`` where the chaos is not split off.
        quadratic: Coefficients of $z_az_a$, $z_az_b$, $z_bz_b$, each less its mean.
    """

    orders: tuple[int, int]
    constant: np.ndarray
    linear: tuple[np.ndarray, ...] | None
    quadratic: tuple[np.ndarray, ...] | None


def four_point_products(
    sigma: Activation,
    K: Float[np.ndarray, "sample sample"],
    rule: JointRule,
    families: Sequence[Family],
    moments: Moments | None,
) -> dict[Family, Float[np.ndarray, "estimate sample sample sample sample"]]:
    r"""All entries of a few families of four-point expectations.

    Args:
        sigma: The activation; derivatives are taken almost everywhere.
        K: The kernel.
        rule: Nodes for $N(0,K)$.
        families: Orders $(p,q,r,s)$; the first two and the last two make the features.
        moments: $M_{pq}$ as a matrix over samples for $p+q\le6$, or ``None`` where they do not exist:
            then nothing is split off.

    Returns:
        For each family one array per estimate of the rule, to be combined by it.
    """
    count = len(K)
    out = {f: np.zeros((rule.estimates, *(count,) * 4)) for f in families}
    if count > 2:
        _sample(sigma, K, rule, out, moments)
    cheap = sigma.is_smooth or sigma.is_scale_invariant
    if cheap or count <= _MAX_QUADRATURE_INPUTS:
        _two_inputs(sigma, K, out)
    return out


def _sample(
    sigma: Activation,
    K: np.ndarray,
    rule: JointRule,
    out: dict[Family, np.ndarray],
    moments: Moments | None,
) -> None:
    count = len(K)
    a, b = (index.ravel() for index in np.indices((count, count)))
    wanted = {pq for f in out for pq in (f[:2], f[2:])}
    features = {pq: _feature(pq, moments) for pq in wanted}
    highest = max(max(f) for f in out)
    for slot, (nodes, weights) in enumerate(rule.nodes()):
        for start in range(0, nodes.shape[1], _BLOCK):
            z = np.ascontiguousarray(nodes[:, start : start + _BLOCK])
            w = weights[start : start + _BLOCK]
            s = [sigma.derivative(z, p) for p in range(highest + 1)]
            zz = z[a] * z[b] - K[a, b][:, None] if moments is not None else None
            rest = {pq: _rest(features[pq], s, z, zz, (a, b)) for pq in wanted}
            for family, target in out.items():
                left, right = rest[family[:2]], rest[family[2:]]
                target[slot] += ((left * w) @ right.T).reshape(target.shape[1:])
    for family, target in out.items():
        left, right = features[family[:2]], features[family[2:]]
        if left.linear is not None and right.linear is not None:
            target += _known(left, right, K)


def _feature(orders: tuple[int, int], moments: Moments | None) -> _Feature:
    if moments is None:
        return _Feature(orders, np.zeros(1), None, None)
    p, q = orders
    return _Feature(
        orders,
        moments(p, q),
        (moments(p + 1, q), moments(p, q + 1)),
        (0.5 * moments(p + 2, q), moments(p + 1, q + 1), 0.5 * moments(p, q + 2)),
    )


def _rest(
    feature: _Feature,
    s: list[np.ndarray],
    z: np.ndarray,
    zz: np.ndarray | None,
    pair: tuple[np.ndarray, np.ndarray],
) -> Float[np.ndarray, "pair node"]:
    """The feature at the nodes, less what is known of it."""
    a, b = pair
    p, q = feature.orders
    value = s[p][a] * s[q][b]
    if feature.linear is None or feature.quadratic is None or zz is None:
        return value
    count = len(z)
    value -= feature.constant.reshape(-1, 1)
    for coefficient, column in zip(feature.linear, (a, b), strict=True):
        if coefficient.any():
            value -= coefficient.reshape(-1, 1) * z[column]
    square = zz[a * (count + 1)], zz, zz[b * (count + 1)]
    for coefficient, form in zip(feature.quadratic, square, strict=True):
        if coefficient.any():
            value -= coefficient.reshape(-1, 1) * form
    return value


def _known(
    left: _Feature, right: _Feature, K: np.ndarray
) -> Float[np.ndarray, "sample sample sample sample"]:
    """Constant times constant, and the covariances of the linear and of the quadratic parts."""
    assert left.linear is not None
    assert left.quadratic is not None
    assert right.linear is not None
    assert right.quadratic is not None
    ac, ad = K[:, None, :, None], K[:, None, None, :]
    bc, bd = K[None, :, :, None], K[None, :, None, :]
    on_a, on_b = (v[:, :, None, None] for v in left.linear)
    on_c, on_d = right.linear
    linear = on_a * (on_c * ac + on_d * ad) + on_b * (on_c * bc + on_d * bd)
    aa, ab, bb = (v[:, :, None, None] for v in left.quadratic)
    cc, cd, dd = right.quadratic
    half = aa * (2 * ac * ad) + ab * (ac * bd + ad * bc) + bb * (2 * bc * bd)
    diagonal = np.einsum("abcc->abc", half)
    quadratic = cc * diagonal[:, :, :, None] + cd * half + dd * diagonal[:, :, None, :]
    return left.constant[:, :, None, None] * right.constant + linear + quadratic


def _two_inputs(sigma: Activation, K: np.ndarray, out: dict[Family, np.ndarray]) -> None:
    """Entries with one or two distinct inputs, from integrals over one or two dimensions."""
    count = len(K)
    diagonal = np.diagonal(K)
    same = np.arange(count)
    a, b = np.triu_indices(count, 1)
    # Bit i of a pattern says that leg i stands on the second of the two inputs.
    split = {
        (family, pattern): (
            tuple(sorted(p for i, p in enumerate(family) if not pattern >> i & 1)),
            tuple(sorted(p for i, p in enumerate(family) if pattern >> i & 1)),
        )
        for family in out
        for pattern in range(1, 15)
    }
    known = {}
    if a.size:
        limit = np.sqrt(diagonal[a] * diagonal[b])
        C = np.clip(K[a, b], -limit, limit)
        wanted = sorted(set(split.values()))
        known = pair_products(sigma, diagonal[a], diagonal[b], C, wanted)
    for family, target in out.items():
        target[:, same, same, same, same] = single_moment(sigma, diagonal, family).value
        for pattern in range(1, 15) if a.size else ():
            legs = tuple(b if pattern >> i & 1 else a for i in range(4))
            target[(slice(None), *legs)] = known[split[family, pattern]].value
