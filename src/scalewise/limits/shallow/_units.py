"""The factors before the sums over the units: of a network, and of a limit."""

from __future__ import annotations

from dataclasses import dataclass

from scalewise.limits.shallow._reference import Reference
from scalewise.limits.shallow._scaling import LimitDynamics, ShallowScaling


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
