"""A report in words and a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scalewise._readable import Rows
from scalewise.plan.spi import pattern
from scalewise.signals._seen import Seen
from scalewise.signals._theory import Foreseen

if TYPE_CHECKING:
    from scalewise.signals._signals import Signals

_LINES = 30  # longer tables show the first, the middle and the last of all layers of a kind


def told(signals: Signals) -> list[str | Rows]:
    """All of it, line by line."""
    count = len(signals.findings)
    head = "Nothing is wrong" if not count else f"{count} finding{'s' if count > 1 else ''}"
    draws = f"{signals.draws} draws" if signals.draws > 1 else "one draw"
    return [
        f"{head}: signals of {len(signals.rows)} places, {draws}",
        *(f"! {f}" for f in signals.findings),
        "",
        _grid(signals),
        "",
        *signals.told,
        *signals.notes,
    ]


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
        place, row.what, f"{row.size:.3g}", f"{own.size:.3g}" if theory else "", _part(row.samples),
        _part(own.samples), _part(row.positions), _part(own.positions), gradient,
        " ".join(chi) if chi != ["-", "-"] else "", _behind(row),
    )  # fmt: skip


def _factor(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _part(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _behind(row: Seen) -> str:
    if row.looks is not None:
        return f"largest weight {row.looks.largest:.2f} of {row.looks.keys:.0f}, logits' variance "
        f"{row.looks.variance:.2g}"
    if row.units is None:
        return "norm" if row.normed else ""
    told = row.units.name
    if row.units.dead is not None:
        told += f", {row.units.dead:.0%} dead"
    if row.units.saturated is not None:
        told += f", {row.units.saturated:.0%} flat"
    return told
