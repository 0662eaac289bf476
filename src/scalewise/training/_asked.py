"""What a call wants to know of trained networks, and what a way to know it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from scalewise.networks import Network
from scalewise.tasks import Task
from scalewise.training._algorithm import Algorithm

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Asked:
    """What a call wants to know.

    Args:
        net: The network.
        task: What it is trained on.
        algorithm: How.
        covariance: How much of the covariance.
        at: Where.
        times: Times in place of the algorithm's own.
        accuracy: Of coefficients of 1/n, relative, root mean squares; ``None`` for what comes without a long wait.
    """

    net: Network
    task: Task
    algorithm: Algorithm
    covariance: Literal["full", "diagonal"] | None = "full"
    at: Literal["test", "train", "both"] = "both"
    times: np.ndarray | None = None
    accuracy: float | None = None

    @property
    def plain(self) -> Network | None:
        """The network, if it is fully connected without skip connections."""
        return self.net if self.net.is_plain else None

    @property
    def width(self) -> float:
        """Channels that the last layer reads."""
        return float(self.net.widths[-2])

    @property
    def tests(self) -> np.ndarray:
        """The test inputs that are wanted, none of them for ``at="train"``."""
        tests = self.task.test_inputs
        return tests[:0] if self.at == "train" else tests


@dataclass(frozen=True)
class Found:
    """What a route has found: coefficients of 1/n, n the width of the last hidden layer.

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


@dataclass(frozen=True)
class Route:
    """One way to the coefficients of 1/n.

    Args:
        name: What results call it.
        knows: Whether it is a way for this algorithm; what it then still lacks, `obstacle` says.
        outcomes: Names of the outcomes that it gives.
        obstacle: A clause that says why it cannot serve a call that wants one of them; empty if it can.
        compute: The numbers, for the names that are wanted.
    """

    name: str
    knows: Callable[[Algorithm], bool]
    outcomes: frozenset[str]
    obstacle: Callable[[Asked, str], str]
    compute: Callable[[Asked, Sequence[str]], Found]
