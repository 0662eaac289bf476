"""Grids of cases in one test: all of them run, and what fails is listed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def thorough(*values: Any) -> list[Any]:
    """Cases of `pytest.mark.parametrize` beside daily ones that make the same check (`daily.py`)."""
    return [
        pytest.param(*(v if isinstance(v, tuple) else (v,)), marks=pytest.mark.thorough)
        for v in values
    ]


def few(values: Iterable[Any], *, every: int) -> list[Any]:
    """One case in so many daily, the others thorough."""
    found: list[Any] = []
    for place, value in enumerate(values):
        found += thorough(value) if place % every else [value]
    return found


def each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Callable], Callable]:
    """As `pytest.mark.parametrize`, for cases too small to be counted as tests of their own."""
    keys = (names,) if isinstance(names, str) else names
    cases = [dict(zip(keys, (v,) if len(keys) == 1 else v, strict=True)) for v in values]
    if not cases:
        raise ValueError("A grid without cases tests nothing.")

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def run(**others: Any) -> None:
            failures = []
            for case in cases:
                try:
                    test(**others, **case)
                except (Exception, pytest.fail.Exception) as error:
                    failures.append((case, error))
            if failures:
                told = "\n".join(f"{case}: {type(e).__name__}: {e}" for case, e in failures)
                text = f"{len(failures)} of {len(cases)} cases fail:\n{told}"
                raise AssertionError(text) from failures[0][1]

        signature = inspect.signature(test)
        left = [p for p in signature.parameters.values() if p.name not in keys]
        run.__signature__ = signature.replace(parameters=left)  # what pytest has to give
        return run

    return decorate
