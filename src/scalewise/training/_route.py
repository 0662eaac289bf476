"""One way to coefficients of 1/n, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scalewise.training._algorithm import Algorithm
from scalewise.training._asked import Arrays, Asked
from scalewise.training._kernels import SampleKernels


@dataclass(frozen=True)
class RouteResult:
    """Outcomes that a route has found: coefficients of 1/n, n the width of the last hidden layer.

    Args:
        values: By the names of outcomes, with the dimensions of their rows; in front a time axis for outcomes that
            change in time, if times were asked for.
        errors: Numerical errors of what was sampled, of the same shapes; an outcome without one is exact.
        coords: Coordinates of dimensions, as ``part`` has.
        attributes: Of the Dataset; ``route`` is set to the name of the route. A ``learning_parameter`` among them,
            the largest that was met, is held against the width.
    """

    values: Arrays
    errors: Arrays = field(default_factory=dict)
    coords: dict[str, Sequence[str] | Sequence[int]] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)


def all_tests(asked: Asked, names: Sequence[str]) -> int:
    """All tests, in one square with the training samples."""
    return len(asked.tests)


@dataclass(frozen=True)
class Route:
    """One way to the coefficients of 1/n.

    Args:
        name: What results call it.
        knows: Whether it is a way for this algorithm; what it then still lacks, `obstacle` says.
        outcomes: Names of the outcomes that it gives.
        obstacle: A clause that says why it cannot serve a call that wants one of them; empty if it can.
        run: The numbers, for the names that are wanted, from the kernels of the call.
        kinds: The kernels that it takes.
        tests: How many tests it looks at together.
    """

    name: str
    knows: Callable[[Algorithm], bool]
    outcomes: frozenset[str]
    obstacle: Callable[[Asked, str], str]
    run: Callable[[SampleKernels, Sequence[str]], RouteResult]
    kinds: tuple[str, ...] = ("kernel", "ntk")
    tests: Callable[[Asked, Sequence[str]], int] = all_tests

    def compute(self, asked: Asked, names: Sequence[str]) -> RouteResult:
        """The numbers by themselves, where nothing else of the request is computed.

        Args:
            asked: The request.
            names: Outcomes that are wanted.
        """
        size = max(self.tests(asked, names), 1)
        return self.run(SampleKernels(asked, self.kinds, deep=True, size=size), names)
