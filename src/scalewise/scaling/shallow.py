r"""One hidden layer: the plane of its scalings, the 13 regions in it, and the bookkeeping behind them.

$f(x)=\sigma\sum_{r=1}^n\hat a_r\phi(\hat w_r\cdot x)$ with $\hat a_r,\hat w_r$ of order one at
initialisation, $\sigma\propto n^{q_\sigma}$ and learning rates $\hat\eta_a\propto n^{\tilde q_a}$,
$\hat\eta_w\propto n^{\tilde q_w}$ of the hatted weights. In the plane $\tilde q_a=\tilde q_w=\tilde q$; and one
step moves a hatted weight by $n^{q_\sigma+\tilde q}$, which on the family is $n^{-(1-s)/2}$.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scalewise._checked import checked
from scalewise._readable import readable
from scalewise.scaling._bookkeeping import StepPowers, powers_after
from scalewise.scaling._exact import Exponent, Exponents, check_rows
from scalewise.scaling._exponents import ABC, Strategy

__all__ = [
    "CONDITIONS",
    "Region",
    "StepPowers",
    "coordinates",
    "deep_strategy",
    "powers_after",
    "region",
    "regions",
    "to_strategy",
]

_HALF = Fraction(1, 2)
# What a limit may keep of a finite network; a region keeps those whose line it lies on.
CONDITIONS = {
    1: "q_sigma + 1/2 = 0: outputs of order one at initialisation",
    2: "2 q_sigma + q_tilde + 1 = 0: kernels of order one, outputs neither vanish nor diverge in training",
    3: "q_sigma + q_tilde + 1/2 = 0: initial outputs of the order of what training adds to them",
    4: "q_sigma + q_tilde = 0: kernels move at their own order",
}
# id, name, representative, conditions, verdict
_TABLE = (
    (
        "R1",
        "logits diverge from the start, constant kernels",
        ("-1/4", 0),
        ("-1/2 < q_sigma + q_tilde < 0", "q_sigma > -1/2"),
        "unstable",
    ),
    (
        "R2",
        "logits diverge in training, constant kernels",
        ("-5/8", "3/8"),
        ("-1/2 < q_sigma + q_tilde < 0", "2 q_sigma + q_tilde > -1", "q_sigma < -1/2"),
        "unstable",
    ),
    (
        "R3",
        "logits vanish, constant kernels",
        (-1, "3/4"),
        ("-1/2 < q_sigma + q_tilde < 0", "2 q_sigma + q_tilde < -1"),
        "trivial",
    ),
    (
        "R4",
        "finite initial logits that diverge in training",
        ("-1/2", "1/4"),
        ("q_sigma = -1/2", "0 < q_tilde < 1/2"),
        "unstable",
    ),
    (
        "R5",
        "intermediate",
        ("-3/4", "1/2"),
        ("2 q_sigma + q_tilde = -1", "-1 < q_sigma < -1/2"),
        "kernel regime",
    ),
    (
        "R6",
        "neural tangent",
        ("-1/2", 0),
        ("q_sigma = -1/2", "q_tilde = 0"),
        "kernel regime",
    ),
    (
        "R7",
        "diverging logits that remember their start",
        ("-1/4", "-1/4"),
        ("q_sigma + q_tilde = -1/2", "q_sigma > -1/2"),
        "unstable",
    ),
    (
        "R8",
        "vanishing logits that remember their start",
        ("-3/4", "1/4"),
        ("q_sigma + q_tilde = -1/2", "q_sigma < -1/2"),
        "trivial",
    ),
    (
        "R9",
        "logits diverge from the start, moving kernels",
        ("-1/4", "1/4"),
        ("q_sigma + q_tilde = 0", "q_sigma > -1/2"),
        "unstable",
    ),
    (
        "R10",
        "symmetric default",
        ("-1/2", "1/2"),
        ("q_sigma = -1/2", "q_tilde = 1/2"),
        "unstable",
    ),
    (
        "R11",
        "logits diverge in training, moving kernels",
        ("-3/4", "3/4"),
        ("q_sigma + q_tilde = 0", "-1 < q_sigma < -1/2"),
        "unstable",
    ),
    (
        "R12",
        "mean field",
        (-1, 1),
        ("q_sigma = -1", "q_tilde = 1"),
        "feature learning",
    ),
    (
        "R13",
        "logits vanish, moving kernels",
        ("-5/4", "5/4"),
        ("q_sigma + q_tilde = 0", "q_sigma < -1"),
        "trivial",
    ),
)


@checked
@dataclass(frozen=True)
@readable
class Region:
    r"""One of the 13 regions that the four lines cut the band of dynamical stability into.

    Args:
        id: ``"R1"`` to ``"R13"``.
        name: In words.
        dimension: 2, on a line 1, where lines cross 0.
        signs: Signs of $q_\sigma+\frac12$, $2q_\sigma+\tilde q+1$, $q_\sigma+\tilde q+\frac12$ and
            $q_\sigma+\tilde q$: on which side of each line.
        conditions: Equalities and inequalities that hold in the region and nowhere else in the band.
        satisfied: Which of the four `CONDITIONS` its limit satisfies.
        representative: A point $(q_\sigma,\tilde q)$ of it.
        verdict: The regime that `classify` finds in it. A limit classified as unstable can still be
            dynamically stable: logits diverge, and each step changes them by their own order.
    """

    id: str
    name: str
    dimension: int
    signs: tuple[int, int, int, int]
    conditions: tuple[str, ...]
    satisfied: tuple[int, ...]
    representative: tuple[Fraction, Fraction]
    verdict: str

    def __str__(self) -> str:
        return f"{self.id} ({self.name})"


def regions() -> tuple[Region, ...]:
    r"""All 13 regions: 3 open sets, 7 pieces of lines, 3 points.

    Source: Golikov, *Dynamically stable infinite-width limits*, Propositions 1-4; the list, the names of the
        unnamed and the verdicts derived. Condition 4 holds from the second step on, or in the first for the
        part of second order in the learning rate; to first order it fails there by $n^{-1/2}$.

    Example:
        >>> from scalewise.scaling import shallow
        >>> [r.id for r in shallow.regions() if r.dimension == 0]
        ['R6', 'R10', 'R12']
    """
    return tuple(_region(*row) for row in _TABLE)


@checked
def region(q_sigma: Exponent, q_tilde: Exponent) -> Region:
    r"""The region of a point of the band of dynamical stability, $-\frac12\le q_\sigma+\tilde q\le0$.

    Args:
        q_sigma: $q_\sigma$, exponent of the output's multiplier.
        q_tilde: $\tilde q$, exponent of both learning rates.

    Raises:
        ValueError: If the point lies outside the band, or an exponent is not a finite number.

    Source: Golikov, Propositions 1 and 3.

    Example:
        >>> from scalewise.scaling import shallow
        >>> str(shallow.region("-1/2", 0)), str(shallow.region(-1, 1))
        ('R6 (neural tangent)', 'R12 (mean field)')
    """
    q, tilde = q_sigma, q_tilde
    s = q + tilde
    if not -_HALF <= s <= 0:
        side, fate = (
            ("below", "training changes outputs by a vanishing part of what they start with")
            if s < 0
            else ("above", "each step moves the weights by a growing power of the width")
        )
        raise ValueError(
            f"The point ({q}, {tilde}) lies {side} the band of dynamical stability, "
            f"-1/2 <= q_sigma + q_tilde <= 0: there q_sigma + q_tilde = {s}, and {fate}."
        )
    signs = _signs(q, tilde)
    return next(found for found in regions() if found.signs == signs)


@checked
def to_strategy(
    q_sigma: Exponent, q_tilde: Exponent, q_tilde_w: Exponent | None = None
) -> Strategy:
    r"""The strategy of depth 2 with these exponents: $a_1=b_1=b_2=0$, $a_2=-q_\sigma$, $c=-\tilde q$.

    Args:
        q_sigma: $q_\sigma$, exponent of the output's multiplier.
        q_tilde: $\tilde q$, exponent of both learning rates, or of $\hat\eta_a$ alone.
        q_tilde_w: $\tilde q_w$, exponent of $\hat\eta_w$ where it is another.

    Returns:
        $p=(0,-1-2q_\sigma)$, $q=(0,\tilde q_w-\tilde q_a+p_2)$, $r=\tilde q_w$.

    Source: Golikov (3), (7); in these letters derived.

    Example:
        >>> from scalewise.scaling import mean_field, shallow, standard
        >>> shallow.to_strategy(-1, 1) == mean_field(depth=2)
        True
        >>> shallow.to_strategy("-1/2", 1, 0).q == standard(depth=2).q
        True
    """
    q, a, w = q_sigma, q_tilde, q_tilde if q_tilde_w is None else q_tilde_w
    p = -1 - 2 * q
    return Strategy((0, p), (0, w - a + p), w, f"shallow({q}, {a}{'' if w == a else f', {w}'})")


@checked
def coordinates(strategy: Strategy) -> tuple[Fraction, Fraction, Fraction]:
    r"""$q_\sigma,\tilde q_a,\tilde q_w$ of a `strategy` of depth 2: inverse of `to_strategy`, up to a gauge.

    In the plane $\tilde q_a=\tilde q_w$: there both layers contribute to the NTK at the same order.

    Raises:
        ValueError: If the strategy has another depth, or scales the initialisation of its first layer.

    Example:
        >>> from scalewise.scaling import mup, shallow
        >>> [str(x) for x in shallow.coordinates(mup(depth=2))]
        ['-1', '1', '1']
    """
    if strategy.depth != 2:
        raise ValueError(
            f"These coordinates are those of one hidden layer, depth 2; {strategy} has depth "
            f"{strategy.depth}. Take strategy.at_depth(2)."
        )
    (first, p), (q_w, q_a), r = strategy.p, strategy.q, strategy.r
    if first != 0:
        raise ValueError(
            f"{strategy} has p_1 = {first}: its hidden preactivations grow or vanish with the width, which "
            "these coordinates cannot say. Take p_1 = 0."
        )
    return -(p + 1) * _HALF, r - q_a + p, r - q_w


@checked
def deep_strategy(q: Exponents, q_tilde: Exponents, *, name: str = "hatted") -> Strategy:
    r"""The strategy of any depth with $W^{(\ell)}=\sigma_\ell\hat w^{(\ell)}$, $\hat w$ of order one.

    $\sigma_\ell\propto n^{q_\ell}$ and learning rates $\propto n^{\tilde q_\ell}$ of $\hat w^{(\ell)}$ are
    $a_\ell=-q_\ell-\frac12\tilde q_\ell$, $b_\ell=\frac12\tilde q_\ell$, $c=0$.

    Args:
        q: $q_1,\dots,q_L$.
        q_tilde: $\tilde q_1,\dots,\tilde q_L$.
        name: For messages and figures.

    Raises:
        ValueError: If an exponent is not a finite number, the two differ in length, or there is one layer.

    Source: Golikov, App. H, for the letters; the bridge derived. The mean-field proposal there, $q=-1$ and
        $\tilde q=2$ in hidden layers, is not stable at initialisation: its preactivations vanish.

    Example:
        >>> from scalewise.scaling import mup, shallow
        >>> shallow.deep_strategy((0, "-1/2", -1), (1, 1, 1)).equivalent(mup())
        True
    """
    own, rates = check_rows(q=q, q_tilde=q_tilde)
    a = [-x - rate * _HALF for x, rate in zip(own, rates, strict=True)]
    return ABC(a, [rate * _HALF for rate in rates], 0, name).to_strategy()


def _signs(q: Fraction, tilde: Fraction) -> tuple[int, int, int, int]:
    s = q + tilde
    A, B, C, S = ((x > 0) - (x < 0) for x in (q + _HALF, 2 * q + tilde + 1, s + _HALF, s))
    return A, B, C, S


def _region(id: str, name: str, point: Any, conditions: Any, verdict: str) -> Region:
    representative = Fraction(point[0]), Fraction(point[1])
    signs = _signs(*representative)
    satisfied = tuple(i for i, sign in enumerate(signs, 1) if sign == 0)
    # Two lines at least meet in a point; three do where the third passes through it.
    dimension = 2 - min(len(satisfied), 2)
    return Region(
        id=id,
        name=name,
        dimension=dimension,
        signs=signs,
        conditions=conditions,
        satisfied=satisfied,
        representative=representative,
        verdict=verdict,
    )
