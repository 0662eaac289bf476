"""The public names and the equations that docstrings name, and how their words become those of a page.

Docstrings are written to be read in an editor: formulas between dollars, names between single backticks, a
``Source:`` at the end. Here the first become formulas, the second links where they are public names, and every
equation of the third a link to its row in the index of equations.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import scalewise

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import coverage_table

_SPAN = re.compile(
    r"(?P<keep>``.*?``|:[a-z:]+:`[^`]*`|`[^`\n]+ <[^`\n]+>`__?)"
    r"|\$\$(?P<display>.+?)\$\$|\$(?P<inline>[^$]+?)\$|(?<![`\w:])`(?P<name>[^`\n]+)`(?!`)",
    re.S,
)


def rooms() -> dict[str, tuple[str, ...]]:
    """Every module that users may import from, and the names that it exports: no doors of rooms."""
    found = {"scalewise": tuple(scalewise.__all__)}
    for module in pkgutil.walk_packages(scalewise.__path__, "scalewise."):
        if not any(part.startswith(("_", "spi")) for part in module.name.split(".")):
            exported = coverage_table.exported(Path(str(import_module(module.name).__file__)))
            if exported:
                found[module.name] = tuple(sorted(exported))
    return found


ROOMS = rooms()
# A name stands in the reference once: as users write it if the package itself has it, else in the deepest room.
HOME = {
    id(getattr(import_module(room), name)): f"{room}.{name}"
    for room, names in sorted(ROOMS.items(), key=lambda item: item[0].count(".") or 99)
    for name in names
    if not inspect.ismodule(getattr(import_module(room), name))
}
# By every end of a name, whatever room it is imported from.
SHORT: dict[str, set[str]] = defaultdict(set)
for _room, _names in ROOMS.items():
    for _name in _names:
        _full = HOME.get(id(getattr(import_module(_room), _name)))
        _parts = f"{_room}.{_name}".split(".")
        for _start in range(len(_parts) if _full else 0):
            SHORT[".".join(_parts[_start:])].add(str(_full))


def linked(name: str) -> str | None:
    """The full name of what is meant, if one public name ends so."""
    plain = name.removesuffix("()").removeprefix("sw.")
    found = SHORT.get(plain, set())
    return next(iter(found)) if len(found) == 1 else None


def _replaced(found: re.Match[str]) -> str:
    if found["keep"]:
        return found[0]
    if found["display"]:
        body = "\n".join("   " + line.strip() for line in found["display"].strip().splitlines())
        return f"\n\n.. math::\n   :nowrap:\n\n{body}\n\n"
    if found["inline"]:
        inside = " ".join(found["inline"].split())
        return f":math:`{inside}`"
    full = linked(found["name"])
    return f":py:obj:`{found['name']} <{full}>`" if full else f"``{found['name']}``"


def label(place: coverage_table.Place) -> str:
    """Where the index has a place."""
    return "-".join(["eq", place.work, *place.under, str(place.first)]).lower()


def with_links(source: str) -> str:
    """The words of a ``Source:``, with its equations linked to the index."""
    source = " ".join(source.split())
    work, out, at = "", [], 0
    for token in coverage_table.TOKEN.finditer(source):
        if token["work"]:
            work = coverage_table.WORKS.get(token["work"], token["work"])
        elif token["equation"] and work:
            place = next(coverage_table.places(token[0], work))
            out += [source[at : token.start()], f":ref:`{token[0]} <{label(place)}>`"]
            at = token.end()
    return "".join([*out, source[at:]])


_SOURCE = re.compile(r"\bSource: (.*)\Z", re.S)


def typeset(text: str) -> str:
    """The words of a docstring as reStructuredText; examples stay as they are."""
    return "".join(
        block
        if ">>>" in block
        else _table(block)
        if block.lstrip().startswith("|")
        else _SPAN.sub(
            _replaced, _SOURCE.sub(lambda found: f"Source: {with_links(found[1])}", block)
        )
        for block in re.split(r"(\n\n)", text)
    )


def _table(block: str) -> str:
    """A table of Markdown as one of reStructuredText."""
    rows = [line.strip().strip("|").split("|") for line in block.strip().splitlines()]
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for cells in (row for row in rows if not set("".join(row)) <= set("-: ")):
        told = [_SPAN.sub(_replaced, cell.strip()) for cell in cells]
        lines += [f"   {'*' if k == 0 else ' '} - {cell}" for k, cell in enumerate(told)]
    return "\n".join(lines)
