"""What a value holds, whatever keeps it: containers, records, and objects of anybody's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

_PLAIN = (int, float, complex, str, bytes, type(None), type, ModuleType)
_ROWS = (tuple, list, set, frozenset, deque)


def held_in(
    value: Any, wanted: Callable[[Any], bool], shut: type | tuple[type, ...] = ()
) -> Iterator[Any]:
    """Objects that are wanted, in order: in containers, and in what objects keep as attributes.

    So are found the fields of dataclasses and the parameters of distributions.

    Args:
        value: Anything.
        wanted: Whether something is what is looked for; inside that nothing else is.
        shut: Types of objects into which nobody looks, as modules: their attributes are not results.
    """
    return _held(value, wanted, shut, set())


def _held(
    value: Any, wanted: Callable[[Any], bool], shut: type | tuple[type, ...], seen: set[int]
) -> Iterator[Any]:
    if isinstance(value, _PLAIN):
        return
    if wanted(value):
        yield value
    elif isinstance(value, (Mapping, *_ROWS)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _held(part, wanted, shut, seen)
    elif not isinstance(value, shut) and id(value) not in seen:
        # An object may hold itself.
        seen.add(id(value))
        for part in _attributes(value):
            yield from _held(part, wanted, shut, seen)


def _attributes(value: Any) -> list[Any]:
    slots = [s for c in type(value).__mro__ for s in _names(vars(c).get("__slots__", ()))]
    kept = [getattr(value, s) for s in slots if s != "__dict__" and hasattr(value, s)]
    return kept + list(getattr(value, "__dict__", {}).values())


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
