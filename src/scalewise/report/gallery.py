"""The gallery: every experiment executed, drawn, and put on one page beside its data.

Run as ``python -m scalewise.report.gallery --out gallery``; what takes hours is kept as it goes with
``--scale paper --store paper_runs --out paper_scale``, and shown on the page by ``--paper paper_scale``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from scalewise._version import __version__
from scalewise.experiments.catalogue import (
    EXPERIMENTS,
    PAPER_SCALE,
    experiment,
    reason_to_skip,
)
from scalewise.report._exhibits import SCALES, Exhibit, exhibit, exhibits, stored_exhibit
from scalewise.sweeps import SweepError

__all__ = ["Exhibit", "exhibit", "main", "stored_exhibit", "write_gallery"]


def write_gallery(
    out: str | Path, exhibits: Sequence[Exhibit], *, paper: Sequence[Exhibit] = ()
) -> Path:
    """Write the gallery: one page that needs nothing else, and the data of every figure.

    Args:
        out: A folder, made if it is not there. It receives ``index.html`` and ``<name>.json`` for
            every exhibit, which `xarray.Dataset.from_dict` reads back.
        exhibits: In the order of the page.
        paper: Results at the scale of the paper, each shown below the exhibit of the same name, or by itself
            if there is none.

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
    numbers = [number for one in (*exhibits, *paper) for number in one.numbers]
    usual, large = ({one.name: one for one in part} for part in (exhibits, paper))
    page = folder / "index.html"
    text = environment.get_template("gallery.html.j2").render(
        sections=[(usual.get(name), large.get(name)) for name in {**usual, **large}],
        agreeing=sum(number.agrees for number in numbers),
        total=len(numbers),
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
        0, 1 if a number is not what it should be, 2 if something asked for cannot be used.
    """
    parser = argparse.ArgumentParser(description="Run the experiments and write the gallery.")
    parser.add_argument("--out", default="gallery", help="folder of the gallery")
    parser.add_argument(
        "--scale",
        choices=SCALES,
        default="usual",
        help="small takes seconds; paper hours, for the experiments that have it",
    )
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, help="some experiments")
    parser.add_argument(
        "--store", help="folder that keeps what is finished; the same again resumes"
    )
    parser.add_argument(
        "--cluster", help="address of a dask scheduler; without it, the cores of this machine"
    )
    parser.add_argument(
        "--paper", help="folder of an earlier gallery of --scale paper, to be shown too"
    )
    given: Any = parser.parse_args(arguments)
    try:
        stored = [] if given.paper is None else _stored(given.paper, given.only or EXPERIMENTS)
        shown = _run(given.only or (PAPER_SCALE if given.scale == "paper" else EXPERIMENTS), given)
        page = write_gallery(given.out, shown, paper=stored)
    except (ValueError, SweepError) as error:
        print(error, file=sys.stderr)
        return 2
    wrong = [(one, number) for one in (*shown, *stored) for number in one.numbers]
    wrong = [(one, number) for one, number in wrong if not number.agrees]
    for one, number in wrong:
        print(
            f"{one.name}: {number.what} should be {number.expected:g} and is {number.found:g} ± "
            f"{number.sem:g}, allowance {number.allowance:g}.",
            file=sys.stderr,
        )
    print(page)
    return 1 if wrong else 0


def _stored(folder: str, names: Sequence[str]) -> list[Exhibit]:
    """Results of an earlier run at the scale of the paper, as many as there are."""
    found = [stored_exhibit(name, folder) for name in names if name in PAPER_SCALE]
    return [one for one in found if one is not None]


def _run(names: Sequence[str], given: Any) -> list[Exhibit]:
    missing = {name: reason_to_skip(experiment(name)) for name in names}
    for name, reason in missing.items():
        if reason is not None:
            print(f"{name} is left out. {reason}", file=sys.stderr)
    there = [name for name, reason in missing.items() if reason is None]
    options = {"scale": given.scale, "store": given.store, "client": given.cluster}
    if given.scale == "paper":  # hours: each is a sweep of its own
        return [exhibit(name, **options, progress=_progress(name)) for name in there]
    shown = exhibits(there, **options, progress=_progress("gallery")) if there else []
    for one in shown:
        print(f"{one.name}: {one.cost}", file=sys.stderr)
    return shown


def _progress(name: str) -> Callable[[int, int], None]:
    """Print a line for every hundredth part."""
    told = -1

    def tell(done: int, parts: int) -> None:
        nonlocal told
        if 100 * done // parts > told:
            told = 100 * done // parts
            print(f"{name}: {done} of {parts} parts done", file=sys.stderr, flush=True)

    return tell


if __name__ == "__main__":
    sys.exit(main())
