"""What people have as numbers, read in one place: tensors, frames, lists and arrays of any library.

Nothing is imported to recognise a thing. What counts is what it can do: a tensor detaches itself and
comes to the CPU, a sparse matrix becomes dense, and the rest speaks NumPy's protocols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalewise._words import WrongTypeError, shown

__all__ = ["finite_array", "float_array", "not_finite", "real_array"]

# What a tensor must do before NumPy can read it; each is free where there is nothing to do.
_STEPS = ("detach", "cpu", "to_dense", "resolve_conj", "resolve_neg", "toarray")


def real_array(name: str, values: Any, sort: str = "real") -> np.ndarray:
    """Real numbers as a NumPy array of integers, booleans or floats, not copied if it is one already.

    Args:
        name: What to call the argument in a message, with its quotes: ``"`x`"``.
        values: An array, tensor, data frame, list or number, of any library that NumPy can read or that
            has the methods of a tensor. A number type that NumPy does not know (bfloat16, float8, the
            entries of an object array) becomes float64.
        sort: What a message calls the numbers that are wanted: ``"real"`` or ``"whole"``.

    Raises:
        WrongTypeError: If an entry is masked, missing, complex or not a number, if rows differ in length,
            or if `values` cannot be read.
    """
    if type(values) is np.ndarray:
        found = values
    else:
        try:
            found = _read(name, values, sort)
        except WrongTypeError:
            raise
        except Exception as error:  # each library has its own
            raise WrongTypeError(
                f"{name} must be an array of {sort} numbers; {shown(values)} cannot be read as one "
                f"({(str(error).splitlines() or [type(error).__name__])[0].rstrip('.')})."
            ) from error
    dtype = found.dtype
    if dtype.kind in "biuf":
        return found
    if dtype.kind == "c":
        raise WrongTypeError(
            f"{name} must be an array of {sort} numbers; got complex ones of dtype {dtype}. Take the "
            "real part, or real and imaginary parts as separate features."
        )
    if dtype.kind == "O":
        return _from_objects(name, found, values, sort)
    if dtype.kind == "V" and dtype.names is None and np.can_cast(dtype, np.float64):
        return found.astype(np.int64 if np.can_cast(dtype, np.int64) else np.float64)
    raise WrongTypeError(
        f"{name} must be an array of {sort} numbers; got an array of dtype {dtype}. Convert it, for "
        "example with numpy.asarray(x, dtype=float)."
    )


def float_array(name: str, values: Any) -> np.ndarray:
    """`real_array` as a new C-contiguous array of float64, which the caller owns."""
    found = real_array(name, values)
    with np.errstate(over="ignore"):  # of numpy.longdouble: what overflows is refused as not finite
        return np.array(found, dtype=np.float64, order="C")


def finite_array(
    name: str, values: Any, axes: Sequence[str] = ("...",), *, sort: str = "real"
) -> np.ndarray:
    """Finite numbers as an array with these axes, not copied if it is one already, or a refusal.

    Axes are names, of any length, or lengths in digits; ``"..."`` stands for any in its place. Whole numbers stay
    so where they are wanted, and become float64 elsewhere.
    """
    found = real_array(name, values, sort)
    fits = found.ndim >= len(axes) - 1 if "..." in axes else found.ndim == len(axes)
    if fits and "..." not in axes:
        fits = all(not a.isdigit() or int(a) == n for a, n in zip(axes, found.shape, strict=True))
    if found.dtype.kind not in ("iu" if sort == "whole" else "biuf") or not fits:
        shape = "" if list(axes) == ["..."] else f" of shape ({', '.join(axes)})"
        raise WrongTypeError(
            f"{name} must be an array of {sort} numbers{shape}; got shape {found.shape} of {found.dtype}."
        )
    if not np.isfinite(found).all():
        raise WrongTypeError(not_finite(name, found))
    return found if found.dtype.kind == "f" or sort == "whole" else found.astype(np.float64)


def evenly(sizes: Sequence[float] | np.ndarray, most: int) -> np.ndarray:
    """Numbers of at most so many, evenly from the smallest to the largest, both ends among them; ascending."""
    order = np.argsort(sizes, kind="stable")
    return np.unique(order[np.linspace(0, len(order) - 1, most).round().astype(int)])


def not_finite(name: str, array: np.ndarray) -> str:
    """The sentence about numbers that are not finite, with the first of them."""
    place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    where = f"{name.strip('`')}[{', '.join(map(str, place))}]" if place else "it"
    return f"{name} must hold finite numbers only; {where} is {array[place]}. Clean the data first."


def _read(name: str, values: Any, sort: str) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(values)
        if masked.any():
            raise WrongTypeError(
                f"{name} must hold a number in every place; {int(masked.sum())} of {masked.size} are "
                "masked. Drop those samples, or fill them, for example with x.filled(0.0)."
            )
        return np.asarray(values.data)
    if isinstance(values, list | tuple):
        return _stacked(name, values, sort)
    for step in _STEPS:
        method = getattr(values, step, None)
        if callable(method):
            values = method()
    if getattr(values, "is_quantized", False):
        values = values.dequantize()
    is_complex = getattr(values, "is_complex", None)
    if callable(is_complex) and is_complex():
        raise WrongTypeError(
            f"{name} must be an array of {sort} numbers; got complex ones of dtype {values.dtype}. Take "
            "the real part, or real and imaginary parts as separate features."
        )
    try:
        return np.asarray(values)
    except TypeError:
        if not callable(getattr(values, "double", None)):
            raise
        return np.asarray(values.double())  # a number type that NumPy does not know


def _stacked(name: str, values: list[Any] | tuple[Any, ...], sort: str) -> np.ndarray:
    """An array from a list, read row by row: entries may be masked, or tensors of any library."""
    if set(map(type, values)) <= {int, float, bool}:
        return np.asarray(values)
    rows = [real_array(name, value, sort) for value in values]
    if len({row.shape for row in rows}) > 1:
        raise WrongTypeError(
            f"{name} must be an array of {sort} numbers with rows of one length; got rows of different lengths."
        )
    return np.stack(rows)


def _from_objects(name: str, found: np.ndarray, values: Any, sort: str) -> np.ndarray:
    """Numbers of Python, whole ones as they are, or a refusal that names the first other thing."""
    for place, entry in np.ndenumerate(found):
        if isinstance(entry, str | bytes | complex) or not hasattr(entry, "__float__"):
            what = shown(values) if found.ndim == 0 else f"{shown(entry)} at {list(place)}"
            raise WrongTypeError(f"{name} must be an array of {sort} numbers; got {what}.")
    try:
        plain = np.array(found.tolist())
        return plain if plain.dtype.kind in "iuf" else found.astype(np.float64)
    except (OverflowError, ValueError, TypeError) as error:
        raise WrongTypeError(
            f"{name} must be an array of {sort} numbers that float64 can hold ({error})."
        ) from error
