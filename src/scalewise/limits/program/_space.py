r"""What a program is given: the maker of its initial vectors and matrices, averages and nonlinearities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from scalewise._checked import FiniteNumber, Index, NotNegative, Positive, checked
from scalewise.limits.program._values import Algebra, ProgramMatrix, Scalar, ValueProduct, Vector


@runtime_checkable
class Maker(Algebra, Protocol):
    """A backend's algebra, and how it draws."""

    n: float | int

    def gaussians(self, covariance: np.ndarray, ratio: float | int) -> list[Any]:
        """Vectors with jointly Gaussian rows."""
        ...

    def matrix(
        self, ratios: tuple[float | int, float | int], sigma: float | int, transposed: bool
    ) -> ValueProduct:
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

    @checked
    def vector(self, *, sigma: NotNegative = 1.0, ratio: Positive = 1.0) -> Vector:
        r"""An initial vector with independent coordinates $N(0,\sigma^2)$.

        Args:
            sigma: $\sigma$, finite and at least 0.
            ratio: Width of its space in units of $n$.
        """
        return self.vectors([[float(sigma) ** 2]], ratio=ratio)[0]

    @checked
    def vectors(
        self,
        covariance: Annotated[Any, Float[np.ndarray, "vector vector"]],
        *,
        ratio: Positive = 1.0,
    ) -> list[Vector]:
        """Initial vectors whose coordinates are jointly Gaussian, independent from row to row.

        Args:
            covariance: Symmetric, positive semidefinite.
            ratio: Width of their space in units of $n$.

        Raises:
            ValueError: If it is not a covariance matrix.
        """
        K = np.asarray(covariance, dtype=np.float64)
        if not K.size or K.shape[0] != K.shape[1] or not np.allclose(K, K.T):
            raise ValueError(f"`covariance` must be a symmetric matrix; got shape {K.shape}.")
        if np.linalg.eigvalsh(K).min() < -1e-10 * np.abs(K).max():
            raise ValueError("`covariance` must be finite and positive semidefinite; it is not.")
        return [Vector(self._maker, v, ratio) for v in self._maker.gaussians(K, ratio)]

    @checked
    def matrix(
        self,
        name: str,
        *,
        sigma: NotNegative = 1.0,
        transposed: bool = False,
        ratios: tuple[Positive, Positive] = (1.0, 1.0),
    ) -> ProgramMatrix:
        r"""An initial matrix with independent entries $N(0,\sigma^2/n_\text{in})$.

        Args:
            name: For messages.
            sigma: $\sigma$, positive and finite.
            transposed: Whether the program multiplies with its transpose too.
            ratios: Widths of output and input space in units of $n$.
        """
        if sigma == 0:
            raise ValueError("`sigma` of a matrix must be positive; got 0. Leave the product out.")
        product = self._maker.matrix(ratios, float(sigma), transposed)
        return ProgramMatrix(name, product, self._maker, ratios=ratios, transposed=transposed)

    @checked
    def scalar(self, value: FiniteNumber) -> Scalar:
        """The finite number `value` as a scalar of the program."""
        return Scalar(self._maker, float(value))

    @checked
    def apply(self, phi: Any, *arguments: Vector | Scalar | float, order: Index = 0) -> Vector:
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
        return first._new(self._maker.apply(phi, order, values))

    @checked
    def mean(self, vector: Vector) -> Scalar:
        r"""The coordinate average of a `vector`, $\frac1n\sum_\alpha x_\alpha$; in the limit, $\mathbb EZ^x$.

        Raises:
            ValueError: If it is not finite.
            TypeError: If it is taken of anything but a vector.
        """
        return Scalar(self._maker, self._maker.mean(vector.value))

    @checked
    def combine(self, coefficients: Sequence[Any], vectors: Sequence[Vector]) -> Vector | float:
        """Sum of `coefficients`, scalars, times `vectors`; 0 if there are none."""
        if len(coefficients) != len(vectors):
            raise ValueError(
                f"`combine` needs a coefficient for each vector; got {len(coefficients)} for {len(vectors)}."
            )
        found: Any = 0.0
        for c, v in zip(coefficients, vectors, strict=True):
            found = c * v + found
        return found
