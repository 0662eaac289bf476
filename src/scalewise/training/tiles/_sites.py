r"""What one hidden layer knows of a set of samples: the activation at nodes, and exact moments of pairs.

Nodes are scrambled Sobol points of the joint Gaussian of all samples. Only expectations of four factors are taken
over them; $M_{pq}=\langle\sigma^{(p)}_a\sigma^{(q)}_b\rangle$ are exact.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.gaussian import joint_rule
from scalewise.networks import MLP
from scalewise.theory.flow._layer import Layer

__all__ = ["Kernels", "Site", "sites"]

Matrix = Float[np.ndarray, "sample sample"]
Kernels = tuple[Float[np.ndarray, "layer sample sample"], Float[np.ndarray, "layer sample sample"]]


class Site:
    r"""A hidden layer: its kernels, its nodes, and the step to the next.

    Args:
        net: The network.
        layer: $\ell$, from 1.
        moments: Expectations at its kernel.
        Theta: Its NTK.
        z: Its preactivations at the nodes.
    """

    def __init__(
        self,
        net: MLP,
        layer: int,
        moments: Layer,
        Theta: Matrix,
        z: Float[np.ndarray, "node sample"],
    ) -> None:
        self.layer, self.Theta, self.K = layer, Theta, moments.K
        self.C_W, self.lambda_W = net.C_W[layer], net.lambda_W[layer]
        self.r = net.widths[layer] / net.widths[layer - 1] if layer > 1 else 1.0
        self.M = moments.M
        self._sigma, self.z = net.activation, z
        self._slopes: dict[int, np.ndarray] = {}
        self._slips: dict[tuple[int, int], np.ndarray] = {}

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return len(self.z)

    def slope(self, p: int) -> Float[np.ndarray, "node sample"]:
        r"""$\sigma^{(p)}$ at the nodes."""
        if p not in self._slopes:
            self._slopes[p] = self._sigma.derivative(self.z, p) if p else self._sigma(self.z)
        return self._slopes[p]

    def slip(self, p: int, q: int) -> Matrix:
        r"""What the nodes make of $M_{pq}$, less what it is."""
        if (p, q) not in self._slips:
            self._slips[p, q] = self.slope(p).T @ self.slope(q) / self.nodes - self.M(p, q)
        return self._slips[p, q]


def sites(net: MLP, kernels: Kernels, *, points: int, scrambles: int) -> list[list[Site]]:
    """The hidden layers of a network, once for each scramble of the nodes.

    Args:
        net: The network.
        kernels: Kernel and NTK of every layer.
        points: Nodes of each scramble, a power of two.
        scrambles: How many scrambles.
    """
    K, Theta = kernels
    found: list[list[Site]] = [[] for _ in range(scrambles)]
    for layer in range(1, net.depth):
        moments = Layer(net.activation, K[layer - 1])
        rule = joint_rule(K[layer - 1], smooth=False, seed=1000 * layer, points=points)
        drawn = rule.of_size(points, scrambles).nodes()
        for stack, (z, _) in zip(found, drawn, strict=True):
            stack.append(Site(net, layer, moments, Theta[layer - 1], np.ascontiguousarray(z.T)))
    return found
