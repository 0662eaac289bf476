"""How the outputs would move in the first step of training: the neural tangent kernel."""

from markupsafe import Markup

from scalewise.report._results import Results, shown
from scalewise.report._style import ASIDE, Figure, draw


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
                shown(results, sheet.draft, name, (a, b), label, aside=aside)
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
