"""Property: what `checked` takes, what it makes of it, and the sentence in which it refuses the rest."""

# Wrong types are the matter of this file.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import xarray as xr
from jaxtyping import Float, Int

from scalewise._checked import (
    Count,
    FiniteNumber,
    Index,
    Must,
    NotNegative,
    Positive,
    Precision,
    at_least,
    checked,
    held,
)
from scalewise._words import WrongTypeError
from scalewise.limits import SGD, Finite, Lazy

if TYPE_CHECKING:
    from nowhere import Unknown  # pyright: ignore[reportMissingImports]

Either = TypeVar("Either", Finite, Lazy)
Rows = Float[np.ndarray, "sample feature"]


@checked
def verb(
    whole: int = 0,
    count: Count = 1,
    index: Index = 0,
    even: Annotated[Count, Must("an even number", lambda v: v % 2 == 0)] = 2,
    number: float = 0.0,
    positive: Positive = 1.0,
    above: NotNegative | None = 0.0,
    finite: FiniteNumber = 0.0,
    truth: bool = False,
    text: str = "",
    word: Literal["one", "two"] = "one",
    off: Literal["all", False] | None = None,
    exact: Fraction | int | float | str = 0,
    path: str | os.PathLike[str] | None = None,
    dtype: Precision = None,
    noun: SGD | None = None,
    either: Either | None = None,
    function: Callable[[int], int] | None = None,
    steps: Count | Sequence[Index] = 1,
    names: Collection[str] = (),
    many: tuple[float, ...] = (),
    two: tuple[Index, Positive] = (0, 1.0),
    table: Mapping[str, int] | None = None,
    rows: Rows | None = None,
    welcome: Annotated[Any, Rows] | None = None,
    classes: Int[np.ndarray, " sample"] | None = None,
    triples: Float[np.ndarray, "sample 3"] | None = None,
    deep: Float[np.ndarray, "*batch sample"] | None = None,
    anything: Any = None,
    unknown: Unknown = None,
    untold=None,
    **more: int,
) -> dict[str, Any]:
    return locals()


THREE = (3, np.int8(3), np.uint64(3), np.array(3), jnp.array(3), torch.tensor(3))
HALF = (0.5, np.float32(0.5), np.float64(0.5), np.array(0.5), torch.tensor(0.5), Fraction(1, 2))
TAKEN: dict[str, list[tuple[Any, Any]]] = {
    "whole": [(v, 3) for v in THREE] + [(-1, -1)],
    "count": [(v, 3) for v in THREE],
    "index": [(0, 0)],
    "number": [(v, 3) for v in THREE] + [(v, 0.5) for v in HALF] + [(math.inf, math.inf)],
    "positive": [(v, 0.5) for v in HALF],
    "above": [(None, None), (0, 0), (np.float16(0.5), 0.5)],
    "truth": [(True, True), (np.True_, True), (np.array(False), False)],
    "exact": [(Fraction(1, 2), Fraction(1, 2)), ("1/2", "1/2"), (0.5, 0.5), (np.int64(3), 3)],
    "off": [("all", "all"), (False, False), (None, None)],
    "word": [("two", "two"), (np.str_("two"), "two")],
    "path": [("a", "a"), (Path("a"), Path("a"))],
    "dtype": [(d, np.dtype(np.float32)) for d in ("float32", np.float32, np.dtype("f4"))],
    "either": [(Finite(8), Finite(8)), (Lazy(8), Lazy(8))],
    "function": [(abs, abs), (Finite, Finite)],
    "steps": [(2, 2), ([0, np.int64(2)], [0, 2]), (np.array([0, 2]), [0, 2]), ((1,), (1,))],
    "names": [({"a", "b"}, {"a", "b"}), (["a"], ["a"])],
    "many": [
        ([1, np.float32(0.5)], (1, 0.5)),
        (np.array([0.5]), (0.5,)),
        (xr.DataArray([0.5]), (0.5,)),
    ],
    "two": [([1, 0.5], (1, 0.5)), ((np.int8(1), 2), (1, 2))],
    "table": [({"a": 1}, {"a": 1}), ({"a": np.int64(1)}, {"a": 1})],
    "anything": [("a", "a")],
    "unknown": [("a", "a")],
    "untold": [("a", "a")],
}
SEQUENCE = "a whole number of at least 1 or a sequence of values, each a whole number of at least 0"
REFUSED: dict[str, tuple[str, list[Any]]] = {
    "whole": ("a whole number", ["3", 2.5, 3.0, True, np.True_, None, math.nan, [3], object()]),
    "count": ("a whole number of at least 1", [0, -1, "3", True]),
    "index": ("a whole number of at least 0", [-1, None]),
    "even": ("an even number", [3, 2.0, 0]),
    "word": ("'one' or 'two'", ["three", 1, None, ["one"]]),
    "off": ("'all' or False or None", [True, 0, "none", np.eye(2)]),
    "number": ("a number", ["1", True, 1j, None, [0.5], np.array([0.5]), np.ma.masked]),
    "positive": ("a positive finite number", [0, -1.0, math.inf, math.nan, "1"]),
    "above": ("a finite number of at least 0 or None", [-1, math.nan, math.inf, "1"]),
    "finite": ("a finite number", [math.inf, -math.inf, math.nan, False]),
    "truth": ("True or False", [0, 1, None, "yes"]),
    "text": ("a string", [3, None, b"a"]),
    "path": ("a string, a path or None", [3, b"a"]),
    "dtype": ("float64 or float32", [None, {"a": 1}, int, "foo", np.float16, complex]),
    "noun": ("limits.SGD(eta) or None", [0.1, SGD, "SGD"]),
    "either": ("limits.Finite(width), limits.Lazy(width) or None", [8, Finite]),
    "function": ("a function or None", ["abs", 3]),
    "steps": (SEQUENCE, [0, "a", [0.5], [-1], {1: 1}, np.eye(2)]),
    "names": ("a sequence of values, each a string", ["a", [1], 3]),
    "two": ("2 values, each a whole number of at least 0 or a positive finite number",
            [3, (1,), (1, 2, 3), (0, 0), "ab"]),
    "table": ("a dictionary of values, each a whole number or None", [[1], 3, {1: 1}, {"a": "b"}]),
}  # fmt: skip
ARRAYS = {
    "rows": ([[1, 2]], ["a", 1.0, [1.0], [[1.0], [1.0, 2.0]], [[math.nan]], [[1j]], object()]),
    "welcome": ([[0.5]], ["a", [[[1.0]]]]),
    "classes": ([1, 2], [[0.5], [[1]], ["a"]]),
    "triples": ([[1.0, 2.0, 3.0]], [[[1.0, 2.0]]]),
    "deep": ([[[1.0]]], ["a", [math.inf]]),
}


def refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except (TypeError, ValueError) as error:
        return str(error)
    return "taken"


def test_what_is_of_the_kind_is_taken_and_brought_to_it() -> None:
    wrong = []
    for name, cases in TAKEN.items():
        for given, wanted in cases:
            for found in (verb(**{name: given})[name],):
                if type(found) is not type(wanted) or found != wanted:
                    wrong.append((name, given, found))
    assert wrong == []
    for name, (given, _) in ARRAYS.items():
        for values in (given, np.array(given), torch.tensor(given)):
            found = verb(**{name: values})[name]
            assert type(found) is np.ndarray
            np.testing.assert_array_equal(found, given)
            assert found.dtype.kind == ("i" if name == "classes" else "f"), (name, values)
    own = np.eye(2, dtype=np.float32)
    assert verb(rows=own)["rows"] is own  # nothing is copied that is an array already
    assert verb(0, 2, more=3)["more"] == {"more": 3}


def test_what_is_of_another_kind_is_refused_by_its_name() -> None:
    wrong = []
    for name, (words, cases) in REFUSED.items():
        for given in cases:
            found = refusal(lambda name=name, given=given: verb(**{name: given}))
            if not found.startswith(f"`{name}` must be {words}; got "):
                wrong.append((name, given, found))
    for name, (_, cases) in ARRAYS.items():
        for given in cases:
            found = refusal(lambda name=name, given=given: verb(**{name: given}))
            if not found.startswith(f"`{name}` must "):
                wrong.append((name, given, found))
    assert wrong == []


def test_refusals_are_types_and_values_to_callers() -> None:
    for kind in (TypeError, ValueError, WrongTypeError):
        with pytest.raises(kind, match="got 'a'"):
            verb(count="a")
    with pytest.raises(ValueError, match="got 0") as caught:
        verb(count=0)
    assert caught.type is ValueError


def test_what_was_received_is_shown() -> None:
    shown = {
        "x" * 80: "a str",
        (1, 2): "(1, 2)",
        SGD: "the class SGD",
        refusal: "the function refusal",
        object(): "an object",
    }
    for given, words in shown.items():
        assert refusal(lambda given=given: verb(whole=given)).endswith(f"; got {words}.")
    assert refusal(lambda: verb(whole=np.eye(2))).endswith("got an ndarray of shape (2, 2).")


def test_a_room_raises_its_own_error() -> None:
    class OwnError(ValueError):
        pass

    @checked(error=OwnError)
    def plan(width: Count, roles: Mapping[str, Literal["input"]] | None = None) -> int:
        return width

    assert plan(np.int64(3), {"a": "input"}) == 3
    for call in (lambda: plan("a"), lambda: plan(0), lambda: plan(3, {"a": "b"})):
        with pytest.raises(OwnError, match="must be"):
            call()
    assert held("sizes['width']", np.int64(3), Count) == 3
    with pytest.raises(OwnError, match=r"^`sizes\['width'\]` must be a whole number .*; got 0\.$"):
        held("sizes['width']", 0, Count, error=OwnError)


def test_python_refuses_what_no_parameter_is_for() -> None:
    @checked
    def small(a: int, /, b: int, *, c: int) -> int:
        return a + b + c

    assert small(1, 2, c=3) == 6
    for call, words in (
        (lambda: small(1, 2, 3, c=3), "positional argument"),
        (lambda: small(1, 2), "missing 1 required"),
        (lambda: small(1, 2, c=3, d=4), "unexpected keyword"),
    ):
        assert words in refusal(call)


def test_a_noun_names_itself_and_keeps_what_it_was_brought_to() -> None:
    @checked
    @dataclass(frozen=True)
    class Noun:
        """A noun."""

        size: Annotated[int, at_least(2)]
        rows: Rows | None = None

        def __post_init__(self) -> None:
            assert type(self.size) is int

    noun = Noun(np.int64(3), [[1.0]])
    assert noun.rows is not None
    assert replace(noun, size=np.array(4), rows=None) == Noun(4)
    for call in (lambda: Noun("3"), lambda: replace(noun, size="3")):
        assert refusal(call) == "`Noun.size` must be a whole number of at least 2; got '3'."
    assert list(inspect.signature(Noun).parameters) == ["size", "rows"]
    assert inspect.signature(verb).parameters["count"].default == 1
    assert verb.__name__ == "verb"
