"""The strategies that have a name, each for a network of given depth.

Of depth 3 by default: a first, a hidden and a last layer, which is what a model of any depth needs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from scalewise.scaling._exact import depth_of_layers, fraction
from scalewise.scaling._exponents import ABC, Strategy

__all__ = ["mean_field", "meta", "mup", "ntk", "standard", "uniform"]

_HALF = Fraction(1, 2)


def meta(s: Any, *, depth: int = 3) -> Strategy:
    r"""The meta-principled family: from neural-tangent ($s=0$) to maximal-update scaling ($s=1$).

    $$p_{\ell<L}=0,\quad p_L=s,\qquad q_{\ell<L}=0,\quad q_L=s,\qquad r=s.$$

    Per realisation it is neural-tangent scaling with the output multiplied by $n^{-s/2}$ and the
    learning rate by $n^s$.

    Args:
        s: The metaparameter, from 0 to 1.
        depth: $L$, at least 2.

    Raises:
        ValueError: If `s` is outside [0, 1] or `depth` is below 2.

    Source: Yaida (3.15)-(3.20).

    Example:
        >>> from scalewise.scaling import meta
        >>> meta("1/4", depth=3)
        Strategy(p=(0, 0, 1/4), q=(0, 0, 1/4), r=1/4)
    """
    value = metaparameter(s)
    rest = (0,) * (depth_of_layers(depth) - 1)
    return Strategy((*rest, value), (*rest, value), value, f"meta(s={value})")


def ntk(*, depth: int = 3) -> Strategy:
    r"""Neural-tangent scaling: every exponent 0; $a_1=0$, $a_\ell=\frac12$, $b=0$, $c=0$.

    Args:
        depth: $L$, at least 2.
    """
    zeros = (0,) * depth_of_layers(depth)
    return Strategy(zeros, zeros, 0, "ntk")


def mup(*, depth: int = 3) -> Strategy:
    r"""Maximal-update scaling, in the gauge of Yang and Hu.

    $a_1=-\frac12$, $a_\ell=0$, $a_L=\frac12$, $b_\ell=\frac12$, $c=0$; hence $p=(0,\dots,0,1)$,
    $q=(-1,\dots,-1,0)$, $r=0$. It differs from `meta` with $s=1$ by the gauge $g=1$ only.

    Args:
        depth: $L$, at least 2.

    Source: Yang & Hu, Definition 4.1; Yaida, footnote 2.
    """
    hidden = (0,) * (depth_of_layers(depth) - 2)
    halves = (_HALF,) * depth
    return ABC((-_HALF, *hidden, _HALF), halves, 0, "mup").to_strategy()


def mean_field(*, depth: int = 3) -> Strategy:
    r"""Mean-field scaling: neural-tangent layers under an output divided by the width.

    $a_1=0$, $a_\ell=\frac12$, $a_L=1$, $b=0$, $c=-1$: the member $s=1$ of `meta`.

    Args:
        depth: $L$, at least 2.

    Source: Yaida, sec. V; for one hidden layer the mean-field limit of the literature.
    """
    hidden = (_HALF,) * (depth_of_layers(depth) - 2)
    return ABC((0, *hidden, 1), (0,) * depth, -1, "mean_field").to_strategy()


def standard(*, depth: int = 3) -> Strategy:
    r"""Standard parametrisation with one learning rate for all parameters, whatever the width.

    $a=0$, $b_1=0$, $b_\ell=\frac12$, $c=0$; hence $p=0$, $q=(0,-1,\dots,-1)$, $r=0$, and biases are plain.
    Its outputs blow up with the width after one step.

    Args:
        depth: $L$, at least 2.
    """
    halves = (_HALF,) * (depth_of_layers(depth) - 1)
    zeros = (0,) * depth
    return ABC(zeros, (0, *halves), 0, "standard", plain_biases=True).to_strategy()


def uniform(r: Any, *, depth: int = 3) -> Strategy:
    r"""The uniform parametrisation of Yang and Hu; `meta` with $s=1-2\bar r$ up to a gauge.

    $a_1=\bar r-\frac12$, $a_\ell=\bar r$, $a_L=\frac12$, $b_\ell=\frac12-\bar r$, $c=0$.

    Args:
        r: $\bar r$, from 0 (maximal update) to 1/2 (neural tangent).
        depth: $L$, at least 2.

    Raises:
        ValueError: If `r` is outside [0, 1/2] or `depth` is below 2.

    Source: Yang & Hu, Theorem M.4 (G.4 of the first version); Yaida, Addendum.
    """
    value = fraction("r", r)
    if not 0 <= value <= _HALF:
        raise ValueError(
            f"`r` of a uniform parametrisation must lie between 0 (maximal update) and 1/2 (neural "
            f"tangent); got {value}. Outside that interval it is not stable."
        )
    hidden = (value,) * (depth_of_layers(depth) - 2)
    b = (_HALF - value,) * depth
    return ABC((value - _HALF, *hidden, _HALF), b, 0, f"uniform(r={value})").to_strategy()


def metaparameter(s: Any) -> Fraction:
    """`s` as a fraction, refused outside [0, 1]."""
    value = fraction("s", s)
    if not 0 <= value <= 1:
        raise ValueError(
            f"`s` must lie between 0 (neural tangent) and 1 (maximal update); got {value}. Below 0 "
            "outputs grow with the width, above 1 updates do."
        )
    return value
