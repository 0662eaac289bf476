"""The strategies that have a name, each for a network of given depth.

Of depth 3 by default: a first, a hidden and a last layer, which is what a model of any depth needs.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any

from scalewise._checked import Must, checked
from scalewise.scaling._exact import Depth, fraction
from scalewise.scaling._exponents import ABC, Strategy

_HALF = Fraction(1, 2)
Metaparameter = Annotated[
    Any, Must("from 0 (neural tangent) to 1 (maximal update)", lambda s: 0 <= s <= 1, fraction)
]
UniformRate = Annotated[
    Any,
    Must("from 0 (maximal update) to 1/2 (neural tangent)", lambda r: 0 <= r <= _HALF, fraction),
]


@checked
def meta(s: Metaparameter, *, depth: Depth = 3) -> Strategy:
    r"""The meta-principled family: from neural-tangent ($s=0$) to maximal-update scaling ($s=1$).

    $$p_{\ell<L}=0,\quad p_L=s,\qquad q_{\ell<L}=0,\quad q_L=s,\qquad r=s.$$

    Per realisation it is neural-tangent scaling with the output multiplied by $n^{-s/2}$ and the
    learning rate by $n^s$.

    Args:
        s: The metaparameter, from 0 to 1.
        depth: $L$, at least 2.

    Source: Yaida (3.15)-(3.20).

    Example:
        >>> from scalewise.scaling import meta
        >>> meta("1/4", depth=3)
        Strategy(p=(0, 0, 1/4), q=(0, 0, 1/4), r=1/4)
    """
    rest = (0,) * (depth - 1)
    return Strategy((*rest, s), (*rest, s), s, f"meta(s={s})")


@checked
def ntk(*, depth: Depth = 3) -> Strategy:
    r"""Neural-tangent scaling: every exponent 0; $a_1=0$, $a_\ell=\frac12$, $b=0$, $c=0$.

    Args:
        depth: $L$, at least 2.
    """
    zeros = (0,) * depth
    return Strategy(zeros, zeros, 0, "ntk")


@checked
def mup(*, depth: Depth = 3) -> Strategy:
    r"""Maximal-update scaling, in the gauge of Yang and Hu.

    $a_1=-\frac12$, $a_\ell=0$, $a_L=\frac12$, $b_\ell=\frac12$, $c=0$; hence $p=(0,\dots,0,1)$,
    $q=(-1,\dots,-1,0)$, $r=0$. It differs from `meta` with $s=1$ by the gauge $g=1$ only.

    Args:
        depth: $L$, at least 2.

    Source: Yang & Hu, Definition 4.1; Yaida, footnote 2.
    """
    hidden = (0,) * (depth - 2)
    halves = (_HALF,) * depth
    return ABC((-_HALF, *hidden, _HALF), halves, 0, "mup").to_strategy()


@checked
def mean_field(*, depth: Depth = 3) -> Strategy:
    r"""Mean-field scaling: neural-tangent layers under an output divided by the width.

    $a_1=0$, $a_\ell=\frac12$, $a_L=1$, $b=0$, $c=-1$: the member $s=1$ of `meta`.

    Args:
        depth: $L$, at least 2.

    Source: Yaida, sec. V; for one hidden layer the mean-field limit of the literature.
    """
    hidden = (_HALF,) * (depth - 2)
    return ABC((0, *hidden, 1), (0,) * depth, -1, "mean_field").to_strategy()


@checked
def standard(*, depth: Depth = 3) -> Strategy:
    r"""Standard parametrisation with one learning rate for all parameters, whatever the width.

    $a=0$, $b_1=0$, $b_\ell=\frac12$, $c=0$; hence $p=0$, $q=(0,-1,\dots,-1)$, $r=0$, and biases are plain.
    Its outputs blow up with the width after one step.

    Args:
        depth: $L$, at least 2.
    """
    halves = (_HALF,) * (depth - 1)
    zeros = (0,) * depth
    return ABC(zeros, (0, *halves), 0, "standard", plain_biases=True).to_strategy()


@checked
def uniform(r: UniformRate, *, depth: Depth = 3) -> Strategy:
    r"""The uniform parametrisation of Yang and Hu; `meta` with $s=1-2\bar r$ up to a gauge.

    $a_1=\bar r-\frac12$, $a_\ell=\bar r$, $a_L=\frac12$, $b_\ell=\frac12-\bar r$, $c=0$.

    Args:
        r: $\bar r$, from 0 (maximal update) to 1/2 (neural tangent).
        depth: $L$, at least 2.

    Source: Yang & Hu, Theorem M.4 (G.4 of the first version); Yaida, Addendum.
    """
    hidden = (r,) * (depth - 2)
    b = (_HALF - r,) * depth
    return ABC((r - _HALF, *hidden, _HALF), b, 0, f"uniform(r={r})").to_strategy()


# As people write them, without dashes and in small letters; of depth 3, for what has no depth of its own.
_NAMED: dict[str, Callable[[], Strategy]] = {
    "mup": mup,
    "maximalupdate": mup,
    "ntk": ntk,
    "neuraltangent": ntk,
    "meanfield": mean_field,
    "standard": standard,
    "sp": standard,
}


def strategy_of(given: Any) -> Strategy:
    """A strategy, or its exponents, or the name of one or the function that makes it, if it needs nothing else.

    Raises:
        TypeError: If it is none of these.
    """
    if isinstance(given, ABC):
        return given.to_strategy()
    if isinstance(given, Strategy):
        return given
    name = given if isinstance(given, str) else getattr(given, "__name__", "")
    plain = str(name).casefold().replace("\u03bc", "mu")
    found = _NAMED.get("".join(c for c in plain if c.isalnum()))
    if found is None or (callable(given) and given not in _NAMED.values()):
        raise TypeError
    return found()
