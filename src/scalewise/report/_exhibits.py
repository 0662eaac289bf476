"""An experiment that has been run, drawn and described; of three scales, the largest may come from a file."""

from __future__ import annotations

import inspect
import io
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import xarray as xr
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from scalewise._checked import checked
from scalewise.experiments import catalogue
from scalewise.experiments._look import COLORS, Number, Table, attributes
from scalewise.experiments.catalogue import PAPER_SCALE, experiment, tables_of
from scalewise.report._style import _inline
from scalewise.sweeps import sweep
from scalewise.sweeps._store import within

__all__ = ["SCALES", "Exhibit", "drawn", "exhibit", "exhibits", "stored_exhibit"]

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
    client: Any = None,
) -> Exhibit:
    """Run one experiment and draw it.

    Args:
        name: One of `EXPERIMENTS`.
        scale: ``"small"``, in seconds; ``"usual"``, in tens of seconds; ``"paper"``, in hours.
        store: A folder for what is finished, to resume from; experiments that run for seconds keep nothing.
        progress: Called with (parts done, all parts), by experiments that keep something.
        client: Where these compute their parts; as in `sweep`.

    Raises:
        ValueError: If there is no such experiment, or it has no such scale.
    """
    one = experiment(name)
    config = _config(name, scale)
    known = inspect.signature(one.run).parameters
    given: dict[str, Any] = {
        "store": within(store, f"{scale}/{name}"),
        "progress": progress,
        "client": client,
    }
    start = time.perf_counter()
    dataset = one.run(config, **{key: value for key, value in given.items() if key in known})
    return _told(name, dataset, scale, time.perf_counter() - start)


def exhibits(
    names: Sequence[str],
    *,
    scale: str = "usual",
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    client: Any = None,
) -> list[Exhibit]:
    """Run experiments as one sweep, and draw them.

    Args:
        names: Of `EXPERIMENTS`.
        scale: ``"small"`` or ``"usual"``.
        store: A folder for what is finished, to resume from.
        progress: Called with (experiments done, all of them).
        client: Where they run; as in `sweep`.

    Raises:
        SweepError: If an experiment raised; the others are finished first.
    """
    ran = sweep(
        partial(_ran, scale=scale),
        {"experiment": list(names)},
        store=within(store, f"{scale}/exhibits"),
        progress=progress,
        client=client,
    )
    return [
        _told(name, _read(str(ran.result.values[i])), scale, float(ran.cell_seconds.values[i]))
        for i, name in enumerate(names)
    ]


def _ran(experiment: str, *, scale: str) -> xr.Dataset:
    """What an experiment gave as a text: no two have the same variables."""
    found = catalogue.experiment(experiment).run(_config(experiment, scale))
    return xr.Dataset({"result": json.dumps(found.to_dict(), default=float)})


def _read(text: str) -> xr.Dataset:
    return xr.Dataset.from_dict(json.loads(text))


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
        dataset = _read(path.read_text(encoding="utf-8"))
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path} is not a stored result ({error}). {again}") from None
    wanted = attributes(_config(name, "paper"))
    differing = [key for key, value in wanted.items() if dataset.attrs.get(key) != value]
    if differing:
        raise ValueError(
            f"{path} was made with other settings: {', '.join(differing)} differ from `Config.paper()`. "
            f"{again}"
        )
    return _told(name, dataset, "paper", 0.0)


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


def _told(name: str, dataset: xr.Dataset, scale: str, seconds: float) -> Exhibit:
    one, config = experiment(name), _config(name, scale)
    prefix, cost = name, f"{seconds:.1f} s"
    command = f"from scalewise.experiments.{name} import Config, run\nrun({config!r})"
    if scale == "paper":
        # The sentence of `Config.paper` says what it takes.
        prefix, cost = f"{name}_paper", (inspect.getdoc(one.Config.paper) or "").rstrip(".")
        command = _paper_command(name)
    return Exhibit(
        name,
        one.TITLE,
        one.SOURCE,
        Markup(one.TEXT),
        repr(config),
        cost,
        command,
        dataset,
        tuple(one.numbers(dataset)),
        tuple(tables_of(one, dataset)),
        drawn(one.figure(dataset), prefix, one.TITLE),
    )


def _paper_command(name: str) -> str:
    return (
        f"python -m scalewise.report.gallery --scale paper --only {name} "
        "--store paper_runs --out paper_scale"
    )
