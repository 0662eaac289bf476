r"""Mean and covariance of trained outputs, at any times, from one eigendecomposition.

With $\tilde\Theta=UhU^T$, $T=\Theta_{\mathcal{BA}}U$, the gain $g$ of an algorithm (`_filters`) and $R=TgU^T$,

$$m_{\mathcal B}=Ry,\qquad
  {\rm Cov}=K_{\mathcal{BB}}-RK_{\mathcal{AB}}-K_{\mathcal{BA}}R^T+RK_{\mathcal{AA}}R^T
  =S+D^TD.$$

The last form is never negative. An initial network is $z_{\mathcal A}=L\xi$ with $K_{\mathcal{AA}}=LL^T$ and
$z_{\mathcal B}=w^T\xi+\zeta$ with $w=L^{-1}K_{\mathcal{AB}}$ and $\zeta$ independent of it, of covariance
$S=K_{\mathcal{BB}}-w^Tw$. Training reads $\xi$ alone, so $\zeta$ stays and of $\xi$ is left $w-L^TU\,gT^T$; of
training samples, $L^TU(1-hg)U^T$. With $L^TU=QC$, $C$ upper triangular, $\xi$ is turned by $Q^T$ once, which leaves
$D=Q^Tw-C\,gT^T$ and $D=C(1-hg)U^T$: a triangle halves the work. For a posterior $L=U\sqrt h$ and
$D=\sqrt{1-hg}\,w$. $D$ is made a few rows at a time, of all times together: neighbouring eigendirections learn so
much alike that their filters at many times are combinations of few (`_few`).

Source: PDLT (10.39)-(10.41), in which the sample indices of the covariance are misprinted; (6.57), (6.64).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import get_blas_funcs, get_lapack_funcs, qr, solve_triangular

from scalewise.training._filters import Filter
from scalewise.training._spectrum import Spectrum

_ROWS = (
    128  # of a deviation at a time, and the eigendirections of a group that is not split any more
)
Deviation = Float[np.ndarray, "noise sample"]
Blocks = Iterator[Float[np.ndarray, "time noise_1 sample"]]
Filters = Float[np.ndarray, "time direction"]


class Prior(ABC):
    """The randomness of the outputs on the training samples, and what of it is left after training."""

    @abstractmethod
    def seen(self, K_AB: np.ndarray, T: np.ndarray) -> Deviation:
        """$w$: what initial outputs elsewhere share with those on the training samples."""

    @abstractmethod
    def of_tests(self, w: np.ndarray, T: np.ndarray, filters: Filter) -> Blocks:
        """$D$ of test samples, some rows at a time."""

    @abstractmethod
    def of_samples(self, filters: Filter, which: Int[np.ndarray, " sample"] | slice) -> Blocks:
        """$D$ of some training samples, likewise."""


@dataclass(frozen=True)
class DrawnPrior(Prior):
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

    def of_tests(self, w: np.ndarray, T: np.ndarray, filters: Filter) -> Blocks:
        """The part that training does not reach, less what it carries over."""
        return self._filtered(-filters.gain, T.T, w)

    def of_samples(self, filters: Filter, which: Int[np.ndarray, " sample"] | slice) -> Blocks:
        """The error that is left in each direction."""
        return self._filtered(filters.left, self.U[which].T, None)

    def _filtered(self, f: Filters, X: np.ndarray, w: np.ndarray | None) -> Blocks:
        """$w+CfX$ at every time; zeros below the diagonal are not multiplied."""
        groups = _grouped(f)
        for first in range(0, len(self.C), _ROWS):
            rows = slice(first, min(first + _ROWS, len(self.C)))
            parts, mixed = [], []
            if w is not None:
                parts, mixed = [w[rows][None]], [np.ones((len(f), 1))]
            for start, A, V in groups:
                stop, begin = start + V.shape[1], max(start, first)
                if begin < stop:
                    C = V[:, None, begin - start :] * self.C[rows, begin:stop]
                    parts.append(np.tensordot(C, X[begin:stop], axes=1))
                    mixed.append(A)
            yield np.tensordot(np.hstack(mixed), np.concatenate(parts), axes=1)


@dataclass(frozen=True)
class Posterior(Prior):
    r"""One Gaussian process, conditioned on noisy targets.

    Args:
        U: Eigenvectors of its kernel.
        roots: $\sqrt h$.
    """

    U: Float[np.ndarray, "sample direction"]
    roots: Float[np.ndarray, " direction"]

    def seen(self, K_AB: np.ndarray, T: np.ndarray) -> Deviation:
        """In the eigenbasis."""
        some = self.roots > 0
        return np.where(some, 1 / np.where(some, self.roots, 1.0), 0.0)[:, None] * T.T

    def of_tests(self, w: np.ndarray, T: np.ndarray, filters: Filter) -> Blocks:
        """The part that the noise hides."""
        yield np.sqrt(filters.left)[:, :, None] * w

    def of_samples(self, filters: Filter, which: Int[np.ndarray, " sample"] | slice) -> Blocks:
        """The part that the noise hides."""
        yield (np.sqrt(filters.left) * self.roots)[:, :, None] * self.U[which].T


def _grouped(f: Filters, start: int = 0) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Groups of neighbouring directions, each from where it starts with its `_few`: those that cost least."""
    A, V = _few(f)
    whole, half = [(start, A, V)], f.shape[1] // 2
    if half < _ROWS // 2:
        return whole
    parts = _grouped(f[:, :half], start) + _grouped(f[:, half:], start + half)
    work = [sum(len(V) * sum(f.shape[:1] + V.shape[1:]) for *_, V in p) for p in (whole, parts)]
    return parts if work[1] < work[0] else whole


def _few(f: Filters) -> tuple[Float[np.ndarray, "time few"], Float[np.ndarray, "few direction"]]:
    """Few filters of some directions, of which those of all times are combinations, to rounding."""
    size = np.abs(f).max(axis=1, keepdims=True)
    some = f / np.where(size > 0, size, 1.0)
    _, s, V = np.linalg.svd(some, full_matrices=False)
    V = V[s > np.finfo(float).eps * s[0]]
    return size * (some @ V.T), V


def prior_of(
    found: Spectrum, K: Float[np.ndarray, "sample sample"] | None
) -> DrawnPrior | Posterior:
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
    return DrawnPrior(found.U, L[:rank], order[:rank], reflections, C)


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
class LearnedTask:
    r"""Everything about a training set that predictions need.

    Args:
        spectrum: Of the kernel that learns.
        prior: What outputs are before.
        y: Targets.
    """

    spectrum: Spectrum
    prior: DrawnPrior | Posterior
    y: Float[np.ndarray, "sample output"]

    @cached_property
    def shares(self) -> Float[np.ndarray, "output direction"]:
        """$y^TU$."""
        return self.y.T @ self.spectrum.U


@dataclass(frozen=True)
class UnseenSamples:
    r"""Test samples, as training meets them.

    Args:
        learned: What they are predicted from.
        T: $\Theta_{\mathcal{BA}}U$.
        w: What their initial outputs share with those of the training samples.
        S: Covariance of what they do not share: all of it, or its diagonal alone.
        twin: The training sample that each of them repeats, or -1.
    """

    learned: LearnedTask
    T: Float[np.ndarray, "test direction"]
    w: Float[np.ndarray, "noise test"]
    S: Float[np.ndarray, "test test"] | Float[np.ndarray, " test"]
    twin: Int[np.ndarray, " test"]

    @classmethod
    def of(
        cls,
        learned: LearnedTask,
        Theta_BA: Float[np.ndarray, "test sample"],
        K_AB: Float[np.ndarray, "sample test"],
        K_BB: Float[np.ndarray, "test test"] | Float[np.ndarray, " test"],
        twin: Int[np.ndarray, " test"],
    ) -> UnseenSamples:
        r"""Test samples, with all that does not depend on the time.

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

    def mean(self, filters: Filter) -> Float[np.ndarray, "time output test"]:
        """The mean output; what repeats a training sample has its output."""
        learned = self.learned
        found = np.einsum(
            "tod,bd->tob", filters.gain[:, None] * learned.shares, self.T, optimize=True
        )
        again = self.twin >= 0
        if again.any():
            found[..., again] = mean_of_samples(learned, filters)[..., self.twin[again]]
        return found

    def covariance(
        self, filters: Filter
    ) -> Float[np.ndarray, "time test test"] | Float[np.ndarray, "time test"]:
        """Their covariance for one output, or its diagonal."""
        prior, again = self.learned.prior, self.twin >= 0
        blocks = prior.of_tests(self.w, self.T, filters)
        if again.any():
            blocks = _with(blocks, prior.of_samples(filters, self.twin[again]), again)
        return _squares(blocks, np.broadcast_to(self.S, (len(filters.gain), *self.S.shape)))


def mean_of_samples(
    learned: LearnedTask, filters: Filter
) -> Float[np.ndarray, "time output sample"]:
    """The mean output on the training samples: the targets, less what is left of them."""
    left = filters.left[:, None] * learned.shares
    return learned.y.T - np.einsum("tod,ad->toa", left, learned.spectrum.U, optimize=True)


def covariance_of_samples(
    learned: LearnedTask, filters: Filter, *, diagonal: bool
) -> Float[np.ndarray, "time sample sample"] | Float[np.ndarray, "time sample"]:
    """Covariance of the outputs on the training samples for one output, or its diagonal."""
    shape = (len(filters.left), *(len(learned.y),) * (1 if diagonal else 2))
    blocks = learned.prior.of_samples(filters, slice(None))
    return _squares(blocks, np.broadcast_to(0.0, shape))


def usable(found: Spectrum, filters: Filter) -> Filter:
    r"""The filter without gains at which a direction of kernel 0 would show rounding alone.

    Such a direction has $|T|\le\sqrt{h\Theta_{\beta\beta}}$, so what it adds while $gh_{\max}<1/\sqrt\epsilon$
    is as small as what leaving it out costs afterwards.
    """
    most = 1 / np.sqrt(found.tolerance * found.h[-1])
    lost = (found.h == 0) & (filters.gain > most)
    return Filter(np.where(lost, 0.0, filters.gain), filters.left)


def growth(found: Spectrum, filters: Filter) -> float:
    """The factor by which a relative error of the kernel may grow in the outputs."""
    return float(usable(found, filters).gain.max() * found.h[-1])


def _with(blocks: Blocks, others: Blocks, where: np.ndarray) -> Blocks:
    """Deviations of which some columns are other ones."""
    for D, other in zip(blocks, others, strict=True):
        D[..., where] = other
        yield D


def _squares(blocks: Blocks, more: np.ndarray) -> np.ndarray:
    """The sum of $D^TD$, or of its diagonal, and of what is there already."""
    found = np.array(more, order="C")
    if found.ndim == 2:
        for D in blocks:
            found += np.einsum("txb,txb->tb", D, D)
        return found
    (syrk,) = get_blas_funcs(("syrk",), (found,))
    for D in blocks:
        for one, total in zip(D, found, strict=True):  # of rows that lie together, columns do
            syrk(1.0, one.T, 1.0, total.T, lower=1, overwrite_c=1)
    count = found.shape[-1]
    for a in range(count):
        found[:, a + 1 :, a] = found[:, a, a + 1 :]
    return found


def twins(inputs: np.ndarray, tests: np.ndarray) -> np.ndarray:
    """For each test input the training input that it repeats, or -1."""
    places = {row.tobytes(): place for place, row in enumerate(inputs + 0.0)}
    return np.array([places.get(row.tobytes(), -1) for row in tests + 0.0], dtype=np.int64)
