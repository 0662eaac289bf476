r"""Vectors, matrices and scalars of a program: what a program's text handles, whatever it runs on.

They hold a value of the algebra that the program runs on (arrays of coordinates, samples of $Z$, polynomials in
Gaussian variables) and refuse what no program may do.
"""

from __future__ import annotations

import numbers
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Algebra(Protocol):
    """Operations of a backend on its values."""

    def spread(self, scalar: Any) -> Any:
        """A scalar in the form in which vectors take it in."""
        ...

    def mean(self, vector: Any) -> Any:
        """The coordinate average."""
        ...


@runtime_checkable
class ValueProduct(Protocol):
    """A backend's Gaussian matrix."""

    def times(self, x: Any) -> Any:
        """$Wx$."""
        ...

    def transposed_times(self, y: Any) -> Any:
        r"""$W^\top y$."""
        ...


class _Arithmetic:
    """Arithmetic of scalars and vectors; each says how it takes in the other and makes a new one."""

    value: Any

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        # NumPy's numbers leave arithmetic to us.
        reflected = _REFLECTED.get(ufunc)
        if reflected is not None and isinstance(inputs[0], numbers.Real):
            return getattr(self, reflected)(inputs[0])
        what = type(self).__name__.lower()
        if any(isinstance(x, np.ndarray) and x.ndim for x in inputs):
            raise TypeError(
                f"An array and a {what} of the program cannot be combined, for the {what} has no coordinates at "
                "infinite width. Draw vectors with vector(), and take numbers one by one."
            )
        raise TypeError(
            f"NumPy's `{ufunc.__name__}` does not know a {what} of the program. Write "
            f"apply(np.{ufunc.__name__}, x) for vectors."
        )

    def _with(self, other: Any) -> Any:
        """The other's value in our form; ``None`` if it is not one of ours."""
        raise NotImplementedError

    def _new(self, value: Any) -> Any:
        """A new value of this class."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        value = self._with(other)
        return NotImplemented if value is None else self._new(self.value + value)

    def __sub__(self, other: Any) -> Any:
        value = self._with(other)
        return NotImplemented if value is None else self._new(self.value - value)

    def __rsub__(self, other: Any) -> Any:
        value = self._with(other)
        return NotImplemented if value is None else self._new(value - self.value)

    def __mul__(self, other: Any) -> Any:
        value = self._with(other)
        return NotImplemented if value is None else self._new(self.value * value)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self._new(-self.value)

    def __pow__(self, power: Any) -> Any:
        if not isinstance(power, numbers.Real):
            return NotImplemented
        try:
            with np.errstate(all="ignore"):
                return self._new(self.value**power)
        except (OverflowError, ZeroDivisionError) as error:
            raise ValueError(
                f"A scalar of the program is not finite: a power of {power} overflows."
            ) from error


class Scalar(_Arithmetic):
    r"""A scalar $\theta$ of an `algebra`: its `value` is a number, one for each seed, or its limit."""

    _such_as = "space.scalar(1.0)"

    def __init__(self, algebra: Algebra, value: Any) -> None:
        if np.iscomplexobj(value) or not np.isfinite(value).all():
            raise ValueError(
                f"A scalar of the program is not finite: {value}. A division by zero, an overflow of a "
                "nonlinearity, or training that diverges; look at what was averaged."
            )
        self.algebra, self.value = algebra, value

    def _with(self, other: Any) -> Any:
        if isinstance(other, Scalar):
            return other.value
        if isinstance(other, numbers.Real):
            return float(other)
        return None

    def _new(self, value: Any) -> Scalar:
        return Scalar(self.algebra, value)

    def __truediv__(self, other: Any) -> Any:
        value = self._with(other)
        return NotImplemented if value is None else self._new(_divided(self.value, value))

    def __rtruediv__(self, other: Any) -> Any:
        value = self._with(other)
        return NotImplemented if value is None else self._new(_divided(value, self.value))


def _divided(above: Any, below: Any) -> Any:
    if np.any(np.asarray(below) == 0):
        raise ValueError("A scalar of the program is not finite: a division by zero.")
    return above / below


class Vector(_Arithmetic):
    """A vector of a program: arithmetic is coordinate by coordinate, with vectors and scalars.

    Args:
        algebra: Of the backend.
        value: In that algebra.
        ratio: Width of its space in units of $n$.
    """

    _such_as = "space.vector()"

    def __init__(self, algebra: Algebra, value: Any, ratio: float | int = 1.0) -> None:
        self.algebra, self.value, self.ratio = algebra, value, ratio

    def _with(self, other: Any) -> Any:
        if isinstance(other, Vector):
            if other.ratio != self.ratio:
                raise ValueError(
                    f"Two vectors of different spaces, of widths {self.ratio:g} n and {other.ratio:g} n, cannot be "
                    "taken coordinate by coordinate. Multiply one with a matrix between the spaces."
                )
            return other.value
        if isinstance(other, Scalar):
            return self.algebra.spread(other.value)
        if isinstance(other, numbers.Real):
            return self.algebra.spread(Scalar(self.algebra, float(other)).value)
        return None

    def _new(self, value: Any) -> Vector:
        return Vector(self.algebra, value, self.ratio)

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Vector):
            raise TypeError(_QUOTIENT)
        if not isinstance(other, Scalar | numbers.Real):
            return NotImplemented
        value = self._with(1.0 / other if isinstance(other, Scalar) else _divided(1.0, other))
        return self._new(self.value * value)

    def __rtruediv__(self, other: Any) -> Any:
        raise TypeError(_QUOTIENT)


_QUOTIENT = (
    "Division by a vector is a nonlinearity: write apply(np.divide, x, y), and see that the mean of the quotient "
    "exists."
)
_REFLECTED = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.divide: "__rtruediv__",
}


class ProgramMatrix:
    r"""A Gaussian matrix of a program, entries $N(0,\sigma^2/n_\text{in})$; multiply it with ``@``.

    Args:
        name: As declared.
        product: The backend's.
        algebra: The backend's.
        ratios: Widths of output and input space in units of $n$.
        transposed: Whether ``.T`` was declared.
        flipped: Whether this is the transpose.
    """

    def __init__(
        self,
        name: str,
        product: ValueProduct,
        algebra: Algebra,
        *,
        ratios: tuple[float | int, float | int],
        transposed: bool,
        flipped: bool = False,
    ) -> None:
        self.name, self.product, self.algebra, self.ratios = name, product, algebra, ratios
        self.transposed, self.flipped = transposed, flipped

    @property
    def T(self) -> ProgramMatrix:
        """The transpose.

        Raises:
            ValueError: If it was not declared.
        """
        if not self.transposed:
            raise ValueError(
                f"The program uses the transpose of {self.name!r}, but declared only {self.name!r}. Declare it "
                f"with matrix({self.name!r}, transposed=True): products with both are correlated."
            )
        return ProgramMatrix(
            self.name,
            self.product,
            self.algebra,
            ratios=self.ratios,
            transposed=True,
            flipped=not self.flipped,
        )

    def __mul__(self, other: Any) -> Any:
        raise TypeError(
            f"The matrix {self.name!r} only multiplies vectors, with @: {self.name} @ x. Scale or add the "
            "products instead of matrices."
        )

    __rmul__ = __add__ = __radd__ = __sub__ = __rsub__ = __rmatmul__ = __mul__

    def __matmul__(self, x: Any) -> Vector:
        if not isinstance(x, Vector):
            raise TypeError(
                f"Only a vector of the program can be multiplied with {self.name!r}; got "
                f"{type(x).__name__}."
            )
        target, source = self.ratios[::-1] if self.flipped else self.ratios
        if x.ratio != source:
            letter = f"{self.name}.T" if self.flipped else self.name
            raise ValueError(
                f"{letter} maps vectors of width {source:g} n to {target:g} n; got one of width "
                f"{x.ratio:g} n. See `ratios` of matrix({self.name!r}) and `ratio` of the vector."
            )
        value = (
            self.product.transposed_times(x.value) if self.flipped else self.product.times(x.value)
        )
        return Vector(self.algebra, value, target)
