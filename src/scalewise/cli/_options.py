"""Options that the commands share, and what the text of an option means."""

import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from scalewise.cli._output import INTERRUPTED, complain
from scalewise.data import load_inputs
from scalewise.networks import MLP
from scalewise.observables import OBSERVABLES
from scalewise.selection import known, select

Data = Annotated[str, typer.Option(help="digits, mnist, cifar2, or the path of a .npy or .csv.")]
Samples = Annotated[int, typer.Option(help="How many inputs to draw from the data.")]
DataSeed = Annotated[int, typer.Option(help="Seed of that choice.")]
ActivationName = Annotated[str, typer.Option(help="Such as tanh, relu, gelu, leaky_relu(0.1).")]
Depth = Annotated[int, typer.Option(help="Number of weight layers.")]
Width = Annotated[str, typer.Option(help="Hidden width, or depth - 1 of them: 64,64,32.")]
OutputDim = Annotated[int, typer.Option(help="Number of outputs.")]
BiasVariance = Annotated[
    str | None, typer.Option("--C-b", help="One number or one per layer; critical if left out.")
]
WeightVariance = Annotated[
    str | None, typer.Option("--C-W", help="One number or one per layer; critical if left out.")
]
BiasRate = Annotated[str, typer.Option("--lambda-b", help="Learning-rate factor of the biases.")]
WeightRate = Annotated[str, typer.Option("--lambda-W", help="Learning-rate factor of the weights.")]
Networks = Annotated[int, typer.Option(help="How many random networks to measure.")]
Seed = Annotated[int, typer.Option(help="Seed of the networks.")]
Widths = Annotated[
    str | None, typer.Option(help="Widths to extrapolate from to infinite width: 64,128,256.")
]
Names = Annotated[
    str | None,
    typer.Option(
        "--observables", help="Such as kernel,ntk, or all; if left out, what the inputs allow."
    ),
]
Tolerance = Annotated[float, typer.Option(help="Standard errors beyond the bias that still agree.")]
Json = Annotated[bool, typer.Option("--json", help="The result as JSON on standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
Out = Annotated[Path | None, typer.Option(help="Save the result as a Zarr store, name.zarr.")]


class Refusal(ValueError):
    """Bad input that the command line itself finds."""


REPRODUCED = {
    "data": "--data",
    "samples": "--samples",
    "data_seed": "--data-seed",
    "activation": "--activation",
    "depth": "--depth",
    "width": "--width",
    "output_dim": "--output-dim",
    "c_b": "--C-b",
    "c_w": "--C-W",
    "lambda_b": "--lambda-b",
    "lambda_w": "--lambda-W",
    "networks": "--networks",
    "seed": "--seed",
    "widths": "--widths",
    "observables": "--observables",
    "tolerance": "--tolerance",
}


def command_line(given: dict[str, Any]) -> str:
    """The command line that makes this run, with every choice written out."""
    words = ["scalewise", "report"]
    for key, option in REPRODUCED.items():
        if given[key] is not None:
            words += [option, str(given[key])]
    return shlex.join(words)


def inputs(data: str, samples: int, seed: int) -> Any:
    """The data, as the library takes it."""
    try:
        return load_inputs(data, samples=samples, seed=seed)
    except TypeError as error:
        raise Refusal(str(error)) from None


def network(
    shape: tuple[str, int, str, int, int],
    c_b: str | None,
    c_w: str | None,
    lambda_b: str,
    lambda_w: str,
) -> MLP:
    """The network: critical where the variances are left out."""
    activation, depth, width, input_dim, output_dim = shape
    hidden = _whole_numbers("--width", width)
    rates = {
        "lambda_b": _one_or_many(_numbers("--lambda-b", lambda_b)),
        "lambda_W": _one_or_many(_numbers("--lambda-W", lambda_w)),
    }

    def build(**variances: Any) -> MLP:
        return MLP(
            depth,
            _one_or_many(hidden),
            activation,
            input_dim=input_dim,
            output_dim=output_dim,
            **variances,
            **rates,
        )

    given = {
        key: _one_or_many(_numbers(option, text))
        for key, option, text in (("C_b", "--C-b", c_b), ("C_W", "--C-W", c_w))
        if text is not None
    }
    if len(given) == 2:
        return build(**given)
    critical = build().at_criticality()
    if not given:
        return critical
    return build(**({"C_b": critical.C_b, "C_W": critical.C_W} | given))


def run_ensemble(
    net: MLP,
    x: Any,
    networks: int,
    seed: int,
    widths: str | None,
    names: list[str] | str | None,
    *,
    store: Path | None,
    progress: Callable[[str, int, int], None],
) -> xr.Dataset:
    """Measure, with a word on how to go on if it is interrupted."""
    from scalewise.nets import measure

    several = None
    if widths is not None:
        several = _whole_numbers("--widths", widths)
    if store is not None:
        store.parent.mkdir(parents=True, exist_ok=True)
    try:
        return measure(
            net,
            x,
            networks=networks,
            seed=seed,
            widths=several,
            observables=names,
            store=store,
            progress=lambda done, total: progress("measure", done, total),
        )
    except KeyboardInterrupt:
        kept = (
            "Interrupted; nothing was kept. With --store PATH the networks measured so far would be."
            if store is None
            else f"Interrupted; run the same command again to resume from {store}."
        )
        complain(kept)
        raise typer.Exit(INTERRUPTED) from None


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise Refusal(
            f"{option} takes a number, or numbers with commas between them; got {text!r}."
        ) from None


def _whole_numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise Refusal(
            f"{option} takes a whole number, or whole numbers with commas between them; "
            f"got {text!r}."
        ) from None


def _one_or_many(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


def names(text: str | None) -> list[str] | str | None:
    """The observables asked for, as `predict` and `measure` take them."""
    if text is None:
        return None
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    return "all" if wanted == ["all"] else list(known(wanted))


def predicted_names(
    measured: list[str] | str | None, net: MLP, samples: int
) -> list[str] | str | None:
    """What to predict for a comparison: a leading order with its 1/n correction, where that can be had."""
    if not isinstance(measured, list):
        return measured
    usual = select(None, net.activation, samples=samples, depth=net.depth).names
    corrections = [name for name in usual if OBSERVABLES[name].corrects in measured]
    return list(dict.fromkeys([*measured, *corrections]))


def check_before_work(tolerance: float, folder: Path | None = None) -> None:
    """Refuse at once what would otherwise be refused after minutes of measuring."""
    if not (math.isfinite(tolerance) and tolerance > 0):
        raise Refusal(f"--tolerance is a number of standard errors above 0; got {tolerance}.")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise Refusal(f"--out is the folder of the report, but {str(folder)!r} is a file.")


def target(out: Path | None, force: bool) -> Path | None:
    """Where to save, if nothing is lost by it."""
    if out is None:
        return None
    if out.suffix != ".zarr":
        raise Refusal(f"--out names a Zarr store and must end in .zarr; got {str(out)!r}.")
    if out.exists() and not force:
        raise Refusal(f"{str(out)!r} is there already; give another --out, or --force.")
    return out
