"""The house look of figures, and the two records a page needs: a checked number and a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import wraps
from typing import Any

import xarray as xr
from matplotlib import rc_context, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scalewise._look import INK as INK
from scalewise._look import MUTED as MUTED
from scalewise._look import ON_A_PAGE, STYLE, TITLED
from scalewise._look import RULE as RULE
from scalewise._look import points as points
from scalewise._look import power_label as power_label
from scalewise.comparison.spi import limit_among

COLORS = ("#1f4f99", "#c4480f", "#20684a", "#7a3f98", "#9a7400", "#0f7d8c")
_STYLE: dict[Any, Any] = {
    **STYLE,
    **ON_A_PAGE,
    **TITLED,
    "legend.fontsize": 8.0,
    "legend.handlelength": 1.4,
    "legend.labelspacing": 0.3,
    "lines.linewidth": 1.4,
}


@dataclass(frozen=True)
class Number:
    """A number of an experiment beside what the theory or the source says.

    Args:
        what: What it is, a few words.
        expected: The value it should have.
        found: The value it has.
        sem: Standard error of `found`; 0 for what is not random.
        allowance: What may be missing beyond chance: a neglected order, or the digits printed.
    """

    what: str
    expected: float | int
    found: float | int
    sem: float | int = 0.0
    allowance: float | int = 0.0

    @classmethod
    def of(
        cls, data: xr.Dataset, what: str, expected: str | float, found: str, allowance: float = 0.0
    ) -> Number:
        """A number of data: `found` is a variable, with any ``_sem``, and `expected` another or a value."""
        wanted = data[expected] if isinstance(expected, str) else expected
        return cls(
            what, float(wanted), float(data[found]), float(data.get(f"{found}_sem", 0.0)), allowance
        )

    @property
    def agrees(self) -> bool:
        """True if both are equal within four standard errors and the allowance."""
        return self.agrees_among(1)

    def agrees_among(self, count: int) -> bool:
        """True if both are equal as one of so many random numbers, of which one may be further off by chance."""
        away = limit_among(count) * self.sem + self.allowance
        return bool(abs(self.found - self.expected) <= away)


@dataclass(frozen=True)
class Table:
    """A table as text: a caption, the head, and rows."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, caption: str, head: tuple[str, ...], rows: Sequence[Sequence[object]]) -> Table:
        """A table of anything; see `cells`."""
        return cls(caption, head, cells(rows))


def house(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Let a function draw its figure in the house look, whatever the reader's own settings."""

    @wraps(draw)
    def drawn(*args: Any, **kwargs: Any) -> Figure:
        with rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawn


def sheet(columns: int, rows: int = 1, *, height: float = 3.3) -> tuple[Figure, list[Axes]]:
    """A figure of the width of a page, and its panels row by row."""
    canvas = Figure(figsize=(10.4, height * rows), layout="constrained")
    canvas.get_layout_engine().set(w_pad=0.12, h_pad=0.1, wspace=0.02, hspace=0.04)  # type: ignore
    return canvas, list(canvas.subplots(rows, columns, squeeze=False).flat)


def panels(
    columns: int | str, rows: int | str = 1, *, height: float = 3.3
) -> Callable[[Callable[..., None]], Callable[[xr.Dataset], Figure]]:
    """Give a function that draws its empty panels row by row, in the house look, and return what it has drawn.

    Args:
        columns: How many, or a dimension of the data: one for each of its labels.
        rows: Likewise.
        height: Of a row, in inches.
    """

    def prepared(draw: Callable[..., None]) -> Callable[[xr.Dataset], Figure]:
        @house
        @wraps(draw)
        def figure(dataset: xr.Dataset) -> Figure:
            counts = (n if isinstance(n, int) else dataset.sizes[n] for n in (columns, rows))
            canvas, axes = sheet(*counts, height=height)
            draw(dataset, *axes)
            return canvas

        return figure

    return prepared


def log_axes(axis: Axes, which: str = "xy") -> None:
    """Logarithmic axes whose labels are plain text."""
    for letter in which:
        if letter == "x":
            axis.set_xscale("log")
        else:
            axis.set_yscale("log")
        side = axis.xaxis if letter == "x" else axis.yaxis
        low, high = axis.get_xlim() if letter == "x" else axis.get_ylim()
        if high / max(low, 1e-300) < 6:
            even = ticker.MaxNLocator(nbins=4, steps=[1, 2, 5, 10]).tick_values(low, high)
            side.set_major_locator(ticker.FixedLocator([v for v in even if low <= v <= high]))
        elif high / max(low, 1e-300) < 40:
            side.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        side.set_major_formatter(ticker.FuncFormatter(lambda value, _: power_label(value)))
        side.set_minor_formatter(ticker.NullFormatter())


def layers_below(axis: Axes) -> None:
    """Whole numbers on a linear horizontal axis of layers."""
    axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, nbins=7, min_n_ticks=1))
    axis.set_xlabel("layer ℓ")


def attributes(config: Any, **more: Any) -> dict[str, Any]:
    """A config as the attributes of a Dataset: lists for tuples, nothing that JSON cannot hold."""
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(config).items()}
    return {**plain, **more}


def cells(rows: Sequence[Sequence[object]]) -> tuple[tuple[str, ...], ...]:
    """Rows of anything as rows of text; floats to five digits, ``None`` as a dash."""

    def cell(value: object) -> str:
        if value is None:
            return "–"
        return f"{value:.5g}".replace("-", "−") if isinstance(value, float) else str(value)

    return tuple(tuple(cell(value) for value in row) for row in rows)
