"""A convolutional network on the same images: every entry of its kernel and NTK, predicted against measured."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from scalewise._look import points
from scalewise.report._results import Results
from scalewise.report._style import MEASURED, PREDICTED, Figure, Panel, draw

_WORDS = {"kernel": "NNGP kernel", "ntk": "Neural tangent kernel"}
_UNITS = {"kernel": "preactivation²", "ntk": "preactivation² ∕ learning rate"}


def convolution_figure(results: Results) -> Figure | None:
    """Figure of its outputs' kernel and NTK, pair by pair."""
    if results.convolution is None:
        return None
    table = results.convolution.comparison.table
    panels = tuple(
        _panel(results, name) for name in _WORDS if (table["observable"].values == name).any()
    )
    caption = (
        "Every point is a pair of images. The line is where measured and predicted are equal; error bars are one "
        "standard error, and the band is the size of what order 1/<i>n</i> may add, found from how much the "
        "networks differ."
    )
    return Figure("convolution", panels, Markup(caption))


def _panel(results: Results, name: str) -> Panel:
    assert results.convolution is not None
    table = results.convolution.comparison.table
    mine = table["observable"].values == name
    predicted, measured, sem, bias = (
        np.asarray(table[key].values[mine]) for key in ("predicted", "measured", "sem", "bias")
    )
    order = np.argsort(predicted)
    with draw(
        f"convolution-{name}", f"{_WORDS[name]} of a convolutional network", right=0.96
    ) as sheet:
        ax = sheet.ax
        low, high = predicted[order], predicted[order]
        ax.fill_between(
            predicted[order],
            low - bias[order],
            high + bias[order],
            color=PREDICTED,
            alpha=0.15,
            linewidth=0,
        )
        ax.plot(predicted[order], predicted[order], color=PREDICTED, linewidth=1.2)
        points(ax, predicted, measured, sem, color=MEASURED, size=3.0)
        ax.set_xlabel(f"predicted ({_UNITS[name]})")
        ax.set_ylabel("measured")
    return sheet.panel(f"{_WORDS[name]} of the outputs")
