"""Conformance: every exported verb and noun refuses what is of another kind, in one sentence that names it.

Nothing is listed: rooms, names and parameters are found, and what each refusal says decides what is tried next.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

ROOMS = (
    "critical",
    "scaling",
    "scaling.polyhedron",
    "scaling.shallow",
    "limits",
    "limits.learning",
    "limits.linear",
    "limits.maml",
    "limits.program",
    "limits.shallow",
    "limits.words",
    "theory.action",
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
GIVEN = {"Matrix", "Scalar", "Space", "Vector"} | {
    "AngleFlow",
    "Asymptotics",
    "CriticalPoint",
    "Criticality",
    "FixedPoint",
    "InterlayerCovariance",
    "KernelFlow",
    "NearbyInputs",
    "NoteKernels",
    "ScalingFit",
    "SingleInputFlow",
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
    for name in room.__all__:
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
    try:
        call(**{name: value})
    except (TypeError, ValueError) as error:
        return str(error)
    return "taken"


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_of_another_kind_is_refused_by_its_name(room: str) -> None:
    module, wrong, seen = import_module(f"scalewise.{room}"), [], 0
    for name, call in exported(module):
        owner = f"{name}." if isinstance(call, type) else ""
        for label, parameter in inspect.signature(call).parameters.items():
            single = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if not single:
                continue
            first = refusal(call, label, object())
            never = [
                v
                for words, values in NEVER.items()
                if words in first
                for v in values
                if "fraction" not in first
            ]
            for value in [object(), *never]:
                said = refusal(call, label, value)
                if not (said.startswith(f"`{owner}{label}` must ") and said.endswith(".")):
                    wrong.append(f"{name}({label}={value!r}): {said}")
                seen += 1
    assert wrong == []
    assert seen > 2
