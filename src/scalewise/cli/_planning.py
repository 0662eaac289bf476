"""The options of the commands that plan a model and measure it, and what they make of them."""

import re
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalewise.cli._model import batch_of, named, own_code
from scalewise.cli._options import Json
from scalewise.cli._words import Refusal, numbers

if TYPE_CHECKING:
    from scalewise.plan.spi import Verified

_KEYS = re.compile(r"(\w+)=([^=]+)")


@dataclass(frozen=True)
class PlannedScript:
    """Options that a plan is made from, where the model is not a plan already."""

    base: Annotated[
        str | None, typer.Option(help="Sizes where settings were tuned: width=64,depth=4.")
    ] = None
    target: Annotated[
        str | None, typer.Option(help="Sizes of the model to train: width=1024,depth=16.")
    ] = None
    plan: Annotated[Path | None, typer.Option(help="A plan that was saved, in place of these.")] = (
        None
    )
    strategy: Annotated[str, typer.Option(help="mup, ntk, mean_field or standard.")] = "mup"
    optimizer: Annotated[
        str, typer.Option(help="The optimizer by name, such as adamw or muon.")
    ] = "adamw"
    role: Annotated[
        list[str] | None,
        typer.Option(help="What the plan had to ask: mask=vector. May be given several times."),
    ] = None
    residual: Annotated[
        str | None, typer.Option(help="Branches are multiplied by depth^(-this): 1 or 1/2.")
    ] = None
    branch_outputs: Annotated[
        str | None, typer.Option(help="Tensors that end a branch: *.out.weight,*.down.weight.")
    ] = None
    multiplied: Annotated[
        str | None, typer.Option(help="Multipliers that the model itself applies, by name.")
    ] = None
    inputs: Annotated[
        str | None, typer.Option(help="What the model is called with: module:object.")
    ] = None
    width_name: Annotated[str, typer.Option(help="What the function calls its width.")] = "width"
    depth_name: Annotated[str, typer.Option(help="What it calls its depth.")] = "depth"

    def made(self, build: str) -> "Verified":
        """The plan of the model that `build` names, or the plan that it names.

        Raises:
            Refusal: If options are missing or contradict each other.
        """
        own = named(build, "the model")
        from scalewise.plan.spi import Verified

        if isinstance(own, Verified):
            self._alone(f"{build} is a plan")
            return own
        from scalewise.torch import load, plan

        if self.plan is not None:
            self._alone("--plan has a plan", "plan")
            return load(self.plan, own)
        if self.base is None or self.target is None:
            raise Refusal(
                "--base and --target must be given, such as --base width=64 --target width=1024, or --plan with "
                "a plan that was saved."
            )
        place = build.rpartition(":")[0]
        given = None if self.inputs is None else named(self.inputs, "--inputs", place)
        with own_code(build):
            return plan(
                own,
                base=_sizes("--base", self.base),
                target=_sizes("--target", self.target),
                strategy=self.strategy,
                optimizer=self.optimizer,
                roles=_roles(self.role or []),
                residual=_exponent(self.residual or "0"),
                branch_outputs=_listed(self.branch_outputs),
                multiplied=_listed(self.multiplied),
                width=self.width_name,
                depth=self.depth_name,
                inputs=given() if callable(given) else given,
            )

    def _alone(self, why: str, *may: str) -> None:
        """Refuse options that a plan which is there cannot follow."""
        for field in fields(self):
            if field.name not in may and getattr(self, field.name) != field.default:
                option = field.name.replace("_", "-")
                raise Refusal(f"{why} already, so --{option} says nothing to it.")


@dataclass(frozen=True)
class MeasuredPlan:
    """Options on the batch and the networks that are measured."""

    batch: Annotated[
        str, typer.Option(help="What the loss is called with, or a function that returns it.")
    ] = "batch"
    loss: Annotated[str, typer.Option(help="A function of the model and the batch.")] = "loss"
    widths: Annotated[str, typer.Option(help="At least three.")] = "64,128,256,512"
    seeds: Annotated[int, typer.Option(help="Networks of each width.")] = 3
    tolerance: Annotated[
        float, typer.Option(help="How far a power may be off beyond three standard errors.")
    ] = 0.0625
    as_json: Json = False

    def on(self, build: str) -> tuple[Any, Any]:
        """The batch and the loss."""
        place = build.rpartition(":")[0]
        with own_code(build):
            return batch_of(self.batch, place), named(self.loss, "--loss", place)

    def settings(self) -> dict[str, Any]:
        """Arguments of a measurement, as `audit` and `verify` take them."""
        widths = numbers("--widths", self.widths, int)
        return {"widths": widths, "seeds": self.seeds, "tolerance": self.tolerance}


def _sizes(option: str, text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in text.split(","):
        pair = _KEYS.fullmatch(part.strip())
        if pair is None:
            raise Refusal(
                f"{option} takes sizes by name, with commas between them, such as width=64,depth=4; got {text!r}."
            )
        found[pair[1]] = _value(pair[2])
    return found


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _roles(texts: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        pattern, _, role = text.rpartition("=")
        name, *axes = role.split(":")
        if not pattern or not name:
            raise Refusal(
                "--role takes a pattern and a role, such as mask=vector, or with the axes that are summed over, "
                f"*.experts.*=hidden:1; got {text!r}."
            )
        whole = [numbers("--role", axis, int)[0] for axis in axes]
        found[pattern] = name if not whole else (name, *whole)
    return found


def _exponent(text: str) -> Fraction:
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise Refusal(f"--residual takes a power, such as 1 or 1/2; got {text!r}.") from None


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
