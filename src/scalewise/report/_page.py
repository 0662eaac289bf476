"""Put the page together and write it beside the results it was made from."""

import json
from collections.abc import Callable, Mapping
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any

import xarray as xr
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from scalewise._checked import checked
from scalewise._version import __version__
from scalewise.comparison import Comparison
from scalewise.networks import Network
from scalewise.report import _words
from scalewise.report._activation import activation_figure
from scalewise.report._agreement import agreement_figure
from scalewise.report._aspect import aspect_figure
from scalewise.report._convolution import convolution_figure
from scalewise.report._results import Results
from scalewise.report._signal import ntk_figure, signal_figure
from scalewise.report._style import Figure
from scalewise.report._vertex import correction_figure, vertex_figure
from scalewise.selection import omissions

_FIGURES: tuple[Callable[[Results], Figure | None], ...] = (
    activation_figure,
    signal_figure,
    vertex_figure,
    correction_figure,
    ntk_figure,
    aspect_figure,
    agreement_figure,
    convolution_figure,
)
_PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "xarray", "zarr", "matplotlib")
_WORST_ROWS = 12


@checked
def write_report(out: str | PathLike[str], results: Results) -> Path:
    """Write the report of a comparison: one page, and the results it was made from.

    Args:
        out: A folder, made if it is not there. It receives ``index.html``, which needs nothing
            else to be read, ``result.json``, ``theory.zarr`` and ``ensemble.zarr``.
        results: The network, the two results and their comparison. Nothing is computed here that
            they do not hold.

    Returns:
        The path of ``index.html``.

    Raises:
        ValueError: If `out` is a file.
    """
    folder, record = folder_for(out), result_record(results)
    data = {"theory": results.theory, "ensemble": results.ensemble}
    return leave(folder, record, data, _render(results, record))


@checked
def result_record(results: Results) -> dict[str, Any]:
    """The verdict of `results` and every number needed to run again, as plain JSON."""
    critical = results.net.criticality
    return {
        "comparison": results.comparison.to_dict(),
        "network": results.net.attributes(),
        "criticality": None if critical is None else critical.attributes(),
        "aspect_ratio": results.net.aspect_ratio,
        "expansion_parameter": results.expansion.tolist(),
        "ensemble": {
            key: as_plain(results.ensemble.attrs[key])
            for key in (
                "networks",
                "seed",
                "dtype",
                "widths",
                "extrapolated",
                "extrapolation_degree",
            )
            if key in results.ensemble.attrs
            and (results.ensemble.attrs.get("extrapolated") or "extrapol" not in key)
        },
        **_of_convolution(results),
        "run": {key: as_plain(value) for key, value in results.run.items()},
        "versions": versions(),
    }


def _of_convolution(results: Results) -> dict[str, Any]:
    other = results.convolution
    if other is None:
        return {}
    return {
        "convolution": {
            "network": other.net.attributes(),
            "comparison": other.comparison.to_dict(),
        }
    }


def folder_for(out: str | PathLike[str]) -> Path:
    """The folder of a page, made if it is not there."""
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"`out` must be a folder; {str(out)!r} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def leave(
    folder: Path, record: Mapping[str, Any], data: Mapping[str, xr.Dataset], text: str
) -> Path:
    """Write a page beside its record and its data, and say where it is."""
    for name, dataset in data.items():
        dataset.to_zarr(folder / f"{name}.zarr", mode="w", consolidated=False)
    (folder / "result.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    page = folder / "index.html"
    page.write_text(text, encoding="utf-8")
    return page


def template(name: str) -> Template:
    """A template of the package, which knows how pages write numbers."""
    environment = Environment(
        loader=PackageLoader("scalewise.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=_words.number, count=_words.count, all=_words.one_or_all)
    return environment.get_template(name)


def _render(results: Results, record: dict[str, Any]) -> str:
    figures = {f.name: f for make in _FIGURES if (f := make(results)) is not None}
    return template("page.html.j2").render(
        results=results,
        net=results.net,
        outcome=results.comparison,
        summary=_summary(results.comparison),
        worst=results.comparison.worst(_WORST_ROWS),
        figures=figures,
        verdict=_words.verdict(results),
        critical=_words.critical_words(results),
        aspect=_words.aspect_words(results),
        convolution=_words.convolution_words(results),
        omitted=omissions(results.theory.attrs),
        record=record,
        title=title_of(results.net),
    )


def _summary(outcome: Comparison) -> list[dict[str, Any]]:
    data: xr.Dataset = outcome.summary
    return [
        {"name": str(name), **{str(k): data[k].values[i].item() for k in data.data_vars}}
        for i, name in enumerate(data["observable"].values)
    ]


def title_of(net: Network) -> str:
    """Activation, depth and width."""
    hidden = sorted(set(net.hidden_widths))
    width = f", width {'–'.join(map(str, sorted({hidden[0], hidden[-1]})))}" if hidden else ""
    return f"{net.activation.name}, depth {net.depth}{width}"


def versions() -> dict[str, str]:
    """Versions of the package and of what it computes with."""
    found = {"scalewise": __version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def as_plain(value: Any) -> Any:
    """Value as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
