"""The picture of a check of transfer: losses over the values for every size, and the optima over the sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scalewise.plan._picture import STYLE
from scalewise.plan.proof._drift import Drift, GridSize
from scalewise.plan.proof._optimum import Optimum

_BLUE, _ORANGE, _MUTED = "#1f4f99", "#c4480f", "#6c6f78"
# A loss farther above the best of its size than this share of the whole range is not worth the room.
_ROOM = 1.0


def draw(
    hyperparameter: str,
    values: Sequence[float],
    sizes: Sequence[GridSize],
    losses: np.ndarray,
    *,
    optima: Sequence[Optimum],
    drifts: Sequence[Drift],
    headline: str,
) -> Figure:
    """Losses left, and a panel with the optima for every axis of size.

    Args:
        hyperparameter: Which one.
        values: Of the base, ascending.
        sizes: Of the grid.
        losses: Over (size, value, seed).
        optima: One of each size.
        drifts: One of each axis of size.
        headline: The verdict in a few words.
    """
    with rc_context(STYLE):
        panels = 1 + len(drifts)
        canvas = Figure(figsize=(3.6 * panels + 0.4, 3.5), layout="constrained")
        left, *rest = canvas.subplots(1, panels, squeeze=False).flat
        _losses(left, values, sizes, losses, optima)
        left.set(xlabel=f"log₂ of {hyperparameter} at the base", title="loss")
        for axis, drift in zip(rest, drifts, strict=True):
            _optima(axis, sizes, optima, drift)
        canvas.suptitle(headline, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
        return canvas


def _losses(
    axis: Axes,
    values: Sequence[float],
    sizes: Sequence[GridSize],
    losses: np.ndarray,
    optima: Sequence[Optimum],
) -> None:
    x = np.log2(values)
    heights = []
    for i, (size, o) in enumerate(zip(sizes, optima, strict=True)):
        # From pale to full: one colour for a family of sizes.
        alpha = 0.3 + 0.7 * (i + 1) / len(sizes)
        mean = np.where(np.isfinite(losses[i]), losses[i], np.nan).mean(axis=1)
        axis.plot(x, mean, "o-", color=_BLUE, alpha=alpha, markersize=2.5, lw=1.2, label=size.label)
        axis.plot([o.place], [o.loss], "o", color=_ORANGE, alpha=alpha, markersize=5)
        heights += [h for h in (*mean, o.loss) if np.isfinite(h)]
    if heights:
        low, middle = min(heights), float(np.median(heights))
        axis.set_ylim(low - 0.05 * (middle - low), middle + _ROOM * (middle - low) + 1e-12)
    if np.isfinite(optima[0].place):
        axis.axvline(optima[0].place, color=_MUTED, lw=0.8, ls="--")
    axis.legend(fontsize=7)


def _optima(axis: Axes, sizes: Sequence[GridSize], optima: Sequence[Optimum], drift: Drift) -> None:
    fixed = {a: v for a, v in sizes[0].at.items() if a != drift.axis}
    mine = [
        (s.at[drift.axis], o)
        for s, o in zip(sizes, optima, strict=True)
        if np.isfinite(o.place) and all(s.at[a] == v for a, v in fixed.items())
    ]
    n, o = [m[0] for m in mine], [m[1] for m in mine]
    places = np.array([one.place for one in o])
    sem = np.nan_to_num([one.sem for one in o])
    axis.errorbar(n, places, yerr=sem, fmt="o", color=_ORANGE, markersize=4, elinewidth=1.0)
    u = np.log2(n)
    axis.plot(n, places.mean() + drift.slope * (u - u.mean()), color=_BLUE, lw=1.2)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_locator(ticker.FixedLocator(n))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axis.xaxis.set_minor_locator(ticker.NullLocator())
    # A panel that spans less than an octave still shows one: small wiggles stay small.
    spare = max(0.0, 1.2 - float(np.ptp(places))) / 2 + 0.1
    axis.set_ylim(places.min() - spare, places.max() + spare)
    axis.set(xlabel=drift.axis, title=f"log₂ of the optimum, {drift.slope:+.2f} per octave")
