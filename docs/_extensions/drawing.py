"""Figures in the look of the house, for a desk and a phone, on light and on dark: four files of each.

A figure with panels beside each other gets a second drawing, with its panels below each other, for narrow screens.
Dark files are the light ones in other colours; the theme shows what suits the reader.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scalewise.experiments import _look

STYLE = {**_look._STYLE, "svg.hashsalt": "scalewise", "figure.constrained_layout.use": True}
NARROW = 3.75  # inches
# Ink, grey, hairline and the colours of lines, on a dark page.
DARK = dict(
    zip(
        (_look.INK, _look.MUTED, _look.RULE, *_look.COLORS),
        ("#e6e7eb", "#a9adb8", "#3d414b", "#82aef2", "#ff9b66", "#6fcf9d", "#cf9bea", "#e0b84a", "#5fd0de"),
        strict=True,
    )
)  # fmt: skip
_COLOR = re.compile("|".join([*DARK, "#ffffff(?![0-9a-f])", "#000000(?![0-9a-f])"]), re.I)


def svg(figure: Figure) -> str:
    """A figure as text that is the same whenever it is drawn."""
    out = io.StringIO()
    with plt.rc_context({"svg.hashsalt": "scalewise", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", facecolor="none", metadata={"Date": None})
    return out.getvalue()


def dark(text: str) -> str:
    """The same figure for a dark page."""
    more = {"#ffffff": "#14181e", "#000000": "#e6e7eb"}
    text = _COLOR.sub(lambda found: (DARK | more)[found[0].lower()], text)
    return text.replace('<style type="text/css">', '<style type="text/css">text{fill:#e6e7eb}', 1)


def narrowed(figure: Figure) -> bool:
    """Put the panels of a figure below each other; ``False`` if they already are, or are no plain grid."""
    panels = [axis for axis in figure.axes if isinstance(axis, Axes)]
    grids = {id(axis.get_gridspec()) for axis in panels}
    if len(panels) != len(figure.axes) or len(grids) != 1 or panels[0].get_gridspec() is None:
        return False
    rows = panels[0].get_gridspec().nrows
    height = figure.get_figheight() / rows
    shown = [axis for axis in panels if axis.axison]
    if len(shown) == 1 and figure.get_figwidth() <= NARROW:
        return False
    for axis in panels:
        if axis not in shown:
            axis.remove()
    grid = figure.add_gridspec(len(shown), 1)
    for place, axis in zip(grid, shown, strict=True):
        axis.set_subplotspec(place)
        _named(axis)
    figure.set_size_inches(NARROW, height * len(shown))
    return True


def _named(axis: Axes) -> None:
    """Give a panel the labels and numbers of those that stood beside or below it and share an axis with it."""
    for letter, side in (("x", "labelbottom"), ("y", "labelleft")):
        others = getattr(axis, f"get_shared_{letter}_axes")().get_siblings(axis)
        if len(others) > 1 and getattr(axis, f"{letter}axis").get_visible():
            axis.tick_params(axis=letter, **{side: True})
            words = {getattr(one, f"get_{letter}label")() for one in others} - {""}
            if len(words) == 1:
                axis.set(**{f"{letter}label": words.pop()})


def written(figure: Figure, stem: Path) -> list[tuple[Path, str]]:
    """Write the files of a figure; their paths, each with the classes of the screens that see it."""
    drawn = {"": svg(figure)}
    if narrowed(figure):
        drawn = {"wide": drawn[""], "narrow": svg(figure)}
    files = []
    stem.parent.mkdir(parents=True, exist_ok=True)
    for screen, text in drawn.items():
        for theme, words in (("light", text), ("dark", dark(text))):
            path = stem.with_name("-".join(filter(None, (stem.name, screen, theme))) + ".svg")
            path.write_text(words, encoding="utf-8")
            files.append((path, " ".join(filter(None, (f"only-{theme}", screen)))))
    return files
