"""How well theory and ensemble agree, over all numbers at once."""

import numpy as np
from markupsafe import Markup
from scipy import stats

from scalewise.report._results import Results
from scalewise.report._style import INK, MEASURED, MUTED, Figure, Panel, draw

_STYLES = ("-", "--", ":", "-.")


def agreement_figure(results: Results) -> Figure | None:
    """Figure of all z-scores in one histogram, and of their size layer by layer."""
    table = results.comparison.table
    random = ~table["exact"].values
    if not random.any():
        return None
    caption = (
        "Differences between measurement and prediction in units of their standard error, before "
        "any allowance for the neglected order. If the theory were exact they would follow the "
        "curve on the left and the line at 1 on the right. Entries of one ensemble are correlated, "
        "so the histogram is rougher than one of independent numbers."
    )
    return Figure("agreement", (_histogram(results), _by_layer(results)), Markup(caption), key=())


def _histogram(results: Results) -> Panel:
    table = results.comparison.table
    z = table["z"].values[~table["exact"].values]
    reach = max(4.0, float(np.ceil(np.abs(z).max())))
    edges = np.linspace(-reach, reach, round(4 * min(reach, 12)) + 1)
    with draw("histogram", "Histogram of z-scores against a normal curve", right=0.96) as sheet:
        ax = sheet.ax
        ax.hist(
            z, bins=edges.tolist(), color=MEASURED, alpha=0.55, linewidth=0, histtype="stepfilled"
        )
        grid = np.linspace(-reach, reach, 301)
        ax.plot(
            grid,
            stats.norm.pdf(grid) * z.size * (edges[1] - edges[0]),
            color=INK,
            linewidth=1.3,
        )
        ax.set_xlim(-reach, reach)
        ax.set_xlabel("z  (standard errors)")
        ax.set_ylabel("entries")
    return sheet.panel("All z-scores, and the normal curve")


def _by_layer(results: Results) -> Panel:
    table = results.comparison.table
    layers = np.asarray(table["layer"].values)
    with draw("layerwise", "Root mean square of z by layer", right=0.72) as sheet:
        ax = sheet.ax
        ax.axhline(1.0, color=INK, linewidth=0.8)
        highest = 2.0
        for name, style in zip(results.comparison.z.data_vars, _STYLES, strict=False):
            mine = (table["observable"].values == name) & ~table["exact"].values
            present = [layer for layer in results.layers if (mine & (layers == layer)).any()]
            rms = [
                float(np.sqrt(np.mean(table["z"].values[mine & (layers == layer)] ** 2)))
                for layer in present
            ]
            if not present:
                continue
            ax.plot(present, rms, style, color=MEASURED, marker="o", markersize=3)
            sheet.label(float(present[-1]), rms[-1], str(name).replace("_", " "), MUTED)
            highest = max(highest, 1.1 * max(rms))
        ax.set_ylim(0, highest)
        sheet.layers(results.layers)
        ax.set_ylabel("root mean square of z")
    return sheet.panel("Layer by layer")
