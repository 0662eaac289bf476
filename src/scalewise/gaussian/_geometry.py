r"""The geometry of a pair of preactivations, without losing digits near coincidence."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float

# Below this 1-c² is rounding noise of C: the two preactivations are multiples of each other.
COINCIDENT = 1e-15
# Below this 1-c² the singular part of a moment (a power of 1/sqrt(1-c²)) is left out.
SINGULAR = 1e-13

_SPLITTER = 134217729.0  # 2^27 + 1 cuts a double into two halves whose products are exact


def _exact_product(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Product and its rounding error (Dekker), so that AB - C² keeps its digits at |c| = 1."""
    product = x * y
    x_high = _SPLITTER * x - (_SPLITTER * x - x)
    y_high = _SPLITTER * y - (_SPLITTER * y - y)
    x_low, y_low = x - x_high, y - y_high
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, error


def clipped(
    A: Float[np.ndarray, "*#pair"], B: Float[np.ndarray, "*#pair"], C: Float[np.ndarray, "*#pair"]
) -> Float[np.ndarray, "*pair"]:
    r"""Covariances $C$ within $\pm\sqrt{AB}$, past which rounding may have carried them; $A$, $B$ are variances."""
    limit = np.sqrt(A) * np.sqrt(B)
    return np.clip(C, -limit, limit)


@dataclass(frozen=True)
class PairGeometry:
    r"""Variances, covariance and angle of two Gaussian variables.

    $$c=\frac C{\sqrt{AB}}=\cos\psi,\qquad AB-C^2=AB\sin^2\psi.$$
    """

    A: Float[np.ndarray, "*pair"]  # variance of $z_a$, positive; preactivation²
    B: Float[np.ndarray, "*pair"]  # variance of $z_b$
    # Covariance; clipped where rounding has carried it past $\pm\sqrt{AB}$.
    C: Float[np.ndarray, "*pair"]
    # $AB-C^2$, correct to roundoff of itself, 0 where $1-c^2$ is below `COINCIDENT`.
    determinant: Float[np.ndarray, "*pair"]
    root: Float[np.ndarray, "*pair"]  # $\sqrt{AB}$

    @classmethod
    def of(
        cls, A: float | np.ndarray, B: float | np.ndarray, C: float | np.ndarray
    ) -> PairGeometry:
        """Broadcast the three arguments and measure the pair."""
        a, b, c = (
            np.array(x) for x in np.broadcast_arrays(*(np.asarray(x, float) for x in (A, B, C)))
        )
        # Arrays of no dimension would turn into scalars at the first operation.
        shape, a, b, c = a.shape, a.ravel(), b.ravel(), c.ravel()
        square, square_error = _exact_product(a, b)
        cross, cross_error = _exact_product(c, c)
        determinant = (square - cross) + (square_error - cross_error)
        determinant = np.where(determinant < COINCIDENT * square, 0.0, determinant)
        root = np.sqrt(square)
        c = np.clip(c, -root, root)
        return cls(*(x.reshape(shape) for x in (a, b, c, determinant, root)))

    @property
    def swapped(self) -> PairGeometry:
        """This pair with its two legs exchanged."""
        return PairGeometry(self.B, self.A, self.C, self.determinant, self.root)

    @property
    def flat(self) -> PairGeometry:
        """These pairs as one-dimensional arrays."""
        return PairGeometry(*(np.ravel(getattr(self, f.name)) for f in fields(self)))

    def at(self, index: slice | np.ndarray) -> PairGeometry:
        """Some of the pairs, of a flat batch."""
        return PairGeometry(*(getattr(self, f.name)[index] for f in fields(self)))

    @property
    def sine(self) -> Float[np.ndarray, "*pair"]:
        r"""$\sin\psi=\sqrt{1-c^2}$."""
        return np.sqrt(self.determinant) / self.root

    @property
    def cosine(self) -> Float[np.ndarray, "*pair"]:
        r"""$c$; exactly $\pm1$ where the two coincide."""
        c = self.C / self.root
        return np.where(self.coincident, np.sign(c), c)

    @property
    def coincident(self) -> np.ndarray:
        r"""True where $|c|=1$ as far as doubles can tell."""
        return np.asarray(self.determinant == 0.0)

    @property
    def singular(self) -> np.ndarray:
        """True where only finite parts of singular moments are kept."""
        return np.asarray(self.determinant < SINGULAR * self.root**2)

    def singular_density(self, power: float = 0.5) -> Float[np.ndarray, "*pair"]:
        r"""$(AB-C^2)^{-p}/2\pi$, 0 where `singular`; for $p=\frac12$ the density at 0."""
        safe = np.where(self.singular, 1.0, self.determinant)
        return np.where(self.singular, 0.0, safe**-power / (2 * np.pi))
