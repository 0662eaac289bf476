"""Which tests `make test` runs: all but the thorough ones, each of which has a daily sibling.

A test, or a case of one, is marked `thorough` if it repeats a check on more activations, widths, shapes or sizes.
The mark names the daily test that makes the same kind of check, ``@pytest.mark.thorough("test_sibling")``, of the
same file or as ``"tests/room/test_file.py::test_sibling"``; without a name it is another case of the same test.
`make test-thorough` runs everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EVERY = pytest.StashKey[Sequence[pytest.Item]]()


def name_of(item: pytest.Item) -> str:
    """Of the test that an item is a case of, with its file."""
    return item.nodeid.partition("[")[0]


def without_sibling(items: Iterable[pytest.Item]) -> list[str]:
    """Thorough tests whose sibling is missing or thorough itself; one of a file that is not run counts as there."""
    items = list(items)
    files = {item.nodeid.partition("::")[0] for item in items}
    daily = {name_of(item) for item in items if item.get_closest_marker("thorough") is None}
    wrong = []
    for item in items:
        mark = item.get_closest_marker("thorough")
        if mark is None:
            continue
        file, _, own = name_of(item).partition("::")
        sibling = mark.args[0] if mark.args else own
        sibling = sibling if "::" in sibling else f"{file}::{sibling}"
        if sibling not in daily and (sibling.partition("::")[0] in files or not _exists(sibling)):
            wrong.append(item.nodeid)
    return wrong


def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.exists() and f"def {name}(" in path.read_text()


def only_thorough(items: Iterable[pytest.Item]) -> list[str]:
    """Entries of the checklist that no daily test covers, though a thorough one does."""
    codes: dict[bool, set[str]] = {True: set(), False: set()}
    for item in items:
        thorough = item.get_closest_marker("thorough") is not None
        for mark in item.iter_markers("covers"):
            codes[thorough].update(mark.args)
    return sorted(codes[True] - codes[False])


def is_whole(items: Iterable[pytest.Item]) -> bool:
    """Whether no file of tests was left out of the run."""
    files = {item.path for item in items}
    return all(path in files for path in (ROOT / "tests").rglob("test_*.py"))
