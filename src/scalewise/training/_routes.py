"""What a call computes, and by which route the coefficients of 1/n are found: the first of those that can."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from scalewise._words import refuse_name
from scalewise.training._asked import Asked, Found, Route
from scalewise.training._outcomes import LARGE, OUTCOMES, Outcome
from scalewise.training.posterior._route import NEURONS
from scalewise.training.tiles._route import TILES
from scalewise.training.width._course import OutOfRoom
from scalewise.training.width._dense import DENSE

__all__ = [
    "ROUTES",
    "Choice",
    "ExpansionWarning",
    "beyond",
    "chosen",
    "refuse_outcome",
    "without_warning",
]

ROUTES: tuple[Route, ...] = (DENSE, NEURONS, TILES)  # further reaching ones behind
_EXACT_FIRST: tuple[Route, ...] = (TILES, DENSE, NEURONS)
_FEW = 8  # training samples up to which sampled expectations leave little open, and whole tensors are quick


class ExpansionWarning(UserWarning):
    """Coefficients of 1/n are given where the expansion hardly reaches."""


@contextmanager
def without_warning() -> Iterator[None]:
    """Where whoever asks tells the small parameter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExpansionWarning)
        yield


@dataclass(frozen=True)
class Choice:
    """What a call computes.

    Args:
        names: Outcomes of leading order.
        by_route: Names of coefficients of 1/n, by the name of the route that finds them.
        left_out: Of what could have been wanted the clause that says why it cannot be had.
        named: Whether every one of these outcomes was named.
    """

    names: tuple[str, ...]
    by_route: dict[str, tuple[str, ...]]
    left_out: dict[str, str]
    named: bool


def chosen(names: Sequence[str] | str | None, asked: Asked) -> Choice:
    """What a call computes, and of the rest why not.

    Args:
        names: Names of outcomes; ``None`` for all of leading order, ``"all"`` for all.
        asked: The call.

    Raises:
        ValueError: If a name does not exist, or what is named cannot be had.
    """
    wanted = _wanted(names)
    ways = {name: _way(OUTCOMES[name], asked) for name in wanted}
    named = names is not None and names != "all"
    if named:
        for name, (_, why) in ways.items():
            if why:
                refuse_outcome(name, why)
    had = {name: route for name, (route, why) in ways.items() if not why}
    by_route = {
        route.name: tuple(name for name, its in had.items() if its is route) for route in ROUTES
    }
    return Choice(
        tuple(name for name, route in had.items() if route is None),
        {route: found for route, found in by_route.items() if found},
        {name: why for name, (_, why) in ways.items() if why},
        named,
    )


def refuse_outcome(name: str, why: str) -> NoReturn:
    """Refuse what was named.

    Args:
        name: Of an outcome.
        why: A clause.
    """
    raise ValueError(f"`observables` cannot hold {name!r} here, because {why}.")


def beyond(asked: Asked, choice: Choice) -> Found:
    """The coefficients of 1/n that a call computes, of all routes together.

    What only then turns out to be out of reach is refused where it was named, and left out of all.

    Raises:
        ValueError: If what is named is out of reach.
    """
    values, errors, coords = {}, {}, {}
    attributes: dict[str, Any] = {}
    served: list[str] = []
    for route in ROUTES:
        if names := choice.by_route.get(route.name):
            try:
                found = route.compute(asked, names)
            except OutOfRoom as refused:
                if choice.named:
                    refuse_outcome(names[0], refused.why)
                choice.left_out.update(dict.fromkeys(names, refused.why))
                continue
            served.append(route.name)
            values |= {name: found.values[name] for name in names}
            errors |= {name: found.errors[name] for name in names if name in found.errors}
            coords |= found.coords
            attributes |= found.attributes
    if served:
        attributes["route"] = ", ".join(served)
        _warn(asked, float(attributes.get("learning_parameter", 0.0)))
    return Found(values, errors, coords, attributes)


def _warn(asked: Asked, parameter: float) -> None:
    n = asked.net.hidden_widths[-1]
    if parameter > LARGE * n:
        warnings.warn(
            f"Training magnifies fluctuations of the NTK: the small parameter of this expansion is "
            f"{parameter / n:.2g} at width {n}, and order 1/n decides nothing beyond {LARGE:g}. Take a width of "
            f"at least {math.ceil(parameter / LARGE)}, stop training early, or give a `ridge`.",
            ExpansionWarning,
            stacklevel=4,
        )


def _wanted(names: Sequence[str] | str | None) -> list[str]:
    """In the order of the table."""
    if names is None:
        return [name for name, row in OUTCOMES.items() if not row.order]
    if names == "all":
        return list(OUTCOMES)
    named = (names,) if isinstance(names, str) else tuple(names)
    for name in named:
        if name not in OUTCOMES:
            refuse_name("observables", name, OUTCOMES, "'all'")
    return [name for name in OUTCOMES if name in named]


def _way(row: Outcome, asked: Asked) -> tuple[Route | None, str]:
    """The route to an outcome, none for the leading order, and why it cannot be had if it cannot."""
    why = row.obstacle(asked)
    if why or not row.order:
        return None, why
    whys = {
        route.name: route.obstacle(asked, row.name)
        for route in ROUTES
        if row.name in route.outcomes and isinstance(asked.algorithm, route.algorithms)
    }
    for route in ROUTES if len(asked.task.inputs) <= _FEW else _EXACT_FIRST:
        if whys.get(route.name) == "":
            return route, ""
    why = next(reversed(whys.values()), "")
    return None, why or f"no coefficient of 1/n of it is known for {type(asked.algorithm).__name__}"
