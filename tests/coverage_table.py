"""docs/coverage.md: what the sources hold, the functions that compute it, and the kinds of tests that hold them.

    python tests/coverage_table.py      writes the page

Nothing on the page is kept by hand but docs/coverage/checklist.toml, the list of what the sources hold. A function
belongs to an entry of it when the ``Source:`` of its docstring names an equation (a theorem, a section) of the
entry; a test belongs to the entries that it is marked with, ``@pytest.mark.covers("B11")``.
`tests/test_coverage.py` checks that the page is up to date and that no entry lacks a function or a test.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "scalewise"
CHECKLIST = ROOT / "docs" / "coverage" / "checklist.toml"
PAGE = ROOT / "docs" / "coverage.md"
KINDS = ("Golden", "Property", "Agreement", "Conformance")
TITLES = {
    "A": "PDLT, chapters 2-5 and appendices",
    "B": "PDLT, chapters 6-10",
    "C": "PDLT, chapters 11 to ∞ and epilogue; Yaida's family",
    "D": "The note on the NTK",
    "E": "Tensor Programs IV (TP4) and dynamically stable limits (Golikov): scaling strategies",
}
WORKS = {"Yang & Hu": "TP4", "NTK note": "note"}
_WORK = r"(?P<work>PDLT|Yaida|TP4|Yang & Hu|Golikov|NTK note)"
_NUMBER = r"[A-Zε∞]?(?:\d+\.)?\.?\d+"
# Neither a year nor the argument of a function.
_EQUATION = rf"(?<![\w}}])\((?!(?:19|20)\d\d\))(?P<equation>{_NUMBER})\)(?:-\((?P<to_equation>{_NUMBER})\))?"
_SECTION = r"(?:§|[Ss]ections? |sec\. )(?P<section>[\d∞V]+(?:\.\d+)*)(?:-(?P<to_section>[\d∞]+(?:\.\d+)*))?"
_LETTERED = r"\b(?P<lettered>[A-Z](?:\.\d+)+)(?:-(?P<to_lettered>[A-Z](?:\.\d+)+))?"
_NAMED = (
    r"(?P<kind>Algorithm|Lemma|Proposition|Theorem|Definition|[Ff]igure|[Ff]ootnote)s? "
    r"(?P<named>\d+(?:\.\d+)?)(?:(?:-| and |, )(?P<to_named>\d+(?:\.\d+)?)(?![.\d]))?"
)
_APPENDIX = r"(?:[Aa]ppendix|App\.) (?P<appendix>[A-Z])\b(?!\.\d)"
_TITLE = r'"(?P<title>[A-Z][^"]{3,})"'
TOKEN = re.compile("|".join((_WORK, _EQUATION, _SECTION, _LETTERED, _NAMED, _APPENDIX, _TITLE)))


@dataclass(frozen=True)
class Place:
    """A stretch of a text: `first` to `last` under a heading, such as 77 to 97 under ``("eq", "8")``."""

    work: str
    under: tuple[str, ...]
    first: int
    last: int

    def meets(self, other: Place) -> bool:
        """Whether the two have something in common."""
        return self._holds(other) or other._holds(self)

    def _holds(self, other: Place) -> bool:
        depth = len(self.under)
        if self.work != other.work or self.under != other.under[:depth]:
            return False
        if len(other.under) == depth:
            return self.first <= other.last and other.first <= self.last
        inner = other.under[depth]
        return inner.isdigit() and self.first <= int(inner) <= self.last


def places(text: str, work: str = "") -> Iterator[Place]:
    """The places that a text names, each in the work last mentioned."""
    for found in TOKEN.finditer(text):
        if found["work"]:
            work = WORKS.get(found["work"], found["work"])
        elif found["appendix"]:
            yield Place(work, ("appendix",), *2 * (ord(found["appendix"]),))
        elif found["title"]:
            yield Place(work, ("title", found["title"]), 0, 0)
        else:
            kind = next(k for k in ("equation", "section", "lettered", "named") if found[k])
            # (A4) and (A.4), (33) and (9.30): letters and chapters stand before the number.
            first, last = (
                re.findall(r"\d+|[^\W\d]|∞", found[k] or found[kind]) for k in (kind, f"to_{kind}")
            )
            heading = (found["kind"] or kind).lower()
            if first[-1].isdigit():
                yield Place(work, (heading, *first[:-1]), int(first[-1]), int(last[-1]))
            else:
                yield Place(work, (heading, *first), 0, 10**6)


def checklist() -> dict[str, str]:
    """What must be covered, by code."""
    lists = tomllib.loads(CHECKLIST.read_text())
    return {f"{part}{code}": text for part, group in lists.items() for code, text in group.items()}


@cache
def tree(path: Path) -> ast.Module:
    """What a file says."""
    return ast.parse(path.read_text())


@cache
def functions() -> dict[str, frozenset[Place]]:
    """What is sourced in the package: name (file, function), and the places that its docstring gives."""
    found: dict[str, frozenset[Place]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        file = path.relative_to(SOURCES)
        room = ".".join(part for part in file.with_suffix("").parts if part[0] != "_")
        public = exported(path if path.name[0] != "_" else path.parent / "__init__.py")
        for name, docstring in _docstrings(tree(path), ()):
            named = frozenset(p for source in _sources(docstring) for p in places(source))
            if named:
                inside = ".".join(name)
                found[
                    f"{room}.{inside}" if name and name[0] in public else f"{file} {inside}".strip()
                ] = named
    return found


def exported(path: Path) -> list[str]:
    """What a file gives to users: its `__all__`, or what it imports as what it is called."""
    names = []
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
        if isinstance(node, ast.ImportFrom):
            names += [alias.name for alias in node.names if alias.asname == alias.name]
    return names


def _docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: tuple[str, ...]):
    yield name, ast.get_docstring(node) or ""
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef):
            yield from _docstrings(inner, (*name, inner.name))


def _sources(docstring: str) -> list[str]:
    return re.findall(r"Source: (.*?)(?:\n\n|\Z)", docstring, re.S)


@dataclass(frozen=True)
class Test:
    """A marked test: its file, its name, the entries it covers."""

    file: str
    name: str
    codes: tuple[str, ...]


@cache
def marked() -> tuple[Test, ...]:
    """Every test with a mark."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                marks = [
                    mark
                    for mark in node.decorator_list
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.covers"
                ]
                codes = tuple(ast.literal_eval(code) for mark in marks for code in mark.args)
                if marks:
                    found.append(Test(str(path.relative_to(ROOT)), node.name, codes))
    return tuple(found)


@cache
def kinds_of(file: str) -> tuple[str, ...]:
    """The kinds that the docstring of a test file names."""
    docstring = ast.get_docstring(tree(ROOT / file)) or ""
    head = re.split(r"[:.]|\btests? of\b", docstring, maxsplit=1)[0].lower()
    return tuple(kind for kind in KINDS if kind.lower() in head)


@cache
def coverage() -> dict[str, tuple[list[str], list[str], list[str]]]:
    """For each entry of the checklist its functions, the kinds of its tests, and their files."""
    kinds: dict[str, set[str]] = defaultdict(set)
    files: dict[str, set[str]] = defaultdict(set)
    for test in marked():
        for code in test.codes:
            kinds[code].update(kinds_of(test.file))
            files[code].add(test.file.removeprefix("tests/"))
    rows = {}
    for code, text in checklist().items():
        own = tuple(places(text, "note" if code[0] == "D" else "PDLT"))
        inside = [
            n for n, named in functions().items() if any(p.meets(q) for p in own for q in named)
        ]
        # A figure shows what other functions compute; a file speaks for functions without a source.
        computing = [n for n in inside if not n.startswith("experiments")]
        plain = [n for n in computing if not n.endswith(".py")]
        known = [kind for kind in KINDS if kind in kinds[code]]
        rows[code] = (plain or computing, known, sorted(files[code]))
    return rows


def page() -> str:
    """The table as Markdown."""
    lines = [
        "# What is covered",
        "",
        "Each row is something that the sources derive or claim, with the functions whose docstrings cite its",
        "equations, and with the kinds and files of the tests marked with it. This page is made from",
        "`docs/coverage/checklist.toml`, docstrings and tests by `python tests/coverage_table.py`.",
    ]
    rows = coverage()
    for part, title in TITLES.items():
        lines += ["", f"## {title}", "", "| | what | computed by | tests |", "|---|---|---|---|"]
        for code, text in checklist().items():
            if code[0] == part:
                names, kinds, files = rows[code]
                computed, held = (", ".join(f"`{one}`" for one in part) for part in (names, files))
                cells = (code[1:], text, computed, f"{', '.join(kinds).lower()}: {held}")
                lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "## Figures and tables", "", "`tests/experiments` runs each of these.", ""]
    for name in sorted(path.stem for path in (SOURCES / "experiments").glob("*.py")):
        docstring = ast.get_docstring(tree(SOURCES / "experiments" / f"{name}.py")) or ""
        for source in _sources(docstring):
            lines.append(f"- `experiments.{name}`: {' '.join(source.split())}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
