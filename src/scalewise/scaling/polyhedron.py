r"""The stable strategies as a solid: its facets, their names, and a chart for one hidden layer.

Stable are the strategies with $A\ge\frac12$, $r\ge0$, $U\ge1$ and $A+r\ge1$. Where one of these is an equality,
training has a property that the inside lacks; outputs move on the facets $U=1$ and $A+r=1$ only, and the inside is
trivial.
"""

from __future__ import annotations

from fractions import Fraction

from scalewise._checked import checked
from scalewise.scaling._classify import classify, readout_exponents
from scalewise.scaling._exact import Exponent
from scalewise.scaling._exponents import ABC, Strategy

__all__ = ["FACETS", "chart", "facets", "from_chart", "stratum"]

FACETS = {
    "A = 1/2": "outputs start as a Gaussian process",
    "r = 0": "features move at order one",
    "U = 1": "the last weights are updated maximally",
    "A + r = 1": "the last weights are initialised maximally",
}
"""Inequalities of stability that may be equalities, and what training has there."""


@checked
def facets(strategy: Strategy) -> tuple[str, ...]:
    r"""The facets of the solid on which a stable strategy lies, in the order of `FACETS`; none inside.

    Args:
        strategy: Stable, of any depth.

    Raises:
        ValueError: If it is unstable.

    Source: Yang & Hu, Appendix M, Figure 7, for any depth.

    Example:
        >>> from scalewise.scaling import mup, ntk
        >>> from scalewise.scaling.polyhedron import facets
        >>> facets(mup()), facets(ntk())
        (('r = 0', 'U = 1', 'A + r = 1'), ('A = 1/2', 'U = 1', 'A + r = 1'))
    """
    found = classify(strategy)
    if not found.stable:
        raise ValueError(
            f"The strategy {strategy} is unstable and lies outside the solid. {' '.join(found.reasons)}"
        )
    met = (found.initial_gp, found.r == 0, found.U == 1, found.A + found.r == 1)
    return tuple(name for name, on in zip(FACETS, met, strict=True) if on)


@checked
def stratum(strategy: Strategy) -> str:
    """The name of the part of the solid in which a stable `strategy` lies.

    Returns:
        ``"feature learning"``; in the kernel regime ``"NTK limit"`` where both ways of moving the outputs are open,
        ``"GP limit"`` where only the last weights count and ``"body NTK limit"`` where only the features do; else
        ``"trivial"``.

    Raises:
        ValueError: As for `facets`.

    Source: Yang & Hu, Appendix M, Figure 7.

    Example:
        >>> from scalewise.scaling import ABC, uniform
        >>> from scalewise.scaling.polyhedron import stratum
        >>> stratum(uniform("1/4")), stratum(ABC((0, 0), (0, "1/2"), 1).to_strategy())
        ('NTK limit', 'GP limit')
    """
    met = facets(strategy)
    readout, body = "U = 1" in met, "A + r = 1" in met
    if not (readout or body):
        return "trivial"
    if "r = 0" in met:
        return "feature learning"
    return {(True, True): "NTK limit", (True, False): "GP limit", (False, True): "body NTK limit"}[
        readout, body
    ]


@checked
def chart(strategy: Strategy) -> tuple[Fraction, Fraction, Fraction]:
    r"""$(a_1,a_2,b_2)$ of a strategy with one hidden layer, in the gauge $c=0$, where $b_1=-a_1$.

    $$a_1=\frac{r-\min(A,U)}2,\qquad a_2=\frac U2,\qquad b_2=A-\frac U2 .$$

    Args:
        strategy: With two layers of weights, its first layer stable at initialisation.

    Returns:
        Exact; the same for every gauge.

    Raises:
        ValueError: If it has more layers, or its first preactivations grow or vanish.

    Source: Yang & Hu, Appendix M, Figure 7; right-hand forms derived.

    Example:
        >>> from scalewise.scaling import mup, ntk
        >>> from scalewise.scaling.polyhedron import chart
        >>> [str(x) for x in chart(mup(depth=2))], [str(x) for x in chart(ntk(depth=2))]
        (['-1/2', '1/2', '1/2'], ['0', '1/2', '0'])
    """
    if strategy.depth != 2 or strategy.p[0] != 0:
        raise ValueError(
            f"The chart is of strategies with one hidden layer, a_1 + b_1 = 0; got {strategy} with "
            f"{strategy.depth} layers and a_1 + b_1 = {strategy.p[0] / 2}."
        )
    A, U = readout_exponents(strategy)
    return (classify(strategy).r - min(A, U)) / 2, U / 2, A - U / 2


@checked
def from_chart(a_1: Exponent, a_2: Exponent, b_2: Exponent) -> Strategy:
    r"""The strategy at a point of the `chart`: $(a_1,a_2)$, $(-a_1,b_2)$, $c=0$.

    Example:
        >>> from scalewise.scaling import mup
        >>> from scalewise.scaling.polyhedron import from_chart
        >>> from_chart("-1/2", "1/2", "1/2").equivalent(mup(depth=2))
        True
    """
    return ABC((a_1, a_2), (-a_1, b_2), 0).to_strategy()
