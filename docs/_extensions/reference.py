"""The reference: a page for every room, made of docstrings, and an index of the equations that they name."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, get_origin

from names import HOME, ROOMS, coverage_table, label, linked, typeset
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers
from sphinx.util import logging
from strict import complaints

OUT = "reference"
TITLES = {
    "PDLT": "The Principles of Deep Learning Theory",
    "Yaida": "Meta-principled family of hyperparameter scalings (Yaida)",
    "TP4": "Tensor Programs IV (Yang & Hu)",
    "Golikov": "Dynamically stable infinite-width limits (Golikov)",
    "note": "A first-principles note on the NTK",
}


# The groups of rooms, in the order of the reference: a title, a line, and the rooms that begin so.
GROUPS = (
    ("The package", "What everybody uses: import scalewise as sw.", ("scalewise",)),
    (
        "Networks and data",
        "The nouns: networks, activations, samples, and where a network is critical.",
        ("networks", "activations", "critical", "data", "tasks", "observables", "selection"),
    ),
    (
        "Theory at initialisation",
        "Tensors of finite width by recursions, their deep forms, and the Gaussian expectations in them.",
        ("theory", "gaussian"),
    ),
    (
        "Ensembles",
        "Real networks in numbers, held against the theory with standard errors.",
        ("nets", "comparison"),
    ),
    ("After training", "What networks have learned, to order 1/n.", ("training",)),
    (
        "Plans for your own models",
        "Scaling strategies, and what they make of a model of PyTorch or JAX: signals, rates, initialisation.",
        ("scaling", "signals", "plan", "torch", "jax"),
    ),
    (
        "Infinite width",
        "Limits in which features move, and tensor programs on real or infinite matrices.",
        ("limits",),
    ),
    (
        "Tools",
        "Sweeps, reports, the explorer and the command line.",
        ("sweeps", "report", "explorer", "cli"),
    ),
    ("Experiments", "The pages of the gallery as code.", ("experiments",)),
)
LONG = 60  # letters of a value that is worth printing


def _docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    borrowed = what == "data" and obj.__doc__ in (None, type(obj).__doc__)
    if borrowed or get_origin(obj) is not None:
        lines[:] = [_value(obj)]
        return
    # A field, since a colon in the words of ``Returns:`` would be read as the end of a type.
    text = re.sub(r"^Returns:$", ":returns:", "\n".join(lines), flags=re.M)
    lines[:] = typeset(text).split("\n")


def _value(obj: Any) -> str:
    """What a constant holds, where no docstring says it."""
    if isinstance(obj, Mapping):
        return "A mapping with the keys " + ", ".join(f"``{key!r}``" for key in obj) + "."
    if isinstance(obj, Collection) and not isinstance(obj, str):
        return "Of " + ", ".join(f"``{one!r}``" for one in obj) + "."
    return f"``{obj}``"


def _page(room: str, names: tuple[str, ...]) -> str:
    module = import_module(room)
    title = _short(room)
    lines = [title, "=" * len(title), "", f".. automodule:: {room}", "   :no-members:", ""]
    # Verbs first, then nouns, then tables: what a reader came for.
    order = {name: _rank(getattr(module, name)) for name in names}
    for name in sorted(names, key=lambda name: (order[name], name.lower())):
        full = f"{room}.{name}"
        obj = getattr(module, name)
        if inspect.ismodule(obj):
            lines += [f"- :py:mod:`{obj.__name__}`", ""] if obj.__name__ in ROOMS else []
        elif HOME.get(id(obj), full) != full:
            lines += [f"- :py:obj:`{name} <{HOME[id(obj)]}>`", ""]
        else:
            kind = "class" if inspect.isclass(obj) else "function" if callable(obj) else "data"
            lines += [f".. auto{kind}:: {full}"]
            lines += ["   :no-value:"] * (kind == "data" and len(repr(obj)) > LONG)
            lines += [_inherited(obj) if inspect.isclass(obj) else "", ""]
    return "\n".join(lines)


def _rank(obj: Any) -> int:
    """Functions come before classes, these before constants, and rooms last."""
    if inspect.ismodule(obj):
        return 3
    return 1 if inspect.isclass(obj) else 0 if callable(obj) else 2


def _inherited(noun: type) -> str:
    """The option that shows methods of a base with no entry of its own; `verify` of a plan is one."""
    for base in noun.__mro__[1:]:
        private = base.__name__.startswith("_") or not base.__module__.startswith("scalewise.")
        if private or id(base) in HOME:
            return f"   :inherited-members: {base.__name__}"
    return ""


def _short(name: str) -> str:
    """A name as those write it who have imported the package."""
    return name.removeprefix("scalewise.")


def _summary(room: str) -> str:
    """The first sentence of a room."""
    words = " ".join((inspect.getdoc(import_module(room)) or "").partition("\n\n")[0].split())
    return typeset(re.split(r"(?<=[.:;]) (?=[A-Za-z])", words)[0].rstrip(":;."))


def _grouped() -> dict[str, list[str]]:
    """The rooms of each group."""
    found: dict[str, list[str]] = {title: [] for title, _, _ in GROUPS}
    for room in ROOMS:
        first = _short(room).partition(".")[0]
        title = next((title for title, _, firsts in GROUPS if first in firsts), None)
        if title is None:
            logging.getLogger(__name__).warning(f"No group of the reference has {room}.")
        else:
            found[title].append(room)
    return found


def _index() -> str:
    """Every room in its group, with a line on it."""
    lines = [
        "Reference",
        "=========",
        "",
        "Every public name, by the module that it is imported from. An argument of another kind, or outside the "
        "bounds that are given for it, is refused in one sentence that names it; ``Raises`` tells what else is. "
        "What is computed from an equation of the sources stands in :doc:`the index of equations <equations>`.",
        "",
        ".. toctree::",
        "   :hidden:",
        "",
        "   equations",
        "",
    ]
    grouped = _grouped()
    for title, told, _ in GROUPS:
        lines += [title, "-" * len(title), "", told, "", ".. list-table::", "   :widths: 34 66", ""]
        for room in grouped[title]:
            lines += [f"   * - :doc:`{_short(room)} <{room}>`", f"     - {_summary(room)}"]
        lines += ["", ".. toctree::", f"   :caption: {title}", "   :hidden:", ""]
        lines += [*(f"   {room}" for room in grouped[title]), ""]
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
    return f":py:obj:`{_short(full)} <{full}>`" if full else f"``{name}``"


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
    for complaint in complaints():
        logging.getLogger(__name__).warning(complaint)
    folder = Path(app.srcdir) / OUT
    folder.mkdir(exist_ok=True)
    pages = {room: _page(room, names) for room, names in ROOMS.items()}
    pages["equations"] = _equations()
    pages["index"] = _index()
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
