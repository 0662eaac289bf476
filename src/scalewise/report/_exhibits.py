"""An experiment that has been run, drawn and described; of three scales, the largest may come from a file."""

from __future__ import annotations

import inspect
import io
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import xarray as xr
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from scalewise._checked import checked
from scalewise.experiments._look import COLORS, Number, Table, attributes
from scalewise.experiments.catalogue import PAPER_SCALE, experiment, tables_of
from scalewise.report._style import _inline

__all__ = ["SCALES", "Exhibit", "drawn", "exhibit", "stored_exhibit"]

Scale = Literal["small", "usual", "paper"]
SCALES = get_args(Scale)

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
        cost: What the run takes, as text.
        command: What runs it again.
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
    cost: str
    command: str
    dataset: xr.Dataset
    numbers: tuple[Number, ...]
    tables: tuple[Table, ...]
    svg: Markup


@checked
def exhibit(
    name: str,
    *,
    scale: Scale = "usual",
    store: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Exhibit:
    """Run one experiment and draw it.

    Args:
        name: One of `EXPERIMENTS`.
        scale: ``"small"``, in seconds; ``"usual"``, in tens of seconds; ``"paper"``, in hours.
        store: A folder for what is finished, to resume from; experiments that run for seconds keep nothing.
        progress: Called with (parts done, all parts), by experiments that keep something.

    Raises:
        ValueError: If there is no such experiment, or it has no such scale.
    """
    one = experiment(name)
    config = _config(name, scale)
    known = inspect.signature(one.run).parameters
    given: dict[str, Any] = {"store": store and Path(store) / scale / name, "progress": progress}
    start = time.perf_counter()
    dataset = one.run(config, **{key: value for key, value in given.items() if key in known})
    if scale == "paper":
        return _at_paper_scale(name, dataset)
    cost = f"{time.perf_counter() - start:.1f} s"
    command = f"from scalewise.experiments.{name} import Config, run\nrun({config!r})"
    return _told(name, dataset, scale, cost, command)


@checked
def stored_exhibit(name: str, folder: str | PathLike[str]) -> Exhibit | None:
    """What an experiment gave at the scale of the paper, from the file of an earlier gallery.

    Args:
        name: One of `EXPERIMENTS`.
        folder: With ``<name>.json``, as `write_gallery` leaves it.

    Returns:
        ``None`` if there is no such file. Numbers, tables and figure are made anew from the data.

    Raises:
        ValueError: If the file is not a result of the present settings of that scale.
    """
    path = Path(folder) / f"{name}.json"
    if not path.is_file():
        return None
    again = f"Make it again by {_paper_command(name)}"
    try:
        dataset = xr.Dataset.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path} is not a stored result ({error}). {again}") from None
    wanted = attributes(_config(name, "paper"))
    differing = [key for key, value in wanted.items() if dataset.attrs.get(key) != value]
    if differing:
        raise ValueError(
            f"{path} was made with other settings: {', '.join(differing)} differ from `Config.paper()`. "
            f"{again}"
        )
    return _at_paper_scale(name, dataset)


def drawn(canvas: Figure, name: str, label: str) -> Markup:
    """A figure as inline SVG in the colours of the page; `name` keeps its ids apart from other figures'."""
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        canvas.savefig(buffer, format="svg", metadata=nothing)
    svg = str(_inline(buffer.getvalue(), name, label))
    for color, variable in _SHADES.items():
        svg = re.sub(color, f"var({variable})", svg, flags=re.IGNORECASE)
    return Markup(svg)


def _config(name: str, scale: str) -> Any:
    if scale == "paper" and name not in PAPER_SCALE:
        raise ValueError(
            f"The experiment {name!r} does not run at the scale of the paper; those that do are "
            f"{', '.join(PAPER_SCALE)}. Use scale='usual'."
        )
    kind = experiment(name).Config
    return kind() if scale == "usual" else getattr(kind, scale)()


def _told(name: str, dataset: xr.Dataset, scale: str, cost: str, command: str) -> Exhibit:
    one = experiment(name)
    prefix = name if scale != "paper" else f"{name}_paper"
    return Exhibit(
        name,
        one.TITLE,
        one.SOURCE,
        Markup(one.TEXT),
        repr(_config(name, scale)),
        cost,
        command,
        dataset,
        tuple(one.numbers(dataset)),
        tuple(tables_of(one, dataset)),
        drawn(one.figure(dataset), prefix, one.TITLE),
    )


def _at_paper_scale(name: str, dataset: xr.Dataset) -> Exhibit:
    # The sentence of `Config.paper` says what it takes.
    cost = (inspect.getdoc(experiment(name).Config.paper) or "").rstrip(".")
    return _told(name, dataset, "paper", cost, _paper_command(name))


def _paper_command(name: str) -> str:
    return (
        f"python -m scalewise.report.gallery --scale paper --only {name} "
        "--store paper_runs --out paper_scale"
    )
