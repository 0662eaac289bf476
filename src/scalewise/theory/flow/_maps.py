"""What is made once of the inputs with themselves, and then acts on tiles of pairs: activations and norms."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.gaussian import KernelMap, Places, kernel_map
from scalewise.networks._program import Norm, Pointwise
from scalewise.theory.flow._means import Mean

Tile = Float[np.ndarray, "*tile"]


class NormMap:
    r"""$C_{ab}\mapsto C_{ab}/\sqrt{(C_{aa}+\epsilon)(C_{bb}+\epsilon)}$ for the labels of one node, and so for $T$.

    Where the mean over channels is subtracted, $C_{ab}$ is less the product of the means.

    Averages over channels do not fluctuate at infinite width, nor do tangents move them: a tangent of
    $\langle x^2\rangle$ is an average of products with random signs.

    Args:
        K: $C_{aa}$ of each label.
        eps: $\epsilon$.
        mean: What is subtracted; ``None`` for 0.
    """

    def __init__(self, K: Float[np.ndarray, " label"], eps: float, mean: Mean = None) -> None:
        self.K, self._mean = K, mean
        if mean is not None:
            K = np.maximum(K - mean * mean, 0.0)
        if eps == 0.0 and not K.all():
            raise ValueError(
                "`x` leaves a site of a norm without any signal, and its eps is 0, so it would divide by 0. Give "
                "the norm an eps, or set C_b > 0 in the layer before it."
            )
        self._inverse_root = 1.0 / np.sqrt(K + eps)

    def apply(self, at: Places, C: Tile, T: Tile | None) -> None:
        """Both covariances, in place."""
        if self._mean is not None:
            C -= at.left(self._mean) * at.right(self._mean)
        for tile in (C, T):
            if tile is not None:
                tile *= at.left(self._inverse_root)
                tile *= at.right(self._inverse_root)


def map_of(
    node: Pointwise | Norm, K: Float[np.ndarray, " label"], mean: Mean = None, *, slope: bool
) -> KernelMap | NormMap:
    """The map of a node.

    Args:
        node: An activation or a norm.
        K: Variances of the labels before it, their means included.
        mean: Means of the labels before it; ``None`` for 0.
        slope: Whether the NTK will be asked for.
    """
    if isinstance(node, Norm):
        return NormMap(K, node.eps, mean if node.centred else None)
    return kernel_map(node.sigma, K, slope=slope)
