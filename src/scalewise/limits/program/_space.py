r"""What a program is given: the maker of its initial vectors and matrices, averages and nonlinearities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from scalewise.limits._checks import is_number, not_negative, positive, table
from scalewise.limits.program._values import Algebra, Matrix, Product, Scalar, Vector

__all__ = ["Space"]


@runtime_checkable
class Maker(Algebra, Protocol):
    """A backend's algebra, and how it draws."""

    n: float | int

    def gaussians(self, covariance: np.ndarray, ratio: float | int) -> list[Any]:
        """Vectors with jointly Gaussian rows."""
        ...

    def matrix(
        self, ratios: tuple[float | int, float | int], sigma: float | int, transposed: bool
    ) -> Product:
        """A Gaussian matrix."""
        ...

    def apply(self, phi: Any, order: int, arguments: list[Any]) -> Any:
        """A nonlinearity."""
        ...


class Space:
    r"""The one argument of a program: initial vectors and matrices, nonlinearities, averages.

    A program is a function of it that returns named scalars. `n` is the width, infinite where the program runs in
    the limit; powers of it are how a program is written for any parametrisation.

    Args:
        maker: The backend's algebra.

    Source: Yang & Hu, *Tensor Programs IV*, G.1, G.2.

    Example:
        >>> from scalewise.limits import Exact, run
        >>> def program(space):
        ...     W, v = space.matrix("W", transposed=True), space.vector()
        ...     return {"overlap": space.mean((W.T @ (W @ v)) * v)}
        >>> float(run(program, Exact()).overlap)
        1.0
    """

    def __init__(self, maker: Maker) -> None:
        self._maker = maker

    @property
    def n(self) -> float | int:
        """The width."""
        return self._maker.n

    def vector(self, *, sigma: float | int = 1.0, ratio: float | int = 1.0) -> Vector:
        r"""An initial vector with independent coordinates $N(0,\sigma^2)$.

        Args:
            sigma: $\sigma$, finite and at least 0.
            ratio: Width of its space in units of $n$.
        """
        return self.vectors([[_sigma(sigma) ** 2]], ratio=ratio)[0]

    def vectors(self, covariance: Any, *, ratio: float | int = 1.0) -> list[Vector]:
        """Initial vectors whose coordinates are jointly Gaussian, independent from row to row.

        Args:
            covariance: Symmetric, positive semidefinite.
            ratio: Width of their space in units of $n$.

        Raises:
            ValueError: If it is not a covariance matrix.
        """
        positive("ratio", ratio)
        K = table("covariance", covariance)
        if K.ndim != 2 or not K.size or K.shape[0] != K.shape[1] or not np.allclose(K, K.T):
            raise ValueError(f"`covariance` must be a symmetric matrix; got shape {K.shape}.")
        if np.linalg.eigvalsh(K).min() < -1e-10 * np.abs(K).max():
            raise ValueError("`covariance` must be finite and positive semidefinite; it is not.")
        return [Vector(self._maker, v, ratio) for v in self._maker.gaussians(K, ratio)]

    def matrix(
        self,
        name: str,
        *,
        sigma: float | int = 1.0,
        transposed: bool = False,
        ratios: tuple[float | int, float | int] = (1.0, 1.0),
    ) -> Matrix:
        r"""An initial matrix with independent entries $N(0,\sigma^2/n_\text{in})$.

        Args:
            name: For messages.
            sigma: $\sigma$, positive and finite.
            transposed: Whether the program multiplies with its transpose too.
            ratios: Widths of output and input space in units of $n$.
        """
        if not (isinstance(ratios, Sequence) and len(ratios) == 2):
            raise ValueError(
                f"`ratios` must be two widths in units of n, of output and input space; got {ratios!r}."
            )
        for ratio in ratios:
            positive("ratios", ratio)
        if is_number(sigma) and sigma == 0:
            raise ValueError("`sigma` of a matrix must be positive; got 0. Leave the product out.")
        product = self._maker.matrix(ratios, _sigma(sigma), transposed)
        return Matrix(name, product, self._maker, ratios=ratios, transposed=transposed)

    def scalar(self, value: float | int) -> Scalar:
        """A number as a scalar of the program; finite."""
        if not is_number(value):
            raise ValueError(f"`value` of a scalar must be a number; got {value!r}.")
        return Scalar(self._maker, float(value))

    def apply(self, phi: Any, *arguments: Vector | Scalar | float, order: int = 0) -> Vector:
        r"""A nonlinearity, coordinate by coordinate.

        Args:
            phi: A callable of as many arrays as there are arguments, or one vector's activation: a name or an
                `Activation`.
            arguments: Vectors of one space; scalars among them are parameters.
            order: Which derivative of an activation.

        Raises:
            ValueError: If the vectors are of different spaces, or none is given.
        """
        vectors = [a for a in arguments if isinstance(a, Vector)]
        if not vectors:
            raise ValueError("`apply` needs a vector among its arguments; got none.")
        if len(arguments) > 1 and (order or not callable(phi)):
            raise ValueError(
                f"The activation {phi!r} and its derivatives take one vector; got {len(arguments)} arguments. "
                "Write a function of arrays."
            )
        first = vectors[0]
        values = [first._with(a) for a in arguments]
        if any(value is None for value in values):
            raise TypeError(
                "`apply` takes vectors, scalars and numbers; got "
                f"{', '.join(type(a).__name__ for a in arguments)}. Bind what else it needs in a function."
            )
        return first._new(self._maker.apply(phi, order, values))

    def mean(self, vector: Any) -> Scalar:
        r"""The coordinate average $\frac1n\sum_\alpha x_\alpha$; in the limit, $\mathbb EZ^x$.

        Raises:
            ValueError: If it is not finite.
            TypeError: If it is taken of anything but a vector.
        """
        if not isinstance(vector, Vector):
            raise TypeError(f"`mean` is taken of a vector; got {type(vector).__name__}.")
        return Scalar(self._maker, self._maker.mean(vector.value))

    def combine(self, coefficients: Sequence[Any], vectors: Sequence[Vector]) -> Vector | float:
        """Sum of scalars times vectors; 0 if there are none."""
        if len(coefficients) != len(vectors):
            raise ValueError(
                f"`combine` needs a coefficient for each vector; got {len(coefficients)} for {len(vectors)}."
            )
        found: Any = 0.0
        for c, v in zip(coefficients, vectors, strict=True):
            found = c * v + found
        return found


def _sigma(sigma: float | int) -> float:
    not_negative("sigma", sigma)
    return float(sigma)
