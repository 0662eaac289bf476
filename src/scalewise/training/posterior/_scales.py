r"""Renormalised kernels: hidden layers of finite width as random scales of their kernels.

Of one hidden layer the last weights $w_i$ are integrated out last: given them outputs are sums over neurons of
$w_{im}\sigma_m$, Gaussian if many samples are seen along random directions, of covariance
$\sum_mw_{im}w_{jm}\langle\sigma\sigma\rangle$. The sum is a matrix $C_WQ_{ij}$ with $nQ$ of a Wishart law of $n$
degrees of freedom. So the prior is a mixture over $Q$ of Gaussian processes with kernel

$$K_{ij}(Q)=\delta_{ij}C_b+Q_{ij}\,C_W\langle\sigma\sigma\rangle,$$

and the targets tell of $Q$ by the action

$$S(Q)=\tfrac n2({\rm tr}\,Q-\log|Q|)+\tfrac12\log|\tilde K(Q)|+\tfrac12y\tilde K(Q)^{-1}y,$$

whose last terms are as large as the number of samples. Along the mean $\langle\sigma\rangle$ of the activations
the sum is of another kind, but that is one direction, and drawn layers are better met by scaling it too. With one
output each of several hidden layers has a number $Q_\ell$ of its own, and passes the kernel on as one of width
$n_\ell$ would on average. Of linear networks all of this is exact.

Source: Pacelli et al. (2023), Nature Machine Intelligence 5; Baglioni et al. (2024), PRL 133; derived for
    $C_b,C_W$, with the whole integral over $Q$ instead of its saddle point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from jaxtyping import Float
from scipy.special import gammaln

from scalewise.gaussian.spi import Places, Workspace, kernel_map
from scalewise.networks import Network

# The logarithm of the likelihood of the targets, mean (output, test) and covariance (output, output_1, test,
# test_1) on test samples, and the scales: a matrix by output, or a number for each hidden layer.
GivenScales = tuple[float, np.ndarray, np.ndarray, np.ndarray]


class Scales(ABC):
    """Coordinates of the scales, any real numbers, and the Gaussian process that each choice of them gives."""

    @property
    @abstractmethod
    def degrees(self) -> Float[np.ndarray, " coordinate"]:
        """Degrees of freedom of the coordinates that are logarithms of roots of scales; 0 of the others."""

    @property
    @abstractmethod
    def widths(self) -> Float[np.ndarray, " coordinate"]:
        """Width of the layer that each coordinate belongs to."""

    @abstractmethod
    def log_likelihood(self, t: Float[np.ndarray, " coordinate"]) -> float:
        """Log likelihood of the targets."""

    @abstractmethod
    def given(self, t: Float[np.ndarray, " coordinate"]) -> GivenScales:
        """The likelihood, the outputs and the scales of kernels at one point of the integral."""


def log_prior(scales: Scales, t: Float[np.ndarray, " coordinate"]) -> float:
    r"""Density of the coordinates: $c=e^t$ with $nc^2\sim\chi^2_k$, or $c=t$ with $\sqrt nc\sim N(0,1)$."""
    n, k = scales.widths, scales.degrees
    root = k > 0
    c = np.where(root, np.exp(t), t)
    free = np.where(root, k, 1.0)
    of_root = k * t + np.log(2) + 0.5 * k * np.log(n / 2) - gammaln(0.5 * free)
    return float((np.where(root, of_root, 0.5 * np.log(n / (2 * np.pi))) - 0.5 * n * c**2).sum())


@dataclass(frozen=True)
class OneLayer(Scales):
    r"""One hidden layer and any number of outputs; one decomposition serves all scales.

    Args:
        net: The network.
        moves: $C_W\langle\sigma\sigma\rangle$ on training and test samples.
        y: Targets.
        noise_variance: Of each of them.
    """

    net: Network
    moves: Float[np.ndarray, "sample sample"]
    y: Float[np.ndarray, "train output"]
    noise_variance: float

    @classmethod
    def of(cls, net: Network, K: np.ndarray, y: np.ndarray, noise_variance: float) -> OneLayer:
        """From the kernel of the first layer, of training samples and then test samples."""
        return cls(net, _moving(net, 1, K), y, noise_variance)

    @property
    def degrees(self) -> np.ndarray:
        """One less for each output before it, as in Bartlett's decomposition of a Wishart matrix."""
        rows, columns = np.tril_indices(self.y.shape[1])
        return np.where(rows == columns, self.net.widths[1] - rows, 0.0)

    @property
    def widths(self) -> np.ndarray:
        """All of them the one."""
        return np.full(len(self.degrees), float(self.net.widths[1]))

    def _rotated(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The scales, and in their eigenbasis the outputs, which are independent there."""
        C = np.zeros(2 * (self.y.shape[1],))
        C[np.tril_indices(len(C))] = np.where(self.degrees > 0, np.exp(t), t)
        Q = C @ C.T
        q, V = np.linalg.eigh(Q)
        return Q, np.maximum(q, 0.0), V

    @cached_property
    def _basis(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Directions in which both parts are diagonal, and how much moves in each."""
        A = slice(0, len(self.y))
        moves, stays = self.moves[A, A], self.net.C_b[1] + self.noise_variance * np.eye(A.stop)
        kappa, basis = scipy.linalg.eigh(moves, moves + stays)
        return np.clip(kappa, 0.0, 1.0), basis, float(-2 * np.linalg.slogdet(basis)[1])

    def log_likelihood(self, t: np.ndarray) -> float:
        """In the directions where all is diagonal."""
        _, q, V = self._rotated(t)
        kappa, basis, log_det = self._basis
        h = q[:, None] * kappa + 1 - kappa
        part = (basis.T @ self.y @ V).T
        squares = (part**2 / h).sum()
        return -0.5 * float(squares + np.log(2 * np.pi * h).sum() + len(h) * log_det)

    def given(self, t: np.ndarray) -> GivenScales:
        """Output by output in the eigenbasis of the scales, and turned back."""
        Q, q, V = self._rotated(t)
        kappa, basis, _ = self._basis
        A, B = slice(0, len(self.y)), slice(len(self.y), None)
        seen, C_b = self.moves[B, A] @ basis, self.net.C_b[1]
        mean, covariance = [], []
        for scale, part in zip(q, (basis.T @ self.y @ V).T, strict=True):
            h = scale * kappa + 1 - kappa
            cross = scale * seen + C_b * basis.sum(axis=0)
            mean.append(cross @ (part / h))
            covariance.append(scale * self.moves[B, B] + C_b - (cross / h) @ cross.T)
        turned = np.einsum("ik,kbc,jk->ijbc", V, np.array(covariance), V)
        return self.log_likelihood(t), V @ np.array(mean), turned, Q


@dataclass(frozen=True)
class SeveralLayers(Scales):
    """Any number of hidden layers and one output: a number for each of them.

    Args:
        net: The network.
        first: Kernel of the first layer, of training samples and then test samples.
        y: Targets.
        noise_variance: Of each of them.
    """

    net: Network
    first: Float[np.ndarray, "sample sample"]
    y: Float[np.ndarray, "train output"]
    noise_variance: float

    @property
    def degrees(self) -> np.ndarray:
        """The widths."""
        return self.widths

    @property
    def widths(self) -> np.ndarray:
        """Widths of the hidden layers."""
        return np.array(self.net.widths[1:-1], dtype=float)

    def _kernel(self, t: np.ndarray, samples: slice) -> np.ndarray:
        K = self.first[samples, samples]
        for layer, Q in enumerate(np.exp(2 * t), 1):
            K = self.net.C_b[layer] + Q * _moving(self.net, layer, K)
        return K

    def log_likelihood(self, t: np.ndarray) -> float:
        """By one Cholesky factor."""
        count = len(self.y)
        own = self._kernel(t, slice(0, count)) + self.noise_variance * np.eye(count)
        L = np.linalg.cholesky(own)
        part = scipy.linalg.solve_triangular(L, self.y, lower=True)
        return -0.5 * float((part**2).sum() + count * np.log(2 * np.pi)) - float(
            np.log(np.diagonal(L)).sum()
        )

    def given(self, t: np.ndarray) -> GivenScales:
        """By one Cholesky factor."""
        K, count = self._kernel(t, slice(None)), len(self.y)
        L = np.linalg.cholesky(K[:count, :count] + self.noise_variance * np.eye(count))
        seen = scipy.linalg.solve_triangular(L, K[:count, count:], lower=True)
        part = scipy.linalg.solve_triangular(L, self.y, lower=True)
        log = -0.5 * float((part**2).sum() + count * np.log(2 * np.pi))
        log -= float(np.log(np.diagonal(L)).sum())
        covariance = K[count:, count:] - seen.T @ seen
        return log, (seen.T @ part).T, covariance[None, None], np.exp(2 * t)


def _moving(net: Network, layer: int, K: np.ndarray) -> np.ndarray:
    """The part of the next kernel that scales with the neurons of a layer."""
    here = kernel_map(net.activation, np.diagonal(K).copy(), slope=False)
    products, rows = K.copy(), slice(0, len(K))
    work = Workspace(here.scratch, K.size).take(K.shape)
    here.apply(Places(rows, rows), products, None, work)
    return net.C_W[layer] * products
