"""The request of a call: what it wants to know of trained networks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from scalewise.networks import Network
from scalewise.tasks import Task
from scalewise.training._algorithm import Algorithm

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Asked:
    """The arguments of a call that all routes read.

    Args:
        net: The network.
        task: Training samples and tests.
        algorithm: The way to train.
        covariance: How much of the covariance is wanted.
        at: The samples on which outputs are wanted.
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

    @cached_property
    def learner(self) -> Network:
        """The network that learns: rates of its last layer alone, equal to its variances, if no other trains."""
        net = self.net
        if not net.is_plain or self.algorithm.trains_hidden:
            return net
        none = (0.0,) * (net.depth - 1)
        return net.numbered(lambda_b=(*none, net.C_b[-1]), lambda_W=(*none, net.C_W[-1]))

    @property
    def tests(self) -> np.ndarray:
        """The test inputs that are wanted, none of them for ``at="train"``."""
        tests = self.task.test_inputs
        return tests[:0] if self.at == "train" else tests
