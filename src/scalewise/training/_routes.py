"""The outcomes of a call, the routes that find their coefficients of 1/n, and what all routes share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scalewise.training._asked import Asked
from scalewise.training._cholesky import Factored, factored
from scalewise.training._expansion import reached, warn_of_size
from scalewise.training._kernels import SampleKernels
from scalewise.training._one_network import GivenWeights
from scalewise.training._outcomes import OUTCOMES, Outcome
from scalewise.training._route import Route, RouteResult
from scalewise.training._selection import is_named, refuse_outcome, selected
from scalewise.training._task import check_targets
from scalewise.training.kinks._route import KINKS
from scalewise.training.posterior._metric import METRIC
from scalewise.training.posterior._route import NEURONS
from scalewise.training.tiles._route import TILES
from scalewise.training.width._course import OutOfRoom
from scalewise.training.width._dense import DENSE

ROUTES: tuple[Route, ...] = (KINKS, DENSE, NEURONS, METRIC, TILES)  # further reaching ones behind
_EXACT_FIRST: tuple[Route, ...] = (KINKS, TILES, DENSE, NEURONS, METRIC)
_FEW = 8  # training samples up to which sampled expectations leave little open, and whole tensors are quick
_DEAR = (
    "whole tensors of more than {} training samples give it, at several times the price of the tiles that give the "
    "rest; name it to have it"
)


@dataclass(frozen=True)
class Choice:
    """The outcomes that a call computes.

    Args:
        names: Outcomes of leading order.
        by_route: Names of coefficients of 1/n, by the name of the route that finds them.
        left_out: Of what could have been wanted the clause that says why it cannot be had.
    """

    names: tuple[str, ...]
    by_route: dict[str, tuple[str, ...]]
    left_out: dict[str, str]


@dataclass(frozen=True, eq=False)
class Prediction:
    """One prediction of training by squared errors or others: its request, and what is made of it once.

    Args:
        asked: The request.
        observables: Names of what is wanted; ``None`` for all of leading order, ``"all"`` for all.
        lenient: Leave out what is named and cannot be had, as of ``"all"``, and do not refuse it.
        weights: Of one given network.
        draws: How many networks are drawn where there is no closed form.
        seed: Of these draws.
    """

    asked: Asked
    observables: Sequence[str] | str | None = None
    lenient: bool = False
    weights: GivenWeights | None = None
    draws: int = 512
    seed: int = 0

    @property
    def refuses(self) -> bool:
        """True if an outcome that cannot be had is refused."""
        return is_named(self.observables) and not self.lenient

    @cached_property
    def choice(self) -> Choice:
        """The outcomes of squared errors that are computed, and their routes.

        Raises:
            ValueError: If training ends only where two equal inputs have different targets, a name does not exist,
                what is named cannot be had, or an accuracy is asked for and nothing has one.
        """
        check_targets(self.asked)
        found = chosen(self.observables, self.asked, lenient=self.lenient)
        if self.asked.accuracy is not None and not found.by_route:
            raise ValueError(
                "`accuracy` is that of coefficients of 1/n, and none is computed; name some in `observables`, or "
                "leave `accuracy` out."
            )
        return found

    @cached_property
    def kernels(self) -> SampleKernels:
        """Kernels of the samples, as the leading order and all routes of the choice take them together."""
        asked, by_route = self.asked, self.choice.by_route
        routes = [route for route in ROUTES if route.name in by_route]
        sizes = [max(route.tests(asked, by_route[route.name]), 1) for route in routes]
        if "output_covariance" in self.choice.names:
            sizes.append(max(len(asked.tests), 1))
        kinds = tuple(kind for route in routes for kind in route.kinds)
        return SampleKernels(asked, kinds, deep=bool(routes), size=max(sizes, default=0))

    @cached_property
    def factor(self) -> Factored | None:
        """The factorisation of the kernel that learns, with noise; None if a pivot is as small as rounding."""
        learns = self.kernels.on_samples[0]
        return factored(learns, self.asked.task.targets, self.asked.algorithm.noise_variance)


def chosen(names: Sequence[str] | str | None, asked: Asked, *, lenient: bool = False) -> Choice:
    """The outcomes that a call computes, with a reason for each that it leaves out.

    Args:
        names: Names of outcomes; ``None`` for all of leading order, ``"all"`` for all but those that would take
            whole tensors beside tiles.
        asked: The request.
        lenient: Leave out what is named and cannot be had.

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
    found, left_out = selected(names, OUTCOMES, why, default=default, lenient=lenient)
    by_route = {
        route.name: tuple(name for name in found if routes[name] is route) for route in ROUTES
    }
    return Choice(
        tuple(name for name in found if routes[name] is None),
        {route: served for route, served in by_route.items() if served},
        left_out,
    )


def beyond(call: Prediction) -> tuple[RouteResult, dict[str, str]]:
    """The coefficients of 1/n that a call computes, of all routes together, and why some are left out after all.

    An outcome that only the kernels show to be out of reach is refused where it was named, and left out of all.

    Raises:
        ValueError: If what is named is out of reach.
    """
    values, errors, coords = {}, {}, {}
    attributes: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    served: list[str] = []
    for route in ROUTES:
        if names := call.choice.by_route.get(route.name):
            try:
                found = route.run(call.kernels, names)
            except OutOfRoom as refused:
                if call.refuses:
                    refuse_outcome(names[0], refused.why)
                left_out.update(dict.fromkeys(names, refused.why))
                continue
            served.append(route.name)
            values |= {name: found.values[name] for name in names}
            errors |= {name: found.errors[name] for name in names if name in found.errors}
            coords |= found.coords
            attributes |= found.attributes
    if served:
        attributes["route"] = ", ".join(served)
        attributes["accuracy"] = reached(call.asked, values, errors)
        warn_of_size(call.asked, float(attributes.get("learning_parameter", 0.0)))
    return RouteResult(values, errors, coords, attributes), left_out


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
