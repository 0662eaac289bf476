"""Maps that are made once, of the inputs with themselves, and then act on tiles of pairs: activations and norms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from scalewise.gaussian.spi import KernelMap, Places, kernel_map
from scalewise.networks.spi import Normalise, Pointwise
from scalewise.theory.flow._means import Mean

Tile = Float[np.ndarray, "*tile"]
Side = Callable[[np.ndarray], np.ndarray]


class NormMap:
    r"""$C_{ab}\mapsto C_{ab}/\sqrt{(C_{aa}+\epsilon)(C_{bb}+\epsilon)}$ for the labels of one node, and so for $T$.

    A mean over channels may be subtracted first. Of a norm over all positions the mean and $C_{aa}$ are averages
    over these, too. Averages over channels do not fluctuate at infinite width, nor do tangents move them: a tangent
    of $\langle x^2\rangle$ is an average of products with random signs.

    Args:
        K: $C_{aa}$ of each label, with the square of its mean.
        node: What kind of norm.
        mean: Of each label; ``None`` for 0.
        there: 1 at each label that counts, 0 at others, (input, label).
    """

    def __init__(
        self,
        K: Float[np.ndarray, " label"],
        node: Normalise,
        mean: Mean,
        there: Float[np.ndarray, "input site"],
    ) -> None:
        self.K, self._before = K, mean if node.centred else None
        self._shares = there / there.sum(axis=1, keepdims=True)
        square = K
        if self._before is not None:
            subtracted = self._averaged(self._before) if node.joint else self._before
            self._left = self._before - subtracted
            square = np.maximum(K - self._before**2 + self._left**2, 0.0)
        if node.joint:
            square = self._averaged(square)
        if node.eps == 0.0 and not square.all():
            raise ValueError(
                "`x` leaves a site of a norm without any signal, and its eps is 0, so it would divide by 0. Give "
                "the norm an eps, or set C_b > 0 in the layer before it."
            )
        self._inverse_root = 1.0 / np.sqrt(square + node.eps)
        after = mean if self._before is None else self._left if node.joint else None
        self.mean: Mean = None if after is None else after * self._inverse_root

    def _averaged(self, values: np.ndarray) -> np.ndarray:
        of_inputs = (values.reshape(self._shares.shape) * self._shares).sum(axis=1)
        return np.repeat(of_inputs, self._shares.shape[1])

    def apply(self, at: Places, C: Tile, T: Tile | None) -> None:
        """Both covariances, in place."""
        if self._before is not None:
            C -= at.left(self._before) * at.right(self._before)
            C += at.left(self._left) * at.right(self._left)
        for tile in (C, T):
            if tile is not None:
                tile *= at.left(self._inverse_root)
                tile *= at.right(self._inverse_root)

    def apply_to_one(self, mine: Side, its: Side, C: Tile, T: Tile | None, mean: Mean) -> None:
        """Covariances with another field, in place.

        Args:
            mine: Numbers of the labels of the norm, as they stand in a tile.
            its: Likewise of the labels of the other field.
            C: Of the field before the norm with the other one.
            T: Likewise of tangents.
            mean: Of the other field.
        """
        if self._before is not None and mean is not None:
            C += mine(self._left - self._before) * its(mean)
        for tile in (C, T):
            if tile is not None:
                tile *= mine(self._inverse_root)


def map_of(
    node: Pointwise | Normalise,
    K: Float[np.ndarray, " label"],
    mean: Mean,
    there: Float[np.ndarray, "input site"],
    *,
    slope: bool,
) -> KernelMap | NormMap:
    """The map of a node.

    Args:
        node: An activation or a norm.
        K: Variances of the labels before it, their means included.
        mean: Means of the labels before it; ``None`` for 0.
        there: 1 at each label that a norm over positions counts, 0 at others.
        slope: Whether the NTK will be asked for.
    """
    if isinstance(node, Normalise):
        return NormMap(K, node, mean, there)
    return kernel_map(node.sigma, K, slope=slope)
