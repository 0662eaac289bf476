"""Numbers that a network has for every layer: read, checked, and repeated where there are more layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from scalewise._checked import Count, Must


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


# One number for all layers, or one for each.
Widths = Annotated[
    Count | Repeated | Sequence[Count],
    Must("a whole number of at least 1, or one for each hidden layer"),
]
NotNegatives = Annotated[
    float | int | Repeated | Sequence[float | int],
    Must(
        "a finite number of at least 0, or one for each layer",
        lambda given: all(0 <= v < math.inf for v in _each(given)),
    ),
]
Positives = Annotated[
    float | int | Repeated | Sequence[float | int],
    Must(
        "a positive finite number, or one for each layer",
        lambda given: all(0 < v < math.inf for v in _each(given)),
    ),
]


def _each(given: Any) -> Sequence[float | int]:
    rule = given.rule if isinstance(given, Repeated) else given
    return rule if isinstance(rule, Sequence) else (rule,)


def per_layer(name: str, given: Any, count: int, *, what: str = "layers") -> tuple[Any, ...]:
    """A number for each of `count` layers, from one for all, one for each, or a rule.

    Raises:
        ValueError: If there are more or fewer; the message calls the argument `name`.
    """
    if isinstance(given, Repeated):
        return Repeated.over(count, *given.rule)
    if not isinstance(given, Sequence):
        return one_for_all(count, given)
    if len(given) != count:
        raise ValueError(
            f"`{name}` must be one number for all, or one for each of the {count} {what}; got {len(given)} values."
        )
    return tuple(given)
