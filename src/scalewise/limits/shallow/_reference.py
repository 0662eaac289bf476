"""The reference network that a scaling starts from: it fixes all constants."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scalewise.activations import Activation, activation
from scalewise.limits._checks import is_number, whole

__all__ = ["LAWS", "Reference"]

LAWS = ("normal", "uniform")


@dataclass(frozen=True)
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

    width: int
    sigma: float = math.nan
    rate_a: float = 1.0
    rate_w: float = 1.0
    activation: str | Activation = "leaky_relu(0.1)"
    law: str = "normal"

    def __post_init__(self) -> None:
        whole("Reference.width", self.width, 1, what="counts units")
        if is_number(self.sigma) and math.isnan(self.sigma):
            object.__setattr__(self, "sigma", self.width**-0.5)
        for name, lowest in (
            ("sigma", "positive"),
            ("rate_a", "at least 0"),
            ("rate_w", "at least 0"),
        ):
            value = getattr(self, name)
            good = is_number(value) and math.isfinite(value) and value >= 0
            if not good or (value == 0 and lowest == "positive"):
                raise ValueError(f"`Reference.{name}` must be finite and {lowest}; got {value!r}.")
        if self.sigma > 1e150:
            raise ValueError(f"`Reference.sigma` must have a finite square; got {self.sigma}.")
        if self.law not in LAWS:
            raise ValueError(f"`Reference.law` must be one of {', '.join(LAWS)}; got {self.law!r}.")
        if not self.phi.is_continuous:
            raise ValueError(
                f"`Reference.activation` must be continuous, for a step follows its slope; "
                f"{self.phi.name!r} jumps."
            )

    @property
    def phi(self) -> Activation:
        r"""$\phi$."""
        return activation(self.activation)
