"""The reach of coefficients of 1/n, and warnings where it is less than what is asked of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

import numpy as np
import xarray as xr

from scalewise._warn import warn
from scalewise.training._asked import Arrays, Asked
from scalewise.training._outcomes import LARGE
from scalewise.training.width._tensors import has_accuracies

VARIANCES = frozenset({"variance", "train_variance"})
_ROUNDING = 1e-9  # of a coefficient


class ExpansionWarning(UserWarning):
    """Coefficients of 1/n are given where the expansion hardly reaches."""


class AccuracyWarning(UserWarning):
    """Coefficients of 1/n are known less well than was asked."""


@contextmanager
def without_warning() -> Iterator[None]:
    """Where whoever asks tells the small parameter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExpansionWarning)
        yield


def reached(asked: Asked, values: Arrays, errors: Arrays) -> float:
    """The largest error of an outcome, relative, root mean squares."""
    shares = {}
    for name, error in errors.items():
        unit = np.max(np.abs(values[name]), initial=0.0)
        if unit:
            stated, size = (np.sqrt(np.mean((x / unit) ** 2)) for x in (error, values[name]))
            shares[name] = float(stated / size)
    worst = max(shares, key=lambda name: shares[name], default="")
    found = shares.get(worst, 0.0)
    if asked.accuracy is not None and found > asked.accuracy:
        warn(
            f"{worst!r} is known to {found:.2g} of its size, and `accuracy` asks for {asked.accuracy:g}: "
            f"{_why_not(asked)}. Its errors are in '{worst}_error'.",
            AccuracyWarning,
        )
    return found


def _why_not(asked: Asked) -> str:
    """The reason why an accuracy is not reached, a clause."""
    if not all(sigma.is_smooth for sigma in asked.net.activations):
        return "expectations of an activation with a kink are sampled"
    if not asked.algorithm.trains_hidden:
        return "neurons are sampled"
    if not has_accuracies(asked.net, asked.task.inputs):
        return "some of its expectations are sampled"
    return "neighbouring inputs, or weights as large as these, take a finer one than there is"


def warn_of_size(asked: Asked, parameter: float) -> None:
    """Warn of a learning parameter that is too large for the width."""
    n = asked.width
    if parameter > LARGE * n:
        warn(
            f"Training magnifies fluctuations of the NTK: the small parameter of this expansion is "
            f"{parameter / n:.2g} at width {n:g}, and order 1/n decides nothing beyond {LARGE:g}. Take a width of "
            f"at least {math.ceil(parameter / LARGE)}, stop training early, or give a `ridge`.",
            ExpansionWarning,
        )


def warn_of_signs(
    leading: xr.Variable,
    coefficient: xr.Variable,
    error: xr.Variable | float,
    n: float,
    power: float = 1.0,
) -> None:
    """Warn where a variance and its coefficient of 1/n add up to less than 0.

    Args:
        leading: At infinite width.
        coefficient: Of the power of 1/n.
        error: Of the coefficient.
        n: The width.
        power: 1, or 1/2.
    """
    beside, own, scale = _over(leading, coefficient.dims), coefficient.values, n**power
    added = own + (_over(error, coefficient.dims) if isinstance(error, xr.Variable) else error)
    below = beside + added / scale < -_ROUNDING * float(np.abs(own).max(initial=0.0)) / scale
    if below.any():
        known = below & (beside > 0)
        shares = -own[known] / np.broadcast_to(beside, own.shape)[known]
        needed = float(np.max(shares, initial=0.0)) ** (1 / power)
        further = (
            f"Take a width of at least {math.ceil(needed)}, or another"
            if needed
            else "Take another"
        )
        order = "1/n" if power == 1 else f"n^-{power:g}"
        warn(
            f"{int(below.sum())} of {below.size} variances are negative at width {n:g} to order {order}: "
            f"what is left at infinite width is less than what a finite width changes. {further} time to stop at.",
            ExpansionWarning,
        )


def _over(values: xr.Variable, dims: tuple[Hashable, ...]) -> np.ndarray:
    """Numbers as they meet others over these `dims`, among which are all of their own."""
    order = [values.dims.index(dim) for dim in dims if dim in values.dims]
    place = tuple(slice(None) if dim in values.dims else None for dim in dims)
    return values.values.transpose(order)[place]
