"""How a noun is shown: as text at a prompt and as a table in a notebook, both made from the same parts."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from html import escape
from inspect import Parameter, signature
from typing import Any, TypeVar

__all__ = ["Rows", "readable"]

_Class = TypeVar("_Class", bound=type)
_LONGEST = 1500  # characters of a whole text
_ROOM = 60  # and of one value in it


@dataclass(frozen=True)
class Rows:
    """A table: the titles of its columns, and rows of as many cells."""

    head: tuple[str, ...]
    cells: Sequence[tuple[str, ...]]
    numbers: bool = False  # whether all columns but the first hold numbers, which end in line

    def __str__(self) -> str:
        rows = [self.head, *self.cells]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        pad = str.rjust if self.numbers else str.ljust
        lines = []
        for first, *others in rows:
            cells = [pad(c, w) for c, w in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def readable(cls: _Class) -> _Class:
    """Let a class say in `repr` and in a notebook what its reader wants to know; stands below `@dataclass`.

    A class with `_told`, a sequence of lines and `Rows`, gets `str` from it. `repr` is `str` if the class has its
    own, and otherwise the call that makes the object, without arguments that have their default; `_given` may say
    how these were given. Neither is long. The notebook shows the rows, or the arguments as a table.
    """
    own: Any = cls
    if "_told" in vars(cls):
        own.__str__ = _text
    if issubclass(cls, tuple) or "__repr__" not in vars(cls):
        own.__repr__ = _repr
    own._repr_html_ = _html
    return cls


def _text(noun: Any) -> str:
    return "\n".join(map(str, noun._told()))


def _repr(noun: Any) -> str:
    own = type(noun).__str__ is not object.__str__
    return _cut(str(noun) if own else _call(noun))


def _cut(text: str) -> str:
    """The first lines of a long text, and how to see the rest."""
    if len(text) <= _LONGEST:
        return text
    lines = text.split("\n")
    kept, room = 0, _LONGEST - 80
    while kept < len(lines) and len(lines[kept]) < room:
        room -= len(lines[kept]) + 1
        kept += 1
    if not kept:
        return f"{text[:room]} ... (print it for all {len(text)} characters)"
    return "\n".join([*lines[:kept], f"... (print it for the other {len(lines) - kept} lines)"])


def _html(noun: Any) -> str:
    parts = noun._told() if hasattr(noun, "_told") else ()
    if not any(isinstance(part, Rows) for part in parts):
        parts = _listed(noun)
    told = [_table(p) if isinstance(p, Rows) else f"<p>{escape(p)}</p>" for p in parts if p]
    return f"<div>{''.join(told)}</div>"


def _table(rows: Rows) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = "".join(line(cells, "td") for cells in rows.cells)
    head = f"<thead>{line(rows.head, 'th')}</thead>"
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _listed(noun: Any) -> Iterator[str | Rows]:
    """A noun's one line, and its arguments."""
    if type(noun).__str__ is not object.__str__:
        yield str(noun).split("\n")[0]
    made = noun._given() if hasattr(noun, "_given") else {k: v for k, v, _ in arguments(noun)}
    rows = [(key, _short(value)) for key, value in made.items()]
    yield Rows((type(noun).__name__, ""), rows)


def _call(noun: Any) -> str:
    said = []
    for name, value, default in arguments(noun):
        if not is_default(value, default):
            said.append(f"{name}={_short(value)}")
    return f"{type(noun).__name__}({', '.join(said)})"


def arguments(noun: Any) -> Iterator[tuple[str, Any, Any]]:
    """The name, the value and the default of each argument that made a noun and that it still has.

    Args:
        noun: A dataclass or a named tuple.
    """
    if isinstance(noun, tuple):
        for name in signature(type(noun)).parameters:
            yield name, getattr(noun, name), MISSING
        return
    hidden = {f.name for f in fields(noun) if not f.repr}
    made = {f.name: f.default_factory for f in fields(noun) if f.default_factory is not MISSING}
    own = {f.name: getattr(noun, f.name) for f in fields(noun)}
    given: Mapping[str, Any] = noun._given() if hasattr(noun, "_given") else own
    for name, parameter in signature(type(noun)).parameters.items():
        if name in given and name not in hidden:
            default = made[name]() if name in made else parameter.default
            yield name, given[name], MISSING if default is Parameter.empty else default


def is_default(value: Any, default: Any) -> bool:
    """True if an argument need not be said.

    Args:
        value: What it is.
        default: What it is where nothing is said.
    """
    if value is default:
        return True
    if hasattr(value, "shape") or hasattr(value, "dims"):
        return False
    if isinstance(value, tuple) and not isinstance(default, tuple):  # one for each layer
        return bool(value) and all(is_default(one, default) for one in value)
    return isinstance(value, type(default)) and bool(value == default)


def _short(value: Any, room: int = _ROOM) -> str:
    """A value in a few characters: as it is written in a call, or what it is and how large."""
    what = type(value).__name__
    shape, several = getattr(value, "shape", None), _several(value, room)
    if isinstance(value, Enum):
        return repr(str(value))
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return f"<{'class' if isinstance(value, type) else 'function'} {value.__name__}>"
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(shape, tuple) and hasattr(value, "dtype"):
        sizes = " x ".join(map(str, shape))
        return f"<array {sizes}>" if shape else repr(value.item())
    if hasattr(value, "data_vars"):
        return f"<Dataset of {', '.join(map(str, value.dims))}>"
    if several is not None:
        return several
    if hasattr(value, "_told"):
        return f"<{what}>"
    plain = is_dataclass(value) and not hasattr(
        value, "_repr_html_"
    )  # says not itself how it is shown
    text = _call(value) if plain else repr(value)
    if len(text) <= room and "\n" not in text and " at 0x" not in text:
        return text
    return f"{text[: room - 4]}...'" if isinstance(value, str) else f"<{what}>"


def _several(value: Any, room: int) -> str | None:
    """A short list, tuple or dictionary entry by entry, a long one by its number; ``None`` for anything else."""
    if hasattr(value, "_fields") or not isinstance(value, list | tuple | Mapping):
        return None
    if not value:
        return "{}" if isinstance(value, Mapping) else repr(value)
    what = type(next(iter(value))).__name__
    if len(value) > room // 2:
        return f"<{len(value)} of {what}>"
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{_short(k)}: {_short(v)}" for k, v in value.items()) + "}"
    else:
        inner = ", ".join(map(_short, value))
        one = "," if len(value) == 1 else ""
        text = f"[{inner}]" if isinstance(value, list) else f"({inner}{one})"
    return text if len(text) <= room else f"<{len(value)} of {what}>"
