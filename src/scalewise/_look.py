"""The look that figures of all rooms share: ink, grey and hairline, points with error bars, labels of powers.

Settings are matplotlib's; nothing here imports it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# The report's ink, grey and hairline.
INK, MUTED, RULE = "#1c1d21", "#6c6f78", "#dcdde2"
STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.linewidth": 0.7,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.minor.width": 0.0,
    "ytick.minor.width": 0.0,
    "text.color": INK,
    "lines.solid_capstyle": "round",
}
# Beside it for a figure on a page, whose background is seen through it and whose text stays text.
ON_A_PAGE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.0,
}
# Beside it for a figure whose title stands to the left, over a legend without a frame.
TITLED: dict[Any, Any] = {
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "legend.frameon": False,
}
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def points(
    axis: Any, x: Any, y: Any, sem: Any = None, *, color: str, label: str = "", size: float = 3.6
) -> None:
    """Measured points with error bars of one standard error."""
    given: dict[str, Any] = {"label": label} if label else {}
    axis.errorbar(
        np.asarray(x, dtype=float),
        np.asarray(y, dtype=float),
        yerr=None if sem is None else np.asarray(sem, dtype=float),
        fmt="o",
        color=color,
        markersize=size,
        markeredgewidth=0,
        elinewidth=1.0,
        capsize=0,
        **given,
    )


def power_label(value: float | int | np.integer) -> str:
    """A number for a logarithmic axis: 0.2, 1, 50, 10⁻⁴."""
    if 1e-3 < abs(value) < 1e4:
        return f"{value:g}"
    exponent = int(np.floor(np.log10(value) + 1e-9))
    digit = round(value / 10.0**exponent)
    text = f"10{str(exponent).translate(SUPERSCRIPT)}"
    return text if digit == 1 else f"{digit}·{text}"
