r"""What the recursions ask of one layer: Gaussian expectations over all inputs, each computed once.

Tensors stand on samples in the printed order of their indices, with an axis of estimates in front: one,
or the scrambles of a sample. The operators below hand a tensor of layer $\ell$ on to layer $\ell+1$; none
needs an inverse kernel, because by Price's theorem $\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$ depends on
$K_{aa}$, $K_{ab}$, $K_{bb}$ only.

Every expectation has an error, and a recursion is a sum of products of them in which some of it cancels.
How much is left of it is seen by running the recursion again with all expectations moved by their errors,
up or down at random: `Shaken`.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian import (
    PAIR_ORDERS,
    FourPoint,
    clipped,
    combined,
    four_point_covariances,
    high_moments,
    joint_rule,
    pair_moments,
    shaken,
)
from scalewise.theory.flow._trajectory import Part

__all__ = ["SCRAMBLES", "Expectations", "Family", "Layer", "Shaken", "Tensor"]

# Fewer than for V alone: there are six families, and the nodes have little left to tell.
POINTS, SCRAMBLES = 1 << 11, 8
Family = tuple[int, int, int, int]
Matrix = Float[np.ndarray, "sample sample"]
Tensor = Float[np.ndarray, "_estimate sample sample sample sample"]


class Expectations(abc.ABC):
    """Expectations over the preactivations of one layer, and what the recursions do with them.

    Args:
        sigma: The activation.
        K: The kernel of the layer.
    """

    def __init__(self, sigma: Activation, K: Matrix) -> None:
        self.sigma = sigma
        self.K = K

    @abc.abstractmethod
    def four(self, family: Family) -> Tensor:
        r"""$\langle\sigma^{(p)}_a\sigma^{(q)}_b\sigma^{(r)}_c\sigma^{(s)}_d\rangle$, indices in that order."""

    @abc.abstractmethod
    def covariance(self, family: Family) -> Tensor:
        r"""$\mathrm{Cov}[\sigma^{(p)}_a\sigma^{(q)}_b,\sigma^{(r)}_c\sigma^{(s)}_d]$, no difference of means."""

    @abc.abstractmethod
    def M(self, p: int, q: int) -> Matrix:
        r"""$M_{pq}=\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$ in the sense of distributions."""

    def curved(self, p: int, q: int) -> Matrix:
        r"""$M_{pq}$ where $\sigma''$ came from the chain rule: 0 for a piecewise linear activation."""
        return np.zeros_like(self.K) if self.sigma.is_piecewise_linear else self.M(p, q)

    def pushed(
        self, p: int, q: int, T: Float[np.ndarray, "_estimate sample sample row column"]
    ) -> Float[np.ndarray, "_estimate sample sample row column"]:
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

    def bent(self, p: int, q: int, V: Tensor) -> Float[np.ndarray, "_estimate sample sample"]:
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


class Layer(Expectations):
    r"""Expectations at one kernel, with their errors.

    Args:
        sigma: The activation.
        K: The kernel of the layer.
        families: The four-point families that will be asked for.
        orders: The pair moments $(p,q)$, $p\ge q$, that will be asked for between interpolated layers.
    """

    def __init__(
        self,
        sigma: Activation,
        K: Matrix,
        families: Sequence[Family],
        orders: Sequence[tuple[int, int]] = (),
    ) -> None:
        super().__init__(sigma, K)
        self._orders = orders
        rule = joint_rule(K, smooth=sigma.is_smooth, points=POINTS, scrambles=SCRAMBLES)
        self._pair: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        split = self.M if sigma.is_smooth else None
        self.families: dict[Family, FourPoint] = four_point_covariances(
            sigma, K, rule, families, split
        )

    def four(self, family: Family) -> Tensor:
        """Of this kernel."""
        return self.families[family].product

    def covariance(self, family: Family) -> Tensor:
        """Of this kernel."""
        return self.families[family].covariance

    def M(self, p: int, q: int) -> Matrix:
        """Of this kernel."""
        return self.moment(p, q)[0]

    def moment(self, p: int, q: int) -> tuple[Matrix, Matrix]:
        """$M_{pq}$ and its error."""
        if (p, q) not in self._pair:
            self._pair[p, q] = self._moment(p, q)
        return self._pair[p, q]

    def parts(self) -> dict[Hashable, Part]:
        """All that will be asked for."""
        out: dict[Hashable, Part] = {}
        for p, q in self._orders:
            value, error = self.moment(p, q)
            out[p, q] = Part(value[None], error)
        for family, found in self.families.items():
            none = np.zeros_like(found.left)
            out[family, "covariance"] = Part(found.covariance, found.error)
            out[family, "left"] = Part(found.left[None], none)
            out[family, "right"] = Part(found.right[None], none)
        return out

    def at(self, K: Matrix, parts: Mapping[Hashable, Part]) -> Layer:
        """The same expectations of another kernel, which are known."""
        other = copy.copy(self)
        other.K = K
        other._pair = {pq: (parts[pq].value[0], parts[pq].error) for pq in self._orders}
        other.families = {
            family: FourPoint(
                parts[family, "covariance"].value,
                parts[family, "covariance"].error,
                parts[family, "left"].value[0],
                parts[family, "right"].value[0],
            )
            for family in self.families
        }
        return other

    def _moment(self, p: int, q: int) -> tuple[np.ndarray, np.ndarray]:
        if (q, p) in self._pair:
            value, error = self._pair[q, p]
            return value.T, error.T
        if self.sigma.parity and (p + q) % 2:
            return np.zeros_like(self.K), np.zeros_like(self.K)
        count = len(self.K)
        a, b = np.indices((count, count)).reshape(2, -1)
        if p == q:
            a, b = np.triu_indices(count)
        diagonal = np.diagonal(self.K)
        C = clipped(diagonal[a], diagonal[b], self.K[a, b])
        C = np.where(a == b, diagonal[a], C)
        moments = pair_moments if (p, q) in PAIR_ORDERS else high_moments
        found = moments(self.sigma, diagonal[a], diagonal[b], C, [(p, q)])[p, q]
        value, error = np.empty_like(self.K), np.empty_like(self.K)
        value[a, b], error[a, b] = found.value, found.error
        if p == q:
            value[b, a], error[b, a] = found.value, found.error
        return value, error


class Shaken(Expectations):
    """The expectations of a layer, each moved by its error: up or down, as the seed says.

    Args:
        layer: Whose expectations. Its estimates are combined into one.
        seed: Which of the signs.
    """

    def __init__(self, layer: Layer, seed: int) -> None:
        super().__init__(layer.sigma, layer.K)
        self._layer, self._seed = layer, seed
        self._pair: dict[tuple[int, int], np.ndarray] = {}

    def four(self, family: Family) -> Tensor:
        """The one of the layer, moved."""
        value = combined(self._layer.four(family))[0]
        return self._moved(value, self._layer.families[family].error, (*family, 0))[None]

    def covariance(self, family: Family) -> Tensor:
        """The one of the layer, moved."""
        value = combined(self._layer.covariance(family))[0]
        return self._moved(value, self._layer.families[family].error, (*family, 1))[None]

    def M(self, p: int, q: int) -> Matrix:
        """The one of the layer, moved."""
        if (p, q) not in self._pair:
            self._pair[p, q] = self._moment(p, q)
        return self._pair[p, q]

    def _moment(self, p: int, q: int) -> Matrix:
        if p < q:
            return self.M(q, p).T
        moved = self._moved(*self._layer.moment(p, q), (p, q))
        return np.triu(moved) + np.triu(moved, 1).T if p == q else moved

    def _moved(self, value: np.ndarray, error: np.ndarray, key: tuple[int, ...]) -> np.ndarray:
        return shaken(value, error, (self._seed, *key))


def _pair(M: np.ndarray) -> np.ndarray:
    return M[:, :, None, None]
