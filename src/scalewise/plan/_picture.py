"""The picture of a check: sizes over the width, with the planned powers as lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scalewise import _look as look
from scalewise.plan._fits import Status
from scalewise.plan._measurement import Measurement, Quantity
from scalewise.plan._names import pattern
from scalewise.plan._rows import Row, sizes_of
from scalewise.plan._table import Plan

_LINES = {
    Quantity.OUTPUT: ("#6c6f78", "output"),
    Quantity.CHANGE: ("#1f4f99", "its change"),
    Quantity.OWN_CHANGE: ("#c4480f", "change by its own update"),
}
_OFF = "#b3001b"
_COLUMNS, _PANELS = 4, 24
STYLE: dict[Any, Any] = {**look.STYLE, **look.TITLED}


def draw(
    plan: Plan, measured: Measurement, rows: Sequence[Row], roles: Mapping[str, str], headline: str
) -> Figure:
    """One panel for each kind of module, in the order of the forward pass.

    Points are means over seeds with one standard error; lines have the planned power, through the middle of
    the points. Modules that differ by layer numbers only share a panel.

    Args:
        plan: What was planned.
        measured: What was measured.
        rows: What both say of each tensor.
        roles: By tensor, as it acts where it was measured.
        headline: The verdict, and what is to blame.

    Returns:
        A figure.
    """
    found = {(r.tensor, r.quantity): r for r in rows}
    with rc_context(STYLE):
        panels = _panels(measured, found, roles)[:_PANELS]
        columns = min(_COLUMNS, len(panels))
        lines = math.ceil(len(panels) / columns)
        canvas = Figure(figsize=(2.75 * columns + 0.4, 2.6 * lines + 0.75), layout="constrained")
        canvas.get_layout_engine().set(w_pad=0.08, h_pad=0.08)  # type: ignore
        axes = list(canvas.subplots(lines, columns, squeeze=False, sharex=True).flat)
        for axis, (title, members) in zip(axes, panels, strict=False):
            _panel(axis, plan, measured, title, [found[m, q] for q in _LINES for m in members])
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        for i, axis in enumerate(axes[: len(panels)]):
            if i + columns >= len(panels):
                axis.set_xlabel(plan.width_name)
                axis.tick_params(labelbottom=True)
        canvas.suptitle(headline, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
        _legend(canvas)
        return canvas


def _panels(
    measured: Measurement, rows: Mapping[tuple[str, Quantity], Row], roles: Mapping[str, str]
) -> list[tuple[str, list[str]]]:
    """Titles, and the leading tensors of the modules in each."""
    kinds: dict[tuple[str, str], list[str]] = {}
    modules = dict(zip(measured.tensors, measured.modules, strict=True))
    for name in measured.tensors:
        if rows[name, Quantity.OUTPUT].fit.status is not Status.ABSENT:
            kinds.setdefault((pattern(modules[name]), roles[name]), []).append(name)
    few = sum(map(len, kinds.values())) <= 2 * _COLUMNS
    out = []
    for (kind, role), members in kinds.items():
        # A handful of layers have a panel each.
        split = [[m] for m in members] if few else [members]
        for mine in split:
            title = modules[mine[0]] if len(mine) == 1 else f"{kind} ({len(mine)})"
            out.append((mine[0], f"{title} · {role}", mine))
    order = {name: i for i, name in enumerate(measured.tensors)}
    return [(title, mine) for first, title, mine in sorted(out, key=lambda p: order[p[0]])]


def _panel(
    axis: Axes, plan: Plan, measured: Measurement, title: str, members: Sequence[Row]
) -> None:
    widths = measured.widths
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    wrong = False
    heights: list[float] = []
    for quantity, (color, _) in _LINES.items():
        rows = [r for r in members if r.quantity is quantity and r.fit.status is Status.FITTED]
        for row in rows:
            heights += _curve(
                axis, row, widths, sizes_of(plan, measured, row.tensor, quantity), color
            )
        wrong = wrong or any(not r.agrees for r in rows)
    # A panel that spans less than a decade still shows one: small wiggles stay small.
    low, high = min(heights, default=1.0), max(heights, default=1.0)
    spare = max(0.0, 1.3 - math.log10(high / low)) / 2 + 0.12
    axis.set_ylim(low * 10**-spare, high * 10**spare)
    axis.set_xlim(widths[0] / 1.25, widths[-1] * 1.25)
    axis.set_title(title, color=_OFF if wrong else look.INK)
    axis.xaxis.set_major_locator(ticker.FixedLocator(_ticks(widths)))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axis.xaxis.set_minor_locator(ticker.NullLocator())
    axis.yaxis.set_major_locator(ticker.LogLocator(numticks=5))
    axis.yaxis.set_minor_locator(ticker.NullLocator())


def _curve(axis: Axes, row: Row, widths: np.ndarray, sizes: np.ndarray, color: str) -> list[float]:
    logs = np.log(sizes)
    mean, error = logs.mean(axis=1), logs.std(axis=1, ddof=1) / math.sqrt(logs.shape[1])
    middle = np.exp(mean)
    bars = np.stack([middle - np.exp(mean - error), np.exp(mean + error) - middle])
    axis.errorbar(
        widths,
        middle,
        yerr=bars,
        fmt="o",
        color=color,
        markersize=3.6,
        markeredgewidth=0,
        elinewidth=1.0,
        capsize=0,
    )
    x = np.log(widths)
    line = np.exp(mean.mean() + float(row.predicted) * (x - x.mean()))
    dashes = (0, (1, 1.6)) if row.least == -math.inf else "-"
    axis.plot(widths, line, color=color, linewidth=1.2, linestyle=dashes, alpha=0.75)
    if not row.agrees:
        above = row.excess > 0
        power = f"{row.fit.slope:+.2f}, planned {float(row.predicted):.2g}".replace("-", "−")
        axis.annotate(
            power,
            (widths[-1], middle[-1]),
            xytext=(3, 7 if above else -7),
            textcoords="offset points",
            ha="right",
            va="bottom" if above else "top",
            fontsize=7.5,
            color=_OFF,
        )
    return [*middle, *line]


def _ticks(widths: Sequence[float] | np.ndarray) -> list[float]:
    step = max(1, math.ceil(len(widths) / 4))
    return [float(w) for w in widths[::-1][::step]]


def _legend(canvas: Figure) -> None:
    marks = [
        canvas.axes[0].plot([], [], "o-", color=color, markersize=3.6, linewidth=1.2, label=label)[
            0
        ]
        for color, label in _LINES.values()
    ]
    labels = [label for _, label in _LINES.values()]
    canvas.legend(
        marks,
        labels,
        loc="outside lower left",
        ncols=len(marks),
        fontsize=8.5,
        title="points: measured; lines: planned power (dotted: at most)",
        title_fontsize=8.0,
        alignment="left",
    )
