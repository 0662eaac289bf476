"""A built-in activation behind somebody's callable, found by what it computes.

Not by its name: ``torch.nn.GELU(approximate="tanh")`` and a user's ``tanh`` that is twice the hyperbolic
tangent are both told by their values. The callable may belong to any library.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scalewise._arrays import real_array
from scalewise.activations._activation import Activation

# Generic arguments where preactivations are, and far out, where a function may be cut off.
_NEAR = np.linspace(-30.0, 30.0, 1201) + 0.0012345
_OUT = np.geomspace(30.1, 1.7e8, 60)
_SMALL = np.geomspace(1.3e-9, 0.021, 30)
PROBES = np.concatenate([_NEAR, _OUT, -_OUT, _SMALL, -_SMALL, [0.0, 1.0, -1.0, 2.0]])
_ZERO, _ONE, _MINUS, _TWO = range(PROBES.size - 4, PROBES.size)
_LEFT = int(np.argmin(np.abs(PROBES + 1e4)))


class NotTraceableError(ValueError):
    """JAX cannot trace it; it may still be a built-in activation of another library."""


def recognise(
    values: np.ndarray,
    candidates: Callable[[dict[str, float]], Iterator[Activation]],
    tolerance: float,
) -> Activation | None:
    """The first candidate with these values at `PROBES`; ``None`` if none agrees everywhere.

    `candidates` are made for what each parameter must be by the values; `tolerance` is relative to the larger of
    1, the argument and the value.
    """
    if values.shape != PROBES.shape or not np.isfinite(values[: _NEAR.size]).all():
        return None
    with np.errstate(all="ignore"):
        for sigma in candidates(_parameters(values)):
            own = sigma(PROBES)
            size = np.maximum(np.maximum(1.0, np.abs(PROBES)), np.abs(own))
            if np.all((own == values) | (np.abs(own - values) <= tolerance * size)):
                return sigma
    return None


def _parameters(values: np.ndarray) -> dict[str, float]:
    """Parameter that each family must have, if the values are of that family."""
    zero, one, two = values[[_ZERO, _ONE, _TWO]]
    found = {
        "leaky_relu": -values[_MINUS],
        "elu": -values[_LEFT],
        "celu": -values[_LEFT],
        "softplus": math.log(2) / zero if zero > 0 else math.nan,
        "monomial": round(math.log2(two / one)) if one > 0 and two > one else math.nan,
    }
    # Twelve digits take back the roundings of the logarithm.
    return {name: float(f"{p:.12g}") for name, p in found.items() if math.isfinite(p)}


def foreign_values(function: Callable[[Any], Any], label: str) -> np.ndarray | None:
    """Values at `PROBES` of a callable that JAX cannot trace: of torch, of NumPy, or of one number.

    Raises:
        ValueError: If the same arguments give other values when asked again.
    """
    for call in (_by_torch, _by_numpy, _one_by_one):
        try:
            with np.errstate(all="ignore"):
                first, second = (call(function) for _ in range(2))
        except Exception:  # it belongs to another library, whose errors are its own
            continue
        if first is None or second is None or first.shape != PROBES.shape:
            continue
        if not np.array_equal(first, second, equal_nan=True):
            raise ValueError(
                f"The activation {label!r} gives other values for the same arguments when it is called "
                "again. Switch its randomness off, for example with module.eval()."
            )
        return first
    return None


def _by_torch(function: Callable[[Any], Any]) -> np.ndarray | None:
    torch = sys.modules.get("torch")  # whoever has a function of torch has imported it
    if torch is None:
        return None
    own: Any = function
    if isinstance(own, torch.nn.Module):
        own = copy.deepcopy(own).cpu().double()  # the user's own stays as it is
    with torch.no_grad():
        found = own(torch.from_numpy(PROBES.copy()))
        return _floats(found) if isinstance(found, torch.Tensor) else None


def _by_numpy(function: Callable[[Any], Any]) -> np.ndarray:
    return _floats(function(PROBES.copy()))


def _one_by_one(function: Callable[[Any], Any]) -> np.ndarray:
    def value(z: float) -> Any:
        try:
            return function(z)
        except OverflowError:
            return math.inf

    return _floats([value(z) for z in PROBES.tolist()])


def _floats(values: Any) -> np.ndarray:
    found = real_array("values", values)
    return found.astype(np.float64) if found.dtype != np.float32 else np.empty(0)
