r"""Maps of one layer on tiles of pairs: what they have in common, and those in closed form.

A map is made once per layer from the diagonal $K_{aa}$; it is then applied to tiles of pairs small enough to
stay in cache, in place, without temporaries.
"""

from __future__ import annotations

import abc
import math

import numpy as np
from jaxtyping import Float, Int

from scalewise.activations import Activation
from scalewise.gaussian._closed import closed_pair_moments

_COINCIDENT = 1.0 - 2e-15  # arccos turns the roundoff of a correlation of 1 into its square root

# Of some inputs with others, row by column, or of pairs one after the other.
Tile = Float[np.ndarray, "*tile"]
Places = slice | Int[np.ndarray, " pair"]


class Workspace:
    """`arrays` scratch arrays of `size` numbers for tiles, allocated once; `take(shape)` hands out views."""

    def __init__(self, arrays: int, size: int) -> None:
        self._flat = np.empty((arrays, size))

    def take(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """One view of the given `shape` per scratch array."""
        return [flat[: math.prod(shape)].reshape(shape) for flat in self._flat]


class KernelMap(abc.ABC):
    r"""The two pair moments that the kernel and the NTK need, for the inputs of one layer.

    Args:
        K: $K_{aa}$ of each input; preactivation². It is 0 only where the activation is smooth there.

    Attributes:
        diagonal: $\langle\sigma_a^2\rangle$ for each input.
        diagonal_slope: $\langle\sigma_a'^2\rangle$ for each input.
    """

    scratch = 5

    def __init__(
        self,
        K: Float[np.ndarray, " input"],
        diagonal: Float[np.ndarray, " input"],
        diagonal_slope: Float[np.ndarray, " input"] | None,
    ) -> None:
        self.K = K
        self.diagonal = diagonal
        self.diagonal_slope = diagonal_slope

    @abc.abstractmethod
    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        r"""Replace `C` by $\langle\sigma_a\sigma_b\rangle$; fill `slope` with $\langle\sigma'_a\sigma'_b\rangle$.

        Args:
            rows: Which inputs are $a$; slices for a tile of two dimensions, places for one of one dimension.
            columns: Which inputs are $b$.
            C: $K_{ab}$ on entry, the first moment on return. Of inputs with themselves, slices that are alike, it
                is symmetric.
            slope: Where to put the second moment; ``None`` if it is not wanted.
            work: Scratch arrays of the tile's shape.
        """


def facing(values: np.ndarray, C: Tile) -> np.ndarray:
    """What belongs to the first inputs of a tile, as it meets what belongs to the second ones."""
    return values if C.ndim == 1 else values[:, None]


class ScaleInvariantMap(KernelMap):
    r"""$\sqrt{K_aK_b}\,[A_2c+\beta(\sin\psi-\psi c)]$ and $A_2-\beta\psi$, $c=\cos\psi$: PDLT (5.159)-(5.161)."""

    def __init__(self, sigma: Activation, K: np.ndarray) -> None:
        minus, plus = sigma.slopes or (1.0, 1.0)
        self._A2 = 0.5 * (plus * plus + minus * minus)
        self._beta = (plus - minus) ** 2 / (2 * math.pi)
        super().__init__(K, self._A2 * K, np.full_like(K, self._A2))
        self._root = np.sqrt(K)

    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        if self._beta == 0.0:
            C *= self._A2
            if slope is not None:
                slope.fill(self._A2)
            return
        c, psi, sine, *_ = work
        np.multiply(C, facing(1.0 / self._root[rows], C), out=c)
        c *= 1.0 / self._root[columns]
        if c.max() > _COINCIDENT:
            c[c > _COINCIDENT] = 1.0
        if c.min() < -_COINCIDENT:
            c[c < -_COINCIDENT] = -1.0
        np.arccos(c, out=psi)
        np.multiply(c, c, out=sine)
        np.subtract(1.0, sine, out=sine)
        np.sqrt(sine, out=sine)
        sine *= self._beta
        psi *= -self._beta
        psi += self._A2
        if slope is not None:
            slope[...] = psi
        c *= psi
        c += sine
        c *= facing(self._root[rows], C)
        np.multiply(c, self._root[columns], out=C)


class ErfMap(KernelMap):
    r"""$\frac2\pi\arcsin u$ and $\frac4\pi\Delta^{-1/2}$, $u=2C/\sqrt{(1+2A)(1+2B)}$."""

    def __init__(self, sigma: Activation, K: np.ndarray) -> None:
        super().__init__(
            K, 2 / math.pi * np.arctan2(2 * K, np.sqrt(1 + 4 * K)), 4 / math.pi / np.sqrt(1 + 4 * K)
        )
        self._inverse_root = 1.0 / np.sqrt(1 + 2 * K)

    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        u, square, *_ = work
        np.multiply(C, facing(2 * self._inverse_root[rows], C), out=u)
        u *= self._inverse_root[columns]
        if slope is not None:
            np.multiply(u, u, out=square)
            np.subtract(1.0, square, out=square)
            np.sqrt(square, out=square)
            np.divide(facing(4 / math.pi * self._inverse_root[rows], C), square, out=slope)
            slope *= self._inverse_root[columns]
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

    def apply(
        self, rows: Places, columns: Places, C: Tile, slope: Tile | None, work: list[np.ndarray]
    ) -> None:
        u, density, E, gamma, P = work
        np.multiply(C, facing(self._root_alpha[rows], C), out=u)
        u *= self._root_alpha[columns]
        np.multiply(u, u, out=density)
        np.subtract(1.0, density, out=density)
        np.sqrt(density, out=density)
        np.divide(facing(self._root_alpha[rows] / (2 * math.pi), C), density, out=density)
        density *= self._root_alpha[columns]  # 1/(2 pi sqrt(Delta))
        np.add(facing(self._alpha[rows] - 1.0, C), self._alpha[columns], out=gamma)
        np.multiply(C, C, out=E)
        E *= gamma
        np.multiply(facing(self.K[rows], C), self.K[columns], out=P)
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
