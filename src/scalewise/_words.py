"""What messages are made of: alternatives, values as they are shown, names that nearly fit."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any, NoReturn

__all__ = ["WrongTypeError", "listed", "refuse_name", "shown"]


_SHOWN = (str, bytes, int, float, complex, list, tuple, dict, set, frozenset)


class WrongTypeError(TypeError, ValueError):
    """An argument of another kind than wanted; a wrong type to some callers, a wrong value to others."""


def shown(value: Any) -> str:
    """A value as a message shows it: a short one as it is, another by its kind."""
    what, text = type(value).__name__, repr(value)
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    if (value is None or isinstance(value, _SHOWN)) and len(text) < 60:
        return text
    shape = getattr(value, "shape", None)
    article = "an" if what[0].lower() in "aeio" or what.startswith("nd") else "a"
    if isinstance(shape, tuple):
        return f"{article} {what} of shape {tuple(shape)}"
    kind = (
        getattr(value, "attrs", {}).get("kind") if what == "Dataset" else None
    )  # results tell theirs
    return f"{article} {what}{f' of kind {kind!r}' if kind else ''}"


def listed(words: Iterable[str], conjunction: str = "or") -> str:
    """Words as a sentence has them: a, b or c."""
    *some, last = words
    return f"{', '.join(some)} {conjunction} {last}" if some else last


def refuse_name(name: str, value: Any, known: Iterable[str], more: str = "") -> NoReturn:
    """Refuse a name that is not known, with the one that was probably meant; `more` says what else may be given."""
    from difflib import get_close_matches

    names = tuple(known)
    near = get_close_matches(str(value), names, n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    allowed = listed([*map(repr, names), *([more] if more else [])])
    raise ValueError(f"`{name}` must be {allowed}; got {shown(value)}.{meant}")
