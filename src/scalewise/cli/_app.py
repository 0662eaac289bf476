"""The commands themselves."""

import functools
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from scalewise._version import __version__
from scalewise.cli import _options as opt
from scalewise.cli import _output as tell

app = typer.Typer(
    name="scalewise",
    help="Predict, before training, what a network of width n and depth L will do; check it.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def polite(command: Callable[..., None]) -> Callable[..., None]:
    """Turn bad input into one sentence and exit code 2, an interruption into 130."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            tell.complain("Interrupted; run the same command again to start over.")
            raise typer.Exit(tell.INTERRUPTED) from None
        except (ValueError, ImportError, OSError) as error:
            tell.complain(str(error))
            raise typer.Exit(tell.BAD_INPUT) from None

    return wrapper


def main() -> None:
    """Entry point of the command ``scalewise``."""
    try:
        code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False)
    except KeyboardInterrupt:
        tell.complain("Interrupted.")
        sys.exit(tell.INTERRUPTED)
    except Exception as error:
        # Typer's own complaints about options carry a sentence of their own.
        sentence = getattr(error, "format_message", None)
        if sentence is None:
            raise
        tell.complain(f"{sentence().rstrip('.')}. Try 'scalewise --help'.")
        sys.exit(tell.BAD_INPUT)
    sys.exit(code if isinstance(code, int) else 0)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="The version, and leave.")] = False,
) -> None:
    """Predict what a network of width n and depth L will do, and check it on real networks."""
    if version:
        typer.echo(f"scalewise {__version__}")


@app.command(short_help="Predict, measure, compare; write a page.")
@polite
def report(
    *,
    data: opt.Data = "digits",
    samples: opt.Samples = 8,
    data_seed: opt.DataSeed = 0,
    activation: opt.ActivationName = "tanh",
    depth: opt.Depth = 16,
    width: opt.Width = "128",
    output_dim: opt.OutputDim = 10,
    c_b: opt.BiasVariance = None,
    c_w: opt.WeightVariance = None,
    lambda_b: opt.BiasRate = "1",
    lambda_w: opt.WeightRate = "1",
    networks: opt.Networks = 2000,
    seed: opt.Seed = 0,
    widths: opt.Widths = None,
    observables: opt.Names = None,
    tolerance: opt.Tolerance = 4.0,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"),
    as_json: opt.Json = False,
    force: Annotated[
        bool, typer.Option("--force", help="Drop what an interrupted run left in --out.")
    ] = False,
) -> None:
    """Predict, measure, compare, and write a page that shows it; exit 1 if they disagree."""
    given = {key: value for key, value in locals().items() if key in opt.REPRODUCED}
    from scalewise.comparison import compare
    from scalewise.report import Results, result_record, write_report
    from scalewise.theory import predict as foretell

    opt.check_before_work(tolerance, out)
    store = out / "ensemble-run.zarr"
    if force:
        shutil.rmtree(store, ignore_errors=True)
    x = opt.inputs(data, samples, data_seed)
    shape = (activation, depth, width, x.shape[1], output_dim)
    net = opt.network(shape, c_b, c_w, lambda_b, lambda_w)
    wanted = opt.names(observables)
    with tell.progress() as bars:
        theory = foretell(
            net, x, observables=opt.predicted_names(wanted, net, len(x)), progress=bars
        )
        ensemble = opt.run_ensemble(
            net, x, networks, seed, widths, wanted, store=store, progress=bars
        )
    outcome = compare(theory, ensemble, tolerance=tolerance)
    run = {
        "command": opt.command_line(given),
        "data": data,
        "samples": samples,
        "data_seed": data_seed,
    }
    results = Results(net, theory, ensemble, outcome, tell.susceptibilities(net, theory), run)
    page = write_report(out, results)
    shutil.rmtree(store, ignore_errors=True)
    if as_json:
        tell.print_json({"report": str(page), **result_record(results)})
    else:
        typer.echo(f"{outcome}\n\n{page}")
    tell.leave(outcome)


@app.command(short_help="What the theory says of a network.")
@polite
def predict(
    *,
    data: opt.Data = "digits",
    samples: opt.Samples = 8,
    data_seed: opt.DataSeed = 0,
    activation: opt.ActivationName = "tanh",
    depth: opt.Depth = 16,
    width: opt.Width = "128",
    output_dim: opt.OutputDim = 10,
    c_b: opt.BiasVariance = None,
    c_w: opt.WeightVariance = None,
    lambda_b: opt.BiasRate = "1",
    lambda_w: opt.WeightRate = "1",
    observables: opt.Names = None,
    out: opt.Out = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
) -> None:
    """What the theory says of a network, layer by layer; no network is drawn."""
    from scalewise.theory import predict as foretell

    saved = opt.target(out, force)
    x = opt.inputs(data, samples, data_seed)
    shape = (activation, depth, width, x.shape[1], output_dim)
    net = opt.network(shape, c_b, c_w, lambda_b, lambda_w)
    with tell.progress() as bars:
        theory = foretell(net, x, observables=opt.names(observables), progress=bars)
    tell.hand_over(theory, saved, as_json, str(net))


@app.command(short_help="Measure an ensemble of real networks.")
@polite
def measure(
    *,
    data: opt.Data = "digits",
    samples: opt.Samples = 8,
    data_seed: opt.DataSeed = 0,
    activation: opt.ActivationName = "tanh",
    depth: opt.Depth = 16,
    width: opt.Width = "128",
    output_dim: opt.OutputDim = 10,
    c_b: opt.BiasVariance = None,
    c_w: opt.WeightVariance = None,
    lambda_b: opt.BiasRate = "1",
    lambda_w: opt.WeightRate = "1",
    networks: opt.Networks = 2000,
    seed: opt.Seed = 0,
    widths: opt.Widths = None,
    observables: opt.Names = None,
    tolerance: opt.Tolerance = 4.0,
    compare: Annotated[
        bool, typer.Option("--compare", help="Hold it against the theory; exit 1 if they disagree.")
    ] = False,
    store: Annotated[
        Path | None, typer.Option(help="Keep networks here as they come, and resume from there.")
    ] = None,
    out: opt.Out = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
) -> None:
    """Draw an ensemble of real networks and measure it, with standard errors."""
    from scalewise.comparison import compare as hold_against
    from scalewise.theory import predict as foretell

    saved = opt.target(out, force)
    x = opt.inputs(data, samples, data_seed)
    shape = (activation, depth, width, x.shape[1], output_dim)
    net = opt.network(shape, c_b, c_w, lambda_b, lambda_w)
    wanted = opt.names(observables)
    opt.check_before_work(tolerance)
    with tell.progress() as bars:
        ensemble = opt.run_ensemble(
            net, x, networks, seed, widths, wanted, store=store, progress=bars
        )
        theory = None
        if compare:
            theory = foretell(
                net, x, observables=opt.predicted_names(wanted, net, len(x)), progress=bars
            )
    if theory is None:
        tell.hand_over(ensemble, saved, as_json, str(net))
        return
    outcome = hold_against(theory, ensemble, tolerance=tolerance)
    tell.hand_over(ensemble, saved, as_json, str(outcome), comparison=outcome.to_dict())
    tell.leave(outcome)


@app.command(short_help="The critical initialisation.")
@polite
def criticality(
    activation: Annotated[str, typer.Argument(help="Such as tanh, relu, gelu, leaky_relu(0.1).")],
    as_json: opt.Json = False,
) -> None:
    """The critical C_b and C_W of an activation, or why there are none."""
    from scalewise.critical import criticality as find

    record = find(activation)
    if as_json:
        tell.print_json(record.attributes())
    elif record.C_b is None:
        typer.echo(f"none, because {record.reason}")
    else:
        typer.echo(str(record))
