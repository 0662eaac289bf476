"""What fluctuates from network to network at leading order: the four-point vertex."""

import numpy as np
from markupsafe import Markup

from scalewise.report._results import Results, shown
from scalewise.report._style import ASIDE, Figure, Panel, draw

_V = "four_point_vertex"


def vertex_figure(results: Results) -> Figure | None:
    """The relative variance of the metric, and its components over two inputs."""
    if not (results.holds(_V) and results.holds("kernel")):
        return None
    panels = [_single(results)]
    caption = (
        "The relative variance, over networks, of the metric: of the mean square that a layer's "
        "preactivations are given by the layer below. It grows with depth and falls with width; "
        "0.01 is a spread of 10%. Measured values are divided by the predicted kernel."
    )
    if results.samples > 1:
        panels.append(_double(results))
        caption += (
            " On the right the components over two inputs: how the variances of two inputs "
            "fluctuate together (<i>aa</i>)(<i>bb</i>), and how their covariance fluctuates "
            "(<i>ab</i>)(<i>ab</i>), for the pair that is most alike and the one that is least."
        )
    return Figure("vertex", tuple(panels), Markup(caption))


def correction_figure(results: Results) -> Figure | None:
    """The 1/n correction of the kernel, where several widths have separated it."""
    name = "metric_nlo"
    if not results.holds(name):
        return None
    with draw("correction", "The 1/n correction of the kernel through the layers") as sheet:
        for a in results.few_samples(2):
            shown(results, sheet, name, (a, a), results.input_label(a))
        sheet.layers(results.layers)
        sheet.ax.set_ylabel("preactivation²")
    heading = "Correction <i>G</i><sup>{1}</sup><sub><i>aa</i></sub> of the kernel"
    caption = "What width takes from or adds to the kernel: its 1/n term, times the width."
    return Figure("correction", (sheet.panel(heading),), Markup(caption))


def _width_below(results: Results) -> np.ndarray:
    widths = np.array(results.net.widths, dtype=float)
    return widths[results.layers - 1]


def _single(results: Results) -> Panel:
    with draw("vertex", "Relative variance of the metric through the layers") as sheet:
        for side, a in zip(ASIDE, results.few_samples(2), strict=False):
            unit = results.predicted("kernel", a, a) ** 2 * _width_below(results)
            label = results.input_label(a)
            shown(results, sheet, _V, (a, a, a, a), label, unit=unit, aside=side)
        sheet.ax.set_ylim(bottom=0)
        sheet.layers(results.layers)
        sheet.ax.set_ylabel("relative variance")
    return sheet.panel(
        "Vertex <i>V</i><sub>(<i>aa</i>)(<i>aa</i>)</sub> ∕ "
        "(<i>n</i> <i>K</i><sub><i>aa</i></sub>²)"
    )


def _double(results: Results) -> Panel:
    with draw("vertex-pairs", "Components of the vertex over two inputs", right=0.8) as sheet:
        pairs = results.few_pairs(2)
        for a, b in pairs:
            unit = results.predicted("kernel", a, a) * results.predicted("kernel", b, b)
            unit = unit * _width_below(results)
            for legs in ((a, a, b, b), (a, b, a, b)):
                label = "({}{})({}{})".format(*legs)
                shown(results, sheet, _V, legs, label, unit=unit)
        sheet.layers(results.layers)
        sheet.ax.set_ylabel("relative covariance")
    return sheet.panel(
        "Two inputs: <i>V</i> ∕ (<i>n</i> <i>K<sub>aa</sub></i> <i>K<sub>bb</sub></i>)"
    )
