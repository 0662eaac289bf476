"""What grows with the width, and at about which width it breaks the run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scalewise._readable import readable
from scalewise.plan._fits import Fit, Status
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._rows import Row, sizes_of
from scalewise.plan._table import Plan
from scalewise.plan._verdict import grows

_AT_START = (Quantity.OUTPUT, Quantity.FEATURES, Quantity.LOGITS)
# Beside logits of this size a softmax has one answer.
_SATURATED = 10.0


@dataclass(frozen=True)
@readable
class Break:
    """Something that grows with the width.

    Args:
        place: The tensor, or the module that makes attention logits.
        module: The module that shows it.
        quantity: What of it.
        fit: By which power.
        width: Where one step at the script's own rates changes it by as much as its size (logits by one, and
            logits at initialisation have the size ten), from the sizes at the largest width by that power;
            ``None`` where that is not known.
    """

    place: str
    module: str
    quantity: Quantity
    fit: Fit
    width: float | None

    def __str__(self) -> str:
        what = {
            Quantity.OUTPUT: "what {m} returns at initialisation",
            Quantity.FEATURES: "what {m} reads at initialisation",
            Quantity.OWN_CHANGE: "what the step of `{p}` changes",
            Quantity.CHANGE: "the change of what {m} returns",
            Quantity.FEATURES_CHANGE: "the change of what {m} reads",
            Quantity.LOGITS: "the attention logits of {m} at initialisation",
            Quantity.LOGITS_CHANGE: "the change of the attention logits of {m}",
        }[self.quantity].format(p=self.place, m=f"`{self.module}`" if self.module else "the model")
        if self.fit.status is Status.DIVERGED:
            return f"{what} is not finite"
        return f"{what} grows as n^({self.fit.slope:+.2f} ± {self.fit.sem:.2f})"


def breaks_of(
    plan: Plan, measured: Measurement, rows: Iterable[Row], tolerance: float
) -> tuple[Break, ...]:
    """Quantities that grow, the first to break a run first; those that cannot be dated come by their power.

    Args:
        plan: Any plan of the model.
        measured: The sizes; its `lr` is the factor by which the script's rates were multiplied.
        rows: What may not grow.
        tolerance: How far from zero a power may be.
    """
    found = []
    for row in (r for r in rows if grows(r.fit, tolerance)):
        known = row.tensor in measured.tensors
        module = measured.modules[measured.tensors.index(row.tensor)] if known else row.tensor
        width = _width(plan, measured, row)
        found.append(Break(row.tensor, module, row.quantity, row.fit, width))
    return tuple(sorted(found, key=lambda b: (b.width or math.inf, -b.fit.slope)))


def _width(plan: Plan, measured: Measurement, row: Row) -> float | None:
    if row.fit.status is not Status.FITTED:
        return None
    attends = row.tensor not in measured.tensors
    if attends:
        sizes = measured.attention[row.tensor, row.quantity]
    else:
        sizes = sizes_of(plan, measured, row.tensor, row.quantity)
    last = _mean(sizes[-1])
    logits = attends or row.tensor in measured.readouts
    if row.quantity in _AT_START:
        known = logits and row.quantity is not Quantity.FEATURES
        return _reached(measured, row.fit, last / _SATURATED) if known else None
    # A readout that starts at zero moves first, and what lies below by a power of the rate that is not one.
    if measured.zero_readout or not measured.lr:
        return None
    if not logits or row.quantity is Quantity.FEATURES_CHANGE:
        of = Quantity.FEATURES if row.quantity is Quantity.FEATURES_CHANGE else Quantity.OUTPUT
        last /= _mean(measured.beside(row.tensor, of)[-1])
    return _reached(measured, row.fit, last / measured.lr)


def _reached(measured: Measurement, fit: Fit, last: float) -> float | None:
    """The width at which what is `last` at the largest width is one."""
    if not last > 0:
        return None
    # Without the smallest width, where corrections are largest.
    doublings = -math.log2(last) / (fit.tail if fit.tail > 0 else fit.slope)
    return float(measured.widths[-1]) * 2.0 ** min(doublings, 64.0)


def _mean(sizes: np.ndarray) -> float:
    return float(np.exp(np.mean(np.log(sizes)))) if np.all(sizes > 0) else math.nan
