"""docs/coverage.md from docs/coverage/*.toml: every object, its function, its tests and their kinds.

    python tests/coverage_table.py      writes the page

`tests/test_coverage.py` checks that functions and tests exist, that the page is up to date, and that no entry
of docs/coverage/checklist.toml is left without a row.
"""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "coverage"
PAGE = ROOT / "docs" / "coverage.md"
KINDS = ("Golden", "Property", "Agreement", "Conformance")
TITLES = {
    "A": "PDLT, chapters 2-5 and appendices",
    "B": "PDLT, chapters 6-10",
    "C": "PDLT, chapters 11 to ∞ and epilogue; Yaida's family",
    "D": "The note on the NTK",
    "E": "Tensor Programs IV (TP4) and dynamically stable limits (GOL): scaling strategies",
}


@dataclass(frozen=True)
class Row:
    """One computable object: where it is printed, what computes it, what tests it."""

    room: str
    source: str
    items: tuple[str, ...]
    symbol: str
    equation: str
    object: str
    functions: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of its tests, as their files state them."""
        found = {kind for test in self.tests for kind in kinds_of(test.partition("::")[0])}
        return tuple(kind for kind in KINDS if kind in found)


def rows() -> list[Row]:
    """Every row of every room."""
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        if path.stem == "checklist":
            continue
        for entry in tomllib.loads(path.read_text())["row"]:
            function = entry["function"]
            found.append(
                Row(
                    path.stem,
                    entry["source"],
                    tuple(entry["items"]),
                    entry["symbol"],
                    entry["equation"],
                    entry["object"],
                    (function,) if isinstance(function, str) else tuple(function),
                    tuple(entry["tests"]),
                )
            )
    return found


def checklist() -> dict[str, str]:
    """What must be covered, by code."""
    lists = tomllib.loads((FOLDER / "checklist.toml").read_text())
    return {f"{part}{code}": text for part, group in lists.items() for code, text in group.items()}


@lru_cache
def kinds_of(file: str) -> tuple[str, ...]:
    """The kinds that the docstring of a test file names."""
    docstring = ast.get_docstring(ast.parse((ROOT / file).read_text())) or ""
    head = re.split(r"[:.]|\btests? of\b", docstring, maxsplit=1)[0].lower()
    return tuple(kind for kind in KINDS if kind.lower() in head)


@lru_cache
def functions_in(file: str) -> frozenset[str]:
    """Names of the test functions of a file."""
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


def page() -> str:
    """The table as Markdown."""
    lines = [
        "# What is covered",
        "",
        "Every computable object of the sources at initialisation: where it is printed, the function that",
        "computes it, and how it is tested. Made from `docs/coverage/*.toml` by",
        "`python tests/coverage_table.py`.",
    ]
    everything = rows()
    for part, title in TITLES.items():
        lines += ["", f"## {title}", ""]
        lines += ["| symbol | equation | object | function | tests |", "|---|---|---|---|---|"]
        for row in everything:
            if row.items and row.items[0].startswith(part):
                names = ", ".join(f"`{f.removeprefix('scalewise.')}`" for f in row.functions)
                cells = (row.symbol, row.equation, row.object, names, ", ".join(row.kinds).lower())
                lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
