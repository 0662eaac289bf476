r"""Arrays that are power series, $a^{(0)}+\tau a^{(1)}+\tau^2a^{(2)}+\dots$, for code that was written for arrays.

A product of two has the terms $\sum_{i+j=k}a^{(i)}b^{(j)}$, a linear function acts on each term, and with
$\delta=\tau z^{(1)}+\tau^2z^{(2)}+\dots$

$$\sigma(z+\delta)=\sigma+\tau\,\sigma'z^{(1)}+\tau^2\big(\sigma'z^{(2)}+\tfrac12\sigma''(z^{(1)})^2\big)
  +\tau^3\big(\sigma'z^{(3)}+\sigma''z^{(1)}z^{(2)}+\tfrac16\sigma'''(z^{(1)})^3\big)+\dots$$
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from scalewise.activations import Activation


class Series(NDArrayOperatorsMixin):
    """A series of arrays of one shape, to which NumPy's functions apply.

    Args:
        terms: From order 0.
    """

    def __init__(self, terms: Sequence[np.ndarray]) -> None:
        self.terms = list(terms)

    def __len__(self) -> int:
        return len(self.terms[0])

    def __getitem__(self, key: Any) -> Series:
        return self._each(lambda term: term[key])

    def __getattr__(self, name: str) -> Any:
        """Methods that are linear, and what all terms have in common."""
        if name in ("reshape", "swapaxes", "transpose", "sum", "mean", "astype"):
            return lambda *args, **named: self._each(lambda t: getattr(t, name)(*args, **named))
        if name in ("shape", "ndim", "dtype", "size"):
            return getattr(self.terms[0], name)
        raise AttributeError(name)

    def max(self, **named: Any) -> np.ndarray:
        """The largest entry of order 0, to be subtracted before an exponential."""
        return self.terms[0].max(**named)

    def _each(self, function: Callable[[np.ndarray], np.ndarray]) -> Series:
        return Series([function(term) for term in self.terms])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any) -> Series:
        if ufunc in (np.add, np.subtract):
            a, b = _as_terms(inputs)
            return Series([ufunc(s, t) for s, t in zip(a, b, strict=True)])
        if ufunc in (np.multiply, np.matmul):
            return _product(ufunc, inputs)
        if ufunc in _FUNCTIONS and method == "__call__":
            return Series(_FUNCTIONS[ufunc](*_as_terms(inputs)))
        return NotImplemented

    def __array_function__(self, function: Any, types: Any, args: Any, named: Any) -> Series:
        if function is np.einsum:
            return _product(lambda *arrays: np.einsum(args[0], *arrays, optimize=True), args[1:])
        if function is np.tensordot:
            return _product(lambda a, b: np.tensordot(a, b, *args[2:], **named), args[:2])
        if function is np.concatenate:
            return Series(
                [
                    np.concatenate(k, *args[1:], **named)
                    for k in zip(*_as_terms(args[0]), strict=True)
                ]
            )
        if function is np.where:
            a, b = _as_terms(args[1:])
            return Series([np.where(args[0], s, t) for s, t in zip(a, b, strict=True)])
        return args[0]._each(lambda term: function(term, *args[1:], **named))


def _as_terms(inputs: Sequence[Any]) -> list[list[Any]]:
    """Terms of each; of what is no series there is order 0 alone."""
    count = max(len(a.terms) for a in inputs if isinstance(a, Series))
    return [
        a.terms if isinstance(a, Series) else [a, *(np.zeros_like(a),) * (count - 1)]
        for a in inputs
    ]


def _product(times: Callable[..., Any], factors: Sequence[Any]) -> Series:
    """The product of series, by whatever `times` is linear in each of them."""
    several = [k for k, a in enumerate(factors) if isinstance(a, Series)]
    terms: list[Any] = [None] * len(factors[several[0]].terms)
    for orders in itertools.product(range(len(terms)), repeat=len(several)):
        if sum(orders) < len(terms):
            chosen = list(factors)
            for place, order in zip(several, orders, strict=True):
                chosen[place] = factors[place].terms[order]
            found, before = times(*chosen), terms[sum(orders)]
            terms[sum(orders)] = found if before is None else before + found
    return Series(terms)


def _quotient(a: list[Any], b: list[Any]) -> list[Any]:
    found: list[Any] = []
    for k, own in enumerate(a):
        found.append((own - sum(b[i] * found[k - i] for i in range(1, k + 1))) / b[0])
    return found


def _exponential(a: list[Any]) -> list[Any]:
    found = [np.exp(a[0])]
    for k in range(1, len(a)):
        found.append(sum(i / k * a[i] * found[k - i] for i in range(1, k + 1)))
    return found


def _root(a: list[Any]) -> list[Any]:
    found = [np.sqrt(a[0])]
    for k in range(1, len(a)):
        found.append((a[k] - sum(found[i] * found[k - i] for i in range(1, k))) / (2 * found[0]))
    return found


_FUNCTIONS: dict[Any, Callable[..., list[Any]]] = {
    np.divide: _quotient,
    np.exp: _exponential,
    np.sqrt: _root,
}


def derivative(sigma: Activation, order: int) -> Callable[[Any], Any]:
    """A derivative of an activation as a function of arrays, and of series up to its third derivative."""

    def along(z: Any) -> Any:
        if not isinstance(z, Series):
            return sigma.derivative(z, order)
        z0, *rest = z.terms
        own, *slopes = (sigma.derivative(z0, order + k) for k in range(len(z.terms)))
        found = [own]
        if rest:
            found.append(slopes[0] * rest[0])
        if len(rest) > 1:
            found.append(slopes[0] * rest[1] + slopes[1] * rest[0] ** 2 / 2)
        if len(rest) > 2:
            cubed = slopes[1] * rest[0] * rest[1] + slopes[2] * rest[0] ** 3 / 6
            found.append(slopes[0] * rest[2] + cubed)
        return Series(found)

    return along
