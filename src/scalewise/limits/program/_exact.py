r"""Values that are polynomials in independent standard Gaussian variables: a limit without samples.

Every direction in which a matrix is revealed is a new Gaussian variable, independent of all before. So the
recipe of the lazy matrix holds word for word, inner products are exact moments, and nothing is random. The number
of terms grows with the degree; linear programs stay linear.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scalewise.activations import Activation, activation

Monomial = tuple[tuple[int, int], ...]  # pairs of variable and power, in order
_TINY = 1e-13
_MOST_TERMS = 20_000


class Polynomial:
    """A polynomial in independent standard Gaussian variables.

    Args:
        terms: From monomials to coefficients.
    """

    def __init__(self, terms: dict[Monomial, float]) -> None:
        self.terms = {m: c for m, c in terms.items() if c != 0.0}
        if len(self.terms) > _MOST_TERMS:
            raise ValueError(
                f"A vector of the program has become a polynomial of {len(self.terms)} terms, more than "
                f"{_MOST_TERMS}: the exact backend is for linear programs and the first steps of polynomial ones. "
                "Run it on Lazy(width)."
            )

    @property
    def is_linear(self) -> bool:
        """True for polynomials of degree 1 without a constant."""
        return all(len(m) == 1 and m[0][1] == 1 for m in self.terms)

    def __add__(self, other: Any) -> Polynomial:
        found = dict(self.terms)
        for m, c in _terms(other).items():
            found[m] = found.get(m, 0.0) + c
        return Polynomial(found)

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Any) -> Polynomial:
        return self + -1.0 * Polynomial(_terms(other))

    def __rsub__(self, other: Any) -> Polynomial:
        return -self + other

    def __mul__(self, other: Any) -> Polynomial:
        if not isinstance(other, Polynomial):
            return Polynomial({m: c * float(other) for m, c in self.terms.items()})
        found: dict[Monomial, float] = {}
        for m, c in self.terms.items():
            for k, d in other.terms.items():
                product = _times(m, k)
                found[product] = found.get(product, 0.0) + c * d
        return Polynomial(found)

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, power: float | int) -> Polynomial:
        if power != int(power) or power < 0:
            raise ValueError(_not_a_polynomial(f"a power of {power}"))
        found = Polynomial({(): 1.0})
        for _ in range(int(power)):
            found = found * self
        return found

    def mean(self) -> float:
        r"""$\mathbb E$ of it: a product of moments $(k-1)!!$ for every term of even powers."""
        return math.fsum(c * _moment(m) for m, c in self.terms.items())

    def inner(self, other: Polynomial) -> float:
        r"""$\mathbb E$ of the product."""
        if self.is_linear and other.is_linear:
            few, many = sorted((self.terms, other.terms), key=len)
            return math.fsum(c * many.get(m, 0.0) for m, c in few.items())
        return math.fsum(
            c * d * _moment(_times(m, k))
            for m, c in self.terms.items()
            for k, d in other.terms.items()
        )


def _terms(value: Any) -> dict[Monomial, float]:
    return value.terms if isinstance(value, Polynomial) else {(): float(value)}


def _times(m: Monomial, k: Monomial) -> Monomial:
    powers = dict(m)
    for variable, power in k:
        powers[variable] = powers.get(variable, 0) + power
    return tuple(sorted(powers.items()))


def _moment(m: Monomial) -> float:
    found = 1
    for _, power in m:
        if power % 2:
            return 0.0
        found *= math.prod(range(power - 1, 0, -2))
    return float(found)


class Polynomials:
    """The algebra of polynomials: what `Arrays` is for arrays."""

    n = math.inf

    def __init__(self) -> None:
        self._variables = 0

    def fresh(self) -> Polynomial:
        """A new Gaussian variable."""
        self._variables += 1
        return Polynomial({((self._variables, 1),): 1.0})

    def spread(self, scalar: Any) -> Any:
        """A number."""
        return scalar

    def mean(self, vector: Polynomial) -> float:
        """The expectation."""
        return vector.mean()

    def gaussians(self, covariance: np.ndarray, ratio: float | int) -> list[Polynomial]:
        """Jointly Gaussian variables."""
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        drawn = [self.fresh() for _ in covariance]
        zero = Polynomial({})
        return [sum((float(c) * g for c, g in zip(row, drawn, strict=True)), zero) for row in root]

    def matrix(
        self, ratios: tuple[float | int, float | int], sigma: float | int, transposed: bool
    ) -> ExactProduct:
        """A Gaussian matrix."""
        return ExactProduct(self, ratios[0] / ratios[1], sigma)

    def apply(self, phi: Any, order: int, arguments: list[Any]) -> Polynomial:
        """A polynomial nonlinearity."""
        if callable(phi) and not isinstance(phi, Activation):
            try:
                found = phi(*arguments)
            except TypeError as error:
                raise ValueError(
                    _not_a_polynomial(getattr(phi, "__name__", "a function"))
                ) from error
            return found if isinstance(found, Polynomial) else Polynomial(_terms(found))
        known = activation(phi)
        coefficients = _coefficients(known)
        if coefficients is None:
            raise ValueError(_not_a_polynomial(known.name))
        found = Polynomial({})
        for power, c in enumerate(coefficients[order:]):
            if c:
                found = found + arguments[0] ** power * (c * math.perm(power + order, order))
        return found


def _coefficients(sigma: Activation) -> list[float] | None:
    """Coefficients of the polynomial that the activation is, read off its values; ``None`` if it is none."""
    if sigma.family == "monomial" and sigma.parameter is not None:
        return [0.0] * int(sigma.parameter) + [1.0]
    if sigma.taylor is None:
        return None
    found = [c / math.factorial(p) for p, c in enumerate(sigma.taylor)]
    z = np.linspace(-30.0, 30.0, 61) + 0.0123
    values = np.polynomial.polynomial.polyval(z, found)
    with np.errstate(over="ignore"):
        same = np.allclose(sigma(z), values, rtol=1e-12, atol=0)
    return found if same else None


def _not_a_polynomial(what: str) -> str:
    return (
        f"The exact backend runs polynomial programs only, and {what} is none. Run the program on "
        "Lazy(width), or with Printed(samples)."
    )


class ExactProduct:
    r"""A Gaussian matrix revealed one orthonormal direction at a time: $We=\sum_jf_j\langle W^\top f_j,e\rangle+g$.

    `rho` is the width of the output space over that of the input space, `sigma` the standard deviation of $g$.

    Source: Yang & Hu, *Tensor Programs IV*, (33) and (40) in orthonormal directions (derived).
    """

    def __init__(self, algebra: Polynomials, rho: float | int, sigma: float | int) -> None:
        self.algebra, self.rho, self.sigma = algebra, rho, sigma
        self._in: list[tuple[Polynomial, Polynomial]] = []  # e and W e
        self._out: list[tuple[Polynomial, Polynomial]] = []  # f and W^T f

    def times(self, x: Polynomial) -> Polynomial:
        """$Z^{Wx}$."""
        return self._look(x, self._in, self._out, 1 / self.rho, self.sigma)

    def transposed_times(self, y: Polynomial) -> Polynomial:
        r"""$Z^{W^\top y}$."""
        return self._look(y, self._out, self._in, self.rho, self.sigma * math.sqrt(self.rho))

    def _look(
        self, x: Polynomial, near: list, far: list, rho: float | int, sigma: float | int
    ) -> Polynomial:
        size = x.inner(x)
        found, rest = Polynomial({}), x
        for _ in range(2):  # the second pass removes what rounding left of the first
            for e, image in near:
                c = rest.inner(e)
                rest = rest - c * e
                found = found + c * image
        left = rest.inner(rest)
        if left > _TINY * size:
            e = (1 / math.sqrt(left)) * rest
            image = sigma * self.algebra.fresh()
            for f, back in far:
                image = image + rho * back.inner(e) * f
            near.append((e, image))
            found = found + math.sqrt(left) * image
        return found
