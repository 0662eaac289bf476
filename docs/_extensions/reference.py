"""The reference: a page for every room, made of docstrings, and an index of the equations that they name.

Docstrings are written to be read in an editor: formulas between dollars, names between single backticks, a
``Source:`` at the end. Here the first become formulas, the second links where they are public names, and every
equation of the third leads to its row of the index, which holds all that is computed from it.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_origin

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

import scalewise

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import coverage_table

OUT = "reference"
TITLES = {
    "PDLT": "The Principles of Deep Learning Theory",
    "Yaida": "Meta-principled family of hyperparameter scalings (Yaida)",
    "TP4": "Tensor Programs IV (Yang & Hu)",
    "Golikov": "Dynamically stable infinite-width limits (Golikov)",
    "note": "A first-principles note on the NTK",
}
_SPAN = re.compile(
    r"(?P<keep>``.*?``|:[a-z:]+:`[^`]*`|`[^`\n]+ <[^`\n]+>`__?)"
    r"|\$\$(?P<display>.+?)\$\$|\$(?P<inline>[^$]+?)\$|(?<![`\w:])`(?P<name>[^`\n]+)`(?!`)",
    re.S,
)


def rooms() -> dict[str, tuple[str, ...]]:
    """Every module that people may import from, and the names that it exports."""
    found = {"scalewise": tuple(scalewise.__all__)}
    for module in pkgutil.walk_packages(scalewise.__path__, "scalewise."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            exported = coverage_table.exported(Path(str(import_module(module.name).__file__)))
            if exported:
                found[module.name] = tuple(sorted(exported))
    return found


ROOMS = rooms()
# A name stands in the reference once: in the deepest room that exports it.
HOME = {
    id(getattr(import_module(room), name)): f"{room}.{name}"
    for room, names in sorted(ROOMS.items(), key=lambda item: item[0].count("."))
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


def _with_links(source: str) -> str:
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


def _docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    borrowed = what == "data" and obj.__doc__ in (None, type(obj).__doc__)
    if borrowed or get_origin(obj) is not None:
        lines[:] = [_value(obj)]
        return
    # A field, since a colon in the words of ``Returns:`` would be read as the end of a type.
    text = re.sub(r"^Returns:$", ":returns:", "\n".join(lines), flags=re.M)
    source = re.compile(r"\bSource: (.*)\Z", re.S)
    lines[:] = "".join(
        block
        if ">>>" in block
        else _table(block)
        if block.lstrip().startswith("|")
        else _SPAN.sub(
            _replaced, source.sub(lambda found: f"Source: {_with_links(found[1])}", block)
        )
        for block in re.split(r"(\n\n)", text)
    ).split("\n")


def _table(block: str) -> str:
    """A table of Markdown as one of reStructuredText."""
    rows = [line.strip().strip("|").split("|") for line in block.strip().splitlines()]
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for cells in (row for row in rows if not set("".join(row)) <= set("-: ")):
        told = [_SPAN.sub(_replaced, cell.strip()) for cell in cells]
        lines += [f"   {'*' if k == 0 else ' '} - {cell}" for k, cell in enumerate(told)]
    return "\n".join(lines)


def _value(obj: Any) -> str:
    """What a constant holds, where no docstring says it."""
    if isinstance(obj, Mapping):
        return "A mapping with the keys " + ", ".join(f"``{key!r}``" for key in obj) + "."
    if isinstance(obj, Collection) and not isinstance(obj, str):
        return "Of " + ", ".join(f"``{one!r}``" for one in obj) + "."
    return f"``{obj}``"


def _page(room: str, names: tuple[str, ...]) -> str:
    module = import_module(room)
    lines = [room, "=" * len(room), "", f".. automodule:: {room}", "   :no-members:", ""]
    for name in names:
        full = f"{room}.{name}"
        obj = getattr(module, name)
        if inspect.ismodule(obj):
            lines += [f"- :py:mod:`{obj.__name__}`", ""] if obj.__name__ in ROOMS else []
        elif HOME.get(id(obj), full) != full:
            lines += [f"- :py:obj:`{name} <{HOME[id(obj)]}>`", ""]
        else:
            kind = "class" if inspect.isclass(obj) else "function" if callable(obj) else "data"
            lines += [f".. auto{kind}:: {full}", ""]
    return "\n".join(lines)


def _equations() -> str:
    """The index: every place in a source that a docstring names, and what is computed from it."""
    rows: dict[str, dict[coverage_table.Place, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, named in coverage_table.functions().items():
        for place in named:
            rows[place.work][place].add(name)
    lines = ["Equations", "=========", ""]
    lines += ["What is computed from each equation, theorem or section of the sources.", ""]
    for work, title in TITLES.items():
        lines += [title, "-" * len(title), "", ".. list-table::", "   :widths: 20 80", ""]
        seen = set()
        for place in sorted(rows[work], key=_order):
            anchor = [] if label(place) in seen else [f"       .. _{label(place)}:", ""]
            seen.add(label(place))
            shown = ", ".join(_shown(name) for name in sorted(rows[work][place]))
            lines += ["   * -", *anchor, f"       {_printed(place)}", f"     - {shown}"]
        lines.append("")
    return "\n".join(lines)


def _order(place: coverage_table.Place) -> tuple[Any, ...]:
    """Equations first, by chapter: numbers, then infinity and what follows it, then letters."""
    kind, *chapter = place.under
    parts = [(0, int(part), "") if part.isdigit() else (1, part != "∞", part) for part in chapter]
    return kind != "equation", kind, parts, place.first, place.last


def _shown(name: str) -> str:
    full = linked(name)
    return f":py:obj:`{name} <{full}>`" if full else f"``{name}``"


def _printed(place: coverage_table.Place) -> str:
    kind, *chapter = place.under
    open_ended = place.last - place.first > 10**5
    numbers = sorted({place.first, place.last})
    ends = (
        []
        if open_ended
        else [chr(n) if kind == "appendix" else ".".join([*chapter, str(n)]) for n in numbers]
    )
    body = ".".join(chapter) if open_ended else "–".join(ends)
    return rf"\({body})" if kind == "equation" else f"{kind} {body}"


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / OUT
    folder.mkdir(exist_ok=True)
    pages = {room: _page(room, names) for room, names in ROOMS.items()}
    pages["equations"] = _equations()
    listed = "\n".join(f"   {name}" for name in ("equations", *ROOMS))
    pages["index"] = (
        "Reference\n=========\n\nEvery public name, by the room that it is imported from. An argument of another "
        "kind, or outside the bounds that are given for it, is refused in one sentence that names it; ``Raises`` "
        "tells what else is.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listed}\n"
    )
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the pages before they are read, and docstrings fit for them."""
    lexers["walk"] = TextLexer()  # of docs/architecture.md
    app.connect("builder-inited", _write)
    app.connect("autodoc-process-docstring", _docstring, priority=100)  # before Google's sections
    return {"parallel_read_safe": True, "parallel_write_safe": True}
