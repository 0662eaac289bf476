"""A plan as a small JSON text, and back: all that must be kept beside a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from scalewise._checked import checked
from scalewise._version import __version__
from scalewise.plan._errors import PlanError
from scalewise.plan._forward import Gauge
from scalewise.plan._laws import Law, Norm, Size
from scalewise.plan._multiplier import Multiplier, Place
from scalewise.plan._powers import Powers
from scalewise.plan._roles import Kind, Layer, Role
from scalewise.plan._rules import Rule
from scalewise.plan._table import Constants, Plan, Spread, TensorPlan
from scalewise.scaling import Strategy

_FORMAT = "scalewise plan 4"


def to_json(plan: Plan, options: Mapping[str, Any] | None = None) -> str:
    """The whole plan as text; exponents and ratios are exact fractions.

    Args:
        plan: The plan.
        options: What an adapter keeps beside it.
    """
    s = plan.strategy
    out = {
        "format": _FORMAT,
        "made_by": __version__,
        "strategy": {
            "name": s.name,
            "p": s.p,
            "q": s.q,
            "r": s.r,
            "plain_biases": s.plain_biases,
        },
        "optimizer": plan.optimizer,
        "base": dict(plan.base),
        "target": dict(plan.target),
        "width": plan.width,
        "depth": plan.depth,
        "residual": plan.residual,
        "width_name": plan.width_name,
        "depth_name": plan.depth_name,
        "looked": plan.looked,
        "adjust": plan.adjust,
        "axes": dict(plan.axes),
        "policy": plan.policy,
        "decay": plan.decay,
        "half_life": plan.half_life,
        "constants": {k: dict(v) for k, v in plan.constants.items()},
        "multipliers": [asdict(m) for m in plan.multipliers],
        "tensors": [asdict(t) for t in plan.tensors],
        **({} if options is None else {"options": dict(options)}),
    }
    try:
        return json.dumps(out, indent=1, default=_fraction_as_text)
    except TypeError as error:
        raise PlanError(
            "The plan cannot be saved: `base` and `target` must hold numbers, texts and lists only "
            f"({error})."
        ) from None


def _fraction_as_text(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"{value!r} is not a fraction")


def from_json(text: str) -> Plan:
    """A plan from the text that `to_json` wrote.

    Raises:
        PlanError: If the text is not a plan, or one of another format.
    """
    try:
        data = json.loads(text)
        if data["format"] != _FORMAT:
            raise KeyError("format")
        s = data["strategy"]
        return Plan(
            strategy=Strategy(s["p"], s["q"], s["r"], s["name"], plain_biases=s["plain_biases"]),
            optimizer=data["optimizer"],
            base=data["base"],
            target=data["target"],
            width=Fraction(data["width"]),
            depth=Fraction(data["depth"]),
            residual=Fraction(data["residual"]),
            tensors=tuple(_tensor(t) for t in data["tensors"]),
            multipliers=tuple(map(_multiplier, data["multipliers"])),
            width_name=data["width_name"],
            depth_name=data["depth_name"],
            looked=data.get("looked", True),
            adjust=data["adjust"],
            axes={k: Fraction(v) for k, v in data["axes"].items()},
            policy=tuple(data["policy"]),
            decay=data["decay"],
            half_life=data["half_life"],
            constants=data.get("constants", {}),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PlanError(
            f"This text is not a saved plan of the format {_FORMAT!r} (missing or wrong: {error}). Make "
            "the plan anew from the model factory."
        ) from None


def _multiplier(data: dict[str, Any]) -> Multiplier:
    left = data.get("left")
    return Multiplier(
        **data | {"place": Place(data["place"]), "left": None if left is None else Fraction(left)}
    )


def _tensor(data: dict[str, Any]) -> TensorPlan:
    powers = {
        setting: Powers(**{k: Fraction(v) for k, v in value.items()})
        for setting, value in data["rule"].items()
    }
    return TensorPlan(
        **data
        | {
            "role": Role(data["role"]),
            "layer": Layer(data["layer"]),
            "kind": Kind(data["kind"]),
            "base_shape": tuple(data["base_shape"]),
            "shape": tuple(data["shape"]),
            "fan_in": Fraction(data["fan_in"]),
            "rule": Rule(**powers),
            "base": Spread(**data["base"]),
            "aliases": tuple(data["aliases"]),
            "gauge": Gauge(**{k: Fraction(v) for k, v in data.get("gauge", {}).items()}),
            "law": _law(data["law"]),
            "beside": Fraction(data["beside"]),
            "blocks": tuple(data["blocks"]),
            "constants": Constants(**data.get("constants", {})),
            "fixed": tuple(map(tuple, data.get("fixed", ()))),
        }
    )


def _law(data: dict[str, Any]) -> Law:
    def norm(said: dict[str, str]) -> Norm:
        return Norm(**{k: Fraction(v) for k, v in said.items()})

    def size(said: dict[str, Any] | None) -> Size | None:
        return None if said is None else Size(Fraction(said["gradient"]), norm(said["norm"]))

    return Law(norm(data["norm"]), Fraction(data["degree"]), size(data["eps"]), size(data["decay"]))


@checked(error=PlanError)
def save(plan: Plan, path: str | PathLike[str], options: Mapping[str, Any] | None = None) -> None:
    """Write a `plan` to the file `path`, whole or not at all, with the `options` that an adapter keeps beside it.

    Raises:
        PlanError: If the plan's sizes are nothing that a text can hold.
    """
    whole = Path(path)
    part = whole.with_name(whole.name + ".part")
    part.write_text(to_json(plan, options) + "\n", encoding="utf-8")
    part.replace(whole)


def read(path: str | PathLike[str]) -> tuple[Plan, dict[str, Any]]:
    """A plan from a file, and what an adapter kept beside it.

    Raises:
        PlanError: If there is no such file, or it holds no plan.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PlanError(f"The plan {str(path)!r} cannot be read: {error.strerror}.") from None
    return from_json(text), json.loads(text).get("options", {})


@checked(error=PlanError)
def load(path: str | PathLike[str]) -> Plan:
    """Read a plan from the file `path`.

    Raises:
        PlanError: If there is no such file, or it holds no plan.
    """
    return read(path)[0]
