"""How figures look: one palette, one type size, and SVG that takes its colours from the page."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from matplotlib import rc_context, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from scalewise._look import INK, MUTED, ON_A_PAGE, RULE, STYLE, points, power_label

# Where the points of two curves that run together stand, in layers.
ASIDE = (-0.1, 0.1)

# Figures are drawn in these and the page replaces them by its own colours, light or dark.
PREDICTED, MEASURED, BAND = "#1f4f99", "#c4480f", "#cfdcf0"
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    PREDICTED: "--predicted",
    MEASURED: "--measured",
    BAND: "--band",
}


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a heading in HTML and the drawing as inline SVG."""

    heading: Markup
    svg: Markup


@dataclass(frozen=True)
class Figure:
    """A group of panels with one caption that says what to see.

    `key` names the roles that appear, for the legend: any of ``predicted``, ``measured``, ``bias``.
    """

    name: str
    panels: tuple[Panel, ...]
    caption: Markup
    key: tuple[str, ...] = ("predicted", "measured", "bias")


class Draft:
    """Axes with the few marks that the figures of a report are made of, and their SVG once they are finished."""

    def __init__(self, ax: Axes):
        self.ax, self.svg = ax, Markup()
        self._labels: list[tuple[float, float, str, str]] = []

    def compared(
        self,
        x: np.ndarray,
        predicted: np.ndarray,
        bias: np.ndarray,
        measured: np.ndarray | None = None,
        sem: np.ndarray | None = None,
        *,
        label: str = "",
        aside: float = 0.0,
    ) -> None:
        """A predicted line in its band of stated bias, and measured points with error bars.

        The points stand `aside` by that much, for curves that run together.
        """
        self.ax.fill_between(
            x, predicted - bias, predicted + bias, color=BAND, alpha=0.45, linewidth=0
        )
        self.ax.plot(x, predicted, color=PREDICTED, linewidth=1.4)
        if measured is not None:
            points(self.ax, x + aside, measured, sem, color=MEASURED, size=3.0)
        if label:
            self.label(float(x[-1]), float(predicted[-1]), label, MUTED)

    def label(self, x: float, y: float, text: str, color: str) -> None:
        """A label to the right of a point; labels that would touch are moved apart."""
        self._labels.append((x, y, text, color))

    def layers(self, layers: np.ndarray) -> None:
        """Whole numbers on the horizontal axis."""
        self.ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, nbins=9, min_n_ticks=1))
        self.ax.set_xlabel("layer ℓ")
        pad = 0.03 * max(float(np.ptp(layers)), 1.0)
        self.ax.set_xlim(float(layers[0]) - pad, float(layers[-1]) + pad)

    def log(self, axis: str) -> None:
        """A logarithmic axis whose labels are plain text."""
        if axis == "x":
            self.ax.set_xscale("log")
            which = self.ax.xaxis
            low, high = self.ax.get_xlim()
        else:
            self.ax.set_yscale("log")
            which = self.ax.yaxis
            low, high = self.ax.get_ylim()
        which.set_minor_formatter(ticker.NullFormatter())
        which.set_major_formatter(ticker.FuncFormatter(lambda value, _: power_label(value)))
        if high / max(low, 1e-300) < 30:
            which.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))

    def panel(self, heading: str) -> Panel:
        """The finished drawing under a heading."""
        return Panel(Markup(heading), self.svg)

    def finish(self) -> None:
        """Place the labels, once the limits of the axes are known."""
        transform = self.ax.transData + self.ax.transAxes.inverted()
        placed = [
            (transform.transform((x, y))[1], transform.transform((x, y))[0], text, color)
            for x, y, text, color in self._labels
        ]
        heights = _spread([entry[0] for entry in placed], gap=0.062)
        for height, (_, x, text, color) in zip(heights, placed, strict=True):
            self.ax.text(
                x + 0.02,
                height,
                text,
                color=color,
                fontsize=8 if color == MUTED else 10,
                va="center",
                ha="left",
                transform=self.ax.transAxes,
            )


@contextmanager
def draw(name: str, label: str, *, right: float = 0.86) -> Iterator["Draft"]:
    """A fresh pair of axes; when the block ends, they hold their SVG.

    Args:
        name: Unique on the page, made part of every id in the SVG.
        label: What a reader who cannot see the figure should know.
        right: Right edge of the axes, in parts of the width: room for labels.
    """
    with rc_context({**STYLE, **ON_A_PAGE, "svg.hashsalt": name}):
        canvas = Canvas(figsize=(4.9, 3.3))
        ax = canvas.add_axes((0.135, 0.145, right - 0.135, 0.825))
        sheet = Draft(ax)
        yield sheet
        sheet.finish()
        buffer = io.StringIO()
        canvas.savefig(
            buffer,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    sheet.svg = _inline(buffer.getvalue(), name, label)


def _spread(heights: Sequence[float], gap: float) -> list[float]:
    """The nearest heights, in the same order, that are at least `gap` apart."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    groups: list[list[int]] = []
    centres: list[float] = []
    for i in order:
        groups.append([i])
        centres.append(heights[i])
        # A group takes the mean place of its members; touching groups become one.
        while len(groups) > 1 and (
            centres[-1] - centres[-2] < gap * (len(groups[-1]) + len(groups[-2])) / 2
        ):
            merged = groups.pop(-2) + groups.pop()
            centres = [*centres[:-2], sum(heights[j] for j in merged) / len(merged)]
            groups.append(merged)
    out = list(heights)
    for group, centre in zip(groups, centres, strict=True):
        for place, i in enumerate(group):
            out[i] = centre + gap * (place - (len(group) - 1) / 2)
    return out


def _inline(svg: str, name: str, label: str) -> Markup:
    """Matplotlib's file as an element of a page: own ids, the page's type and colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"font:\s*([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    for color, variable in _VARIABLES.items():
        svg = re.sub(color, f"var({variable})", svg, flags=re.IGNORECASE)
    box = re.search(r'viewBox="[^"]+"', svg)
    assert box is not None
    told = f'role="img" aria-label="{escape(label)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box.group()} {told}>'
    return Markup(re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1))


def kept(data: Any, count: int) -> list[int]:
    """At most `count` indices of `data`, from the smallest to the largest value, evenly by rank."""
    order = np.argsort(np.asarray(data), kind="stable")
    places = np.unique(np.round(np.linspace(0, len(order) - 1, min(count, len(order)))).astype(int))
    return [int(order[i]) for i in places]
