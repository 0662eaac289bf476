"""The aspect ratio and what it does to fluctuations."""

import numpy as np
from markupsafe import Markup

from scalewise.report._results import Results
from scalewise.report._style import INK, MUTED, PREDICTED, Draft, Figure, Panel, draw

# Where the expansion in 1/n is trusted: at 0.1 its first neglected order is about 1 %, at 1 no
# order is smaller than the one before.
SMALL, LARGE = 0.1, 1.0


def aspect_figure(results: Results) -> Figure | None:
    """The expansion parameter through the layers and over the width."""
    if not (results.expansion > 0).any():
        return None
    caption = (
        "On the left, the expansion parameter <i>ε</i>: the relative variance of the metric, "
        "largest over the inputs. On the right, the spread from network to network, √<i>ε</i>, of "
        "the same depth at other widths; the dot is this network."
    )
    return Figure("aspect", (_layers(results), _widths(results)), Markup(caption), key=())


def _layers(results: Results) -> Panel:
    with draw("expansion", "The expansion parameter through the layers", right=0.9) as sheet:
        ax = sheet.ax
        some = results.expansion > 0
        ax.plot(results.layers[some], results.expansion[some], color=PREDICTED, linewidth=1.6)
        top = max(2.0, 2 * float(results.expansion.max()))
        low = 0.5 * float(results.expansion[some].min())
        ax.set_ylim(min(low, 0.05), top)
        sheet.log("y")
        sheet.layers(results.layers)
        _threshold(sheet, SMALL, "small")
        _threshold(sheet, LARGE, "no longer small")
        ax.set_ylabel("ε  (dimensionless)")
    return sheet.panel("Expansion parameter <i>ε</i> by layer")


def _threshold(sheet: Draft, height: float, text: str) -> None:
    sheet.ax.axhline(height, color=MUTED, linewidth=0.8, dashes=(2, 2))
    sheet.ax.annotate(
        f"{height:g} · {text}",
        (0.02, height),
        (0, 4),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        color=MUTED,
        fontsize=8,
    )


def _widths(results: Results) -> Panel:
    n, last = results.net.hidden_widths[0], float(results.expansion[-1])
    width = n * 2.0 ** np.linspace(-4, 4, 65)
    with draw("spread", "Relative spread of the metric over the width", right=0.9) as sheet:
        ax = sheet.ax
        ax.plot(width, np.sqrt(last * n / width), color=PREDICTED, linewidth=1.6)
        ax.plot([n], [np.sqrt(last)], "o", color=INK, markersize=5)
        ax.annotate(
            f"n = {n}: {np.sqrt(last):.0%}",
            (n, float(np.sqrt(last))),
            (8, 6),
            textcoords="offset points",
        )
        ax.set_xlim(width[0], width[-1])
        sheet.log("x")
        sheet.log("y")
        ax.set_xlabel(
            "width n of the hidden layers"
            if len(set(results.net.hidden_widths)) == 1
            else "first hidden width"
        )
        ax.set_ylabel("relative standard deviation")
    return sheet.panel("Spread √<i>ε</i> of the metric at the output, over width")
