r"""Sums from which means, covariances and their standard errors are made, batch by batch.

Every sum is taken about a fixed pilot centre, so that two accumulators with the same pilot merge by
addition, and no digits are lost when the spread is small beside the mean. Whatever the pilot, the
results are the same: k-statistics are invariant under a shift.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class MeanSums:
    r"""$m$, $\sum_k\delta_k$ and $\sum_k\delta_k^2$ with $\delta_k=x_k-c$ about a pilot $c$.

    Args:
        count: $m$, how many networks.
        pilot: $c$, any shape.
        s1: $\sum_k\delta_k$, the shape of the pilot.
        s2: $\sum_k\delta_k^2$, the shape of the pilot.
    """

    count: int
    pilot: np.ndarray
    s1: np.ndarray
    s2: np.ndarray

    @classmethod
    def empty(cls, pilot: np.ndarray) -> MeanSums:
        """No network yet."""
        return cls(0, pilot, np.zeros_like(pilot), np.zeros_like(pilot))

    def add(self, values: Float[np.ndarray, "network ..."]) -> MeanSums:
        """With a batch of networks more."""
        d = np.ascontiguousarray(values - self.pilot)
        return replace(
            self,
            count=self.count + len(d),
            s1=self.s1 + d.sum(axis=0),
            s2=self.s2 + np.einsum("k...,k...->...", d, d),
        )

    def mean(self) -> np.ndarray:
        """The sample mean."""
        return self.pilot + self.s1 / self.count

    def mean_sem(self) -> np.ndarray:
        r"""Its standard error, $\sqrt{k_2/m}$ with the unbiased variance $k_2$."""
        m = self.count
        return np.sqrt(np.maximum(self.s2 - self.s1**2 / m, 0.0) / (m * (m - 1)))


@dataclass(frozen=True)
class CovarianceSums:
    r"""Sums for the mean and the covariance matrix of $P$ variables in each of several layers.

    With $\delta_{ki}=x_{ki}-c_i$: $S^1_i=\sum_k\delta_{ki}$, $S^{11}_{ij}=\sum_k\delta_{ki}\delta_{kj}$,
    $S^{21}_{ij}=\sum_k\delta_{ki}^2\delta_{kj}$ and $S^{22}_{ij}=\sum_k\delta_{ki}^2\delta_{kj}^2$, each
    of them a matrix product over the networks of a batch.

    Args:
        count: $m$, how many networks.
        pilot: $c$, (layers, P).
        s1: (layers, P).
        s2: (layers, P), as of `MeanSums`: a mean has the same error whether covariances are summed or not.
        s11: (layers, P, P).
        s21: (layers, P, P).
        s22: (layers, P, P).

    Source: M. Kendall, A. Stuart, *The Advanced Theory of Statistics*, vol. 1, ch. 13 (bivariate
        k-statistics and their sampling cumulants).
    """

    count: int
    pilot: np.ndarray
    s1: np.ndarray
    s2: np.ndarray
    s11: np.ndarray
    s21: np.ndarray
    s22: np.ndarray

    @classmethod
    def empty(cls, pilot: np.ndarray) -> CovarianceSums:
        """No network yet."""
        square = np.zeros((*pilot.shape, pilot.shape[-1]))
        return cls(0, pilot, np.zeros_like(pilot), np.zeros_like(pilot), square, square, square)

    def add(self, values: Float[np.ndarray, "network layer pair"]) -> CovarianceSums:
        """With a batch of networks more."""
        # Contiguous: the order of a sum follows the layout in memory, and a resumed run must give the
        # numbers of an uninterrupted one to the last bit.
        own = np.ascontiguousarray(values - self.pilot)
        d = np.ascontiguousarray(np.moveaxis(own, 0, 1))
        d2 = d * d
        t, t2 = np.swapaxes(d, 1, 2), np.swapaxes(d2, 1, 2)
        return replace(
            self,
            count=self.count + len(values),
            s1=self.s1 + own.sum(axis=0),
            s2=self.s2 + np.einsum("k...,k...->...", own, own),
            s11=self.s11 + t @ d,
            s21=self.s21 + t2 @ d,
            s22=self.s22 + t2 @ d2,
        )

    def mean(self) -> np.ndarray:
        """The sample mean, (layers, P)."""
        return self.pilot + self.s1 / self.count

    def mean_sem(self) -> np.ndarray:
        """Its standard error, (layers, P)."""
        return MeanSums(self.count, self.pilot, self.s1, self.s2).mean_sem()

    def covariance(self) -> np.ndarray:
        """The unbiased covariance $k_{11}$, (layers, P, P)."""
        return self._m11() / (self.count - 1)

    def covariance_sem(self) -> np.ndarray:
        r"""Its standard error, (layers, P, P).

        $$\mathrm{Var}(k_{11})=\frac{\kappa_{22}}m+\frac{\kappa_{20}\kappa_{02}+\kappa_{11}^2}{m-1},$$
        with unbiased estimates put in for the cumulants. What is averaged over neurons is nearly normal, with
        heavier tails: $\kappa_{22}$ is at least 0 but for rounding in 1/n. Its estimate from few networks is mostly
        noise, which must not make the error smaller than that of normal variables: below 0 it is taken for 0.
        """
        m = self.count
        m11, m22 = self._m11(), self._m22()
        diagonal = np.einsum("lii->li", m11)
        product = diagonal[:, :, None] * diagonal[:, None, :]
        k22 = (m + 1) * m22 - (m - 1) / m * (product + 2 * m11**2)
        k22 *= m / ((m - 1) * (m - 2) * (m - 3))
        gaussian = (product + m11**2) / (m - 1) ** 2
        return np.sqrt((np.maximum(k22, 0.0) + gaussian * m / (m - 1)) / m)

    def _m11(self) -> np.ndarray:
        return self.s11 - self.s1[:, :, None] * self.s1[:, None, :] / self.count

    def _m22(self) -> np.ndarray:
        m = self.count
        d = self.s1 / m
        di, dj = d[:, :, None], d[:, None, :]
        s2 = np.einsum("lii->li", self.s11)
        s2i, s2j = s2[:, :, None], s2[:, None, :]
        s12 = np.swapaxes(self.s21, 1, 2)
        squares = di**2 * s2j + dj**2 * s2i + 4 * di * dj * self.s11
        return self.s22 - 2 * (dj * self.s21 + di * s12) + squares - 3 * m * di**2 * dj**2


Kind = TypeVar("Kind", MeanSums, CovarianceSums)


def merge(one: Kind, other: Kind) -> Kind:
    """The sums of both sets of networks together."""
    if not np.array_equal(one.pilot, other.pilot):
        raise ValueError("Sums about different pilot centres cannot be added.")
    names = [f.name for f in fields(one) if f.name != "pilot"]
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in names})


def state(sums: MeanSums | CovarianceSums) -> dict[str, np.ndarray]:
    """Every field as an array, to be written down."""
    return {f.name: np.asarray(getattr(sums, f.name)) for f in fields(sums)}


def restore(
    kind: type[MeanSums] | type[CovarianceSums], written: dict[str, np.ndarray]
) -> MeanSums | CovarianceSums:
    """The inverse of `state`."""
    values = {f.name: np.asarray(written[f.name]) for f in fields(kind)}
    return kind(**{**values, "count": int(values["count"])})
