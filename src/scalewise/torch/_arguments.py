"""What the user gives to `plan`, checked for its type before anything is built."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from scalewise.plan import PlanError
from scalewise.scaling import ABC, Strategy

__all__ = ["as_strategy", "lists_of_names", "of_right_types"]


def of_right_types(build: Any, base: Any, target: Any, roles: Any) -> None:
    """Refuse what no factory, no sizes and no roles can be, with a sentence for each."""
    if not callable(build):
        raise PlanError(
            f"`build` must be a function that returns a new model, such as lambda width: MyModel(width); got "
            f"{build!r}."
        )
    for which, sizes in (("base", base), ("target", target)):
        if not isinstance(sizes, Mapping):
            raise PlanError(
                f'`{which}` must be a dictionary of what the factory is called with, such as {{"width": 64}}; got '
                f"{sizes!r}."
            )
    if roles is not None and not isinstance(roles, Mapping):
        raise PlanError(
            f'`roles` must be a dictionary of patterns and roles, such as {{"head.weight": "output"}}; got '
            f"{roles!r}."
        )


def lists_of_names(**given: Any) -> None:
    """Refuse a text where a list of names is meant: its letters are no names."""
    for key, value in given.items():
        if isinstance(value, str) or not isinstance(value, Collection):
            raise PlanError(f"`{key}` must be a list of names; got {value!r}.")


def as_strategy(given: Any) -> Strategy:
    """A strategy, of one or of exponents a, b and c."""
    if isinstance(given, ABC):
        return given.to_strategy()
    if not isinstance(given, Strategy):
        raise PlanError(
            f"`strategy` must be a strategy of scalewise.scaling, such as mup() or meta(s=1); got {given!r}."
        )
    return given
