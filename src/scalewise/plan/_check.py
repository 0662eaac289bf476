"""A measurement beside its plan: verdict, table, text, picture, and a word for CI."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from scalewise._extras import require
from scalewise._readable import Rows, readable
from scalewise.plan._depth import DepthCheck
from scalewise.plan._diagnosis import Culprit
from scalewise.plan._errors import PlanError
from scalewise.plan._fits import Status, power_law
from scalewise.plan._growth import written
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._names import pattern
from scalewise.plan._roles import Role
from scalewise.plan._rows import JUDGED, Row, from_loss, sizes_of
from scalewise.plan._table import Plan
from scalewise.plan._verdict import Verdict
from scalewise.scaling import classify

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


_COLUMNS = {
    Quantity.WEIGHT: "init",
    Quantity.RATE: "lr",
    Quantity.OWN_CHANGE: "own change",
    Quantity.OUTPUT: "output",
    Quantity.CHANGE: "change",
}
_READ = {Quantity.FEATURES: "output", Quantity.FEATURES_CHANGE: "change"}
# Longer tables show one line for all layers of a kind.
_LINES = 30
_REASONS = 4
_CURVED, _BENT = 0.1, 0.25


@dataclass(frozen=True)
@readable
class Check:
    """Scaling of real networks with the width, beside what was planned.

    Args:
        plan: What was planned.
        measured: The sizes that were measured.
        tolerance: How far from the prediction a power may be beyond its error.
        rows: Every quantity of every tensor, predicted and fitted.
        verdict: Stable or not, and the regime: from the measurement alone.
        culprits: What does not scale as planned of itself, tensors or the network as a whole; what only
            follows is not among them. There is one whenever a power or the verdict is not as planned, something
            grows with the depth, or what the verdict rests on was not seen.
        attention: The same rows for attention logits, by the modules that make them.
        returned: The same for what the model returns, where no tensor reads out.
        depth: What was found over depths, if any were asked for.
    """

    plan: Plan
    measured: Measurement
    tolerance: float
    rows: tuple[Row, ...] = field(repr=False)
    verdict: Verdict
    culprits: tuple[Culprit, ...]
    attention: tuple[Row, ...] = field(default=(), repr=False)
    returned: tuple[Row, ...] = field(default=(), repr=False)
    depth: DepthCheck | None = None

    @property
    def ok(self) -> bool:
        """True if nothing grows with width or depth and nothing is to blame: powers and regime are as planned.

        What was not measured is not ok, where the verdict rests on it.
        """
        return self.verdict.stable and not self.culprits

    @cached_property
    def table(self) -> xr.Dataset:
        """The check as a Dataset over tensor and quantity, and sizes over width and seed as well.

        ``predicted`` and ``predicted_least``, ``slope`` with ``slope_sem``, ``curvature`` with ``curvature_sem``,
        ``agrees`` and ``status``, and ``size`` itself. Slopes are NaN where ``status`` is not ``"fitted"``, and
        infinite where it is ``"diverged"``.
        """
        return _table(self)

    def role(self, tensor: str) -> str:
        """Role of a `tensor` where it was measured: a tied one reads out under its name there."""
        return str(Role.OUTPUT if tensor in self.measured.readouts else self.plan[tensor].role)

    @property
    def consequences(self) -> tuple[Row, ...]:
        """Deviations that may follow from a culprit."""
        causes = [c.row for c in self.culprits]
        return tuple(r for r in self.rows if not r.agrees and r not in causes)

    def row(self, tensor: str, quantity: str) -> Row:
        """Row of one `quantity` of one `tensor`.

        Raises:
            PlanError: If there is none of that name.
        """
        known = {(r.tensor, str(r.quantity)): r for r in self.rows}
        if (tensor, str(quantity)) not in known:
            raise PlanError(
                f"This check has no quantity {str(quantity)!r} of `{tensor}`. It has "
                f"{', '.join(repr(str(q)) for q in JUDGED)} of "
                f"{', '.join(f'`{t}`' for t in self.measured.tensors)}."
            )
        return known[tensor, str(quantity)]

    def assert_ok(self) -> None:
        """Pass if every power is as planned and nothing grows with the width; for a test of your own.

        Raises:
            AssertionError: If not: which tensor is off, in what, by which power of the width.
        """
        if not self.ok:
            raise AssertionError("\n".join(_wrong(self)))

    def plot(self) -> Figure:
        """Sizes over the width for each kind of module, with the predicted powers as lines."""
        require("matplotlib", for_="`Check.plot`", extra="report")
        from scalewise.plan._picture import draw

        roles = {name: self.role(name) for name in self.measured.tensors}
        return draw(self.plan, self.measured, self.rows, roles, _headline(self))

    def _told(self) -> list[str | Rows]:
        return _lines(self)


def _table(check: Check) -> xr.Dataset:
    import xarray as xr  # here, because its import takes longer than many a plan

    plan, measured, rows = check.plan, check.measured, check.rows
    shape = (len(measured.tensors), len(JUDGED))

    def grid(values: list[float]) -> tuple[tuple[str, str], np.ndarray]:
        return ("tensor", "quantity"), np.array(values).reshape(shape)

    found = [r.fit.status in (Status.FITTED, Status.DIVERGED) for r in rows]

    def fitted(values: list[float]) -> tuple[tuple[str, str], np.ndarray]:
        return grid([v if ok else math.nan for v, ok in zip(values, found, strict=True)])

    sizes = [sizes_of(plan, measured, n, q) for n in measured.tensors for q in JUDGED]
    cube = np.array(sizes).reshape(*shape, len(measured.widths), measured.seeds)
    return xr.Dataset(
        {
            "predicted": fitted([float(r.predicted) for r in rows]),
            "predicted_least": fitted([float(r.least) for r in rows]),
            "slope": fitted([r.fit.slope for r in rows]),
            "slope_sem": fitted([r.fit.sem for r in rows]),
            "curvature": fitted([r.fit.curvature for r in rows]),
            "curvature_sem": fitted([r.fit.curvature_sem for r in rows]),
            "agrees": (
                ("tensor", "quantity"),
                np.array([r.agrees for r in rows]).reshape(shape),
            ),
            "status": (
                ("tensor", "quantity"),
                np.array([str(r.fit.status) for r in rows]).reshape(shape),
            ),
            "size": (("tensor", "quantity", "width", "seed"), cube),
            "nonlinearity": ("width", measured.nonlinearity),
        },
        coords={
            "tensor": list(measured.tensors),
            "quantity": [str(q) for q in JUDGED],
            "width": measured.widths,
            "module": ("tensor", list(measured.modules)),
            "role": ("tensor", [check.role(n) for n in measured.tensors]),
        },
        attrs={"steps": measured.steps, "tolerance": check.tolerance},
    )


def _headline(check: Check) -> str:
    if check.ok:
        return f"{check.verdict}; as planned"
    found = [f"{c.cause} of {c.tensor} off by n^({c.power:+.2f})" for c in check.culprits[:2]]
    return "; ".join([str(check.verdict), *(found or ["as planned"])])


def _lines(check: Check) -> list[str | Rows]:
    """Lines of a check."""
    return [
        *_head(check),
        "",
        _grid(check),
        *_attention(check),
        *_returned(check),
        "",
        *check.verdict.reasons[:_REASONS],
        *_wrong(check),
        *_notes(check),
    ]


def _head(check: Check) -> list[str]:
    m, plan = check.measured, check.plan
    lr = "with the user's setup" if m.lr is None else f"learning rate {m.lr:.2g} at the base"
    widths = ", ".join(f"{w:g}" for w in m.widths)
    steps = f"{m.steps} step{'s' if m.steps > 1 else ''}"
    return [
        f"measured: {check.verdict}",
        f"planned:  {classify(plan.strategy)} ({plan.strategy} with {plan.optimizer})",
        f"{plan.width_name} {widths}; {m.seeds} seeds, {steps}, {lr}",
    ]


def _wrong(check: Check) -> list[str]:
    if check.ok:
        return ["Every power is as planned."]
    out = [str(c) for c in check.culprits]
    follows = check.consequences
    if follows and check.culprits:
        named = list(dict.fromkeys(f"`{r.tensor}` ({_noun(r)})" for r in follows))
        more = f" and {len(named) - 6} more" if len(named) > 6 else ""
        out.append(f"What may follow from that: {', '.join(named[:6])}{more}.")
    if not check.verdict.stable:
        how = "" if check.culprits else f", as {check.plan.strategy} is known to be"
        out.append(f"The network is unstable{how}: {check.verdict.reasons[0]}")
    return out


def _attention(check: Check) -> list[str]:
    """A line for each kind of attention."""
    lines: dict[str, list[str]] = {}
    for row in check.attention:
        if row.fit.status is not Status.ABSENT:
            lines.setdefault(row.tensor, []).append(f"{_noun(row)} {_cell(row)}")
    return [f"attention of `{n or 'the model'}`: {', '.join(cells)}" for n, cells in lines.items()]


def _returned(check: Check) -> list[str]:
    """A line for what the model returns in place of a readout."""
    cells = [f"{_noun(r)} {_cell(r)}" for r in check.returned if r.fit.status is not Status.ABSENT]
    return [f"what {check.measured.whole} returns: {', '.join(cells)}"] if cells else []


def _noun(row: Row) -> str:
    return str(row.quantity).replace("_", " ")


def _grid(check: Check) -> Rows:
    head = ("tensor", "role", *_COLUMNS.values())
    table: list[tuple[str, ...]] = []
    for name in check.measured.tensors:
        rows = {q: check.row(name, q) for q in (*_COLUMNS, *_READ)}
        if name in check.measured.readouts:
            cells = {title: _cell(rows[q]) for q, title in _READ.items()}
            table.append(("(what it reads)", "", *(cells.get(t, "") for t in _COLUMNS.values())))
        role = check.role(name)
        table.append((name, role, *(_cell(rows[q]) for q in _COLUMNS)))
    if len(table) > _LINES:
        table = _merged(table)
    return Rows(head, table)


def _merged(table: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Line for all tensors that differ by layer numbers only: the first, unless one is off."""
    groups: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for line in table:
        groups.setdefault((pattern(line[0]), line[1]), []).append(line)
    out = []
    for (name, role), lines in groups.items():
        off = [line for line in lines if any("!" in cell for cell in line)]
        label = f"{name} ({len(lines)})" if len(lines) > 1 else lines[0][0]
        out.append((label, role, *(off or lines)[0][2:]))
    return out


def _cell(row: Row) -> str:
    if row.fit.status is Status.ABSENT:
        return ""
    if row.fit.status is not Status.FITTED:
        return f"{row.fit.status}{'' if row.agrees else ' !'}"
    bound = "≤" if row.least == float("-inf") else ""
    planned = f"{bound}{written(row.predicted)}"
    return f"{row.fit.slope:+.2f}±{row.fit.sem:.2f} [{planned}]{_mark(row)}"


def _mark(row: Row) -> str:
    return " !" if not row.agrees else " ~" if row.only_just else ""


def _notes(check: Check) -> list[str]:
    m, out = check.measured, []
    still = [
        r.tensor for r in check.rows if r.quantity is Quantity.RATE and r.fit.status is Status.ZERO
    ]
    if still:
        more = " (steps=2 would show more)" if m.steps == 1 else ""
        out.append(
            f"Rounding apart, {', '.join(f'`{t}`' for t in still)} did not move: what follows starts at "
            f"zero{more}, or takes it out as a norm does with a bias."
        )
    if any(r.only_just for r in check.rows):
        out.append(
            "~: with so few entries no spread is certain, and plan.init_ leaves it as drawn."
        )
    driven = power_law(m.widths, from_loss(check.plan, m))
    if driven.slope > check.tolerance + driven.error:
        out.append(
            "What follows the readout divides its small size out, as a norm does: until the readout has grown in "
            f"its first steps, gradients are larger by n^({driven.slope:+.2f} ± {driven.sem:.2f}), as is the step "
            "of what the model returns. Warm up, and let the optimizer forget the first gradients soon (beta2)."
        )
    settling = [r for r in check.rows if r.settles]
    if settling:
        named = ", ".join(f"`{r.tensor}` ({_noun(r)})" for r in settling[:4])
        out.append(f"Off over these widths, but right at the largest: {named}.")
    curved = [r for r in check.rows if abs(r.fit.curvature) > _CURVED + 3 * r.fit.curvature_sem]
    if curved:
        worst = max(curved, key=lambda r: abs(r.fit.curvature))
        out.append(
            f"Over these widths {len(curved)} sizes are not pure powers of the width; the most bent is the "
            f"{_noun(worst)} of `{worst.tensor}`, whose power changes by {2 * worst.fit.curvature:+.2f} at "
            "each doubling."
        )
    bend = max((float(b) for b in m.nonlinearity if b == b), default=0.0)
    if bend > _BENT:
        out.append(
            f"The response is not linear in the step ({bend:.0%} of it is not): powers hold for this "
            "learning rate only. A smaller one shows the plan's."
        )
    if m.precision > 1e-4:
        out.append(
            "The model computes in low precision, and rounding is not far below the changes; build it in "
            "float32 for the check."
        )
    return out
