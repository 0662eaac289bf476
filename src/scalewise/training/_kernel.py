r"""Mean and covariance of trained outputs, at any time, from one eigendecomposition.

With $\tilde\Theta=UhU^T$, $T=\Theta_{\mathcal{BA}}U$, the gain $g$ of an algorithm (`_filters`) and $R=TgU^T$,

$$m_{\mathcal B}=Ry,\qquad
  {\rm Cov}=K_{\mathcal{BB}}-RK_{\mathcal{AB}}-K_{\mathcal{BA}}R^T+RK_{\mathcal{AA}}R^T
  =S+D^TD.$$

The last form is never negative. An initial network is $z_{\mathcal A}=L\xi$ with $K_{\mathcal{AA}}=LL^T$ and
$z_{\mathcal B}=w^T\xi+\zeta$ with $w=L^{-1}K_{\mathcal{AB}}$ and $\zeta$ independent of it, of covariance
$S=K_{\mathcal{BB}}-w^Tw$. Training reads $\xi$ alone, so $\zeta$ stays and of $\xi$ is left $w-L^TU\,gT^T$; of
training samples, $L^TU(1-hg)U^T$. With $L^TU=QC$, $C$ upper triangular, $\xi$ is turned by $Q^T$ once, which leaves
$D=Q^Tw-C\,gT^T$ and $D=C(1-hg)U^T$: a triangle halves the work at every time. For a posterior $L=U\sqrt h$ and
$D=\sqrt{1-hg}\,w$.

Source: PDLT (10.39)-(10.41), in which the sample indices of the covariance are misprinted; (6.57), (6.64).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import get_blas_funcs, get_lapack_funcs, qr, solve_triangular

from scalewise.training._filters import Filter
from scalewise.training._spectrum import Spectrum

Directions = Float[np.ndarray, " direction"]
Deviation = Float[np.ndarray, "noise sample"]


class Prior(ABC):
    """The randomness of the outputs on the training samples, and what of it is left after training."""

    @abstractmethod
    def seen(self, K_AB: np.ndarray, T: np.ndarray) -> Deviation:
        """$w$: what initial outputs elsewhere share with those on the training samples."""

    @abstractmethod
    def of_tests(
        self, w: np.ndarray, T: np.ndarray, gain: Directions, left: Directions
    ) -> Deviation:
        """$D$ of test samples."""

    @abstractmethod
    def of_samples(self, left: Directions) -> Deviation:
        """$D$ of the training samples."""


@dataclass(frozen=True)
class Ensemble(Prior):
    r"""Networks that start differently and are trained alike.

    Args:
        U: Eigenvectors of $\tilde\Theta$.
        L: Factor of $\tilde K$, lower triangular, of the samples in `order`.
        order: As many training samples as $\tilde K$ has ranks, in the order of the pivots.
        reflections: $Q$, in the form of LAPACK.
        C: Upper triangular (or trapezoidal) factor of $L^TU=QC$.
    """

    U: Float[np.ndarray, "sample direction"]
    L: Float[np.ndarray, "noise noise_1"]
    order: Int[np.ndarray, " noise"]
    reflections: tuple[Float[np.ndarray, "noise noise_1"], Float[np.ndarray, " noise"]]
    C: Float[np.ndarray, "noise direction"]

    def seen(self, K_AB: np.ndarray, T: np.ndarray) -> Deviation:
        """By forward substitution, and turned."""
        w = np.asfortranarray(solve_triangular(self.L, K_AB[self.order], lower=True))
        (ormqr,) = get_lapack_funcs(("ormqr",), (w,))
        reflectors, scales = self.reflections
        size = ormqr("L", "T", reflectors, scales, w, -1)[1]
        return ormqr("L", "T", reflectors, scales, w, int(size[0]), overwrite_c=1)[0]

    def of_tests(
        self, w: np.ndarray, T: np.ndarray, gain: Directions, left: Directions
    ) -> Deviation:
        """What training does not reach, less what it carries over."""
        return w - self._times(gain[:, None] * T.T)

    def of_samples(self, left: Directions) -> Deviation:
        """What is left of the error in each direction."""
        return self._times(left[:, None] * self.U.T)

    def _times(self, X: np.ndarray) -> np.ndarray:
        """$CX$; zeros below the diagonal are not multiplied."""
        rank = len(self.C)
        (trmm,) = get_blas_funcs(("trmm",), (X,))
        if rank == len(X):
            return trmm(1.0, self.C, X, overwrite_b=1)
        return trmm(1.0, self.C[:, :rank], X[:rank]) + self.C[:, rank:] @ X[rank:]


@dataclass(frozen=True)
class Posterior(Prior):
    r"""One Gaussian process, conditioned on noisy targets.

    Args:
        U: Eigenvectors of its kernel.
        roots: $\sqrt h$.
    """

    U: Float[np.ndarray, "sample direction"]
    roots: Directions

    def seen(self, K_AB: np.ndarray, T: np.ndarray) -> Deviation:
        """In the eigenbasis."""
        some = self.roots > 0
        return np.where(some, 1 / np.where(some, self.roots, 1.0), 0.0)[:, None] * T.T

    def of_tests(
        self, w: np.ndarray, T: np.ndarray, gain: Directions, left: Directions
    ) -> Deviation:
        """What the noise hides."""
        return np.sqrt(left)[:, None] * w

    def of_samples(self, left: Directions) -> Deviation:
        """What the noise hides."""
        return (np.sqrt(left) * self.roots)[:, None] * self.U.T


def prior_of(found: Spectrum, K: Float[np.ndarray, "sample sample"] | None) -> Ensemble | Posterior:
    r"""An ensemble that starts with kernel `K`, or the posterior of the kernel that learns if there is none."""
    if K is None:
        return Posterior(found.U, np.sqrt(found.h))
    L, order = _factor(K)
    rank = L.shape[1]
    if rank == len(K) and (order == np.arange(rank)).all():
        (trmm,) = get_blas_funcs(("trmm",), (K,))
        turned = trmm(1.0, L, found.U, lower=1, trans_a=1)
    else:
        turned = L.T @ found.U[order]
    factors: Any = qr(turned, mode="raw", overwrite_a=True, check_finite=False)
    (reflectors, scales), C = factors
    reflections = np.asfortranarray(reflectors[:, :rank]), scales
    return Ensemble(found.U, L[:rank], order[:rank], reflections, np.asfortranarray(C))


def _factor(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A lower triangle with as many columns as K has ranks, and the order of samples that it belongs to.

    Complete pivoting stops by itself where rounding begins, so that repeated samples share their randomness.
    No pivoting is several times faster, and leaves the order alone; it does where no pivot is as small.
    """
    potrf, pstrf = get_lapack_funcs(("potrf", "pstrf"), (K,))
    L, failed = potrf(K, lower=1, clean=1)
    if not failed and np.diag(L).min() ** 2 > len(K) * np.finfo(float).eps * np.diag(K).max():
        return L, np.arange(len(K))
    factor, pivots, rank, _ = pstrf(np.array(K, order="F"), lower=1)
    return np.tril(factor)[:, :rank], pivots - 1


@dataclass(frozen=True)
class Learned:
    r"""Everything about a training set that predictions need.

    Args:
        spectrum: Of the kernel that learns.
        prior: What outputs are before.
        y: Targets.
    """

    spectrum: Spectrum
    prior: Ensemble | Posterior
    y: Float[np.ndarray, "sample output"]


@dataclass(frozen=True)
class Unseen:
    r"""Test samples, as training meets them.

    Args:
        learned: What they are predicted from.
        T: $\Theta_{\mathcal{BA}}U$.
        w: What their initial outputs share with those of the training samples.
        S: Covariance of what they do not share: all of it, or its diagonal alone.
        twin: The training sample that each of them repeats, or -1.
    """

    learned: Learned
    T: Float[np.ndarray, "test direction"]
    w: Float[np.ndarray, "noise test"]
    S: Float[np.ndarray, "test test"] | Float[np.ndarray, " test"]
    twin: Int[np.ndarray, " test"]

    @classmethod
    def of(
        cls,
        learned: Learned,
        Theta_BA: Float[np.ndarray, "test sample"],
        K_AB: Float[np.ndarray, "sample test"],
        K_BB: Float[np.ndarray, "test test"] | Float[np.ndarray, " test"],
        twin: Int[np.ndarray, " test"],
    ) -> Unseen:
        r"""What does not depend on the time.

        Args:
            learned: What they are predicted from.
            Theta_BA: Of the kernel that learns.
            K_AB: Of the kernel that outputs start with.
            K_BB: The same, whole or its diagonal.
            twin: The training sample that each of them repeats, or -1.
        """
        T = Theta_BA @ learned.spectrum.U
        w = learned.prior.seen(K_AB, T)
        alone = twin < 0
        if K_BB.ndim == 1:
            S = np.maximum(K_BB - np.einsum("xb,xb->b", w, w), 0.0) * alone
        else:
            S = (K_BB - w.T @ w) * (alone[:, None] & alone)
            diagonal = np.einsum("bb->b", S)
            diagonal[:] = np.maximum(diagonal, 0.0)
        return cls(learned, T, w, S, twin)

    def mean(self, gain: Directions, left: Directions) -> Float[np.ndarray, "output test"]:
        """The mean output; what repeats a training sample has its output."""
        learned = self.learned
        found = (self.T @ (gain[:, None] * (learned.spectrum.U.T @ learned.y))).T
        again = self.twin >= 0
        if again.any():
            found[:, again] = mean_of_samples(learned, left)[:, self.twin[again]]
        return found

    def covariance(
        self, gain: Directions, left: Directions
    ) -> Float[np.ndarray, "test test"] | Float[np.ndarray, " test"]:
        """Their covariance for one output, or its diagonal."""
        prior, again = self.learned.prior, self.twin >= 0
        D = prior.of_tests(self.w, self.T, gain, left)
        if again.any():
            D[:, again] = prior.of_samples(left)[:, self.twin[again]]
        return self.S + _squares(D, diagonal=self.S.ndim == 1)


def mean_of_samples(learned: Learned, left: Directions) -> Float[np.ndarray, "output sample"]:
    """The mean output on the training samples: the targets, less what is left of them."""
    U, y = learned.spectrum.U, learned.y
    return (y - U @ (left[:, None] * (U.T @ y))).T


def covariance_of_samples(
    learned: Learned, left: Directions, *, diagonal: bool
) -> Float[np.ndarray, "sample sample"] | Float[np.ndarray, " sample"]:
    """Covariance of the outputs on the training samples for one output, or its diagonal."""
    return _squares(learned.prior.of_samples(left), diagonal=diagonal)


def usable(found: Spectrum, filters: Filter) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    r"""Gain and rest of each time, without gains at which a direction of kernel 0 would show rounding alone.

    Such a direction has $|T|\le\sqrt{h\Theta_{\beta\beta}}$, so what it adds while $gh_{\max}<1/\sqrt\epsilon$
    is as small as what leaving it out costs afterwards.
    """
    none = found.h == 0
    most = 1 / np.sqrt(found.tolerance * found.h[-1])
    for gain, left in zip(*filters, strict=True):
        yield np.where(none & (gain > most), 0.0, gain), left


def growth(found: Spectrum, filters: Filter) -> float:
    """The factor by which a relative error of the kernel may grow in the outputs."""
    return max(float(gain.max()) for gain, _ in usable(found, filters)) * float(found.h[-1])


def _squares(D: np.ndarray, *, diagonal: bool) -> np.ndarray:
    return np.einsum("xb,xb->b", D, D) if diagonal else D.T @ D


def twins(inputs: np.ndarray, tests: np.ndarray) -> np.ndarray:
    """For each test input the training input that it repeats, or -1."""
    places = {row.tobytes(): place for place, row in enumerate(inputs + 0.0)}
    return np.array([places.get(row.tobytes(), -1) for row in tests + 0.0], dtype=np.int64)
