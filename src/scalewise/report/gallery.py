"""The gallery: every experiment executed, drawn, and put on one page beside its data.

Run as ``python -m scalewise.report.gallery --out gallery``.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from scalewise._version import __version__
from scalewise.experiments._look import COLORS, Number, Table
from scalewise.experiments.catalogue import EXPERIMENTS, experiment, reason_to_skip, tables_of
from scalewise.report._style import _inline

__all__ = ["Exhibit", "exhibit", "main", "write_gallery"]

# Colours of the figures and what the page calls them; the first two are the report's own.
_SHADES = dict(
    zip(COLORS, ("--predicted", "--measured", "--c2", "--c3", "--c4", "--c5"), strict=True)
)


@dataclass(frozen=True)
class Exhibit:
    """An experiment that has been run.

    Args:
        name: Of its module.
        title: A few words.
        source: Where the claim stands.
        text: One paragraph, HTML.
        config: As it was run, as text.
        seconds: What the run took.
        dataset: What it gave.
        numbers: Found beside expected.
        tables: Tables, if any.
        svg: The figure.
    """

    name: str
    title: str
    source: str
    text: Markup
    config: str
    seconds: float
    dataset: xr.Dataset
    numbers: tuple[Number, ...]
    tables: tuple[Table, ...]
    svg: Markup

    @property
    def command(self) -> str:
        """Python that runs it again."""
        return f"from scalewise.experiments.{self.name} import Config, run\nrun({self.config})"


def exhibit(name: str, *, small: bool = False) -> Exhibit:
    """Run one experiment and draw it.

    Args:
        name: One of `EXPERIMENTS`.
        small: Whether to run the small version, in seconds.

    Raises:
        ValueError: If there is no such experiment.
    """
    one = experiment(name)
    config = one.Config.small() if small else one.Config()
    start = time.perf_counter()
    dataset = one.run(config)
    seconds = time.perf_counter() - start
    return Exhibit(
        name,
        one.TITLE,
        one.SOURCE,
        Markup(one.TEXT),
        repr(config),
        seconds,
        dataset,
        tuple(one.numbers(dataset)),
        tuple(tables_of(one, dataset)),
        _svg(one.figure(dataset), name, one.TITLE),
    )


def _svg(canvas: Figure, name: str, label: str) -> Markup:
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        canvas.savefig(buffer, format="svg", metadata=nothing)
    svg = str(_inline(buffer.getvalue(), name, label))
    for color, variable in _SHADES.items():
        svg = re.sub(color, f"var({variable})", svg, flags=re.IGNORECASE)
    return Markup(svg)


def write_gallery(out: str | Path, exhibits: Sequence[Exhibit]) -> Path:
    """Write the gallery: one page that needs nothing else, and the data of every figure.

    Args:
        out: A folder, made if it is not there. It receives ``index.html`` and ``<name>.json`` for
            every exhibit, which `xarray.Dataset.from_dict` reads back.
        exhibits: In the order of the page.

    Returns:
        The path of ``index.html``.

    Raises:
        ValueError: If `out` is a file, or there are no exhibits.
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`out` is the folder of the gallery, but {str(out)!r} is a file.")
    if not exhibits:
        raise ValueError("A gallery needs at least one exhibit; got none. Run `exhibit` for some.")
    folder.mkdir(parents=True, exist_ok=True)
    for one in exhibits:
        data = json.dumps(one.dataset.to_dict(), default=float)
        (folder / f"{one.name}.json").write_text(data + "\n", encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("scalewise.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(digits=_digits)
    numbers = [number for one in exhibits for number in one.numbers]
    page = folder / "index.html"
    text = environment.get_template("gallery.html.j2").render(
        exhibits=exhibits,
        agreeing=sum(number.agrees for number in numbers),
        total=len(numbers),
        seconds=sum(one.seconds for one in exhibits),
        version=__version__,
    )
    page.write_text(text, encoding="utf-8")
    return page


def _digits(value: float | int, count: int = 6) -> str:
    if 0 < abs(value) < 1e-12:  # rounding
        value = 0.0
    return f"{value:.{count}g}".replace("-", "−")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all experiments, or those named, and write the gallery.

    Args:
        arguments: Of the command line.

    Returns:
        0, or 1 if a number is not what it should be.
    """
    parser = argparse.ArgumentParser(description="Run the experiments and write the gallery.")
    parser.add_argument("--out", default="gallery", help="folder of the gallery")
    parser.add_argument("--small", action="store_true", help="small versions, in seconds")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, help="some experiments")
    given: Any = parser.parse_args(arguments)
    shown = []
    for name in given.only or EXPERIMENTS:
        missing = reason_to_skip(experiment(name))
        if missing is not None:
            print(f"{name} is left out. {missing}", file=sys.stderr)
            continue
        shown.append(exhibit(name, small=given.small))
        print(f"{name}: {shown[-1].seconds:.1f} s", file=sys.stderr)
    page = write_gallery(given.out, shown)
    wrong = [(one.name, number) for one in shown for number in one.numbers if not number.agrees]
    for name, number in wrong:
        print(
            f"{name}: {number.what} should be {number.expected:g} and is {number.found:g} ± "
            f"{number.sem:g}, allowance {number.allowance:g}.",
            file=sys.stderr,
        )
    print(page)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
