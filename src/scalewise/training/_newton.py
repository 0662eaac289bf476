r"""Algorithms that are said by what they do to outputs: two steps of Newton, and projectors that a user gives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, checked
from scalewise._readable import readable
from scalewise.training._algorithm import Algorithm
from scalewise.training._filters import Filter, after_flow
from scalewise.training._motions import ByNewton
from scalewise.training.width._weights import PROJECTORS, Reaches, Separable

Directions = Float[np.ndarray, " direction"]
Times = Float[np.ndarray, " time"]
Leg = Callable[[np.ndarray], np.ndarray]
Terms = tuple[tuple[Leg, ...], ...]


class _ToTheEnd(Algorithm):
    """An algorithm after which the error is gone, with weights that are finite sums."""

    remedy: ClassVar[str] = "train by GradientFlow or GradientDescent for a time, or with a `ridge`"
    weighs: ClassVar[bool] = True

    def filter(self, h: Directions, times: Times | None = None, *, targets: Count = 1) -> Filter:
        """The end of gradient flow.

        Args:
            h: Eigenvalues of the NTK of the training samples, at least 0.
            times: Refused.
            targets: Not needed: there is no rate.

        Raises:
            ValueError: If times are given.
        """
        return after_flow(h, self.stops(times))

    @property
    def sums_obstacle(self) -> str:
        """None."""
        return ""

    @abstractmethod
    def sums(self, h: Directions, *, targets: Count = 1, accuracy: float = 1e-4) -> Separable:
        """The projectors of order 1/n, as sums of products of functions of one eigenvalue.

        Args:
            h: Eigenvalues, all above 0.
            targets: Not needed.
            accuracy: Not needed: the sums are finite.
        """

    def reaches(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Reaches:
        """Weights of the tensors of order 1/n.

        Args:
            h: Eigenvalues, all above 0.
            time: None; see `filter`.
            targets: Not needed.
        """
        return self.sums(h).whole().reaches()


@checked
@dataclass(frozen=True)
@readable
class TwoStepNewton(_ToTheEnd):
    r"""A step of Newton with the network's own NTK, and a second one that removes the error left by the first.

    At infinite width it ends where gradient flow does; at order 1/n it does not: of the weights of
    dNTK and ddNTKs only $Z_B=\frac12\tilde H^{-1}\tilde H^{-1}$ and
    $Z_{IB}=-\frac16\tilde H^{-1}\tilde H^{-1}\tilde H^{-1}$ are not 0.

    Source: PDLT (∞.57)-(∞.79), (∞.148).
    """

    word: ClassVar[str] = "newton"

    def motion(self, h: Directions, *, targets: Count = 1) -> ByNewton:
        """Two steps.

        Args:
            h: Not needed.
            targets: Not needed.
        """
        return ByNewton(2)

    def sums(self, h: Directions, *, targets: Count = 1, accuracy: float = 1e-4) -> Separable:
        """Two products."""
        g = 1 / h
        none = {name: np.zeros((0, legs, h.size)) for name, legs in PROJECTORS.items()}
        found = none | {"B": np.array([[g / 2, g]]), "IB": np.array([[-g / 6, g, g]])}
        return Separable.of(g, found)


@checked
@dataclass(frozen=True)
@readable
class Projectors(_ToTheEnd):
    r"""An algorithm of one's own that trains to the end, by its projectors.

    Each is a sum of products, one function of the eigenvalues of $\tilde\Theta$ for each training leg, in the order
    of $Z^{123}$: two for the first two projectors, three for the others. What is not given is 0.

    Args:
        A: $Z_A$, of $\widehat{dH}_{1\delta2}$.
        B: $Z_B$, of $\widehat{dH}_{\delta12}$.
        IA: $Z_{IA}$, of $\widehat{dd_IH}_{1\delta23}$.
        IB: $Z_{IB}$, of $\widehat{dd_IH}_{\delta123}$.
        IIA: $Z_{IIA}$, of $\widehat{dd_{II}H}_{12\delta3}$.
        IIB: $Z_{IIB}$, of $\widehat{dd_{II}H}_{\delta123}$.

    Source: PDLT (∞.154).

    Example:
        >>> from scalewise.training import Projectors
        >>> inverse = lambda h: 1 / h
        >>> newton = Projectors(
        ...     B=((lambda h: 0.5 / h, inverse),), IB=((lambda h: -1 / (6 * h), inverse, inverse),)
        ... )
    """

    moves_as_gradients: ClassVar[bool] = False
    A: Terms = ()
    B: Terms = ()
    IA: Terms = ()
    IB: Terms = ()
    IIA: Terms = ()
    IIB: Terms = ()

    def __post_init__(self) -> None:
        for name, legs in PROJECTORS.items():
            for term in getattr(self, name):
                if len(term) != legs:
                    raise ValueError(
                        f"Each product of `Projectors.{name}` must have {legs} functions, one for each training "
                        f"leg; got {len(term)}."
                    )

    def sums(self, h: Directions, *, targets: Count = 1, accuracy: float = 1e-4) -> Separable:
        """As they were given.

        Raises:
            ValueError: If a function does not return a finite number for each eigenvalue.
        """
        parts = {}
        for name, legs in PROJECTORS.items():
            terms = [
                [np.asarray(leg(h), dtype=float) for leg in term] for term in getattr(self, name)
            ]
            if any(leg.shape != h.shape or not np.isfinite(leg).all() for t in terms for leg in t):
                raise ValueError(
                    f"The functions of `Projectors.{name}` must return a finite number for each of the eigenvalues "
                    "that they are given."
                )
            parts[name] = np.array(terms).reshape(-1, legs, h.size)
        return Separable.of(1 / h, parts)
