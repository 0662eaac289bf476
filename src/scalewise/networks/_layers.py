"""Numbers that a network has for every layer: read, checked, and repeated where there are more layers."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

from scalewise._arrays import real_array

__all__ = ["PerLayer", "Repeated", "hidden_widths", "one_for_all", "per_layer", "size"]

# One number, or one for each layer, in any form that `scalewise._arrays` reads.
PerLayer = Any


class Repeated(tuple):
    """Numbers of the layers by a rule: `dataclasses.replace` with another depth follows it for the new layers.

    Its attribute `rule` holds three numbers: of the first layer, of each between, and of the last.
    """

    rule: tuple[Any, Any, Any]

    @staticmethod
    def over(count: int, first: Any, between: Any, last: Any) -> Repeated:
        """The numbers of `count` layers; a single layer is the first."""
        numbers = (first, *(between,) * (count - 2), last)[:count]
        made = Repeated(numbers)
        made.rule = (first, between, last)
        return made

    @staticmethod
    def by(
        function: Callable[[float], float], values: tuple[float | int, ...]
    ) -> Repeated | tuple[float, ...]:
        """A function of the number of each layer, by a rule if the numbers have one."""
        if isinstance(values, Repeated):
            return Repeated.over(len(values), *map(function, values.rule))
        return tuple(map(function, values))


def one_for_all(count: int, value: Any) -> Repeated:
    """The same number in each of `count` layers."""
    return Repeated.over(count, value, value, value)


def size(name: str, value: Any, meaning: str) -> int:
    """A number of neurons or layers, checked."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(
            f"`{name}` {meaning} and must be a whole number of at least 1; got {value!r}."
        )
    return int(value)


def hidden_widths(name: str, width: Any, depth: int) -> tuple[int, ...]:
    """The width of each of `depth` - 1 hidden layers, from one for all or one for each."""
    meaning = "is a number of neurons"
    if hasattr(width, "__array__"):
        width = real_array(f"`{name}`", width).tolist()
    if isinstance(width, Repeated):
        width = width.rule[0]
    if not isinstance(width, Sequence) or isinstance(width, str):
        return one_for_all(depth - 1, size(name, width, meaning))
    if len(width) != depth - 1:
        raise ValueError(
            f"`{name}` needs one width for each of the {depth - 1} hidden layers of a network "
            f"of depth {depth}; got {len(width)}. Give {depth - 1}, or one number for all."
        )
    return tuple(size(name, n, meaning) for n in width)


def per_layer(name: str, value: Any, depth: int, *, positive: bool = False) -> tuple[float, ...]:
    """A variance or rate of each of `depth` layers, from one for all or one for each."""
    if isinstance(value, Repeated):
        given = Repeated.over(depth, *value.rule)
        one = len(set(value.rule)) == 1
    else:
        array = real_array(f"`{name}`", value)
        one = array.ndim == 0
        given = one_for_all(depth, array.item()) if one else tuple(array.ravel().tolist())
        if array.ndim > 1 or len(given) != depth:
            raise ValueError(
                f"`{name}` needs one number for each of the {depth} layers; got {len(given)}. "
                f"Give {depth}, or one number for all."
            )
    rule = "positive and finite" if positive else "finite and at least 0"
    for layer, v in enumerate(given, 1):
        if not math.isfinite(v) or v < 0 or (positive and v == 0):
            place = "" if one else f" in layer {layer}"
            raise ValueError(f"`{name}` must be {rule}; got {v!r}{place}.")
    return Repeated.by(float, given)
