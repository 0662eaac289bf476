r"""Read-outs carried back through the layers: how kernel and NTK at the end answer to averages on the way.

With $g$ the slope of a read-out in $\Sigma$ of a layer, $\bar g=C_W\sum_\tau B_\tau^TgB_\tau$ is that in the
averages that it reads, and below an activation
$$\hat g_{st}=\bar g_{st}M_{11},\qquad
  \hat g_{ss}\mathrel{+}=\tfrac12\sum_t\bar g_{st}M_{20}+\tfrac12\sum_t\bar g_{ts}M_{02}.$$
Of the NTK, with slopes $g$ in $\Theta$ and $e$ in $\Sigma$, $\bar e=\sum_\tau B_\tau^T(C_We+\lambda_Wg)B_\tau$, and
the product $\bar g\Theta$ answers with $M_{22}$, $M_{31}$, $M_{13}$ beside it. Slopes in $\Theta$, in averages of a
field and a tangent, and of two tangents are $\hat g$ again; the second has twice the part of one input alone.

Source: derived; the adjoint of `scalewise.theory.order._readers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.theory.order._forms import Form, Own, summed
from scalewise.theory.order._layout import Hop, Strip
from scalewise.theory.order._strips import Kernels, Moments

Slope = tuple[Float[np.ndarray, "_other _label"], Float[np.ndarray, "_other _label"]]
_Slopes = tuple[Form, Form | None]  # of the metric and of the NTK in the covariances of one layer
_OF_METRIC = ((1, 1), (2, 0), (0, 2))
_OF_NTK = ((2, 2), (3, 1), (1, 3))


@dataclass(frozen=True)
class Reading:
    """Forms of read-outs in one layer that they depend on, for one input and all later ones.

    Args:
        hop: The layer.
        above: The same of what each of its taps sees, of the metric and of the NTK.
        metric: Forms of activations.
        metric_below: The same of preactivations.
        ntk: Of the NTK, forms of activations.
        ntk_below: Of preactivations.
        slopes: Forms of their derivatives, across.
        linear: What is linear in preactivations, in the metric and in the NTK; nothing where it is 0 or not known.
    """

    hop: Hop
    above: tuple[Form, Form | None]
    metric: Form
    metric_below: Form
    ntk: Form | None = None
    ntk_below: Form | None = None
    slopes: Strip | None = None
    linear: tuple[Slope | None, Slope | None] = (None, None)


def _plus(one: _Slopes, other: _Slopes | None) -> _Slopes:
    """The sum of slopes."""
    if other is None:
        return one
    metric, (ntk, more) = one[0].plus(other[0]), (one[1], other[1])
    return metric, None if ntk is None or more is None else ntk.plus(more)


def readings(known: Kernels, end: int, a: int, *, ntk: bool) -> Iterator[Reading]:
    """Every layer that read-outs of a layer of one site depend on, from the last on.

    Args:
        known: The network at infinite width.
        end: The layer.
        a: The first input of all read-outs.
        ntk: Whether those of the NTK are wanted.
    """
    own = known.layout
    count, thin = own.inputs - a, own.is_thin
    seed = Form(np.ones((1, count)), Own.nothing(count, 1, thin=thin))
    nothing = Form(np.zeros((1, count)), Own.nothing(count, 1, thin=thin))
    slopes: dict[int, _Slopes] = {
        j: (seed.back(lift, a), nothing.back(lift, a) if ntk else None)
        for j, lift in own.moving(end).items()
    }
    for hop in reversed(own.hops):
        if hop.draw not in slopes:
            continue
        found = _read(known, hop, slopes.pop(hop.draw), a)
        yield found
        for j, lift in hop.lifts.items():
            if j not in own.course.first:
                below = None if found.ntk_below is None else found.ntk_below.back(lift, a)
                slopes[j] = _plus((found.metric_below.back(lift, a), below), slopes.get(j))


def _read(known: Kernels, hop: Hop, at: _Slopes, a: int) -> Reading:
    (of_metric, slopes_of_ntk), linear = at, _has_linear(known, hop)
    ntk = slopes_of_ntk is not None
    orders = (*_OF_METRIC, *(_OF_NTK if ntk else ()))
    if linear:
        orders = (*orders, (1, 0), (0, 1), *(((2, 1), (1, 2)) if ntk else ()))
    M, rates = known.moments(hop, a, orders), hop.node.own
    carried = of_metric.back(hop.taps, a)
    metric = carried.times(rates.C_W)
    found = Reading(
        hop=hop,
        above=(of_metric.times(rates.C_W), None),
        metric=metric,
        metric_below=_answered(known, hop, a, metric, M, None),
        linear=(_slopes(known, hop, a, metric, M, None) if linear else None, None),
    )
    if slopes_of_ntk is None:
        return found
    back = slopes_of_ntk.back(hop.taps, a)
    # Slopes in Theta have no parts of one input alone.
    across = rates.C_W * back.across + rates.lambda_W * carried.across
    of_ntk = Form(across, back.own.times(rates.C_W))
    above = slopes_of_ntk.times(rates.C_W)
    above = Form(above.across + rates.lambda_W * of_metric.across, above.own)
    slopes = metric.across * known.strip(known.Theta, hop.lifts, a)
    return Reading(
        hop=hop,
        above=(found.above[0], above),
        metric=metric,
        metric_below=found.metric_below,
        ntk=of_ntk,
        ntk_below=_answered(known, hop, a, of_ntk, M, slopes),
        slopes=slopes,
        linear=(found.linear[0], _slopes(known, hop, a, of_ntk, M, slopes) if linear else None),
    )


def _has_linear(known: Kernels, hop: Hop) -> bool:
    """True if forms of a layer have a linear part that is known."""
    sigma = known.layout.course.populations[hop.root].sigma
    return not sigma.parity and known.is_series(hop)


def _answered(
    known: Kernels, hop: Hop, a: int, form: Form, M: Moments, slopes: Strip | None
) -> Form:
    """Slopes in the covariances of preactivations."""
    across, left, right = (
        form.across * M[1, 1],
        form.across * M[2, 0],
        form.across * M[0, 2],
    )
    if slopes is not None:
        across += slopes * M[2, 2]
        left += slopes * M[3, 1]
        right += slopes * M[1, 3]
    own = form.own.answered(a, lambda b, pq: _own_moment(known, hop, b, pq, form.own))
    return Form(across, own.with_diagonals(0.5 * summed(left)[0], 0.5 * summed(right)[1]))


def _slopes(
    known: Kernels, hop: Hop, a: int, form: Form, M: Moments, slopes: Strip | None
) -> Slope:
    """The linear part of forms."""
    left, right = form.across * M[1, 0], form.across * M[0, 1]
    if slopes is not None:
        left += slopes * M[2, 1]
        right += slopes * M[1, 2]
    first, second = form.own.slopes(a, lambda b, pq: _own_moment(known, hop, b, pq, form.own))
    return first + summed(left)[0], second + summed(right)[1]


def _own_moment(known: Kernels, hop: Hop, b: int, pq: tuple[int, int], own: Own) -> np.ndarray:
    """A moment of one input with itself: at equal labels, or between all of them."""
    size = len(hop.at)
    if own.first.ndim == 2:
        return known.at_equal(hop, *pq)[b * size : (b + 1) * size]
    return known.own_moments(hop, b)[pq]
