"""Conformance: every exported verb and noun refuses what is of another kind, in one sentence that names it.

Nothing is listed: rooms, names and parameters are found, and what each refusal says decides what is tried next.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import xarray as xr

import coverage_table

ROOMS = (
    "activations",
    "comparison",
    "critical",
    "data",
    "gaussian",
    "jax",
    "nets",
    "networks",
    "plan",
    "report",
    "torch",
    "scaling",
    "scaling.polyhedron",
    "scaling.shallow",
    "training",
    "training.ensembles",
    "limits",
    "limits.learning",
    "limits.linear",
    "limits.maml",
    "limits.program",
    "limits.shallow",
    "limits.words",
    "theory.action",
    "theory.blocks",
    "theory.correlators",
    "theory.deep",
    "theory.exact",
    "theory.flow",
    "theory.information",
    "theory.note",
    "theory.residual",
    "theory.single",
)
# What a program is given, or a result consists of: nobody makes one by hand.
GIVEN = {
    "ProgramMatrix",
    "Scalar",
    "Space",
    "Vector",
    "Comparison",
    "Entry",
    "JaxPlan",
    "LayerTensors",
    "MeetingWidth",
    "NetworkKernel",
}
GIVEN |= {
    "Filter",
    "Network",
    "Outcome",
    "Parameters",
    "Scaled",
    "TorchPlan",
}
GIVEN |= {
    "AngleFlow",
    "BlockSusceptibilities",
    "Asymptotics",
    "CriticalPoint",
    "Criticality",
    "FixedPoint",
}
GIVEN |= {"KernelFlow", "NearbyInputs", "NoteKernels", "ScalingFit", "SingleInputFlow"}
# What is said where a number may also be written as text.
TEXTS = ("fraction", "a text")
# Of rooms whose other names are for the rooms above them: what people call.
CALLED = {
    "gaussian": {"pair_moment", "pair_moments", "single_moment"},
    "plan": {"load", "save", "transfer"},
}
# Numbers as people have them, beside Python's.
AS_GIVEN: dict[float, tuple[Any, ...]] = {
    3: (np.int8(3), np.uint64(3), np.array(3), jnp.array(3), torch.tensor(3), xr.DataArray(3)),
    0.5: (np.float32(0.5), np.float64(0.5), np.array(0.5), jnp.array(0.5), torch.tensor(0.5)),
}
# By what a refusal asks for: what must be refused too.
NEVER: dict[str, tuple[Any, ...]] = {
    "be a whole number": (True, 2.5, "3", math.nan, 1j),
    "be a number": (True, "1", 1j),
    "be a positive finite number": (True, "1", 1j, math.nan, math.inf, 0),
    "be a finite number": (True, "1", 1j, math.nan, math.inf),
    "be True or False": (1, "yes"),
    "be a string;": (b"a",),
    "be a function": ("a", 3),
    "be an array": ("a", [["a"]], [[1.0], [1.0, 2.0]], [math.nan]),
}


def exported(room: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in coverage_table.exported(Path(str(room.__file__))):
        found = getattr(room, name)
        wrong = isinstance(found, type) and issubclass(found, BaseException | Enum)
        if (
            callable(found)
            and not isinstance(found, ModuleType)
            and not wrong
            and name not in GIVEN
        ):
            yield name, found


def refusal(call: Callable[..., Any], name: str, value: Any) -> str:
    """What is said of one argument; a second, which no verb has, keeps the verb from running."""
    try:
        call(**{name: value, "no such argument": 0})
    except (TypeError, ValueError) as error:
        return str(error)
    return "taken"


def parameters(room: str) -> Iterator[tuple[Callable[..., Any], str, str]]:
    """Every verb of a room with each of its parameters that are not left to it, and their names in messages."""
    for name, call in exported(import_module(f"scalewise.{room}")):
        if name not in CALLED.get(room, {name}):
            continue
        owner = f"{call.__name__}." if isinstance(call, type) else ""
        for label, parameter in inspect.signature(call).parameters.items():
            single = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if single and parameter.annotation not in (Any, "Any"):
                yield call, label, f"`{owner}{label}` must "


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_of_another_kind_is_refused_by_its_name(room: str) -> None:
    wrong, seen = [], 0
    for call, label, named in parameters(room):
        first = refusal(call, label, object())
        never = [
            v
            for words, values in NEVER.items()
            if words in first
            for v in values
            if not any(word in first for word in TEXTS)
        ]
        for value in [object(), *never]:
            said = refusal(call, label, value)
            if not (said.startswith(named) and said.endswith(".")):
                wrong.append(f"{call.__name__}({label}={value!r}): {said}")
            seen += 1
    assert wrong == []
    assert seen > 2


@pytest.mark.parametrize("room", ROOMS)
def test_a_number_is_a_number_in_every_library_and_nothing_else_is_one(room: str) -> None:
    wrong = []
    for call, label, named in parameters(room):
        taken = {v: not refusal(call, label, v).startswith(named) for v in AS_GIVEN}
        others = [form for v, good in taken.items() if good for form in AS_GIVEN[v]]
        for form in others:
            if (said := refusal(call, label, form)).startswith(named):
                wrong.append(f"{call.__name__}({label}={form!r}): {said}")
        asked = refusal(call, label, object())
        if not taken[3] or "an array" in asked or "or False" in asked:
            continue
        # A fraction, or a size, may be written as text.
        text = not all(refusal(call, label, v).startswith(named) for v in ("1/2", "1 GiB"))
        for value in (True, 1j) if text else (True, 1j, "3"):
            if not refusal(call, label, value).startswith(named):
                wrong.append(f"{call.__name__} takes {label}={value!r} for a number")
    assert wrong == []


def test_progress_may_be_left_out_everywhere_in_the_same_ways() -> None:
    """A verb without a bar of its own takes what silences one that has it; where a bar is all there is, a truth."""
    wrong, seen = [], 0
    for room in (*ROOMS, "theory", "sweeps", "explorer"):
        for name, call in exported(import_module(f"scalewise.{room}")):
            parameter = inspect.signature(call).parameters.get("progress")
            if parameter is None or parameter.annotation in (Any, "Any"):
                continue
            seen += 1
            for value in (True, False, *(() if parameter.default is True else (None, print))):
                if (said := refusal(call, "progress", value)).startswith("`progress` must"):
                    wrong.append(f"{name}(progress={value!r}): {said}")
            if name != "sweep" and not refusal(call, "progress", "yes").startswith(
                "`progress` must"
            ):
                wrong.append(f"{name} takes progress='yes'")
    assert wrong == []
    assert seen >= 8
