"""How signals travel through the depth, and how outputs would move: the kernel and the tangent kernel."""

import numpy as np
from markupsafe import Markup

from scalewise.report._results import Results, shown
from scalewise.report._style import ASIDE, Figure, Panel, draw


def signal_figure(results: Results) -> Figure | None:
    """Variance of the preactivations, and how alike two inputs remain."""
    if not results.holds("kernel"):
        return None
    panels = [_variance(results)]
    caption = (
        "On the left, how large the preactivations are, for the shortest and the longest input and "
        "one in between."
    )
    if results.samples > 1:
        panels.append(_alike(results))
        caption += (
            " On the right, how alike a network finds two inputs: 1 means that it can no longer "
            "tell them apart, 0 that they have nothing in common."
        )
    return Figure("signal", tuple(panels), Markup(caption))


def _variance(results: Results) -> Panel:
    with draw("variance", "Variance of the preactivations through the layers") as sheet:
        for a in results.few_samples(3):
            shown(results, sheet, "kernel", (a, a), results.input_label(a))
        diagonal = np.einsum("laa->la", results.comparison.predicted["kernel"].values)
        if diagonal.max() > 8 * diagonal.min() > 0:
            sheet.log("y")
        else:
            sheet.ax.set_ylim(bottom=0)
        sheet.layers(results.layers)
        sheet.ax.set_ylabel("preactivation²")
    return sheet.panel("Kernel <i>K<sub>aa</sub></i> of single inputs")


def _alike(results: Results) -> Panel:
    with draw("alike", "Correlation of pairs of inputs through the layers") as sheet:
        lowest = 0.0
        for a, b in results.few_pairs(4):
            root = np.sqrt(results.predicted("kernel", a, a) * results.predicted("kernel", b, b))
            lowest = min(lowest, float((results.predicted("kernel", a, b) / root).min()))
            shown(results, sheet, "kernel", (a, b), f"{a}, {b}", unit=root)
        sheet.ax.set_ylim(1.15 * lowest, 1.04)
        sheet.layers(results.layers)
        sheet.ax.set_ylabel("correlation")
    return sheet.panel(
        "Correlation <i>K<sub>ab</sub></i> ∕ √(<i>K<sub>aa</sub>K<sub>bb</sub></i>) of pairs"
    )


def ntk_figure(results: Results) -> Figure | None:
    """The tangent kernel of single inputs and of pairs."""
    name = "ntk"
    if not results.holds(name):
        return None
    groups = [("ntk", [(a, a) for a in results.few_samples(2)], "of single inputs", "aa")]
    if results.samples > 1:
        groups.append(("ntk-pairs", results.few_pairs(3), "of pairs", "ab"))
    panels = []
    for key, pairs, words, legs in groups:
        with draw(key, f"Neural tangent kernel {words} through the layers") as sheet:
            for side, (a, b) in zip(ASIDE * 2, pairs, strict=False):
                label, aside = (results.input_label(a), side) if a == b else (f"{a}, {b}", 0.0)
                shown(results, sheet, name, (a, b), label, aside=aside)
            low = min(float(results.predicted(name, a, b).min()) for a, b in pairs)
            if low >= 0:
                sheet.ax.set_ylim(bottom=0)
            sheet.layers(results.layers)
            sheet.ax.set_ylabel("preactivation² ∕ learning rate")
        panels.append(sheet.panel(f"Tangent kernel <i>Θ<sub>{legs}</sub></i> {words}"))
    caption = (
        "One step of gradient descent moves the output on input <i>a</i> by the learning rate "
        "times the sum over <i>b</i> of <i>Θ<sub>ab</sub></i> times the error on <i>b</i>. The "
        "prediction is the leading order; the band is the size of what 1/<i>n</i> may add."
    )
    return Figure("ntk", tuple(panels), Markup(caption))
