"""The noun: a model's signals before training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from scalewise._extras import require
from scalewise._readable import Rows, readable
from scalewise.plan.spi import pattern
from scalewise.signals._findings import Finding
from scalewise.signals._seen import Seen
from scalewise.signals._theory import Foreseen

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


_LINES = 30  # longer tables show the first, the middle and the last of all layers of a kind


@dataclass(frozen=True)
@readable
class Signals:
    """Signals and gradients of a model before it is trained, place by place.

    Args:
        rows: Every random layer, attention and residual sum in order of execution, as measured.
        foreseen: Of each what the theory says of it; ``None`` where the model was not read or the place is inside
            of a sum.
        spread: Of each by how much the logarithm of its gradient differs between draws of the model; 0 of one draw.
        findings: What is wrong, a sentence each.
        notes: What was left out and why, in sentences.
        told: What else there is to know: how much draws differ, the depth that a width bears, critical
            initialisations; in sentences.
        draws: How many draws of the model were measured.
    """

    rows: tuple[Seen, ...] = field(repr=False)
    foreseen: tuple[Foreseen | None, ...] = field(repr=False)
    spread: tuple[float, ...] = field(repr=False)
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    draws: int = 1

    @property
    def ok(self) -> bool:
        """True if there are no findings."""
        return not self.findings

    def assert_ok(self) -> None:
        """Pass if there are no findings; for a test of your own.

        Raises:
            AssertionError: If there are: all of them.
        """
        if not self.ok:
            raise AssertionError("\n".join(map(str, self.findings)))

    @cached_property
    def table(self) -> xr.Dataset:
        """All numbers as a Dataset over rows; NaN where there is none.

        ``size``, ``gradient``, ``gradient_spread``, ``influence``, correlations ``samples`` and ``positions``,
        shares ``dead``, ``saturated`` and ``largest_weight``, and of the theory ``size_theory``,
        ``samples_theory``, ``positions_theory``, ``chi_parallel``, ``chi_perp``.
        """
        import xarray as xr  # here, because its import takes longer than the report

        columns = {k: ("row", np.array(v)) for k, v in self.columns().items()}
        coords = {
            "place": ("row", [r.place for r in self.rows]),
            "what": ("row", [r.what for r in self.rows]),
        }
        return xr.Dataset(columns, coords, {"draws": self.draws})

    def columns(self) -> dict[str, list[float]]:
        """The numbers of every row by name, as `table` has them."""
        rows, theory = self.rows, self.foreseen
        return {
            "size": [r.size for r in rows],
            "size_theory": [_number(f and f.size) for f in theory],
            "samples": [_number(r.samples) for r in rows],
            "samples_theory": [_number(f and f.samples) for f in theory],
            "positions": [_number(r.positions) for r in rows],
            "positions_theory": [_number(f and f.positions) for f in theory],
            "gradient": [r.gradient for r in rows],
            "gradient_spread": list(self.spread),
            "influence": [r.influence for r in rows],
            "chi_parallel": [_number(f and f.chi_parallel) for f in theory],
            "chi_perp": [_number(f and f.chi_perp) for f in theory],
            "dead": [_number(r.units and r.units.dead) for r in rows],
            "saturated": [_number(r.units and r.units.saturated) for r in rows],
            "largest_weight": [_number(r.looks and r.looks.largest) for r in rows],
        }

    def to_dict(self) -> dict[str, Any]:
        """The report as plain numbers, text and lists, for JSON."""
        columns = self.columns()
        rows = [
            {"place": r.place, "what": r.what}
            | {k: None if math.isnan(v[i]) else v[i] for k, v in columns.items()}
            for i, r in enumerate(self.rows)
        ]
        found = [
            {k: getattr(f, k) for k in ("mistake", "place", "number", "sentence")}
            for f in self.findings
        ]
        return {
            "ok": self.ok,
            "draws": self.draws,
            "findings": found,
            "notes": [*self.notes],
            "told": [*self.told],
            "rows": rows,
        }

    def plot(self) -> Figure:
        """Sizes, correlations and gradients along the model; lines are the theory's."""
        require("matplotlib", for_="`Signals.plot`", extra="report")
        from scalewise.signals._picture import draw

        return draw(self.rows, self.findings, self.columns())

    def _told(self) -> list[str | Rows]:
        count = len(self.findings)
        head = "Nothing is wrong" if not count else f"{count} finding{'s' if count > 1 else ''}"
        draws = f"{self.draws} draws" if self.draws > 1 else "one draw"
        return [
            f"{head}: signals of {len(self.rows)} places, {draws}",
            *(f"! {f}" for f in self.findings),
            "",
            _grid(self),
            "",
            *self.told,
            *self.notes,
        ]


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _grid(signals: Signals) -> Rows:
    head = (
        "place",
        "what",
        "size",
        "theory",
        "samples alike",
        "theory",
        "positions alike",
        "theory",
        "gradient",
        "chi",
        "behind it",
    )
    kept = _kept(signals.rows)
    cells = []
    for k, row in enumerate(signals.rows):
        if k in kept:
            cells.append(
                _cells(row, signals.foreseen[k], signals.spread[k], signals.draws, kept[k])
            )
    used = [c for c in range(len(head)) if c < 3 or any(line[c] for line in cells)]
    return Rows(tuple(head[c] for c in used), [tuple(line[c] for c in used) for line in cells])


def _kept(rows: tuple[Seen, ...]) -> dict[int, int]:
    """Rows that are shown, and how many like them are left out behind each."""
    if len(rows) <= _LINES:
        return dict.fromkeys(range(len(rows)), 0)
    groups: dict[tuple[str, str], list[int]] = {}
    nth: dict[tuple[str, str], int] = {}
    for k, row in enumerate(rows):
        key = row.place, row.what
        nth[key] = nth.get(key, 0) + 1
        groups.setdefault((pattern(row.place), f"{row.what} {nth[key]}"), []).append(k)
    kept = {}
    for members in groups.values():
        shown = sorted({members[0], members[-1]})
        for k in shown:
            kept[k] = len(members) - len(shown) if k == shown[0] else 0
    return kept


def _cells(
    row: Seen, theory: Foreseen | None, spread: float, draws: int, left_out: int
) -> tuple[str, ...]:
    own = theory or Foreseen(float("nan"))
    chi = ["-" if v is None else _factor(v) for v in (own.chi_parallel, own.chi_perp)]
    gradient = f"{row.gradient:.2g}" + (
        f" x/{math.exp(spread):.2f}" if draws > 1 and row.gradient else ""
    )
    place = (row.place or "(the model)") + (f" (and {left_out} more)" if left_out else "")
    return (
        place,
        row.what,
        f"{row.size:.3g}",
        f"{own.size:.3g}" if theory else "",
        _part(row.samples),
        _part(own.samples),
        _part(row.positions),
        _part(own.positions),
        gradient,
        " ".join(chi) if chi != ["-", "-"] else "",
        _behind(row),
    )


def _factor(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _part(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _behind(row: Seen) -> str:
    if row.looks is not None:
        of_keys = f"largest weight {row.looks.largest:.2f} of {row.looks.keys:.0f}"
        return f"{of_keys}, logits' variance {row.looks.variance:.2g}"
    if row.units is None:
        return "norm" if row.normed else ""
    told = row.units.name
    if row.units.dead is not None:
        told += f", {row.units.dead:.0%} dead"
    if row.units.saturated is not None:
        told += f", {row.units.saturated:.0%} flat"
    return told
