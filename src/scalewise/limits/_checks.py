"""Checks of arguments: numbers, whole numbers, tables, and kinds of things."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from scalewise._arrays import float_array, real_array

__all__ = [
    "array",
    "is_number",
    "is_whole",
    "kind",
    "not_negative",
    "number",
    "positive",
    "precision",
    "table",
    "whole",
]


def is_number(value: Any) -> bool:
    """Whether it is one real number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether it is one whole number."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def number(
    name: str, value: Any, rule: str, good: Callable[[Any], bool] = lambda value: True
) -> None:
    """Refuse what is not a finite number or does not obey the rule."""
    if not (_is_finite(value) and good(value)):
        raise ValueError(f"`{name}` must be {rule} and finite; got {value!r}.")


def whole(name: str, value: Any, least: int, *, what: str = "") -> None:
    """Refuse what is not a whole number or is too small; `what` may say what it counts."""
    rule = f"`{name}` {f'{what} and ' if what else ''}must be"
    if not is_whole(value):
        raise ValueError(f"{rule} a whole number of at least {least}; got {value!r}.")
    if value < least:
        raise ValueError(f"{rule} at least {least}; got {value}.")


def table(name: str, values: Any, *, finite: bool = True) -> np.ndarray:
    """A new array of numbers, finite ones if wanted, or a refusal."""
    array = float_array(f"`{name}`", values)
    if finite and not np.isfinite(array).all():
        raise ValueError(f"`{name}` must hold finite numbers only. Clean the data first.")
    return array


def kind(name: str, value: Any, wanted: Mapping[type, str]) -> None:
    """Refuse another kind of thing, saying how the right ones are made."""
    if not isinstance(value, tuple(wanted)):
        *some, last = wanted.values()
        listed = f"{', '.join(some)} or {last}" if some else last
        raise TypeError(f"`{name}` must be {listed}; got {_short(value)}.")


def positive(name: str, value: Any) -> None:
    """Refuse what is not a finite number above 0."""
    number(name, value, "positive", lambda value: value > 0)


def _is_finite(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _short(value: Any) -> str:
    text = repr(value)
    what = type(value).__name__
    return f"{what} {text}" if len(text) < 40 and "\n" not in text else what


def array(
    name: str, values: Any, axes: Sequence[str | int] | None = None, *, whole: bool = False
) -> np.ndarray:
    """Finite numbers as an array with these axes, not copied if it is one already, or a refusal.

    Axes are names, of any length, or lengths; ``None`` takes any. Whole numbers stay so, others become floats.
    """
    found = real_array(f"`{name}`", values, "whole" if whole else "real")
    fits = axes is None or (
        found.ndim == len(axes)
        and all(isinstance(a, str) or a == n for a, n in zip(axes, found.shape, strict=True))
    )
    if found.dtype.kind not in ("iu" if whole else "biuf") or not fits:
        shape = "" if axes is None else f" of shape ({', '.join(map(str, axes))})"
        raise ValueError(
            f"`{name}` must be an array of {'whole' if whole else 'real'} numbers{shape}; got "
            f"shape {found.shape} of {found.dtype}."
        )
    if not np.isfinite(found).all():
        raise ValueError(f"`{name}` must hold finite numbers only. Clean the data first.")
    return found if found.dtype.kind in "f" or whole else found.astype(np.float64)


def not_negative(name: str, value: Any) -> None:
    """Refuse what is not a finite number of at least 0."""
    if not (_is_finite(value) and value >= 0):
        raise ValueError(f"`{name}` must be finite and at least 0; got {value!r}.")


def precision(dtype: Any) -> np.dtype:
    """The NumPy type of float64 or float32; another one is refused."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in (np.float64, np.float32):
        raise ValueError(f"`dtype` must be float64 or float32; got {_named(dtype)}.")
    return found


def _named(dtype: Any) -> str:
    return dtype.__name__ if isinstance(dtype, type) else repr(dtype)
