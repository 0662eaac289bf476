"""The activation and its critical point."""

import numpy as np
from markupsafe import Markup

from scalewise.report._results import Results
from scalewise.report._style import BAND, INK, MUTED, PREDICTED, Figure, Panel, draw


def activation_figure(results: Results) -> Figure:
    """The function with its slope, and the two susceptibilities over the kernel."""
    panels = [_function(results)]
    told = "The function and its slope."
    if results.holds("kernel"):
        told += (
            " Shaded: one standard deviation of the preactivations to either side, in the first "
            "and in the last layer."
        )
    if results.susceptibilities is not None:
        panels.append(_susceptibilities(results))
        told += (
            " Where both susceptibilities are 1, signals neither grow nor die and differences "
            "between inputs survive: that is the critical point. The shaded range is the one that "
            "the kernel of this network passes through."
        )
    return Figure("activation", tuple(panels), Markup(told), key=())


def _function(results: Results) -> Panel:
    sigma = results.net.activation
    spread = _kernel_range(results)
    reach = max(3.0, 2.2 * float(np.sqrt(spread[1])) if spread else 3.0)
    z = np.linspace(-reach, reach, 801)
    with draw("sigma", f"The activation {sigma.name} and its derivative", right=0.9) as sheet:
        ax = sheet.ax
        if spread:
            diagonal = np.einsum("laa->la", results.comparison.predicted["kernel"].values)
            for typical in (diagonal[0].mean(), diagonal[-1].mean()):
                half = float(np.sqrt(typical))
                ax.axvspan(-half, half, color=BAND, alpha=0.55, linewidth=0)
        ax.axhline(0, color=MUTED, linewidth=0.6)
        value, slope = sigma(z), sigma.derivative(z)
        gaps = np.isin(np.arange(z.size), np.searchsorted(z, [k.location for k in sigma.kinks]))
        ax.plot(z, np.where(gaps, np.nan, value), color=PREDICTED, linewidth=1.7)
        ax.plot(z, np.where(gaps, np.nan, slope), color=PREDICTED, linewidth=1.1, dashes=(4, 2))
        sheet.label(reach, float(value[-1]), "σ", PREDICTED)
        sheet.label(reach, float(slope[-1]), "σ′", PREDICTED)
        ax.set_xlim(-reach, reach)
        ax.set_xlabel("preactivation z")
    return sheet.panel("<i>σ</i>(<i>z</i>) and its slope <i>σ′</i>(<i>z</i>)")


def _susceptibilities(results: Results) -> Panel:
    sweep = results.susceptibilities
    assert sweep is not None
    K = np.asarray(sweep["K"].values)
    label = "Parallel and perpendicular susceptibility as a function of the kernel"
    with draw("chi", label, right=0.9) as sheet:
        ax = sheet.ax
        spread = _kernel_range(results)
        if spread:
            ax.axvspan(*spread, color=BAND, alpha=0.6, linewidth=0)
        ax.axhline(1.0, color=INK, linewidth=0.8)
        for name, text, style in (("chi_parallel", "χ∥", "-"), ("chi_perp", "χ⊥", "--")):
            values = np.asarray(sweep[name].values)
            ax.plot(K, values, style, color=PREDICTED, linewidth=1.5)
            sheet.label(float(K[-1]), float(values[-1]), text, PREDICTED)
        record = results.net.criticality
        if record is not None and record.K_star is not None and K[0] <= record.K_star <= K[-1]:
            ax.plot([record.K_star], [1.0], "o", color=INK, markersize=5)
            ax.annotate("K*", (record.K_star, 1.0), (0, 7), textcoords="offset points", ha="center")
        ax.set_xlim(float(K[0]), float(K[-1]))
        sheet.log("x")
        ax.set_xlabel("kernel K  (preactivation²)")
    return sheet.panel("Susceptibilities <i>χ</i><sub>∥</sub> and <i>χ</i><sub>⊥</sub>")


def _kernel_range(results: Results) -> tuple[float, float] | None:
    if not results.holds("kernel"):
        return None
    diagonal = np.einsum("laa->la", results.comparison.predicted["kernel"].values)
    return float(diagonal.min()), float(diagonal.max())
