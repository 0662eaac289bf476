"""What exported verbs and nouns are given, held against their annotations: one mechanism, one kind of sentence.

`checked` reads the annotations of a function, or of the constructor of a class, when it is first called. Each
argument is then brought to the type that is written there: NumPy's numbers and arrays without axes become
Python's, lists and tensors become arrays, and whatever is of another kind is refused by its name. Bounds of
single numbers are written there too, as ``Annotated[int, at_least(2)]``; and where a list is as welcome as an
array, ``Annotated[Any, Float[np.ndarray, "sample feature"]]`` says so to type checkers.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from inspect import Parameter, signature, unwrap
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, overload

from scalewise._readable import readable
from scalewise._words import WrongTypeError, listed, shown


@readable
class Must(NamedTuple):
    """A condition on an argument beside its type; written into ``Annotated``.

    Args:
        words: What it must be, with an article: ``"a positive finite number"``.
        holds: Whether a value of the type is one.
        to: What makes one of whatever is given, in place of the type; a TypeError refuses it.
    """

    words: str
    holds: Callable[[Any], bool] = lambda value: True
    to: Callable[[Any], Any] | None = None


class _Reader(NamedTuple):
    """A type's name, and its converter, which is told the argument's name and may raise `_UnfitError`."""

    words: str
    read: Callable[[str, Any], Any]


class _UnfitError(Exception):
    """A value that is refused, and as what."""

    def __init__(self, kind: type[ValueError] = WrongTypeError) -> None:
        self.kind = kind


Target = TypeVar("Target", bound=Callable[..., Any])


@overload
def checked(target: Target) -> Target: ...
@overload
def checked(*, error: type[ValueError]) -> Callable[[Target], Target]: ...
def checked(target: Any = None, *, error: type[ValueError] | None = None) -> Any:
    """Let a function, or the constructor of a class, take what its annotations say and refuse all else.

    A parameter whose annotation is `Any`, or is not known at run time, is left to the function.

    Args:
        target: The function or the class.
        error: What a room raises in place of the two below.

    Raises:
        WrongTypeError: In the call: a TypeError and a ValueError, if an argument is of another kind.
        ValueError: In the call, if a number is out of its bounds.

    Example:
        >>> from scalewise._checked import Count, checked
        >>> @checked
        ... def train(steps: Count) -> int:
        ...     return steps
        >>> train("ten")
        Traceback (most recent call last):
        scalewise._words.WrongTypeError: `steps` must be a whole number of at least 1; got 'ten'.
    """

    def guard(given: Any) -> Any:
        if not isinstance(given, type):
            return _guarded(given, "", error)
        cls: Any = given
        cls.__init__ = _guarded(cls.__init__, f"{cls.__name__}.", error)
        return cls

    return guard if target is None else guard(target)


def _guarded(function: Any, owner: str, error: type[ValueError] | None) -> Any:
    readers: dict[str, Callable[[Any], Any] | None] = {}
    order: list[Callable[[Any], Any] | None] = []
    rest: list[Callable[[Any], Any] | None] = []

    def learn() -> None:
        known = unwrap(function).__globals__
        for name, parameter in signature(function).parameters.items():
            reader = _reader(_resolved(parameter.annotation, known))
            reads = reader and partial(_held, owner + name, reader, error)
            if parameter.kind is Parameter.VAR_POSITIONAL:
                rest.append(reads)
            elif parameter.kind is not Parameter.VAR_KEYWORD:
                readers[name] = reads
                if parameter.kind is not Parameter.KEYWORD_ONLY:
                    order.append(reads)

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if not readers:
            learn()
        given = [read(v) if read else v for read, v in zip(order, args, strict=False)]
        if rest and rest[0]:
            given.extend(map(rest[0], args[len(given) :]))
        for name, value in kwargs.items():
            if read := readers.get(name):
                kwargs[name] = read(value)
        return function(*given, *args[len(given) :], **kwargs)

    return guarded


def held(name: str, value: Any, hint: Any, *, error: type[ValueError] | None = None) -> Any:
    """One value that is no argument itself, an entry of one for instance, as an annotation says."""
    reader = _reader(hint)
    return _held(name, reader, error, value) if reader else value


def _held(name: str, reader: _Reader, error: type[ValueError] | None, value: Any) -> Any:
    try:
        return reader.read(name, value)
    except _UnfitError as unfit:
        kind = error or unfit.kind
    raise kind(f"`{name}` must be {reader.words}; got {shown(value)}.")


def _resolved(annotation: Any, known: dict[str, Any]) -> Any:
    if isinstance(annotation, str):
        try:
            return eval(annotation, known)
        except NameError:  # known to type checkers alone
            return Any
    return Any if annotation is Parameter.empty else annotation


# From an annotation to what reads it


def _reader(hint: Any) -> _Reader | None:
    """The converter to a type; ``None`` for a type that everything has."""
    if isinstance(hint, TypeVar):
        return _one_of((hint,)) if hint.__constraints__ else None
    origin, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in _NUMBERS:
        return _NUMBERS[origin]
    if origin is Literal:
        return _Reader(listed(map(repr, inner)), partial(_among, inner))
    if origin is Annotated:
        reader = _reader(inner[0])
        for rule in inner[1:]:
            reader = _bounded(reader, rule) if isinstance(rule, Must) else _reader(rule)
        return reader
    if origin in (typing.Union, types.UnionType):
        return _one_of(inner)
    if not isinstance(origin, type) or origin is object or getattr(origin, "_is_protocol", False):
        return None
    if hasattr(origin, "dim_str"):
        return _array(origin)
    if issubclass(origin, Mapping) and inner:
        return _table(origin, *inner)
    if issubclass(origin, Iterable) and inner:
        return (
            _row(inner) if origin is tuple and inner[-1] is not ... else _sequence(origin, inner[0])
        )
    fits = callable if origin is Callable else lambda v: isinstance(v, origin)
    return _Reader(_words(origin), _kept(fits))


def _among(words: tuple[Any, ...], name: str, value: Any) -> Any:
    for word in words:
        if value is word or (isinstance(value, str) and value == word):
            return word
    raise _UnfitError(ValueError if isinstance(value, str) else WrongTypeError)


def _words(kind: type) -> str:
    """How one is made, if it is ours; otherwise what it is called."""
    room = kind.__module__.removeprefix("scalewise.").partition("._")[0]
    if how := getattr(kind, "_such_as", ""):
        return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__} such as {how}"
    if not kind.__module__.startswith("scalewise."):
        plain = {
            "str": "a string",
            "Callable": "a function",
            "PathLike": "a path",
            "Fraction": "a fraction",
        }
        return plain.get(
            kind.__name__, f"a {kind.__name__}{'' if room == 'builtins' else f' of `{room}`'}"
        )
    parameters = signature(kind).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    return f"{room}.{kind.__name__}({', '.join(needed) if len(needed) < 5 else '...'})"


def _kept(fits: Callable[[Any], bool]) -> Callable[[str, Any], Any]:
    def read(name: str, value: Any) -> Any:
        if fits(value):
            return value
        raise _UnfitError

    return read


def _bounded(base: _Reader | None, rule: Must) -> _Reader:
    def read(name: str, value: Any) -> Any:
        try:
            value = rule.to(_alone(value)) if rule.to else base.read(name, value) if base else value
        except TypeError:
            raise _UnfitError from None
        if not rule.holds(value):
            raise _UnfitError(ValueError)
        return value

    return _Reader(rule.words, read)


def _one_of(given: tuple[Any, ...]) -> _Reader | None:
    kinds = tuple(k for one in given for k in getattr(one, "__constraints__", (one,)))
    # A whole number is a number, and stays whole. Arrays come last: what is not one has a sentence of its own.
    rest = [k for k in kinds if k is not types.NoneType and not (k is int and float in kinds)]
    readers = [_reader(k) for k in sorted(rest, key=lambda k: hasattr(k, "dim_str"))]
    plain = tuple(k for k in kinds if isinstance(k, type))

    def read(name: str, value: Any) -> Any:
        if type(value) in plain:
            return value
        kind = WrongTypeError
        for reader in readers:
            try:
                return reader.read(name, value) if reader else value
            except _UnfitError as error:
                kind = ValueError if error.kind is ValueError else kind
        raise _UnfitError(kind)

    words = [r.words for r in readers if r] + ["None"] * (types.NoneType in kinds)
    return None if None in readers else _Reader(listed(words), read)


def _entries(value: Any) -> Any:
    """A list of what an array holds along its first axis, of any library."""
    axes = getattr(value, "ndim", 0)
    if not isinstance(axes, int) or axes < 1:
        return value
    return value.tolist() if axes == 1 and hasattr(value, "tolist") else list(value)


def _table(kind: type, key: Any, of: Any) -> _Reader:
    keys, entries = _reader(key), _reader(of)

    def read(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise _UnfitError
        table: Any = value
        found = {
            (keys.read(name, k) if keys else k): (entries.read(name, v) if entries else v)
            for k, v in table.items()
        }
        return found if keys or entries else value

    return _Reader(f"a dictionary{f' of values, each {entries.words}' if entries else ''}", read)


def _sequence(kind: type, of: Any) -> _Reader:
    inner = _reader(of)
    kinds = (list, tuple) if kind in (list, tuple) else kind

    def read(name: str, value: Any) -> Any:
        value = _entries(value)
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, kinds):
            raise _UnfitError
        if inner is None:
            return value
        found = [inner.read(name, entry) for entry in value]
        if isinstance(value, set | frozenset):
            return type(value)(found)
        return tuple(found) if isinstance(value, tuple) or kind is tuple else found

    return _Reader(f"a sequence{f' of values, each {inner.words}' if inner else ''}", read)


def _row(kinds: tuple[Any, ...]) -> _Reader:
    inner = [_reader(kind) for kind in kinds]

    def read(name: str, value: Any) -> Any:
        value = _entries(value)
        if not isinstance(value, list | tuple) or len(value) != len(inner):
            raise _UnfitError
        return tuple(r.read(name, v) if r else v for r, v in zip(inner, value, strict=True))

    each = {reader.words: None for reader in inner if reader}
    return _Reader(f"{len(inner)} values, each {listed(each)}", read)


def _array(kind: Any) -> _Reader | None:
    """An array of finite numbers with these axes; ``*batch`` and ``...`` are any in their place."""
    from numpy import ndarray

    from scalewise._arrays import finite_array

    sort = "whole" if all("int" in dtype for dtype in kind.dtypes) else "real"
    axes = ["..." if axis[0] in "*." else axis.lstrip("_") for axis in kind.dim_str.split()]

    def read(name: str, value: Any) -> Any:
        return finite_array(f"`{name}`", value, axes, sort=sort)

    return _Reader("an array of numbers", read) if kind.array_type is ndarray else None


# Numbers, alone and in bounds


def _alone(value: Any) -> Any:
    """The number in an array without axes; a masked one would give what is under its mask."""
    single = getattr(value, "shape", None) == () and not getattr(value, "mask", False)
    return value.item() if single and hasattr(value, "item") else value


def _python(own: tuple[type, ...], wanted: type) -> Callable[[str, Any], Any]:
    """A number as Python has it, from NumPy or from an array without axes."""

    def read(name: str, value: Any) -> Any:
        if type(value) in own:
            return value
        value = _alone(value)
        if not isinstance(value, wanted) or (type(value) is bool and bool not in own):
            raise _UnfitError
        return own[-1](value) if isinstance(value, Integral) else float(value)

    return read


_NUMBERS: dict[Any, _Reader | None] = {
    Any: None,
    bool: _Reader("True or False", _python((bool,), bool)),
    int: _Reader("a whole number", _python((int,), Integral)),
    float: _Reader("a number", _python((float, int), Real)),
}


def dtype_of(value: Any) -> Any:
    """NumPy's dtype of that name or kind; a TypeError where there is none, `None` included."""
    import numpy as np

    try:
        found = np.dtype(value)
    except ValueError as error:
        raise TypeError from error
    if value is None:  # NumPy's default, and nobody's choice
        raise TypeError
    return found


def at_least(least: int) -> Must:
    """A whole number from here on."""
    return Must(f"a whole number of at least {least}", lambda value: value >= least)


def _told(value: Any) -> Any:
    if not (callable(value) or value is None or isinstance(value, bool)):
        raise TypeError
    return value if callable(value) else None


Count = Annotated[int, at_least(1)]
Index = Annotated[int, at_least(0)]
FiniteNumber = Annotated[float | int, Must("a finite number", lambda v: -math.inf < v < math.inf)]
Positive = Annotated[float | int, Must("a positive finite number", lambda v: 0 < v < math.inf)]
NotNegative = Annotated[
    float | int, Must("a finite number of at least 0", lambda v: 0 <= v < math.inf)
]
# Of a verb that has no bar of its own: nobody to tell is None, whichever way it is said.
Told = Annotated[Any, Must("a function, True, False or None", to=_told)]
Precision = Annotated[
    Any, Must("float64 or float32", lambda dtype: dtype.str[1:] in ("f8", "f4"), dtype_of)
]
