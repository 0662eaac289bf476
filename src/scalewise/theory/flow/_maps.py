"""What is made once of the inputs with themselves, and then acts on tiles of pairs: activations and norms."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from scalewise.gaussian import KernelMap, Places, kernel_map
from scalewise.networks._program import Norm, Pointwise


class NormMap:
    r"""$C_{ab}\mapsto C_{ab}/\sqrt{(C_{aa}+\epsilon)(C_{bb}+\epsilon)}$ for the labels of one node, and so for $T$.

    Averages over channels do not fluctuate at infinite width, nor do tangents move them: a tangent of
    $\langle x^2\rangle$ is an average of products with random signs.

    Args:
        K: $C_{aa}$ of each label.
        eps: $\epsilon$.
    """

    def __init__(self, K: Float[np.ndarray, " label"], eps: float) -> None:
        if eps == 0.0 and not K.all():
            raise ValueError(
                "`x` leaves a site of a norm without any signal, and its eps is 0, so it would divide by 0. Give "
                "the norm an eps, or set C_b > 0 in the layer before it."
            )
        self.K = K
        self._inverse_root = 1.0 / np.sqrt(K + eps)

    def apply(self, at: Places, tile: Float[np.ndarray, "*tile"]) -> None:
        """Divide a covariance, in place."""
        tile *= at.left(self._inverse_root)
        tile *= at.right(self._inverse_root)


def map_of(
    node: Pointwise | Norm, K: Float[np.ndarray, " label"], *, slope: bool
) -> KernelMap | NormMap:
    """The map of a node.

    Args:
        node: An activation or a norm.
        K: Variances of the labels before it.
        slope: Whether the NTK will be asked for.
    """
    if isinstance(node, Norm):
        return NormMap(K, node.eps)
    return kernel_map(node.sigma, K, slope=slope)
