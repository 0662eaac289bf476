"""Figures of a training: the loss against width, every test sample, parts and layers, the NTK, the evidence."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup
from scipy import stats

from scalewise.report._learning import LearnedPanels
from scalewise.report._style import INK, MEASURED, MUTED, PREDICTED, Draft, Figure, draw


def loss_figure(learned: LearnedPanels) -> Figure | None:
    """Test loss against width: infinite, with its 1/n term, and trained ensembles."""
    n, mean, sem = learned.measured_loss()
    ends = np.array([*n, learned.width], dtype=float)
    grid = np.geomspace(ends.min() / 1.5, ends.max() * 4, 81)
    line, band = learned.at(grid)
    with draw("loss", "Mean test loss against width", right=0.84) as sheet:
        sheet.ax.axhline(learned.loss, color=MUTED, linewidth=0.8)
        sheet.compared(grid, line, band)
        _points(sheet, n, mean, sem)
        sheet.label(float(grid[-1]), learned.loss, "n → ∞", MUTED)
        sheet.ax.set_xlim(grid[0], grid[-1])
        sheet.log("x")
        sheet.ax.set_xlabel("width n")
        sheet.ax.set_ylabel("mean test loss")
    caption = (
        "Half the squared error of a test sample, averaged over the test samples and over networks. The line "
        "is the "
        "prediction with its 1/<i>n</i> term, made before any network was trained; the band is the size of "
        "what that "
        "neglects, the 1/<i>n</i> term times the learning parameter over the width."
    )
    key = ("predicted", "bias", *(("measured",) if len(n) else ()))
    return Figure("loss", (sheet.panel("Test loss against width"),), Markup(caption), key=key)


def shift_figure(learned: LearnedPanels) -> Figure | None:
    """Predicted against measured shift of every test sample, mean and variance."""
    own, theory = learned.own_ensemble(), learned.theory
    if own is None or "output_mean_nlo" not in theory or "variance_nlo" not in theory:
        return None
    panels = []
    for key, name, words in (
        ("shift-mean", "output_mean", "of the mean output"),
        ("shift-variance", "variance", "of the variance"),
    ):
        predicted = (theory[f"{name}_nlo"] / learned.width).transpose("output", "test").values
        measured = (own[name] - theory[name]).transpose("output", "test").values
        sem = own[f"{name}_sem"].transpose("output", "test").values
        with draw(key, f"Predicted against measured shift {words}", right=0.96) as sheet:
            reach = float(np.abs([predicted, measured]).max()) * 1.1 or 1.0
            sheet.ax.plot([-reach, reach], [-reach, reach], color=INK, linewidth=0.8)
            _points(sheet, predicted.ravel(), measured.ravel(), sem.ravel())
            sheet.ax.set_xlim(-reach, reach)
            sheet.ax.set_xlabel("predicted")
            sheet.ax.locator_params(axis="x", nbins=5)  # their labels are long
            sheet.ax.set_ylabel("measured")
        panels.append(sheet.panel(f"Shift {words}"))
    caption = (
        f"What width {learned.width} adds to the mean and to the variance of the outputs on each test sample, "
        "beside what networks of infinite width would have. On the line the two agree."
    )
    return Figure("shift", tuple(panels), Markup(caption), key=("measured",))


def calibration_figure(learned: LearnedPanels) -> Figure | None:
    """Figure of how far targets lie from the predicted mean, in predicted standard deviations."""
    theory, targets = learned.theory, learned.task.test_targets
    if targets is None:
        return None
    spread = np.sqrt(theory.variance.values)
    if not (spread > 0).any():
        return None
    z = ((targets.T - theory.output_mean.values) / np.where(spread > 0, spread, np.nan)).ravel()
    z = z[np.isfinite(z)]
    reach = min(max(4.0, float(np.ceil(np.abs(z).max()))), 12.0)
    edges = np.linspace(-reach, reach, round(4 * reach) + 1)
    with draw("calibration", "Targets in predicted standard deviations", right=0.96) as sheet:
        sheet.ax.hist(np.clip(z, -reach, reach), bins=edges.tolist(), color=PREDICTED, alpha=0.5)
        grid = np.linspace(-reach, reach, 301)
        scale = z.size * (edges[1] - edges[0])
        sheet.ax.plot(grid, stats.norm.pdf(grid) * scale, color=INK, linewidth=1.3)
        sheet.ax.set_xlabel("(target − mean) ∕ standard deviation")
        sheet.ax.set_ylabel("test samples")
    inside = [float(np.mean(np.abs(z) <= k)) for k in (1, 2)]
    caption = (
        f"If single networks missed the targets as they miss one another, {inside[0]:.0%} of the targets "
        "within one "
        f"standard deviation and {inside[1]:.0%} within two would be 68% and 95%. More far out: the networks agree "
        "on the same error."
    )
    panel = sheet.panel("Test targets under the predicted Gaussian")
    return Figure("calibration", (panel,), Markup(caption), key=())


def parts_figure(learned: LearnedPanels) -> Figure | None:
    """Figure of what each part of the mean, each layer and the covariance add to the slope of the loss."""
    theory = learned.theory
    names = [f"output_mean_nlo_by_{what}" for what in ("part", "layer")]
    if learned.slope is None or not all(name in theory for name in names):
        return None
    panels = []
    for what, name in zip(("part", "layer"), names, strict=True):
        pieces = (theory.bias * theory[name]).sum("output").mean("test")
        labels = [str(v).replace("_", " ") for v in theory[what].values]
        values = list(pieces.transpose(what).values)
        if what == "part":
            labels.append("covariance")
            values.append(learned.slope - float(pieces.sum()))
        with draw(f"by-{what}", f"Slope of the test loss by {what}", right=0.96) as sheet:
            places = np.arange(len(values))[::-1]
            sheet.ax.barh(places, values, color=PREDICTED, height=0.62)
            sheet.ax.axvline(0.0, color=INK, linewidth=0.8)
            sheet.ax.set_yticks(places, [f"layer {v}" if what == "layer" else v for v in labels])
            sheet.ax.tick_params(axis="y", length=0)
            sheet.ax.set_position((0.27, 0.145, 0.69, 0.825))
            sheet.ax.set_xlabel("coefficient of 1∕n")
        panels.append(sheet.panel(f"By {what}"))
    caption = (
        "What adds to the coefficient of 1/<i>n</i> of the test loss. <i>ntk nlo</i> and <i>ntk "
        "fluctuation</i> are "
        "there before training, in the mean and the scatter of the tangent kernel; dNTK and ddNTK are the kernel "
        "that moves while features are learned. By layer, through the mean output: whose width costs what."
    )
    return Figure("parts", tuple(panels), Markup(caption), key=())


def motion_figure(learned: LearnedPanels) -> Figure | None:
    """The relative change of the NTK in each eigendirection."""
    if learned.motion is None:
        return None
    direction = np.arange(1, learned.motion.sizes["direction"] + 1)
    h, change = (learned.motion[name].values for name in ("eigenvalue", "change"))
    with draw("motion", "Relative change of each eigenvalue of the NTK", right=0.96) as sheet:
        sheet.ax.axhline(0.0, color=INK, linewidth=0.8)
        relative = change / (learned.width * h)
        sheet.ax.plot(direction, relative, "o", color=PREDICTED, markersize=3.2)
        sheet.ax.set_xlabel("eigendirection, from the largest")
        sheet.ax.set_ylabel("relative change")
    with draw("targets", "Where the targets lie among the eigendirections", right=0.96) as below:
        share = np.cumsum(learned.motion.target_share.values)
        below.ax.step(direction, share, where="mid", color=PREDICTED, linewidth=1.3)
        below.ax.set_ylim(0, 1.03)
        below.ax.set_xlabel("eigendirection, from the largest")
        below.ax.set_ylabel("share of the targets, summed")
    aligned = learned.theory.get("alignment_nlo", xr.DataArray(np.nan))
    caption = (
        f"At width {learned.width} training changes the tangent kernel along the training targets by "
        f"{float(aligned) / learned.width:+.2%}; on the left direction by direction, on the right how much of the "
        "targets lies in the first of them."
    )
    panels = (sheet.panel("How the tangent kernel moves"), below.panel("Where the targets lie"))
    return Figure("motion", panels, Markup(caption), key=())


def evidence_figure(learned: LearnedPanels) -> Figure | None:
    """Log evidence against the weight variance, a line for each depth."""
    found = learned.evidence.log_evidence.transpose("depth", "C_W")
    if not np.isfinite(found.values).any():
        return None
    with draw("evidence", "Log evidence against the weight variance", right=0.82) as sheet:
        best = float(found.max())
        for depth, shade in zip(found.depth.values, np.linspace(0.3, 1, len(found)), strict=True):
            line = found.sel(depth=depth).values
            sheet.ax.plot(found.C_W.values, line, color=PREDICTED, linewidth=1.2, alpha=shade)
            sheet.label(float(found.C_W.values[-1]), float(line[-1]), f"depth {depth}", MUTED)
        # What is beyond all odds need not be seen.
        low = max(float(found.min()), best - 20 * max(1.0, np.log(found.size)))
        sheet.ax.set_ylim(low, best + 0.06 * (best - low))
        sheet.log("x")
        sheet.ax.set_xlabel("weight variance C_W")
        sheet.ax.set_ylabel("log evidence (nats)")
    place = found.where(found == best, drop=True)
    caption = (
        "How probable the training targets are before training, at infinite width. The data prefer depth "
        f"{int(place.depth.values[0])} with <i>C<sub>W</sub></i> = {float(place.C_W.values[0]):.3g}; a "
        "difference of "
        "3 nats is odds of 20 to 1. The deeper the darker. No test sample is used."
    )
    panel = sheet.panel("The network that the data prefer")
    return Figure("evidence", (panel,), Markup(caption), key=())


FIGURES = (
    loss_figure,
    shift_figure,
    calibration_figure,
    parts_figure,
    motion_figure,
    evidence_figure,
)


def _points(sheet: Draft, x: np.ndarray, y: np.ndarray, sem: np.ndarray) -> None:
    sheet.ax.errorbar(
        x, y, yerr=sem, fmt="o", color=MEASURED, markersize=3.2, markeredgewidth=0, elinewidth=1.0
    )
