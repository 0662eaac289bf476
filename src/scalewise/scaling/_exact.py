"""Exponents as exact fractions, and what is asked of them before anything is made of them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

__all__ = ["depth_of_layers", "exponents", "fraction", "same_length"]


def fraction(name: str, value: Any) -> Fraction:
    """An exponent as an exact fraction: a whole number, a `Fraction`, text, or a decimal.

    Args:
        name: What the exponent is called in a message.
        value: 1, ``"1/4"``, ``Fraction(1, 4)`` or 0.25; a float is read as its shortest decimal.

    Raises:
        ValueError: If it is not a finite number.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        if isinstance(value, Rational | str):
            return Fraction(value)
        if isinstance(value, Real):
            return Fraction(repr(float(value)))
    except (TypeError, ValueError, ZeroDivisionError):
        pass
    raise ValueError(
        f"`{name}` is an exponent and must be a finite number or a fraction such as '1/4'; "
        f"got {value!r}."
    )


def exponents(name: str, values: Any) -> tuple[Fraction, ...]:
    """One exact exponent for each layer, two layers or more."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"`{name}` needs one exponent per layer, as a sequence; got {values!r}.")
    out = tuple(fraction(f"{name}_{i}", v) for i, v in enumerate(values, 1))
    if len(out) < 2:
        raise ValueError(
            f"`{name}` needs one exponent for each layer of a network of depth 2 or more; got "
            f"{len(out)}. Without a hidden layer there is no width to scale with."
        )
    return out


def same_length(one: str, first: tuple[Any, ...], other: str, second: tuple[Any, ...]) -> None:
    """Refuse two rows of exponents that are not for the same number of layers."""
    if len(first) != len(second):
        raise ValueError(
            f"`{one}` and `{other}` must have one exponent for each layer; got {len(first)} and "
            f"{len(second)}. Give both the depth of the network."
        )


def depth_of_layers(depth: Any) -> int:
    """`depth` if it is one that a strategy can be for."""
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 2:
        raise ValueError(
            f"`depth` counts weight layers and must be a whole number of at least 2, since a strategy "
            f"scales with the width of hidden layers; got {depth!r}."
        )
    return depth
