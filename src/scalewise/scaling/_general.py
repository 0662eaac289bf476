r"""Maximal-update scaling of any tensor of any network, from how many of its dimensions grow."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from scalewise._checked import Must, checked
from scalewise._words import refuse_name

_HALF = Fraction(1, 2)
Growing = Annotated[int, Must("0, 1 or 2: no rule covers a size beyond n^2", lambda p: 0 <= p <= 2)]


@checked
def maximal_update_exponents(growing: Growing, role: str = "hidden") -> tuple[Fraction, Fraction]:
    r"""$(a,b)$ of one tensor at $c=0$, under maximal-update scaling by gradient descent.

    | dimensions that grow | role | examples | $a$ | $b$ |
    |---|---|---|---|---|
    | 2 | hidden | weights between hidden layers, kernels of convolutions | $0$ | $\frac12$ |
    | 1 | hidden | input weights, embeddings, hidden biases, gains | $-\frac12$ | $\frac12$ |
    | 1 | output | readout: from the width to the outputs | $\frac12$ | $\frac12$ |
    | 0 | either | output bias, scalar gain | $0$ | $0$ |

    The tensor starts with standard deviation $n^{-(a+b)}$ and its own entries, multiplier included, have
    the learning rate $n^{-2a}$. Hence matrices between hidden layers $n^{-1/2}$ and 1, vectors 1 and $n$,
    readouts $n^{-1}$ and $n^{-1}$.

    A map from the width to a fixed size in the middle of a network, a bottleneck, is outside the rule. With the
    exponents of a readout it is stable, but hands on only $n^{-1/2}$ and moves by no more in the first steps;
    started at $n^{-1/2}$ instead, it sends back gradients $n^{1/2}$ too large once what follows it has moved.

    Args:
        growing: $p$, how many of its dimensions grow with the width; its size is $n^p$.
        role: ``"output"`` for the weights and the bias that make the outputs, else ``"hidden"``.

    Raises:
        ValueError: If `growing` is not 0, 1 or 2, `role` is unknown, or both dimensions of an output grow.

    Source: Yang & Hu, appendix K.1: $b=\frac12$, $a=-1+\frac p2$, and $a=\frac12$ for output weights. For $p=0$
        that would give $a=-1$, a rate of $n^2$; a gradient with respect to such a tensor is of order one, so
        it takes $a=b=0$, as the output bias does there. The remark on bottlenecks is derived.

    Example:
        >>> from scalewise.scaling import maximal_update_exponents
        >>> [str(x) for x in maximal_update_exponents(1)]
        ['-1/2', '1/2']
    """
    if role not in ("hidden", "output"):
        refuse_name("role", role, ("hidden", "output"))
    if growing == 0:
        return Fraction(0), Fraction(0)
    if role == "output":
        if growing == 2:
            raise ValueError(
                "An output sums over one growing dimension into a fixed one, so `growing` is 1 for its "
                "weights and 0 for its bias; got 2. If both dimensions grow, its role is 'hidden'."
            )
        return _HALF, _HALF
    return growing * _HALF - 1, _HALF
