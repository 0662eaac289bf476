"""What a public name has to say: what it is, and what every parameter is.

A parameter stands in ``Args:`` or, where a sentence is all there is to say, is named in it. What a class takes over
from another is said there, and what every experiment has by the protocol of experiments.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from names import ROOMS

from scalewise.experiments.catalogue import Experiment

_ARGS = re.compile(r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", re.M | re.S)
_NAMED = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \(.*?\))?:", re.M)
_IN_WORDS = re.compile(r"`[^`]+`|\$[^$]+\$")


def said(obj: Any) -> set[str]:
    """The parameters that a docstring says something of."""
    docstring = inspect.cleandoc(getattr(obj, "__doc__", None) or "")
    found = _ARGS.findall(docstring)
    if not found:
        words = " ".join(_IN_WORDS.findall(docstring.replace("``", "")))
        return {*re.findall(r"\w+", words), *re.findall(r"[A-Za-z]+", words)}
    return {
        n.strip("* ") for part in found for names in _NAMED.findall(part) for n in names.split(",")
    }


def taken(obj: Any) -> list[str]:
    """The parameters that a caller can give."""
    try:
        known = inspect.signature(obj).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in known if not p.name.startswith("_") and p.name not in ("self", "cls")]


def unsaid(name: str, obj: Any, others: tuple[Any, ...] = ()) -> Iterator[str]:
    """A sentence for everything that the docstring of a public name, and those of `others`, leave out."""
    if inspect.isclass(obj):
        fields = getattr(obj, "__dataclass_fields__", {})
        own = {k: v for k, v in vars(obj).items() if not k.startswith("_") and k not in fields}
        others = obj.__mro__[1:-1]
        for part, value in own.items():
            value = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if inspect.isfunction(value) and value.__qualname__ == f"{obj.__qualname__}.{part}":
                yield from unsaid(
                    f"{name}.{part}", value, tuple(getattr(other, part, None) for other in others)
                )
            elif isinstance(value, property) and not value.__doc__ and part not in said(obj):
                yield f"{name}.{part} has no docstring."
    elif not inspect.isroutine(obj):
        return
    words = obj.__doc__ or ""
    if not words.strip() or words.startswith(f"{getattr(obj, '__name__', '')}("):
        yield f"{name} has no docstring."
        return
    if inspect.isclass(obj) and (issubclass(obj, enum.Enum | BaseException) or _is_protocol(obj)):
        return
    words = {n for one in (obj, *others) for n in said(one)}
    silent = [p for p in taken(obj) if p not in words]
    if silent:
        yield f"The docstring of {name} lists no {', '.join(silent)}."


def _is_protocol(obj: type) -> bool:
    return getattr(obj, "_is_protocol", False)


def complaints() -> list[str]:
    """All that public names leave out, each name once."""
    seen: dict[int, Any] = {}
    told = []
    for room, names in ROOMS.items():
        module = import_module(room)
        told += [] if inspect.getdoc(module) else [f"The module {room} has no docstring."]
        shared = {"tables", *vars(Experiment)} if isinstance(module, Experiment) else set()
        for name in names:
            obj = getattr(module, name)
            if id(obj) not in seen and not inspect.ismodule(obj) and name not in shared:
                seen[id(obj)] = obj
                told += unsaid(f"{room}.{name}", obj)
    return told
