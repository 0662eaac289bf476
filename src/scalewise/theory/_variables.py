"""Results of the theory as variables of a Dataset, with their companions: errors, sizes and the small parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from scalewise._labelled import dataset, variable
from scalewise._version import __version__
from scalewise.networks import Network
from scalewise.networks.spi import digest_of
from scalewise.observables import OBSERVABLES, POSITION_DIMS, SAMPLE_DIMS
from scalewise.theory.order._of_pairs import OfPairs

Progress = Callable[[str, int, int], None]
Report = Callable[[int, int], None]
Tensors = dict[str, tuple[Any, Any]]  # by letter: values and their errors
SIZE = "Size of what is neglected of it, in units of the small parameter"


def letter_of(name: str) -> str:
    """The letter of an observable, by which the theory knows it."""
    return OBSERVABLES[name].letter


def letters_of(names: Sequence[str]) -> dict[str, str]:
    """The letters of those observables that are not of leading order."""
    return {name: letter_of(name) for name in names if OBSERVABLES[name].order}


def beside(of: xr.Variable, dims: Any, values: np.ndarray | OfPairs, what: str) -> xr.Variable:
    """A companion of a variable in its own units."""
    return variable(dims, values, {"long_name": what, "units": of.attrs["units"]})


def epsilon(values: np.ndarray, pairs: int, exact: int = 2) -> xr.Variable:
    """The small parameter at some layers, sought among so many pairs of distinct inputs.

    Up to layer `exact` the coefficient of 1/n is all there is.
    """
    return variable(
        ("layer",),
        values,
        {
            "symbol": "max_ab V_abab / (n K_aa K_bb)",
            "equation": "PDLT (5.128), over pairs",
            "units": "dimensionless",
            "long_name": "Largest relative variance of the metric, and of what norms below divide by: the small "
            "parameter of the theory.",
            "pairs": pairs,
            "exact_layers": exact,
        },
    )


def epsilon_of_ntk(values: np.ndarray) -> xr.Variable:
    """What one NTK that an observable is made of adds to the small parameter at some layers."""
    return variable(
        ("layer",),
        values,
        {
            "symbol": "max_a (A + 2 B)_aaaa / (2 n Theta_aa^2)",
            "equation": "derived",
            "units": "dimensionless",
            "long_name": "Half the largest relative variance of the NTK of one output; all of it where weights "
            "are used again or norms are below, and of what these divide by.",
        },
    )


def progress_on(progress: Progress | None, what: str) -> Report | None:
    """The report of one part of a prediction, to whoever wants to know."""
    if progress is None:
        return None
    return lambda done, total: progress(what, done, total)


def as_dataset(
    net: Network, kept: tuple[int, ...], x: np.ndarray, data: dict[str, xr.Variable]
) -> xr.Dataset:
    """The Dataset of a prediction, refused if anything in it is not finite."""
    used = {d for v in data.values() for d in v.dims}
    coords = {"layer": list(kept), **{d: np.arange(len(x)) for d in SAMPLE_DIMS if d in used}}
    for name in POSITION_DIMS:
        if name in used:
            coords[name] = np.arange(next(v.sizes[name] for v in data.values() if name in v.sizes))
    attrs = {
        "kind": "theory",
        **net.attributes(),
        "inputs": digest_of(x),
        "scalewise": __version__,
    }
    for name, found in data.items():
        # What is not in memory has been looked at where it was made.
        if isinstance(found._data, np.ndarray) and not np.all(np.isfinite(found.values)):
            raise FloatingPointError(
                f"The prediction of {name!r} is not finite; please report this network: {net}."
            )
    return dataset(data, coords, attrs)
