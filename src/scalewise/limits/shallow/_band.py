"""The band of dynamical stability as a picture: its edges, the lines that cut it, its 13 regions."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from scalewise.scaling.shallow import CONDITIONS, Region, regions

__all__ = ["band_figure"]

_INK, _MUTED, _FILL = "#1c1d21", "#6c6f78", "#dfe7f3"
_LINES = {1: "#1f4f99", 2: "#c4480f", 3: "#20684a", 4: "#7a3f98"}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.0,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
}
# The plane that is shown; the band goes on in both directions.
_LEFT, _RIGHT, _BOTTOM, _TOP = -1.5, 0.2, -0.5, 1.5
_NAMED = {"R6": "NTK", "R10": "sym-default", "R12": "MF, IC-MF"}


def band_figure() -> Figure:
    r"""The plane of $(q_\sigma,\tilde q)$ with the band $-\frac12\le q_\sigma+\tilde q\le0$ and its regions.

    Each line is where one of the four `CONDITIONS` of `scalewise.scaling.shallow` holds; a point where two cross
    satisfies two, NTK three. Every region's number stands at its representative.

    Returns:
        A figure with one panel.

    Source: Golikov, Figure 1, left; the numbers of the regions are ours.

    Example:
        >>> from scalewise.limits import shallow
        >>> len(shallow.band_figure().axes)
        1
    """
    with rc_context(_STYLE):
        canvas = Figure(figsize=(5.6, 6.6), layout="constrained")
        axis = canvas.subplots()
        q = np.array([_LEFT, _RIGHT])
        axis.fill_between(q, -0.5 - q, -q, color=_FILL, lw=0, label="_band")
        for number, (x, y) in _lines().items():
            equation, _, meaning = CONDITIONS[number].partition(": ")
            label = f"{number}  {_pretty(equation)}: {meaning.partition(',')[0]}"
            axis.plot(x, y, color=_LINES[number], lw=1.3, label=label)
        for region in regions():
            _mark(axis, region)
        axis.set(xlim=(_LEFT, _RIGHT), ylim=(_BOTTOM, _TOP), aspect="equal")
        axis.set(xlabel="q_σ, exponent of the output", ylabel="q̃, exponent of the learning rates")
        axis.set_title("The band of dynamical stability and its 13 regions")
        axis.legend(loc="upper left", bbox_to_anchor=(0.0, -0.1), borderaxespad=0.0)
    return canvas


def _lines() -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Each line where it runs through the band; two of them are its edges."""
    q = np.array([_LEFT, _RIGHT])
    return {
        1: (np.array([-0.5, -0.5]), np.array([0.0, 0.5])),
        2: (np.array([-1.0, -0.5]), np.array([1.0, 0.0])),
        3: (q, -0.5 - q),
        4: (q, -q),
    }


def _mark(axis: Any, region: Region) -> None:
    x, y = map(float, region.representative)
    text = f"{region.id}  {_NAMED[region.id]}" if region.id in _NAMED else region.id
    if region.dimension == 0:
        axis.plot([x], [y], "o", ms=5.5, color=_INK, mew=0)
    elif region.dimension == 1:
        axis.plot([x], [y], "o", ms=4.5, mfc="white", mec=_INK, mew=0.8)
    # Away from the band on its edges, away from line 2 on it, in the middle of an open set.
    offset, side = (6, 4), "left"
    if region.signs[2] == 0 or region.id == "R5":
        offset, side = (-6, -10), "right"
    if region.dimension == 2:
        offset, side = (0, -3), "center"
    axis.annotate(
        text, (x, y), offset, textcoords="offset points", color=_INK, fontsize=8.5, ha=side
    )


def _pretty(equation: str) -> str:
    return equation.replace("q_sigma", "q_σ").replace("q_tilde", "q̃")
