"""What the room refuses at its border, said once: what is no number, no whole number, no table, another thing."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["is_number", "kind", "number", "table", "whole"]


def is_number(value: Any) -> bool:
    """Whether it is one real number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def number(name: str, value: Any, rule: str, good: bool = True) -> None:
    """Refuse what is no finite number, or does not obey the rule."""
    if not (is_number(value) and math.isfinite(value) and good):
        raise ValueError(f"`{name}` must be {rule} and finite; got {value!r}.")


def whole(name: str, value: Any, least: int) -> None:
    """Refuse what is no whole number, or too small."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ValueError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}; got {value}.")


def table(name: str, values: Any) -> np.ndarray:
    """A new array of finite numbers, or a refusal."""
    try:
        raw = np.asarray(values)
        array = raw.astype(np.float64) if raw.dtype.kind in "biuf" else None
    except (TypeError, ValueError):  # rows of unequal length
        array = None
    if array is None:
        raise ValueError(
            f"`{name}` must be an array of real numbers with rows of one length; got {_short(values)}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must hold finite numbers only. Clean the data first.")
    return array


def kind(name: str, value: Any, wanted: Mapping[type, str]) -> None:
    """Refuse another kind of thing, saying how the right ones are made."""
    if not isinstance(value, tuple(wanted)):
        *some, last = wanted.values()
        listed = f"{', '.join(some)} or {last}" if some else last
        raise TypeError(f"`{name}` must be {listed}; got {_short(value)}.")


def _short(value: Any) -> str:
    text = repr(value)
    what = type(value).__name__
    return f"{what} {text}" if len(text) < 40 and "\n" not in text else what
