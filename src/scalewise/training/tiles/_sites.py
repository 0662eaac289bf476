"""What one hidden layer knows of a set of samples: exact moments of pairs, and expectations of up to four."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np
from jaxtyping import Float

from scalewise.networks import Network
from scalewise.theory.flow._layer import Layer
from scalewise.training.tiles._conditioned import Conditioned
from scalewise.training.tiles._rules import Accuracy

Matrix = Float[np.ndarray, "sample sample"]
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
        self._layer = Layer(net.activation, self.K)
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
