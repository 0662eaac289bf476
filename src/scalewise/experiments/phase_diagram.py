r"""The web of limits: what becomes of networks as width and depth grow together.

Shown: the plane of the metaparameter $s$ and $e=\log L/\log n$, with the line
$$\gamma=\frac L{n^{1-s}}=1\iff e=1-s$$
and lines of $\gamma=10^{-1}$ at finite widths.
Look for: below the line the NTK is frozen; on it networks learn representations; above it the expansion
in differentials says nothing. Its ends are the neural-tangent and the mean-field scaling.

Source: Yaida (1.1), (4.10), section V.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from scalewise.experiments._form import each, settings
from scalewise.experiments._look import COLORS, INK, MUTED, Number, attributes, log_axes, panels
from scalewise.scaling import LIMITS, depth_for_gamma, gamma, limit_of

TITLE = "The web of limits"
TEXT = (
    "Each point is a way to make networks large: depth n<sup>e</sup> at width n, scaled with "
    "metaparameter s. What decides is γ = L/n<sup>1−s</sup>. Below the line it vanishes and the NTK is "
    "frozen; on it features move. At the left end L/n is fixed, at the right end the depth; between "
    "them lies the limit that is missing from the literature."
)


@settings(steps=8)  # small: a coarse grid
class Config:
    r"""Settings.

    Args:
        steps: Points on an axis of the grid, less one.
        top: Largest $e$, in steps of the grid a whole number.
        widths: Of the lines at finite width.
        gamma: On those lines.
    """

    steps: int = 40
    top: float = 1.5
    widths: tuple[int, ...] = (100, 1_000, 10_000)
    gamma: float = 0.1


def run(config: Config) -> xr.Dataset:
    r"""Classify a grid of limits, and follow lines of constant $\gamma$.

    Returns:
        Over (e, s): ``limit``, an index into the attribute ``limits``; over (width, s): ``depth``, the
        $L$ of `Config.gamma`, and ``gamma_back``, what that depth gives.
    """
    s = [Fraction(k, config.steps) for k in range(config.steps + 1)]
    count = round(config.top * config.steps)
    e = [Fraction(k, config.steps) for k in range(count + 1)]
    grid = [[LIMITS.index(limit_of(a, b).name) for a in s] for b in e]
    depth = [[depth_for_gamma(config.gamma, n, a) for a in s] for n in config.widths]
    back = [
        [gamma(L, n, a) for L, a in zip(row, s, strict=True)]
        for n, row in zip(config.widths, depth, strict=True)
    ]
    return xr.Dataset(
        {
            "limit": (("e", "s"), grid),
            "depth": (("width", "s"), depth),
            "gamma_back": (("width", "s"), back),
        },
        {"e": [float(v) for v in e], "s": [float(v) for v in s], "width": list(config.widths)},
        attributes(config, limits=list(LIMITS)),
    )


def numbers(dataset: xr.Dataset) -> list[Number]:
    r"""The line $\gamma=1$ found on the grid, and depths that give their $\gamma$ back."""
    rows, names = [], dataset.attrs["limits"]
    frozen = (dataset.limit == names.index("frozen_ntk")).sum("e") * float(dataset.e[1])
    middle = dataset.s.size // 2
    for k in (0, middle, dataset.s.size - 1):
        s = float(dataset.s[k])
        rows.append(
            Number(f"first e that is not frozen, s = {s:g}", 1 - s, float(frozen[k]), 0, 1e-9)
        )
    found = float(np.abs(dataset.gamma_back / dataset.attrs["gamma"] - 1).max())
    rows.append(Number("depth for γ, and back", 0.0, found, 0.0, 1e-12))
    return rows


@panels(2, height=4.0)
def figure(dataset: xr.Dataset, left: Axes, right: Axes) -> None:
    """The plane of limits, and depths of constant gamma."""
    s, top = dataset.s.values, float(dataset.e[-1])
    left.fill_between(s, 0, 1 - s, color=COLORS[0], alpha=0.13, lw=0)
    left.fill_between(s, 1 - s, top, color=COLORS[1], alpha=0.10, lw=0)
    left.plot(s, 1 - s, color=INK, lw=2.0)
    left.plot([0, 1], [1, 0], "o", ms=7, color=INK, clip_on=False)
    said = {
        (0.28, 0.24): "frozen NTK: γ → 0",
        (0.62, 1.05): "γ → ∞: no expansion",
    }
    for (x, y), text in said.items():
        left.text(x, y, text, ha="center", color=INK)
    note = {"color": MUTED, "fontsize": 8.0}
    left.text(0.03, 1.06, "s = 0: L/n fixed", **note)
    left.text(0.99, 0.3, "s = 1: mean field, μP", ha="right", **note)
    left.text(0.56, 0.5, "γ fixed, L/n → 0: the missing limit", **note)
    left.set(xlim=(0, 1), ylim=(0, top), xlabel="metaparameter s", ylabel="e, with L ∝ nᵉ")
    left.set_title("limits of large networks; line: γ = 1")
    left.grid(visible=False)
    for k, (n, one) in enumerate(each(dataset, "width")):
        right.plot(one.s, one.depth, color=COLORS[k], label=f"n = {n}")
    right.axhline(1.0, color=MUTED, lw=0.8, ls=(0, (4, 2)))
    log_axes(right, "y")
    right.set(xlabel="metaparameter s", title=f"depth at which γ = {dataset.attrs['gamma']:g}")
    right.legend(loc="upper right")
