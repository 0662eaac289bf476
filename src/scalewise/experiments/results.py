"""Results of experiments: run at one of three scales, kept as a file, held to what is expected."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import xarray as xr

from scalewise._checked import checked
from scalewise.experiments._look import Number, Table, attributes, cells
from scalewise.experiments.catalogue import PAPER_SCALE, experiment, tables_of
from scalewise.sweeps.spi import within

__all__ = ["SCALES", "Judged", "config_of", "judged", "run_experiment", "stored_result"]

Scale = Literal["small", "usual", "paper"]
SCALES = get_args(Scale)


@dataclass(frozen=True)
class Judged:
    """Findings of an experiment beside what it should find; a notebook shows it as tables.

    Args:
        name: Of the experiment.
        numbers: Found beside expected.
        tables: Tables, if any.
    """

    name: str
    numbers: tuple[Number, ...]
    tables: tuple[Table, ...]

    @property
    def _random(self) -> int:
        """How many numbers are compared in standard errors."""
        return sum(one.sem > 0 for one in self.numbers)

    @property
    def wrong(self) -> list[str]:
        """A sentence for every number that is not what it should be."""
        return [
            f"{self.name}: {one.what} should be {one.expected:g} and is {one.found:g} ± {one.sem:g}, "
            f"allowance {one.allowance:g}."
            for one in self.numbers
            if not one.agrees_among(self._random)
        ]

    def assert_ok(self) -> None:
        """Raise AssertionError if a number is not what it should be; the message names each."""
        assert not self.wrong, "\n".join(self.wrong)

    def _repr_html_(self) -> str:
        rows = cells(
            [
                (n.what, n.expected, n.found, n.sem or None, n.allowance or None)
                for n in self.numbers
            ]
        )
        head = ("number", "expected", "found", "standard error", "allowance")
        right = sum(one.agrees_among(self._random) for one in self.numbers)
        caption = f"{right} of {len(self.numbers)} numbers agree"
        return "\n".join(map(_html, (Table(caption, head, rows), *self.tables)))


def _html(table: Table) -> str:
    def row(kind: str, texts: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{kind}>{escape(text)}</{kind}>' for text in texts)}</tr>"

    body = "".join(row("td", texts) for texts in table.rows)
    return (
        f'<table class="table"><caption>{escape(table.caption)}</caption>'
        f"<thead>{row('th', table.head)}</thead><tbody>{body}</tbody></table>"
    )


@checked
def judged(name: str, dataset: xr.Dataset) -> Judged:
    """The numbers of an experiment beside those expected, with a verdict on each.

    Args:
        name: One of `EXPERIMENTS`.
        dataset: Of its `run`.

    Example:
        >>> from scalewise.experiments.results import judged, run_experiment
        >>> told = judged("network_diagram", run_experiment("network_diagram"))
        >>> told.assert_ok()
        >>> len(told.numbers)
        1
    """
    one = experiment(name)
    return Judged(name, tuple(one.numbers(dataset)), tuple(tables_of(one, dataset)))


@checked
def config_of(name: str, scale: Scale = "usual") -> Any:
    """The settings of an experiment at one of three scales.

    Args:
        name: One of `EXPERIMENTS`.
        scale: ``"small"``, in seconds; ``"usual"``, in tens of seconds; ``"paper"``, in hours.

    Raises:
        ValueError: If there is no such experiment, or it has no such scale.
    """
    kind = experiment(name).Config
    if scale == "paper" and name not in PAPER_SCALE:
        raise ValueError(
            f"The experiment {name!r} does not run at the scale of the paper; those that do are "
            f"{', '.join(PAPER_SCALE)}. Use scale='usual'."
        )
    return kind() if scale == "usual" else getattr(kind, scale)()


@checked
def run_experiment(
    name: str,
    *,
    scale: Scale = "usual",
    store: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    client: Any = None,
) -> xr.Dataset:
    """Run one experiment.

    Args:
        name: One of `EXPERIMENTS`.
        scale: As in `config_of`.
        store: A folder for what is finished, to resume from; experiments that run for seconds keep nothing.
        progress: Called with (parts done, all parts), by experiments that keep something.
        client: Where these compute their parts; as in `sweep`.

    Returns:
        What its `run` gives.

    Raises:
        ValueError: If there is no such experiment, or it has no such scale.
    """
    config, run = config_of(name, scale), experiment(name).run
    given: dict[str, Any] = {
        "store": within(store, f"{scale}/{name}"),
        "progress": progress,
        "client": client,
    }
    known = inspect.signature(run).parameters
    return run(config, **{key: value for key, value in given.items() if key in known})


@checked
def stored_result(name: str, folder: str | PathLike[str]) -> xr.Dataset | None:
    """The result of an experiment at the scale of the paper, from the file of an earlier run.

    Args:
        name: One of `EXPERIMENTS`.
        folder: With ``<name>.json``, as ``python -m scalewise.experiments`` leaves it.

    Returns:
        ``None`` if there is no such file.

    Raises:
        ValueError: If the file is not a result of the present settings of that scale.
    """
    path = Path(folder) / f"{name}.json"
    if not path.is_file():
        return None
    again = f"Make it again by {paper_command(name)}"
    try:
        dataset = xr.Dataset.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path} is not a stored result ({error}). {again}") from None
    wanted = attributes(config_of(name, "paper"))
    differing = [key for key, value in wanted.items() if dataset.attrs.get(key) != value]
    if differing:
        raise ValueError(
            f"{path} was made with other settings: {', '.join(differing)} differ from `Config.paper()`. "
            f"{again}"
        )
    return dataset


def paper_command(name: str) -> str:
    """The command that computes an experiment at the scale of the paper."""
    return f"python -m scalewise.experiments --scale paper --only {name} --store paper_runs --out paper_scale"
