"""What predictions at a finite width share: which widths they are for, and numbers beside each variable."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from scalewise._labelled import variable


def hidden_widths(theory: xr.Dataset, width: int | Sequence[int] | None) -> list[int]:
    """All hidden widths, in the ratios that the theory was made for: its 1/n terms depend on them."""
    own = [int(n) for n in theory.attrs["hidden_widths"]]
    if width is None or not own:
        return own
    wanted = list(width) if isinstance(width, Sequence) else [width * n // own[0] for n in own]
    first = width if isinstance(width, int) else (wanted or [0])[0]
    # Whole numbers: cross-multiplied ratios are exact.
    if len(wanted) != len(own) or [a * own[0] for a in wanted] != [first * b for b in own]:
        raise ValueError(
            f"`width` must keep the ratios of the hidden widths {own} that the theory was made for; got "
            f"{width}. Take whole multiples of them, or predict again for the new shape."
        )
    return wanted


def error_of(data: xr.Dataset, name: str) -> np.ndarray:
    if f"{name}_error" in data:
        values = data[f"{name}_error"].transpose(*data[name].dims).values
        return np.asarray(values, dtype=np.float64)
    return np.zeros(data[name].shape)


def companion(
    theory: xr.Dataset | Mapping[str, xr.Variable], name: str, values: np.ndarray, what: str
) -> xr.Variable:
    data = theory[name]
    attrs = {"units": data.attrs.get("units", ""), "long_name": f"{what} {name}"}
    return variable(data.dims, values, attrs)
