"""Exponents as exact fractions, and what is asked of them before anything is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from numbers import Rational, Real
from typing import Annotated, Any

from scalewise._checked import Must


def fraction(value: Any) -> Fraction:
    """An exponent as an exact fraction: a whole number, a `Fraction`, text, or the shortest decimal of a float.

    Raises:
        TypeError: If it is not a finite number.
    """
    try:
        if isinstance(value, Rational | str) and not isinstance(value, bool):
            return Fraction(value)
        if isinstance(value, Real) and not isinstance(value, bool):
            return Fraction(repr(float(value)))
    except (ValueError, ZeroDivisionError):
        pass
    raise TypeError(f"{value!r} is not a finite number or a fraction")


EXPONENT = Must("a finite number or a fraction such as '1/4'", to=fraction)
Exponent = Annotated[Any, EXPONENT]
Exponents = Iterable[Exponent]
Depth = Annotated[
    int, Must("a whole number of at least 2, counting the layers of weights", lambda L: L >= 2)
]


def check_rows(**rows: Iterable[Fraction]) -> tuple[tuple[Fraction, ...], ...]:
    """Rows of exponents, refused unless there is one for each of two layers or more, in all of them."""
    found = tuple(map(tuple, rows.values()))
    names, lengths = " and ".join(f"`{name}`" for name in rows), [len(row) for row in found]
    if min(lengths) < 2 or len(set(lengths)) > 1:
        raise ValueError(
            f"{names} must have one exponent for each layer of a network of depth 2 or more; got "
            f"{' and '.join(map(str, lengths))}. Give both the depth of the network."
        )
    return found
