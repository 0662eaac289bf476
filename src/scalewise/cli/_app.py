"""The commands themselves."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from scalewise._version import __version__
from scalewise.cli import _models
from scalewise.cli import _options as opt
from scalewise.cli import _output as tell
from scalewise.cli import _words as words
from scalewise.cli._polite import polite

app = typer.Typer(
    name="scalewise",
    help="Predict, before training, what a network of width n and depth L will do; check it.",
    epilog=words.examples(),
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the command ``scalewise``."""
    try:
        given = sys.argv[1:] or ["--help"]
        code = app(args=given, prog_name="scalewise", standalone_mode=False)
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
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Predict what a network of width n and depth L will do, and check it on real networks."""
    if version:
        typer.echo(f"scalewise {__version__}")


@app.command(short_help="Predict, measure, compare; write a page.", epilog=words.examples("report"))
@polite
def report(
    setting: opt.SettingOptions,
    ensemble: opt.EnsembleOptions,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"),
    image: Annotated[
        str | None,
        typer.Option(
            help="Positions and channels of an input, 8,8,1: a convolutional network is compared, too."
        ),
    ] = None,
    as_json: opt.Json = False,
    force: Annotated[
        bool, typer.Option("--force", help="Drop what an interrupted run left in --out.")
    ] = False,
) -> None:
    """Predict, measure, compare, and write a page that shows it; exit 1 if they disagree."""
    from scalewise.comparison import compare
    from scalewise.report import Results, result_record, write_report
    from scalewise.theory import predict as foretell

    ensemble.check()
    if out.exists() and not out.is_dir():
        raise words.Refusal(f"--out is the folder of the report, but {str(out)!r} is a file.")
    store = out / "ensemble-run.zarr"
    if force:
        shutil.rmtree(store, ignore_errors=True)
    x = setting.inputs()
    net = setting.network(x)
    images = None if image is None else setting.convolution(net, opt.image_shape(image), x)
    with tell.progress() as bars:
        theory = foretell(net, x, observables=setting.compared_names(net), progress=bars)
        measured = ensemble.run(net, x, setting.names(), store=store, progress=bars)
        other = None if images is None else ensemble.of_images(*images, progress=bars)
    outcome = compare(theory, measured, tolerance=ensemble.tolerance)
    line = words.command_line("report", setting, ensemble)
    run = {
        "command": line if image is None else f"{line} --image {image}",
        "data": setting.data,
        "samples": setting.samples,
        "data_seed": setting.data_seed,
    }
    curves = tell.susceptibilities(net, theory)
    results = Results(
        net=net,
        theory=theory,
        ensemble=measured,
        comparison=outcome,
        susceptibilities=curves,
        run=run,
        convolution=other,
    )
    page = write_report(out, results)
    shutil.rmtree(store, ignore_errors=True)
    if as_json:
        tell.print_json({"report": str(page), **result_record(results)})
    else:
        typer.echo(f"{outcome}\n\n{page}")
    tell.leave(outcome)
    if other is not None:
        tell.leave(other.comparison)


@app.command(short_help="Predict what a network does.", epilog=words.examples("predict"))
@polite
def predict(setting: opt.SettingOptions, result: opt.Result) -> None:
    """Predict what a network does, layer by layer; no network is drawn."""
    from scalewise.theory import predict as foretell

    result.check()
    x = setting.inputs()
    net = setting.network(x)
    with tell.progress() as bars:
        theory = foretell(net, x, observables=setting.names(), progress=bars)
    tell.hand_over(theory, result.out, result.as_json, str(net))


@app.command(short_help="Measure an ensemble of real networks.", epilog=words.examples("measure"))
@polite
def measure(
    setting: opt.SettingOptions,
    ensemble: opt.EnsembleOptions,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare it with the theory; exit 1 if they disagree.")
    ] = False,
    store: Annotated[
        Path | None, typer.Option(help="Keep networks here as they come, and resume from there.")
    ] = None,
    *,
    result: opt.Result,
) -> None:
    """Draw an ensemble of real networks and measure it, with standard errors."""
    from scalewise.comparison import compare as hold_against
    from scalewise.theory import predict as foretell

    result.check()
    ensemble.check()
    x = setting.inputs()
    net = setting.network(x)
    theory = None
    with tell.progress() as bars:
        measured = ensemble.run(net, x, setting.names(), store=store, progress=bars)
        if compare:
            theory = foretell(net, x, observables=setting.compared_names(net), progress=bars)
    if theory is None:
        tell.hand_over(measured, result.out, result.as_json, str(net))
        return
    outcome = hold_against(theory, measured, tolerance=ensemble.tolerance)
    tell.hand_over(measured, result.out, result.as_json, str(outcome), comparison=outcome.to_dict())
    tell.leave(outcome)


@app.command(
    short_help="Predict what training will give; train; write a page.",
    epilog=words.examples("train"),
)
@polite
def train(
    learning: opt.Learning,
    trained: opt.Trained,
    out: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("training"),
    as_json: opt.Json = False,
) -> None:
    """Predict trained networks, train some, and write a page that shows both; exit 1 if they disagree."""
    from scalewise.cli._training import losses, predicted, with_networks
    from scalewise.report import training_record, write_training_report

    trained.check()
    task = learning.task()
    net = learning.network(task)
    sizes = trained.sizes(net)
    told = {
        "command": words.command_line("train", learning, trained),
        "data": learning.data,
        "data_seed": learning.data_seed,
    }
    algorithm = learning.method()
    learned = predicted(net, task, algorithm, told, noise_variance=learning.noise_variance)
    if trained.ensemble:
        with tell.progress() as bars:
            learned = with_networks(
                learned,
                algorithm,
                trained.ensemble,
                sizes,
                seed=trained.seed,
                tolerance=trained.tolerance,
                store=out / "ensembles",
                progress=bars,
            )
    page = write_training_report(out, learned)
    if as_json:
        tell.print_json({"report": str(page), **training_record(learned)})
    else:
        typer.echo(f"{losses(learned)}\n\n{page}")
    if learned.comparison is not None:
        tell.leave(learned.comparison)


@app.command(short_help="Find the critical initialisation.", epilog=words.examples("criticality"))
@polite
def criticality(
    activation: Annotated[
        str,
        typer.Argument(
            help="Such as tanh, relu, gelu, leaky_relu(0.1).",
            autocompletion=lambda incomplete: [
                one for one in opt.activation_names() if one.startswith(incomplete)
            ],
        ),
    ],
    as_json: opt.Json = False,
) -> None:
    """Find the critical C_b and C_W of an activation, or say why there are none."""
    from scalewise.critical import criticality as find

    record = find(activation)
    if as_json:
        tell.print_json(record.attributes())
    elif record.C_b is None:
        typer.echo(f"none, because {record.reason}")
    else:
        typer.echo(str(record))


@app.command(short_help="Write a page with sliders.", epilog=words.examples("explore"))
@polite
def explore(
    out: Annotated[Path, typer.Option(help="The page.")] = Path("explorer.html"),
    activations: Annotated[
        str | None, typer.Option(help="Which can be chosen: tanh,gelu,leaky_relu(0.1).")
    ] = None,
) -> None:
    """Write one page, which needs no network, on which sliders change a network and its prediction follows."""
    from scalewise.explorer import ACTIVATIONS, write_explorer

    chosen = ACTIVATIONS if activations is None else activations.split(",")
    with tell.progress() as bars:
        page = write_explorer(out, chosen, progress=bars)
    typer.echo(page)


_OF_MODELS = {
    _models.signals: "Examine a PyTorch model before training.",
    _models.audit: "Say what a training script does at great width.",
    _models.plan: "Plan initialisation and rates of a model.",
    _models.verify: "Check a plan on real networks.",
}
for _command, _short in _OF_MODELS.items():
    app.command(short_help=_short, epilog=words.examples(_command.__name__))(_command)
