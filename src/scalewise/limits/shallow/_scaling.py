"""Scalings of a network with one hidden layer: three exponents, and what is added to its output."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scalewise.scaling import shallow as plane
from scalewise.scaling._exact import fraction

__all__ = ["SCALINGS", "LimitDynamics", "ShallowScaling", "limit_dynamics", "scaling"]

_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class ShallowScaling:
    r"""How a network with one hidden layer changes with its width $d$, from the reference of width $d^*$.

    $$\sigma=\sigma^*u^{q_\sigma},\qquad\hat\eta_{a,w}=\hat\eta^*_{a,w}u^{\tilde q_{a,w}},\qquad u=d/d^*,\qquad
    f_d=\sigma\sum_r\hat a_r\phi(\hat w_r\cdot x)
    +\sigma^*\Big(\sum_jc_ju^{p_j}\Big)\sum_r\hat a_r^{(0)}\phi(\hat w_r^{(0)}\cdot x)$$
    The second sum is constant: no gradient goes through it.

    Args:
        q_sigma: $q_\sigma$.
        q_tilde_a: $\tilde q_a$.
        q_tilde_w: $\tilde q_w$.
        initial: Pairs $(p_j,c_j)$; empty for an ordinary network.
        name: What messages call it.

    Source: Golikov (7), (25), (125).
    """

    q_sigma: Fraction
    q_tilde_a: Fraction
    q_tilde_w: Fraction
    initial: tuple[tuple[Fraction, int], ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            text = f"({self.q_sigma}, {self.q_tilde_a}, {self.q_tilde_w})"
            object.__setattr__(self, "name", text)

    @property
    def output_power(self) -> Fraction:
        r"""Power of $d$ of what training adds to outputs, and of kernels: $2q_\sigma+\tilde q+1$ in the plane."""
        return plane.powers_after(1, self.q_sigma, self.q_tilde_a, self.q_tilde_w).change_f

    @property
    def rate(self) -> Fraction:
        r"""Exponent $\rho$ of the error of the limit, $d^{-\rho}$.

        $$\rho=\min\big(\tfrac12,|q_\sigma+\tfrac12|,|2q_\sigma+\tilde q+1|,
        |q_\sigma+\tilde q+\tfrac12|,|q_\sigma+\tilde q|\big)$$
        over those that are not 0: distances to the lines. Source: derived from what each limit leaves out.
        """
        q, tilde = self.q_sigma, max(self.q_tilde_a, self.q_tilde_w)
        terms = (q + _HALF, 2 * q + tilde + 1, q + tilde + _HALF, q + tilde)
        return min([_HALF, *(abs(x) for x in terms if x != 0)])

    def __str__(self) -> str:
        return self.name


def _named(name: str, q: Any, a: Any, w: Any, initial: Any = ()) -> ShallowScaling:
    return ShallowScaling(Fraction(q), Fraction(a), Fraction(w), initial, name)


_IC_MF = ((-_HALF, 1), (Fraction(-1), -1))
SCALINGS = {
    one.name: one
    for one in (
        _named("default", "-1/2", 1, 0),
        _named("sym-default", "-1/2", "1/2", "1/2"),
        _named("NTK", "-1/2", 0, 0),
        _named("MF", -1, 1, 1),
        _named("IC-MF", -1, 1, 1, _IC_MF),
        _named("IC-MF (appendix)", -1, 1, 1, _IC_MF[:1]),
    )
}


def scaling(
    source: str | tuple[Any, ...] | ShallowScaling,
) -> ShallowScaling:
    r"""A scaling by name or by its exponents.

    Args:
        source: One of `SCALINGS`; $(q_\sigma,\tilde q)$ for equal rates; $(q_\sigma,\tilde q_a,\tilde q_w)$.

    Raises:
        ValueError: If there is no such name, or there are not two or three finite exponents.

    Source: Golikov, Section 3; IC-MF is (25), which is the reference network at $d=d^*$. Appendix E, (125),
        prints $u^{-1/2}$ alone, which there doubles the initial output: ``"IC-MF (appendix)"``.

    Example:
        >>> from scalewise.limits import shallow
        >>> shallow.scaling((-1, 1)) == shallow.scaling((-1, 1, 1))
        True
        >>> str(shallow.scaling("sym-default").output_power)
        '1/2'
    """
    if isinstance(source, ShallowScaling):
        return source
    if isinstance(source, str):
        if source not in SCALINGS:
            raise ValueError(
                f"No scaling is called {source!r}; the named ones are {', '.join(SCALINGS)}. "
                "For any other give its exponents, (q_sigma, q_tilde)."
            )
        return SCALINGS[source]
    if len(source) not in (2, 3):
        raise ValueError(
            "A scaling has two exponents, (q_sigma, q_tilde), or three, (q_sigma, q_tilde_a, "
            f"q_tilde_w); got {len(source)}."
        )
    return ShallowScaling(
        fraction("q_sigma", source[0]),
        fraction("q_tilde_a", source[1]),
        fraction("q_tilde_w", source[-1]),
    )


@dataclass(frozen=True)
class LimitDynamics:
    r"""What is left of a scaling at infinite width.

    Args:
        region: Of the band, ``"R1"`` to ``"R13"``; empty where it is not in the plane.
        moving: Whether weights move by their own order ($q_\sigma+\tilde q=0$): particles; otherwise kernels
            are constant.
        first: Sign of $q_\sigma+\frac12$: whether at step 0 outputs diverge (+1: the loss sees only their
            sign), are finite (0) or vanish (-1: the loss sees 0).
        later: The same from step 1 on, sign of $2q_\sigma+\tilde q+1$.
        remembers: Whether the rescaled output starts at the Gaussian process $g$, not at 0.
        keeps: Whether $g$ is added to the output throughout (IC-MF).
        silent: Whether output weights start at 0 in their own units (default).
    """

    region: str
    moving: bool
    first: int
    later: int
    remembers: bool = False
    keeps: bool = False
    silent: bool = False


def limit_dynamics(source: str | tuple[Any, ...] | ShallowScaling) -> LimitDynamics:
    r"""Which of the limit dynamics a scaling has.

    Args:
        source: As for `scaling`.

    Raises:
        ValueError: If the scaling lies outside the band of dynamical stability, has unequal rates and is not
            the default, or adds something else than (25) or (125) to the output.

    Source: Golikov (65)-(70), (87)-(93), (114)-(117), (131)-(134).

    Example:
        >>> from scalewise.limits import shallow
        >>> shallow.limit_dynamics("MF")
        LimitDynamics(region='R12', moving=True, first=-1, later=0, remembers=False, keeps=False, silent=False)
    """
    one = scaling(source)
    exponents = (one.q_sigma, one.q_tilde_a, one.q_tilde_w)
    default = SCALINGS["default"]
    if one.initial:
        if exponents != (-1, 1, 1) or one.initial not in (_IC_MF, _IC_MF[:1]):
            raise ValueError(
                f"The limit of {one} is not known: something is added to its output, and only IC-MF, "
                "q_sigma = -1 and q_tilde = 1 with (25) or (125), has a limit here. Take 'IC-MF'."
            )
        return LimitDynamics("R12", True, 0, 0, keeps=True)
    if exponents == (default.q_sigma, default.q_tilde_a, default.q_tilde_w):
        return LimitDynamics("", True, 0, 1, silent=True)
    if one.q_tilde_a != one.q_tilde_w:
        raise ValueError(
            f"The limit of {one} is not known: with rates that scale differently only 'default', "
            "(-1/2, 1, 0), has a limit here. Take q_tilde_a = q_tilde_w, or a finite network."
        )
    region = plane.region(one.q_sigma, one.q_tilde_a)
    first, later, remembers, moving = region.signs
    return LimitDynamics(region.id, moving == 0, first, later, remembers == 0)
