r"""The protocol of algorithms: everything that a prediction or an ensemble asks of one.

An algorithm is a frozen dataclass with a `filter`, and that is enough for a prediction at infinite width. What it
says beyond that opens further rooms, which ask it and know no algorithm by name:

| it says | and so |
|---|---|
| `motion` | ensembles are trained by it; with `descends`, by other losses too |
| `weighs`, `reaches` | order 1/n of few samples |
| `sums_obstacle`, `sums` | order 1/n of hundreds of samples |
| `trains_hidden`, `has_evidence` | whether hidden layers learn, or are weighted by their evidence |

An algorithm that goes step by step is a `Stepwise`: it gives its rule, and all but the sums follows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count
from scalewise._words import shown
from scalewise.training._filters import Filter, after_flow
from scalewise.training._motions import ByDescent, Motion
from scalewise.training.width._course import Clock, on_the_way
from scalewise.training.width._weights import Reaches, Separable

Directions = Float[np.ndarray, " direction"]
Times = Float[np.ndarray, " time"]
TOO_MANY = "for as many samples as these: weights of networks on their way are known for few"


class Pace(NamedTuple):
    r"""A rate, in the units of the algorithm's loss; names are those of a result's attributes.

    Args:
        rate: $\eta$, one for all steps or one for each.
        maximal_rate: From here on, training at one rate diverges.
    """

    rate: float | tuple[float, ...]
    maximal_rate: float


class Algorithm(ABC):
    """A way to train; see the table of the module for what it may say, and what that is good for."""

    _such_as: ClassVar[str] = "training.GradientFlow()"
    word: ClassVar[str] = ""  # of the command line; empty if it has none
    options: ClassVar[tuple[str, ...]] = ()  # of the command line, names of its fields
    learns_with: ClassVar[str] = "ntk"  # or "kernel": what learns
    is_posterior: ClassVar[bool] = False  # one Gaussian process, conditioned
    has_evidence: ClassVar[bool] = False  # networks count as much as they find the targets probable
    trains_hidden: ClassVar[bool] = True  # parameters below the last layer learn
    descends: ClassVar[bool] = False  # along the gradient of any loss
    is_heavy_ball: ClassVar[bool] = (
        False  # a flow, or steps with a velocity that a share is kept of
    )
    weighs: ClassVar[bool] = False  # has weights of order 1/n
    moves_as_gradients: ClassVar[bool] = True  # these weights say what the NTK does, too
    noise_variance: float = 0.0  # of the targets
    ridge: float = 0.0  # on how far parameters move, added to eigenvalues of the NTK
    remedy: ClassVar[str] = "stop training at a time, or give a `ridge`"  # of a singular kernel
    _why_timeless: ClassVar[str] = "says where training ends and not how it gets there"

    @abstractmethod
    def filter(self, h: Directions, times: Times | None = None, *, targets: Count = 1) -> Filter:
        r"""Gain and remainder of eigendirections of the kernel that learns.

        Args:
            h: Eigenvalues, at least 0.
            times: Times, or numbers of steps, in place of the algorithm's own.
            targets: $N_An_L$, by which a mean is divided.
        """

    @property
    def starts_with(self) -> str:
        """The kernel of the outputs before training."""
        return "kernel"

    @property
    def ends(self) -> bool:
        """True if training goes on until nothing is left to do."""
        return True

    @property
    def diagonal(self) -> float:
        """The number added to the diagonal of the kernel that learns."""
        return self.ridge + self.noise_variance

    @property
    def but_rate(self) -> Algorithm:
        """The algorithm without its rate, which a result tells as a number."""
        return self

    def pace(self, h: Directions, *, targets: Count = 1) -> Pace | None:
        """The rate, and the largest that there can be; ``None`` for an algorithm without one.

        Args:
            h: Eigenvalues.
            targets: $N_An_L$.

        Raises:
            ValueError: If training diverges.
        """
        return None

    def stops(self, times: Times | None = None) -> Times:
        """Where training is looked at: the times that were asked for, or the algorithm's own.

        Args:
            times: What was asked for.

        Raises:
            ValueError: If these are none of its times.
        """
        if times is not None:
            raise ValueError(
                f"`times` must be None for {type(self).__name__}, which {self._why_timeless}. Take GradientFlow "
                "or GradientDescent to see a training on its way."
            )
        return np.array([math.inf])

    def unit(self, targets: int) -> float:
        """How many of its times, or by how much larger rates, are one of the sum of half squares.

        Args:
            targets: $N_An_L$.
        """
        return 1.0

    def motion(self, h: Directions, *, targets: Count = 1) -> Motion:
        """The rule by which it moves parameters of networks, for the sum of half squares.

        Args:
            h: Eigenvalues of their mean NTK.
            targets: $N_An_L$.

        Raises:
            ValueError: If it does not say so.
        """
        raise ValueError(
            f"`algorithm` must say how networks are trained; {type(self).__name__} says only where training ends. "
            "Take GradientDescent, GradientFlow or TwoStepNewton."
        )

    def clock(
        self, h: Directions, time: float | None = None, *, targets: Count = 1
    ) -> Clock | None:
        """The times of a training on its way; None for one that is over.

        Args:
            h: Eigenvalues.
            time: A time in place of its own.
            targets: $N_An_L$.
        """
        return None

    def reaches(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Reaches:
        """Weights of the tensors of order 1/n, if it `weighs` them.

        Args:
            h: Eigenvalues; at the end without a ridge, all above 0.
            time: A time in place of its own.
            targets: $N_An_L$.
        """
        raise NotImplementedError(f"{type(self).__name__} has no weights of order 1/n.")

    @property
    def sums_obstacle(self) -> str:
        """A clause that says why it has no `sums`; empty if it has."""
        return f"{type(self).__name__} has no sums of products"

    def sums(self, h: Directions, *, targets: Count = 1, accuracy: float = 1e-4) -> Separable:
        """These weights as sums of products of functions of one eigenvalue, where `sums_obstacle` is empty.

        Args:
            h: Eigenvalues, all above 0 without a ridge.
            targets: $N_An_L$.
            accuracy: Relative accuracy of most sums.

        Raises:
            ValueError: If it has none.
        """
        if why := self.sums_obstacle:
            raise ValueError(f"{why[0].upper()}{why[1:]}.")
        return self.sums_at_the_end(h, targets=targets, accuracy=accuracy)

    def sums_at_the_end(
        self, h: Directions, *, targets: Count = 1, accuracy: float = 1e-4
    ) -> Separable:
        """As `sums`, of a training that stops so late that it is over, or does not stop.

        Args:
            h: Eigenvalues, all above 0 without a ridge.
            targets: $N_An_L$.
            accuracy: Relative accuracy of most sums.
        """
        raise NotImplementedError(f"{type(self).__name__} has no sums of products.")


class Stepwise(Algorithm):
    """An algorithm that goes step by step, by a rule of its own.

    It has `steps`, how many or ``None`` for all to the end, and its `motion`.
    """

    descends: ClassVar[bool] = True
    weighs: ClassVar[bool] = True
    steps: int | None = None

    @abstractmethod
    def motion(self, h: Directions, *, targets: Count = 1) -> ByDescent:
        """The rule, with its rates.

        Args:
            h: Eigenvalues of the mean NTK.
            targets: $N_An_L$.
        """

    @property
    def ends(self) -> bool:
        """True if it has no number of steps."""
        return self.steps is None

    def stops(self, times: Times | None = None) -> Times:
        """Numbers of steps.

        Args:
            times: What was asked for.

        Raises:
            ValueError: If one is none.
        """
        own = math.inf if self.steps is None else float(self.steps)
        return whole_steps(type(self).__name__, np.array([own]) if times is None else times)

    def filter(self, h: Directions, times: Times | None = None, *, targets: Count = 1) -> Filter:
        r"""Gain and remainder of eigendirections after the steps.

        Args:
            h: Eigenvalues, at least 0.
            times: Numbers of steps in place of `steps`.
            targets: $N_An_L$.

        Raises:
            ValueError: If training diverges, or a number of steps is not one.
        """
        t = self.stops(times)
        if not np.isfinite(t).any():
            return after_flow(h, t, ridge=self.ridge)
        found = self.motion(h, targets=targets).filter(h, t, ridge=self.ridge)
        if not all(np.isfinite(part[np.isfinite(t)]).all() for part in found):
            raise ValueError(
                f"{type(self).__name__} diverges: after {t.max():.0f} steps the error of a direction overflows. "
                "Take a smaller rate."
            )
        return found

    def clock(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Clock:
        """All of its steps.

        Args:
            h: Eigenvalues; at the end without a ridge, all above 0.
            time: A number of steps in place of `steps`.
            targets: $N_An_L$.
        """
        steps = float(self.stops(None if time is None else np.array([time]))[0])
        return self.motion(h, targets=targets).clock(h, steps, ridge=self.ridge)

    def reaches(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Reaches:
        """Weights of the tensors of order 1/n, from the rule.

        Args:
            h: Eigenvalues; at the end without a ridge, all above 0.
            time: A number of steps in place of `steps`.
            targets: $N_An_L$.
        """
        return on_the_way(h, self.clock(h, time, targets=targets), self.ridge)

    @property
    def sums_obstacle(self) -> str:
        """Weights of networks on their way are known for few samples."""
        return f"`{type(self).__name__}` has no sums {TOO_MANY}"


def settled(algorithm: Algorithm, h: Directions, *, targets: int = 1) -> Algorithm:
    """The algorithm with a number for a rate that the kernel decides.

    Args:
        algorithm: With a rate or without one.
        h: Eigenvalues.
        targets: $N_An_L$.

    Raises:
        ValueError: If training diverges.
    """
    pace, own = algorithm.pace(h, targets=targets), cast("Any", algorithm)
    return algorithm if pace is None else replace(own, rate=pace.rate)


def described(algorithm: Algorithm) -> dict[str, object]:
    """Attributes of a result, by which two results are told to be of the same training.

    Args:
        algorithm: As it was given.

    Returns:
        ``algorithm`` as it was given; ``algorithm_but_rate``, since a rate of ``None`` is a number too; and
        whether training goes ``to_the_end``, where the leading order has forgotten the rate.
    """
    return {
        "algorithm": repr(algorithm),
        "algorithm_but_rate": repr(algorithm.but_rate),
        "to_the_end": int(algorithm.ends),
    }


def whole_steps(name: str, times: Times, most: float = math.inf) -> Times:
    """Times that are numbers of steps, checked.

    Args:
        name: Of the algorithm.
        times: What was asked for.
        most: How many there are rates for.

    Raises:
        ValueError: If a time is not a whole number, or larger than that.
    """
    whole = np.isinf(times) | (times == np.floor(times))
    if not whole.all() or times.max() > most:
        end = "" if math.isinf(most) else f" up to {most:.0f}, the number of rates"
        raise ValueError(
            f"`times` of {name} must be whole numbers of steps{end}; got {shown(times.tolist())}."
        )
    return times
