"""The picture of a report: sizes, correlations and gradients along the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scalewise._look import STYLE, TITLED
from scalewise.signals._findings import Finding
from scalewise.signals._seen import Seen

_BLUE, _RED, _GREY = "#1f4f99", "#b3001b", "#6c6f78"
_MARKS = {"sum": "s", "attention": "x"}


def draw(
    rows: Sequence[Seen], findings: Sequence[Finding], columns: Mapping[str, Sequence[float]]
) -> Figure:
    """Three panels over the places in order of execution; lines are the theory's, points are measured.

    Args:
        rows: The places.
        findings: What is wrong with them.
        columns: Numbers of every place by name, as `Signals.columns` has them.

    Returns:
        A figure, on which places of findings are red.
    """
    with rc_context({**STYLE, **TITLED}):
        canvas = Figure(figsize=(7.2, 6.4), layout="constrained")
        axes = list(canvas.subplots(3, 1, sharex=True))
        numbers = {k: np.array(v) for k, v in columns.items()}
        shown = [r.what != "attention" for r in rows]
        wrong = {f.place for f in findings}
        colors = [_RED if r.place in wrong else _BLUE for r in rows]
        for axis, name, log in zip(
            axes, ("size", "samples", "gradient"), (True, False, True), strict=True
        ):
            _panel(axis, rows, numbers[name], numbers.get(f"{name}_theory"), colors, shown, log)
        axes[0].set_title("size of signals")
        axes[1].set_title("correlation of two samples")
        axes[2].set_title("size of the gradient")
        axes[2].set_xlabel("place, in order of execution")
        head = findings[0].mistake if findings else "nothing is wrong"
        canvas.suptitle(
            head[0].upper() + head[1:], x=0.01, ha="left", fontsize=10.5, fontweight="bold"
        )
        return canvas


def _panel(
    axis: Axes,
    rows: Sequence[Seen],
    values: np.ndarray,
    theory: np.ndarray | None,
    colors: list[str],
    shown: list[bool],
    log: bool,
) -> None:
    if log and np.any(values > 0):
        axis.set_yscale("log")
    index = np.arange(len(values))
    if theory is not None:
        there = np.isfinite(theory)
        axis.plot(index[there], theory[there], color=_GREY, linewidth=1.2, label="theory")
    for k, row in enumerate(rows):
        if shown[k] and np.isfinite(values[k]) and (values[k] > 0 or not log):
            mark = _MARKS.get(row.what, "o")
            axis.plot([k], [values[k]], mark, color=colors[k], markersize=3.6, markeredgewidth=0)
