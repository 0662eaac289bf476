r"""What the recursions ask of one layer: Gaussian expectations over all inputs, each computed once.

Tensors stand on samples in the printed order of their indices, with an axis of estimates in front (see
`JointRule`). The operators below hand a tensor of layer $\ell$ on to layer $\ell+1$; none needs an inverse
kernel, because by Price's theorem $\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$ depends on $K_{aa}$,
$K_{ab}$, $K_{bb}$ only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian import (
    PAIR_ORDERS,
    JointRule,
    four_point_products,
    high_moments,
    joint_rule,
    pair_moments,
)

__all__ = ["SCRAMBLES", "Family", "Layer", "Tensor"]

# Fewer than for V alone: there are six families, and the nodes have little left to tell.
POINTS, SCRAMBLES = 1 << 11, 8
Family = tuple[int, int, int, int]
Tensor = Float[np.ndarray, "estimate sample sample sample sample"]


class Layer:
    """Expectations over the preactivations of one layer at one kernel.

    Args:
        sigma: The activation.
        K: The kernel of the layer.
        families: The four-point families that will be asked for.
    """

    def __init__(
        self,
        sigma: Activation,
        K: Float[np.ndarray, "sample sample"],
        families: Sequence[Family],
    ) -> None:
        self.sigma = sigma
        self.K = K
        self.rule: JointRule = joint_rule(
            K, smooth=sigma.is_smooth, points=POINTS, scrambles=SCRAMBLES
        )
        self._pair: dict[tuple[int, int], np.ndarray] = {}
        split = self.M if sigma.is_smooth else None
        self._four = four_point_products(sigma, K, self.rule, families, split)

    def four(self, family: Family) -> Tensor:
        r"""$\langle\sigma^{(p)}_a\sigma^{(q)}_b\sigma^{(r)}_c\sigma^{(s)}_d\rangle$, indices in that order."""
        return self._four[family]

    def M(self, p: int, q: int) -> Float[np.ndarray, "sample sample"]:
        r"""$M_{pq}=\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$ in the sense of distributions."""
        if (p, q) not in self._pair:
            self._pair[p, q] = self._moment(p, q)
        return self._pair[p, q]

    def curved(self, p: int, q: int) -> Float[np.ndarray, "sample sample"]:
        r"""$M_{pq}$ where $\sigma''$ came from the chain rule: 0 for a piecewise linear activation."""
        return np.zeros_like(self.K) if self.sigma.is_piecewise_linear else self.M(p, q)

    def _moment(self, p: int, q: int) -> np.ndarray:
        if (q, p) in self._pair:
            return self._pair[q, p].T
        if self.sigma.parity and (p + q) % 2:
            return np.zeros_like(self.K)
        count = len(self.K)
        a, b = np.indices((count, count)).reshape(2, -1)
        if p == q:
            a, b = np.triu_indices(count)
        diagonal = np.diagonal(self.K)
        limit = np.sqrt(diagonal[a] * diagonal[b])
        C = np.where(a == b, diagonal[a], np.clip(self.K[a, b], -limit, limit))
        moments = pair_moments if (p, q) in PAIR_ORDERS else high_moments
        value = moments(self.sigma, diagonal[a], diagonal[b], C, [(p, q)])[p, q].value
        out = np.empty_like(self.K)
        out[a, b] = value
        if p == q:
            out[b, a] = value
        return out

    def pushed(
        self, p: int, q: int, T: Float[np.ndarray, "estimate sample sample row column"]
    ) -> Float[np.ndarray, "estimate sample sample row column"]:
        r"""$\sum_\gamma\frac{\partial M_{pq}}{\partial K_\gamma}T_\gamma$ on the first two indices.

        $$\tfrac12M_{p+2,q}T_{aa\cdot\cdot}+M_{p+1,q+1}T_{ab\cdot\cdot}+\tfrac12M_{p,q+2}T_{bb\cdot\cdot}$$
        for $T$ symmetric in them: what a change of the metric does to an expectation.
        """
        same = np.einsum("eaacd->eacd", T)
        return (
            0.5 * _pair(self.M(p + 2, q)) * same[:, :, None]
            + _pair(self.M(p + 1, q + 1)) * T
            + 0.5 * _pair(self.M(p, q + 2)) * same[:, None]
        )

    def bent(self, p: int, q: int, V: Tensor) -> Float[np.ndarray, "estimate sample sample"]:
        r"""$\sum_{\gamma\delta}V_{\gamma\delta}\,\partial_{K_\gamma}\partial_{K_\delta}M_{pq}$."""
        aabb = np.einsum("eaabb->eab", V)
        aaab = np.einsum("eaaab->eab", V)
        return (
            0.25 * self.M(p + 4, q) * np.einsum("eaaaa->ea", V)[:, :, None]
            + 0.25 * self.M(p, q + 4) * np.einsum("eaaaa->ea", V)[:, None]
            + self.M(p + 2, q + 2) * (np.einsum("eabab->eab", V) + 0.5 * aabb)
            + self.M(p + 3, q + 1) * aaab
            + self.M(p + 1, q + 3) * aaab.swapaxes(1, 2)
        )


def _pair(M: np.ndarray) -> np.ndarray:
    return M[:, :, None, None]
