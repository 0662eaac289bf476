"""Whether a function is the one that a store was begun with: by what it does, not by what it is called."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np


def fingerprint(value: Any) -> str:
    """A digest of a value, or of a function with all that it reads.

    A function is its code, its defaults, what it has enclosed, and the global names that it reads; functions
    and classes of its own module are looked into, those of another one are their names, since a package
    changes with its version.

    Args:
        value: Anything.

    Returns:
        Sixteen hexadecimal digits; the same in every process.
    """
    innermost = value
    while isinstance(innermost, partial):
        innermost = innermost.func
    walk = _Walk(inspect.getmodule(inspect.unwrap(innermost)) if callable(innermost) else None)
    found = hashlib.sha256()
    for part in walk.parts(value):
        found.update(part)
        found.update(b"\0")
    return found.hexdigest()[:16]


def fixed(function: Any) -> dict[str, Any]:
    """Arguments that a function was given beforehand, as a store shows them: short ones whole, the rest by digest.

    Args:
        function: A function with what it has enclosed, or a partial one.

    Returns:
        By name; fields of a dataclass each by itself.
    """
    found: dict[Any, Any] = {}
    while isinstance(function, partial):
        found = {
            **dict(enumerate(map(_shown, function.args))),
            **_fields(function.keywords),
            **found,
        }
        function = function.func
    function = inspect.unwrap(function)
    if isinstance(function, types.FunctionType) and function.__closure__:
        names = zip(function.__code__.co_freevars, function.__closure__, strict=True)
        found = {**_fields({name: _content(cell) for name, cell in names}), **found}
    return {str(name): value for name, value in found.items()}


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if is_dataclass(value) and not isinstance(value, type):
            inside = {f.name: getattr(value, f.name) for f in fields(value)}
            flat |= {f"{name}.{key}": _shown(part) for key, part in inside.items()}
        else:
            flat[name] = _shown(value)
    return flat


def _shown(value: Any) -> Any:
    plain = value is None or isinstance(value, bool | int | float | str)
    return value if plain and len(str(value)) < 80 else fingerprint(value)


class _Walk:
    """Bytes that two values share if they are alike.

    Args:
        home: The module whose functions and classes are looked into.
    """

    def __init__(self, home: types.ModuleType | None) -> None:
        self._home = home
        self._met: dict[Any, int] = {}  # functions and classes, each looked into once
        self._above: list[Any] = []  # what holds what is looked at: a list may hold itself

    def parts(self, value: Any) -> Iterator[bytes]:
        if callable(value) and not isinstance(value, type):
            value = inspect.unwrap(value)
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            yield f"{type(value).__name__} {value!r}".encode()
        elif isinstance(value, types.FunctionType | type):
            yield from self._defined(value)
        elif isinstance(value, types.ModuleType | types.BuiltinFunctionType):
            yield f"name {getattr(value, '__module__', '')}.{value.__name__}".encode()
        elif isinstance(value, set | frozenset):
            yield b"set"
            yield from sorted(b"".join(self.parts(item)) for item in value)
        elif any(value is other for other in self._above):
            yield b"again"
        else:
            self._above.append(value)
            yield from self._inside(value)
            self._above.pop()

    def _defined(self, value: Any) -> Iterator[bytes]:
        if self._home is None or inspect.getmodule(value) is not self._home:
            yield f"name {value.__module__}.{value.__qualname__}".encode()
        elif value in self._met:
            yield f"met {self._met[value]}".encode()
        else:
            self._met[value] = len(self._met)
            yield value.__qualname__.encode()
            if isinstance(value, type):
                for name, member in sorted(vars(value).items()):
                    if isinstance(member, types.FunctionType):
                        yield name.encode()
                        yield from self.parts(member)
            else:
                for part in _of_function(value):
                    yield from self.parts(part)

    def _inside(self, value: Any) -> Iterator[bytes]:
        if isinstance(value, partial):
            inner: Any = (value.func, value.args, value.keywords)
        elif isinstance(value, types.MethodType):
            inner = (value.__func__, value.__self__)
        elif isinstance(value, types.CodeType):
            inner = (value.co_code, value.co_names, value.co_varnames, *value.co_consts)
        elif isinstance(value, Mapping):
            inner = [item for pair in value.items() for item in pair]
        elif isinstance(value, list | tuple | range):
            inner = value
        elif is_dataclass(value):
            inner = (type(value), *(getattr(value, f.name) for f in fields(value)))
        else:
            yield from _of_object(value)
            return
        yield f"({type(value).__name__}".encode()
        for item in inner:
            yield from self.parts(item)
        yield b")"


def _of_function(function: types.FunctionType) -> Iterator[Any]:
    code = function.__code__
    yield (code.co_code, code.co_varnames)
    yield tuple(const for const in code.co_consts if const != function.__doc__)
    yield (function.__defaults__, function.__kwdefaults__)
    yield tuple(_content(cell) for cell in function.__closure__ or ())
    for name in sorted(_names(code)):
        if name in function.__globals__:
            yield (name, function.__globals__[name])


def _names(code: types.CodeType) -> set[str]:
    """Global names, in functions inside too."""
    inside = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(_names, inside))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return None


def _of_object(value: Any) -> Iterator[bytes]:
    yield f"{type(value).__module__}.{type(value).__qualname__}".encode()
    if hasattr(value, "__array__"):
        array = np.ascontiguousarray(value)
        yield f"{array.dtype} {array.shape}".encode()
        yield array.tobytes() if array.dtype != object else fingerprint(array.tolist()).encode()
        return
    try:
        yield pickle.dumps(value)
    except Exception:  # what cannot be pickled is known by its kind alone
        return
