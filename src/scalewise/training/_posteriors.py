"""Conditioning a Gaussian process on the targets, as algorithms: there is no time, only the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from scalewise._checked import Count, NotNegative, checked
from scalewise._readable import readable
from scalewise.training._filters import Timeless
from scalewise.training.width._weights import Reaches, converged

Directions = Float[np.ndarray, " direction"]


class _Conditioned(Timeless):
    """What all that condition a Gaussian process on the targets share; the covariance keeps $1-hg$ once."""

    _why: ClassVar[str] = "conditions at once"
    learns_with: ClassVar[str] = "kernel"
    is_posterior: ClassVar[bool] = True

    @property
    def starts_with(self) -> str:
        """A posterior conditions what it has."""
        return self.learns_with


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

    noise_variance: NotNegative = 0.0


@checked
@dataclass(frozen=True)
@readable
class LastLayer(_Conditioned):
    r"""Training the last layer alone to the end, at rates equal to its variances: exact Bayes without noise.

    Source: PDLT (10.44)-(10.49), (∞.173).
    """

    noise_variance: float = field(default=0.0, init=False, repr=False)
    moves_as_gradients: ClassVar[bool] = True

    def reaches(self, h: Directions, time: float | None = None, *, targets: Count = 1) -> Reaches:
        r"""What tensors of order 1/n are weighed with: as of gradient flow to the end.

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

    noise_variance: NotNegative = 0.0
    learns_with: ClassVar[str] = "ntk"
