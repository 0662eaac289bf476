"""Deliberate breaks of the sources, one list for each room; `tests/mutants.py` runs them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One break: in `file`, `old` (found exactly once) becomes `new`; one of `tests` must fail.

    Args:
        name: What is broken, then how, with a colon between.
        file: Below src/scalewise.
        old: A piece of the source.
        new: What stands in its place.
        tests: Files below the repository, or single tests in them as ``file::test``.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def row(file: str, tests: str | tuple[str, ...]):
    """A maker of breaks in one file that the same tests must catch."""
    named = (tests,) if isinstance(tests, str) else tests

    def broken(name: str, old: str, new: str, *others: str) -> Mutant:
        return Mutant(name, file, old, new, others or named)

    return broken
