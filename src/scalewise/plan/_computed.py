r"""Weights that are computed from others: a direction and lengths, or a matrix over its largest singular value.

`weight_norm` makes $W=g\,v/\lVert v\rVert$, where a norm spans the $m$ entries that one $g$ multiplies. The
direction $v$ starts as $W$ and a step of it moves $W$ as far, $\Delta W=(g/\lVert v\rVert)\,\Delta v_\perp$: so
it takes the rule of the weight. A length is $g\sim wm^{1/2}$, with $w$ the size of the weight's entries. What it
multiplies is $\hat v\cdot x$: of order one below the readout, and $n^{p/2}$ once a readout's weights, of size
$n^{-(1+p)/2}$, are aligned with the features. A step should therefore change $g$ by a part of itself that does not
go with the width. That is the rule of a gain (one for each neuron, or a fixed number) whose code multiplies it by
the inverse of its own size; `init_` scales it along with its direction.

`spectral_norm` makes $W=V/\sigma(V)$ of largest singular value 1, whatever $V$. Entries as a plan wants them have
one of order 1 between widths, $n^{1/2}$ where a fixed number of inputs is read, and $n^{-p/2}$ at the readout:
the last two are for the forward pass to make. Only relative steps of $V$ count, and those its rule has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from scalewise.plan._decide import Decision
from scalewise.plan._description import TensorDescription
from scalewise.plan._errors import PlanError
from scalewise.plan._forward import Gauge
from scalewise.plan._growth import Growth
from scalewise.plan._powers import Powers
from scalewise.plan._roles import Role
from scalewise.plan._rules import exponents_of
from scalewise.scaling import Strategy

_HALF = Fraction(1, 2)


def of_length(init: Powers, direction: int, own: int) -> Gauge:
    """Gauge that stands for the multiplier of a length: the inverse of the length's size.

    Args:
        init: The powers of the weight's entries.
        direction: How many axes of the direction grow with the width.
        own: How many of the length do.
    """
    return Gauge(inside=-(init.of_width + _HALF * (direction - own)))


def spanned(direction: Growth, own: Growth) -> Fraction:
    """The power of the width by which the entries go that one length spans."""
    both = (direction.fan_in + direction.fan_out, own.fan_out)
    return both[0] - both[1]


def refuse_bounded(
    decisions: Iterable[Decision], strategy: Strategy, gauges: Mapping[str, Gauge]
) -> None:
    """Refuse a layer whose largest singular value stays where a plan needs it to go with the width.

    Args:
        decisions: Of all tensors.
        strategy: How to scale.
        gauges: Powers by which the model's code multiplies around tensors.

    Raises:
        PlanError: If one does, with the power of the width by which to multiply what the layer returns.
    """
    for d in decisions:
        if not d.tensor.bounded or d.role is Role.FIXED:
            continue
        found = gauges.get(d.tensor.name, Gauge())
        wanted = _HALF * (d.role is Role.INPUT) - exponents_of(strategy, d.role, d.layer)[0] / 2
        if (lacks := wanted - found.total) and not strategy.plain_biases:
            raise PlanError(
                f"`{d.tensor.owner}` divides its weights by their largest singular value, which is then 1 at every "
                f"width, and this plan needs it to go as n^({wanted}) there: multiply what `{d.tensor.owner}` "
                f"returns by (width / base width)^({lacks}), or let the layer have plain weights."
            )


def growing_axes(t: TensorDescription, wide: TensorDescription) -> int:
    """Number of axes of a tensor that differ between two widths."""
    return sum(a != b for a, b in zip(t.shape, wide.shape, strict=True))
