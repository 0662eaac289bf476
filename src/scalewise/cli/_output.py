"""What the commands print: results on standard output, all else on standard error."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import xarray as xr

    from scalewise.comparison import Comparison
    from scalewise.networks import Network

DISAGREE, BAD_INPUT, INTERRUPTED = 1, 2, 130


def susceptibilities(net: "Network", theory: "xr.Dataset") -> "xr.Dataset | None":
    """The two curves of the report, around the kernels of the network and its critical point."""
    import numpy as np

    from scalewise._labelled import dataset
    from scalewise.critical import susceptibilities as chi

    if not net.activation.is_continuous or len(set(net.C_W[1:])) != 1:
        return None
    record = net.criticality
    places = [0.01, 10.0]
    if "kernel" in theory:
        diagonal = np.einsum("laa->la", theory["kernel"].values)
        places += [float(diagonal.min()) / 3, float(diagonal.max()) * 3]
    if record is not None and record.K_star:
        places += [record.K_star / 10, record.K_star * 10]
    K = np.geomspace(max(min(places), 1e-6), min(max(places), 1e6), 121)
    try:
        parallel, perp = chi(net.activation, K, net.C_W[-1])
    except ValueError:
        return None
    return dataset({"chi_parallel": ("K", parallel), "chi_perp": ("K", perp)}, {"K": K})


def hand_over(
    data: "xr.Dataset", target: Path | None, as_json: bool, words: str, **extra: Any
) -> None:
    from scalewise.selection import omissions

    if target is not None:
        data.to_zarr(target, mode="w", consolidated=False)
    if as_json:
        print_json({**data.to_dict(data="list"), **extra})
    else:
        typer.echo(f"{words}\n\n{_by_layer(data)}")
        for sentence in omissions(data.attrs):
            typer.echo(sentence)
        if target is not None:
            typer.echo(f"\n{target}")


def _by_layer(data: "xr.Dataset") -> str:
    """Means over the inputs of what has the same input on every leg."""
    import numpy as np

    from scalewise.observables import OBSERVABLES

    columns: dict[str, Any] = {"layer": data["layer"].values}
    for name in OBSERVABLES:
        if name in data:
            same = np.arange(data[name].shape[-1])
            legs = data[name].ndim - 1
            columns[name] = data[name].values[(slice(None), *[same] * legs)].mean(axis=1)
    if "expansion_parameter" in data:
        columns["expansion_parameter"] = data["expansion_parameter"].values
    wide = [max(len(name), 12) + 2 for name in columns]
    lines = ["".join(f"{name:>{w}}" for name, w in zip(columns, wide, strict=True))]
    for row in zip(*columns.values(), strict=True):
        lines.append("".join(f"{v:>{w}.6g}" for v, w in zip(row, wide, strict=True)))
    return "\n".join([*lines, "(means over the inputs, every sample index the same)"])


def leave(outcome: "Comparison") -> None:
    if outcome.passed is None:
        complain(f"There is no verdict. {outcome.reason}")
    elif not outcome.passed:
        complain(
            "Theory and ensemble disagree: the worst entry is "
            f"{abs(outcome.worst(1)[0].z_excess):.2f} standard errors beyond its bias, the limit "
            f"is {outcome.limit:.2f}."
        )
        raise typer.Exit(DISAGREE)
    elif outcome.reason:
        complain(outcome.reason)


def verdict(record: dict[str, Any], words: str, *, as_json: bool) -> None:
    """Print what was found, as JSON or in words, and leave with 1 unless all is well."""
    if as_json:
        print_json(record)
    else:
        typer.echo(words)
    if record["status"] != "ok":
        complain(f"{record['status'].capitalize()}: {record['sentence']}")
        raise typer.Exit(DISAGREE)


def print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=2, default=_for_json, allow_nan=False))


def _for_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def complain(sentence: str) -> None:
    typer.echo(f"scalewise: {sentence}", err=True)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Bars on standard error, one for each thing that is going on; none where nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_interactive:  # rich up to 14.2 ends even disabled bars with an empty line
        yield lambda what, done, total: None
        return
    with Progress(
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as bars:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield tell
