"""What a call computes, and by which route the coefficients of 1/n are found: the first of those that can."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from scalewise.training._asked import Arrays, Asked, Found, Route
from scalewise.training._outcomes import LARGE, OUTCOMES, Outcome
from scalewise.training._selection import refuse_outcome, selected
from scalewise.training.kinks._route import KINKS
from scalewise.training.posterior._metric import METRIC
from scalewise.training.posterior._route import NEURONS
from scalewise.training.tiles._route import TILES
from scalewise.training.width._course import OutOfRoom
from scalewise.training.width._dense import DENSE
from scalewise.training.width._tensors import has_accuracies

ROUTES: tuple[Route, ...] = (KINKS, DENSE, NEURONS, METRIC, TILES)  # further reaching ones behind
_EXACT_FIRST: tuple[Route, ...] = (KINKS, TILES, DENSE, NEURONS, METRIC)
VARIANCES = frozenset({"variance", "train_variance"})
_ROUNDING = 1e-9  # of a coefficient
_FEW = 8  # training samples up to which sampled expectations leave little open, and whole tensors are quick
_DEAR = (
    "whole tensors of more than {} training samples give it, at several times the price of the tiles that give the "
    "rest; name it to have it"
)


class ExpansionWarning(UserWarning):
    """Coefficients of 1/n are given where the expansion hardly reaches."""


class AccuracyWarning(UserWarning):
    """Coefficients of 1/n are known less well than was asked."""


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
        names: Names of outcomes; ``None`` for all of leading order, ``"all"`` for all but those that would take
            whole tensors beside tiles.
        asked: The call.

    Raises:
        ValueError: If a name does not exist, or what is named cannot be had.
    """
    routes: dict[str, Route | None] = {}
    tiled = names == "all" and _way(OUTCOMES["learning_parameter"], asked)[0] is TILES

    def why(name: str) -> str:
        routes[name], clause = _way(OUTCOMES[name], asked)
        if tiled and routes[name] is DENSE:
            return _DEAR.format(_FEW)
        return clause

    default = [name for name, row in OUTCOMES.items() if not row.order]
    found, left_out, named = selected(names, OUTCOMES, why, default=default)
    had = {name: routes[name] for name in found}
    by_route = {
        route.name: tuple(name for name, its in had.items() if its is route) for route in ROUTES
    }
    return Choice(
        tuple(name for name, route in had.items() if route is None),
        {route: found for route, found in by_route.items() if found},
        left_out,
        named,
    )


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
        attributes["accuracy"] = _reached(asked, values, errors)
        _warn(asked, float(attributes.get("learning_parameter", 0.0)))
    return Found(values, errors, coords, attributes)


def _reached(asked: Asked, values: Arrays, errors: Arrays) -> float:
    """The largest error of an outcome, relative, root mean squares."""
    shares = {}
    for name, error in errors.items():
        unit = np.max(np.abs(values[name]), initial=0.0)
        if unit:
            stated, size = (np.sqrt(np.mean((x / unit) ** 2)) for x in (error, values[name]))
            shares[name] = float(stated / size)
    worst = max(shares, key=lambda name: shares[name], default="")
    found = shares.get(worst, 0.0)
    if asked.accuracy is not None and found > asked.accuracy:
        warnings.warn(
            f"{worst!r} is known to {found:.2g} of its size, and `accuracy` asks for {asked.accuracy:g}: "
            f"{_why_not(asked)}. Its errors are in '{worst}_error'.",
            AccuracyWarning,
            stacklevel=4,
        )
    return found


def _why_not(asked: Asked) -> str:
    """What stands in the way of an accuracy, a clause."""
    if not all(sigma.is_smooth for sigma in asked.net.activations):
        return "expectations of an activation with a kink are sampled"
    if not asked.algorithm.trains_hidden:
        return "neurons are sampled"
    if not has_accuracies(asked.net, asked.task.inputs):
        return "some of its expectations are sampled"
    return "neighbouring inputs, or weights as large as these, take a finer one than there is"


def _warn(asked: Asked, parameter: float) -> None:
    n = asked.width
    if parameter > LARGE * n:
        warnings.warn(
            f"Training magnifies fluctuations of the NTK: the small parameter of this expansion is "
            f"{parameter / n:.2g} at width {n:g}, and order 1/n decides nothing beyond {LARGE:g}. Take a width of "
            f"at least {math.ceil(parameter / LARGE)}, stop training early, or give a `ridge`.",
            ExpansionWarning,
            stacklevel=4,
        )


def warn_of_signs(
    leading: xr.Variable,
    coefficient: xr.Variable,
    error: xr.Variable | float,
    n: float,
    power: float = 1.0,
) -> None:
    """Where a variance and its coefficient of 1/n add up to less than 0.

    Args:
        leading: At infinite width.
        coefficient: Of the power of 1/n.
        error: Of the coefficient.
        n: The width.
        power: 1, or 1/2.
    """
    beside, own, scale = _over(leading, coefficient.dims), coefficient.values, n**power
    added = own + (_over(error, coefficient.dims) if isinstance(error, xr.Variable) else error)
    below = beside + added / scale < -_ROUNDING * float(np.abs(own).max(initial=0.0)) / scale
    if below.any():
        known = below & (beside > 0)
        shares = -own[known] / np.broadcast_to(beside, own.shape)[known]
        needed = float(np.max(shares, initial=0.0)) ** (1 / power)
        further = (
            f"Take a width of at least {math.ceil(needed)}, or another"
            if needed
            else "Take another"
        )
        order = "1/n" if power == 1 else f"n^-{power:g}"
        warnings.warn(
            f"{int(below.sum())} of {below.size} variances are negative at width {n:g} to order {order}: "
            f"what is left at infinite width is less than what a finite width changes. {further} time to stop at.",
            ExpansionWarning,
            stacklevel=5,
        )


def _over(values: xr.Variable, dims: tuple[Hashable, ...]) -> np.ndarray:
    """Numbers as they meet others over these `dims`, among which are all of their own."""
    order = [values.dims.index(dim) for dim in dims if dim in values.dims]
    place = tuple(slice(None) if dim in values.dims else None for dim in dims)
    return values.values.transpose(order)[place]


def _way(row: Outcome, asked: Asked) -> tuple[Route | None, str]:
    """The route to an outcome, none for the leading order, and why it cannot be had if it cannot."""
    why = row.obstacle(asked)
    if why or not row.order:
        return None, why
    whys = {
        route.name: route.obstacle(asked, row.name)
        for route in ROUTES
        if row.name in route.outcomes and route.knows(asked.algorithm)
    }
    for route in ROUTES if len(asked.task.inputs) <= _FEW else _EXACT_FIRST:
        if whys.get(route.name) == "":
            return route, ""
    why = next(reversed(whys.values()), "")
    return None, why or f"no coefficient of 1/n of it is known for {type(asked.algorithm).__name__}"
