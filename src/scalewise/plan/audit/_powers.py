r"""The abc of a script: by tensor the powers of the width of its initialisation, multiplier and learning rate.

A weight that acts as $n^{-a}w$ with entries of size $n^{-b}$, learnt at the rate $n^{-c}$, is said here by the
powers themselves: multiplier $-a$, initialisation $-b$, rate $-c$. The rate is read from the parameter groups, so
it is exact; the multiplier is what the forward pass was seen to multiply by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from scalewise._readable import readable
from scalewise.plan._fits import Fit, Status, power_law
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._roles import Role
from scalewise.plan._rows import Row, sizes_of
from scalewise.plan._table import Plan

_SEEN = (
    Quantity.OWN_CHANGE,
    Quantity.OUTPUT,
    Quantity.CHANGE,
    Quantity.FEATURES,
    Quantity.FEATURES_CHANGE,
)
# No two rules differ by less than a quarter: half of that parts them.
APART = 0.125
_LOGITS = (Quantity.LOGITS, Quantity.LOGITS_CHANGE)


@dataclass(frozen=True)
@readable
class TensorPowers:
    r"""Powers of the width of one tensor, each $n^{\text{slope}}$ with a standard error over seeds.

    Args:
        name: Its name; of a tied one that where it acts.
        role: What it is to the width.
        module: The module that shows what it does; empty if none does.
        init: Of the spread it starts with: $-b$.
        multiplier: Of what the model's own code multiplies it by: $-a$; ``None`` where that was not seen.
        rate: Of its learning rate in the optimizer's groups: $-c$; `zero` where it is not trained.
        gradient: Of its gradient's entries at the first step.
        step: Of its entries' change by one step.
        own_change: Of what that step adds to the output of its module; inside the network beside the size of
            that output, which a norm or the next layer sees.
        output: Of what its module returns at initialisation.
    """

    name: str
    role: Role
    module: str
    init: Fit
    multiplier: Fraction | None
    rate: Fit
    gradient: Fit
    step: Fit
    own_change: Fit
    output: Fit

    @property
    def grown(self) -> bool:
        """True if what its module returns at initialisation grows with the width."""
        return self.output.status is Status.FITTED and self.output.slope > APART + self.output.error


def powers_of(
    plan: Plan, measured: Measurement, rates: Sequence[Mapping[str, float]]
) -> tuple[TensorPowers, ...]:
    """The powers of all tensors, in the order of the forward pass.

    Args:
        plan: Any plan of the model, for roles and for the multipliers in its code.
        measured: Sizes over widths and seeds.
        rates: For each width the learning rate of every tensor; a tensor that is in no group is missing.
    """
    out = []
    for name, module in zip(measured.tensors, measured.modules, strict=True):
        tensor = plan[name]
        role = Role.OUTPUT if name in measured.readouts else tensor.role

        def fit(quantity: Quantity, name: str = name) -> Fit:
            return power_law(measured.widths, sizes_of(plan, measured, name, quantity))

        rate = np.array([[of.get(name, 0.0)] * 2 for of in rates])
        out.append(
            TensorPowers(
                name,
                role,
                module,
                init=fit(Quantity.WEIGHT),
                multiplier=tensor.gauge.total if plan.looked else None,
                rate=power_law(measured.widths, rate),
                gradient=fit(Quantity.GRADIENT),
                step=fit(Quantity.STEP),
                own_change=power_law(measured.widths, _relative(plan, measured, name)),
                output=power_law(measured.widths, measured.beside(name, Quantity.OUTPUT)),
            )
        )
    return tuple(out)


def _relative(plan: Plan, measured: Measurement, name: str) -> Float[np.ndarray, "width seed"]:
    """Change by a tensor's own step, as a part of the size of what its module returns.

    Of a readout it is the change itself, since a loss does not know how large outputs were; so too of a module that
    returns zero at initialisation.
    """
    change = sizes_of(plan, measured, name, Quantity.OWN_CHANGE)
    size = measured.beside(name, Quantity.OUTPUT)
    return change if reads(measured, name) or not np.all(size > 0) else change / size


def reads(measured: Measurement, name: str) -> bool:
    """True if a tensor writes to the network's output: a readout or its bias."""
    module = measured.modules[measured.tensors.index(name)]
    pairs = zip(measured.tensors, measured.modules, strict=True)
    return bool(module) and any(m == module for n, m in pairs if n in measured.readouts)


def growth_rows(plan: Plan, measured: Measurement, tolerance: float) -> list[Row]:
    """Rows of sizes that may not grow with the width, as a verdict reads them."""
    zero = Fraction(0)
    rows = [
        Row(n, q, zero, zero, power_law(measured.widths, sizes_of(plan, measured, n, q)), tolerance)
        for n in measured.tensors
        for q in _SEEN
    ]
    for (place, quantity), sizes in measured.attention.items():
        if quantity in _LOGITS:
            fit = power_law(measured.widths, sizes)
            rows.append(Row(place, quantity, zero, zero, fit, tolerance))
    return [r for r in rows if r.fit.status is not Status.ABSENT]
