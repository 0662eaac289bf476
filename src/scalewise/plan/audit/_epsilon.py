"""Where gradients fall below the epsilon that an optimizer compares them with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from scalewise.plan._fits import Status
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan.audit._powers import TensorPowers


@dataclass(frozen=True)
class Epsilon:
    """A tensor whose gradient falls with the width while epsilon stays.

    Args:
        tensor: Its name.
        eps: The epsilon.
        width: Where the gradient's entries are as small.
    """

    tensor: str
    eps: float
    width: float


def drowned(
    tensors: Iterable[TensorPowers], measured: Measurement, eps: Mapping[str, float], target: float
) -> tuple[Epsilon, ...]:
    """Tensors that meet epsilon before the target, the first one first.

    Args:
        tensors: Powers of each.
        measured: What they were fitted to.
        eps: By tensor; those of another optimizer are missing.
        target: The largest width that is asked about.
    """
    out = []
    for t in (t for t in tensors if t.name in eps and t.gradient.status is Status.FITTED):
        last = float(np.exp(np.mean(np.log(measured.of(t.name, Quantity.GRADIENT)[-1]))))
        if not eps[t.name] > 0:
            continue
        widest, slope = float(measured.widths[-1]), t.gradient.slope
        width = widest if last <= eps[t.name] else math.inf
        if slope < 0 and last > eps[t.name]:
            # In logarithms: a power near zero meets epsilon at no width that is a number.
            doublings = math.log2(eps[t.name] / last) / slope
            width = widest * 2.0**doublings if doublings < 64 else math.inf
        if width <= target:
            out.append(Epsilon(t.name, eps[t.name], width))
    return tuple(sorted(out, key=lambda e: e.width))
