r"""The emergent scale $\gamma=L/n^{1-s}$, and the limits it distinguishes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from scalewise._checked import Must, Positive, checked
from scalewise._readable import readable
from scalewise.scaling._exact import fraction
from scalewise.scaling._strategies import Metaparameter


@checked
def gamma(L: Positive, n: Positive, s: Metaparameter) -> float:
    r"""$\gamma=L/n^{1-s}$: how far a network of depth $L$ and width $n$ learns representations.

    Args:
        L: Depth, positive.
        n: Width, positive.
        s: The metaparameter, from 0 to 1.

    Returns:
        $\gamma$, dimensionless: the order of $\eta^3\widehat{ddH}$ and of what training adds to the
        frozen NTK.

    Source: Yaida (1.1), (4.10).

    Example:
        >>> from scalewise.scaling import gamma
        >>> gamma(16, 256, 0), gamma(16, 256, "1/2"), gamma(16, 256, 1)
        (0.0625, 1.0, 16.0)
    """
    return L / n ** float(1 - s)


@checked
def depth_for_gamma(gamma: Positive, n: Positive, s: Metaparameter) -> float:
    r"""$L=\gamma\,n^{1-s}$: the depth that keeps $\gamma$ at width $n$.

    Args:
        gamma: Wanted scale, positive.
        n: Width, positive.
        s: The metaparameter, from 0 to 1.

    Returns:
        The depth, not rounded.

    Source: Yaida (4.10).

    Example:
        >>> from scalewise.scaling import depth_for_gamma
        >>> depth_for_gamma(0.5, 1024, "1/2")
        16.0
    """
    return gamma * n ** float(1 - s)


@checked
def width_for_gamma(gamma: Positive, L: Positive, s: Metaparameter) -> float:
    r"""$n=(L/\gamma)^{1/(1-s)}$: the width that keeps $\gamma$ at depth $L$.

    Args:
        gamma: Wanted scale, positive.
        L: Depth, positive.
        s: The metaparameter, at least 0 and below 1.

    Returns:
        The width, not rounded.

    Raises:
        ValueError: If a number is not positive and finite, `s` is outside [0, 1), or the width is out
            of range. At $s=1$ the scale is the depth, whatever the width.

    Source: Yaida (4.10).

    Example:
        >>> from scalewise.scaling import width_for_gamma
        >>> width_for_gamma(0.5, 16, "1/2")
        1024.0
    """
    if s == 1:
        raise ValueError(
            "`s` = 1 leaves gamma = L at every width, so no width can be chosen for it. Change the "
            "depth, or take s below 1."
        )
    try:
        return (L / gamma) ** float(1 / (1 - s))
    except OverflowError:
        raise ValueError(
            f"The width for gamma = {gamma}, L = {L}, s = {s} is out of range: s is too close to "
            "1. Change the depth instead."
        ) from None


@checked
@dataclass(frozen=True)
@readable
class AspectLimit:
    r"""Limit of networks as $n\to\infty$ with $L\propto n^e$.

    Args:
        name: ``"frozen_ntk"``, ``"infinite_width_and_depth"``, ``"mean_field"``, ``"missing"`` or
            ``"unbounded"``.
        gamma: What becomes of $\gamma$: ``"0"``, ``"finite"`` or ``"infinite"``.
        aspect_ratio: What becomes of $L/n$: ``"0"``, ``"finite"`` or ``"infinite"``.
        learns_representations: Whether features move in the limit.
        summary: One sentence.
    """

    name: str
    gamma: str
    aspect_ratio: str
    learns_representations: bool
    summary: str


_NAMED = (
    ("frozen_ntk", False, "Training is linear around initialisation: the NTK does not move."),
    (
        "infinite_width_and_depth",
        True,
        "The NTK fluctuates and moves at order L/n; small L/n is an expansion parameter.",
    ),
    (
        "mean_field",
        True,
        "Features move at order one and all differentials are coupled: no expansion in gamma.",
    ),
    (
        "missing",
        True,
        "Only gamma survives: fluctuations of order L/n vanish, the NTK moves at order gamma.",
    ),
    ("unbounded", True, "Gamma grows without bound: the expansion in differentials says nothing."),
)
LIMITS = tuple(name for name, _, _ in _NAMED)


GrowingDepth = Annotated[
    Any, Must("a power of n of at least 0, by which the depth grows", lambda e: e >= 0, fraction)
]


@checked
def limit_of(s: Metaparameter, depth_exponent: GrowingDepth = Fraction(0)) -> AspectLimit:
    r"""The limit that networks of width $n\to\infty$ and depth $L\propto n^e$ approach.

    | $s$ | $e$ | limit |
    |---|---|---|
    | $0\le s<1$ | $0\le e<1-s$ | frozen NTK, $\gamma\to0$ |
    | $0$ | $1$ | infinite width and depth, $L/n$ fixed |
    | $0<s<1$ | $1-s$ | the missing limit, $\gamma$ fixed and $L/n\to0$ |
    | $1$ | $0$ | mean field and maximal update, $\gamma=L$ |
    | any | $e>1-s$ | $\gamma\to\infty$ |

    Args:
        s: The metaparameter, from 0 to 1.
        depth_exponent: $e$, at least 0; 0 is a fixed depth.

    Source: Yaida, sec. V; growing depths with $e\ne1-s$ derived from $\gamma$.

    Example:
        >>> from scalewise.scaling import limit_of
        >>> limit_of(0).name, limit_of("1/2", "1/2").name, limit_of(1).name
        ('frozen_ntk', 'missing', 'mean_field')
    """
    power = depth_exponent - (1 - s)
    if power < 0:
        name = "frozen_ntk"
    elif power > 0:
        name = "unbounded"
    else:
        ends = {Fraction(0): "infinite_width_and_depth", Fraction(1): "mean_field"}
        name = ends.get(s, "missing")
    learns, summary = next((learns, text) for own, learns, text in _NAMED if own == name)
    return AspectLimit(name, _fate(power), _fate(depth_exponent - 1), learns, summary)


def _fate(power: Fraction) -> str:
    return "finite" if power == 0 else "0" if power < 0 else "infinite"
