"""Conditioning a Gaussian process on the targets, as algorithms: there is no time, only the answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, NotNegative, checked
from scalewise._readable import readable
from scalewise.training._algorithm import Algorithm
from scalewise.training._filters import Filter, after_flow
from scalewise.training._motions import ByFlow
from scalewise.training.width._weights import Reaches, converged

Directions = Float[np.ndarray, " direction"]
Times = Float[np.ndarray, " time"]
REMEDY = "give `noise_variance`"  # of a singular kernel


class _Conditioned(Algorithm):
    """A Gaussian process, conditioned on the targets; the covariance keeps $1-hg$ once."""

    learns_with: ClassVar[str] = "kernel"
    is_posterior: ClassVar[bool] = True
    trains_hidden: ClassVar[bool] = False
    remedy: ClassVar[str] = REMEDY
    _why_timeless: ClassVar[str] = "conditions at once"

    @property
    def starts_with(self) -> str:
        """The kernel that it learns with: a posterior conditions its own prior."""
        return self.learns_with

    def filter(self, h: Directions, times: Times | None = None, *, targets: Count = 1) -> Filter:
        r"""$g=1/(h+\sigma_\varepsilon^2)$, without noise the end of gradient flow.

        Args:
            h: Eigenvalues of the kernel of the training samples, at least 0.
            times: Refused.
            targets: Not needed: there is no rate.

        Raises:
            ValueError: If times are given.
        """
        return after_flow(h, self.stops(times), ridge=self.noise_variance)


@checked
@dataclass(frozen=True)
@readable
class Bayes(_Conditioned):
    r"""The posterior over networks given the targets, at infinite width a Gaussian process with kernel $K$.

    Args:
        noise_variance: $\sigma_\varepsilon^2\ge0$, a variance, of independent noise on every target: it adds to the
            diagonal of $\tilde K$ and to nothing else. Noise that all samples share is a part of $C_b$ instead.

    Source: PDLT (6.57), (6.64), noise (6.10).
    """

    word: ClassVar[str] = "bayes"
    options: ClassVar[tuple[str, ...]] = ("noise_variance",)
    has_evidence: ClassVar[bool] = True
    noise_variance: NotNegative = 0.0


@checked
@dataclass(frozen=True)
@readable
class LastLayer(_Conditioned):
    r"""Training the last layer alone to the end, at rates equal to its variances: exact Bayes without noise.

    Source: PDLT (10.44)-(10.49), (∞.173).
    """

    word: ClassVar[str] = "last_layer"
    remedy: ClassVar[str] = "take Bayes with a `noise_variance`"
    weighs: ClassVar[bool] = True
    noise_variance: float = field(default=0.0, init=False, repr=False)

    def reaches(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Reaches:
        r"""Weights of the tensors of order 1/n: as of gradient flow to the end.

        Args:
            h: Eigenvalues of $\tilde K$, all above 0.
            time: None; see `filter`.
            targets: Not needed.
        """
        return converged(h).reaches()


@checked
@dataclass(frozen=True)
@readable
class NTKGP(_Conditioned):
    r"""The posterior of the Gaussian process whose kernel is the NTK, as if all of it were the prior.

    It is what an ensemble has whose networks start with an extra random function that makes their initial outputs
    as random as $\Theta$ says. The mean is that of gradient flow to the end.

    Args:
        noise_variance: $\sigma_\varepsilon^2\ge0$, as of `Bayes`.

    Source: PDLT (6.57), (6.64) with $\Theta$ for $K$; He, Lakshminarayanan & Teh (2020).
    """

    learns_with: ClassVar[str] = "ntk"
    trains_hidden: ClassVar[bool] = True
    noise_variance: NotNegative = 0.0

    def motion(self, h: Directions, *, targets: Count = 1) -> ByFlow:
        """Gradient flow to the end, with the noise as a ridge and initial outputs as random as the NTK.

        Args:
            h: Not needed.
            targets: Not needed.
        """
        return ByFlow(math.inf)
