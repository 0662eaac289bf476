r"""Infinite width, which is corrected: hidden layers with their expectations, and the training of the outputs."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network
from scalewise.theory.spi import LayerExpectations
from scalewise.training.tiles._conditioned import Conditioned
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.width._weights import Separable

Matrix = Float[np.ndarray, "sample sample"]
Train = Float[np.ndarray, "train train"]
OnTrain = Float[np.ndarray, "sample train"]
Kernels = tuple[Float[np.ndarray, "layer sample sample"], Float[np.ndarray, "layer sample sample"]]


class Site:
    r"""A hidden layer: its kernels, its expectations, and the step to the next.

    Args:
        net: The network.
        layer: $\ell$, from 1.
        kernels: Kernel and NTK of every layer.
        dtype: Of expectations.
    """

    given: Conditioned

    def __init__(
        self, net: Network, layer: int, kernels: Kernels, *, dtype: type[np.floating] = np.float64
    ) -> None:
        self.K, self.Theta = (values[layer - 1] for values in kernels)
        self.layer, self.sigma = layer, net.activation
        self.C_W, self.lambda_W = float(net.C_W[layer]), float(net.lambda_W[layer])
        self.r = float(net.widths[layer] / net.widths[layer - 1]) if layer > 1 else 1.0
        self._layer = LayerExpectations(net.activation, self.K)
        self._moments: dict[tuple[int, int], Matrix] = {}
        self._dtype = dtype

    def at(self, accuracy: Accuracy) -> Site:
        """The layer with expectations of more than two samples; those of pairs are the same at each accuracy."""
        found = copy(self)
        found.given = Conditioned(self.sigma, self.K, accuracy, self._dtype)
        return found

    def M(self, p: int, q: int) -> Matrix:
        r"""$\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$, the same array at every call."""
        if (p, q) not in self._moments:
            self._moments[p, q] = self._layer.M(p, q)
        return self._moments[p, q]


def sites(
    net: Network, kernels: Kernels, *, dtype: type[np.floating] = np.float64
) -> Callable[[Accuracy], list[Site]]:
    """The hidden layers of a network, by the accuracy of expectations of more than two samples.

    Args:
        net: The network.
        kernels: Kernel and NTK of every layer.
        dtype: Of expectations.
    """
    exact = [Site(net, layer, kernels, dtype=dtype) for layer in range(1, net.depth)]
    return lambda accuracy: [site.at(accuracy) for site in exact]


@dataclass(frozen=True)
class Setting:
    r"""Samples are in the order train, then test.

    Args:
        K: Kernel of the outputs.
        Theta: Their NTK.
        y: Targets $y_{i\tilde\alpha}$.
        U: Eigenvectors of $\tilde H$, one a column, without those that it does not reach.
        weights: The algorithm's.
    """

    K: Matrix
    Theta: Matrix
    y: Float[np.ndarray, "output train"]
    U: Float[np.ndarray, "train direction"]
    weights: Separable

    @property
    def outputs(self) -> int:
        """$n_L$."""
        return len(self.y)

    @property
    def count(self) -> int:
        """How many training samples there are."""
        return self.y.shape[1]

    @property
    def train(self) -> np.ndarray:
        """Places of the training samples."""
        return np.arange(self.count)

    @cached_property
    def gain(self) -> Train:
        r"""$g(\tilde H)$: the inverse, at the end of training."""
        return (self.U * self.weights.gain) @ self.U.T

    def pairs(self, name: str) -> Float[np.ndarray, "direction direction"]:
        """A weight of two legs, A or B."""
        return np.einsum("kp,kq->pq", *np.moveaxis(getattr(self.weights, name), 1, 0))

    @cached_property
    def R(self) -> OnTrain:
        r"""$\Theta_{\delta\tilde\alpha}g$."""
        return self.Theta[:, : self.count] @ self.gain

    @cached_property
    def C(self) -> OnTrain:
        r"""$\mathbb E[\zeta_\delta z_{\tilde\alpha}]$, $\zeta=z-Rz$ what training leaves of the initial outputs."""
        own = self.K[:, : self.count]
        return own - self.R @ own[: self.count]

    @cached_property
    def mean(self) -> Float[np.ndarray, "output sample"]:
        """The mean of the outputs at infinite width."""
        return self.y @ self.R.T

    @cached_property
    def covariance(self) -> Float[np.ndarray, "sample sample_1"]:
        """The covariance of one output at infinite width."""
        return self.left(self.left(self.K).T)

    @cached_property
    def eigen_y(self) -> Float[np.ndarray, "output direction"]:
        """Targets in eigendirections."""
        return self.y @ self.U

    @cached_property
    def eigen_K(self) -> Float[np.ndarray, "direction direction"]:
        """Kernel of the training samples in eigendirections."""
        return self.U.T @ self.K[: self.count, : self.count] @ self.U

    def errors(self, i: int, j: int) -> Float[np.ndarray, "direction direction"]:
        r"""$\mathbb E[e_{ip}e_{jq}]$ of the initial errors in eigendirections."""
        both = np.multiply.outer(self.eigen_y[i], self.eigen_y[j])
        return both + self.eigen_K if i == j else both

    def weighted(
        self, z: Float[np.ndarray, "direction direction"] | float = 1.0
    ) -> dict[tuple[int, int], Train]:
        r"""$\sum z_{pq}\mathbb E[e_{ip}e_{jq}]$ on samples, by the outputs $i,j$."""
        pairs = [(i, j) for i in range(self.outputs) for j in range(self.outputs)]
        return {pair: self.U @ (z * self.errors(*pair)) @ self.U.T for pair in pairs}

    def left(self, values: Float[np.ndarray, "sample ..."]) -> Float[np.ndarray, "sample ..."]:
        """Less what training corrects, on the first axis: 0 on training samples."""
        return values - np.tensordot(self.R, values[: self.count], 1)
