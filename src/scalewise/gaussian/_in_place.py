r"""Maps of one layer on tiles of pairs: what they have in common, and those in closed form.

A map is made once per layer from the diagonal $K_{aa}$; it is then applied to tiles of pairs small enough to
stay in cache, in place, without temporaries.
"""

from __future__ import annotations

import abc
import math

import numpy as np
from jaxtyping import Float

from scalewise.activations import Activation
from scalewise.gaussian._angle import angle_and_sine
from scalewise.gaussian._closed import closed_pair_moments
from scalewise.gaussian._places import Places

_COINCIDENT = 1.0 - 2e-15  # arccos turns the roundoff of a correlation of 1 into its square root

Tile = Float[np.ndarray, "*tile"]


class Workspace:
    """`arrays` scratch arrays of `size` numbers for tiles, allocated once; `take(shape)` hands out views."""

    def __init__(self, arrays: int, size: int) -> None:
        self._flat = np.empty((arrays, size))

    def take(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """One view of the given `shape` per scratch array."""
        return [flat[: math.prod(shape)].reshape(shape) for flat in self._flat]


class KernelMap(abc.ABC):
    r"""The two pair moments that the kernel and the NTK need, for the labels of one layer.

    A label is an input, or an input at a position.

    Args:
        K: $K_{aa}$ of each label; preactivation².

    Attributes:
        diagonal: $\langle\sigma_a^2\rangle$ for each label.
        diagonal_slope: $\langle\sigma_a'^2\rangle$ for each label.
    """

    scratch = 5

    def __init__(
        self,
        K: Float[np.ndarray, " label"],
        diagonal: Float[np.ndarray, " label"],
        diagonal_slope: Float[np.ndarray, " label"] | None,
    ) -> None:
        self.K = K
        self.diagonal = diagonal
        self.diagonal_slope = diagonal_slope

    def apply(self, at: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]) -> None:
        r"""Replace `C` by $\langle\sigma_a\sigma_b\rangle$; fill `slope` with $\langle\sigma'_a\sigma'_b\rangle$.

        Args:
            at: Which labels are $a$ and $b$.
            C: $K_{ab}$ on entry, the first moment on return. Of labels with themselves, slices that are alike, it
                is symmetric.
            slope: Where to put the second moment; ``None`` if it is not wanted.
            work: Scratch arrays of the tile's shape.
        """
        known = at.known
        if known is None:
            self._fill(at, C, slope, work)
            return
        if known.labels.size < C.size:
            C[known.at] = 0.0  # a correlation of 1 would only make a series longer
            self._fill(at, C, slope, work)
        C[known.at] = self.diagonal[known.labels]
        if slope is not None and self.diagonal_slope is not None:
            slope[known.at] = self.diagonal_slope[known.labels]

    @abc.abstractmethod
    def _fill(self, at: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]) -> None:
        """Fill in a tile as `apply` does, where pairs of a label with itself do not matter."""


class ScaleInvariantMap(KernelMap):
    r"""$\sqrt{K_aK_b}\,[A_2c+\beta(\sin\psi-\psi c)]$ and $A_2-\beta\psi$, $c=\cos\psi$: PDLT (5.159)-(5.161)."""

    def __init__(self, sigma: Activation, K: np.ndarray) -> None:
        minus, plus = sigma.slopes or (1.0, 1.0)
        self._A2 = 0.5 * (plus * plus + minus * minus)
        self._beta = (plus - minus) ** 2 / (2 * math.pi)
        super().__init__(K, self._A2 * K, np.full_like(K, self._A2))
        self._root = np.sqrt(K)
        # A label of variance 0 is correlated with nothing. In place of the mean slope it has that at 0, which is
        # the left one, as in PyTorch.
        self._inverse_root = np.divide(1.0, self._root, out=np.zeros_like(K), where=K > 0)
        self._still: np.ndarray | None = None
        if (K == 0).any() and minus + plus != 0:
            self._still = np.where(K == 0, 2 * minus / (minus + plus), 1.0)
            self.diagonal_slope = np.where(K == 0, minus**2, self._A2)

    def _fill(self, at: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]) -> None:
        if self._beta == 0.0:
            C *= self._A2
            if slope is not None:
                slope.fill(self._A2)
            return
        c, psi, sine, *free = work
        np.multiply(C, at.left(self._inverse_root), out=c)
        c *= at.right(self._inverse_root)
        if c.max() > _COINCIDENT:
            c[c > _COINCIDENT] = 1.0
        if (least := float(c.min())) < -_COINCIDENT:
            c[c < -_COINCIDENT] = -1.0
        angle_and_sine(c, least, psi, sine, (free[0], free[1]))
        sine *= self._beta
        psi *= -self._beta
        mean = psi if slope is None else slope
        np.add(psi, self._A2, out=mean)
        c *= mean
        if slope is not None and self._still is not None:
            slope *= at.left(self._still)
            slope *= at.right(self._still)
        c += sine
        c *= at.left(self._root)
        np.multiply(c, at.right(self._root), out=C)


class ErfMap(KernelMap):
    r"""$\frac2\pi\arcsin u$ and $\frac4\pi\Delta^{-1/2}$, $u=2C/\sqrt{(1+2A)(1+2B)}$."""

    def __init__(self, sigma: Activation, K: np.ndarray) -> None:
        super().__init__(
            K, 2 / math.pi * np.arctan2(2 * K, np.sqrt(1 + 4 * K)), 4 / math.pi / np.sqrt(1 + 4 * K)
        )
        self._inverse_root = 1.0 / np.sqrt(1 + 2 * K)

    def _fill(self, at: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]) -> None:
        u, square, *_ = work
        np.multiply(C, at.left(2 * self._inverse_root), out=u)
        u *= at.right(self._inverse_root)
        if slope is not None:
            np.multiply(u, u, out=square)
            np.subtract(1.0, square, out=square)
            np.sqrt(square, out=square)
            np.divide(at.left(4 / math.pi * self._inverse_root), square, out=slope)
            slope *= at.right(self._inverse_root)
        np.arcsin(u, out=C)
        C *= 2 / math.pi


class GeluMap(KernelMap):
    r"""GELU in closed form, no activation evaluated.

    With $\alpha=1/(1+A)$, $\beta=1/(1+B)$, $u=C\sqrt{\alpha\beta}$, $\Delta=(1-u^2)/\alpha\beta$:
    $$M_{00}=CP+\frac{E}{2\pi\sqrt\Delta},\quad M_{11}=P+\frac{C}{2\pi\sqrt\Delta}
      \Big(2\alpha+2\beta-1+\frac E\Delta\Big),\quad P=\tfrac14+\tfrac1{2\pi}\arcsin u,\quad
      E=AB+C^2(\alpha+\beta-1).$$
    """

    def __init__(self, sigma: Activation, K: np.ndarray) -> None:
        moments = closed_pair_moments(sigma, K, K, K, ((0, 0), (1, 1)))
        assert moments is not None
        super().__init__(K, moments[0, 0], moments[1, 1])
        self._alpha = 1.0 / (1.0 + K)
        self._root_alpha = np.sqrt(self._alpha)

    def _fill(self, at: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]) -> None:
        u, density, E, gamma, P = work
        np.multiply(C, at.left(self._root_alpha), out=u)
        u *= at.right(self._root_alpha)
        np.multiply(u, u, out=density)
        np.subtract(1.0, density, out=density)
        np.sqrt(density, out=density)
        np.divide(at.left(self._root_alpha / (2 * math.pi)), density, out=density)
        density *= at.right(self._root_alpha)  # 1/(2 pi sqrt(Delta))
        np.add(at.left(self._alpha - 1.0), at.right(self._alpha), out=gamma)
        np.multiply(C, C, out=E)
        E *= gamma
        np.multiply(at.left(self.K), at.right(self.K), out=P)
        E += P
        np.arcsin(u, out=P)
        P *= 1 / (2 * math.pi)
        P += 0.25
        E *= density  # E / (2 pi sqrt(Delta))
        if slope is not None:
            # E is now E/(2 pi sqrt(Delta)), so E density (2 pi)² is E/Delta.
            np.multiply(E, density, out=slope)
            slope *= 4 * math.pi**2
            gamma *= 2.0
            gamma += 1.0
            slope += gamma
            slope *= density
            slope *= C
            slope += P
        C *= P
        C += E


TILED: dict[str, type[ScaleInvariantMap] | type[ErfMap] | type[GeluMap]] = {
    "scale_invariant": ScaleInvariantMap,
    "erf": ErfMap,
    "gelu": GeluMap,
}
