"""The commands that read the user's own model: signals, audit, plan, verify."""

from pathlib import Path
from typing import Annotated, Any

import typer

from scalewise.cli import _output as tell
from scalewise.cli._model import batch_of, named, own_code
from scalewise.cli._options import Json
from scalewise.cli._planning import MeasuredPlan, PlannedScript
from scalewise.cli._polite import polite

Build = Annotated[
    str, typer.Argument(help="module:object, a function of the width that builds the model.")
]
BuildOrPlan = Annotated[
    str,
    typer.Argument(help="module:object, a function of the sizes that builds the model, or a plan."),
]


@polite
def signals(
    build: Annotated[
        str,
        typer.Argument(help="module:object, a model or a function of the width that builds it."),
    ],
    batch: Annotated[
        str, typer.Option(help="What the model is called with, or a function that returns it.")
    ] = "batch",
    width: Annotated[int | None, typer.Option(help="The width that the function is given.")] = None,
    loss: Annotated[str | None, typer.Option(help="A function of the model and the batch.")] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="A function of the model that returns its optimizer.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Draws of the model.")] = 3,
    picture: Annotated[Path | None, typer.Option(help="Save a picture, name.png or .svg.")] = None,
    as_json: Json = False,
) -> None:
    """Say where signals and gradients of a model die, explode or become alike; exit 1 if something is wrong."""
    own = named(build, "the model")
    from scalewise.torch import signals as examine

    place = build.rpartition(":")[0]
    how = {
        name: named(text, f"--{name}", place)
        for name, text in (("loss", loss), ("optimizer", optimizer))
        if text is not None
    }
    with own_code(build):
        found = examine(own, batch_of(batch, place), width=width, seeds=seeds, **how)
    if picture is not None:
        found.plot().savefig(picture)
    if as_json:
        tell.print_json(found.to_dict())
    else:
        typer.echo(str(found))
    if not found.ok:
        raise typer.Exit(tell.DISAGREE)


@polite
def audit(
    build: Build,
    optimizer: Annotated[
        str, typer.Option(help="A function of the model that returns its optimizer.")
    ] = "optimizer",
    target: Annotated[
        float | None, typer.Option(help="The width that wasted rates are told for.")
    ] = None,
    *,
    measured: MeasuredPlan,
) -> None:
    """Say what a script of PyTorch, as it is, does at great width; exit 1 unless all of it learns at any width."""
    own = named(build, "the model")
    from scalewise.cli._records import audit_record
    from scalewise.torch import audit as examine

    trained = named(optimizer, "--optimizer", build.rpartition(":")[0])
    batch, loss = measured.on(build)
    with own_code(build):
        found = examine(own, trained, loss, batch, target=target, **measured.settings())
    tell.verdict(audit_record(found), str(found), as_json=measured.as_json)


@polite
def plan(
    build: BuildOrPlan,
    planned: PlannedScript,
    save: Annotated[
        Path | None, typer.Option(help="Write the plan to this file, for --plan and `load`.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan the initialisation and the rates of a model; exit 1 if its forward pass was not seen."""
    from scalewise.cli._records import plan_record

    made: Any = planned.made(build)  # of torch or of jax, and both can be saved
    if save is not None:
        made.save(save)
    tell.verdict(plan_record(made.table), str(made), as_json=as_json)


@polite
def verify(
    build: BuildOrPlan,
    planned: PlannedScript,
    measured: MeasuredPlan,
    setup: Annotated[
        str | None,
        typer.Option(help="A function of plan and model that sets it up as your script does."),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate at the base; if left out, a small one.")
    ] = None,
    depth: Annotated[float | None, typer.Option(help="Depth of the networks.")] = None,
    depths: Annotated[
        str | None, typer.Option(help="At least three depths to measure too: 2,4,8.")
    ] = None,
) -> None:
    """Check on real networks that a model scales as planned; exit 1 if not, or if it could not be measured."""
    from scalewise.cli._records import check_record
    from scalewise.cli._words import numbers

    made = planned.made(build)
    batch, loss = measured.on(build)
    ready = None if setup is None else named(setup, "--setup", build.rpartition(":")[0])
    deep = () if depths is None else numbers("--depths", depths, int)
    with own_code(build):
        found = made.verify(
            batch, loss, setup=ready, lr=lr, depth=depth, depths=deep, **measured.settings()
        )
    tell.verdict(check_record(found), str(found), as_json=measured.as_json)
