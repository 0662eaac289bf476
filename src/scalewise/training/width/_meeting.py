"""The width at which trained networks meet a loss."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import xarray as xr

from scalewise._checked import Must, Positive, checked
from scalewise._readable import readable

_NEEDED = ("test_loss", "test_loss_nlo", "learning_parameter")
WithLoss = Annotated[
    xr.Dataset,
    Must(
        "what `predict_training` returned, with 'test_loss', 'test_loss_nlo' and 'learning_parameter'",
        lambda data: all(name in data for name in _NEEDED),
    ),
]


@readable
class MeetingWidth(NamedTuple):
    r"""Widths of the last hidden layer at which a loss is met, from order 1/n alone.

    Args:
        least: Smallest such width; 0 if narrow networks meet it as well.
        most: Largest such width; infinite if wide networks meet it as well.
        small_parameter: Learning parameter divided by the binding width; the neglected relative error of the loss
            is about its square.
    """

    least: float
    most: float
    small_parameter: float


@checked
def width_for_loss(found: WithLoss, loss: Positive) -> MeetingWidth:
    r"""The widths at which the mean test loss, $L_0+L_1/n$, is at most a given one.

    Wide networks meet a loss above $L_0$, narrow ones may be worse or better: the sign of $L_1$ tells. All widths
    are in the ratios of the network that was predicted.

    Args:
        found: What `predict_training` returned, at one time.
        loss: The largest expected half square of the error, summed over outputs and averaged over test samples.

    Returns:
        The range of widths, and how small the small parameter is at its end. Above 1/2 the expansion tells nothing
        there.

    Raises:
        ValueError: If the result has several times, or no width meets the loss.

    Source: PDLT (∞.171), (∞.172), (10.52).

    Example:
        >>> import scalewise as sw
        >>> from scalewise.training import width_for_loss
        >>> net = sw.MLP(2, 200, "tanh", input_dim=2, output_dim=1, C_b=0.1)
        >>> task = sw.Task([[1.0, 0.0], [0.2, 0.9]], [1, -1], test_inputs=[[0.5, 0.5]], test_targets=[0])
        >>> names = ["test_loss", "test_loss_nlo", "learning_parameter"]
        >>> found = sw.predict_training(net, task, observables=names)
        >>> round(width_for_loss(found, 0.9 * found.test_loss.item()).most)  # here narrow ones are better
        11
    """
    if "time" in found.test_loss.dims:
        raise ValueError("`found` must be at one time; select it with found.isel(time=...).")
    first, slope = (float(found[name].mean()) for name in ("test_loss", "test_loss_nlo"))
    parameter = float(found.learning_parameter)
    if slope > 0 and loss <= first:
        raise ValueError(
            f"`loss` must be above {first:.6g}, that of networks of infinite width, for here narrower ones are "
            f"worse; got {loss:g}."
        )
    bound = slope / (loss - first) if loss != first else math.inf
    if slope <= 0 and loss >= first:
        return MeetingWidth(0.0, math.inf, 0.0)
    least, most = (bound, math.inf) if slope > 0 else (0.0, bound)
    return MeetingWidth(least, most, parameter / bound if bound else math.inf)
