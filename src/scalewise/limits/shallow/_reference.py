"""The reference network that a scaling starts from: it fixes all constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from scalewise._checked import Count, Must, NotNegative, checked
from scalewise._readable import readable
from scalewise._words import refuse_name
from scalewise.activations import Activation, activation
from scalewise.activations.spi import ActivationLike
from scalewise.limits.shallow._scaling import LimitDynamics, ShallowScaling

LAWS = ("normal", "uniform")
OutputScale = Annotated[
    float | int, Must("a positive number with a finite square", lambda v: 0 < v <= 1e150)
]


@checked
@dataclass(frozen=True)
@readable
class Reference:
    r"""The network of width $d^*$ that a scaling starts from.

    $f=\sigma^*\sum_{r=1}^{d^*}\hat a_r\phi(\hat w_r\cdot x)$ with $\hat a_r,\hat w_{ri}$ independent, of mean 0 and
    variance 1, trained with rates $\hat\eta^*_a,\hat\eta^*_w$ of these hatted weights:
    $\hat\eta=\eta/\sigma^2_\theta$ where $\eta$ is the rate of the weights $\theta=\sigma_\theta\hat\theta$
    themselves. A variance of first weights other than 1 belongs into the inputs.

    Args:
        width: $d^*$, at least 1.
        sigma: $\sigma^*$, positive; output per unit of $\hat a\phi$.
        rate_a: $\hat\eta^*_a$, at least 0.
        rate_w: $\hat\eta^*_w$, at least 0.
        activation: $\phi$, a name or an `Activation`, continuous.
        law: Law of the weights, ``"normal"`` or ``"uniform"``. Kernels of limits take preactivations as
            Gaussian, which with uniform weights they are only for many features.

    Raises:
        ValueError: If a number is out of its range, the law is unknown, or the activation jumps.

    Source: Golikov (1)-(7).

    Example:
        >>> from scalewise.limits import shallow
        >>> shallow.Reference(width=64, rate_a=0.5, rate_w=0.5).sigma
        0.125
    """

    width: Count
    sigma: OutputScale = math.nan
    rate_a: NotNegative = 1.0
    rate_w: NotNegative = 1.0
    activation: ActivationLike = "leaky_relu(0.1)"
    law: str = "normal"

    def __post_init__(self) -> None:
        if math.isnan(self.sigma):
            object.__setattr__(self, "sigma", self.width**-0.5)
        if self.law not in LAWS:
            refuse_name("Reference.law", self.law, LAWS)
        if not self.phi.is_continuous:
            raise ValueError(
                f"`Reference.activation` must be continuous, for a step follows its slope; "
                f"{self.phi.name!r} jumps."
            )

    @property
    def phi(self) -> Activation:
        r"""$\phi$."""
        return activation(self.activation)


@dataclass(frozen=True)
class LimitUnits:
    r"""Factors before the sums of a network or a limit.

    $$f=F\sum_r\hat a_r\phi,\quad\Delta\hat a=-R_a\nabla\ell\,\phi,\quad\Delta\hat w=-R_w\nabla\ell\,\hat a\phi'x$$
    """

    output: float  # $F$
    rate_a: float  # $R_a$
    rate_w: float  # $R_w$
    kernel_a: float  # before $\sum\phi\phi$ in $K_a$
    kernel_w: float  # before $\sum\hat a^2\phi'\phi'\,x\cdot x'$ in $K_w$


def finite_units(reference: Reference, one: ShallowScaling, width: int) -> LimitUnits:
    """The factors of a network of this width."""
    u = width / reference.width
    try:
        sigma = reference.sigma * u ** float(one.q_sigma)
        u_a, u_w = u ** float(one.q_tilde_a), u ** float(one.q_tilde_w)
        kernel_a, kernel_w = u_a * sigma**2, u_w * sigma**2
    except OverflowError:
        raise ValueError(
            f"The powers of {one} overflow at {width} units, {u:.3g} times `Reference.width`. Take smaller "
            "exponents or another width."
        ) from None
    return LimitUnits(
        output=sigma,
        rate_a=reference.rate_a * u_a * sigma,
        rate_w=reference.rate_w * u_w * sigma,
        kernel_a=kernel_a,
        kernel_w=kernel_w,
    )


def limit_units(reference: Reference, particles: int, dynamics: LimitDynamics) -> LimitUnits:
    """The factors of a limit; 0 for a layer without a part in it."""
    share = reference.width / particles
    by_a, by_w = float(dynamics.by_a), float(dynamics.by_w)
    return LimitUnits(
        output=reference.sigma * share,
        rate_a=by_a * reference.rate_a * reference.sigma,
        rate_w=by_w * reference.rate_w * reference.sigma,
        kernel_a=by_a * reference.sigma**2 * share,
        kernel_w=by_w * reference.sigma**2 * share,
    )
