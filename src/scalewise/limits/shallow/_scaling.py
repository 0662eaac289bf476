"""Scalings of a network with one hidden layer: three exponents, and what is added to its output."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise._words import refuse_name
from scalewise.scaling import shallow as plane
from scalewise.scaling.spi import EXPONENT, Exponent

_HALF = Fraction(1, 2)


@checked
@dataclass(frozen=True)
@readable
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

    q_sigma: Annotated[Fraction, EXPONENT]
    q_tilde_a: Annotated[Fraction, EXPONENT]
    q_tilde_w: Annotated[Fraction, EXPONENT]
    initial: tuple[tuple[Fraction, int], ...] = ()
    name: str = ""
    _such_as = "limits.shallow.scaling('MF')"

    def __post_init__(self) -> None:
        if not self.name:
            text = f"({self.q_sigma}, {self.q_tilde_a}, {self.q_tilde_w})"
            object.__setattr__(self, "name", text)

    @property
    def output_power(self) -> Fraction:
        r"""Power of $d$ of what training adds to outputs, and of kernels: $2q_\sigma+\tilde q+1$ in the plane."""
        return plane.powers_after(1, self.q_sigma, self.q_tilde_a, self.q_tilde_w).change_f

    @property
    def moves(self) -> tuple[Fraction, Fraction]:
        r"""Powers $s_{a,w}=q_\sigma+\tilde q_{a,w}$ of what a step does to weights of order one."""
        return self.q_sigma + self.q_tilde_a, self.q_sigma + self.q_tilde_w

    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        r"""Power of $d$ by which either layer's steps do less to the output than both together, at least 0.

        From step 1 on they do $q_\sigma+1+s_a+2b_w$ and $q_\sigma+1+s_w+2b_a$, with weights of power
        $b_{a,w}=\max(s_{a,w},0)$ by then, at most one of them positive; a layer with more than 0 has no part in
        the limit. Source: Golikov, Lemma 1, where no layer outgrows its start without end, $s_a+s_w\le0$.
        """
        (s_a, s_w), p = self.moves, self.output_power - self.q_sigma - 1
        b_a, b_w = max(s_a, Fraction(0)), max(s_w, Fraction(0))
        return p - s_a - 2 * b_w, p - s_w - 2 * b_a

    @property
    def rate(self) -> Fraction:
        r"""Exponent $\rho$ of the error of the limit, $d^{-\rho}$.

        $$\rho=\min\big(\tfrac12,|q_\sigma+\tfrac12|,|2q_\sigma+\tilde q+1|,
        |q_\sigma+\tilde q+\tfrac12|,|q_\sigma+\tilde q|\big)$$
        over those that are not 0: distances to the lines. With unequal rates $p$, the output's power, and
        $p-q_\sigma-\frac12$ stand for the second and third, $s_w+b$ for the fourth, and there are the `shares`
        and $2b$ too, $b=\max(s_a,0)$; where first weights outgrow their start, $s_w>0$, that start is left out and
        counts once, for the moves it turns around. Source: derived from what each limit leaves out.
        """
        (s_a, s_w), p = self.moves, self.output_power
        b = max(s_a, Fraction(0))
        terms = (self.q_sigma + _HALF, p, p - self.q_sigma - _HALF, s_w + b, *self.shares, 2 * b)
        return min([_HALF, *(abs(x) for x in terms if x != 0)])

    def __str__(self) -> str:
        return self.name


def _scaling_called(name: str, q: Any, a: Any, w: Any, initial: Any = ()) -> ShallowScaling:
    return ShallowScaling(Fraction(q), Fraction(a), Fraction(w), initial, name)


_IC_MF = ((-_HALF, 1), (Fraction(-1), -1))
SCALINGS = {
    one.name: one
    for one in (
        _scaling_called("default", "-1/2", 1, 0),
        _scaling_called("sym-default", "-1/2", "1/2", "1/2"),
        _scaling_called("NTK", "-1/2", 0, 0),
        _scaling_called("MF", -1, 1, 1),
        _scaling_called("IC-MF", -1, 1, 1, _IC_MF),
        _scaling_called("IC-MF (appendix)", -1, 1, 1, _IC_MF[:1]),
    )
}


@checked
def scaling(
    source: str | ShallowScaling | tuple[Exponent, ...],
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
            refuse_name("source", source, SCALINGS, "exponents, (q_sigma, q_tilde)")
        return SCALINGS[source]
    if len(source) not in (2, 3):
        raise ValueError(
            "`source` must be a name, two exponents (q_sigma, q_tilde), or three (q_sigma, q_tilde_a, "
            f"q_tilde_w); got {len(source)} exponents."
        )
    return ShallowScaling(source[0], source[1], source[-1])


@checked
@dataclass(frozen=True)
@readable
class LimitDynamics:
    r"""Dynamics of a scaling at infinite width.

    Args:
        region: Of the band, ``"R1"`` to ``"R13"``; empty where it is not in the plane.
        moving: Whether first weights move by their own order (in the plane $q_\sigma+\tilde q=0$): particles;
            otherwise kernels are constant.
        first: Sign of $q_\sigma+\frac12$: whether at step 0 outputs diverge (+1: the loss sees only their
            sign), are finite (0) or vanish (-1: the loss sees 0).
        later: The same from step 1 on, sign of the output's power, in the plane $2q_\sigma+\tilde q+1$.
        remembers: Whether the rescaled output starts at the Gaussian process $g$, not at 0.
        keeps: Whether $g$ is added to the output throughout (IC-MF).
        silent: Whether output weights start at 0 in their own units (default).
        silent_w: Whether first weights do (the default's mirror). Their start then decides signs of
            preactivations until they move, and the activation is seen from far away, as the two slopes of its
            asymptotes.
        by_a: Whether steps of the output weights change the rescaled output.
        by_w: Whether steps of the first weights do. One of both has no part in it where rates scale too
            differently.
    """

    region: str
    moving: bool
    first: int
    later: int
    remembers: bool = False
    keeps: bool = False
    silent: bool = False
    by_a: bool = True
    by_w: bool = True
    silent_w: bool = False


@checked
def limit_dynamics(source: str | ShallowScaling | tuple[Exponent, ...]) -> LimitDynamics:
    r"""Dynamics that a scaling has in the limit.

    With unequal rates the limit follows from what a step does to either layer, $s_{a,w}=q_\sigma+\tilde q_{a,w}$:
    output weights that gain in power, $s_a>0$, start at 0 in their own units; first weights move by their own
    order where $s_w+\max(s_a,0)=0$; and the layer that changes the output by less has no part in it. First
    weights that gain in power, $s_w>0$, are the mirror image: they start at 0 in their own units and move by
    them, and output weights move by their own order where $s_a+s_w=0$.

    Args:
        source: As for `scaling`.

    Raises:
        ValueError: If the scaling lies outside the band of dynamical stability; or has unequal rates and
            $s_a+s_w>0$ with one of both positive, $\max(s_a,s_w)<-\frac12$ or $q_\sigma>-\frac12$; or adds
            something else than (25) or (125) to the output.

    Source: Golikov (65)-(70), (87)-(93), (114)-(117), (131)-(134); for other unequal rates than the default's
        derived from his Lemma 1.

    Example:
        >>> from scalewise.limits import shallow
        >>> d = shallow.limit_dynamics("MF")
        >>> d.region, d.moving, d.first, d.later
        ('R12', True, -1, 0)
        >>> shallow.limit_dynamics(("-1/2", 0, "-1/4")).by_w  # the NTK of the output weights alone
        False
    """
    one = scaling(source)
    exponents = (one.q_sigma, one.q_tilde_a, one.q_tilde_w)
    if one.initial:
        if exponents != (-1, 1, 1) or one.initial not in (_IC_MF, _IC_MF[:1]):
            raise ValueError(
                f"The limit of {one} is not known: something is added to its output, and only IC-MF, "
                "q_sigma = -1 and q_tilde = 1 with (25) or (125), has a limit here. Take 'IC-MF'."
            )
        return LimitDynamics("R12", True, 0, 0, keeps=True)
    if one.q_tilde_a != one.q_tilde_w:
        return _unequal(one)
    region = plane.region(one.q_sigma, one.q_tilde_a)
    first, later, remembers, moving = region.signs
    return LimitDynamics(region.id, moving == 0, first, later, remembers == 0)


def _unequal(one: ShallowScaling) -> LimitDynamics:
    """Rates of the two layers that scale differently."""
    (s_a, s_w), q = one.moves, one.q_sigma
    refusals = (
        (
            max(s_a, s_w) > 0 and s_a + s_w > 0,
            "a layer outgrows its start in every step, for 2 q_sigma + q_tilde_a + q_tilde_w = "
            f"{s_a + s_w} > 0. Take a smaller {'q_tilde_a' if s_a > s_w else 'q_tilde_w'}",
        ),
        (
            max(s_a, s_w) < -_HALF,
            "training changes outputs by a vanishing part of what they start with, for q_sigma + "
            f"max(q_tilde_a, q_tilde_w) = {max(s_a, s_w)} < -1/2. Take larger rates",
        ),
        (
            q > -_HALF,
            f"outputs diverge from the start, for q_sigma = {q} > -1/2, and where a sample of one layer is right "
            "and that of the other wrong, their sign is decided below the leading order. Take "
            "q_tilde_a = q_tilde_w",
        ),
    )
    for wrong, why in refusals:
        if wrong:
            raise ValueError(f"The limit of {one} is not known: {why}, or a finite network.")
    by_a, by_w = (share == 0 for share in one.shares)
    p = one.output_power
    first, later = ((x > 0) - (x < 0) for x in (q + _HALF, p))
    remembers = p == q + _HALF
    moving = s_w + max(s_a, Fraction(0)) >= 0
    parts: dict[str, Any] = {"silent": s_a > 0, "silent_w": s_w > 0, "by_a": by_a, "by_w": by_w}
    return LimitDynamics("", moving, first, later, remembers, **parts)
